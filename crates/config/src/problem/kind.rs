//! Everything that can be wrong with a configuration, and its message.

use std::fmt;

use super::read_failure::ReadFailure;
use crate::approvals::CorruptApprovals;
use crate::bundle::BundleProblem;
use crate::document::SyntaxError;
use crate::entry::{NameError, TransportKind};
use crate::permission::{PermissionEffect, RuleErrorKind};
use crate::plugin::PluginProblem;
use crate::scope::Scope;
use crate::user_config::OptionProblem;

/// The kinds of problems.
#[derive(Debug, Clone)]
pub enum ProblemKind {
    /// The text is not valid JSON.
    Syntax(SyntaxError),
    /// The file could not be read.
    Unreadable(ReadFailure),
    /// A value has the wrong type.
    WrongType {
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// A required key is missing.
    MissingKey {
        /// The key.
        key: &'static str,
        /// The transport that requires it.
        transport: TransportKind,
    },
    /// A value is empty.
    Empty,
    /// An entry has both `command` and `url`.
    CommandAndUrl,
    /// An entry has a `url` without a `type`, which would mean stdio.
    UrlWithoutType,
    /// The `type` is unknown.
    UnknownTransport {
        /// The most similar known one.
        nearest: Option<&'static str>,
    },
    /// A transport that only a running program may register.
    RuntimeOnlyTransport(TransportKind),
    /// A key is unknown; it is kept and ignored.
    UnknownKey {
        /// The most similar known one.
        nearest: Option<&'static str>,
    },
    /// A key has no effect with this transport.
    NoEffect {
        /// The entry's transport.
        transport: TransportKind,
    },
    /// A key is there twice; the last one counts.
    DuplicateKey,
    /// A key is there twice in an administrator's file, which therefore does not count.
    DuplicateManagedKey,
    /// The name of the server is not valid.
    InvalidServerName(NameError),
    /// A number is out of range.
    OutOfRange {
        /// The range as text.
        range: &'static str,
    },
    /// A URL is not valid, or has another scheme.
    InvalidUrl {
        /// The allowed schemes.
        schemes: &'static str,
    },
    /// A URL cannot be that of a client metadata document.
    InvalidClientMetadataUrl,
    /// A name is not valid for a variable or header.
    InvalidName {
        /// The kind of object that the name should refer to.
        of: &'static str,
    },
    /// A header contains a line break or another control character.
    ControlCharacter,
    /// A variable is not set; the text stays as it is.
    MissingVariable(String),
    /// An entry refers to a secret, which is not allowed in its scope.
    SecretNotAllowed(Scope),
    /// The command refers to a secret; users must see what runs.
    SecretInCommand,
    /// The file has the format of another application.
    ForeignFormat {
        /// The key by which the format is recognized.
        key: &'static str,
        /// The name of the application and the command that imports the file.
        hint: &'static str,
    },
    /// A policy entry is not exactly one of `serverName`, `serverCommand`, `serverUrl`.
    InvalidPolicyEntry(PolicyList),
    /// A permission rule is not valid.
    InvalidPermissionRule {
        /// The list that it is in.
        effect: PermissionEffect,
        /// The error.
        error: RuleErrorKind,
    },
    /// A permission rule in a server's entry is not valid, so the server is left out.
    InvalidEntryRule(RuleErrorKind),
    /// A list of permission rules is there twice in a server's entry, so the server is left out.
    AmbiguousRules,
    /// The `defaultMode` is unknown.
    UnknownMode {
        /// The most similar known one.
        nearest: Option<&'static str>,
    },
    /// A key has an effect in managed settings only.
    ManagedOnly,
    /// A key counts in a user's own settings, but not in a project's file.
    UserOnly,
    /// The key contradicts `bundle`.
    BesideBundle,
    /// The value of `bundle` is not a hash.
    InvalidBundleHash,
    /// The bundle cannot be used.
    Bundle(BundleProblem),
    /// Something is wrong with a value for the bundle's options, or with a reference to one.
    BundleOption(OptionProblem),
    /// Something is wrong with a plugin or a marketplace.
    Plugin(PluginProblem),
    /// The approvals file is not valid.
    CorruptApprovals(CorruptApprovals),
}

/// The list of a policy entry, which decides how serious an invalid entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyList {
    /// `allowedMcpServers`: an invalid entry allows nothing.
    Allowed,
    /// `deniedMcpServers`: an invalid entry denies nothing, so it is an error.
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
                f.write_str("has both `command` and `url`; a server needs exactly one of them")
            }
            ProblemKind::UrlWithoutType => {
                f.write_str("has a `url` but no `type`; the default type is `stdio`")
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
            ProblemKind::DuplicateKey => f.write_str("duplicate key; the last one counts"),
            ProblemKind::DuplicateManagedKey => {
                f.write_str("duplicate key; until one is removed, the file restricts everything")
            }
            ProblemKind::InvalidServerName(error) => write!(f, "{error}"),
            ProblemKind::OutOfRange { range } => write!(f, "must be {range}"),
            ProblemKind::InvalidUrl { schemes } => {
                write!(f, "must be a URL that begins with {schemes}")
            }
            ProblemKind::InvalidClientMetadataUrl => f.write_str(
                "must be a URL that begins with `https://` and has a path, without user name, password or fragment",
            ),
            ProblemKind::InvalidName { of } => write!(f, "is not the name of {of}"),
            ProblemKind::ControlCharacter => f.write_str("contains a control character"),
            ProblemKind::MissingVariable(name) if name.is_empty() => {
                f.write_str("a variable is not set")
            }
            ProblemKind::MissingVariable(name) => write!(f, "the variable {name} is not set"),
            ProblemKind::SecretNotAllowed(scope) => {
                write!(f, "refers to a secret, which the {scope} scope does not allow")
            }
            ProblemKind::SecretInCommand => {
                f.write_str("must not refer to a secret: the command that runs must be visible")
            }
            ProblemKind::ForeignFormat { key, .. } => {
                write!(f, "has `{key}` at the top level but no `mcpServers`")
            }
            ProblemKind::InvalidPolicyEntry(PolicyList::Allowed) => f.write_str(
                "must be one of `serverName`, `serverCommand`, `serverUrl`; it allows nothing",
            ),
            ProblemKind::InvalidPolicyEntry(PolicyList::Denied) => f.write_str(
                "must be one of `serverName`, `serverCommand`, `serverUrl`; it denies nothing",
            ),
            ProblemKind::InvalidPermissionRule { effect: PermissionEffect::Allow, error } => {
                write!(f, "is not a valid rule: {error}; it allows nothing")
            }
            ProblemKind::InvalidPermissionRule {
                effect: PermissionEffect::Ask | PermissionEffect::Deny,
                error,
            } => {
                write!(
                    f,
                    "is not a valid rule: {error}; until it is fixed, calls to its server ask"
                )
            }
            ProblemKind::InvalidEntryRule(error) => {
                write!(f, "is not a valid rule: {error}; until it is fixed, the server is left out")
            }
            ProblemKind::AmbiguousRules => {
                f.write_str("duplicate key; until one is removed, the server is left out")
            }
            ProblemKind::UnknownMode { .. } => {
                f.write_str("unknown mode; until it is fixed, every call asks")
            }
            ProblemKind::ManagedOnly => f.write_str("has an effect in managed settings only"),
            ProblemKind::UserOnly => f.write_str(
                "has no effect in a project's file, which may deny and ask but not allow",
            ),
            ProblemKind::BesideBundle => {
                f.write_str("has no place beside `bundle`: the bundle says how its server starts")
            }
            ProblemKind::InvalidBundleHash => {
                f.write_str("must be `sha256:` and 64 hexadecimal digits")
            }
            ProblemKind::Bundle(problem) => write!(f, "{problem}"),
            ProblemKind::BundleOption(problem) => write!(f, "{problem}"),
            ProblemKind::Plugin(problem) => write!(f, "{problem}"),
            ProblemKind::CorruptApprovals(damaged) => {
                write!(f, "{damaged}; no approval in it counts")
            }
        }
    }
}

fn syntax_message(error: &SyntaxError) -> String {
    let text = error.kind().to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    format!("not valid JSON: {first}{}", letters.as_str())
}
