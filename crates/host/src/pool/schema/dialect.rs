//! Translates older drafts of JSON Schema to 2020-12 and finds malformed keywords. `references` checks references,
//! `root_shape` checks the root.

use serde_json::{Map, Value as Json, json};

use super::{Object, Pointer, QuarantineReason, SubschemaShape, each_child_mut, subschema_shape};

/// Rewrites keywords of older drafts, in all subschemas.
pub(crate) fn translate(schema: &mut Object) {
    // The draft does not matter after the translation, and an `$id` that resolves to nothing misleads.
    schema.shift_remove("$schema");
    schema.shift_remove("$id");
    translate_items(schema);
    translate_limit(schema, "minimum", "exclusiveMinimum");
    translate_limit(schema, "maximum", "exclusiveMaximum");
    translate_dependencies(schema);
    each_child_mut(schema, &mut |child| {
        if let Json::Object(child) = child {
            translate(child);
        }
    });
}

/// An array in `items` became `prefixItems`.
fn translate_items(schema: &mut Object) {
    if !matches!(schema.get("items"), Some(Json::Array(_))) {
        return;
    }
    let prefix_items = schema.shift_remove("items").unwrap_or_default();
    schema.insert("prefixItems".to_owned(), prefix_items);
    if let Some(rest) = schema.shift_remove("additionalItems") {
        schema.insert("items".to_owned(), rest);
    }
}

/// A boolean `exclusiveMinimum` or `exclusiveMaximum` became a number.
fn translate_limit(schema: &mut Object, inclusive: &str, exclusive: &str) {
    let Some(Json::Bool(is_exclusive)) = schema.get(exclusive) else { return };
    match is_exclusive {
        false => drop(schema.shift_remove(exclusive)),
        true => match schema.shift_remove(inclusive) {
            Some(limit) => drop(schema.insert(exclusive.to_owned(), limit)),
            None => drop(schema.shift_remove(exclusive)),
        },
    }
}

/// `dependencies` became `dependentRequired` and `dependentSchemas`.
fn translate_dependencies(schema: &mut Object) {
    if !matches!(schema.get("dependencies"), Some(Json::Object(_))) {
        return;
    }
    let Some(Json::Object(dependencies)) = schema.shift_remove("dependencies") else { return };
    let (names, schemas): (Map<_, _>, Map<_, _>) =
        dependencies.into_iter().partition(|(_, value)| value.is_array());
    for (keyword, part) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
        if part.is_empty() {
            continue;
        }
        let existing = schema.entry(keyword).or_insert_with(|| json!({}));
        if let Json::Object(existing) = existing {
            existing.extend(part);
        }
    }
}

/// Checks the types of all keywords' values, in all subschemas.
pub(crate) fn check_keywords(schema: &Object, at: &Pointer) -> Result<(), QuarantineReason> {
    for (keyword, value) in schema {
        if !is_valid_keyword(keyword, value) {
            return Err(QuarantineReason::Malformed(at.then(keyword)));
        }
        let at = || at.then(keyword);
        match (subschema_shape(keyword), value) {
            (SubschemaShape::Single, Json::Object(child)) => check_keywords(child, &at())?,
            (SubschemaShape::Map, Json::Object(named)) => {
                for (name, child) in named {
                    check_child(child, &at().then(name))?;
                }
            }
            (SubschemaShape::List, Json::Array(prefix_items)) => {
                for (index, child) in prefix_items.iter().enumerate() {
                    check_child(child, &at().then(index))?;
                }
            }
            (
                SubschemaShape::Single
                | SubschemaShape::Map
                | SubschemaShape::List
                | SubschemaShape::NotASchema,
                _,
            ) => {}
        }
    }
    Ok(())
}

fn check_child(child: &Json, at: &Pointer) -> Result<(), QuarantineReason> {
    match child {
        Json::Object(child) => check_keywords(child, at),
        Json::Bool(_) => Ok(()),
        Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Err(QuarantineReason::Malformed(at.clone()))
        }
    }
}

pub(crate) const TYPES: [&str; 7] =
    ["array", "boolean", "integer", "null", "number", "object", "string"];

fn is_valid_keyword(keyword: &str, value: &Json) -> bool {
    let is_type = |it: &Json| it.as_str().is_some_and(|it| TYPES.contains(&it));
    let are_unique_strings = |it: &Json| {
        it.as_array().is_some_and(|it| {
            let mut strings: Vec<&str> = it.iter().filter_map(Json::as_str).collect();
            strings.sort_unstable();
            strings.len() == it.len() && strings.windows(2).all(|pair| pair[0] != pair[1])
        })
    };
    match keyword {
        "type" => {
            is_type(value) || (are_unique_strings(value) && is_nonempty_list_of(value, is_type))
        }
        "required" => are_unique_strings(value),
        "dependentRequired" => {
            value.as_object().is_some_and(|it| it.values().all(are_unique_strings))
        }
        "enum" | "examples" => value.is_array(),
        "title" | "description" | "format" | "pattern" | "$ref" | "$comment" => value.is_string(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => is_count(value),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|it| it > 0.0),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        _ => match subschema_shape(keyword) {
            SubschemaShape::Single => value.is_object() || value.is_boolean(),
            SubschemaShape::Map => value.is_object(),
            SubschemaShape::List => is_nonempty_list_of(value, |_| true),
            SubschemaShape::NotASchema => true,
        },
    }
}

fn is_nonempty_list_of(value: &Json, is_valid: impl Fn(&Json) -> bool) -> bool {
    value.as_array().is_some_and(|it| !it.is_empty() && it.iter().all(is_valid))
}

/// A non-negative integer, including `1.0`.
fn is_count(value: &Json) -> bool {
    value.as_f64().is_some_and(|it| it >= 0.0 && it.fract() == 0.0)
}
