//! Resources that a server provides, identified by URIs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use crate::kit::handler_error::HandlerFuture;

/// Provides resources. Changes are announced with a [`crate::kit::change_notifier::ChangeNotifier`].
pub trait ResourceProvider: Send + Sync + 'static {
    /// All current resources.
    fn list(&self) -> HandlerFuture<'_, Vec<Resource>>;

    /// URI templates of further resources.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// The contents of a resource; [`crate::kit::handler_error::HandlerError::resource_not_found`] if it does
    /// not exist.
    fn read<'a>(&'a self, uri: &'a str) -> HandlerFuture<'a, Vec<ResourceContents>>;

    /// Completion values for a variable of a template.
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

/// A resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The URI.
    pub uri: String,
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The MIME type.
    pub mime_type: String,
}

/// A URI template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceTemplate {
    /// The template (RFC 6570).
    pub uri_template: String,
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The MIME type of the resources.
    pub mime_type: String,
}

/// The contents of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceContents {
    /// The URI.
    pub uri: String,
    /// The MIME type.
    pub mime_type: String,
    /// The text or bytes.
    pub body: ResourceBody,
}

/// The text or bytes of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// A text.
    Text(String),
    /// Binary data.
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
