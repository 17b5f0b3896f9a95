//! A tool in the pool: its name, description and a schema that model APIs accept. The server's original definition is
//! kept byte for byte.

use std::borrow::Cow;
use std::sync::OnceLock;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::protocol::param_headers::ParamHeaders;

use super::argument_check::{ArgumentChecker, ArgumentFault};
use super::hidden_text::{HiddenText, inspect};
use super::naming;
use super::schema::{NormalisedSchema, QuarantineReason, normalise};

/// The maximum length of a description, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 2048;
/// The end of a truncated description.
const TRUNCATION_MARK: &str = "… [truncated]";
/// The start of the name of an extension's method. No tool's name in rules has a colon.
const METHOD_PREFIX: &str = "method:";
/// The maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 256;

/// A tool under its exposed name.
#[derive(Debug)]
pub struct Tool {
    /// The name that models use.
    pub exposed_name: String,
    /// The server's name; empty for built-in tools.
    pub server: String,
    /// The server's name as it appears in exposed names and rules.
    pub prefix: String,
    /// The tool's name on its server.
    pub name: String,
    /// The provider of the tool.
    pub kind: ToolKind,
    /// The name for users, if the server gives one.
    pub title: Option<String>,
    /// The description, at most [`MAX_DESCRIPTION_CHARS`] characters.
    pub description: String,
    /// The input schema: JSON Schema 2020-12 with an object at its root.
    pub input_schema: Payload,
    /// The stricter schema for validation, if model APIs do not accept all of it.
    pub(super) validation_schema: Option<Payload>,
    /// The output schema as the server wrote it.
    pub output_schema: Option<Payload>,
    /// The server's hints about the tool's effects.
    pub annotations: Annotations,
    /// The arguments that are repeated in HTTP headers.
    pub param_headers: ParamHeaders,
    /// The whole definition as it came.
    pub raw: Payload,
    /// When a model gets the definition.
    pub loading: LoadPolicy,
    /// Hidden text in the definition, searched for at the first use.
    flags: OnceLock<Vec<HiddenText>>,
    /// Compiled when arguments are checked for the first time.
    checker: OnceLock<ArgumentChecker>,
    /// The digest of the definition, computed at the first call.
    pub(crate) digest: OnceLock<String>,
}

/// The provider of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// The server.
    Server,
    /// A server of the embedding program, whose tools have plain names.
    Embedded,
    /// Switchboard itself.
    BuiltIn,
    /// Switchboard, in place of a server that requires a login.
    LoginPlaceholder,
    /// The server, as a method of an extension instead of a tool.
    ExtensionMethod,
}

/// The server of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolOwner<'a> {
    pub(super) server: &'a str,
    pub(super) prefix: &'a str,
    pub(super) kind: ToolKind,
}

/// Pools with more tools than this do not send all definitions to a model.
pub const DEFERRAL_THRESHOLD: usize = 40;

/// When a model gets a tool's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadPolicy {
    /// At once while there are few tools; by search while there are many.
    WhenFew,
    /// Only by search.
    Deferred,
    /// At once, however many tools there are.
    AtOnce,
}

impl LoadPolicy {
    /// Whether the tool is found by search in a pool of `tools` tools.
    pub fn is_deferred(self, tools: usize) -> bool {
        match self {
            LoadPolicy::WhenFew => tools > DEFERRAL_THRESHOLD,
            LoadPolicy::Deferred => true,
            LoadPolicy::AtOnce => false,
        }
    }
}

/// The server's hints about a tool's effects. They are claims and not enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Annotations {
    /// The tool changes nothing, and may run in parallel.
    pub read_only: bool,
    /// The tool may destroy something. Meaningless if it is read-only.
    pub destructive: bool,
    /// The tool interacts with the outside world.
    pub open_world: bool,
    /// Repeating a call has no further effect.
    pub idempotent: bool,
}

impl Default for Annotations {
    fn default() -> Annotations {
        Annotations { read_only: false, destructive: true, open_world: true, idempotent: false }
    }
}

impl Tool {
    /// A built-in tool with its schema and definition. It is read-only and local.
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
            loading: LoadPolicy::Deferred,
            flags: OnceLock::new(),
            checker: OnceLock::new(),
            digest: OnceLock::new(),
        }
    }

    /// A method of an extension, for rules and the audit log. Nothing is known about its effects.
    pub fn extension_method(server: &str, prefix: &str, method: &str) -> Tool {
        const NO_SCHEMA: &[u8] = b"{\"type\":\"object\"}";
        let name = format!("{METHOD_PREFIX}{method}");
        Tool {
            exposed_name: format!("mcp__{prefix}__{name}"),
            server: server.to_owned(),
            prefix: prefix.to_owned(),
            name,
            kind: ToolKind::ExtensionMethod,
            title: None,
            description: String::new(),
            input_schema: Payload::from_json(bytes::Bytes::from_static(NO_SCHEMA)),
            validation_schema: None,
            output_schema: None,
            annotations: Annotations::default(),
            param_headers: ParamHeaders::default(),
            raw: Payload::from_json(bytes::Bytes::from_static(b"{}")),
            loading: LoadPolicy::Deferred,
            flags: OnceLock::new(),
            checker: OnceLock::new(),
            digest: OnceLock::new(),
        }
    }

    /// The method of an extension that it stands for.
    pub(crate) fn method(&self) -> Option<&str> {
        let method = self.name.strip_prefix(METHOD_PREFIX)?;
        (self.kind == ToolKind::ExtensionMethod).then_some(method)
    }

    /// The name in rules, after the server's.
    pub fn rule_name(&self) -> Cow<'_, str> {
        match self.kind {
            ToolKind::ExtensionMethod => Cow::Borrowed(&self.name),
            ToolKind::Server
            | ToolKind::Embedded
            | ToolKind::BuiltIn
            | ToolKind::LoginPlaceholder => naming::sanitise_borrowed(&self.name),
        }
    }

    /// Findings of hidden text in the server's texts.
    pub fn flags(&self) -> &[HiddenText] {
        self.flags.get_or_init(|| flags(&self.name, &self.raw))
    }

    /// Checks arguments against the input schema. The work is limited, but takes up to some seconds if the server
    /// has made the schema to be slow.
    pub fn check_arguments(&self, arguments: &serde_json::Value) -> Result<(), Vec<ArgumentFault>> {
        let checker = self.checker.get_or_init(|| {
            ArgumentChecker::new(self.validation_schema.as_ref().unwrap_or(&self.input_schema))
        });
        no_faults(checker.faults(arguments))
    }

    /// Checks arguments if that takes no noticeable time, so that it may be done between other tasks. `None` if it
    /// may take longer, or if the schema was not compiled yet.
    pub(crate) fn check_arguments_quickly(
        &self,
        arguments: &serde_json::Value,
    ) -> Option<Result<(), Vec<ArgumentFault>>> {
        Some(no_faults(self.checker.get()?.quick_faults(arguments)?))
    }

    /// Whether it is a built-in tool.
    pub fn is_built_in(&self) -> bool {
        self.kind == ToolKind::BuiltIn
    }

    /// The name for users: the title, or the tool's name.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Whether both are the same tool with the same definition, regardless of key order.
    pub fn is_same_definition(&self, other: &Tool) -> bool {
        let identity = |it: &Tool| (it.exposed_name.clone(), it.server.clone(), it.name.clone());
        let value = |it: &Tool| it.raw.decode::<serde_json::Value>().ok();
        identity(self) == identity(other) && (self.raw == other.raw || value(self) == value(other))
    }
}

fn no_faults(faults: Vec<ArgumentFault>) -> Result<(), Vec<ArgumentFault>> {
    if faults.is_empty() { Ok(()) } else { Err(faults) }
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

/// A parsed definition.
pub(super) enum ParsedTool {
    /// The tool can be shown to a model.
    Usable(Tool),
    /// The tool is hidden from models. Other programs may still use it: its schema is unchanged.
    Quarantined(Tool, QuarantineReason),
}

/// Parses a tool's definition, or returns why it is unusable.
pub(super) fn parse(
    owner: ToolOwner<'_>,
    name: &str,
    exposed: &str,
    raw: &Payload,
) -> Result<ParsedTool, QuarantineReason> {
    // Validate UTF-8 once for the whole payload.
    let full_text =
        std::str::from_utf8(raw.as_bytes()).map_err(|_| QuarantineReason::Unreadable)?;
    let definition: Definition<'_> =
        serde_json::from_str(full_text).map_err(|_| QuarantineReason::Unreadable)?;
    let hints: Hints<'_> = definition
        .annotations
        .and_then(|hints| serde_json::from_str(hints.get()).ok())
        .unwrap_or_default();
    let title = text(definition.title).filter(|it| !it.trim().is_empty());
    let title = title.or_else(|| text(hints.title).filter(|it| !it.trim().is_empty()));
    let description = text(definition.description).unwrap_or_default();
    let part = |it: &RawValue| Payload::from_json(raw.as_bytes().slice_ref(it.get().as_bytes()));
    let (NormalisedSchema { shown, validated }, reason) =
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
        validation_schema: validated,
        output_schema: definition.output_schema.filter(|it| it.get() != "null").map(part),
        annotations: annotations(&hints),
        param_headers: param_headers(definition.input_schema),
        raw: raw.clone(),
        loading: match owner.kind {
            ToolKind::Embedded => LoadPolicy::AtOnce,
            ToolKind::Server
            | ToolKind::BuiltIn
            | ToolKind::LoginPlaceholder
            | ToolKind::ExtensionMethod => LoadPolicy::WhenFew,
        },
        flags: OnceLock::new(),
        checker: OnceLock::new(),
        digest: OnceLock::new(),
    };
    Ok(match reason {
        None => ParsedTool::Usable(tool),
        Some(reason) => ParsedTool::Quarantined(tool, reason),
    })
}

/// Inspects all texts of a definition in full length.
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

/// A JSON string, or `None` for other types.
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
        let kept_chars = MAX_DESCRIPTION_CHARS - TRUNCATION_MARK.chars().count();
        let end = description.char_indices().nth(kept_chars).map_or(description.len(), |it| it.0);
        description.truncate(end);
        description.push_str(TRUNCATION_MARK);
    }
    description
}

/// Hints of the wrong type count as missing.
fn annotations(hints: &Hints<'_>) -> Annotations {
    let parse_bool = |raw: Option<&RawValue>| raw.and_then(|it| it.get().parse::<bool>().ok());
    let defaults = Annotations::default();
    Annotations {
        read_only: parse_bool(hints.read_only_hint).unwrap_or(defaults.read_only),
        destructive: parse_bool(hints.destructive_hint).unwrap_or(defaults.destructive),
        open_world: parse_bool(hints.open_world_hint).unwrap_or(defaults.open_world),
        idempotent: parse_bool(hints.idempotent_hint).unwrap_or(defaults.idempotent),
    }
}

/// The headers for arguments. Tools with invalid header annotations were removed from the catalogue, if the transport
/// has headers.
fn param_headers(schema: Option<&RawValue>) -> ParamHeaders {
    const PARAM_HEADER_KEY: &[u8] = b"x-mcp-header";
    let has_key = |it: &&str| memmem::find(it.as_bytes(), PARAM_HEADER_KEY).is_some();
    let schema = schema.map(RawValue::get).filter(has_key);
    let schema = schema.and_then(|it| serde_json::from_str(it).ok());
    schema.and_then(|it| ParamHeaders::from_schema(&it).ok()).unwrap_or_default()
}

/// Inspects all texts in a schema. Decodes escapes if there are any.
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
