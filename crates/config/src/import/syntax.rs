//! Parses a peer's file, JSON or TOML, into one kind of tree.
//! What the keys mean is left to the file of each host.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind, parse_to_ast};
use serde_json::{Map, Number, Value};

use super::note::{ReadError, ReadErrorKind};

/// Reads JSON with comments and trailing commas; nothing but white space is an empty object.
pub(super) fn json(text: &str) -> Result<Map<String, Value>, ReadError> {
    let text = without_mark(text);
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options())
        .map_err(|error| error_at(text, error.range().start, json_kind(&error)))?;
    match parsed.value {
        None => Ok(Map::new()),
        Some(ast::Value::Object(object)) => object_from(text, object),
        Some(other) => Err(error_at(text, other.range().start, ReadErrorKind::NotAnObject)),
    }
}

/// Reads TOML. Dates become text.
pub(super) fn toml(text: &str) -> Result<Map<String, Value>, ReadError> {
    let text = without_mark(text);
    let table = text.parse::<toml::Table>().map_err(|error| {
        let start = error.span().map_or(text.len(), |span| span.start);
        error_at(text, start, ReadErrorKind::NotToml)
    })?;
    Ok(table.into_iter().map(|(key, value)| (key, from_toml(value))).collect())
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn options() -> ParseOptions {
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

fn object_from(text: &str, object: ast::Object<'_>) -> Result<Map<String, Value>, ReadError> {
    let mut map = Map::new();
    for property in object.properties {
        let value = value_from(text, property.value)?;
        // Of a doubled key the last one counts, as it does for every peer.
        map.insert(property.name.into_string(), value);
    }
    Ok(map)
}

fn value_from(text: &str, value: ast::Value<'_>) -> Result<Value, ReadError> {
    Ok(match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::StringLit(literal) => Value::String(literal.value.into_owned()),
        ast::Value::NumberLit(literal) => {
            let number = literal.value.parse::<Number>();
            Value::Number(number.map_err(|_not_a_number| {
                error_at(text, literal.range.start, ReadErrorKind::NotJson)
            })?)
        }
        ast::Value::Array(array) => {
            let values = array.elements.into_iter().map(|element| value_from(text, element));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => Value::Object(object_from(text, object)?),
    })
}

fn from_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        // JSON has no word for what is not a number; as text it is still a wrong type.
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

/// The parser's own words may quote the text, so only the kind of fault is kept.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser's list of faults is long and not ours; the rest are all the same to people"
)]
fn json_kind(error: &ParseError) -> ReadErrorKind {
    match error.kind() {
        ParseErrorKind::ExpectedComma => ReadErrorKind::MissingComma,
        ParseErrorKind::UnterminatedArray
        | ParseErrorKind::UnterminatedObject
        | ParseErrorKind::UnterminatedCommentBlock
        | ParseErrorKind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            ReadErrorKind::NotClosed
        }
        ParseErrorKind::String(_) => ReadErrorKind::BadString,
        ParseErrorKind::MultipleRootJsonValues => ReadErrorKind::TextAfterEnd,
        ParseErrorKind::NestingDepthExceeded => ReadErrorKind::TooDeep,
        _ => ReadErrorKind::NotJson,
    }
}

fn error_at(text: &str, offset: usize, kind: ReadErrorKind) -> ReadError {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    ReadError {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(parse: fn(&str) -> Result<Map<String, Value>, ReadError>, text: &str, expected: &str) {
        let outcome = match parse(text) {
            Ok(map) => Value::Object(map).to_string(),
            Err(ReadError { line, column, kind }) => format!("{line}:{column} {kind}"),
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
    fn nothing_is_an_empty_object() {
        check(json, " \n// nothing yet\n", "{}");
        check(toml, "# nothing yet\n", "{}");
    }

    #[test]
    fn of_a_doubled_key_the_last_counts() {
        check(json, r#"{"a": 1, "b": 2, "a": 3}"#, r#"{"a":3,"b":2}"#);
    }

    #[test]
    fn whatever_is_looser_than_that_is_refused_with_its_place() {
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
    fn a_tower_of_brackets_is_refused() {
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
    fn broken_toml_is_refused_with_its_place() {
        check(toml, "[a]\nb = = 1\n", "2:5 it is not TOML");
        check(toml, "a = 1\na = 2\n", "2:1 it is not TOML");
    }
}
