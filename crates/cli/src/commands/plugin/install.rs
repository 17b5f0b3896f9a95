//! `swb plugin install`: copies a plugin, notes that it is installed, and enables it. Nothing of it runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::bundle::BundleHash;
use switchboard::config::display::printable;
use switchboard::config::edit::Edit;
use switchboard::config::file::entry_decoder::nearest;
use switchboard::config::plugin::{
    InstallRecord, InstallScope, MarketplaceEntry, McpServers, PluginId, PluginManifest,
    PluginProblem, PluginSource, RenameOutcome, Strictness,
};
use switchboard::config::user_config::UserConfig;
use switchboard::sources::loader::Configuration;
use switchboard::sources::plugins::{PluginState, read_inside, read_manifest};
use switchboard_packages::bundle::{BundleError, SignatureState};
use switchboard_packages::download::DownloadedFile;
use switchboard_packages::plugin::{FetchedFiles, SourceTrust};

use super::approval::{self, Consent};
use super::files::OpenMarketplace;
use super::{fetching, files, list, options};
use crate::commands::bundle::source as bundle_source;
use crate::commands::import::SecretStorage;
use crate::edit::file;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// The version of a plugin whose publisher gives none.
const UNVERSIONED: &str = "unversioned";

/// Arguments of `swb plugin install`.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// The plugin, by its name and its marketplace
    #[arg(value_name = "PLUGIN@MARKETPLACE")]
    pub plugin: String,
    /// For whom: you everywhere, you in this project, or everyone in this project
    #[arg(long, short, value_enum, default_value = "user")]
    pub scope: WritableScope,
    /// Set an option of the plugin; may be repeated
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub config: Vec<String>,
    /// Where secrets among the options go
    #[arg(long, value_enum, default_value = "keychain")]
    pub secrets: SecretStorage,
    /// Also approve its servers, exactly as they are defined now
    #[arg(long)]
    pub yes: bool,
}

/// Runs the command.
pub(super) fn run(
    arguments: &InstallArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let state = files::state(invocation)?;
    let id = named_plugin(&arguments.plugin, &state)?;
    let typed = crate::commands::bundle::options::parse_pairs(&arguments.config)?;
    let market = files::open(&state, id.marketplace.as_deref().unwrap_or_default())
        .map_err(|failure| offer_hint(failure, &id, &configuration))?;
    let id = current_id(&id, &market)?;
    let entry = find_entry(&id, &market)?;
    files::expect_allowed(&configuration.marketplace_policy, &market.known.source, invocation)?;
    let fetched = fetch(&id, &market, entry, invocation)?;
    let wanted = options::OptionChanges { typed, unset: Vec::new(), storage: arguments.secrets };
    // Before anything is replaced: an option that does not fit changes nothing.
    let values = options::changed(&id, None, &fetched.user_config, &wanted, invocation)?;
    let prepared = fetched.publish(&id, invocation)?;
    record(&id, arguments.scope, entry, &prepared, invocation)?;
    set_switch(&id, arguments.scope, SwitchValue::On, invocation)?;
    options::write(&id, None, values, invocation)?;
    let data = invocation.env.paths.plugin_data().join(id.data_folder());
    std::fs::create_dir_all(&data).map_err(|error| {
        let place = invocation.display_path(&data);
        Failure::new(Exit::Failure, &format!("{place} cannot be made")).caused_by(error)
    })?;
    prune(&id, invocation)?;
    let can_ask =
        invocation.env.terminal.is_interactive && !invocation.wants_json() && !arguments.yes;
    if can_ask {
        options::ask(&id, None, &prepared.user_config, arguments.secrets, invocation)?;
    }
    let consent = Consent::from_flag(arguments.yes);
    approval::ask_for(&id, consent, &invocation.load_without_demo()?, invocation)?;
    report(&id, arguments.scope, &prepared, invocation)
}

/// The plugin that a text names, of those that marketplaces list.
fn named_plugin(text: &str, state: &PluginState) -> Result<PluginId, Failure> {
    let mut ids = Vec::new();
    if !text.contains('@') {
        for name in state.known.0.keys() {
            let Ok(market) = files::open(state, name) else { continue };
            let listed = market.content.plugins.iter();
            ids.extend(listed.filter_map(|it| PluginId::new(&it.name, name).ok()));
        }
    }
    files::plugin_id(text, ids.iter())
}

/// Where to get a marketplace that is not known, if settings offer it.
fn offer_hint(failure: Failure, id: &PluginId, configuration: &Configuration) -> Failure {
    let name = id.marketplace.as_deref().unwrap_or_default();
    let offer = configuration.offered_marketplaces.iter().find(|it| it.name == name);
    match offer {
        Some(offer) => failure.hint(&format!(
            "{} offers it ({}): swb plugin marketplace add {name}",
            printable(&offer.origin.source.to_string()),
            offer.source.describe()
        )),
        None => failure,
    }
}

/// The id that a plugin has now, if it was renamed.
pub(super) fn current_id(id: &PluginId, market: &OpenMarketplace) -> Result<PluginId, Failure> {
    if market.content.find(&id.plugin).is_some() {
        return Ok(id.clone());
    }
    match market.content.renamed(&id.plugin) {
        Some(RenameOutcome::To(name)) => PluginId::new(&name, &market.name).map_err(|fault| {
            Failure::new(Exit::Configuration, "its new name cannot be used").caused_by(fault)
        }),
        Some(RenameOutcome::Removed) => {
            let message =
                format!("the marketplace `{}` has withdrawn `{}`", market.name, id.plugin);
            Err(Failure::new(Exit::NotFound, &message))
        }
        None => Ok(id.clone()),
    }
}

/// The entry of a plugin in its marketplace.
pub(super) fn find_entry<'m>(
    id: &PluginId,
    market: &'m OpenMarketplace,
) -> Result<&'m MarketplaceEntry, Failure> {
    let content = &market.content;
    content.find(&id.plugin).ok_or_else(|| {
        let left_out = content.faults.iter().find(|(name, _)| *name == id.plugin);
        if let Some((_, fault)) = left_out {
            let message = format!("`{id}` cannot be installed");
            return Failure::new(Exit::Configuration, &message).caused_by(fault.clone());
        }
        let message = format!("the marketplace `{}` has no plugin `{}`", market.name, id.plugin);
        let names = content.plugins.iter().map(|it| it.name.as_str());
        let failure = Failure::new(Exit::NotFound, &message);
        match nearest(&id.plugin, names) {
            Some(near) => failure.hint(&format!("did you mean `{near}`?")),
            None => failure.hint("swb plugin list --available"),
        }
    })
}

/// A plugin whose files are at their place.
pub(super) struct PreparedPlugin {
    /// Its folder.
    pub(super) root: PathBuf,
    pub(super) version: String,
    pub(super) manifest: PluginManifest,
    pub(super) user_config: UserConfig,
    pub(super) bundles: BTreeMap<String, BundleHash>,
}

/// A plugin whose files were fetched and checked. Nothing of it is at its place yet.
pub(super) struct FetchedPlugin {
    version: String,
    manifest: PluginManifest,
    pub(super) user_config: UserConfig,
    bundle_files: BTreeMap<String, BundleFile>,
    files: PluginFiles,
}

/// Where the files of a plugin are before it is installed.
enum PluginFiles {
    /// In the folder of a marketplace, where they stay.
    InPlace(PathBuf),
    /// In a draft.
    Fetched(FetchedFiles),
    /// In a draft of the caller.
    Copied(PathBuf),
}

/// The file of a bundle.
enum BundleFile {
    Plugin(PathBuf),
    Downloaded(DownloadedFile),
}

impl FetchedPlugin {
    /// Installs the bundles of the plugin, and then puts its files at their place.
    pub(super) fn publish(
        self,
        id: &PluginId,
        invocation: &Invocation,
    ) -> Result<PreparedPlugin, Failure> {
        let FetchedPlugin { version, manifest, user_config, bundle_files, files } = self;
        let mut bundles = BTreeMap::new();
        for (name, file) in bundle_files {
            let path = match &file {
                BundleFile::Plugin(path) => path,
                BundleFile::Downloaded(file) => file.file.path(),
            };
            bundles.insert(name, install_bundle(path, invocation)?);
        }
        let root = match &files {
            PluginFiles::InPlace(root) => root.clone(),
            PluginFiles::Fetched(FetchedFiles { root, .. }) | PluginFiles::Copied(root) => {
                publish(id, &version, root, invocation)?
            }
        };
        Ok(PreparedPlugin { root, version, manifest, user_config, bundles })
    }
}

/// Fetches a plugin and checks it.
pub(super) fn fetch(
    id: &PluginId,
    market: &OpenMarketplace,
    entry: &MarketplaceEntry,
    invocation: &Invocation,
) -> Result<FetchedPlugin, Failure> {
    let trust = SourceTrust { marketplace: &market.known.source, location: &market.known.location };
    let fetcher = fetching::fetcher(invocation, Some(entry))?;
    let (files, found) = match (&entry.source, market.known.source.directory()) {
        (PluginSource::Relative(path), Some(directory)) => {
            let root = path.below(directory);
            expect_inside(&root, directory)?;
            (PluginFiles::InPlace(root), None)
        }
        _ => {
            let fetched = fetching::wait_for(fetcher.plugin(&entry.source, trust))?;
            let found = fetched.version.clone();
            (PluginFiles::Fetched(fetched), found)
        }
    };
    let (PluginFiles::InPlace(root)
    | PluginFiles::Fetched(FetchedFiles { root, .. })
    | PluginFiles::Copied(root)) = &files;
    let checked = check(id, entry, root, invocation)?;
    let mut bundle_files = checked.bundle_files;
    for url in checked.bundle_urls {
        let file = fetching::wait_for(fetcher.file(&url, trust))?;
        bundle_files.insert(url, BundleFile::Downloaded(file));
    }
    let version = version_of(&checked.manifest, entry).or(found);
    let version = version.unwrap_or_else(|| UNVERSIONED.to_owned());
    let user_config = options_of(&checked.manifest, entry);
    Ok(FetchedPlugin { version, manifest: checked.manifest, user_config, bundle_files, files })
}

/// Checks the files of a plugin that were copied from elsewhere, and puts them at their place.
pub(super) fn prepare_copied(
    id: &PluginId,
    entry: &MarketplaceEntry,
    files: &Path,
    invocation: &Invocation,
) -> Result<PreparedPlugin, Failure> {
    let CheckedPlugin { manifest, bundle_files, .. } = check(id, entry, files, invocation)?;
    let version = version_of(&manifest, entry).unwrap_or_else(|| UNVERSIONED.to_owned());
    let user_config = options_of(&manifest, entry);
    let files = PluginFiles::Copied(files.to_owned());
    FetchedPlugin { version, manifest, user_config, bundle_files, files }.publish(id, invocation)
}

fn version_of(manifest: &PluginManifest, entry: &MarketplaceEntry) -> Option<String> {
    manifest.version.clone().or_else(|| entry.about.version.clone())
}

fn options_of(manifest: &PluginManifest, entry: &MarketplaceEntry) -> UserConfig {
    match manifest.user_config.is_empty() {
        true => entry.about.user_config.clone(),
        false => manifest.user_config.clone(),
    }
}

/// A plugin whose files are as its manifest says.
struct CheckedPlugin {
    manifest: PluginManifest,
    bundle_files: BTreeMap<String, BundleFile>,
    bundle_urls: Vec<String>,
}

/// Checks the manifest and the files that it names.
fn check(
    id: &PluginId,
    entry: &MarketplaceEntry,
    root: &Path,
    invocation: &Invocation,
) -> Result<CheckedPlugin, Failure> {
    let refused = |problem: &PluginProblem| {
        let problem = printable(&problem.to_string());
        Failure::new(Exit::Configuration, "nothing was installed")
            .detail(format!("  {}: {problem}\n", printable(&id.to_string())))
    };
    let text = read_manifest(root).map_err(|it| refused(&it))?;
    let manifest = match text {
        None => PluginManifest::default(),
        Some(text) => PluginManifest::parse(&text.text)
            .map_err(|error| refused(&PluginProblem::Manifest(error)))?,
    };
    if entry.strictness == Strictness::OnlyEntry && manifest.has_components() {
        return Err(refused(&PluginProblem::Contradiction));
    }
    let mut bundle_files = BTreeMap::new();
    let mut bundle_urls = Vec::new();
    for servers in manifest.servers.iter().chain(&entry.about.servers) {
        match servers {
            McpServers::Inline(_) => {}
            McpServers::File(path) => {
                let found = read_inside(root, path).map_err(|it| refused(&it))?;
                let missing = || refused(&PluginProblem::NoFile { path: path.to_string() });
                found.ok_or_else(missing)?;
            }
            McpServers::Bundle(path) => {
                let file = path.below(root);
                expect_inside(&file, root)?;
                let bundles = bundle_source::store(invocation, None)?;
                let inspected = bundles.inspect(&file).map_err(bundle_source::failure)?;
                if let SignatureState::Broken(source) = inspected.signature {
                    let broken = BundleError::BrokenSignature { path: file, source };
                    return Err(bundle_source::failure(broken));
                }
                bundle_files.insert(path.to_string(), BundleFile::Plugin(file));
            }
            McpServers::BundleUrl(url) => bundle_urls.push(url.clone()),
        }
    }
    Ok(CheckedPlugin { manifest, bundle_files, bundle_urls })
}

fn publish(
    id: &PluginId,
    version: &str,
    files: &Path,
    invocation: &Invocation,
) -> Result<PathBuf, Failure> {
    let store = files::store(invocation);
    let target = store.plugin(id, version);
    store.publish(files, &target).map_err(fetching::failure)?;
    Ok(target)
}

/// Fails where a path leads out of a folder through a link, or does not exist.
fn expect_inside(path: &Path, folder: &Path) -> Result<(), Failure> {
    let shown = printable(&path.strip_prefix(folder).unwrap_or(path).to_string_lossy());
    let refused = |why: &str| {
        Failure::new(Exit::Configuration, "nothing was installed")
            .detail(format!("  `./{shown}` {why}\n"))
    };
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(real), Ok(folder)) if real.starts_with(&folder) => Ok(()),
        (Ok(_), Ok(_)) => Err(refused("is a link that leads out")),
        (Err(_), _) | (_, Err(_)) => Err(refused("does not exist")),
    }
}

fn install_bundle(file: &Path, invocation: &Invocation) -> Result<BundleHash, Failure> {
    let store = bundle_source::store(invocation, None)?;
    Ok(store.install(file).map_err(bundle_source::failure)?.hash)
}

/// Notes that a plugin is installed. All its installations have the same version.
pub(super) fn record(
    id: &PluginId,
    scope: WritableScope,
    entry: &MarketplaceEntry,
    prepared: &PreparedPlugin,
    invocation: &Invocation,
) -> Result<(), Failure> {
    record_in(id, files::install_scope(invocation, scope), entry, prepared, invocation)
}

fn record_in(
    id: &PluginId,
    scope: InstallScope,
    entry: &MarketplaceEntry,
    prepared: &PreparedPlugin,
    invocation: &Invocation,
) -> Result<(), Failure> {
    let now = files::now();
    let record = InstallRecord {
        scope: scope.clone(),
        path: prepared.root.clone(),
        version: prepared.version.clone(),
        installed_at: now.clone(),
        last_updated: now.clone(),
        entry: entry.raw.clone(),
        bundles: prepared.bundles.clone(),
    };
    files::change_installed(invocation, |installed| {
        let records = installed.0.entry(id.clone()).or_default();
        if !records.iter().any(|it| it.scope == scope) {
            records.push(record.clone());
        }
        for it in records.iter_mut() {
            it.path.clone_from(&record.path);
            it.version.clone_from(&record.version);
            it.last_updated.clone_from(&now);
            it.entry = record.entry.clone();
            it.bundles.clone_from(&record.bundles);
        }
    })
}

/// Gives all installations of a plugin the version that was prepared.
pub(super) fn record_version(
    id: &PluginId,
    first: &InstallRecord,
    entry: &MarketplaceEntry,
    prepared: &PreparedPlugin,
    invocation: &Invocation,
) -> Result<(), Failure> {
    let scope = first.scope.clone();
    record_in(id, scope, entry, prepared, invocation)
}

/// Whether settings switch a plugin on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SwitchValue {
    On,
    Off,
}

/// Writes `enabledPlugins` of a scope.
pub(super) fn set_switch(
    id: &PluginId,
    scope: WritableScope,
    value: SwitchValue,
    invocation: &Invocation,
) -> Result<PathBuf, Failure> {
    let path = invocation.scope_file(scope);
    let edit = Edit::SetMember {
        path: vec!["enabledPlugins".to_owned()],
        key: id.to_string(),
        value: Json::Bool(value == SwitchValue::On),
    };
    file::edit_file(invocation, scope, &path, &[edit])?;
    Ok(path)
}

/// Deletes versions that no installation uses, apart from the last one: its servers may still run.
pub(super) fn prune(id: &PluginId, invocation: &Invocation) -> Result<(), Failure> {
    let state = files::state(invocation)?;
    let used: Vec<&PathBuf> =
        state.installed.0.get(id).into_iter().flatten().map(|it| &it.path).collect();
    let store = files::store(invocation);
    let folder = store.versions(id);
    let mut unused: Vec<(std::time::SystemTime, PathBuf)> = folder
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
        .filter(|it| !used.contains(&&it.path()))
        .filter_map(|it| Some((it.metadata().ok()?.modified().ok()?, it.path())))
        .collect();
    unused.sort();
    unused.pop();
    for (_, path) in unused {
        store.remove(&path).map_err(fetching::failure)?;
    }
    Ok(())
}

fn report(
    id: &PluginId,
    scope: WritableScope,
    prepared: &PreparedPlugin,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    let servers = approval::servers(id, &configuration);
    if invocation.wants_json() {
        return Ok(json_output(&json!({
            "installed": id.to_string(),
            "version": prepared.version,
            "scope": scope.scope().id(),
            "root": prepared.root.to_string_lossy(),
            "servers": list::servers_json(&servers),
        })));
    }
    let mut text = format!(
        "Installed {} {} for {}\n",
        printable(&id.to_string()),
        printable(&prepared.version),
        match scope {
            WritableScope::User => "you, in every project",
            WritableScope::Local => "you, in this project",
            WritableScope::Project => "everyone in this project",
        }
    );
    text.push_str(&approval::servers_text(&servers, invocation));
    if servers.is_empty() {
        text.push_str("  It has no MCP servers.\n");
    }
    let mut notes = approval::pending_note(id, &configuration);
    if !prepared.manifest.other_components.is_empty() {
        notes.push_str(&format!(
            "note: not used here: its {}\n",
            prepared.manifest.other_components.join(", ")
        ));
    }
    Ok(CommandOutput::text(text).note(notes).note(list::inactive_note(
        id,
        &configuration,
        invocation,
    )))
}
