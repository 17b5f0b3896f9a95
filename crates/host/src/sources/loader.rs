//! Finds and reads every configuration source and passes them to the merge. Only reads files: starts no process,
//! resolves no host name, opens no connection.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use switchboard_config::approvals::Approvals;
use switchboard_config::channel::ChannelPolicy;
use switchboard_config::file::OptionValues;
use switchboard_config::file::layer::{FileShape, Layer, Naming};
use switchboard_config::merge;
use switchboard_config::merge::{
    EffectiveConfig, MergeInputs, ScopeFilter, SdkEntries, ServerState,
};
use switchboard_config::permission::{PermissionRules, RulePaths};
use switchboard_config::plugin::{
    MarketplacePolicy, OfferedMarketplace, PluginSettings, SwitchAuthority,
};
use switchboard_config::policy::{Authority, Policy};
use switchboard_config::problem::{Problem, ProblemKind, ReadFailure};
use switchboard_config::program::ProgramFinder;
use switchboard_config::scope::Scope;
use switchboard_config::settings::audit::AuditSettings;
use switchboard_config::settings::browser::BrowserSection;
use switchboard_config::settings::connector_account::ConnectorAccount;
use switchboard_config::settings::gateway_limits::GatewayLimits;
use switchboard_config::settings::hooks::ElicitationHook;
use switchboard_config::settings::identity_provider::IdentityProvider;
use switchboard_config::settings::login_defaults::LoginDefaults;
use switchboard_config::settings::model::ModelSettings;
use switchboard_config::settings::plugins;
use switchboard_config::settings::principals::Principals;
use switchboard_config::settings::quotas::CallQuota;
use switchboard_config::settings::registry::RegistrySettings;
use switchboard_config::settings::session_ingress::SessionIngress;
use switchboard_config::settings::sharing::SharingSettings;
use switchboard_config::settings::{DisabledServer, Settings, Theme};
use switchboard_config::source::{Origin, Source};
use switchboard_config::template::Environment;

use crate::sources::bundles::InstalledBundles;
use crate::sources::connector_cache;
use crate::sources::connector_cache::AccountSummary;
use crate::sources::paths::{PROJECT_FILE, Paths, project_root};
use crate::sources::plugins::{InactivePlugin, LoadedPlugin, PluginReader, SessionPlugin};
use crate::sources::program_finder::InstalledPrograms;
pub use crate::sources::setting_sources::{SettingSources, SourceUse};
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// The settings of the application that plugins were made for, in a project. Of these, only what they say about plugins is
/// read.
pub const FOREIGN_PLUGIN_SETTINGS: [&str; 2] =
    [".claude/settings.local.json", ".claude/settings.json"];

/// Inputs of a load besides the files.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The folders of Switchboard's own files.
    pub paths: Paths,
    /// The user's working folder, absolute and without symbolic links.
    pub working_folder: PathBuf,
    /// The variables that entries may reference.
    pub environment: Environment,
    /// Values of `--mcp-config` in the order given; the last one wins.
    pub dynamic: Vec<DynamicConfig>,
    /// The value of `--settings`.
    pub settings: Option<DynamicConfig>,
    /// Permission rules of the command line.
    pub rules: PermissionRules,
    /// Which settings are loaded.
    pub setting_sources: SettingSources,
    /// Whether `--strict-mcp-config` limits the scopes.
    pub scope_filter: ScopeFilter,
    /// Which entries of type `sdk` count beside a managed server file.
    pub sdk_entries: SdkEntries,
    /// Whether the connectors of an account are used.
    pub connectors: ConnectorUse,
    /// The plugins of `--plugin-dir`.
    pub plugins: Vec<SessionPlugin>,
    /// Layers of the embedding program: connectors, plugins from other places, its own servers.
    pub embedded: Vec<Layer>,
    /// A layer that is used only if no server is configured, no source has a problem and no policy forbids it.
    pub fallback: Option<Layer>,
}

impl LoadOptions {
    /// The folders that paths in permission rules begin at.
    fn rule_paths(&self) -> RulePaths {
        let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        RulePaths {
            folder: self.working_folder.clone(),
            home: self.environment.get(home).map(PathBuf::from),
        }
    }

    /// The user's home folder.
    fn home(&self) -> PathBuf {
        let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        self.environment.get(home).map(PathBuf::from).unwrap_or_default()
    }

    /// Finds the programs of commands, as their processes will.
    pub fn programs(&self) -> Arc<dyn ProgramFinder> {
        let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        Arc::new(InstalledPrograms {
            working_folder: self.working_folder.clone(),
            home: self.environment.get(home).map(PathBuf::from),
        })
    }
}

/// Whether the connectors of an account are used. Settings can disable them as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ConnectorUse {
    /// They are, unless settings disable them.
    #[default]
    Allowed,
    /// They are not, because of this variable of the environment.
    DisabledBy(String),
}

/// One value of `--mcp-config` or `--settings`. `Debug` hides inline JSON, which may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub enum DynamicConfig {
    /// A file.
    File(PathBuf),
    /// The JSON itself.
    Inline(String),
}

impl fmt::Debug for DynamicConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DynamicConfig::File(path) => write!(f, "File({})", path.display()),
            DynamicConfig::Inline(_) => f.write_str("Inline(…)"),
        }
    }
}

/// The effective configuration and every source it was read from.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// The resolved servers and the problems.
    pub effective: EffectiveConfig,
    /// The inspected sources, in the order of scopes.
    pub sources: Vec<InspectedSource>,
    /// The folder that local settings are keyed by.
    pub project_root: PathBuf,
    /// The applied policy.
    pub policy: Policy,
    /// Servers disabled in settings.
    pub disabled: Vec<DisabledServer>,
    /// Permission rules for tools.
    pub rules: PermissionRules,
    /// Additional rules for clients of a gateway.
    pub principals: Principals,
    /// Commands that answer elicitations, the administrator's first.
    pub hooks: Vec<ElicitationHook>,
    /// The identity provider; an administrator's setting takes precedence.
    pub identity_provider: Option<IdentityProvider>,
    /// Defaults for logins at every server.
    pub login_defaults: LoginDefaults,
    /// The account whose connectors are used; an administrator's setting takes precedence.
    pub account: Option<ConnectorAccount>,
    /// Where servers are looked for; an administrator's setting takes precedence.
    pub registry: Option<RegistrySettings>,
    /// What is known about the account and its connectors.
    pub connectors: Option<AccountSummary>,
    /// The origin that gets the token of this session; an administrator's setting takes precedence.
    pub session_ingress: Option<SessionIngress>,
    /// The language model; an administrator's setting takes precedence.
    pub model: Option<ModelSettings>,
    /// How the audit log is kept; an administrator's settings take precedence.
    pub audit: AuditSettings,
    /// How much of a gateway clients may use; an administrator's settings take precedence.
    pub gateway_limits: GatewayLimits,
    /// How many tools the clients of a gateway may call, of all files.
    pub quotas: Vec<CallQuota>,
    /// How servers are shared with other sessions; an administrator's settings take precedence.
    pub sharing: SharingSettings,
    /// How the browser server works.
    pub browser: BrowserSection,
    /// The colour theme of the terminal UI.
    pub theme: Option<Theme>,
    /// Whether conversations connect an IDE by themselves.
    pub auto_connect_ide: Option<bool>,
    /// What settings say about channels.
    pub channels: ChannelPolicy,
    /// The plugins whose servers are part of it.
    pub plugins: Vec<LoadedPlugin>,
    /// The plugins that are named somewhere, and do not count.
    pub inactive_plugins: Vec<InactivePlugin>,
    /// The marketplaces that settings offer.
    pub offered_marketplaces: Vec<OfferedMarketplace>,
    /// Which marketplaces an administrator allows.
    pub marketplace_policy: MarketplacePolicy,
    /// Files besides the sources that it depends on.
    pub files: Vec<PathBuf>,
}

/// A source that the loader looked at.
#[derive(Debug, Clone)]
pub struct InspectedSource {
    /// The source.
    pub source: Arc<Source>,
    /// Its content.
    pub content: SourceContent,
}

/// The content of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceContent {
    /// The file does not exist.
    Nothing,
    /// The number of servers.
    Servers(usize),
    /// The file could not be read or parsed.
    Failure,
}

/// The last valid text of each file, used when a file is read again. A broken file, for example one in the middle of
/// an edit, keeps its last valid meaning. An administrator's file does not, because its restrictions would be
/// unknown.
#[derive(Clone, Default)]
pub struct LastValidTexts(BTreeMap<PathBuf, String>);

/// Hides the texts, which may hold secrets.
impl fmt::Debug for LastValidTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LastValidTexts({} files)", self.0.len())
    }
}

impl LastValidTexts {
    /// The last valid text if the file is broken now. Otherwise stores the current text and returns `None`.
    fn fallback_text(
        &mut self,
        source: &Source,
        text: Option<String>,
        found: &[Problem],
    ) -> Option<String> {
        let path = source.path().filter(|_| source.scope != Scope::Enterprise)?;
        let is_file_broken = |problem: &Problem| {
            matches!(problem.kind, ProblemKind::Syntax(_) | ProblemKind::Unreadable(_))
        };
        match text.filter(|_| !found.iter().any(is_file_broken)) {
            Some(text) => {
                self.0.insert(path.to_owned(), text);
                None
            }
            None => self.0.get(path).cloned(),
        }
    }
}

/// Reads all sources and resolves every server.
pub fn load(options: &LoadOptions) -> Configuration {
    reload(options, &mut LastValidTexts::default())
}

/// Like [`load`], with last valid texts for files that are broken now.
pub fn reload(options: &LoadOptions, last_valid: &mut LastValidTexts) -> Configuration {
    let root = project_root(&options.working_folder);
    let mut reader = SourceReader {
        last_valid,
        paths: &options.paths,
        sources: Vec::new(),
        problems: Vec::new(),
        rules: options.rules.clone(),
        principals: Principals::default(),
        hooks: Vec::new(),
        identity_provider: None,
        login_defaults: LoginDefaults::default(),
        account: None,
        registry: None,
        connectors_disabled: None,
        session_ingress: None,
        model: None,
        audit: AuditSettings::default(),
        gateway_limits: GatewayLimits::default(),
        quotas: Vec::new(),
        sharing: SharingSettings::default(),
        browser: BrowserSection::default(),
        theme: None,
        auto_connect_ide: None,
        channels: ChannelPolicy::default(),
        plugins: Vec::new(),
        inactive_plugins: Vec::new(),
        offered_marketplaces: Vec::new(),
        marketplace_policy: MarketplacePolicy::default(),
        plugin_settings: Vec::new(),
        files: Vec::new(),
    };
    let mut inputs = MergeInputs {
        environment: options.environment.clone(),
        programs: Some(options.programs()),
        project_root: Some(root.clone()),
        scope_filter: options.scope_filter,
        sdk_entries: options.sdk_entries,
        ..MergeInputs::default()
    };
    reader.managed(&mut inputs);
    for (index, config) in options.dynamic.iter().enumerate().rev() {
        inputs.layers.push(reader.dynamic(index, config));
    }
    if let Some(settings) = &options.settings {
        reader.dynamic_settings(settings, &options.rule_paths(), &mut inputs);
    }
    if options.setting_sources.project.is_loaded() {
        reader.project_plugins(&root);
        reader.projects(&options.working_folder, &root, &mut inputs);
    }
    if options.setting_sources.local.is_loaded() {
        let local = options.paths.local_settings(&root);
        reader.settings(Scope::Local, &local, &mut inputs);
        reader.ancestor_restrictions(&options.working_folder, &root, &mut inputs);
    }
    if options.setting_sources.user.is_loaded() {
        reader.settings(Scope::User, &options.paths.user_settings(), &mut inputs);
    }
    let bundles = InstalledBundles::new(&options.paths, &options.environment);
    reader.plugins(options, &root, &bundles, &mut inputs);
    for layer in &options.embedded {
        reader.record_source(&layer.source, SourceContent::Servers(layer.definitions.len()));
        inputs.layers.push(layer.clone());
    }
    let connectors = reader.connectors(options, &mut inputs);
    inputs.layers.iter_mut().for_each(|layer| bundles.expand(layer));
    inputs.approvals = reader.approvals();
    let (policy, disabled) = (inputs.policy.clone(), inputs.disabled.clone());
    let fallback = options
        .fallback
        .as_ref()
        .filter(|_| options.dynamic.is_empty() && options.scope_filter == ScopeFilter::All);
    let fallback = fallback.and_then(|layer| fallback_configuration(&inputs, layer));
    let mut effective = merge::resolve(inputs);
    effective.problems.extend(std::mem::take(&mut reader.problems));
    if let (Some((layer, fallback)), true) = (fallback, is_empty(&effective)) {
        reader.record_source(&layer.source, SourceContent::Servers(layer.definitions.len()));
        effective = fallback;
    }
    let rules = reader.rules.merge(effective.entry_rules()).merge(connectors.rules);
    Configuration {
        effective,
        sources: reader.sources,
        project_root: root,
        policy,
        disabled,
        rules,
        principals: reader.principals,
        hooks: reader.hooks,
        identity_provider: reader.identity_provider,
        login_defaults: reader.login_defaults,
        account: reader.account,
        registry: reader.registry,
        connectors: connectors.summary,
        session_ingress: reader.session_ingress,
        model: reader.model,
        audit: reader.audit,
        gateway_limits: reader.gateway_limits,
        quotas: reader.quotas,
        sharing: reader.sharing,
        browser: reader.browser,
        theme: reader.theme,
        auto_connect_ide: reader.auto_connect_ide,
        channels: reader.channels,
        plugins: reader.plugins,
        inactive_plugins: reader.inactive_plugins,
        offered_marketplaces: reader.offered_marketplaces,
        marketplace_policy: reader.marketplace_policy,
        files: reader.files,
    }
}

/// The configuration with the fallback layer, if no other layer has servers and no policy refuses the layer's own.
fn fallback_configuration<'l>(
    inputs: &MergeInputs,
    layer: &'l Layer,
) -> Option<(&'l Layer, EffectiveConfig)> {
    if inputs.layers.iter().any(|it| !it.definitions.is_empty()) {
        return None;
    }
    let mut inputs = inputs.clone();
    inputs.layers.insert(0, layer.clone());
    let effective = merge::resolve(inputs);
    let is_refused =
        |server: &merge::ResolvedServer| matches!(server.state, ServerState::Refused(_));
    (!effective.servers.iter().any(is_refused)).then_some((layer, effective))
}

fn is_empty(effective: &EffectiveConfig) -> bool {
    effective.servers.is_empty()
        && effective.problems.is_empty()
        && effective.exclusive_source.is_none()
}

/// Resolves servers that an embedding program defines in the format of a configuration file.
pub fn from_program(program: &str, text: &str) -> EffectiveConfig {
    from_program_with_env(program, text, Environment::default())
}

/// Resolves servers that an embedding program defines, and expands their variables.
pub fn from_program_with_env(
    program: &str,
    text: &str,
    environment: Environment,
) -> EffectiveConfig {
    let source = Source::program(Scope::Dynamic, program);
    let layer = Layer::read(&source, text, Naming::Plain, FileShape::Wrapped);
    merge::resolve(MergeInputs { layers: vec![layer], environment, ..MergeInputs::default() })
}

/// What an account adds to the configuration besides its servers.
#[derive(Default)]
struct AccountConnectors {
    summary: Option<AccountSummary>,
    rules: PermissionRules,
}

struct SourceReader<'a> {
    last_valid: &'a mut LastValidTexts,
    paths: &'a Paths,
    sources: Vec<InspectedSource>,
    problems: Vec<Problem>,
    rules: PermissionRules,
    principals: Principals,
    hooks: Vec<ElicitationHook>,
    identity_provider: Option<IdentityProvider>,
    login_defaults: LoginDefaults,
    account: Option<ConnectorAccount>,
    registry: Option<RegistrySettings>,
    connectors_disabled: Option<Origin>,
    session_ingress: Option<SessionIngress>,
    model: Option<ModelSettings>,
    audit: AuditSettings,
    gateway_limits: GatewayLimits,
    quotas: Vec<CallQuota>,
    sharing: SharingSettings,
    browser: BrowserSection,
    theme: Option<Theme>,
    auto_connect_ide: Option<bool>,
    channels: ChannelPolicy,
    plugins: Vec<LoadedPlugin>,
    inactive_plugins: Vec<InactivePlugin>,
    offered_marketplaces: Vec<OfferedMarketplace>,
    marketplace_policy: MarketplacePolicy,
    plugin_settings: Vec<(Scope, PluginSettings<OptionValues>)>,
    files: Vec<PathBuf>,
}

impl SourceReader<'_> {
    fn record_source(&mut self, source: &Arc<Source>, found: SourceContent) {
        self.sources.push(InspectedSource { source: source.clone(), content: found });
    }

    /// Reads a source's text; records the source and returns `None` if the file does not exist.
    fn read(
        &mut self,
        source: &Arc<Source>,
        allowed: AllowedFiles,
    ) -> Option<Result<String, ReadFailure>> {
        let path = source.path()?;
        match text_file::read_text(path, allowed) {
            Ok(FileContent::Absent) => {
                self.record_source(source, SourceContent::Nothing);
                None
            }
            Ok(FileContent::Text(text)) => Some(Ok(text)),
            Err(why) => Some(Err(why)),
        }
    }

    fn record_layer(&mut self, layer: &Layer) {
        let failed = layer.definitions.is_empty() && !layer.problems.is_empty();
        let found = if failed {
            SourceContent::Failure
        } else {
            SourceContent::Servers(layer.definitions.len())
        };
        self.record_source(&layer.source, found);
    }

    fn layer(
        &mut self,
        source: &Arc<Source>,
        naming: Naming<'_>,
        shape: FileShape,
    ) -> Option<Layer> {
        let allowed = match source.scope {
            Scope::Dynamic => AllowedFiles::PipesToo,
            Scope::Enterprise
            | Scope::Connectors
            | Scope::Project
            | Scope::Local
            | Scope::User
            | Scope::Plugin => AllowedFiles::RegularOnly,
        };
        let (mut layer, text) = match self.read(source, allowed)? {
            Ok(text) => (Layer::read(source, &text, naming, shape), Some(text)),
            Err(why) => (Layer::failed(source, ProblemKind::Unreadable(why)), None),
        };
        if let Some(before) = self.last_valid.fallback_text(source, text, &layer.problems) {
            let found = std::mem::take(&mut layer.problems);
            layer = Layer::read(source, &before, naming, shape);
            layer.problems.extend(found);
        }
        self.record_layer(&layer);
        Some(layer)
    }

    /// Reads the administrator's files. If the server file exists, even unreadable, all other sources are ignored.
    fn managed(&mut self, inputs: &mut MergeInputs) {
        let servers = Source::file(Scope::Enterprise, self.paths.managed_servers());
        let folder = &self.paths.managed;
        if folder.symlink_metadata().is_ok() && !folder.is_dir() {
            let kind = ProblemKind::Unreadable(ReadFailure::NotADirectory);
            let layer = Layer::failed(&Source::file(Scope::Enterprise, folder), kind);
            self.record_layer(&layer);
            inputs.exclusive_source = Some(layer.source.clone());
            inputs.layers.push(layer);
            self.audit = std::mem::take(&mut self.audit).managed();
            return;
        }
        if let Some(layer) = self.layer(&servers, Naming::Plain, FileShape::Wrapped) {
            inputs.exclusive_source = Some(servers);
            inputs.layers.push(layer);
            self.audit = std::mem::take(&mut self.audit).managed();
        }
        let source = Source::file(Scope::Enterprise, self.paths.managed_settings());
        let settings = match self.read(&source, AllowedFiles::RegularOnly) {
            None => return,
            Some(Ok(text)) => Settings::read(&source, &text, Authority::Administrator),
            Some(Err(why)) => {
                let kind = ProblemKind::Unreadable(why);
                Settings::failed(&source, kind)
            }
        };
        self.audit = AuditSettings::default();
        self.merge_settings(settings, inputs);
        self.audit = std::mem::take(&mut self.audit).managed();
    }

    fn settings(&mut self, scope: Scope, path: &Path, inputs: &mut MergeInputs) {
        let source = Source::file(scope, path);
        let read = |text: &str| Settings::read(&source, text, Authority::User);
        let failed = |why| Settings::failed(&source, ProblemKind::Unreadable(why));
        if let Some(settings) = self.read_settings(&source, read, failed) {
            self.merge_settings(settings, inputs);
        }
    }

    /// Settings from a file, or from its last valid text if it is broken.
    fn read_settings(
        &mut self,
        source: &Arc<Source>,
        read: impl Fn(&str) -> Settings,
        failed: impl Fn(ReadFailure) -> Settings,
    ) -> Option<Settings> {
        let (mut settings, text) = match self.read(source, AllowedFiles::RegularOnly)? {
            Ok(text) => (read(&text), Some(text)),
            Err(why) => (failed(why), None),
        };
        if let Some(before) = self.last_valid.fallback_text(source, text, &settings.layer.problems)
        {
            let found = std::mem::take(&mut settings.layer.problems);
            settings = read(&before);
            settings.layer.problems.extend(found);
        }
        Some(settings)
    }

    /// Reads the local settings of folders around the root. Their servers belong to another project, but the
    /// restrictions that the user set there hold: a `.git` inside a tree must not lift them.
    fn ancestor_restrictions(&mut self, folder: &Path, root: &Path, inputs: &mut MergeInputs) {
        for folder in folder.ancestors().filter(|folder| *folder != root) {
            let path = self.paths.local_settings(folder);
            if path.symlink_metadata().is_ok() {
                let before = inputs.layers.len();
                let rules = std::mem::take(&mut self.rules);
                let (hooks, identity_provider) = (self.hooks.len(), self.identity_provider.clone());
                let (account, model, audit) =
                    (self.account.clone(), self.model.clone(), self.audit.clone());
                let registry = self.registry.clone();
                let session_ingress = self.session_ingress.clone();
                let gateway_limits = self.gateway_limits;
                let quotas = self.quotas.len();
                let sharing = self.sharing.clone();
                let channels = self.channels.clone();
                let browser = self.browser.clone();
                let login_defaults = self.login_defaults.clone();
                let principals = std::mem::take(&mut self.principals);
                let plugin_settings = self.plugin_settings.len();
                self.settings(Scope::Local, &path, inputs);
                // Hooks, accounts and plugins of another project do not apply here.
                self.plugin_settings.truncate(plugin_settings);
                self.hooks.truncate(hooks);
                self.identity_provider = identity_provider;
                self.login_defaults = login_defaults;
                self.account = account;
                self.registry = registry;
                self.session_ingress = session_ingress;
                self.model = model;
                self.audit = audit;
                self.gateway_limits = gateway_limits;
                self.quotas.truncate(quotas);
                self.sharing = sharing;
                self.channels = channels;
                self.browser = browser;
                let outer = std::mem::take(&mut self.rules).restrictions();
                self.rules = rules.merge(outer);
                let outer = std::mem::take(&mut self.principals).restrictions();
                self.principals = principals.merge(outer);
                for layer in &mut inputs.layers[before..] {
                    layer.definitions.clear();
                }
            }
        }
    }

    fn merge_settings(&mut self, settings: Settings, inputs: &mut MergeInputs) {
        self.record_layer(&settings.layer);
        self.plugin_settings.push((settings.layer.source.scope, settings.plugins));
        self.rules = std::mem::take(&mut self.rules).merge(settings.permissions);
        self.principals = std::mem::take(&mut self.principals).merge(settings.principals);
        inputs.policy = std::mem::take(&mut inputs.policy).merge(settings.policy);
        self.hooks.extend(settings.hooks);
        if self.identity_provider.is_none() {
            self.identity_provider = settings.identity_provider;
        }
        self.login_defaults =
            std::mem::take(&mut self.login_defaults).merge(settings.login_defaults);
        if self.account.is_none() {
            self.account = settings.connector_account;
        }
        if self.registry.is_none() {
            self.registry = settings.registry;
        }
        if self.connectors_disabled.is_none() {
            self.connectors_disabled = settings.connectors_disabled;
        }
        if self.session_ingress.is_none() {
            self.session_ingress = settings.session_ingress;
        }
        self.theme = self.theme.or(settings.theme);
        self.auto_connect_ide = self.auto_connect_ide.or(settings.auto_connect_ide);
        self.channels = std::mem::take(&mut self.channels).merge(settings.channels);
        if self.model.is_none() {
            self.model = settings.model;
        }
        self.audit = std::mem::take(&mut self.audit).merge(settings.audit);
        self.gateway_limits = self.gateway_limits.merge(settings.gateway_limits);
        self.quotas.extend(settings.quotas);
        self.sharing = std::mem::take(&mut self.sharing).merge(settings.sharing);
        self.browser = std::mem::take(&mut self.browser).merge(settings.browser);
        inputs.disabled.extend(settings.disabled);
        inputs.layers.push(settings.layer);
    }

    fn dynamic(&mut self, index: usize, config: &DynamicConfig) -> Layer {
        match config {
            DynamicConfig::Inline(text) => {
                let source = Source::inline(index + 1);
                let layer = Layer::read(&source, text, Naming::Plain, FileShape::Wrapped);
                self.record_layer(&layer);
                layer
            }
            DynamicConfig::File(path) => {
                let source = Source::file(Scope::Dynamic, path);
                self.layer(&source, Naming::Plain, FileShape::Wrapped).unwrap_or_else(|| {
                    Layer::failed(&source, ProblemKind::Unreadable(ReadFailure::NotFound))
                })
            }
        }
    }

    /// Reads the value of `--settings`.
    fn dynamic_settings(
        &mut self,
        config: &DynamicConfig,
        paths: &RulePaths,
        inputs: &mut MergeInputs,
    ) {
        let read = |source: &Arc<Source>, text: &str| Settings::read_session(source, text, paths);
        let settings = match config {
            DynamicConfig::Inline(text) => read(&Source::inline_settings(), text),
            DynamicConfig::File(path) => {
                let source = Source::file(Scope::Dynamic, path);
                match self.read(&source, AllowedFiles::PipesToo) {
                    Some(Ok(text)) => read(&source, &text),
                    Some(Err(why)) => Settings::failed(&source, ProblemKind::Unreadable(why)),
                    None => {
                        Settings::failed(&source, ProblemKind::Unreadable(ReadFailure::NotFound))
                    }
                }
            }
        };
        self.merge_settings(settings, inputs);
    }

    /// Reads the servers of the working folder and of every folder above it, nearest first. Rules are read only up to
    /// the project root: users who can write to folders above it have no say here.
    fn projects(&mut self, working_folder: &Path, root: &Path, inputs: &mut MergeInputs) {
        for folder in working_folder.ancestors() {
            let source = Source::file(Scope::Project, folder.join(PROJECT_FILE));
            if !folder.starts_with(root) {
                inputs.layers.extend(self.layer(&source, Naming::Plain, FileShape::Wrapped));
                continue;
            }
            let failed = |why| {
                let layer = Layer::failed(&source, ProblemKind::Unreadable(why));
                let permissions = PermissionRules::unreadable(&source);
                Settings { layer, permissions, ..Settings::empty(&source) }
            };
            let read = |text: &str| Settings::read_project(&source, text);
            let Some(settings) = self.read_settings(&source, read, failed) else { continue };
            self.merge_settings(settings, inputs);
        }
    }

    /// Reads what the project says about plugins in the settings of another application, whose format plugins have.
    fn project_plugins(&mut self, root: &Path) {
        for file in FOREIGN_PLUGIN_SETTINGS {
            let source = Source::file(Scope::Project, root.join(file));
            let Some(path) = source.path() else { continue };
            let found = match text_file::read_text(path, AllowedFiles::RegularOnly) {
                Ok(FileContent::Absent) => {
                    self.files.push(path.to_owned());
                    continue;
                }
                Ok(FileContent::Text(text)) => {
                    plugins::read_foreign(&source, &text, SwitchAuthority::Project)
                }
                Err(why) => {
                    let problem = Problem::for_source(&source, ProblemKind::Unreadable(why));
                    (PluginSettings::default(), vec![problem])
                }
            };
            let (settings, problems) = found;
            self.record_source(&source, SourceContent::Servers(0));
            self.problems.extend(problems);
            self.plugin_settings.push((Scope::Project, settings));
        }
    }

    /// Everything that settings say about plugins, the nearest scope first.
    fn merged_plugin_settings(&mut self) -> PluginSettings<OptionValues> {
        let mut found = std::mem::take(&mut self.plugin_settings);
        found.sort_by_key(|(scope, _)| match scope {
            Scope::Enterprise => 0,
            Scope::Dynamic => 1,
            Scope::Local => 2,
            Scope::Project => 3,
            Scope::User | Scope::Connectors | Scope::Plugin => 4,
        });
        let mut merged = PluginSettings::default();
        for (_, settings) in found {
            merged.merge(settings);
        }
        merged
    }

    /// Adds the servers of plugins.
    fn plugins(
        &mut self,
        options: &LoadOptions,
        root: &Path,
        bundles: &InstalledBundles,
        inputs: &mut MergeInputs,
    ) {
        let settings = self.merged_plugin_settings();
        let home = options.home();
        let mut found = PluginReader {
            paths: self.paths,
            project: root,
            home: &home,
            bundles,
            settings: &settings,
            session: &options.plugins,
            users: options.setting_sources.user,
        }
        .read();
        for layer in &found.layers {
            if !layer.definitions.is_empty() || !layer.problems.is_empty() {
                self.record_layer(layer);
            }
        }
        inputs.layers.append(&mut found.layers);
        self.plugins = found.loaded;
        self.inactive_plugins = found.inactive;
        self.problems.extend(found.problems);
        self.files.extend(found.files);
        self.offered_marketplaces = settings.marketplaces;
        self.marketplace_policy = settings.policy;
    }

    /// Adds the account's connectors as listed last, unless the embedding program brings its own. Where anything disables
    /// connectors, every one of them is disabled.
    fn connectors(&mut self, options: &LoadOptions, inputs: &mut MergeInputs) -> AccountConnectors {
        let mut connectors = AccountConnectors::default();
        let has_own = options.embedded.iter().any(|it| it.source.scope == Scope::Connectors);
        if let Some(account) = self.account.clone().filter(|_| !has_own) {
            let (list, mut summary) = connector_cache::read_account(self.paths, &account);
            if let Some(list) = list {
                connectors.rules = list.organisation_rules();
                let layer = list.layer();
                self.record_layer(&layer);
                inputs.layers.push(layer);
            }
            summary.disabled_by = self.connectors_disabled_by(options);
            connectors.summary = Some(summary);
        }
        if let Some(origin) = self.connectors_disabled_by(options) {
            let layers = inputs.layers.iter().filter(|it| it.source.scope == Scope::Connectors);
            let names = layers.flat_map(|it| &it.definitions).map(|it| it.name.clone());
            let disabled = names.map(|name| DisabledServer { name, origin: origin.clone() });
            inputs.disabled.extend(disabled.collect::<Vec<_>>());
        }
        connectors
    }

    fn connectors_disabled_by(&self, options: &LoadOptions) -> Option<Origin> {
        match &options.connectors {
            ConnectorUse::Allowed => self.connectors_disabled.clone(),
            ConnectorUse::DisabledBy(variable) => {
                let source = Source::program(Scope::Dynamic, variable);
                Some(Origin { source, position: None })
            }
        }
    }

    /// The user's approvals. An unreadable file approves nothing and adds a problem.
    fn approvals(&mut self) -> Approvals {
        let source = Source::file(Scope::User, self.paths.approvals());
        let kind = match text_file::read_text(&self.paths.approvals(), AllowedFiles::RegularOnly) {
            Ok(FileContent::Absent) => return Approvals::default(),
            Ok(FileContent::Text(text)) => match Approvals::parse(&text) {
                Ok(approvals) => return approvals,
                Err(damaged) => ProblemKind::CorruptApprovals(damaged),
            },
            Err(why) => ProblemKind::Unreadable(why),
        };
        self.problems.push(Problem::for_source(&source, kind));
        Approvals::default()
    }
}
