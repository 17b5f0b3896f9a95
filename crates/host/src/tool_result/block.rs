//! Parses the structure of a result without copying or decoding its content.

use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::json_str::JsonStr;

/// The members of a result that we use.
#[derive(Deserialize)]
pub(crate) struct RawResult<'a> {
    #[serde(borrow, default)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub contents: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "structuredContent")]
    pub structured: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    pub meta: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "isError")]
    pub is_error: Option<&'a RawValue>,
}

/// Parses the members of an object. Rejects arrays, which serde would accept for a struct.
pub(crate) fn members<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    let is_object = json.trim_ascii_start().first() == Some(&b'{');
    is_object.then(|| serde_json::from_slice(json).ok())?
}

/// The members of a content block of any type.
#[derive(Deserialize)]
struct RawBlock<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    blob: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "mimeType")]
    mime: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    resource: Option<&'a RawValue>,
}

/// A content block.
pub(crate) enum Block<'a> {
    Text { text: JsonStr<'a>, uri: Option<JsonStr<'a>> },
    Image { data: JsonStr<'a>, mime: Option<JsonStr<'a>> },
    Binary { data: JsonStr<'a>, mime: Option<JsonStr<'a>>, uri: Option<JsonStr<'a>> },
    Link { uri: JsonStr<'a>, meta: LinkMeta<'a>, raw: &'a RawValue },
    Unknown { kind: Option<JsonStr<'a>>, raw: &'a RawValue },
}

/// The optional members of a resource link.
pub(crate) struct LinkMeta<'a> {
    pub name: Option<JsonStr<'a>>,
    pub mime: Option<JsonStr<'a>>,
    pub description: Option<JsonStr<'a>>,
}

/// Longer URIs are not accepted.
pub(crate) const MAX_URI_BYTES: usize = 8192;

fn json_str<'a>(raw: Option<&'a RawValue>) -> Option<JsonStr<'a>> {
    raw.and_then(JsonStr::from_raw)
}

impl<'a> Block<'a> {
    /// Parses a content block. A block without a member that its type needs is `Unknown`.
    pub(crate) fn of_content(raw: &'a RawValue) -> Block<'a> {
        let Some(members) = members::<RawBlock<'a>>(raw.get().as_bytes()) else {
            return Block::Unknown { kind: None, raw };
        };
        let kind = json_str(members.kind);
        let unknown = Block::Unknown { kind, raw };
        let kind_name = kind.map(|kind| kind.prefix(32)).unwrap_or_default();
        let known = match kind_name.as_str() {
            "text" => json_str(members.text).map(|text| Block::Text { text, uri: None }),
            "image" => json_str(members.data)
                .map(|data| Block::Image { data, mime: json_str(members.mime) }),
            "audio" => json_str(members.data).map(|data| Block::Binary {
                data,
                mime: json_str(members.mime),
                uri: None,
            }),
            "resource" => members.resource.and_then(Block::of_known_resource),
            "resource_link" => Block::link(&members, raw),
            _ => None,
        };
        known.unwrap_or(unknown)
    }

    /// Parses the contents of a resource.
    pub(crate) fn of_resource(raw: &'a RawValue) -> Block<'a> {
        Block::of_known_resource(raw).unwrap_or(Block::Unknown { kind: None, raw })
    }

    fn of_known_resource(raw: &'a RawValue) -> Option<Block<'a>> {
        let members = members::<RawBlock<'a>>(raw.get().as_bytes())?;
        let uri = json_str(members.uri);
        match (json_str(members.text), json_str(members.blob)) {
            (Some(text), _) => Some(Block::Text { text, uri }),
            (None, Some(data)) => Some(Block::Binary { data, mime: json_str(members.mime), uri }),
            (None, None) => None,
        }
    }

    fn link(members: &RawBlock<'a>, raw: &'a RawValue) -> Option<Block<'a>> {
        let uri = json_str(members.uri).filter(|uri| uri.raw_len() <= MAX_URI_BYTES)?;
        let meta = LinkMeta {
            name: json_str(members.name),
            mime: json_str(members.mime),
            description: json_str(members.description),
        };
        Some(Block::Link { uri, meta, raw })
    }
}

/// The first items of an array, and the number of omitted ones.
pub(crate) struct RawItems<'a> {
    pub kept: Vec<&'a RawValue>,
    pub omitted: usize,
}

impl<'a> RawItems<'a> {
    /// Parses an array with at most `most` items; fails on other types.
    pub(crate) fn of(
        raw: &'a RawValue,
        max_items: usize,
    ) -> Result<RawItems<'a>, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(raw.get());
        deserializer.deserialize_seq(MaxItems(max_items))
    }
}

struct MaxItems(usize);

impl<'de> Visitor<'de> for MaxItems {
    type Value = RawItems<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawItems<'de>, A::Error> {
        let mut items = RawItems { kept: Vec::new(), omitted: 0 };
        while items.kept.len() < self.0 {
            match list.next_element()? {
                Some(raw) => items.kept.push(raw),
                None => return Ok(items),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            items.omitted += 1;
        }
        Ok(items)
    }
}
