//! Parses a file, JSON, TOML or YAML, into one kind of tree.
//! What the keys mean is left to the reader of each application.

use jsonc_parser::ParseStringErrorKind;
use jsonc_parser::errors::ParseErrorKind;
use serde_json::{Map, Number, Value};

use super::error::{ImportError, ImportErrorKind};
use super::yaml_tree;
use crate::document::{Document, LineIndex, strip_bom};

/// Parses JSON with comments and trailing commas; an empty text is an empty object.
pub(super) fn json(text: &str) -> Result<Map<String, Value>, ImportError> {
    let text = strip_bom(text);
    let document = Document::parse(text)
        .map_err(|error| error_at(text, error.span().start, json_kind(error.kind())))?;
    let Some(root) = document.root else { return Ok(Map::new()) };
    match root.to_json() {
        Value::Object(map) => Ok(map),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(error_at(text, root.span.start, ImportErrorKind::NotAnObject))
        }
    }
}

/// Parses YAML; an empty text is an empty object.
pub(super) fn yaml(text: &str) -> Result<Map<String, Value>, ImportError> {
    let text = strip_bom(text);
    let root = yaml_tree::parse(text).map_err(|error| error_at(text, error.offset, error.kind))?;
    let Some(root) = root else { return Ok(Map::new()) };
    match root.to_json() {
        Value::Object(map) => Ok(map),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(error_at(text, root.span.start, ImportErrorKind::NotAnObject))
        }
    }
}

/// Parses TOML. Dates become strings.
pub(super) fn toml(text: &str) -> Result<Map<String, Value>, ImportError> {
    let text = strip_bom(text);
    let table = text.parse::<toml::Table>().map_err(|error| {
        let start = error.span().map_or(text.len(), |span| span.start);
        error_at(text, start, ImportErrorKind::NotToml)
    })?;
    Ok(table.into_iter().map(|(key, value)| (key, from_toml(value))).collect())
}

fn from_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        // JSON has no NaN or infinity; as a string the value still has the wrong type.
        toml::Value::Float(number) => Number::from_f64(number)
            .map_or_else(|| Value::String(number.to_string()), Value::Number),
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::Array(values) => values.into_iter().map(from_toml).collect(),
        toml::Value::Table(table) => {
            Value::Object(table.into_iter().map(|(key, value)| (key, from_toml(value))).collect())
        }
    }
}

/// The message of the parser may quote the text, so only the kind of error is kept.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum of the parser is long; users need no distinction between the rest"
)]
fn json_kind(kind: &ParseErrorKind) -> ImportErrorKind {
    match kind {
        ParseErrorKind::ExpectedComma => ImportErrorKind::MissingComma,
        ParseErrorKind::UnterminatedArray
        | ParseErrorKind::UnterminatedObject
        | ParseErrorKind::UnterminatedCommentBlock
        | ParseErrorKind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            ImportErrorKind::NotClosed
        }
        ParseErrorKind::String(_) => ImportErrorKind::BadString,
        ParseErrorKind::MultipleRootJsonValues => ImportErrorKind::TextAfterEnd,
        ParseErrorKind::NestingDepthExceeded => ImportErrorKind::TooDeep,
        _ => ImportErrorKind::NotJson,
    }
}

fn error_at(text: &str, offset: usize, kind: ImportErrorKind) -> ImportError {
    let position = LineIndex::new(text).position(offset);
    ImportError { line: position.line, column: position.column, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        parse: fn(&str) -> Result<Map<String, Value>, ImportError>,
        text: &str,
        expected: &str,
    ) {
        let outcome = match parse(text) {
            Ok(map) => Value::Object(map).to_string(),
            Err(ImportError { line, column, kind }) => format!("{line}:{column} {kind}"),
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn comments_trailing_commas_and_a_byte_order_mark_are_read() {
        check(
            json,
            "\u{feff}{ // one\n \"b\": [1, 2.5,], /* two */ \"a\": null, }",
            r#"{"b":[1,2.5],"a":null}"#,
        );
    }

    #[test]
    fn an_empty_text_is_an_empty_object() {
        check(json, " \n// nothing yet\n", "{}");
        check(toml, "# nothing yet\n", "{}");
    }

    #[test]
    fn of_a_duplicate_key_the_last_counts() {
        check(json, r#"{"a": 1, "b": 2, "a": 3}"#, r#"{"a":3,"b":2}"#);
    }

    #[test]
    fn looser_dialects_are_errors_with_their_position() {
        check(json, "{\n  \"a\": 1\n  \"b\": 2\n}", "2:9 a comma is missing");
        check(json, "{\n  \"é\": 'x'\n}", "2:8 it is not JSON");
        check(json, "{a: 1}", "1:2 it is not JSON");
        check(json, r#"{"a": 0x10}"#, "1:7 it is not JSON");
        check(json, r#"{"a": "\q"}"#, "1:8 a string has an escape that is not JSON");
        check(json, r#"{"a": "never"#, "1:7 a string, comment, array or object is not closed");
        check(json, "{\"a\": [1,\n", "1:7 a string, comment, array or object is not closed");
        check(json, "{}\n{}", "2:1 there is more text after the end");
    }

    #[test]
    fn only_an_object_can_be_settings() {
        check(json, "\n [1]", "2:2 it is not an object");
        check(json, "\"mcpServers\"", "1:1 it is not an object");
    }

    #[test]
    fn deep_nesting_is_an_error() {
        check(json, &"[".repeat(100_000), "1:513 it is nested too deeply");
    }

    #[test]
    fn toml_keeps_its_order_and_its_types() {
        check(
            toml,
            "[z]\nn = 1\nf = 1.5\nd = 2026-01-02\n[a]\nl = [true]\n",
            r#"{"z":{"n":1,"f":1.5,"d":"2026-01-02"},"a":{"l":[true]}}"#,
        );
    }

    #[test]
    fn invalid_toml_is_an_error_with_its_position() {
        check(toml, "[a]\nb = = 1\n", "2:5 it is not TOML");
        check(toml, "a = 1\na = 2\n", "2:1 it is not TOML");
    }
}
