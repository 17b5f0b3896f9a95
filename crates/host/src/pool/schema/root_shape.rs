//! Makes the root a plain object: that is all that model APIs take there.
//! Arguments are always an object, so whatever speaks of other kinds of values can go without loss.
//!
//! One thing goes with a loss: a choice between lists of arguments that have to be there (`anyOf: [{required: [a]},
//! {required: [b]}]`), which many tools have. It is kept beside, and arguments are checked against it.

use serde_json::{Value as Json, json};

use super::{Object, QuarantineReason};

/// What model APIs refuse at the root, besides combinations.
const REFUSED: [&str; 3] = ["enum", "const", "not"];
/// What two objects may say and still be merged by taking both.
const MERGEABLE: [&str; 7] =
    ["type", "properties", "required", "title", "description", "$comment", "additionalProperties"];

/// What an alternative may say and still only be about which arguments have to be there.
const REQUIRED_ONLY_KEYS: [&str; 5] = ["type", "required", "title", "description", "$comment"];

/// Settles the root, or says what is in the way. What model APIs are not told goes to `validation_only`.
pub(crate) fn normalise_root(
    root: &mut Object,
    validation_only: &mut Vec<Json>,
) -> Result<(), QuarantineReason> {
    normalise_root_type(root)?;
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let Some(Json::Array(branches)) = root.get(keyword) else { continue };
        let mut branches: Vec<Json> = branches.clone();
        if keyword != "allOf" {
            branches.retain(may_be_an_object);
            if branches.len() > 1 && branches.iter().all(is_about_presence) {
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
    if let Some(bad) = REFUSED.iter().find(|it| root.contains_key(**it)) {
        return Err(QuarantineReason::RootKeyword(bad));
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

fn may_be_an_object(branch: &Json) -> bool {
    match branch.get("type") {
        Some(Json::String(kind)) => kind == "object",
        Some(Json::Array(kinds)) => kinds.iter().any(|it| it == "object"),
        Some(_) | None => *branch != json!(false),
    }
}

/// Does it only say which arguments have to be there?
fn is_about_presence(branch: &Json) -> bool {
    let is_list = |it: &Json| it.as_array().is_some_and(|it| it.iter().all(Json::is_string));
    let Some(members) = branch.as_object() else { return false };
    members.keys().all(|it| REQUIRED_ONLY_KEYS.contains(&it.as_str()))
        && members.get("required").is_some_and(is_list)
}

/// Both at once, where that can be said as one object.
fn merge(root: Object, branch: Json, validation_only: &mut Vec<Json>) -> Option<Object> {
    let mut branch = match branch {
        Json::Object(branch) => branch,
        Json::Bool(true) => return Some(root),
        Json::Bool(false) | Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            return None;
        }
    };
    normalise_root(&mut branch, validation_only).ok()?;
    // A branch that says all there is to say takes its place as it is.
    if root.keys().all(|it| ["type", "title", "description", "$comment"].contains(&it.as_str())) {
        let mut whole = root;
        for (keyword, value) in branch {
            whole.entry(keyword).or_insert(value);
        }
        return Some(whole);
    }
    let is_open =
        |it: &Object| matches!(it.get("additionalProperties"), None | Some(Json::Bool(true)));
    let is_plain = branch.keys().all(|it| MERGEABLE.contains(&it.as_str()));
    if !is_plain || !is_open(&branch) {
        return None;
    }
    let mut whole = root;
    let added = branch.shift_remove("properties").and_then(into_object).unwrap_or_default();
    // What a closed object does not know is refused, whatever the branch says of it.
    if !is_open(&whole) && !added.is_empty() {
        return None;
    }
    let Json::Object(properties) = whole.entry("properties").or_insert_with(|| json!({})) else {
        return None;
    };
    for (name, schema) in added {
        match properties.get_mut(&name) {
            Some(there) if *there == schema => {}
            Some(there) => *there = json!({"allOf": [there.take(), schema]}),
            None => drop(properties.insert(name, schema)),
        }
    }
    let required = branch.shift_remove("required");
    let Json::Array(all) = whole.entry("required").or_insert_with(|| json!([])) else {
        return None;
    };
    for name in required.iter().filter_map(Json::as_array).flatten() {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    if all.is_empty() {
        whole.shift_remove("required");
    }
    Some(whole)
}

fn into_object(value: Json) -> Option<Object> {
    match value {
        Json::Object(object) => Some(object),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
    }
}
