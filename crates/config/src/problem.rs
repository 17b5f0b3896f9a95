//! The problems of a configuration: one value per problem, with its position, its line and a hint.
//! Messages never contain values from files; `display` masks the values in an excerpt.

mod hint;
mod kind;
mod read_failure;
mod reporter;

use std::sync::Arc;

use crate::source::{Origin, Source};

pub use kind::{PolicyList, ProblemKind};
pub use read_failure::ReadFailure;
pub use reporter::{Excerpt, ProblemSubject, Reporter};

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Something is left out because of it.
    Error,
    /// Everything works, but probably not as intended.
    Warning,
}

/// One problem of a configuration.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Its position.
    pub origin: Origin,
    /// The server that it belongs to, by its name in the file.
    pub server: Option<String>,
    /// The dotted key that it belongs to: `oauth.callbackPort`, `args[2]`.
    pub key: Option<String>,
    /// The kind of problem.
    pub kind: ProblemKind,
    /// The line with its values masked, and the columns that are marked.
    pub excerpt: Option<Excerpt>,
}

impl Problem {
    /// Returns the severity, which follows from the kind.
    pub fn severity(&self) -> Severity {
        match &self.kind {
            ProblemKind::Plugin(problem) if problem.is_harmless() => Severity::Warning,
            ProblemKind::UnknownKey { .. }
            | ProblemKind::NoEffect { .. }
            | ProblemKind::DuplicateKey
            | ProblemKind::MissingVariable(_)
            | ProblemKind::ForeignFormat { .. }
            | ProblemKind::ManagedOnly
            | ProblemKind::UserOnly
            | ProblemKind::BundleOption(_)
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
            | ProblemKind::DuplicateManagedKey
            | ProblemKind::InvalidServerName(_)
            | ProblemKind::OutOfRange { .. }
            | ProblemKind::InvalidUrl { .. }
            | ProblemKind::InvalidClientMetadataUrl
            | ProblemKind::InvalidName { .. }
            | ProblemKind::ControlCharacter
            | ProblemKind::SecretNotAllowed(_)
            | ProblemKind::SecretInCommand
            | ProblemKind::CorruptApprovals(_)
            | ProblemKind::InvalidPermissionRule { .. }
            | ProblemKind::InvalidEntryRule(_)
            | ProblemKind::AmbiguousRules
            | ProblemKind::UnknownMode { .. }
            | ProblemKind::BesideBundle
            | ProblemKind::InvalidBundleHash
            | ProblemKind::Bundle(_)
            | ProblemKind::Plugin(_)
            | ProblemKind::InvalidPolicyEntry(PolicyList::Denied) => Severity::Error,
        }
    }

    /// Creates a problem of a source as a whole.
    pub fn for_source(source: &Arc<Source>, kind: ProblemKind) -> Problem {
        let origin = Origin { source: source.clone(), position: None };
        Problem { origin, server: None, key: None, kind, excerpt: None }
    }
}
