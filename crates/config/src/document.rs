//! Reads JSON with comments into a tree in which every value knows its position.
//! What the values mean is left to `file` and `settings`.

mod line_index;

use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::common::Range;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value as Json;

pub use line_index::LineIndex;

/// The JSON dialect of configuration files: comments and trailing commas are allowed, nothing else.
pub(crate) fn parse_options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// A byte range of a document's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl From<Range> for Span {
    fn from(range: Range) -> Span {
        Span { start: range.start, end: range.end }
    }
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The bytes of the value.
    pub span: Span,
    /// The value itself.
    pub value: Value,
}

/// The content of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Node>),
    /// An object, in the order of the text, with duplicate keys.
    Object(Vec<Member>),
}

/// One key and value of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The key, unescaped.
    pub key: String,
    /// The position of the key.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

/// A parsed text.
#[derive(Debug)]
pub struct Document<'t> {
    /// The lines of the text, for positions in messages.
    pub lines: LineIndex<'t>,
    /// The top-level value; `None` if the text contains only white space and comments.
    pub root: Option<Node>,
}

impl<'t> Document<'t> {
    /// Parses a text without byte order mark; see [`strip_bom`].
    pub fn parse(text: &'t str) -> Result<Document<'t>, SyntaxError> {
        let parsed = parse_to_ast(text, &CollectOptions::default(), &parse_options())?;
        Ok(Document { lines: LineIndex::new(text), root: parsed.value.map(node_from_ast) })
    }
}

/// Why a text is not valid JSON, and where.
#[derive(Debug, Clone)]
pub struct SyntaxError(Arc<ParseError>);

impl SyntaxError {
    /// The position of the error.
    pub fn span(&self) -> Span {
        self.0.range().into()
    }

    /// The error at this position.
    pub fn kind(&self) -> &ParseErrorKind {
        self.0.kind()
    }
}

impl From<ParseError> for SyntaxError {
    fn from(error: ParseError) -> SyntaxError {
        SyntaxError(Arc::new(error))
    }
}

/// Returns the text without the byte order mark that some editors write.
pub fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn node_from_ast(value: ast::Value<'_>) -> Node {
    match value {
        ast::Value::NullKeyword(it) => Node { span: it.range.into(), value: Value::Null },
        ast::Value::BooleanLit(it) => Node { span: it.range.into(), value: Value::Bool(it.value) },
        ast::Value::NumberLit(it) => {
            Node { span: it.range.into(), value: Value::Number(it.value.to_owned()) }
        }
        ast::Value::StringLit(it) => {
            Node { span: it.range.into(), value: Value::String(it.value.into_owned()) }
        }
        ast::Value::Array(it) => Node {
            span: it.range.into(),
            value: Value::Array(it.elements.into_iter().map(node_from_ast).collect()),
        },
        ast::Value::Object(it) => Node {
            span: it.range.into(),
            value: Value::Object(it.properties.into_iter().map(member_from_ast).collect()),
        },
    }
}

fn member_from_ast(property: ast::ObjectProp<'_>) -> Member {
    let key_span = match &property.name {
        ast::ObjectPropName::String(it) => it.range.into(),
        ast::ObjectPropName::Word(it) => it.range.into(),
    };
    Member { key: property.name.into_string(), key_span, node: node_from_ast(property.value) }
}

impl Node {
    /// The type of the value, for error messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        }
    }

    /// Converts to plain JSON; of a duplicate key the last value counts.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(it) => Json::Bool(*it),
            Value::Number(it) => {
                serde_json::from_str(it).unwrap_or_else(|_| Json::String(it.clone()))
            }
            Value::String(it) => Json::String(it.clone()),
            Value::Array(it) => Json::Array(it.iter().map(Node::to_json).collect()),
            Value::Object(it) => Json::Object(
                it.iter().map(|member| (member.key.clone(), member.node.to_json())).collect(),
            ),
        }
    }
}

/// Returns the member with this key; of a duplicate key the last one counts.
pub(crate) fn find_member<'m>(members: &'m [Member], key: &str) -> Option<&'m Member> {
    members.iter().rev().find(|member| member.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Position;

    fn parsed(text: &str) -> Json {
        Document::parse(text).expect("the text is JSON").root.expect("it holds a value").to_json()
    }

    #[test]
    fn comments_trailing_commas_and_crlf_are_read() {
        let text = "// top\r\n{\r\n  \"a\": [1, 2,], /* here */\r\n  \"b\": null,\r\n}\r\n";
        assert_eq!(parsed(text), serde_json::json!({"a": [1, 2], "b": null}));
    }

    #[test]
    fn looser_dialects_are_errors() {
        for text in [
            "{a: 1}",
            "{'a': 1}",
            "{\"a\" 1}",
            "{\"a\": 1 \"b\": 2}",
            "[0x1]",
            "[+1]",
            "[.5]",
            "[NaN]",
        ] {
            assert!(Document::parse(text).is_err(), "{text} was read");
        }
    }

    #[test]
    fn positions_count_characters_and_survive_crlf() {
        let text = "{\r\n  \"é\": yes\r\n}";
        let error = Document::parse(text).expect_err("yes is no value");
        let lines = LineIndex::new(text);
        assert_eq!(lines.position(error.span().start), Position { line: 2, column: 8 });
        assert_eq!(lines.line(2), "  \"é\": yes");
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_crash() {
        let text = "[".repeat(100_000);
        let error = Document::parse(&text).expect_err("no end in sight");
        assert!(matches!(error.kind(), ParseErrorKind::NestingDepthExceeded));
    }

    #[test]
    fn a_byte_order_mark_is_dropped() {
        assert_eq!(parsed(strip_bom("\u{feff}{\"a\": 1}")), serde_json::json!({"a": 1}));
    }

    #[test]
    fn white_space_alone_has_no_value() {
        assert_eq!(Document::parse(" // nothing\n").expect("it parses").root, None);
    }
}
