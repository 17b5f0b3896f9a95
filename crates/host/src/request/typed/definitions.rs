//! The items of a server's lists of prompts, resources and resource templates. Tools are [`Tool`](crate::Tool)s.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use switchboard_wire::jsonrpc::message::Payload;

use crate::catalogue::lists::{Catalogue, ListKind};

/// The items of a list that have the form that the protocol requires; others are left out, and stay in the catalogue.
pub(crate) fn definitions<M: DeserializeOwned, T>(
    catalogue: &Catalogue,
    list: ListKind,
    definition: impl Fn(M, Payload) -> T,
) -> Vec<T> {
    let items = catalogue.items(list).iter();
    items.filter_map(|it| Some(definition(it.raw.decode().ok()?, it.raw.clone()))).collect()
}

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptDefinition {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Its arguments.
    pub arguments: Vec<PromptArgument>,
    /// The whole item, byte for byte.
    pub raw: Payload,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether it must be given.
    #[serde(default)]
    pub required: bool,
}

#[derive(Deserialize)]
pub(crate) struct PromptMembers {
    name: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    arguments: Option<Vec<PromptArgument>>,
}

impl PromptDefinition {
    pub(crate) fn new(members: PromptMembers, raw: Payload) -> PromptDefinition {
        let PromptMembers { name, title, description, arguments } = members;
        let arguments = arguments.unwrap_or_default();
        PromptDefinition { name, title, description, arguments, raw }
    }
}

/// A resource of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceDefinition {
    /// Its URI.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// The type that the server claims.
    pub mime_type: Option<String>,
    /// Its size in bytes, if the server says it.
    pub size: Option<u64>,
    /// The whole item, byte for byte.
    pub raw: Payload,
}

#[derive(Deserialize)]
pub(crate) struct ResourceMembers {
    uri: String,
    name: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default, rename = "mimeType")]
    mime_type: Option<String>,
    #[serde(default)]
    size: Option<u64>,
}

impl ResourceDefinition {
    pub(crate) fn new(members: ResourceMembers, raw: Payload) -> ResourceDefinition {
        let ResourceMembers { uri, name, title, description, mime_type, size } = members;
        ResourceDefinition { uri, name, title, description, mime_type, size, raw }
    }
}

/// A resource template of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceTemplateDefinition {
    /// Its URI template (RFC 6570).
    pub uri_template: String,
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// The type that the server claims for all its resources.
    pub mime_type: Option<String>,
    /// The whole item, byte for byte.
    pub raw: Payload,
}

#[derive(Deserialize)]
pub(crate) struct TemplateMembers {
    #[serde(rename = "uriTemplate")]
    uri_template: String,
    name: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default, rename = "mimeType")]
    mime_type: Option<String>,
}

impl ResourceTemplateDefinition {
    pub(crate) fn new(members: TemplateMembers, raw: Payload) -> ResourceTemplateDefinition {
        let TemplateMembers { uri_template, name, title, description, mime_type } = members;
        ResourceTemplateDefinition { uri_template, name, title, description, mime_type, raw }
    }
}
