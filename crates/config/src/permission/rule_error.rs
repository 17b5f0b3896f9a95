//! Why a text is not a permission rule.

use thiserror::Error;

/// Why a text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{kind}")]
pub struct RuleError {
    /// The byte of the text at which it stops making sense.
    pub at: usize,
    /// What is wrong there.
    pub kind: RuleErrorKind,
}

/// What is wrong with a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RuleErrorKind {
    /// It does not begin with `mcp__`.
    #[error("a rule begins with `mcp__`")]
    Prefix,
    /// No server behind the prefix.
    #[error("it names no server")]
    MissingServer,
    /// `__` with nothing behind it.
    #[error("it names no tool behind the `__`")]
    MissingTool,
    /// A character that no name holds.
    #[error("names hold letters, digits, `-` and `_` only")]
    Character,
    /// A star where the server's name is.
    #[error("a `*` may stand in the tool's name only")]
    WildcardServer,
    /// A predicate that is not `argument=value`.
    #[error("a predicate is `argument=value` or `argument!=value`")]
    Predicate,
    /// Nothing behind the `=`.
    #[error("a value is missing")]
    MissingValue,
    /// A quote without its end.
    #[error("a quote is not closed")]
    UnclosedQuote,
    /// A backslash in front of something that needs none.
    #[error("in quotes, only `\"`, `*` and `\\` follow a `\\`")]
    Escape,
    /// No `)`.
    #[error("the `(` is not closed")]
    UnclosedParenthesis,
    /// Something behind the `)`.
    #[error("nothing may follow the `)`")]
    TrailingText,
    /// Longer than a rule can be, or with a key that goes too deep.
    #[error("it is too long")]
    TooLong,
}

impl RuleErrorKind {
    /// How to mend it, where that is not plain from the message.
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
            | RuleErrorKind::TooLong => None,
        }
    }
}
