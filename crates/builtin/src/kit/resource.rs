//! Resources: what a server has to read, listed and named by addresses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use crate::kit::handler_error::HandlerFuture;

/// Everything that a server has to read. What changes is told by a [`crate::kit::change_notifier::Herald`].
pub trait ResourceProvider: Send + Sync + 'static {
    /// All of them, now.
    fn list(&self) -> HandlerFuture<'_, Vec<Resource>>;

    /// Patterns of addresses that can be read besides.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// What is at an address; [`crate::kit::handler_error::Stop::missing`] where nothing is.
    fn read<'a>(&'a self, uri: &'a str) -> HandlerFuture<'a, Vec<ResourceContents>>;

    /// Values for a template's variable that go on from what somebody began to type.
    fn complete<'a>(
        &'a self,
        template: &'a str,
        variable: &'a str,
        prefix: &'a str,
    ) -> HandlerFuture<'a, Vec<String>> {
        let _no_suggestions = (template, variable, prefix);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// One thing to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its address.
    pub uri: String,
    /// What it is called.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// What kind of thing it is.
    pub mime_type: String,
}

/// A pattern of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceTemplate {
    /// The pattern, as RFC 6570 writes it.
    pub uri_template: String,
    /// What it is called.
    pub name: String,
    /// What it leads to.
    pub description: String,
    /// What kind of thing it leads to.
    pub mime_type: String,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceContents {
    /// Its address.
    pub uri: String,
    /// What kind of thing it is.
    pub mime_type: String,
    /// The thing itself.
    pub body: ResourceBody,
}

/// The thing itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// A text.
    Text(String),
    /// Anything else.
    Blob(Vec<u8>),
}

impl Resource {
    pub(crate) fn to_json(&self) -> Json {
        json!({
            "uri": self.uri,
            "name": self.name,
            "description": self.description,
            "mimeType": self.mime_type,
        })
    }
}

impl ResourceTemplate {
    pub(crate) fn to_json(&self) -> Json {
        json!({
            "uriTemplate": self.uri_template,
            "name": self.name,
            "description": self.description,
            "mimeType": self.mime_type,
        })
    }
}

impl ResourceContents {
    pub(crate) fn into_json(self) -> Json {
        let mut contents = json!({"uri": self.uri, "mimeType": self.mime_type});
        match self.body {
            ResourceBody::Text(text) => contents["text"] = json!(text),
            ResourceBody::Blob(bytes) => contents["blob"] = json!(STANDARD.encode(bytes)),
        }
        contents
    }
}
