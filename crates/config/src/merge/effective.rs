//! The result of a merge: every definition of a server, its state, and the reason for it.

use std::sync::Arc;

use crate::entry::{Fingerprint, ServerEntry, ServerSpec, Signature};
use crate::policy::Refusal;
use crate::problem::Problem;
use crate::scope::Scope;
use crate::source::{Origin, Source};

/// The result: every server of every layer, and what was wrong with the sources.
#[derive(Debug, Clone)]
pub struct EffectiveConfig {
    /// Servers by name, winners before losers of the same name.
    pub servers: Vec<ResolvedServer>,
    /// Problems that belong to no server.
    pub problems: Vec<Problem>,
    /// The managed server file, where it has exclusive control.
    pub exclusive_source: Option<Arc<Source>>,
}

/// One definition of a server and what became of it.
#[derive(Debug, Clone)]
pub struct ResolvedServer {
    /// Its name.
    pub name: String,
    /// Where it is defined.
    pub origin: Origin,
    /// The entry as written, unless it is invalid.
    pub entry: Option<ServerEntry>,
    /// The entry with its variables in, unless it is invalid.
    pub spec: Option<ServerSpec>,
    /// The hash that approvals bind to.
    pub fingerprint: Option<Fingerprint>,
    /// What it is by content.
    pub signature: Option<Signature>,
    /// What became of it.
    pub state: ServerState,
    /// What is wrong or doubtful about it.
    pub problems: Vec<Problem>,
}

/// What became of a definition.
#[derive(Debug, Clone)]
pub enum ServerState {
    /// It may start.
    Ready,
    /// A project's server that nobody approved as it is now.
    Pending(PendingReason),
    /// A project's server that somebody said no to.
    Rejected,
    /// The policy refuses it.
    Refused(Refusal),
    /// Switched off, and where.
    Disabled(Origin),
    /// A higher scope defines the same name.
    Shadowed {
        /// The definition that wins.
        by: Origin,
    },
    /// The same server is there under another name.
    Duplicate {
        /// The name it has there.
        of: String,
        /// Where that one is defined.
        by: Origin,
    },
    /// Its scope does not count.
    Excluded(Exclusion),
    /// Something in the entry is an error.
    Invalid,
}

/// Why a project's server waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingReason {
    /// Nobody decided yet.
    New,
    /// It changed since it was approved.
    Changed,
}

/// Why a whole scope does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exclusion {
    /// A managed server file has exclusive control.
    ManagedFile(Arc<Source>),
    /// `--strict-mcp-config`
    Strict,
}

impl ResolvedServer {
    /// The scope it came from.
    pub fn scope(&self) -> Scope {
        self.origin.scope()
    }

    /// Did it win its name, or is it only shown to explain?
    pub fn is_selected(&self) -> bool {
        match self.state {
            ServerState::Ready
            | ServerState::Pending(_)
            | ServerState::Refused(_)
            | ServerState::Disabled(_)
            | ServerState::Invalid => true,
            ServerState::Rejected
            | ServerState::Shadowed { .. }
            | ServerState::Duplicate { .. }
            | ServerState::Excluded(_) => false,
        }
    }

    /// May it start?
    pub fn is_ready(&self) -> bool {
        matches!(self.state, ServerState::Ready)
    }

    /// May its tools run without asking? Only where somebody with a say in it said so.
    pub fn is_trusted(&self) -> bool {
        let asked = self.entry.as_ref().is_some_and(|entry| entry.common.trust);
        asked && self.is_ready()
    }
}

impl EffectiveConfig {
    /// The definition that won a name.
    pub fn winner(&self, name: &str) -> Option<&ResolvedServer> {
        let mut defined = self.servers.iter().filter(|it| it.name == name && it.is_selected());
        defined
            .clone()
            .find(|it| !matches!(it.state, ServerState::Invalid))
            .or_else(|| defined.next())
    }
}
