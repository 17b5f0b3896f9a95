//! A content block of a prompt message or tool result.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;
use switchboard_wire::jsonrpc::message::Payload;

use super::resource::ResourceContent;
use super::response::raw_payload;

/// A content block. Texts are the server's own: escape them before printing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Content {
    /// The content by its type.
    pub kind: ContentKind,
    /// The whole block, byte for byte.
    pub raw: Payload,
}

/// The content of a block, by its `type`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentKind {
    /// `text`
    Text(String),
    /// `image`
    Image {
        /// The bytes in Base64.
        base64: String,
        /// The type that the server claims.
        mime_type: String,
    },
    /// `audio`
    Audio {
        /// The bytes in Base64.
        base64: String,
        /// The type that the server claims.
        mime_type: String,
    },
    /// `resource`
    Resource(ResourceContent),
    /// `resource_link`
    ResourceLink {
        /// The URI of the resource.
        uri: String,
        /// The name of the resource.
        name: String,
    },
    /// Any other type.
    Other(String),
}

#[derive(Deserialize)]
struct BlockType {
    #[serde(rename = "type")]
    name: String,
}

#[derive(Deserialize)]
struct TextMembers {
    text: String,
}

#[derive(Deserialize)]
struct DataMembers {
    data: String,
    #[serde(rename = "mimeType")]
    mime_type: String,
}

#[derive(Deserialize)]
struct ResourceMember {
    resource: ResourceContent,
}

#[derive(Deserialize)]
struct LinkMembers {
    uri: String,
    name: String,
}

impl ContentKind {
    fn parse(block: &str) -> Result<ContentKind, serde_json::Error> {
        let BlockType { name: block_type } = serde_json::from_str(block)?;
        Ok(match block_type.as_str() {
            "text" => ContentKind::Text(serde_json::from_str::<TextMembers>(block)?.text),
            "image" => {
                let DataMembers { data, mime_type } = serde_json::from_str(block)?;
                ContentKind::Image { base64: data, mime_type }
            }
            "audio" => {
                let DataMembers { data, mime_type } = serde_json::from_str(block)?;
                ContentKind::Audio { base64: data, mime_type }
            }
            "resource" => {
                ContentKind::Resource(serde_json::from_str::<ResourceMember>(block)?.resource)
            }
            "resource_link" => {
                let LinkMembers { uri, name } = serde_json::from_str(block)?;
                ContentKind::ResourceLink { uri, name }
            }
            _ => ContentKind::Other(block_type),
        })
    }
}

impl Content {
    /// The text of a text block.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            ContentKind::Text(text) => Some(text),
            ContentKind::Image { .. }
            | ContentKind::Audio { .. }
            | ContentKind::Resource(_)
            | ContentKind::ResourceLink { .. }
            | ContentKind::Other(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let kind = ContentKind::parse(raw.get()).map_err(D::Error::custom)?;
        Ok(Content { kind, raw: raw_payload(&raw) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(block: &str, expected: ContentKind) {
        let content: Content = serde_json::from_str(block).expect("a content block");
        assert_eq!((content.kind, &content.raw.as_bytes()[..]), (expected, block.as_bytes()));
    }

    #[test]
    fn a_block_is_decoded_by_its_type_and_keeps_its_bytes() {
        check(r#"{"type": "text", "text": "a", "x": 1.0}"#, ContentKind::Text("a".to_owned()));
        let (base64, mime_type) = ("AA==".to_owned(), "image/png".to_owned());
        check(
            r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#,
            ContentKind::Image { base64, mime_type },
        );
        let (uri, name) = ("x://1".to_owned(), "one".to_owned());
        check(
            r#"{"type":"resource_link","uri":"x://1","name":"one"}"#,
            ContentKind::ResourceLink { uri, name },
        );
        check(r#"{"type":"hologram","size":3}"#, ContentKind::Other("hologram".to_owned()));
    }

    #[test]
    fn a_block_without_a_required_member_is_not_valid() {
        for block in [r#"{"type":"text"}"#, r#"{"text":"a"}"#, "[]", r#"{"type":"resource"}"#] {
            assert!(serde_json::from_str::<Content>(block).is_err(), "{block}");
        }
    }
}
