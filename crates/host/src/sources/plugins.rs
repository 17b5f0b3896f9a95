//! The plugins of a configuration: which of them count, and the servers that they define. Installing is left to the crate
//! `packages`; only files are read here.

mod folder;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use switchboard_config::bundle::BundleHash;
use switchboard_config::file::{Layer, OptionValues};
use switchboard_config::plugin::{
    InstallRecord, Marketplace, MarketplaceEntry, MarketplaceRefusal, PluginChannel, PluginId,
    PluginManifest, PluginProblem, PluginSettings, PluginSource, PluginSwitch, PluginValues,
    SwitchAuthority, SwitchState,
};
use switchboard_config::problem::{Problem, ProblemKind};
use switchboard_config::scope::Scope;
use switchboard_config::source::{Origin, Source, path_key};

use crate::sources::bundles::InstalledBundles;
use crate::sources::paths::Paths;
use crate::sources::setting_sources::SourceUse;
use folder::PluginFolder;

pub use folder::{FolderError, PluginText, read_inside, read_manifest};
pub use state::{PluginState, StateError, read_marketplace, read_state};

/// The marketplace that stands for a folder of the user in `pluginConfigs`.
pub const FOLDER_MARKETPLACE: &str = "inline";

/// A plugin whose servers are part of the configuration.
#[derive(Debug, Clone)]
pub struct LoadedPlugin {
    /// The plugin.
    pub id: PluginId,
    /// Its folder.
    pub root: PathBuf,
    /// Its channels, as its manifest lists them.
    pub channels: Vec<PluginChannel>,
    /// Its manifest, with what its entry in the marketplace adds.
    pub manifest: PluginManifest,
    /// Where it comes from.
    pub provenance: PluginProvenance,
}

/// Where a plugin comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginProvenance {
    /// `--plugin-dir`, for this session.
    Session,
    /// A folder among the user's plugins.
    Folder,
    /// A marketplace: the user enabled it.
    User,
    /// A marketplace: a file of the project enables it.
    Project,
}

/// A plugin that is named somewhere, and whose servers are not part of the configuration.
#[derive(Debug, Clone)]
pub struct InactivePlugin {
    /// The plugin.
    pub id: PluginId,
    /// Why.
    pub reason: InactiveReason,
}

/// Why a plugin does not count.
#[derive(Debug, Clone)]
pub enum InactiveReason {
    /// It is disabled here, or by its own manifest.
    Disabled(Option<Origin>),
    /// It is enabled here, but not installed.
    NotInstalled(Origin),
    /// It is installed for another project.
    OtherProject,
    /// An administrator refuses its marketplace.
    Refused(MarketplaceRefusal),
    /// It cannot be used.
    Failed(PluginProblem),
}

/// A plugin of `--plugin-dir`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPlugin {
    /// Its folder.
    pub root: PathBuf,
    /// Whether its servers are used.
    pub servers: SessionServers,
    /// The installed bundles of its servers, as its manifest names them.
    pub bundles: BTreeMap<String, BundleHash>,
}

/// Whether the servers of a plugin are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionServers {
    /// They are.
    Used,
    /// They are not: `--plugin-dir-no-mcp`.
    Ignored,
}

/// What the plugins add to a configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct PluginLayers {
    pub(crate) layers: Vec<Layer>,
    pub(crate) loaded: Vec<LoadedPlugin>,
    pub(crate) inactive: Vec<InactivePlugin>,
    pub(crate) problems: Vec<Problem>,
    /// Files that were read, or will be as soon as they exist.
    pub(crate) files: Vec<PathBuf>,
}

/// Reads plugins.
pub(crate) struct PluginReader<'a> {
    pub(crate) paths: &'a Paths,
    pub(crate) project: &'a Path,
    pub(crate) home: &'a Path,
    pub(crate) bundles: &'a InstalledBundles,
    pub(crate) settings: &'a PluginSettings<OptionValues>,
    pub(crate) session: &'a [SessionPlugin],
    /// Whether the user's own plugins are used.
    pub(crate) users: SourceUse,
}

/// A plugin to read.
struct FoundPlugin {
    id: PluginId,
    root: PathBuf,
    entry: Option<MarketplaceEntry>,
    bundles: BTreeMap<String, BundleHash>,
    approval_key: Option<String>,
    provenance: PluginProvenance,
}

impl PluginReader<'_> {
    /// Reads every plugin. Of two with the same name, the earlier one has the name.
    pub(crate) fn read(&self) -> PluginLayers {
        let mut found = PluginLayers::default();
        for plugin in self.session {
            self.add_session_plugin(plugin, &mut found);
        }
        if self.users.is_loaded() {
            self.add_folders(&mut found);
        }
        self.add_installed(&mut found);
        found
    }

    fn add_session_plugin(&self, plugin: &SessionPlugin, found: &mut PluginLayers) {
        let name = match read_manifest(&plugin.root) {
            Ok(Some(text)) => PluginManifest::parse(&text.text).ok().and_then(|it| it.name),
            Ok(None) | Err(_) => None,
        };
        let folder = plugin.root.file_name().map(|it| it.to_string_lossy().into_owned());
        let id = PluginId::of_folder(&name.or(folder).unwrap_or_default());
        let before = found.layers.len();
        self.add(
            FoundPlugin {
                id,
                root: plugin.root.clone(),
                entry: None,
                bundles: plugin.bundles.clone(),
                approval_key: None,
                provenance: PluginProvenance::Session,
            },
            found,
        );
        match plugin.servers {
            SessionServers::Used => {}
            SessionServers::Ignored => found.layers.truncate(before),
        }
    }

    /// The folders that the user placed among the plugins, in the order of their names, so that the result is stable.
    fn add_folders(&self, found: &mut PluginLayers) {
        let folder = self.paths.plugins();
        found.files.push(folder.clone());
        let Ok(entries) = folder.read_dir() else { return };
        let mut names: Vec<String> =
            entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        for name in names {
            let root = folder.join(&name);
            if !root.is_dir() {
                continue;
            }
            let plugin = FoundPlugin {
                id: PluginId::of_folder(&name),
                root,
                entry: None,
                bundles: BTreeMap::new(),
                approval_key: None,
                provenance: PluginProvenance::Folder,
            };
            self.add(plugin, found);
        }
    }

    fn add_installed(&self, found: &mut PluginLayers) {
        found.files.extend([self.paths.known_marketplaces(), self.paths.installed_plugins()]);
        let state = match read_state(self.paths) {
            Ok(state) => state,
            Err(error) => {
                let source = Source::file(Scope::Plugin, &error.path);
                let kind = match error.failure {
                    Some(why) => ProblemKind::Unreadable(why),
                    None => ProblemKind::Plugin(PluginProblem::CorruptState),
                };
                found.problems.push(Problem::for_source(&source, kind));
                return;
            }
        };
        let switched = self.settings.switches.iter().map(|it| &it.id);
        let ids: BTreeSet<&PluginId> = state.installed.0.keys().chain(switched).collect();
        // What the user chose comes first: a project takes no name from it.
        let (users, projects): (Vec<_>, Vec<_>) =
            ids.into_iter().partition(|id| self.settings.is_users_choice(id));
        let users = users.into_iter().map(|id| (id, SwitchAuthority::User));
        let projects = projects.into_iter().map(|id| (id, SwitchAuthority::Project));
        for (id, authority) in users.chain(projects) {
            match self.find(id, authority, &state, found) {
                Ok(plugin) => self.add(plugin, found),
                Err(reason) => {
                    if let InactiveReason::Failed(problem) = &reason {
                        let file = self.paths.installed_plugins();
                        found.problems.push(plugin_problem(id, &file, problem.clone()));
                    }
                    found.inactive.push(InactivePlugin { id: id.clone(), reason });
                }
            }
        }
    }

    /// Finds the folder of an installed plugin that is enabled here.
    fn find(
        &self,
        id: &PluginId,
        authority: SwitchAuthority,
        state: &PluginState,
        found: &mut PluginLayers,
    ) -> Result<FoundPlugin, InactiveReason> {
        let record = state.installed.record(id, self.project);
        let switch = self.settings.switch(id);
        let record = match (switch, record) {
            (Some(PluginSwitch { state: SwitchState::Off, origin, .. }), _) => {
                return Err(InactiveReason::Disabled(Some(origin.clone())));
            }
            (Some(PluginSwitch { origin, .. }), None) => {
                return Err(InactiveReason::NotInstalled(origin.clone()));
            }
            (None, Some(record)) if !record.scope.covers(self.project) => {
                return Err(InactiveReason::OtherProject);
            }
            (None, Some(_)) if !self.users.is_loaded() => {
                return Err(InactiveReason::Disabled(None));
            }
            (_, Some(record)) => record,
            // It is neither installed nor named in settings.
            (None, None) => return Err(InactiveReason::Disabled(None)),
        };
        let market = id.marketplace.as_deref().and_then(|name| state.known.0.get(name));
        let policy = &self.settings.policy;
        match market {
            Some(market) => policy.evaluate(&market.source).map_err(InactiveReason::Refused)?,
            None => policy.evaluate_unknown().map_err(InactiveReason::Refused)?,
        }
        let directory = market.and_then(|it| it.source.directory());
        let (root, entry) = match directory {
            Some(directory) => self.in_place(id, record, directory, found)?,
            None => (record.path.clone(), stored_entry(record)?),
        };
        let default = entry.about.default_enabled.or_else(|| {
            let text = read_manifest(&root).ok().flatten()?;
            PluginManifest::parse(&text.text).ok()?.default_enabled
        });
        if switch.is_none() && default == Some(false) {
            return Err(InactiveReason::Disabled(None));
        }
        let (approval_key, provenance) = match (authority, switch) {
            (SwitchAuthority::Project, Some(switch)) => {
                let key = switch.origin.source.path().map(path_key);
                (key.unwrap_or_default(), PluginProvenance::Project)
            }
            (SwitchAuthority::User, _) | (SwitchAuthority::Project, None) => {
                (id.approval_key(), PluginProvenance::User)
            }
        };
        Ok(FoundPlugin {
            id: id.clone(),
            root,
            entry: Some(entry),
            bundles: record.bundles.clone(),
            approval_key: Some(approval_key),
            provenance,
        })
    }

    /// The folder and the entry of a plugin whose marketplace is a folder of this machine: as they are now. What is not in
    /// the marketplace's folder was copied when it was installed.
    fn in_place(
        &self,
        id: &PluginId,
        record: &InstallRecord,
        directory: &Path,
        found: &mut PluginLayers,
    ) -> Result<(PathBuf, MarketplaceEntry), InactiveReason> {
        let marketplace = self.marketplace(directory, found)?;
        let entry = marketplace.find(&id.plugin).cloned();
        let entry = entry.ok_or(InactiveReason::Failed(PluginProblem::NotListed))?;
        let root = match &entry.source {
            PluginSource::Relative(path) => path.below(directory),
            PluginSource::Git(_)
            | PluginSource::Npm(_)
            | PluginSource::Archive(_)
            | PluginSource::Command => record.path.clone(),
        };
        Ok((root, entry))
    }

    fn marketplace(
        &self,
        directory: &Path,
        found: &mut PluginLayers,
    ) -> Result<Marketplace, InactiveReason> {
        let (path, marketplace) = read_marketplace(directory);
        found.files.push(path);
        marketplace.map_err(InactiveReason::Failed)
    }

    /// Adds the servers of a plugin. What is wrong with its manifest leaves it out, and is said.
    fn add(&self, plugin: FoundPlugin, found: &mut PluginLayers) {
        let default = PluginValues::default();
        let named = PluginId::new(&plugin.id.plugin, FOLDER_MARKETPLACE).ok();
        let id = match &plugin.id.marketplace {
            Some(_) => Some(&plugin.id),
            None => named.as_ref(),
        };
        let values = id.and_then(|id| self.settings.values.get(id)).unwrap_or(&default);
        let data = self.paths.plugin_data().join(plugin.id.data_folder());
        let folder = PluginFolder {
            id: &plugin.id,
            root: &plugin.root,
            data: &data,
            project: self.project,
            home: self.home,
            entry: plugin.entry.as_ref(),
            bundles: &plugin.bundles,
            installed: self.bundles,
            values,
            approval_key: plugin.approval_key.clone(),
        };
        match folder.read(&mut found.files) {
            Ok((layer, manifest)) => {
                found.layers.push(layer);
                found.loaded.push(LoadedPlugin {
                    id: plugin.id,
                    root: plugin.root,
                    channels: manifest.channels.clone(),
                    manifest,
                    provenance: plugin.provenance,
                });
            }
            Err(FolderError { file, problem }) => {
                found.problems.push(plugin_problem(&plugin.id, &file, problem.clone()));
                let reason = InactiveReason::Failed(problem);
                found.inactive.push(InactivePlugin { id: plugin.id, reason });
            }
        }
    }
}

fn stored_entry(record: &InstallRecord) -> Result<MarketplaceEntry, InactiveReason> {
    MarketplaceEntry::from_raw(&record.entry.0)
        .map_err(|fault| InactiveReason::Failed(PluginProblem::Entry(fault)))
}

fn plugin_problem(id: &PluginId, file: &Path, problem: PluginProblem) -> Problem {
    let source: Arc<Source> = Source::file(Scope::Plugin, file);
    let problem = Problem::for_source(&source, ProblemKind::Plugin(problem));
    Problem { server: Some(id.to_string()), ..problem }
}
