//! The entries of `allowedMcpServers` and `deniedMcpServers`.

use crate::pattern::UrlPattern;
use crate::source::{Authority, Origin};
use crate::template::Template;

/// What an entry of a list matches on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matcher {
    /// The server's exact name.
    Name(String),
    /// The exact command and arguments.
    Command(Vec<Template>),
    /// A URL pattern.
    Url(UrlPattern),
    /// The entry could not be understood, and matches nothing. What it was about still counts.
    Invalid(Vec<MatcherKind>),
}

/// The kind of allow entry that a server needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatcherKind {
    /// Any kind.
    Any,
    /// A `serverCommand`, because the lists hold one.
    Command,
    /// A `serverUrl`, because the lists hold one.
    Url,
}

/// One entry of a list, with the line it stands on.
#[derive(Debug, Clone)]
pub struct PolicyRule {
    /// What it matches.
    pub matcher: Matcher,
    /// Where it stands.
    pub origin: Origin,
}

/// An allow list of one file.
#[derive(Debug, Clone)]
pub struct AllowList {
    /// Its entries; an empty list allows nothing.
    pub rules: Vec<PolicyRule>,
    /// Where the list stands.
    pub origin: Origin,
    /// Whose list it is.
    pub authority: Authority,
}
