//! Parses the text of a permission rule: `mcp__server__tool(argument=value)`, or `mcp__server/tool` for a server whose
//! name could not be told apart from the tool's otherwise.

use super::predicate::{Comparison, Predicate};
use super::rule_error::{RuleError, RuleErrorKind};
use crate::pattern::Glob;

/// The prefix of every rule.
pub(super) const PREFIX: &str = "mcp__";

/// Separates a server from its tool.
pub(super) const SEPARATOR: &str = "__";

/// Separates a server from its tool and says that the server's name ends here, which [`SEPARATOR`] cannot if the name
/// ends in `_` or contains it.
pub(super) const EXPLICIT_SEPARATOR: char = '/';

/// The prefix of the name of an extension's method, in place of a tool's name.
pub(super) const METHOD_PREFIX: &str = "method:";

/// The maximum length of a rule, in bytes.
const MAX_RULE_LENGTH: usize = 4096;

/// The maximum number of segments of a key.
const MAX_KEY_DEPTH: usize = 8;

/// Parses a rule into its target and its predicates.
pub(super) fn parse(text: &str) -> Result<(String, Vec<Predicate>), RuleError> {
    if text.len() > MAX_RULE_LENGTH {
        return Err(RuleError {
            at: text.floor_char_boundary(MAX_RULE_LENGTH),
            kind: RuleErrorKind::TooLong,
        });
    }
    let mut cursor = Cursor { text, at: 0 };
    let target = parse_target(&mut cursor)?;
    let predicates = match cursor.peek() {
        None => Vec::new(),
        Some(_) => parse_predicates(&mut cursor)?,
    };
    Ok((target, predicates))
}

pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// A character of a method's name that no tool's name has.
fn is_method_char(c: char) -> bool {
    matches!(c, ':' | '/' | '.')
}

/// Splits a target that says where its server's name ends.
pub(super) fn split_explicit(target: &str) -> Option<(&str, &str)> {
    target.split_once(EXPLICIT_SEPARATOR).filter(|(server, _)| server.chars().all(is_name_char))
}

/// Joins a server and a tool, in the usual form where that means this server.
pub(super) fn join(server: &str, tool: &str) -> String {
    match server.ends_with('_') {
        true => format!("{server}{EXPLICIT_SEPARATOR}{tool}"),
        false => format!("{server}{SEPARATOR}{tool}"),
    }
}

struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Takes everything up to the first character that ends it.
    fn take_until(&mut self, ends: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let taken = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    fn skip_spaces(&mut self) {
        self.take_until(|c| c != ' ');
    }

    fn error(&self, kind: RuleErrorKind) -> RuleError {
        RuleError { at: self.at, kind }
    }
}

/// Parses up to the predicates.
fn parse_target(cursor: &mut Cursor<'_>) -> Result<String, RuleError> {
    if !cursor.text.starts_with(PREFIX) {
        return Err(cursor.error(RuleErrorKind::Prefix));
    }
    cursor.at = PREFIX.len();
    let start = cursor.at;
    let target = cursor.take_until(|c| !is_name_char(c) && !is_method_char(c) && c != '*');
    if cursor.peek().is_some_and(|c| c != '(') {
        return Err(cursor.error(RuleErrorKind::Character));
    }
    let explicit = split_explicit(target);
    let (server, tool) = match explicit.or_else(|| target.split_once(SEPARATOR)) {
        Some((server, tool)) => (server, Some(tool)),
        None => (target, None),
    };
    let at = |offset: usize, kind| Err(RuleError { at: start + offset, kind });
    let names_method = tool.is_some_and(|it| it.starts_with(METHOD_PREFIX));
    let names = if names_method || explicit.is_some() { server } else { target };
    if let Some(offset) = names.find(is_method_char) {
        return at(offset, RuleErrorKind::Character);
    }
    if let (Some((_, tool)), false) = (explicit, names_method)
        && let Some(offset) = tool.find(is_method_char)
    {
        return at(target.len() - tool.len() + offset, RuleErrorKind::Character);
    }
    if server.is_empty() {
        return at(0, RuleErrorKind::MissingServer);
    }
    if let Some(star) = server.find('*') {
        return at(star, RuleErrorKind::WildcardServer);
    }
    if tool.is_some_and(str::is_empty) {
        return at(target.len(), RuleErrorKind::MissingTool);
    }
    let target = match explicit {
        Some((server, tool)) if !server.contains(SEPARATOR) => join(server, tool),
        Some(_) | None => target.to_owned(),
    };
    Ok(Glob::parse(&target).pieces().join("*"))
}

/// Parses `(…)` up to the end of the text.
fn parse_predicates(cursor: &mut Cursor<'_>) -> Result<Vec<Predicate>, RuleError> {
    cursor.next();
    let mut predicates = Vec::new();
    loop {
        predicates.push(parse_predicate(cursor)?);
        cursor.skip_spaces();
        match cursor.peek() {
            Some(',') => cursor.next(),
            Some(')') => break,
            Some(_) => return Err(cursor.error(RuleErrorKind::Predicate)),
            None => return Err(cursor.error(RuleErrorKind::UnclosedParenthesis)),
        };
    }
    cursor.next();
    match cursor.peek() {
        None => Ok(predicates),
        Some(_) => Err(cursor.error(RuleErrorKind::TrailingText)),
    }
}

fn parse_predicate(cursor: &mut Cursor<'_>) -> Result<Predicate, RuleError> {
    cursor.skip_spaces();
    let start = cursor.at;
    let ends_key = |c: char| {
        matches!(c, '=' | '!' | '^' | ',' | '(' | ')' | '"' | '*')
            || c.is_whitespace()
            || c.is_control()
    };
    let key: Vec<String> = cursor.take_until(ends_key).split('.').map(str::to_owned).collect();
    let error_at = |kind| Err(RuleError { at: start, kind });
    if key.len() > MAX_KEY_DEPTH {
        return error_at(RuleErrorKind::TooLong);
    }
    if key.iter().any(String::is_empty) {
        return error_at(RuleErrorKind::Predicate);
    }
    let comparison = match cursor.rest() {
        rest if rest.starts_with("!=") => Comparison::NotEqual,
        rest if rest.starts_with("^=") => Comparison::CommandStart,
        rest if rest.starts_with('=') => Comparison::Equal,
        _ => return Err(cursor.error(RuleErrorKind::Predicate)),
    };
    cursor.at += match comparison {
        Comparison::Equal => 1,
        Comparison::NotEqual | Comparison::CommandStart => 2,
    };
    Ok(Predicate { key, comparison, value: parse_value(cursor)? })
}

fn parse_value(cursor: &mut Cursor<'_>) -> Result<Glob, RuleError> {
    if cursor.peek() == Some('"') {
        return parse_quoted(cursor);
    }
    let start = cursor.at;
    let text = cursor.take_until(|c| matches!(c, ',' | '(' | ')' | '"') || c.is_control());
    let text = text.trim();
    let error_at = |kind| Err(RuleError { at: start, kind });
    match text {
        "" => error_at(RuleErrorKind::MissingValue),
        // `a==b` is most likely a mistake.
        text if text.starts_with('=') => error_at(RuleErrorKind::Predicate),
        text => Ok(Glob::parse(text)),
    }
}

fn parse_quoted(cursor: &mut Cursor<'_>) -> Result<Glob, RuleError> {
    let open = cursor.at;
    cursor.next();
    let mut pieces = Vec::new();
    let mut piece = String::new();
    loop {
        let at = cursor.at;
        match cursor.next() {
            None => return Err(RuleError { at: open, kind: RuleErrorKind::UnclosedQuote }),
            Some('"') => break,
            Some('*') => pieces.push(std::mem::take(&mut piece)),
            Some('\\') => match cursor.next() {
                Some(c @ ('"' | '*' | '\\')) => piece.push(c),
                Some(_) | None => return Err(RuleError { at, kind: RuleErrorKind::Escape }),
            },
            Some(c) => piece.push(c),
        }
    }
    pieces.push(piece);
    Ok(Glob::from_pieces(pieces))
}
