//! Translates older drafts of JSON Schema to 2020-12, and finds what model APIs would call malformed.
//! What references point to is left to `references`, what the root looks like to `root_shape`.

use serde_json::{Map, Value as Json, json};

use super::{Object, Pointer, QuarantineReason, SubschemaShape, each_child_mut, subschema_shape};

/// Rewrites what older drafts say in another way, here and below.
pub(crate) fn translate(schema: &mut Object) {
    // Which draft it was does not matter afterwards, and an address that is nowhere only misleads.
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

/// A list of schemas for items by position has a keyword of its own now.
fn translate_items(schema: &mut Object) {
    if !matches!(schema.get("items"), Some(Json::Array(_))) {
        return;
    }
    let listed = schema.shift_remove("items").unwrap_or_default();
    schema.insert("prefixItems".to_owned(), listed);
    if let Some(rest) = schema.shift_remove("additionalItems") {
        schema.insert("items".to_owned(), rest);
    }
}

/// An exclusive limit was a truth value beside the limit.
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

/// One keyword became two.
fn translate_dependencies(schema: &mut Object) {
    if !matches!(schema.get("dependencies"), Some(Json::Object(_))) {
        return;
    }
    let Some(Json::Object(all)) = schema.shift_remove("dependencies") else { return };
    let (names, schemas): (Map<_, _>, Map<_, _>) =
        all.into_iter().partition(|(_, value)| value.is_array());
    for (keyword, part) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
        if part.is_empty() {
            continue;
        }
        let there = schema.entry(keyword).or_insert_with(|| json!({}));
        if let Json::Object(there) = there {
            there.extend(part);
        }
    }
}

/// Is every keyword's value of the kind that the draft asks for, here and below?
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
            (SubschemaShape::List, Json::Array(listed)) => {
                for (index, child) in listed.iter().enumerate() {
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
    let are_texts = |it: &Json| {
        it.as_array().is_some_and(|it| {
            let mut texts: Vec<&str> = it.iter().filter_map(Json::as_str).collect();
            texts.sort_unstable();
            texts.len() == it.len() && texts.windows(2).all(|pair| pair[0] != pair[1])
        })
    };
    match keyword {
        "type" => is_type(value) || (are_texts(value) && has_some(value, is_type)),
        "required" => are_texts(value),
        "dependentRequired" => value.as_object().is_some_and(|it| it.values().all(are_texts)),
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
            SubschemaShape::List => has_some(value, |_| true),
            SubschemaShape::NotASchema => true,
        },
    }
}

fn has_some(value: &Json, good: impl Fn(&Json) -> bool) -> bool {
    value.as_array().is_some_and(|it| !it.is_empty() && it.iter().all(good))
}

/// A whole number that is not negative, `1.0` included.
fn is_count(value: &Json) -> bool {
    value.as_f64().is_some_and(|it| it >= 0.0 && it.fract() == 0.0)
}
