//! Finds servers by name in a configuration.

use std::collections::BTreeSet;

use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::permission::ToolPins;
use switchboard::pool::naming::{self, NameOrigin};
use switchboard::sources::loader::Configuration;

use crate::exit::Exit;
use crate::invocation::{Invocation, demo_server};
use crate::outcome::Failure;
use crate::output::unusable_files;

/// How many known names a hint lists.
const MAX_LISTED_NAMES: usize = 10;

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
        let names: BTreeSet<&str> =
            configuration.effective.servers.iter().map(|server| server.name.as_str()).collect();
        let failure = Failure::new(Exit::NotFound, &format!("there is no server `{name}`"));
        let nearest =
            switchboard::config::file::entry_decoder::nearest(name, names.iter().copied());
        let failure = match nearest {
            Some(nearest) if names.len() == 1 => {
                failure.hint(&format!("did you mean `{}`?", printable(nearest)))
            }
            Some(nearest) => failure.hint(&format!(
                "did you mean `{}`? The configured servers are {}",
                printable(nearest),
                name_list(&names)
            )),
            None if name == demo_server::NAME => {
                failure.hint("it exists only while no server is configured")
            }
            None if configuration.effective.servers.is_empty()
                || demo_server::only_server(configuration).is_some() =>
            {
                failure.hint("no servers are configured yet; `swb add` adds a server")
            }
            None => failure.hint(&format!("the configured servers are {}", name_list(&names))),
        };
        unusable_files::or_not_found(configuration, failure)
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

/// Names for a hint, up to a limit.
fn name_list(names: &BTreeSet<&str>) -> String {
    let shown: Vec<String> =
        names.iter().take(MAX_LISTED_NAMES).map(|it| format!("`{}`", printable(it))).collect();
    match names.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more: `swb list --all`", shown.join(", ")),
    }
}

/// The selected servers whose tool may have this exposed name. Usually one; more where the prefix of one server begins
/// with another's. Empty where the name does not say a server, as the names of built-in tools.
pub fn servers_of_tool(configuration: &Configuration, tool: &str) -> Vec<String> {
    let selected = configuration.effective.servers.iter().filter(|it| it.is_selected());
    selected.filter(|it| may_own_tool(it, tool)).map(|server| server.name.clone()).collect()
}

/// A definition that is not selected and whose tool may have this name, such as one that the user rejected.
pub fn unselected_server_of_tool<'c>(
    configuration: &'c Configuration,
    tool: &str,
) -> Option<&'c ResolvedServer> {
    let servers = configuration.effective.servers.iter();
    servers.filter(|it| !it.is_selected()).find(|it| may_own_tool(it, tool))
}

fn may_own_tool(server: &ResolvedServer, tool: &str) -> bool {
    let by_server = tool.strip_prefix(server.name.as_str());
    by_server.is_some_and(|rest| rest.starts_with(['/', '.']))
        || may_have_prefix(tool, &format!("mcp__{}__", exposed_server_name(server)))
}

/// Whether a tool's exposed name may begin with a prefix. The prefix of a long server name is cut and followed by a
/// hash.
fn may_have_prefix(tool: &str, prefix: &str) -> bool {
    let is_cut = || {
        let stem = tool.rsplit_once('_').map(|(stem, _hash)| stem);
        tool.len() == naming::MAX_NAME_BYTES && stem.is_some_and(|stem| prefix.starts_with(stem))
    };
    tool.starts_with(prefix) || is_cut()
}

/// A server's name as it appears in exposed tool names and rules.
pub fn exposed_server_name(server: &ResolvedServer) -> String {
    naming::prefix(&server.name, NameOrigin::of(server.scope()))
}

/// A server, and what follows its name in the name of one of its tools.
#[derive(Debug, Clone, Copy)]
pub struct ToolOfServer<'a> {
    /// The server.
    pub server: &'a ResolvedServer,
    /// The rest of the name.
    pub tool: &'a str,
}

/// The server whose tool this name would be: `mcp__server__tool`, `server/tool` or `server.tool`. Where several servers
/// fit, a selected one with the longest name.
pub fn server_of_tool<'a>(
    configuration: &'a Configuration,
    tool: &'a str,
) -> Option<ToolOfServer<'a>> {
    let found = configuration.effective.servers.iter().filter_map(|server| {
        let exposed = || tool.strip_prefix(&format!("mcp__{}__", exposed_server_name(server)));
        let by_server = || tool.strip_prefix(server.name.as_str())?.strip_prefix(['/', '.']);
        Some(ToolOfServer { server, tool: exposed().or_else(by_server)? })
    });
    found.max_by_key(|it| (it.server.is_selected(), it.server.name.len()))
}

/// The tools that had another definition at their last call than the approved one.
pub fn changed_tools(
    invocation: &Invocation,
    configuration: &Configuration,
) -> BTreeSet<(String, String)> {
    let pins = ToolPins::open(&invocation.env.paths.pins());
    let servers = configuration.effective.servers.iter().filter(|it| it.is_selected());
    let changes = servers.flat_map(|server| {
        let changes = server.fingerprint.as_ref().map(|it| pins.changes(&server.name, it));
        changes.into_iter().flatten().map(|it| (server.name.clone(), it.tool))
    });
    changes.collect()
}
