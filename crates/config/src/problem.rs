//! What is wrong with a configuration: one value per fault, with its place, its line and the way to mend it.
//! Values from files never appear in a message; an excerpt is covered by `display::excerpt`.

use std::fmt;
use std::sync::Arc;

use crate::approvals::CorruptApprovals;
use crate::display;
use crate::document::{LineIndex, Span, SyntaxError};
use crate::entry::name::{NameError, ServerName};
use crate::entry::server::TransportKind;
use crate::file::entry_decoder;
use crate::permission::{self, PermissionEffect, PermissionMode, RuleErrorKind};
use crate::scope::Scope;
use crate::settings;
use crate::settings::connector_account;
use crate::settings::hooks;
use crate::settings::identity_provider;
use crate::settings::principals;
use crate::source::{Origin, Source};

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

/// The offending line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The part of the line around the place, values covered.
    pub line: String,
    /// The column in that part, from 0.
    pub column: usize,
    /// How many characters from there on are meant, at least 1.
    pub width: usize,
}

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

/// Why a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFailure {
    /// It is a folder.
    IsDirectory,
    /// It is a pipe, a device or a socket.
    NotRegularFile,
    /// It should be a folder and is not.
    NotADirectory,
    /// It does not exist although somebody named it.
    NotFound,
    /// It links to itself.
    SymlinkLoop,
    /// Its permissions do not let us.
    PermissionDenied,
    /// It is larger than a configuration can be.
    TooLarge {
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// It is not UTF-8.
    NotUtf8,
    /// Anything else that the system said.
    Other(std::io::ErrorKind),
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

    /// How to mend it, where that is not plain from the message.
    pub fn hint(&self) -> Option<String> {
        match &self.kind {
            ProblemKind::UnknownTransport { nearest: Some(nearest) }
            | ProblemKind::UnknownMode { nearest: Some(nearest) }
            | ProblemKind::UnknownKey { nearest: Some(nearest) } => {
                Some(format!("did you mean `{nearest}`?"))
            }
            ProblemKind::UnknownMode { nearest: None } => Some(format!(
                "known modes: {}",
                PermissionMode::ALL.map(PermissionMode::id).join(", ")
            )),
            ProblemKind::InvalidPermissionRule { error, .. } => {
                error.hint().map(str::to_owned)
            }
            ProblemKind::UnknownTransport { nearest: None } => {
                Some("known types: stdio, http (or streamable-http), sse, ws".to_owned())
            }
            ProblemKind::UrlWithoutType => {
                Some("add `\"type\": \"http\"` (or `sse`, `ws`) to the entry".to_owned())
            }
            ProblemKind::CommandAndUrl => {
                Some("keep `command` for a program to start, `url` for a remote server".to_owned())
            }
            ProblemKind::MissingVariable(name) if name.is_empty() => {
                Some("write `$$` for a dollar that is no variable".to_owned())
            }
            ProblemKind::MissingVariable(name) => {
                Some(format!("set {name}, or give it a default: ${{{name}:-value}}"))
            }
            ProblemKind::SecretNotAllowed(_) => {
                Some("move the entry to the user or local scope, or use a variable".to_owned())
            }
            ProblemKind::ForeignFormat { hint: whose, .. } => Some((*whose).to_owned()),
            ProblemKind::InvalidServerName(error) => self.name_hint(error),
            ProblemKind::UserOnly => {
                Some("write it to your own settings: swb permissions add".to_owned())
            }
            ProblemKind::Unreadable(ReadFailure::PermissionDenied) => {
                Some("make the file readable for you, or remove it".to_owned())
            }
            ProblemKind::CorruptApprovals(_) => {
                Some("run `swb reset-project-choices`, then approve again what you want".to_owned())
            }
            ProblemKind::Unreadable(_)
            | ProblemKind::Syntax(_)
            | ProblemKind::WrongType { .. }
            | ProblemKind::MissingKey { .. }
            | ProblemKind::Empty
            | ProblemKind::RuntimeOnlyTransport(_)
            | ProblemKind::UnknownKey { nearest: None }
            | ProblemKind::NoEffect { .. }
            | ProblemKind::SecretInCommand
            | ProblemKind::DuplicateKey
            | ProblemKind::OutOfRange { .. }
            | ProblemKind::InvalidUrl { .. }
            | ProblemKind::InvalidName { .. }
            | ProblemKind::ControlCharacter
            | ProblemKind::InvalidPolicyEntry(_)
            | ProblemKind::ManagedOnly => None,
        }
    }

    fn name_hint(&self, error: &NameError) -> Option<String> {
        match error {
            NameError::Reserved => Some("choose another name".to_owned()),
            NameError::Empty => None,
            NameError::Character(_) | NameError::Separator => {
                let better = ServerName::suggestion(self.server.as_deref()?)?;
                Some(format!("rename it, for example to `{better}`"))
            }
        }
    }
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

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadFailure::IsDirectory => f.write_str("is a folder, not a file"),
            ReadFailure::NotRegularFile => f.write_str("is not a regular file"),
            ReadFailure::NotADirectory => f.write_str("is not a folder"),
            ReadFailure::NotFound => f.write_str("does not exist"),
            ReadFailure::SymlinkLoop => f.write_str("is a link that leads back to itself"),
            ReadFailure::PermissionDenied => f.write_str("may not be read by this user"),
            ReadFailure::TooLarge { limit } => {
                write!(f, "is larger than {} MB", limit / 1_000_000)
            }
            ReadFailure::NotUtf8 => f.write_str("is not UTF-8 text"),
            ReadFailure::Other(kind) => write!(f, "could not be read: {kind}"),
        }
    }
}

fn syntax_message(error: &SyntaxError) -> String {
    let text = error.kind().to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    format!("not valid JSON: {first}{}", letters.as_str())
}

/// A file with more problems than this is not read line by line any more.
const MAX_EXCERPTS: usize = 100;

/// Keys that may be shown in an excerpt: the words of the format itself.
fn is_known_key(key: &str) -> bool {
    let entry = [
        entry_decoder::ENTRY_KEYS,
        entry_decoder::OAUTH_KEYS,
        entry_decoder::TLS_KEYS,
        entry_decoder::TOOLS_KEYS,
    ]
    .concat();
    let words = ["serverName", "serverCommand", "serverUrl"];
    entry.iter().any(|known| known.name == key)
        || settings::SETTINGS_KEYS.iter().any(|known| known.name == key)
        || permission::PERMISSIONS_KEYS.iter().any(|known| known.name == key)
        || principals::PRINCIPAL_KEYS.iter().any(|known| known.name == key)
        || hooks::HOOKS_KEYS.iter().any(|known| known.name == key)
        || identity_provider::IDENTITY_PROVIDER_KEYS.iter().any(|known| known.name == key)
        || connector_account::CONNECTOR_ACCOUNT_KEYS.iter().any(|known| known.name == key)
        || words.contains(&key)
}

/// Collects the problems of one source, each with its line.
#[derive(Debug)]
pub struct Reporter<'a> {
    source: Arc<Source>,
    lines: &'a LineIndex<'a>,
    /// What was found so far.
    pub problems: Vec<Problem>,
    excerpts: usize,
}

impl<'a> Reporter<'a> {
    /// Starts with nothing found.
    pub fn new(source: &Arc<Source>, lines: &'a LineIndex<'a>) -> Reporter<'a> {
        Reporter { source: source.clone(), lines, problems: Vec::new(), excerpts: 0 }
    }

    /// Where a span of this source stands.
    pub fn origin(&self, span: Span) -> Origin {
        Origin { source: self.source.clone(), position: Some(self.lines.position(span.start)) }
    }

    /// Notes a problem at `span`.
    pub fn report(&mut self, span: Span, subject: ProblemSubject<'_>, kind: ProblemKind) {
        let origin = self.origin(span);
        // Counted by itself: problems are taken away with the servers they belong to.
        let has_room = self.excerpts < MAX_EXCERPTS;
        self.excerpts += usize::from(has_room);
        let excerpt = origin.position.filter(|_| has_room).map(|position| {
            let end = self.lines.position(span.end);
            let line = self.lines.line(position.line);
            // What the message names anyway may be shown in the line too.
            let key = subject.key.rsplit('.').next();
            let is_named = |word: &str| subject.server == Some(word) || key == Some(word);
            let known = |word: &str| is_known_key(word) || is_named(word);
            let (line, column) = display::masked_excerpt(line, position.column - 1, known);
            let room = line.chars().count().saturating_sub(column);
            let meant = match end.line == position.line {
                true => end.column.saturating_sub(position.column),
                false => room,
            };
            Excerpt { line, column, width: meant.min(room).max(1) }
        });
        let server = subject.server.map(str::to_owned);
        let key = (!subject.key.is_empty()).then(|| subject.key.to_owned());
        self.problems.push(Problem { origin, server, key, kind, excerpt });
    }
}

/// Whom a problem belongs to.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProblemSubject<'a> {
    /// The server's name in the file.
    pub server: Option<&'a str>,
    /// The dotted key, or nothing.
    pub key: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    #[test]
    fn a_syntax_fault_is_shown_with_its_covered_line() {
        let text = "{\n  \"K\": \"canary\" \"x\"\n}";
        let source = Source::file(Scope::User, "settings.json");
        let error = Document::parse(text).expect_err("a comma is missing");
        let lines = LineIndex::new(text);
        let mut reporter = Reporter::new(&source, &lines);
        reporter.report(
            error.span(),
            ProblemSubject::default(),
            ProblemKind::Syntax(error.clone()),
        );
        let problem = &reporter.problems[0];
        assert_eq!(problem.origin.to_string(), "settings.json:2");
        assert_eq!(problem.kind.to_string(), "not valid JSON: expected comma");
        let excerpt = problem.excerpt.as_ref().expect("it has a line");
        assert_eq!(excerpt.line, "  \"•\": \"••••••\" \"•\"");
    }
}
