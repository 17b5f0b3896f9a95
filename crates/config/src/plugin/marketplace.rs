//! A marketplace: the plugins that it lists. An invalid entry costs only that entry.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use thiserror::Error;

use super::fields::Members;
use super::id::{NameFault, check_marketplace_name, check_plugin_name};
use super::manifest::{PluginManifest, PluginManifestError};
use super::relative_path::{PathFault, RelativePath};
use super::source::{PluginSource, SourceFault};

/// The file of a marketplace in its folder.
pub const MARKETPLACE_FILE: &str = ".claude-plugin/marketplace.json";
/// The maximum size of that file in bytes.
pub const MAX_MARKETPLACE_SIZE: u64 = 8 * 1024 * 1024;
/// How many plugins are read.
const MAX_PLUGINS: usize = 5000;

/// A marketplace. Its texts are untrusted.
#[derive(Debug, Clone, PartialEq)]
pub struct Marketplace {
    /// Its name.
    pub name: String,
    /// The name of its owner.
    pub owner: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Its plugins, in its order.
    pub plugins: Vec<MarketplaceEntry>,
    /// The entries that are left out, by their names or positions.
    pub faults: Vec<(String, EntryFault)>,
    /// Plugins that have another name now, or none.
    pub renames: BTreeMap<String, RenameOutcome>,
}

/// What became of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenameOutcome {
    /// It has this name now.
    To(String),
    /// It is gone.
    Removed,
}

/// A plugin in a marketplace.
#[derive(Debug, Clone, PartialEq)]
pub struct MarketplaceEntry {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: PluginSource,
    /// Whether its own manifest counts.
    pub strictness: Strictness,
    /// What the entry says about the plugin.
    pub about: PluginManifest,
    /// The entry as the file has it.
    pub raw: EntryJson,
}

/// The JSON of an entry. It has no `Debug` output, because it may contain secrets.
#[derive(Clone, PartialEq, Default)]
pub struct EntryJson(pub Map<String, Json>);

impl std::fmt::Debug for EntryJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EntryJson(…)")
    }
}

/// Which description of a plugin counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strictness {
    /// `strict: true`: the plugin's own manifest, to which the entry adds.
    #[default]
    OwnManifest,
    /// `strict: false`: the entry; a manifest with components contradicts it.
    OnlyEntry,
}

/// Why an entry is left out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryFault {
    /// It is not an object.
    #[error("it is not an object")]
    NotAnObject,
    /// Its name cannot be used.
    #[error("its name cannot be used: {0}")]
    Name(NameFault),
    /// It has the name of an earlier entry.
    #[error("an earlier entry has the same name")]
    Duplicate,
    /// Its source cannot be used.
    #[error("its source cannot be used: {0}")]
    Source(SourceFault),
    /// A member has another type, or `mcpServers` is not valid.
    #[error("{0}")]
    Member(PluginManifestError),
    /// There are more entries than are read.
    #[error("there are more than {MAX_PLUGINS} plugins; this one and those after it are left out")]
    TooMany,
}

/// Why a marketplace cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MarketplaceError {
    /// It is not JSON.
    #[error("line {line}, column {column} is not valid JSON")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// It is too large.
    #[error("it is larger than {MAX_MARKETPLACE_SIZE} bytes")]
    TooLarge,
    /// It is not an object.
    #[error("it is not an object")]
    NotAnObject,
    /// The name cannot be used.
    #[error("its name cannot be used: {0}")]
    Name(NameFault),
    /// A member is missing or has another type.
    #[error("`{key}` is missing or is not {expected}")]
    Member {
        /// The member.
        key: &'static str,
        /// The type that it must have.
        expected: &'static str,
    },
    /// `metadata.pluginRoot` leads out.
    #[error("`metadata.pluginRoot` cannot be used: {0}")]
    PluginRoot(PathFault),
}

impl Marketplace {
    /// Parses the text of `marketplace.json`.
    pub fn parse(text: &str) -> Result<Marketplace, MarketplaceError> {
        if text.len() as u64 > MAX_MARKETPLACE_SIZE {
            return Err(MarketplaceError::TooLarge);
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let json: Json = serde_json::from_str(text).map_err(|error| MarketplaceError::Syntax {
            line: error.line(),
            column: error.column(),
        })?;
        let Json::Object(top) = &json else { return Err(MarketplaceError::NotAnObject) };
        let top = Members(top);
        let wrong = |key, expected| MarketplaceError::Member { key, expected };
        let name = top.string("name").ok().flatten().ok_or_else(|| wrong("name", "text"))?;
        check_marketplace_name(&name).map_err(MarketplaceError::Name)?;
        let owner = match top.get("owner") {
            Some(Json::Object(owner)) => Members(owner).string("name"),
            _ => return Err(wrong("owner", "an object")),
        };
        let owner = owner.map_err(|_| wrong("owner.name", "text"))?;
        let empty = Map::new();
        let metadata = top.object("metadata").map_err(|_| wrong("metadata", "an object"))?;
        let metadata = Members(metadata.unwrap_or(&empty));
        let root = metadata.string("pluginRoot");
        let root = root.map_err(|_| wrong("metadata.pluginRoot", "text"))?;
        let root = RelativePath::parse_lenient(root.as_deref().unwrap_or("./"))
            .map_err(MarketplaceError::PluginRoot)?;
        let description = match top.string("description") {
            Ok(None) => metadata.string("description"),
            found => found,
        };
        let items = top.get("plugins").and_then(Json::as_array);
        let items = items.ok_or_else(|| wrong("plugins", "a list"))?;
        let renames = top.object("renames").map_err(|_| wrong("renames", "an object"))?;
        let mut marketplace = Marketplace {
            name,
            owner,
            description: description.map_err(|_| wrong("description", "text"))?,
            plugins: Vec::new(),
            faults: Vec::new(),
            renames: read_renames(renames.unwrap_or(&empty)),
        };
        marketplace.read_entries(items, &root);
        Ok(marketplace)
    }

    fn read_entries(&mut self, items: &[Json], root: &RelativePath) {
        for (index, item) in items.iter().enumerate() {
            let shown = match item.get("name").and_then(Json::as_str) {
                Some(name) => name.to_owned(),
                None => format!("plugins[{index}]"),
            };
            if index >= MAX_PLUGINS {
                self.faults.push((shown, EntryFault::TooMany));
                return;
            }
            match MarketplaceEntry::read(item, root) {
                Ok(entry) if self.find(&entry.name).is_some() => {
                    self.faults.push((shown, EntryFault::Duplicate));
                }
                Ok(entry) => self.plugins.push(entry),
                Err(fault) => self.faults.push((shown, fault)),
            }
        }
    }

    /// The entry with this name.
    pub fn find(&self, name: &str) -> Option<&MarketplaceEntry> {
        self.plugins.iter().find(|it| it.name == name)
    }

    /// What became of a plugin that is not listed any more, through all its renames.
    pub fn renamed(&self, name: &str) -> Option<RenameOutcome> {
        let mut current = name;
        for _ in 0..self.renames.len() {
            match self.renames.get(current)? {
                RenameOutcome::Removed => return Some(RenameOutcome::Removed),
                RenameOutcome::To(next) if self.find(next).is_some() => {
                    return Some(RenameOutcome::To(next.clone()));
                }
                RenameOutcome::To(next) => current = next,
            }
        }
        None
    }
}

fn read_renames(json: &Map<String, Json>) -> BTreeMap<String, RenameOutcome> {
    let read = |value: &Json| match value {
        Json::Null => Some(RenameOutcome::Removed),
        Json::String(name) if check_plugin_name(name).is_ok() => {
            Some(RenameOutcome::To(name.clone()))
        }
        Json::String(_) | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            None
        }
    };
    json.iter().filter_map(|(old, new)| Some((old.clone(), read(new)?))).collect()
}

impl MarketplaceEntry {
    /// Reads an entry as [`Self::raw`] has it.
    pub fn from_raw(raw: &Map<String, Json>) -> Result<MarketplaceEntry, EntryFault> {
        // The source was resolved before it was stored, or is not needed any more.
        MarketplaceEntry::read(
            &Json::Object(raw.clone()),
            &RelativePath::parse_lenient("./")
                .map_err(|it| EntryFault::Source(SourceFault::Path(it)))?,
        )
    }

    fn read(json: &Json, root: &RelativePath) -> Result<MarketplaceEntry, EntryFault> {
        let Json::Object(raw) = json else { return Err(EntryFault::NotAnObject) };
        let about = PluginManifest::read(raw).map_err(EntryFault::Member)?;
        let name = about.name.clone().ok_or(EntryFault::Name(NameFault::Empty))?;
        check_plugin_name(&name).map_err(EntryFault::Name)?;
        let source = raw.get("source").unwrap_or(&Json::Null);
        let source = PluginSource::parse(source, root).map_err(EntryFault::Source)?;
        let strictness = match Members(raw).boolean("strict") {
            Ok(Some(false)) => Strictness::OnlyEntry,
            Ok(Some(true) | None) => Strictness::OwnManifest,
            Err(wrong) => return Err(EntryFault::Member(wrong.into())),
        };
        let mut raw = raw.clone();
        if let PluginSource::Relative(path) = &source {
            // With the plugin root, so that the entry alone says where the plugin is.
            raw.insert("source".to_owned(), path.to_string().into());
        }
        Ok(MarketplaceEntry { name, source, strictness, about, raw: EntryJson(raw) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(more: Json) -> Result<Marketplace, MarketplaceError> {
        let mut json = json!({"name": "lab", "owner": {"name": "Ada"}, "plugins": []});
        for (key, value) in more.as_object().expect("an object") {
            json[key] = value.clone();
        }
        Marketplace::parse(&json.to_string())
    }

    #[test]
    fn a_bad_entry_leaves_the_good_ones_alone() {
        let marketplace = parse(json!({"plugins": [
            {"name": "good", "source": "./good", "strict": false, "version": "1"},
            {"name": "../x", "source": "./x"},
            {"name": "up", "source": "../up"},
            {"name": "good", "source": "./other"},
            {"source": "./x"},
            {"name": "typed", "source": "./x", "mcpServers": 1},
            1,
        ]}))
        .expect("it is valid");
        let names: Vec<&str> = marketplace.plugins.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["good"]);
        assert_eq!(marketplace.plugins[0].strictness, Strictness::OnlyEntry);
        let faults: Vec<String> =
            marketplace.faults.iter().map(|(name, fault)| format!("{name}: {fault}")).collect();
        assert_eq!(
            faults,
            [
                "../x: its name cannot be used: it may contain only letters, digits, `-` and `_`",
                "up: its source cannot be used: its path cannot be used: it contains `..`",
                "good: an earlier entry has the same name",
                "plugins[4]: its name cannot be used: it is empty",
                "typed: `mcpServers` is not a path, an object of servers, or a list of these",
                "plugins[6]: it is not an object",
            ]
        );
    }

    #[test]
    fn sources_without_a_dot_are_in_the_plugin_root_also_when_the_entry_is_read_again() {
        let marketplace = parse(json!({
            "metadata": {"pluginRoot": "./plugins"},
            "plugins": [{"name": "a", "source": "a"}, {"name": "b", "source": "./b"}],
        }))
        .expect("it is valid");
        let sources: Vec<String> =
            marketplace.plugins.iter().map(|it| it.source.describe()).collect();
        assert_eq!(sources, ["./plugins/a", "./b"]);
        let again = MarketplaceEntry::from_raw(&marketplace.plugins[0].raw.0).expect("it is valid");
        assert_eq!(again.source.describe(), "./plugins/a");
        assert!(parse(json!({"metadata": {"pluginRoot": "../x"}})).is_err());
    }

    #[test]
    fn renames_are_followed_and_end() {
        let marketplace = parse(json!({
            "plugins": [{"name": "new", "source": "./new"}],
            "renames": {"old": "middle", "middle": "new", "gone": null, "a": "b", "b": "a", "bad": 1},
        }))
        .expect("it is valid");
        assert_eq!(marketplace.renamed("old"), Some(RenameOutcome::To("new".to_owned())));
        assert_eq!(marketplace.renamed("gone"), Some(RenameOutcome::Removed));
        assert_eq!(marketplace.renamed("a"), None);
        assert_eq!(marketplace.renamed("bad"), None);
    }

    #[test]
    fn what_every_marketplace_needs_is_required() {
        for (json, expected) in [
            (json!({"name": 1}), "`name` is missing or is not text"),
            (
                json!({"name": "a b"}),
                "its name cannot be used: it may contain only letters, digits, `-`, `_` and single dots",
            ),
            (
                json!({"name": "l\u{430}b"}),
                "its name cannot be used: it may contain only letters, digits, `-`, `_` and single dots",
            ),
            (json!({"owner": "Ada"}), "`owner` is missing or is not an object"),
            (json!({"plugins": {}}), "`plugins` is missing or is not a list"),
            (json!({"renames": []}), "`renames` is missing or is not an object"),
        ] {
            let error = parse(json.clone()).expect_err("it is not valid");
            assert_eq!(error.to_string(), expected, "{json}");
        }
        assert_eq!(Marketplace::parse(&" ".repeat(9 << 20)), Err(MarketplaceError::TooLarge));
        assert!(Marketplace::parse(&"[".repeat(100_000)).is_err());
    }
}
