//! Makes the root a plain object, the only form that model APIs accept. Arguments are always an object, so that
//! alternatives for other types can be dropped without loss.
//!
//! One common form is dropped with a loss: alternatives of required arguments (`anyOf: [{required: [a]}, {required:
//! [b]}]`). They are kept separately for validation.

use serde_json::{Value as Json, json};

use super::{Object, QuarantineReason};

/// Keywords that model APIs reject at the root, besides combinations.
const REJECTED_AT_ROOT: [&str; 3] = ["enum", "const", "not"];
/// Keywords of two objects that can be merged by combining them.
const MERGEABLE: [&str; 7] =
    ["type", "properties", "required", "title", "description", "$comment", "additionalProperties"];

/// Keywords of an alternative that is only about required arguments.
const REQUIRED_ONLY_KEYS: [&str; 5] = ["type", "required", "title", "description", "$comment"];

/// Normalises the root, or returns the keyword that prevents it. Conditions that models are not shown go to
/// `validation_only`.
pub(crate) fn normalise_root(
    root: &mut Object,
    validation_only: &mut Vec<Json>,
) -> Result<(), QuarantineReason> {
    normalise_root_type(root)?;
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let Some(Json::Array(branches)) = root.get(keyword) else { continue };
        let mut branches: Vec<Json> = branches.clone();
        if keyword != "allOf" {
            branches.retain(allows_object);
            if branches.len() > 1 && branches.iter().all(has_only_required) {
                root.shift_remove(keyword);
                validation_only.push(json!({keyword: branches}));
                continue;
            }
            if branches.len() != 1 {
                return Err(QuarantineReason::RootKeyword(keyword));
            }
        }
        let mut merged = root.clone();
        merged.shift_remove(keyword);
        for branch in branches {
            merged = merge(merged, branch, validation_only)
                .ok_or(QuarantineReason::RootKeyword(keyword))?;
        }
        *root = merged;
    }
    if let Some(rejected) = REJECTED_AT_ROOT.iter().find(|it| root.contains_key(**it)) {
        return Err(QuarantineReason::RootKeyword(rejected));
    }
    if root.contains_key("$ref") {
        return Err(QuarantineReason::RootKeyword("$ref"));
    }
    root.entry("properties").or_insert_with(|| json!({}));
    Ok(())
}

fn normalise_root_type(root: &mut Object) -> Result<(), QuarantineReason> {
    match root.get("type") {
        Some(Json::String(kind)) if kind == "object" => return Ok(()),
        Some(Json::String(kind)) => {
            return Err(QuarantineReason::RootType(kind.chars().take(40).collect()));
        }
        Some(Json::Array(kinds)) if !kinds.iter().any(|it| it == "object") => {
            return Err(QuarantineReason::RootType("no object".to_owned()));
        }
        Some(_) | None => {}
    }
    root.shift_remove("type");
    root.shift_insert(0, "type".to_owned(), json!("object"));
    Ok(())
}

fn allows_object(branch: &Json) -> bool {
    match branch.get("type") {
        Some(Json::String(kind)) => kind == "object",
        Some(Json::Array(kinds)) => kinds.iter().any(|it| it == "object"),
        Some(_) | None => *branch != json!(false),
    }
}

/// Whether an alternative only lists required arguments.
fn has_only_required(branch: &Json) -> bool {
    let is_list = |it: &Json| it.as_array().is_some_and(|it| it.iter().all(Json::is_string));
    let Some(members) = branch.as_object() else { return false };
    members.keys().all(|it| REQUIRED_ONLY_KEYS.contains(&it.as_str()))
        && members.get("required").is_some_and(is_list)
}

/// Merges a branch into the root, if one object can express both.
fn merge(root: Object, branch: Json, validation_only: &mut Vec<Json>) -> Option<Object> {
    let mut branch = match branch {
        Json::Object(branch) => branch,
        Json::Bool(true) => return Some(root),
        Json::Bool(false) | Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            return None;
        }
    };
    normalise_root(&mut branch, validation_only).ok()?;
    // A root with annotations only takes over the branch.
    if root.keys().all(|it| ["type", "title", "description", "$comment"].contains(&it.as_str())) {
        let mut merged = root;
        for (keyword, value) in branch {
            merged.entry(keyword).or_insert(value);
        }
        return Some(merged);
    }
    let is_open =
        |it: &Object| matches!(it.get("additionalProperties"), None | Some(Json::Bool(true)));
    let is_plain = branch.keys().all(|it| MERGEABLE.contains(&it.as_str()));
    if !is_plain || !is_open(&branch) {
        return None;
    }
    let mut merged = root;
    let added_properties =
        branch.shift_remove("properties").and_then(into_object).unwrap_or_default();
    // A closed object rejects properties that it does not list, whatever the branch says.
    if !is_open(&merged) && !added_properties.is_empty() {
        return None;
    }
    let Json::Object(properties) = merged.entry("properties").or_insert_with(|| json!({})) else {
        return None;
    };
    for (name, schema) in added_properties {
        match properties.get_mut(&name) {
            Some(existing) if *existing == schema => {}
            Some(existing) => *existing = json!({"allOf": [existing.take(), schema]}),
            None => drop(properties.insert(name, schema)),
        }
    }
    let required = branch.shift_remove("required");
    let Json::Array(required_names) = merged.entry("required").or_insert_with(|| json!([])) else {
        return None;
    };
    for name in required.iter().filter_map(Json::as_array).flatten() {
        if !required_names.contains(name) {
            required_names.push(name.clone());
        }
    }
    if required_names.is_empty() {
        merged.shift_remove("required");
    }
    Some(merged)
}

fn into_object(value: Json) -> Option<Object> {
    match value {
        Json::Object(object) => Some(object),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
    }
}
