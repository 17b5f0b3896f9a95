//! Our own files about plugins: which marketplaces are known, and which plugins are installed. Reading and writing them
//! is left to `host`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use thiserror::Error;

use super::id::{PluginId, check_marketplace_name};
use super::marketplace::EntryJson;
use super::source::MarketplaceSource;
use crate::bundle::BundleHash;

/// One of the files is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the file is not valid")]
pub struct CorruptPluginState;

/// The known marketplaces, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownMarketplaces(pub BTreeMap<String, KnownMarketplace>);

/// A known marketplace.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownMarketplace {
    /// Where it comes from.
    pub source: MarketplaceSource,
    /// The folder with its files.
    pub location: PathBuf,
    /// When its files were fetched, in UTC.
    pub last_updated: String,
}

impl KnownMarketplaces {
    /// Parses the text of the file. An empty text has none.
    pub fn parse(text: &str) -> Result<KnownMarketplaces, CorruptPluginState> {
        if text.trim().is_empty() {
            return Ok(KnownMarketplaces::default());
        }
        let json: Json = serde_json::from_str(text).map_err(|_| CorruptPluginState)?;
        let mut known = BTreeMap::new();
        for (name, json) in json.as_object().ok_or(CorruptPluginState)? {
            check_marketplace_name(name).map_err(|_| CorruptPluginState)?;
            let source =
                MarketplaceSource::parse(&json["source"]).map_err(|_| CorruptPluginState)?;
            let location = PathBuf::from(text_of(json, "installLocation")?);
            let last_updated = text_of(json, "lastUpdated")?;
            known.insert(name.clone(), KnownMarketplace { source, location, last_updated });
        }
        Ok(KnownMarketplaces(known))
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let one = |it: &KnownMarketplace| {
            json!({
                "source": it.source.to_json(),
                "installLocation": it.location.to_string_lossy(),
                "lastUpdated": it.last_updated,
            })
        };
        let all: Map<String, Json> =
            self.0.iter().map(|(name, it)| (name.clone(), one(it))).collect();
        format!("{:#}\n", Json::Object(all))
    }
}

/// For whom a plugin is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallScope {
    /// The user, in every project.
    User,
    /// Everyone in a project.
    Project(PathBuf),
    /// The user, in a project.
    Local(PathBuf),
}

impl InstallScope {
    /// The name of the scope.
    pub fn id(&self) -> &'static str {
        match self {
            InstallScope::User => "user",
            InstallScope::Project(_) => "project",
            InstallScope::Local(_) => "local",
        }
    }

    /// Does it cover a project?
    pub fn covers(&self, root: &Path) -> bool {
        match self {
            InstallScope::User => true,
            InstallScope::Project(project) | InstallScope::Local(project) => project == root,
        }
    }
}

/// One installation of a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct InstallRecord {
    /// For whom.
    pub scope: InstallScope,
    /// The plugin's folder.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
    /// When it was installed, in UTC.
    pub installed_at: String,
    /// When it was updated, in UTC.
    pub last_updated: String,
    /// Its entry in the marketplace at that time.
    pub entry: EntryJson,
    /// The bundles of its servers, as its manifest names them.
    pub bundles: BTreeMap<String, BundleHash>,
}

/// The installed plugins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstalledPlugins(pub BTreeMap<PluginId, Vec<InstallRecord>>);

impl InstalledPlugins {
    const VERSION: u64 = 2;

    /// Parses the text of the file. An empty text has none.
    pub fn parse(text: &str) -> Result<InstalledPlugins, CorruptPluginState> {
        if text.trim().is_empty() {
            return Ok(InstalledPlugins::default());
        }
        let json: Json = serde_json::from_str(text).map_err(|_| CorruptPluginState)?;
        if json["version"].as_u64() != Some(InstalledPlugins::VERSION) {
            return Err(CorruptPluginState);
        }
        let mut installed = BTreeMap::new();
        for (id, records) in json["plugins"].as_object().ok_or(CorruptPluginState)? {
            let id = PluginId::parse(id).ok_or(CorruptPluginState)?;
            let records = records.as_array().ok_or(CorruptPluginState)?;
            let records: Result<Vec<_>, _> = records.iter().map(read_record).collect();
            installed.insert(id, records?);
        }
        Ok(InstalledPlugins(installed))
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let plugins: Map<String, Json> = self
            .0
            .iter()
            .map(|(id, records)| (id.to_string(), records.iter().map(record_json).collect()))
            .collect();
        format!("{:#}\n", json!({"version": InstalledPlugins::VERSION, "plugins": plugins}))
    }

    /// The installation that counts in a project.
    pub fn record(&self, id: &PluginId, root: &Path) -> Option<&InstallRecord> {
        let records = self.0.get(id)?;
        records.iter().find(|it| it.scope.covers(root)).or_else(|| records.first())
    }
}

fn read_record(json: &Json) -> Result<InstallRecord, CorruptPluginState> {
    let project = || text_of(json, "projectPath").map(PathBuf::from);
    let scope = match text_of(json, "scope")?.as_str() {
        "user" => InstallScope::User,
        "project" => InstallScope::Project(project()?),
        "local" => InstallScope::Local(project()?),
        _ => return Err(CorruptPluginState),
    };
    let mut bundles = BTreeMap::new();
    for (name, hash) in json["bundles"].as_object().into_iter().flatten() {
        let hash = hash.as_str().and_then(BundleHash::parse).ok_or(CorruptPluginState)?;
        bundles.insert(name.clone(), hash);
    }
    Ok(InstallRecord {
        scope,
        path: PathBuf::from(text_of(json, "installPath")?),
        version: text_of(json, "version")?,
        installed_at: text_of(json, "installedAt")?,
        last_updated: text_of(json, "lastUpdated")?,
        entry: EntryJson(json["entry"].as_object().cloned().unwrap_or_default()),
        bundles,
    })
}

fn record_json(record: &InstallRecord) -> Json {
    let mut json = json!({
        "scope": record.scope.id(),
        "installPath": record.path.to_string_lossy(),
        "version": record.version,
        "installedAt": record.installed_at,
        "lastUpdated": record.last_updated,
        "entry": record.entry.0,
    });
    match &record.scope {
        InstallScope::User => {}
        InstallScope::Project(project) | InstallScope::Local(project) => {
            json["projectPath"] = project.to_string_lossy().into();
        }
    }
    if !record.bundles.is_empty() {
        let bundles = record.bundles.iter();
        json["bundles"] = bundles
            .map(|(name, hash)| (name.clone(), hash.to_string().into()))
            .collect::<Map<_, _>>()
            .into();
    }
    json
}

fn text_of(json: &Json, key: &str) -> Result<String, CorruptPluginState> {
    json[key].as_str().map(str::to_owned).ok_or(CorruptPluginState)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_read_as_they_are_written() {
        let record = |scope| InstallRecord {
            scope,
            path: "/c/lab/demo/1".into(),
            version: "1".to_owned(),
            installed_at: "then".to_owned(),
            last_updated: "now".to_owned(),
            entry: EntryJson(Map::from_iter([("name".to_owned(), "demo".into())])),
            bundles: BTreeMap::from([(
                "./x.mcpb".to_owned(),
                BundleHash::parse(&"0".repeat(64)).expect("a hash"),
            )]),
        };
        let id = PluginId::new("demo", "lab").expect("an id");
        let records = vec![record(InstallScope::Local("/p".into())), record(InstallScope::User)];
        let installed = InstalledPlugins(BTreeMap::from([(id.clone(), records)]));
        assert_eq!(InstalledPlugins::parse(&installed.to_text()), Ok(installed.clone()));
        let scope = |root: &str| installed.record(&id, Path::new(root)).map(|it| it.scope.id());
        assert_eq!((scope("/p"), scope("/q")), (Some("local"), Some("user")));
        let known = KnownMarketplaces(BTreeMap::from([(
            "lab".to_owned(),
            KnownMarketplace {
                source: MarketplaceSource::Directory("/m".into()),
                location: "/m".into(),
                last_updated: "now".to_owned(),
            },
        )]));
        assert_eq!(KnownMarketplaces::parse(&known.to_text()), Ok(known));
        for text in [
            "[]",
            "{\"version\": 1, \"plugins\": {}}",
            "{\"version\": 2, \"plugins\": {\"../x@lab\": []}}",
        ] {
            assert_eq!(InstalledPlugins::parse(text), Err(CorruptPluginState), "{text}");
        }
        assert_eq!(KnownMarketplaces::parse("{\"..\": {}}"), Err(CorruptPluginState));
    }
}
