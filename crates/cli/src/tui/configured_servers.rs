//! What is configured, as the panel needs it: words only, secrets covered. Made where the configuration was read.

use switchboard::config::merge::{PendingReason, ResolvedServer, ServerState};
use switchboard::sources::loader::Configuration;

use crate::invocation::Invocation;
use crate::output::entry_text;
use crate::output::server_text;
use crate::output::style::TextStyle;
use crate::tui::theme::Tone;

/// Every server that somebody can do something about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfiguredServers {
    /// By name.
    pub servers: Vec<ConfiguredServer>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredServer {
    /// Its name.
    pub name: String,
    /// The scope that it came from.
    pub scope: &'static str,
    /// How it is reached.
    pub transport: &'static str,
    /// Where it is defined, as people read it: file and line.
    pub origin: String,
    /// What it runs or reaches, in lines.
    pub entry: String,
    /// The hash that an approval binds to.
    pub fingerprint: Option<String>,
    /// What may become of it.
    pub eligibility: Eligibility,
    /// What became of it, in few words, and how good that is.
    pub state: (Tone, String),
    /// The same in a sentence, where there is something to say.
    pub reason: Option<String>,
    /// What is wrong or doubtful about its entry.
    pub problems: Vec<String>,
    /// Do its tools run without asking?
    pub is_trusted: bool,
    /// Could somebody sign in there?
    pub is_remote: bool,
}

/// What may become of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eligibility {
    /// It may run.
    Runnable,
    /// Somebody has to decide first.
    PendingApproval,
    /// Somebody said no.
    Rejected,
    /// It is switched off.
    Disabled,
    /// Nothing that is done here helps.
    Blocked,
}

impl ConfiguredServers {
    /// Of a configuration.
    pub fn from_configuration(
        session: &Invocation,
        configuration: &Configuration,
    ) -> ConfiguredServers {
        let matters =
            |it: &&ResolvedServer| it.is_selected() || matches!(it.state, ServerState::Rejected);
        let servers = configuration.effective.servers.iter().filter(matters);
        ConfiguredServers {
            servers: servers.map(|it| ConfiguredServer::from_server(session, it)).collect(),
        }
    }

    /// One by its name.
    pub fn find(&self, name: &str) -> Option<&ConfiguredServer> {
        self.servers.iter().find(|it| it.name == name)
    }
}

impl ConfiguredServer {
    fn from_server(session: &Invocation, server: &ResolvedServer) -> ConfiguredServer {
        let transport = server.entry.as_ref().map_or("-", |it| it.transport.kind().id());
        let tone = match server_text::state_style(&server.state) {
            TextStyle::Success => Tone::Success,
            TextStyle::Warning => Tone::Warning,
            TextStyle::Error => Tone::Error,
            TextStyle::Dim => Tone::Muted,
            TextStyle::Bold => Tone::Strong,
        };
        ConfiguredServer {
            name: server.name.clone(),
            scope: server.scope().id(),
            transport,
            origin: session.display_origin(&server.origin),
            entry: server.entry.as_ref().map(entry_text::entry_text).unwrap_or_default(),
            fingerprint: server.fingerprint.as_ref().map(|it| it.as_str().to_owned()),
            eligibility: eligibility_of(&server.state),
            state: (tone, server_text::state_text(&server.state)),
            reason: server_text::state_reason(&session.env, server),
            problems: server.problems.iter().map(|it| it.kind.to_string()).collect(),
            is_trusted: server.is_trusted(),
            is_remote: server.spec.as_ref().is_some_and(|it| it.transport.url().is_some()),
        }
    }
}

fn eligibility_of(state: &ServerState) -> Eligibility {
    match state {
        ServerState::Ready => Eligibility::Runnable,
        ServerState::Pending(PendingReason::New | PendingReason::Changed) => {
            Eligibility::PendingApproval
        }
        ServerState::Rejected => Eligibility::Rejected,
        ServerState::Disabled(_) => Eligibility::Disabled,
        ServerState::Refused(_)
        | ServerState::Shadowed { .. }
        | ServerState::Duplicate { .. }
        | ServerState::Excluded(_)
        | ServerState::Invalid => Eligibility::Blocked,
    }
}
