//! Everything that can be wrong with a configuration, and its message.

use std::fmt;

use super::read_failure::ReadFailure;
use crate::approvals::CorruptApprovals;
use crate::document::SyntaxError;
use crate::entry::{NameError, TransportKind};
use crate::permission::{PermissionEffect, RuleErrorKind};
use crate::scope::Scope;

/// What is wrong.
#[derive(Debug, Clone)]
pub enum ProblemKind {
    /// The text is not JSON.
    Syntax(SyntaxError),
    /// The file could not be read.
    Unreadable(ReadFailure),
    /// A value is of the wrong type.
    WrongType {
        /// What belongs there.
        expected: &'static str,
        /// What stands there.
        found: &'static str,
    },
    /// A key that must be there is not.
    MissingKey {
        /// The key.
        key: &'static str,
        /// The transport that needs it.
        transport: TransportKind,
    },
    /// A value is there but empty.
    Empty,
    /// `command` and `url` in one entry.
    CommandAndUrl,
    /// A `url` without a `type`, which would mean stdio.
    UrlWithoutType,
    /// `type` is none that we know.
    UnknownTransport {
        /// The nearest one that we know.
        nearest: Option<&'static str>,
    },
    /// A transport that only a running program may register.
    RuntimeOnlyTransport(TransportKind),
    /// A key nobody knows; it is kept.
    UnknownKey {
        /// The nearest known one.
        nearest: Option<&'static str>,
    },
    /// A key that does nothing with this transport.
    NoEffect {
        /// The entry's transport.
        transport: TransportKind,
    },
    /// A key that stands twice; the last one counts.
    DuplicateKey,
    /// The server's name is no name.
    InvalidServerName(NameError),
    /// A number outside its range.
    OutOfRange {
        /// The range in words.
        range: &'static str,
    },
    /// A URL that is none, or of a scheme that does not fit.
    InvalidUrl {
        /// The schemes that fit.
        schemes: &'static str,
    },
    /// A name that cannot be a variable's or header's.
    InvalidName {
        /// What it should be a name of.
        of: &'static str,
    },
    /// A line break or other control character in a header.
    ControlCharacter,
    /// A variable that is not set; the text stays as it is.
    MissingVariable(String),
    /// A named secret in a scope that may not name any.
    SecretNotAllowed(Scope),
    /// A named secret in the command itself: nobody could see what would run.
    SecretInCommand,
    /// The top level is not an object with `mcpServers` in it.
    ForeignFormat {
        /// The key that gives the shape away.
        key: &'static str,
        /// Whose shape it is, in words, and the command that reads it.
        hint: &'static str,
    },
    /// A policy entry that is not exactly one of `serverName`, `serverCommand`, `serverUrl`.
    InvalidPolicyEntry(PolicyList),
    /// A permission rule that is none.
    InvalidPermissionRule {
        /// The list it stands in.
        effect: PermissionEffect,
        /// What is wrong with it.
        error: RuleErrorKind,
    },
    /// `defaultMode` is none that we know.
    UnknownMode {
        /// The nearest one that we know.
        nearest: Option<&'static str>,
    },
    /// A key that counts in managed settings only.
    ManagedOnly,
    /// A key that counts in a person's own settings, and not in a project's file.
    UserOnly,
    /// The store of approvals makes no sense.
    CorruptApprovals(CorruptApprovals),
}

/// Which list a policy entry stands in; a bad one weighs differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyList {
    /// `allowedMcpServers`: a bad entry matches nothing.
    Allowed,
    /// `deniedMcpServers`: a bad entry denies nothing, which somebody must hear of.
    Denied,
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProblemKind::Syntax(error) => write!(f, "{}", syntax_message(error)),
            ProblemKind::Unreadable(why) => write!(f, "{why}"),
            ProblemKind::WrongType { expected, found } => {
                write!(f, "expected {expected}, found {found}")
            }
            ProblemKind::MissingKey { key, transport } => {
                write!(f, "`{key}` is missing; a server of type `{transport}` needs it")
            }
            ProblemKind::Empty => f.write_str("must not be empty"),
            ProblemKind::CommandAndUrl => {
                f.write_str("has both `command` and `url`; a server is either started or reached")
            }
            ProblemKind::UrlWithoutType => {
                f.write_str("has a `url` but no `type`; without a type a server is `stdio`")
            }
            ProblemKind::UnknownTransport { .. } => f.write_str("unknown transport type"),
            ProblemKind::RuntimeOnlyTransport(kind) => write!(
                f,
                "servers of type `{kind}` are registered by a running program, not kept in files"
            ),
            ProblemKind::UnknownKey { .. } => f.write_str("unknown key, kept but without effect"),
            ProblemKind::NoEffect { transport } => {
                write!(f, "has no effect on a server of type `{transport}`")
            }
            ProblemKind::DuplicateKey => f.write_str("stands here twice; the last one counts"),
            ProblemKind::InvalidServerName(error) => write!(f, "{error}"),
            ProblemKind::OutOfRange { range } => write!(f, "must be {range}"),
            ProblemKind::InvalidUrl { schemes } => write!(f, "must be a URL that begins with {schemes}"),
            ProblemKind::InvalidName { of } => write!(f, "is not the name of {of}"),
            ProblemKind::ControlCharacter => f.write_str("holds a control character"),
            ProblemKind::MissingVariable(name) if name.is_empty() => {
                f.write_str("a variable is not set")
            }
            ProblemKind::MissingVariable(name) => write!(f, "the variable {name} is not set"),
            ProblemKind::SecretNotAllowed(scope) => {
                write!(f, "names a secret, which the {scope} scope may not")
            }
            ProblemKind::SecretInCommand => f.write_str("may not name a secret: what runs must be visible"),
            ProblemKind::ForeignFormat { key, .. } => {
                write!(f, "has `{key}` at the top but no `mcpServers`")
            }
            ProblemKind::InvalidPolicyEntry(PolicyList::Allowed) => f.write_str(
                "must be one of `serverName`, `serverCommand`, `serverUrl`; as it is, it allows nothing",
            ),
            ProblemKind::InvalidPolicyEntry(PolicyList::Denied) => f.write_str(
                "must be one of `serverName`, `serverCommand`, `serverUrl`; as it is, it denies nothing",
            ),
            ProblemKind::InvalidPermissionRule { effect: PermissionEffect::Allow, error } => {
                write!(f, "is no rule: {error}; as it is, it allows nothing")
            }
            ProblemKind::InvalidPermissionRule { effect: PermissionEffect::Ask | PermissionEffect::Deny, error } => {
                write!(f, "is no rule: {error}; until it is mended, calls to its server ask")
            }
            ProblemKind::UnknownMode { .. } => {
                f.write_str("unknown mode; until it is mended, every call asks")
            }
            ProblemKind::ManagedOnly => f.write_str("counts in managed settings only"),
            ProblemKind::UserOnly => f.write_str(
                "does not count in a project's file, which may deny and ask but not allow",
            ),
            ProblemKind::CorruptApprovals(damaged) => write!(f, "{damaged}; nothing in it counts"),
        }
    }
}

fn syntax_message(error: &SyntaxError) -> String {
    let text = error.kind().to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    format!("not valid JSON: {first}{}", letters.as_str())
}
