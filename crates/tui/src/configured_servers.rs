//! The configured servers as the server panel shows them: texts only, with secrets masked. The backend makes them.

use switchboard::config::merge::{PendingReason, ServerState};

use crate::theme::Tone;

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
    /// One by its name.
    pub fn find(&self, name: &str) -> Option<&ConfiguredServer> {
        self.servers.iter().find(|it| it.name == name)
    }
}

impl Eligibility {
    /// What a resolved state allows.
    pub fn of(state: &ServerState) -> Eligibility {
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
}
