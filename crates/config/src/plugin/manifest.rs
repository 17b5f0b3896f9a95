//! The manifest of a plugin, `plugin.json`. Unknown keys are ignored; a known key of the wrong type is an error.

use serde_json::{Map, Value as Json};
use thiserror::Error;

use super::channel::{ChannelProblem, PluginChannel};
use super::fields::{Members, WrongMember};
use super::id::{NameFault, check_plugin_name};
use super::relative_path::{PathFault, RelativePath};
use crate::user_config::{OptionProblem, UserConfig};

/// The maximum size of a manifest in bytes.
pub const MAX_MANIFEST_SIZE: u64 = 1024 * 1024;
/// How many pieces `mcpServers` may have.
const MAX_PIECES: usize = 64;
/// The components of a plugin that are not servers: named, and otherwise ignored.
const OTHER_COMPONENTS: [&str; 7] =
    ["skills", "commands", "agents", "hooks", "lspServers", "outputStyles", "experimental"];

/// A plugin as its manifest, or an entry of a marketplace, describes it. Its texts are untrusted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginManifest {
    /// Its name.
    pub name: Option<String>,
    /// Its name for users.
    pub display_name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// The name of its author.
    pub author: Option<String>,
    /// Its home page.
    pub homepage: Option<String>,
    /// Its licence.
    pub license: Option<String>,
    /// Whether it is enabled where no settings say so.
    pub default_enabled: Option<bool>,
    /// Where its servers are defined.
    pub servers: Vec<McpServers>,
    /// The options that it asks its user for.
    pub user_config: UserConfig,
    /// What is wrong with their definitions.
    pub option_problems: Vec<OptionProblem>,
    /// Its channels.
    pub channels: Vec<PluginChannel>,
    /// What is wrong with the channels.
    pub channel_problems: Vec<ChannelProblem>,
    /// The other components that it has; they are ignored.
    pub other_components: Vec<&'static str>,
}

/// One piece of `mcpServers`.
#[derive(Debug, Clone, PartialEq)]
pub enum McpServers {
    /// A file of servers.
    File(RelativePath),
    /// A bundle in the plugin.
    Bundle(RelativePath),
    /// A bundle at a URL.
    BundleUrl(String),
    /// Servers by name.
    Inline(InlineServers),
}

/// Servers in a manifest. They have no `Debug` output, because they may contain secrets.
#[derive(Clone, PartialEq)]
pub struct InlineServers(pub Map<String, Json>);

impl std::fmt::Debug for InlineServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InlineServers({})", self.0.len())
    }
}

/// Why a manifest cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PluginManifestError {
    /// It is not JSON.
    #[error("line {line}, column {column} is not valid JSON")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// It is too large.
    #[error("it is larger than {MAX_MANIFEST_SIZE} bytes")]
    TooLarge,
    /// It is not an object.
    #[error("it is not an object")]
    NotAnObject,
    /// The name is missing.
    #[error("`name` is missing")]
    NoName,
    /// The name cannot be used.
    #[error("its name cannot be used: {0}")]
    Name(NameFault),
    /// A member has another type.
    #[error("`{key}` is not {expected}")]
    WrongType {
        /// The member.
        key: &'static str,
        /// The type that it must have.
        expected: &'static str,
    },
    /// A path in `mcpServers` cannot be used.
    #[error("a path in `mcpServers` cannot be used: {0}")]
    Path(PathFault),
    /// A URL in `mcpServers` is not that of a bundle.
    #[error("a URL in `mcpServers` is not the https URL of a bundle")]
    Url,
    /// `mcpServers` has too many pieces.
    #[error("`mcpServers` has more than {MAX_PIECES} parts")]
    TooManyPieces,
}

impl From<WrongMember> for PluginManifestError {
    fn from(wrong: WrongMember) -> PluginManifestError {
        PluginManifestError::WrongType { key: wrong.key, expected: wrong.expected }
    }
}

impl PluginManifest {
    /// Parses the text of a manifest.
    pub fn parse(text: &str) -> Result<PluginManifest, PluginManifestError> {
        if text.len() as u64 > MAX_MANIFEST_SIZE {
            return Err(PluginManifestError::TooLarge);
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let json: Json = serde_json::from_str(text).map_err(|error| {
            PluginManifestError::Syntax { line: error.line(), column: error.column() }
        })?;
        let Json::Object(members) = &json else { return Err(PluginManifestError::NotAnObject) };
        let manifest = PluginManifest::read(members)?;
        match &manifest.name {
            None => Err(PluginManifestError::NoName),
            Some(name) => match check_plugin_name(name) {
                Ok(()) => Ok(manifest),
                Err(fault) => Err(PluginManifestError::Name(fault)),
            },
        }
    }

    /// Reads the members that manifests and entries of marketplaces share.
    pub(super) fn read(members: &Map<String, Json>) -> Result<PluginManifest, PluginManifestError> {
        let members = Members(members);
        let author = match members.get("author") {
            None => None,
            Some(Json::String(name)) => Some(name.clone()),
            Some(Json::Object(author)) => Members(author)
                .string("name")
                .map_err(|it| WrongMember { key: "author.name", ..it })?,
            Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Null) => {
                return Err(WrongMember { key: "author", expected: "an object" }.into());
            }
        };
        let empty = Map::new();
        let options = members.object("userConfig")?.unwrap_or(&empty);
        let (user_config, option_problems) = UserConfig::parse(&Json::Object(options.clone()));
        let (channels, channel_problems) = match members.get("channels") {
            Some(channels) => PluginChannel::parse_list(channels),
            None => (Vec::new(), Vec::new()),
        };
        members.strings("keywords")?;
        members.object("metadata")?;
        let other = OTHER_COMPONENTS.into_iter();
        Ok(PluginManifest {
            name: members.string("name")?,
            display_name: members.string("displayName")?,
            version: members.string("version")?,
            description: members.string("description")?,
            author,
            homepage: members.string("homepage")?,
            license: members.string("license")?,
            default_enabled: members.boolean("defaultEnabled")?,
            servers: match members.get("mcpServers") {
                Some(servers) => read_pieces(servers)?,
                None => Vec::new(),
            },
            user_config,
            option_problems,
            channels,
            channel_problems,
            other_components: other.filter(|key| members.get(key).is_some()).collect(),
        })
    }

    /// Does it define components of the plugin, rather than only describe it?
    pub fn has_components(&self) -> bool {
        !self.servers.is_empty() || !self.other_components.is_empty()
    }

    /// The name for users.
    pub fn title(&self) -> Option<&str> {
        self.display_name.as_deref().or(self.name.as_deref())
    }
}

fn read_pieces(json: &Json) -> Result<Vec<McpServers>, PluginManifestError> {
    match json {
        Json::Array(items) if items.len() > MAX_PIECES => Err(PluginManifestError::TooManyPieces),
        Json::Array(items) => items.iter().map(read_piece).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
            Ok(vec![read_piece(json)?])
        }
    }
}

fn read_piece(json: &Json) -> Result<McpServers, PluginManifestError> {
    match json {
        Json::String(url) if url.contains("://") => {
            let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
            let is_bundle = path.ends_with(".mcpb") || path.ends_with(".dxt");
            match is_bundle && url::Url::parse(url).is_ok() {
                true => Ok(McpServers::BundleUrl(url.clone())),
                false => Err(PluginManifestError::Url),
            }
        }
        Json::String(path) => {
            let path = RelativePath::parse(path).map_err(PluginManifestError::Path)?;
            Ok(match path.is_bundle() {
                true => McpServers::Bundle(path),
                false => McpServers::File(path),
            })
        }
        Json::Object(servers) => {
            let inner = servers.get("mcpServers").and_then(Json::as_object);
            Ok(McpServers::Inline(InlineServers(inner.unwrap_or(servers).clone())))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => {
            let expected = "a path, an object of servers, or a list of these";
            Err(PluginManifestError::WrongType { key: "mcpServers", expected })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_error(json: Json, expected: &str) {
        let error = PluginManifest::parse(&json.to_string()).expect_err("it is not valid");
        assert_eq!(error.to_string(), expected, "{json}");
    }

    #[test]
    fn servers_are_a_path_an_object_a_bundle_or_a_list_of_these() {
        let manifest = PluginManifest::parse(
            &json!({"name": "demo", "version": "1.2.0", "author": {"name": "Ada"}, "hooks": {}, "unknown": 1,
                "mcpServers": ["./servers.json", "./b.mcpb", "https://h/x.mcpb?y", {"s": {"command": "x"}}]})
            .to_string(),
        )
        .expect("it is valid");
        let [
            McpServers::File(file),
            McpServers::Bundle(bundle),
            McpServers::BundleUrl(url),
            McpServers::Inline(inline),
        ] = &manifest.servers[..]
        else {
            panic!("{:?}", manifest.servers)
        };
        assert_eq!(
            (file.to_string().as_str(), bundle.to_string().as_str()),
            ("./servers.json", "./b.mcpb")
        );
        assert_eq!((url.as_str(), inline.0.len()), ("https://h/x.mcpb?y", 1));
        assert_eq!(manifest.other_components, ["hooks"]);
        assert_eq!(manifest.author.as_deref(), Some("Ada"));
    }

    #[test]
    fn a_wrong_type_of_a_known_key_is_an_error() {
        check_error(json!([]), "it is not an object");
        check_error(json!({}), "`name` is missing");
        check_error(json!({"name": 1}), "`name` is not text");
        check_error(
            json!({"name": "../x"}),
            "its name cannot be used: it may contain only letters, digits, `-` and `_`",
        );
        check_error(json!({"name": "a", "version": 1}), "`version` is not text");
        check_error(json!({"name": "a", "author": 1}), "`author` is not an object");
        check_error(json!({"name": "a", "keywords": [1]}), "`keywords` is not a list of texts");
        check_error(json!({"name": "a", "userConfig": []}), "`userConfig` is not an object");
        check_error(
            json!({"name": "a", "defaultEnabled": "x"}),
            "`defaultEnabled` is not true or false",
        );
        for servers in [json!(1), json!([1]), json!([["./x"]])] {
            check_error(
                json!({"name": "a", "mcpServers": servers}),
                "`mcpServers` is not a path, an object of servers, or a list of these",
            );
        }
        for path in ["../x.json", "/etc/x.json", "x.json", "./a/../../x.mcpb"] {
            let error =
                PluginManifest::parse(&json!({"name": "a", "mcpServers": path}).to_string());
            assert!(matches!(error, Err(PluginManifestError::Path(_))), "{path}");
        }
        check_error(
            json!({"name": "a", "mcpServers": "https://h/x.json"}),
            "a URL in `mcpServers` is not the https URL of a bundle",
        );
        check_error(
            json!({"name": "a", "mcpServers": vec!["./x"; 100]}),
            "`mcpServers` has more than 64 parts",
        );
        assert_eq!(
            PluginManifest::parse("{"),
            Err(PluginManifestError::Syntax { line: 1, column: 1 })
        );
        assert!(PluginManifest::parse(&"[".repeat(5000)).is_err());
        assert_eq!(PluginManifest::parse(&" ".repeat(1 << 21)), Err(PluginManifestError::TooLarge));
    }
}
