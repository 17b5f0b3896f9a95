//! What a tool's input schema says about arguments: the JSON types of a value, and the names of all arguments.
//! Schemas come from servers, so the search in them is limited.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};
use switchboard::config::file::entry_decoder::nearest;

/// The most subschemas that are inspected for one value.
const MAX_SUBSCHEMAS: usize = 200;

/// An argument that a schema does not name.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownArgument {
    /// Its name.
    pub name: String,
    /// The most similar name in the schema.
    pub nearest: Option<String>,
}

/// The value that a text stands for at a path; `None` where it stays a string: if the schema allows a string or says
/// nothing there, or if the text is no value of an allowed type.
pub(super) fn typed_value(schema: &Json, path: &[String], text: &str) -> Option<Json> {
    let types = allowed_types(&subschemas_at(schema, path));
    if types.is_empty() || types.contains("string") {
        return None;
    }
    let value: Json = serde_json::from_str(text.trim()).ok()?;
    let is_allowed = match &value {
        Json::Number(number) => {
            types.contains("number")
                || (types.contains("integer") && (number.is_i64() || number.is_u64()))
        }
        Json::Null => types.contains("null"),
        Json::Bool(_) => types.contains("boolean"),
        Json::Array(_) => types.contains("array"),
        Json::Object(_) => types.contains("object"),
        Json::String(_) => false,
    };
    is_allowed.then_some(value)
}

/// The arguments that the schema does not name. Empty where the schema names none, where it describes arguments with
/// other names, and where it forbids them, which the check of arguments reports.
pub(super) fn unknown_arguments(
    schema: &Json,
    arguments: &Map<String, Json>,
) -> Vec<UnknownArgument> {
    let subschemas = subschemas_at(schema, &[]);
    let decides_about_others = |it: &&Json| {
        let others = [it.get("additionalProperties"), it.get("unevaluatedProperties")];
        it.get("patternProperties").is_some()
            || others.into_iter().flatten().any(|it| *it != Json::Bool(true))
    };
    if subschemas.iter().any(decides_about_others) {
        return Vec::new();
    }
    let properties =
        subschemas.iter().filter_map(|it| it.get("properties").and_then(Json::as_object));
    let known: BTreeSet<&str> = properties.flat_map(Map::keys).map(String::as_str).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let unknown = arguments.keys().filter(|name| !known.contains(name.as_str()));
    unknown
        .map(|name| UnknownArgument {
            name: name.clone(),
            nearest: nearest(name, known.iter().copied()).map(str::to_owned),
        })
        .collect()
}

/// The types that the subschemas name, also by the values that they list.
fn allowed_types<'s>(subschemas: &[&'s Json]) -> BTreeSet<&'s str> {
    let mut types: BTreeSet<&'s str> = BTreeSet::new();
    for &schema in subschemas {
        match schema.get("type") {
            Some(Json::String(only)) => {
                types.insert(only.as_str());
            }
            Some(Json::Array(several)) => types.extend(several.iter().filter_map(Json::as_str)),
            Some(_) | None => {
                let listed = schema.get("enum").and_then(Json::as_array).into_iter().flatten();
                for value in listed.chain(schema.get("const")) {
                    types.insert(type_of(value));
                }
            }
        }
    }
    types
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// The subschemas that describe the value at a path, with everything that they refer to.
fn subschemas_at<'s>(root: &'s Json, path: &[String]) -> Vec<&'s Json> {
    let mut current = with_parts(root, vec![root]);
    for key in path {
        let members = current.iter().filter_map(|schema| {
            let named = schema.get("properties").and_then(|it| it.get(key));
            named.or_else(|| schema.get("additionalProperties"))
        });
        current = with_parts(root, members.collect());
    }
    current
}

/// The schemas, and those that they refer to or combine.
fn with_parts<'s>(root: &'s Json, schemas: Vec<&'s Json>) -> Vec<&'s Json> {
    let mut found: Vec<&Json> = Vec::new();
    let mut waiting = schemas;
    while let Some(schema) = waiting.pop() {
        if found.len() == MAX_SUBSCHEMAS {
            break;
        }
        if found.iter().any(|it| std::ptr::eq(*it, schema)) {
            continue;
        }
        found.push(schema);
        waiting.extend(referenced(root, schema));
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let parts = schema.get(keyword).and_then(Json::as_array);
            waiting.extend(parts.into_iter().flatten().take(MAX_SUBSCHEMAS));
        }
    }
    found
}

/// The schema that `$ref` points to in the same document.
fn referenced<'s>(root: &'s Json, schema: &Json) -> Option<&'s Json> {
    root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: Json, text: &str, expected: Option<Json>) {
        let root = json!({
            "type": "object",
            "properties": {"v": schema},
            "$defs": {"count": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}},
        });
        assert_eq!(typed_value(&root, &["v".to_owned()], text), expected, "{root} {text}");
    }

    #[test]
    fn a_text_is_read_as_the_type_that_the_schema_names() {
        check(json!({"type": "integer"}), "3", Some(json!(3)));
        check(json!({"type": "integer"}), "3.5", None);
        check(json!({"type": "number"}), "3.5", Some(json!(3.5)));
        check(json!({"type": "boolean"}), "true", Some(json!(true)));
        check(json!({"type": ["integer", "null"]}), "null", Some(json!(null)));
        check(json!({"type": "array"}), r#"["a"]"#, Some(json!(["a"])));
        check(json!({"type": "object"}), r#"{"a": 1}"#, Some(json!({"a": 1})));
        check(json!({"enum": [1, 2]}), "2", Some(json!(2)));
        check(json!({"$ref": "#/$defs/count"}), "3", Some(json!(3)));
        let optional = json!({"anyOf": [{"type": "integer"}, {"type": "null"}]});
        check(optional, "3", Some(json!(3)));
        check(json!({"type": "integer", "allOf": [{"minimum": 1}]}), "3", Some(json!(3)));
    }

    #[test]
    fn a_text_stays_a_string_where_that_is_allowed_or_nothing_else_fits() {
        for schema in [
            json!({"type": "string"}),
            json!({"type": ["string", "integer"]}),
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({"enum": ["3", 3]}),
            json!({}),
            json!(true),
            json!({"$ref": "#/$defs/loop"}),
            json!({"type": "boolean"}),
        ] {
            check(schema, "3", None);
        }
        check(json!({"type": "array"}), "a,b", None);
        assert_eq!(typed_value(&json!({}), &["v".to_owned()], "3"), None);
    }

    #[test]
    fn values_inside_objects_have_their_own_type() {
        let inner = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let root = json!({"properties": {"a": inner}, "additionalProperties": {"type": "boolean"}});
        let at = |path: &[&str], text: &str| {
            let path: Vec<String> = path.iter().map(|it| (*it).to_owned()).collect();
            typed_value(&root, &path, text)
        };
        assert_eq!(at(&["a", "n"], "3"), Some(json!(3)));
        assert_eq!(at(&["other"], "true"), Some(json!(true)));
    }

    #[test]
    fn arguments_that_the_schema_does_not_name_are_unknown_unless_it_wants_any() {
        let unknown = |schema: Json| {
            let arguments = json!({"text_": 1, "text": 2});
            let arguments = arguments.as_object().expect("an object").clone();
            unknown_arguments(&schema, &arguments)
        };
        let expected = UnknownArgument { name: "text_".into(), nearest: Some("text".into()) };
        assert_eq!(unknown(json!({"properties": {"text": {}}})), [expected]);
        for schema in [
            json!({}),
            json!({"properties": {"text": {}}, "additionalProperties": false}),
            json!({"properties": {"text": {}}, "additionalProperties": {"type": "integer"}}),
            json!({"properties": {"text": {}}, "patternProperties": {"^t": {}}}),
            json!({"properties": {"text": {}}, "anyOf": [{"properties": {"text_": {}}}]}),
        ] {
            assert_eq!(unknown(schema.clone()), [], "{schema}");
        }
    }
}
