//! Finds servers by name in a configuration.

use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::pool::naming::{self, NameOrigin};
use switchboard::sources::loader::Configuration;

use crate::exit::Exit;
use crate::invocation::{Invocation, demo_server};
use crate::outcome::Failure;

/// The message wherever an administrator's exclusive control blocks something.
pub const ENTERPRISE_LOCK: &str =
    "enterprise MCP configuration is active and has exclusive control over MCP servers";

impl Invocation {
    /// Fails while an administrator's file has exclusive control.
    pub fn expect_unlocked(&self, configuration: &Configuration) -> Result<(), Failure> {
        match &configuration.effective.exclusive_source {
            None => Ok(()),
            Some(source) => {
                let file = self.display_source(source);
                Err(Failure::new(Exit::Policy, ENTERPRISE_LOCK).hint(&format!(
                    "the servers in {file} are the only ones; ask your administrator"
                )))
            }
        }
    }

    /// The failure for a name that is not configured.
    pub fn not_found(&self, configuration: &Configuration, name: &str) -> Failure {
        let names = configuration.effective.servers.iter().map(|server| server.name.as_str());
        let failure = Failure::new(Exit::NotFound, &format!("there is no server `{name}`"));
        match switchboard::config::file::entry_decoder::nearest(name, names) {
            Some(nearest) => failure.hint(&format!("did you mean `{nearest}`?")),
            None if name == demo_server::NAME => {
                failure.hint("it exists only while no server is configured")
            }
            None if configuration.effective.servers.is_empty()
                || demo_server::only_server(configuration).is_some() =>
            {
                failure.hint("no servers are configured yet; `swb add` adds a server")
            }
            None => failure.hint("`swb list --all` shows what is configured"),
        }
    }

    /// Every definition of a name, the selected one first.
    pub fn definitions<'c>(
        &self,
        configuration: &'c Configuration,
        name: &str,
    ) -> Result<Vec<&'c ResolvedServer>, Failure> {
        let mut found: Vec<&ResolvedServer> =
            configuration.effective.servers.iter().filter(|it| it.name == name).collect();
        found.sort_by_key(|server| match (server.is_selected(), &server.state) {
            (true, ServerState::Invalid) => 1,
            (true, _) => 0,
            (false, _) => 2,
        });
        if found.is_empty() {
            return Err(self.not_found(configuration, name));
        }
        Ok(found)
    }
}

/// A server's name as it appears in exposed tool names and rules.
pub fn exposed_server_name(server: &ResolvedServer) -> String {
    naming::prefix(&server.name, NameOrigin::of(server.scope()))
}
