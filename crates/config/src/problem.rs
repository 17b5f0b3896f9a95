//! What is wrong with a configuration: one value per fault, with its place, its line and the way to mend it.
//! Values from files never appear in a message; an excerpt is covered by `display::excerpt`.

mod hint;
mod kind;
mod read_failure;
mod reporter;

use std::sync::Arc;

use crate::source::{Origin, Source};

pub use kind::{PolicyList, ProblemKind};
pub use read_failure::ReadFailure;
pub use reporter::{Excerpt, ProblemSubject, Reporter};

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Something is left out because of it.
    Error,
    /// Everything works, but probably not as meant.
    Warning,
}

/// One thing wrong with a configuration.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Where.
    pub origin: Origin,
    /// The server it belongs to, as the file names it.
    pub server: Option<String>,
    /// The key it belongs to, dotted: `oauth.callbackPort`, `args[2]`.
    pub key: Option<String>,
    /// What.
    pub kind: ProblemKind,
    /// The line it stands on, covered, and how many columns are meant.
    pub excerpt: Option<Excerpt>,
}

impl Problem {
    /// How bad it is; that follows from what it is.
    pub fn severity(&self) -> Severity {
        match &self.kind {
            ProblemKind::UnknownKey { .. }
            | ProblemKind::NoEffect { .. }
            | ProblemKind::DuplicateKey
            | ProblemKind::MissingVariable(_)
            | ProblemKind::ForeignFormat { .. }
            | ProblemKind::ManagedOnly
            | ProblemKind::UserOnly
            | ProblemKind::InvalidPolicyEntry(PolicyList::Allowed) => Severity::Warning,
            ProblemKind::Syntax(_)
            | ProblemKind::Unreadable(_)
            | ProblemKind::WrongType { .. }
            | ProblemKind::MissingKey { .. }
            | ProblemKind::Empty
            | ProblemKind::CommandAndUrl
            | ProblemKind::UrlWithoutType
            | ProblemKind::UnknownTransport { .. }
            | ProblemKind::RuntimeOnlyTransport(_)
            | ProblemKind::InvalidServerName(_)
            | ProblemKind::OutOfRange { .. }
            | ProblemKind::InvalidUrl { .. }
            | ProblemKind::InvalidName { .. }
            | ProblemKind::ControlCharacter
            | ProblemKind::SecretNotAllowed(_)
            | ProblemKind::SecretInCommand
            | ProblemKind::CorruptApprovals(_)
            | ProblemKind::InvalidPermissionRule { .. }
            | ProblemKind::UnknownMode { .. }
            | ProblemKind::InvalidPolicyEntry(PolicyList::Denied) => Severity::Error,
        }
    }

    /// A problem of a source as a whole.
    pub fn for_source(source: &Arc<Source>, kind: ProblemKind) -> Problem {
        let origin = Origin { source: source.clone(), position: None };
        Problem { origin, server: None, key: None, kind, excerpt: None }
    }
}
