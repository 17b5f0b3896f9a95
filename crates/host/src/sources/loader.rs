//! Finds and reads every configuration source and passes them to the merge. Only reads files: starts no process,
//! resolves no host name, opens no connection.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use switchboard_config::approvals::Approvals;
use switchboard_config::file::layer::{FileShape, Layer, Naming};
use switchboard_config::merge;
use switchboard_config::merge::{EffectiveConfig, MergeInputs, ScopeFilter, ServerState};
use switchboard_config::permission::PermissionRules;
use switchboard_config::policy::{Authority, Policy};
use switchboard_config::problem::{Problem, ProblemKind, ReadFailure};
use switchboard_config::program::ProgramFinder;
use switchboard_config::scope::Scope;
use switchboard_config::settings::audit::AuditSettings;
use switchboard_config::settings::connector_account::ConnectorAccount;
use switchboard_config::settings::gateway_limits::GatewayLimits;
use switchboard_config::settings::hooks::ElicitationHook;
use switchboard_config::settings::identity_provider::IdentityProvider;
use switchboard_config::settings::login_defaults::LoginDefaults;
use switchboard_config::settings::model::ModelSettings;
use switchboard_config::settings::principals::Principals;
use switchboard_config::settings::sharing::SharingSettings;
use switchboard_config::settings::{DisabledServer, Settings, Theme};
use switchboard_config::source::Source;
use switchboard_config::template::Environment;

use crate::sources::connector_cache;
use crate::sources::paths::{PROJECT_FILE, Paths, project_root};
use crate::sources::program_finder::InstalledPrograms;
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

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
    /// Whether `--strict-mcp-config` limits the scopes.
    pub scope_filter: ScopeFilter,
    /// Layers of the embedding program: connectors, plugins from other places, its own servers.
    pub embedded: Vec<Layer>,
    /// A layer that is used only if no server is configured, no source has a problem and no policy forbids it.
    pub fallback: Option<Layer>,
}

impl LoadOptions {
    /// Finds the programs of commands, as their processes will.
    pub fn programs(&self) -> Arc<dyn ProgramFinder> {
        let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        Arc::new(InstalledPrograms {
            working_folder: self.working_folder.clone(),
            home: self.environment.get(home).map(PathBuf::from),
        })
    }
}

/// One `--mcp-config` value. `Debug` hides inline JSON, which may hold secrets.
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
    /// The language model; an administrator's setting takes precedence.
    pub model: Option<ModelSettings>,
    /// How the audit log is kept; an administrator's settings take precedence.
    pub audit: AuditSettings,
    /// How much of a gateway clients may use; an administrator's settings take precedence.
    pub gateway_limits: GatewayLimits,
    /// How servers are shared with other sessions; an administrator's settings take precedence.
    pub sharing: SharingSettings,
    /// The colour theme of the terminal UI.
    pub theme: Option<Theme>,
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
        rules: PermissionRules::default(),
        principals: Principals::default(),
        hooks: Vec::new(),
        identity_provider: None,
        login_defaults: LoginDefaults::default(),
        account: None,
        model: None,
        audit: AuditSettings::default(),
        gateway_limits: GatewayLimits::default(),
        sharing: SharingSettings::default(),
        theme: None,
    };
    let mut inputs = MergeInputs {
        environment: options.environment.clone(),
        programs: Some(options.programs()),
        project_root: Some(root.clone()),
        scope_filter: options.scope_filter,
        ..MergeInputs::default()
    };
    reader.managed(&mut inputs);
    for (index, config) in options.dynamic.iter().enumerate().rev() {
        inputs.layers.push(reader.dynamic(index, config));
    }
    reader.projects(&options.working_folder, &root, &mut inputs);
    let local = options.paths.local_settings(&root);
    reader.settings(Scope::Local, &local, &mut inputs);
    reader.ancestor_restrictions(&options.working_folder, &root, &mut inputs);
    reader.settings(Scope::User, &options.paths.user_settings(), &mut inputs);
    reader.plugins(&mut inputs);
    for layer in &options.embedded {
        reader.record_source(&layer.source, SourceContent::Servers(layer.definitions.len()));
        inputs.layers.push(layer.clone());
    }
    reader.connectors(&options.embedded, &mut inputs);
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
    let rules = reader.rules.merge(effective.entry_rules());
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
        model: reader.model,
        audit: reader.audit,
        gateway_limits: reader.gateway_limits,
        sharing: reader.sharing,
        theme: reader.theme,
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
    model: Option<ModelSettings>,
    audit: AuditSettings,
    gateway_limits: GatewayLimits,
    sharing: SharingSettings,
    theme: Option<Theme>,
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
            self.audit = self.audit.managed();
            return;
        }
        if let Some(layer) = self.layer(&servers, Naming::Plain, FileShape::Wrapped) {
            inputs.exclusive_source = Some(servers);
            inputs.layers.push(layer);
            self.audit = self.audit.managed();
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
        self.audit = self.audit.managed();
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
                    (self.account.clone(), self.model.clone(), self.audit);
                let gateway_limits = self.gateway_limits;
                let sharing = self.sharing.clone();
                let login_defaults = self.login_defaults.clone();
                let principals = std::mem::take(&mut self.principals);
                self.settings(Scope::Local, &path, inputs);
                // Hooks and accounts of another project do not apply here.
                self.hooks.truncate(hooks);
                self.identity_provider = identity_provider;
                self.login_defaults = login_defaults;
                self.account = account;
                self.model = model;
                self.audit = audit;
                self.gateway_limits = gateway_limits;
                self.sharing = sharing;
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
        self.theme = self.theme.or(settings.theme);
        if self.model.is_none() {
            self.model = settings.model;
        }
        self.audit = self.audit.merge(settings.audit);
        self.gateway_limits = self.gateway_limits.merge(settings.gateway_limits);
        self.sharing = std::mem::take(&mut self.sharing).merge(settings.sharing);
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

    /// Reads plugins in the order of their names, so that the result is stable.
    fn plugins(&mut self, inputs: &mut MergeInputs) {
        let folder = self.paths.plugins();
        let Ok(entries) = folder.read_dir() else { return };
        let mut names: Vec<String> =
            entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        for name in names {
            let root = folder.join(&name);
            if let Some(mut layer) = self.plugin(&name, &root) {
                let root = root.to_string_lossy().into_owned();
                layer.variables = ["SWITCHBOARD_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"]
                    .map(|variable| (variable.to_owned(), root.clone()))
                    .to_vec();
                inputs.layers.push(layer);
            }
        }
    }

    /// Adds the account's connectors as listed last, unless the embedding program brings its own.
    fn connectors(&mut self, embedded: &[Layer], inputs: &mut MergeInputs) {
        let Some(account) = &self.account else { return };
        if embedded.iter().any(|it| it.source.scope == Scope::Connectors) {
            return;
        }
        if let Some(listing) = connector_cache::cached_connectors(self.paths, account) {
            let layer = listing.layer();
            self.record_layer(&layer);
            inputs.layers.push(layer);
        }
    }

    /// A plugin's servers: from its own file, otherwise from its manifest.
    fn plugin(&mut self, name: &str, root: &Path) -> Option<Layer> {
        let own_file = Source::file(Scope::Plugin, root.join(PROJECT_FILE));
        let found = self.layer(&own_file, Naming::Plugin(name), FileShape::WrappedOrBare);
        found.or_else(|| {
            ["plugin.json", ".claude-plugin/plugin.json"].iter().find_map(|manifest| {
                let source = Source::file(Scope::Plugin, root.join(manifest));
                self.layer(&source, Naming::Plugin(name), FileShape::Manifest)
            })
        })
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
