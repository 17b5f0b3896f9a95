//! The input schema of a tool, derived from the type of its arguments. `schemars` derives JSON Schema for Rust types;
//! here it becomes what models read best: no metadata, no Rust number formats, no `null` for an omitted argument.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json, json};

/// The schema of an argument type.
pub(super) fn of<A: JsonSchema>() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let schema = settings.into_generator().into_root_schema_for::<A>();
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    for metadata in ["title", "description"] {
        schema.shift_remove(metadata);
    }
    for member in ["properties", "required"] {
        let empty = if member == "properties" { json!({}) } else { json!([]) };
        schema.entry(member).or_insert(empty);
    }
    simplify(&mut schema);
    Json::Object(schema)
}

/// Simplifies a schema and all schemas in it.
fn simplify(schema: &mut Map<String, Json>) {
    let is_number =
        matches!(schema.get("type"), Some(Json::String(it)) if it == "integer" || it == "number");
    if is_number {
        schema.shift_remove("format");
    }
    if schema.contains_key("properties") {
        schema.entry("additionalProperties").or_insert(json!(false));
    }
    let required: Vec<Json> =
        schema.get("required").and_then(Json::as_array).cloned().unwrap_or_default();
    for (name, property) in
        schema.get_mut("properties").and_then(Json::as_object_mut).into_iter().flatten()
    {
        let Some(property) = property.as_object_mut() else { continue };
        if !required.iter().any(|it| it == name) {
            remove_null(property);
        }
        simplify(property);
    }
    if let Some(items) = schema.get_mut("items").and_then(Json::as_object_mut) {
        simplify(items);
    }
}

/// Removes `null` from the types of an optional argument, which is omitted instead.
fn remove_null(schema: &mut Map<String, Json>) {
    if schema.get("default").is_some_and(Json::is_null) {
        schema.shift_remove("default");
    }
    let Some(Json::Array(types)) = schema.get_mut("type") else { return };
    types.retain(|it| it != "null");
    if let [one] = &types[..] {
        let one = one.clone();
        schema.insert("type".to_owned(), one);
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only the schema is used")]
    struct Arguments {
        /// What to look for.
        #[schemars(length(min = 1, max = 50))]
        query: String,
        #[schemars(range(min = 1))]
        limit: Option<u32>,
        #[serde(default)]
        is_exact: bool,
        tags: Vec<Tag>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Tag {
        New,
        VeryOld,
    }

    #[test]
    fn a_schema_names_types_limits_and_descriptions() {
        assert_eq!(
            of::<Arguments>(),
            json!({
                "type": "object",
                "properties": {
                    "query": {
                        "description": "What to look for.", "type": "string", "minLength": 1, "maxLength": 50,
                    },
                    "limit": {"type": "integer", "minimum": 1},
                    "is_exact": {"type": "boolean", "default": false},
                    "tags": {"type": "array", "items": {"type": "string", "enum": ["new", "very_old"]}},
                },
                "required": ["query", "tags"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn a_type_without_fields_takes_no_arguments() {
        #[derive(Deserialize, JsonSchema)]
        struct Nothing {}

        let empty = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
        assert_eq!(of::<Nothing>(), empty);
    }
}
