//! The entries of `allowedMcpServers` and `deniedMcpServers`.

use crate::pattern::UrlPattern;
use crate::source::{Authority, Origin};
use crate::template::Template;

/// The property of a server that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matcher {
    /// The server's exact name.
    Name(String),
    /// The exact command and arguments.
    Command(Vec<Template>),
    /// A URL pattern.
    Url(UrlPattern),
    /// The entry is not valid and matches nothing. The kinds that it was meant for still count.
    Invalid(Vec<MatcherKind>),
}

/// The kind of allow rule that a server requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatcherKind {
    /// Any kind.
    Any,
    /// A `serverCommand`, because the lists contain one.
    Command,
    /// A `serverUrl`, because the lists contain one.
    Url,
}

/// One rule of a list.
#[derive(Debug, Clone)]
pub struct PolicyRule {
    /// The property that the rule matches.
    pub matcher: Matcher,
    /// The position of the rule.
    pub origin: Origin,
}

/// The allow list of one file.
#[derive(Debug, Clone)]
pub struct AllowList {
    /// Its rules; an empty list allows nothing.
    pub rules: Vec<PolicyRule>,
    /// The position of the list.
    pub origin: Origin,
    /// The author of the list.
    pub authority: Authority,
}
