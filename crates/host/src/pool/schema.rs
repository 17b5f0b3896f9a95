//! Makes a tool's input schema one that model APIs take, without changing what it says.
//! What cannot be brought there is refused with a reason, which takes one tool out and never its server.
//!
//! The result is JSON Schema 2020-12 with an object at its root and nothing that has to be fetched. Older drafts are
//! translated, local references are put in place, and combinations at the root are merged where that loses nothing.

mod dialect;
mod plain_check;
mod references;
mod root_shape;

use std::fmt;

use serde_json::value::RawValue;
use serde_json::{Map, Value as Json, json};
use switchboard_wire::jsonrpc::message::Payload;
use thiserror::Error;

/// The largest schema that is shown to a model, in bytes of JSON.
pub const MAX_BYTES: usize = 64 * 1024;
/// How deeply a schema's JSON may be nested. One property inside another takes two.
pub const MAX_DEPTH: usize = 64;

type Object = Map<String, Json>;

/// Why a tool is kept from the model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuarantineReason {
    /// It is not even JSON that we can read.
    #[error("its definition cannot be read")]
    Unreadable,
    /// The schema is something other than an object.
    #[error("its input schema is not an object")]
    NotASchema,
    /// The schema wants something other than an object.
    #[error("its input schema wants {0}, where arguments are always an object")]
    RootType(String),
    /// A combination at the root that cannot be merged without loss.
    #[error("its input schema has `{0}` at the root, which model APIs refuse")]
    RootKeyword(&'static str),
    /// A reference to somewhere else; nothing is fetched.
    #[error("its input schema refers to `{0}`, and nothing is fetched")]
    RemoteReference(String),
    /// A reference to nothing.
    #[error("its input schema refers to `{0}`, which is not there")]
    DanglingReference(String),
    /// A name of an argument that model APIs refuse.
    #[error("its argument `{0}` has a name that model APIs refuse")]
    ArgumentName(String),
    /// A keyword whose value makes no sense.
    #[error("its input schema is malformed at `{0}`")]
    Malformed(Pointer),
    /// More than [`LARGEST`].
    #[error("its input schema is too large: {0} bytes")]
    TooLarge(usize),
    /// Deeper than [`DEEPEST`].
    #[error("its input schema is nested too deeply")]
    TooDeep,
}

/// A place in a schema, as a JSON pointer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pointer(String);

impl Pointer {
    fn then(&self, step: impl fmt::Display) -> Pointer {
        let step = step.to_string().replace('~', "~0").replace('/', "~1");
        // Names come from the server; a long one helps nobody.
        let step: String = step.chars().take(100).collect();
        Pointer(format!("{}/{step}", self.0))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A schema that can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NormalisedSchema {
    /// As it is shown.
    pub shown: Payload,
    /// As arguments are checked, where that is more than is shown.
    pub validated: Option<Payload>,
}

impl From<Payload> for NormalisedSchema {
    fn from(shown: Payload) -> NormalisedSchema {
        NormalisedSchema { shown, validated: None }
    }
}

/// The schema as it is shown, or why it is not. `all` are bytes that `raw` may be a part of.
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
    // Deeper JSON than serde_json reads is too deep for us as well.
    let schema = serde_json::from_str(text).map_err(|_| QuarantineReason::TooDeep)?;
    let mut validation_only = Vec::new();
    let mut normal = normalise_json(schema, &mut validation_only)?;
    let shown = to_payload(&normal)?;
    if validation_only.is_empty() {
        return Ok(shown.into());
    }
    // Nothing of that name is left at the root.
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

/// What is not shown and still counts goes to `validation_only`.
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
    // Merging moves things; what still refers to them must find them.
    references::check_targets(&root)?;
    dialect::check_keywords(&root, &Pointer::default())?;
    let names = root.get("properties").and_then(Json::as_object);
    if let Some(bad) = names.into_iter().flatten().map(|it| it.0).find(|it| !is_argument_name(it)) {
        return Err(QuarantineReason::ArgumentName(bad.chars().take(100).collect()));
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

/// What a keyword's value holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubschemaShape {
    /// A schema.
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

/// Every schema directly inside one.
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

/// Every schema directly inside one, to be changed.
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
