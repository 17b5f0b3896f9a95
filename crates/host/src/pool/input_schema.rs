//! Makes a tool's input schema one that model APIs take, without changing what it says.
//! What cannot be brought there is refused with a reason, which takes one tool out and never its server.
//!
//! The result is JSON Schema 2020-12 with an object at its root and nothing that has to be fetched. Older drafts are
//! translated, local references are put in place, and combinations at the root are merged where that loses nothing.

mod dialect;
mod references;
mod root_shape;
mod survey;

use std::fmt;

use serde_json::value::RawValue;
use serde_json::{Map, Value as Json, json};
use switchboard_wire::message::Payload;
use thiserror::Error;

/// The largest schema that is shown to a model, in bytes of JSON.
pub const LARGEST: usize = 64 * 1024;
/// How deeply a schema's JSON may be nested. One property inside another takes two.
pub const DEEPEST: usize = 64;

type Object = Map<String, Json>;

/// Why a tool is kept from the model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reason {
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
pub(super) struct Normal {
    /// As it is shown.
    pub shown: Payload,
    /// As arguments are checked, where that is more than is shown.
    pub checked: Option<Payload>,
}

impl From<Payload> for Normal {
    fn from(shown: Payload) -> Normal {
        Normal { shown, checked: None }
    }
}

/// The schema as it is shown, or why it is not. `all` are bytes that `raw` may be a part of.
pub(super) fn normalised(raw: Option<&RawValue>, all: &Payload) -> Result<Normal, Reason> {
    let Some(raw) = raw else { return written(&nothing()).map(Normal::from) };
    let text = raw.get();
    if text.len() > LARGEST {
        return Err(Reason::TooLarge(text.len()));
    }
    if survey::is_plain(text) {
        return Ok(Payload::from_json(all.as_bytes().slice_ref(text.as_bytes())).into());
    }
    // Deeper JSON than serde_json reads is too deep for us as well.
    let schema = serde_json::from_str(text).map_err(|_| Reason::TooDeep)?;
    let mut untold = Vec::new();
    let mut normal = normal(schema, &mut untold)?;
    let shown = written(&normal)?;
    if untold.is_empty() {
        return Ok(shown.into());
    }
    // Nothing of that name is left at the root.
    normal["allOf"] = untold.into();
    Ok(Normal { shown, checked: Some(written(&normal)?) })
}

fn written(schema: &Json) -> Result<Payload, Reason> {
    let payload = Payload::of(schema).map_err(|_| Reason::Unreadable)?;
    match payload.as_bytes().len() {
        size if size > LARGEST => Err(Reason::TooLarge(size)),
        _ => Ok(payload),
    }
}

fn nothing() -> Json {
    json!({"type": "object", "properties": {}})
}

/// What is not shown and still counts goes to `untold`.
fn normal(schema: Json, untold: &mut Vec<Json>) -> Result<Json, Reason> {
    let mut root = match schema {
        Json::Object(root) => root,
        Json::Null | Json::Bool(true) => return Ok(nothing()),
        Json::Bool(false) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            return Err(Reason::NotASchema);
        }
    };
    if depth(root.values()) + 1 > DEEPEST {
        return Err(Reason::TooDeep);
    }
    dialect::translate(&mut root);
    let mut root = references::resolved(root)?;
    root_shape::settle(&mut root, untold)?;
    // Merging moves things; what still refers to them must find them.
    references::examine(&root)?;
    dialect::examine(&root, &Pointer::default())?;
    let names = root.get("properties").and_then(Json::as_object);
    if let Some(bad) = names.into_iter().flatten().map(|it| it.0).find(|it| !is_argument_name(it)) {
        return Err(Reason::ArgumentName(bad.chars().take(100).collect()));
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
enum Inside {
    /// A schema.
    Schema,
    /// Schemas by name.
    Named,
    /// A list of schemas.
    Listed,
    /// No schema.
    Nothing,
}

fn inside(keyword: &str) -> Inside {
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
        | "contentSchema" => Inside::Schema,
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            Inside::Named
        }
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => Inside::Listed,
        _ => Inside::Nothing,
    }
}

/// Every schema directly inside one.
fn each_child<'a>(schema: &'a Object, act: &mut dyn FnMut(&'a Json)) {
    for (keyword, value) in schema {
        match (inside(keyword), value) {
            (Inside::Schema, value) => act(value),
            (Inside::Named, Json::Object(named)) => named.values().for_each(&mut *act),
            (Inside::Listed, Json::Array(listed)) => listed.iter().for_each(&mut *act),
            (Inside::Named | Inside::Listed | Inside::Nothing, _) => {}
        }
    }
}

/// Every schema directly inside one, to be changed.
fn each_child_mut(schema: &mut Object, act: &mut dyn FnMut(&mut Json)) {
    for (keyword, value) in schema.iter_mut() {
        match (inside(keyword), value) {
            (Inside::Schema, value) => act(value),
            (Inside::Named, Json::Object(named)) => named.values_mut().for_each(&mut *act),
            (Inside::Listed, Json::Array(listed)) => listed.iter_mut().for_each(&mut *act),
            (Inside::Named | Inside::Listed | Inside::Nothing, _) => {}
        }
    }
}

#[cfg(test)]
mod tests;
