//! How client and server describe themselves in the handshake: names, versions and capabilities.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::era::Era;
use super::meta_key;
use crate::jsonrpc::payload::Payload;

/// The maximum length of stored instructions, in characters.
const MAX_INSTRUCTIONS_CHARS: usize = 2048;
/// The maximum length of a stored name or version, in characters.
const MAX_NAME_CHARS: usize = 200;

/// How this client describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientDescription {
    /// The name for programs.
    pub name: String,
    /// The name for users.
    pub title: String,
    /// The version of the client.
    pub version: String,
    /// The capabilities that the client offers to servers.
    pub capabilities: Vec<ClientCapability>,
    /// The capabilities for the handshake of a legacy server, where they differ: one handshake may hold for several
    /// clients. A modern server learns them with each request.
    pub legacy_capabilities: Option<Vec<ClientCapability>>,
}

/// A capability that a client offers to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCapability {
    /// Lists the root folders of the user.
    Roots,
    /// Asks the user for input, by form and by URL.
    Elicitation,
    /// Samples from a language model.
    Sampling,
}

impl ClientDescription {
    pub(crate) fn client_info(&self) -> Json {
        json!({"name": self.name, "title": self.title, "version": self.version})
    }

    pub(crate) fn capabilities_json(&self, era: Era) -> Json {
        let mut map = Map::new();
        let capabilities = match era {
            Era::Legacy => self.legacy_capabilities.as_ref().unwrap_or(&self.capabilities),
            Era::Modern => &self.capabilities,
        };
        for capability in capabilities {
            let (name, value) = match (capability, era) {
                (ClientCapability::Roots, Era::Legacy) => ("roots", json!({"listChanged": true})),
                (ClientCapability::Roots, Era::Modern) => ("roots", json!({})),
                (ClientCapability::Elicitation, _) => {
                    ("elicitation", json!({"form": {}, "url": {}}))
                }
                (ClientCapability::Sampling, _) => ("sampling", json!({})),
            };
            map.insert(name.to_owned(), value);
        }
        Json::Object(map)
    }
}

/// How a server describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDescription {
    /// The era of the server.
    pub era: Era,
    /// The negotiated protocol version.
    pub protocol_version: String,
    /// The name for programs; empty if the server sends none.
    pub name: String,
    /// The name for users.
    pub title: Option<String>,
    /// The version of the server.
    pub server_version: String,
    /// The capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Instructions for using the server, truncated.
    pub instructions: Option<String>,
    /// The complete handshake result.
    pub raw: Payload,
}

/// The capabilities of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerCapabilities {
    /// Tools.
    pub tools: Option<ListCapability>,
    /// Resources.
    pub resources: Option<ListCapability>,
    /// Prompts.
    pub prompts: Option<ListCapability>,
    /// Names of the other capabilities: `logging`, `completions`, extensions.
    pub others: Vec<String>,
}

/// The capabilities of one list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListCapability {
    /// The server notifies when the list changes.
    pub list_changed: bool,
    /// The server accepts subscriptions to single items.
    pub subscribe: bool,
}

#[derive(Deserialize)]
struct Implementation {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: Json,
    #[serde(default)]
    title: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HandshakeResult {
    #[serde(default)]
    protocol_version: Option<String>,
    #[serde(default)]
    capabilities: Map<String, Json>,
    #[serde(default)]
    server_info: Option<Json>,
    #[serde(default)]
    instructions: Option<Json>,
    #[serde(default)]
    supported_versions: Vec<String>,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Json>,
}

impl ServerDescription {
    /// Reads the result of `initialize`.
    pub(crate) fn from_initialize_result(
        raw: Payload,
    ) -> Result<ServerDescription, serde_json::Error> {
        let result: HandshakeResult = raw.decode()?;
        let version = result.protocol_version.clone().unwrap_or_default();
        let server = result.server_info.clone();
        Ok(ServerDescription::new(Era::Legacy, version, result, server, raw))
    }

    /// Reads the result of `server/discover` for the given version.
    pub(crate) fn from_discover_result(
        raw: Payload,
        version: &str,
    ) -> Result<ServerDescription, serde_json::Error> {
        let result: HandshakeResult = raw.decode()?;
        let server = result.meta.get(meta_key::SERVER_INFO).cloned();
        Ok(ServerDescription::new(Era::Modern, version.to_owned(), result, server, raw))
    }

    fn new(
        era: Era,
        version: String,
        result: HandshakeResult,
        server: Option<Json>,
        raw: Payload,
    ) -> Self {
        let unnamed = Implementation { name: String::new(), version: Json::Null, title: None };
        let implementation: Implementation =
            server.and_then(|it| serde_json::from_value(it).ok()).unwrap_or(unnamed);
        let server_version = match implementation.version {
            Json::String(text) => text,
            Json::Null => String::new(),
            other @ (Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
                other.to_string()
            }
        };
        let instructions = result.instructions.as_ref().and_then(Json::as_str);
        ServerDescription {
            era,
            protocol_version: truncate(&version, MAX_NAME_CHARS),
            name: truncate(&implementation.name, MAX_NAME_CHARS),
            title: implementation.title.map(|title| truncate(&title, MAX_NAME_CHARS)),
            server_version: truncate(&server_version, MAX_NAME_CHARS),
            capabilities: ServerCapabilities::from_json(&result.capabilities),
            instructions: instructions
                .filter(|text| !text.trim().is_empty())
                .map(|text| truncate(text, MAX_INSTRUCTIONS_CHARS)),
            raw,
        }
    }
}

/// The versions in a result of `server/discover`, or in the data of an unsupported-version error.
pub(crate) fn supported_versions(raw: &Payload) -> Vec<String> {
    #[derive(Deserialize)]
    struct UnsupportedVersion {
        #[serde(default)]
        supported: Vec<String>,
    }
    let of_result =
        raw.decode::<HandshakeResult>().map(|it| it.supported_versions).unwrap_or_default();
    match of_result.is_empty() {
        true => raw.decode::<UnsupportedVersion>().map(|it| it.supported).unwrap_or_default(),
        false => of_result,
    }
}

impl ServerCapabilities {
    fn from_json(map: &Map<String, Json>) -> ServerCapabilities {
        const LISTS: [&str; 3] = ["tools", "resources", "prompts"];
        const MAX_OTHERS: usize = 50;
        let list_capability = |name: &str| {
            let value = map.get(name).filter(|it| !matches!(it, Json::Null | Json::Bool(false)))?;
            Some(ListCapability {
                list_changed: value["listChanged"] == true,
                subscribe: value["subscribe"] == true,
            })
        };
        let nested = |name: &str| map.get(name).and_then(Json::as_object).into_iter().flatten();
        let plain = map
            .keys()
            .filter(|it| !LISTS.contains(&it.as_str()))
            .filter(|it| !["extensions", "experimental"].contains(&it.as_str()));
        let others = plain
            .chain(nested("extensions").map(|(name, _)| name))
            .chain(nested("experimental").map(|(name, _)| name));
        ServerCapabilities {
            tools: list_capability("tools"),
            resources: list_capability("resources"),
            prompts: list_capability("prompts"),
            others: others.take(MAX_OTHERS).map(|name| truncate(name, MAX_NAME_CHARS)).collect(),
        }
    }
}

/// Truncates a text at a character boundary.
fn truncate(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}… [truncated]", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(json: &Json) -> Payload {
        Payload::encode(json).expect("JSON")
    }

    #[test]
    fn an_initialize_result_describes_a_legacy_server() {
        let result = json!({
            "protocolVersion": "2025-06-18",
            "serverInfo": {"name": "files", "version": "1.2", "title": "Files", "icons": []},
            "capabilities": {
                "tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": null,
                "logging": {}, "experimental": {"x/y": {}}
            },
            "instructions": "be careful",
        });
        let it =
            ServerDescription::from_initialize_result(payload(&result)).expect("it can be read");
        let list_capability =
            |list_changed, subscribe| Some(ListCapability { list_changed, subscribe });
        let expected = ServerDescription {
            era: Era::Legacy,
            protocol_version: "2025-06-18".to_owned(),
            name: "files".to_owned(),
            title: Some("Files".to_owned()),
            server_version: "1.2".to_owned(),
            capabilities: ServerCapabilities {
                tools: list_capability(true, false),
                resources: list_capability(false, true),
                prompts: None,
                others: vec!["logging".to_owned(), "x/y".to_owned()],
            },
            instructions: Some("be careful".to_owned()),
            raw: payload(&result),
        };
        assert_eq!(it, expected);
    }

    #[test]
    fn a_discover_result_describes_a_modern_server_in_its_meta() {
        let result = json!({
            "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "m", "version": 3}},
        });
        let it = ServerDescription::from_discover_result(payload(&result), "2026-07-28")
            .expect("it can be read");
        assert_eq!((it.name.as_str(), it.server_version.as_str()), ("m", "3"));
        assert_eq!(supported_versions(&payload(&result)), ["2026-07-28"]);
        assert_eq!(supported_versions(&payload(&json!({"supported": ["a"]}))), ["a"]);
    }

    #[test]
    fn an_almost_empty_result_is_accepted() {
        let it = ServerDescription::from_initialize_result(payload(
            &json!({"instructions": 5, "serverInfo": "x"}),
        ));
        let it = it.expect("it can be read");
        assert_eq!((it.name.as_str(), it.instructions), ("", None));
    }

    #[test]
    fn long_instructions_are_cut_between_characters() {
        let result = json!({"instructions": "é".repeat(3000)});
        let it =
            ServerDescription::from_initialize_result(payload(&result)).expect("it can be read");
        let instructions = it.instructions.expect("there are some");
        assert_eq!(instructions, format!("{}… [truncated]", "é".repeat(2048)));
    }

    #[test]
    fn roots_announce_changes_in_the_legacy_era_only() {
        let offer = ClientDescription {
            legacy_capabilities: None,
            name: "swb".into(),
            title: "S".into(),
            version: "1".into(),
            capabilities: vec![ClientCapability::Roots, ClientCapability::Elicitation],
        };
        assert_eq!(
            offer.capabilities_json(Era::Legacy),
            json!({"roots": {"listChanged": true}, "elicitation": {"form": {}, "url": {}}})
        );
        assert_eq!(
            offer.capabilities_json(Era::Modern),
            json!({"roots": {}, "elicitation": {"form": {}, "url": {}}})
        );
    }
}
