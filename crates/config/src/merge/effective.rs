//! The result of a merge: every definition of a server, its state, and the reason for it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::approvals::ApprovedServer;
use crate::entry::{Fingerprint, ServerEntry, ServerSpec, Signature};
use crate::file::BundleEntry;
use crate::permission::{PermissionRules, RuleEntry};
use crate::plugin::PluginId;
use crate::policy::{PolicyDecision, Refusal};
use crate::problem::Problem;
use crate::scope::Scope;
use crate::source::{Origin, Source};

/// Every server of every layer, and the problems of the sources.
#[derive(Debug, Clone)]
pub struct EffectiveConfig {
    /// The servers by name; the definition that wins a name comes first.
    pub servers: Vec<ResolvedServer>,
    /// Problems that belong to no server.
    pub problems: Vec<Problem>,
    /// The managed server file, where it has exclusive control.
    pub exclusive_source: Option<Arc<Source>>,
}

/// One definition of a server and its state.
#[derive(Debug, Clone)]
pub struct ResolvedServer {
    /// Its name.
    pub name: String,
    /// The position of the definition.
    pub origin: Origin,
    /// The entry as written, unless it is invalid.
    pub entry: Option<ServerEntry>,
    /// The expanded entry, unless it is invalid.
    pub spec: Option<ServerSpec>,
    /// The hash that approvals refer to.
    pub fingerprint: Option<Fingerprint>,
    /// The file that its command runs, if there is one.
    pub program: Option<PathBuf>,
    /// Identifies the server by its content.
    pub signature: Option<Signature>,
    /// The permission rules of the entry, all of them for this server.
    pub rules: Vec<RuleEntry>,
    /// The decision of the policy about it, unless it is invalid.
    pub policy: Option<PolicyDecision>,
    /// What the entry says about the installed bundle that it names, if it names one.
    pub bundle: Option<BundleEntry>,
    /// The plugin that it comes from, if it comes from one.
    pub plugin: Option<PluginId>,
    /// The key of the user's decisions on it; `None` if it needs none.
    pub approval_key: Option<String>,
    /// What an approval of the current definition is bound to, unless it is invalid.
    pub(super) approval: Option<ApprovedServer>,
    /// The state of the definition.
    pub state: ServerState,
    /// Its errors and warnings.
    pub problems: Vec<Problem>,
}

/// The state of a definition.
#[derive(Debug, Clone)]
pub enum ServerState {
    /// It may start.
    Ready,
    /// A project's server whose current definition is not approved.
    Pending(PendingReason),
    /// A project's server that the user rejected.
    Rejected,
    /// The policy refuses it.
    Refused(Refusal),
    /// It is disabled, at this position.
    Disabled(Origin),
    /// A higher scope defines the same name.
    Shadowed {
        /// The definition that wins.
        by: Origin,
    },
    /// The same server exists under another name.
    Duplicate {
        /// The other name.
        of: String,
        /// The position of the other definition.
        by: Origin,
    },
    /// Its scope does not count.
    Excluded(Exclusion),
    /// The bundle that it names has options that the user must set first: these.
    NeedsConfig(Vec<String>),
    /// The entry contains an error.
    Invalid,
}

/// Why a project's server is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingReason {
    /// There is no decision yet.
    New,
    /// It has changed since it was approved.
    Changed,
    /// Its command runs another file than the one that was approved.
    ProgramChanged,
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

    /// Returns what an approval of the current definition is bound to.
    pub fn approvable(&self) -> Option<ApprovedServer> {
        self.approval.clone()
    }

    /// Is it the definition that counts for its name? Others are shown only to explain.
    pub fn is_selected(&self) -> bool {
        match self.state {
            ServerState::Ready
            | ServerState::Pending(_)
            | ServerState::Refused(_)
            | ServerState::Disabled(_)
            | ServerState::NeedsConfig(_)
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

    /// May its tools run without a prompt? Only if the entry says so and the server may run.
    pub fn is_trusted(&self) -> bool {
        let wants_trust = self.entry.as_ref().is_some_and(|entry| entry.common.trust);
        wants_trust && self.is_ready()
    }
}

impl EffectiveConfig {
    /// Returns the permission rules in the entries of the servers that count.
    pub fn entry_rules(&self) -> PermissionRules {
        let selected = self.servers.iter().filter(|server| server.is_selected());
        let runnable = selected.filter(|server| server.spec.is_some());
        PermissionRules {
            entries: runnable.flat_map(|server| server.rules.iter().cloned()).collect(),
            ..PermissionRules::default()
        }
    }

    /// Returns the definition that wins a name.
    pub fn winner(&self, name: &str) -> Option<&ResolvedServer> {
        let mut defined = self.servers.iter().filter(|it| it.name == name && it.is_selected());
        defined
            .clone()
            .find(|it| !matches!(it.state, ServerState::Invalid))
            .or_else(|| defined.next())
    }
}
