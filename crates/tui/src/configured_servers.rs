//! The configured servers as the server panel shows them: texts only, with secrets masked. The backend makes them.

use switchboard::config::merge::{PendingReason, ServerState};

use crate::theme::Tone;

/// The servers that the user can act on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfiguredServers {
    /// Sorted by name.
    pub servers: Vec<ConfiguredServer>,
}

/// A configured server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredServer {
    /// Its name.
    pub name: String,
    /// The scope it is defined in.
    pub scope: &'static str,
    /// Its transport.
    pub transport: &'static str,
    /// The file and line that define it, as they are displayed.
    pub origin: String,
    /// Its command or URL and its options, as lines.
    pub entry: String,
    /// The fingerprint that an approval is bound to.
    pub fingerprint: Option<String>,
    /// Whether it may run.
    pub eligibility: Eligibility,
    /// Its state in a few words, and their tone.
    pub state: (Tone, String),
    /// The reason for that state, where there is one.
    pub reason: Option<String>,
    /// Errors and warnings about its entry.
    pub problems: Vec<String>,
    /// Do its tools run without a permission request?
    pub is_trusted: bool,
    /// Is it reached by URL, so that it may need a login?
    pub is_remote: bool,
}

/// Whether a server may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eligibility {
    /// It may run.
    Runnable,
    /// The user must approve it first.
    PendingApproval,
    /// The user rejected it.
    Rejected,
    /// It is disabled.
    Disabled,
    /// Policy or its configuration prevents it; the user cannot change that here.
    Blocked,
}

impl ConfiguredServers {
    /// Finds a server by name.
    pub fn find(&self, name: &str) -> Option<&ConfiguredServer> {
        self.servers.iter().find(|it| it.name == name)
    }
}

impl Eligibility {
    /// What a resolved state allows.
    pub fn of(state: &ServerState) -> Eligibility {
        match state {
            ServerState::Ready => Eligibility::Runnable,
            ServerState::Pending(
                PendingReason::New | PendingReason::Changed | PendingReason::ProgramChanged,
            ) => Eligibility::PendingApproval,
            ServerState::Rejected => Eligibility::Rejected,
            ServerState::Disabled(_) => Eligibility::Disabled,
            ServerState::Refused(_)
            | ServerState::Shadowed { .. }
            | ServerState::Duplicate { .. }
            | ServerState::Excluded(_)
            | ServerState::NeedsConfig(_)
            | ServerState::Invalid => Eligibility::Blocked,
        }
    }
}
