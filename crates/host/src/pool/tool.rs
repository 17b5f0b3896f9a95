//! One tool as the pool has it: named, described, and with a schema that a model API takes.
//! What the server sent stays beside it, byte for byte.

use std::borrow::Cow;
use std::sync::OnceLock;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::protocol::param_headers::ParamHeaders;

use super::argument_check::{ArgumentChecker, ArgumentFault};
use super::hidden_text::{HiddenText, inspect};
use super::schema::{NormalisedSchema, QuarantineReason, normalise};

/// The longest description that a model is shown, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 2048;
/// What a description that was cut ends with.
const TRUNCATION_MARK: &str = "… [truncated]";
/// The longest title, in characters.
const MAX_TITLE_CHARS: usize = 256;

/// A tool under its exposed name.
#[derive(Debug)]
pub struct Tool {
    /// What the model calls it.
    pub exposed_name: String,
    /// Whose it is; empty for one of our own.
    pub server: String,
    /// Its server's name as exposed names and rules write it.
    pub prefix: String,
    /// What its server calls it.
    pub name: String,
    /// Whose it is in truth.
    pub kind: ToolKind,
    /// What people are shown, where the server says so.
    pub title: Option<String>,
    /// What it does, at most [`LONGEST_DESCRIPTION`] characters.
    pub description: String,
    /// What it takes: JSON Schema 2020-12 with an object at its root.
    pub input_schema: Payload,
    /// The same with what model APIs cannot be told, where there is any of that; arguments are checked by it.
    pub(super) validation_schema: Option<Payload>,
    /// What it gives, as the server wrote it.
    pub output_schema: Option<Payload>,
    /// What the server says about its effects.
    pub annotations: Annotations,
    /// Which arguments are repeated in headers.
    pub param_headers: ParamHeaders,
    /// All of it, as it came.
    pub raw: Payload,
    /// When a model is told of it.
    pub loading: Loading,
    /// Looked for when somebody asks for the first time.
    flags: OnceLock<Vec<HiddenText>>,
    /// Made when arguments are checked for the first time.
    checker: OnceLock<ArgumentChecker>,
    /// Tells this definition from others. Made when it is called for the first time.
    pub(crate) digest: OnceLock<String>,
}

/// Whose a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// A server's.
    Server,
    /// One of our own.
    BuiltIn,
    /// One of our own that stands for a server which somebody has to sign in to first.
    LoginPlaceholder,
}

/// The server that a tool is read for.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolOwner<'a> {
    pub(super) server: &'a str,
    pub(super) prefix: &'a str,
    pub(super) kind: ToolKind,
}

/// A pool with more tools than this does not send all their definitions to a model.
pub const DEFERRAL_THRESHOLD: usize = 40;

/// When a model is told of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// At once while there are few tools, and when it searches while there are many.
    WhenFew,
    /// Only when it searches.
    Deferred,
}

impl Loading {
    /// Is it found by search, among so many tools?
    pub fn is_deferred(self, tools: usize) -> bool {
        match self {
            Loading::WhenFew => tools > DEFERRAL_THRESHOLD,
            Loading::Deferred => true,
        }
    }
}

/// What a server says about a tool's effects. These are claims: nothing holds the server to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotations {
    /// It changes nothing, and may run beside others.
    pub read_only: bool,
    /// It may destroy something. Says nothing where it is read-only.
    pub destructive: bool,
    /// It reaches out to the world.
    pub open_world: bool,
    /// Doing it twice is like doing it once.
    pub idempotent: bool,
}

impl Default for Annotations {
    fn default() -> Annotations {
        Annotations { read_only: false, destructive: true, open_world: true, idempotent: false }
    }
}

impl Tool {
    /// A tool of our own, with its schema and its definition: it only reads, and what it reads is here already.
    pub(crate) fn built_in(
        name: &str,
        description: &str,
        (input_schema, raw): (Payload, Payload),
    ) -> Tool {
        Tool {
            exposed_name: name.to_owned(),
            server: String::new(),
            prefix: String::new(),
            name: name.to_owned(),
            kind: ToolKind::BuiltIn,
            title: None,
            description: description.to_owned(),
            input_schema,
            validation_schema: None,
            output_schema: None,
            annotations: Annotations {
                read_only: true,
                destructive: false,
                open_world: false,
                idempotent: true,
            },
            param_headers: ParamHeaders::default(),
            raw,
            loading: Loading::Deferred,
            flags: OnceLock::new(),
            checker: OnceLock::new(),
            digest: OnceLock::new(),
        }
    }

    /// What is odd about its texts, as the server wrote them.
    pub fn flags(&self) -> &[HiddenText] {
        self.flags.get_or_init(|| flags(&self.name, &self.raw))
    }

    /// Checks arguments against the input schema.
    pub fn check_arguments(&self, arguments: &serde_json::Value) -> Result<(), Vec<ArgumentFault>> {
        let checker = self.checker.get_or_init(|| {
            ArgumentChecker::new(self.validation_schema.as_ref().unwrap_or(&self.input_schema))
        });
        let faults = checker.faults(arguments);
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// Is it one of our own?
    pub fn is_built_in(&self) -> bool {
        self.kind == ToolKind::BuiltIn
    }

    /// What people are shown.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Is it the same tool with the same definition? Where the members stand in their objects does not matter.
    pub fn is_same_definition(&self, other: &Tool) -> bool {
        let place = |it: &Tool| (it.exposed_name.clone(), it.server.clone(), it.name.clone());
        let value = |it: &Tool| it.raw.decode::<serde_json::Value>().ok();
        place(self) == place(other) && (self.raw == other.raw || value(self) == value(other))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition<'a> {
    #[serde(borrow, default)]
    title: Option<&'a RawValue>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Hints<'a> {
    #[serde(borrow, default)]
    title: Option<&'a RawValue>,
    #[serde(borrow, default)]
    read_only_hint: Option<&'a RawValue>,
    #[serde(borrow, default)]
    destructive_hint: Option<&'a RawValue>,
    #[serde(borrow, default)]
    open_world_hint: Option<&'a RawValue>,
    #[serde(borrow, default)]
    idempotent_hint: Option<&'a RawValue>,
}

/// A definition that was read.
pub(super) enum ParsedTool {
    /// A model may be shown it.
    Usable(Tool),
    /// It is not for models, for this reason. Other programs may know what to do with it: its schema is as it came.
    Quarantined(Tool, QuarantineReason),
}

/// Reads a tool's definition, or says why the model is not shown it.
pub(super) fn parse(
    owner: ToolOwner<'_>,
    name: &str,
    exposed: &str,
    raw: &Payload,
) -> Result<ParsedTool, QuarantineReason> {
    // Looked at once as a whole, so that it need not be looked at piece by piece.
    let text_of_all =
        std::str::from_utf8(raw.as_bytes()).map_err(|_| QuarantineReason::Unreadable)?;
    let definition: Definition<'_> =
        serde_json::from_str(text_of_all).map_err(|_| QuarantineReason::Unreadable)?;
    let hints: Hints<'_> = definition
        .annotations
        .and_then(|hints| serde_json::from_str(hints.get()).ok())
        .unwrap_or_default();
    let title = text(definition.title).filter(|it| !it.trim().is_empty());
    let title = title.or_else(|| text(hints.title).filter(|it| !it.trim().is_empty()));
    let description = text(definition.description).unwrap_or_default();
    let part = |it: &RawValue| Payload::from_json(raw.as_bytes().slice_ref(it.get().as_bytes()));
    let (NormalisedSchema { shown, validated: checked }, reason) =
        match normalise(definition.input_schema, raw) {
            Ok(normal) => (normal, None),
            Err(reason) => {
                let schema = definition.input_schema.filter(|it| it.get().starts_with('{'));
                (
                    NormalisedSchema::from(schema.map(part).ok_or_else(|| reason.clone())?),
                    Some(reason),
                )
            }
        };
    let tool = Tool {
        exposed_name: exposed.to_owned(),
        server: owner.server.to_owned(),
        prefix: owner.prefix.to_owned(),
        name: name.to_owned(),
        kind: owner.kind,
        title: title.map(|it| it.chars().take(MAX_TITLE_CHARS).collect()),
        description: truncated(description),
        input_schema: shown,
        validation_schema: checked,
        output_schema: definition.output_schema.filter(|it| it.get() != "null").map(part),
        annotations: annotations(&hints),
        param_headers: mirror(definition.input_schema),
        raw: raw.clone(),
        loading: Loading::WhenFew,
        flags: OnceLock::new(),
        checker: OnceLock::new(),
        digest: OnceLock::new(),
    };
    Ok(match reason {
        None => ParsedTool::Usable(tool),
        Some(reason) => ParsedTool::Quarantined(tool, reason),
    })
}

/// Looks at every text of a definition, all of each.
fn flags(name: &str, raw: &Payload) -> Vec<HiddenText> {
    let mut flags = Vec::new();
    inspect(name, &mut flags);
    let Ok(definition) = serde_json::from_slice::<Definition<'_>>(raw.as_bytes()) else {
        return flags;
    };
    let hints: Hints<'_> = definition
        .annotations
        .and_then(|hints| serde_json::from_str(hints.get()).ok())
        .unwrap_or_default();
    for text in [text(definition.title), text(hints.title), text(definition.description)] {
        inspect(&text.unwrap_or_default(), &mut flags);
    }
    if let Some(schema) = definition.input_schema {
        inspect_schema(schema.get(), &mut flags);
    }
    flags
}

/// A text, where it is one.
fn text(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let raw = raw?.get();
    match serde_json::from_str::<&str>(raw) {
        Ok(text) => Some(Cow::Borrowed(text)),
        Err(_) => serde_json::from_str::<String>(raw).ok().map(Cow::Owned),
    }
}

fn truncated(description: Cow<'_, str>) -> String {
    let mut description = description.into_owned();
    if description.len() <= MAX_DESCRIPTION_CHARS {
        return description;
    }
    if description.char_indices().nth(MAX_DESCRIPTION_CHARS).is_some() {
        let kept = MAX_DESCRIPTION_CHARS - TRUNCATION_MARK.chars().count();
        let end = description.char_indices().nth(kept).map_or(description.len(), |it| it.0);
        description.truncate(end);
        description.push_str(TRUNCATION_MARK);
    }
    description
}

/// Hints that make no sense count as missing.
fn annotations(hints: &Hints<'_>) -> Annotations {
    let truth = |raw: Option<&RawValue>| raw.and_then(|it| it.get().parse::<bool>().ok());
    let missing = Annotations::default();
    Annotations {
        read_only: truth(hints.read_only_hint).unwrap_or(missing.read_only),
        destructive: truth(hints.destructive_hint).unwrap_or(missing.destructive),
        open_world: truth(hints.open_world_hint).unwrap_or(missing.open_world),
        idempotent: truth(hints.idempotent_hint).unwrap_or(missing.idempotent),
    }
}

/// A wish that cannot be met has taken the tool out of the catalogue already, where there are headers at all.
fn mirror(schema: Option<&RawValue>) -> ParamHeaders {
    const PARAM_HEADER_KEY: &[u8] = b"x-mcp-header";
    let wishes = |it: &&str| memmem::find(it.as_bytes(), PARAM_HEADER_KEY).is_some();
    let schema = schema.map(RawValue::get).filter(wishes);
    let schema = schema.and_then(|it| serde_json::from_str(it).ok());
    schema.and_then(|it| ParamHeaders::from_schema(&it).ok()).unwrap_or_default()
}

/// Looks at every text in a schema. Escapes are undone where there are some.
fn inspect_schema(schema: &str, flags: &mut Vec<HiddenText>) {
    if schema.contains("\\u") {
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(schema) {
            inspect_value(&value, flags);
        }
        return;
    }
    inspect(schema, flags);
}

fn inspect_value(value: &serde_json::Value, flags: &mut Vec<HiddenText>) {
    use serde_json::Value as Json;
    match value {
        Json::String(text) => inspect(text, flags),
        Json::Array(items) => items.iter().for_each(|it| inspect_value(it, flags)),
        Json::Object(map) => map.iter().for_each(|(key, value)| {
            inspect(key, flags);
            inspect_value(value, flags);
        }),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}
