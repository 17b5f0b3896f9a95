//! Why a text is not a permission rule.

use thiserror::Error;

/// Why a text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{kind}")]
pub struct RuleError {
    /// The byte of the text where the error is.
    pub at: usize,
    /// The kind of error.
    pub kind: RuleErrorKind,
}

/// The kinds of errors in a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RuleErrorKind {
    /// It does not begin with `mcp__`.
    #[error("a rule must begin with `mcp__`")]
    Prefix,
    /// There is no server after the prefix.
    #[error("the server is missing")]
    MissingServer,
    /// There is nothing after `__`.
    #[error("the tool after `__` is missing")]
    MissingTool,
    /// It contains a character that is not allowed in names.
    #[error("names may contain only letters, digits, `-` and `_`")]
    Character,
    /// There is a wildcard in the server's name.
    #[error("`*` is allowed in the tool's name only")]
    WildcardServer,
    /// A predicate is not `argument=value`.
    #[error("a predicate must be `argument=value` or `argument!=value`")]
    Predicate,
    /// There is nothing after `=`.
    #[error("a value is missing")]
    MissingValue,
    /// A quote is not closed.
    #[error("a quote is not closed")]
    UnclosedQuote,
    /// A backslash precedes a character that needs no escape.
    #[error("in quotes, `\\` may precede only `\"`, `*` and `\\`")]
    Escape,
    /// There is no `)`.
    #[error("the `(` is not closed")]
    UnclosedParenthesis,
    /// There is text after the `)`.
    #[error("nothing may follow the `)`")]
    TrailingText,
    /// It is in the entry of a server and names another one.
    #[error("a rule in a server's entry must name this server")]
    OtherServer,
    /// It is too long, or a key has too many segments.
    #[error("it is too long")]
    TooLong,
}

impl RuleErrorKind {
    /// Returns how to fix it, if the message does not say that.
    pub fn hint(self) -> Option<&'static str> {
        match self {
            RuleErrorKind::Prefix | RuleErrorKind::MissingServer | RuleErrorKind::Character => {
                Some(
                    "write `mcp__server`, `mcp__server__tool` or `mcp__server__tool(argument=value)`",
                )
            }
            RuleErrorKind::MissingTool => Some("for every tool of the server, write `mcp__server`"),
            RuleErrorKind::WildcardServer => Some("write a rule for each server"),
            RuleErrorKind::Predicate | RuleErrorKind::TrailingText => {
                Some("put values with commas or parentheses into quotes: `(text=\"a, b\")`")
            }
            RuleErrorKind::MissingValue => Some("write `\"\"` for an empty value"),
            RuleErrorKind::Escape => Some("double a backslash in quotes, or leave the quotes out"),
            RuleErrorKind::UnclosedQuote
            | RuleErrorKind::UnclosedParenthesis
            | RuleErrorKind::OtherServer
            | RuleErrorKind::TooLong => None,
        }
    }
}
