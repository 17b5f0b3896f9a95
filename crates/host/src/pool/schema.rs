//! Normalises a tool's input schema for model APIs without changing its meaning. A schema that cannot be normalised
//! quarantines its tool, never the server.
//!
//! The result is JSON Schema 2020-12 with an object at its root and without remote references. Older drafts are
//! translated, local references inlined, and combinations at the root merged where that loses nothing.

mod dialect;
mod plain_check;
pub(super) mod references;
mod root_shape;

use std::fmt;

use serde_json::value::RawValue;
use serde_json::{Map, Value as Json, json};
use switchboard_wire::jsonrpc::message::Payload;
use thiserror::Error;

/// The maximum size of a schema in bytes of JSON.
pub const MAX_BYTES: usize = 64 * 1024;
/// The maximum nesting depth of a schema's JSON. A nested property takes two levels.
pub const MAX_DEPTH: usize = 64;

type Object = Map<String, Json>;

/// Why a tool is quarantined.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QuarantineReason {
    /// The definition is not valid JSON.
    #[error("its definition is not valid JSON")]
    Unreadable,
    /// The schema is not an object.
    #[error("its input schema is not an object")]
    NotASchema,
    /// The schema requires another type than an object.
    #[error("its input schema requires {0}, but arguments are always an object")]
    RootType(String),
    /// A combination at the root that cannot be merged without loss.
    #[error("its input schema has `{0}` at the root, which model APIs reject")]
    RootKeyword(&'static str),
    /// A remote reference, which is never fetched.
    #[error("its input schema refers to `{0}`, and remote references are not fetched")]
    RemoteReference(String),
    /// A reference without a target.
    #[error("its input schema refers to `{0}`, which does not exist")]
    DanglingReference(String),
    /// An argument name that model APIs reject.
    #[error("its argument `{0}` has a name that model APIs reject")]
    ArgumentName(String),
    /// A keyword with an invalid value.
    #[error("its input schema is malformed at `{0}`")]
    Malformed(Pointer),
    /// Larger than [`MAX_BYTES`].
    #[error("its input schema is too large: {0} bytes")]
    TooLarge(usize),
    /// Deeper than [`MAX_DEPTH`].
    #[error("its input schema is nested too deeply")]
    TooDeep,
}

/// A JSON pointer into a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pointer(String);

impl Pointer {
    fn then(&self, step: impl fmt::Display) -> Pointer {
        let step = step.to_string().replace('~', "~0").replace('/', "~1");
        // Names come from the server; long ones are truncated.
        let step: String = step.chars().take(100).collect();
        Pointer(format!("{}/{step}", self.0))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A schema for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NormalisedSchema {
    /// The schema as the model sees it.
    pub shown: Payload,
    /// The schema for validation, if it is stricter.
    pub validated: Option<Payload>,
}

impl From<Payload> for NormalisedSchema {
    fn from(shown: Payload) -> NormalisedSchema {
        NormalisedSchema { shown, validated: None }
    }
}

/// Normalises a schema, or returns why that is impossible. `all` is the payload that `raw` may be a part of.
pub(super) fn normalise(
    raw: Option<&RawValue>,
    all: &Payload,
) -> Result<NormalisedSchema, QuarantineReason> {
    let Some(raw) = raw else { return to_payload(&empty_schema()).map(NormalisedSchema::from) };
    let text = raw.get();
    if text.len() > MAX_BYTES {
        return Err(QuarantineReason::TooLarge(text.len()));
    }
    if plain_check::is_plain(text) {
        return Ok(Payload::from_json(all.as_bytes().slice_ref(text.as_bytes())).into());
    }
    // JSON that exceeds serde_json's recursion limit is too deep for us as well.
    let schema = serde_json::from_str(text).map_err(|_| QuarantineReason::TooDeep)?;
    let mut validation_only = Vec::new();
    let mut normal = normalise_json(schema, &mut validation_only)?;
    let shown = to_payload(&normal)?;
    if validation_only.is_empty() {
        return Ok(shown.into());
    }
    // The root has no `allOf` any more.
    normal["allOf"] = validation_only.into();
    Ok(NormalisedSchema { shown, validated: Some(to_payload(&normal)?) })
}

fn to_payload(schema: &Json) -> Result<Payload, QuarantineReason> {
    let payload = Payload::encode(schema).map_err(|_| QuarantineReason::Unreadable)?;
    match payload.as_bytes().len() {
        size if size > MAX_BYTES => Err(QuarantineReason::TooLarge(size)),
        _ => Ok(payload),
    }
}

fn empty_schema() -> Json {
    json!({"type": "object", "properties": {}})
}

/// Conditions that models are not shown but that still count go to `validation_only`.
fn normalise_json(schema: Json, validation_only: &mut Vec<Json>) -> Result<Json, QuarantineReason> {
    let mut root = match schema {
        Json::Object(root) => root,
        Json::Null | Json::Bool(true) => return Ok(empty_schema()),
        Json::Bool(false) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            return Err(QuarantineReason::NotASchema);
        }
    };
    if depth(root.values()) + 1 > MAX_DEPTH {
        return Err(QuarantineReason::TooDeep);
    }
    dialect::translate(&mut root);
    let mut root = references::inline_references(root)?;
    root_shape::normalise_root(&mut root, validation_only)?;
    // Merging moves subschemas, so check that all references still have a target.
    references::check_targets(&root)?;
    dialect::check_keywords(&root, &Pointer::default())?;
    let names = root.get("properties").and_then(Json::as_object);
    if let Some(invalid_name) =
        names.into_iter().flatten().map(|it| it.0).find(|it| !is_argument_name(it))
    {
        return Err(QuarantineReason::ArgumentName(invalid_name.chars().take(100).collect()));
    }
    Ok(Json::Object(root))
}

fn is_argument_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(allowed)
}

fn depth<'a>(children: impl Iterator<Item = &'a Json>) -> usize {
    children.map(depth_of).max().unwrap_or(0)
}

fn depth_of(value: &Json) -> usize {
    match value {
        Json::Object(map) => 1 + depth(map.values()),
        Json::Array(items) => 1 + depth(items.iter()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => 0,
    }
}

/// The kind of subschemas in a keyword's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubschemaShape {
    /// One schema.
    Single,
    /// Schemas by name.
    Map,
    /// A list of schemas.
    List,
    /// No schema.
    NotASchema,
}

fn subschema_shape(keyword: &str) -> SubschemaShape {
    match keyword {
        "items"
        | "additionalProperties"
        | "contains"
        | "not"
        | "if"
        | "then"
        | "else"
        | "propertyNames"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contentSchema" => SubschemaShape::Single,
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            SubschemaShape::Map
        }
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => SubschemaShape::List,
        _ => SubschemaShape::NotASchema,
    }
}

/// Calls `act` on each direct subschema.
fn each_child<'a>(schema: &'a Object, act: &mut dyn FnMut(&'a Json)) {
    for (keyword, value) in schema {
        match (subschema_shape(keyword), value) {
            (SubschemaShape::Single, value) => act(value),
            (SubschemaShape::Map, Json::Object(named)) => named.values().for_each(&mut *act),
            (SubschemaShape::List, Json::Array(listed)) => listed.iter().for_each(&mut *act),
            (SubschemaShape::Map | SubschemaShape::List | SubschemaShape::NotASchema, _) => {}
        }
    }
}

/// Calls `act` on each direct subschema, mutably.
fn each_child_mut(schema: &mut Object, act: &mut dyn FnMut(&mut Json)) {
    for (keyword, value) in schema.iter_mut() {
        match (subschema_shape(keyword), value) {
            (SubschemaShape::Single, value) => act(value),
            (SubschemaShape::Map, Json::Object(named)) => named.values_mut().for_each(&mut *act),
            (SubschemaShape::List, Json::Array(listed)) => listed.iter_mut().for_each(&mut *act),
            (SubschemaShape::Map | SubschemaShape::List | SubschemaShape::NotASchema, _) => {}
        }
    }
}

#[cfg(test)]
mod tests;
