//! `resources/read`.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;
use switchboard_wire::jsonrpc::message::Payload;

use super::response::{TypedRequestError, decode, raw_payload};
use crate::request::server_request::RequestOptions;

/// Reads a resource: a request of `resources/read`.
#[derive(Debug, Clone)]
#[must_use = "a request does nothing before it is sent"]
pub struct ReadResource {
    pub(crate) uri: String,
    pub(crate) timeout: Duration,
}

impl ReadResource {
    /// Reads the resource with this URI.
    pub fn new(uri: impl Into<String>) -> ReadResource {
        ReadResource { uri: uri.into(), timeout: RequestOptions::DEFAULT_TIMEOUT }
    }

    /// Sets how long the server may take.
    pub fn timeout(mut self, timeout: Duration) -> ReadResource {
        self.timeout = timeout;
        self
    }
}

/// The contents of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceContents {
    /// The contents: one, or several for a folder.
    pub contents: Vec<ResourceContent>,
    /// The whole response, byte for byte.
    pub raw: Payload,
}

#[derive(Deserialize)]
struct ReadResult {
    contents: Vec<ResourceContent>,
}

impl ResourceContents {
    pub(crate) fn decode(
        server: &str,
        raw: Payload,
    ) -> Result<ResourceContents, TypedRequestError> {
        let ReadResult { contents } = decode(server, "resources/read", &raw)?;
        Ok(ResourceContents { contents, raw })
    }

    /// All texts, joined by line breaks.
    pub fn text(&self) -> String {
        let texts = self.contents.iter().filter_map(|it| match &it.body {
            ResourceBody::Text(text) => Some(text.as_str()),
            ResourceBody::Blob(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// One content of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceContent {
    /// The URI of the resource.
    pub uri: String,
    /// The type that the server claims.
    pub mime_type: Option<String>,
    /// The content.
    pub body: ResourceBody,
    /// The whole content, byte for byte.
    pub raw: Payload,
}

/// The body of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes in Base64.
    Blob(String),
}

#[derive(Deserialize)]
struct ContentMembers {
    uri: String,
    #[serde(default, rename = "mimeType")]
    mime_type: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    blob: Option<String>,
}

impl<'de> Deserialize<'de> for ResourceContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ResourceContent, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let members: ContentMembers = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        let body = match (members.text, members.blob) {
            (Some(text), _) => ResourceBody::Text(text),
            (None, Some(base64)) => ResourceBody::Blob(base64),
            (None, None) => return Err(D::Error::missing_field("text")),
        };
        let ContentMembers { uri, mime_type, .. } = members;
        Ok(ResourceContent { uri, mime_type, body, raw: raw_payload(&raw) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_texts_or_blobs_and_keep_their_bytes() {
        let response = r#"{"contents": [{"uri": "x://1", "text": "a", "mimeType": "text/plain", "n": 1.0},
            {"uri": "x://2", "blob": "AA=="}], "ttlMs": 5}"#;
        let raw = Payload::from_json(response.into());
        let contents = ResourceContents::decode("s", raw.clone()).expect("a valid response");
        assert_eq!(contents.raw, raw);
        assert_eq!(contents.text(), "a");
        let [text, blob] = &contents.contents[..] else { panic!("two contents") };
        assert_eq!((text.uri.as_str(), text.mime_type.as_deref()), ("x://1", Some("text/plain")));
        assert!(String::from_utf8_lossy(text.raw.as_bytes()).contains("1.0"));
        assert_eq!(blob.body, ResourceBody::Blob("AA==".to_owned()));
    }

    #[test]
    fn an_invalid_response_is_an_error_that_names_server_and_method() {
        for response in ["[]", "{}", r#"{"contents": [{"uri": "x://1"}]}"#] {
            let raw = Payload::from_json(response.into());
            let error = ResourceContents::decode("s", raw).expect_err("not valid");
            let expected = "the response of `s` to `resources/read` is not valid";
            assert_eq!(error.to_string(), expected, "{response}");
        }
    }
}
