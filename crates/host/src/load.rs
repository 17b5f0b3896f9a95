//! Finds and reads every source of configuration there is, and hands them to the cascade.
//! Reads files and nothing else: no process is started, no address looked up, nothing connected to.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use switchboard_config::account::Account;
use switchboard_config::approval::Approvals;
use switchboard_config::cascade::{self, Breadth, Effective, Inputs, State};
use switchboard_config::hooks::Hook;
use switchboard_config::identity_provider::IdentityProvider;
use switchboard_config::layer::{Layer, Naming, Shape};
use switchboard_config::model_choice::ModelChoice;
use switchboard_config::permission::Rules;
use switchboard_config::policy::{Authority, Policy};
use switchboard_config::principals::Principals;
use switchboard_config::problem::{Problem, ProblemKind, Unreadable};
use switchboard_config::scope::Scope;
use switchboard_config::settings::{Settings, SwitchedOff, Theme};
use switchboard_config::source::Source;
use switchboard_config::template::Environment;

use crate::connectors;
use crate::places::{PROJECT_FILE, Places, project_root};
use crate::read::{self, Content, Kinds};

/// What the answer depends on, besides the files.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Where our things are.
    pub places: Places,
    /// The folder that somebody works in, absolute and without links.
    pub working_folder: PathBuf,
    /// The variables that entries may name.
    pub environment: Environment,
    /// `--mcp-config`, in the order given; the last wins.
    pub dynamic: Vec<DynamicConfig>,
    /// `--strict-mcp-config`
    pub breadth: Breadth,
    /// Layers of an embedding program: connectors, plugins from elsewhere, servers of its own.
    pub embedded: Vec<Layer>,
    /// A layer that counts only where nothing at all is configured, nothing is wrong and nobody forbids it.
    pub otherwise: Option<Layer>,
}

/// One `--mcp-config`. JSON given inline does not print: secrets may be in it.
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

/// Every source that was looked at, and the result.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Servers and problems.
    pub effective: Effective,
    /// What was looked at, in the order of scopes.
    pub looked_at: Vec<LookedAt>,
    /// The folder that local settings are keyed by.
    pub project_root: PathBuf,
    /// The policy as it was applied.
    pub policy: Policy,
    /// Servers that settings switch off.
    pub disabled: Vec<SwitchedOff>,
    /// Which tools may be called.
    pub rules: Rules,
    /// Rules for clients of a gateway, besides.
    pub principals: Principals,
    /// Commands that answer servers' questions, an administrator's first.
    pub hooks: Vec<Hook>,
    /// Who vouches for people; an administrator's word goes first.
    pub identity_provider: Option<IdentityProvider>,
    /// The account whose connectors are used; an administrator's word goes first.
    pub account: Option<Account>,
    /// The language model to use; an administrator's word goes first.
    pub model: Option<ModelChoice>,
    /// The screen's colours.
    pub theme: Option<Theme>,
}

/// A source that was looked at.
#[derive(Debug, Clone)]
pub struct LookedAt {
    /// Which.
    pub source: Arc<Source>,
    /// What was there.
    pub found: Found,
}

/// What was found at a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// So many servers.
    Servers(usize),
    /// Something that could not be read.
    Failure,
}

/// What files said when they were whole, for whoever reads them again. A file that is broken, as one may be in the
/// middle of an edit, goes on meaning what it meant; an administrator's does not, since what it forbids is not known.
#[derive(Clone, Default)]
pub struct Kept(BTreeMap<PathBuf, String>);

/// Prints no text: secrets may be in it.
impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({} files)", self.0.len())
    }
}

impl Kept {
    /// What a file said before, where it is broken now. Otherwise what it says now is kept.
    fn instead(
        &mut self,
        source: &Source,
        text: Option<String>,
        found: &[Problem],
    ) -> Option<String> {
        let path = source.path().filter(|_| source.scope != Scope::Enterprise)?;
        let breaks = |problem: &Problem| {
            matches!(problem.kind, ProblemKind::Syntax(_) | ProblemKind::Unreadable(_))
        };
        match text.filter(|_| !found.iter().any(breaks)) {
            Some(text) => {
                self.0.insert(path.to_owned(), text);
                None
            }
            None => self.0.get(path).cloned(),
        }
    }
}

/// Reads everything and decides what becomes of every server.
pub fn load(surroundings: &Surroundings) -> Configuration {
    load_again(surroundings, &mut Kept::default())
}

/// The same, where files that are broken now may have been read before.
pub fn load_again(surroundings: &Surroundings, kept: &mut Kept) -> Configuration {
    let root = project_root(&surroundings.working_folder);
    let mut reader = Reader {
        kept,
        places: &surroundings.places,
        looked_at: Vec::new(),
        problems: Vec::new(),
        rules: Rules::default(),
        principals: Principals::default(),
        hooks: Vec::new(),
        identity_provider: None,
        account: None,
        model: None,
        theme: None,
    };
    let mut inputs = Inputs {
        environment: surroundings.environment.clone(),
        breadth: surroundings.breadth,
        ..Inputs::default()
    };
    reader.managed(&mut inputs);
    for (index, config) in surroundings.dynamic.iter().enumerate().rev() {
        inputs.layers.push(reader.dynamic(index, config));
    }
    reader.projects(&surroundings.working_folder, &root, &mut inputs);
    let local = surroundings.places.local_settings(&root);
    reader.settings(Scope::Local, &local, &mut inputs);
    reader.restrictions_above(&surroundings.working_folder, &root, &mut inputs);
    reader.settings(Scope::User, &surroundings.places.user_settings(), &mut inputs);
    reader.plugins(&mut inputs);
    for layer in &surroundings.embedded {
        reader.note(&layer.source, Found::Servers(layer.definitions.len()));
        inputs.layers.push(layer.clone());
    }
    reader.connectors(&surroundings.embedded, &mut inputs);
    inputs.approvals = reader.approvals();
    let (policy, disabled) = (inputs.policy.clone(), inputs.disabled.clone());
    let instead = surroundings
        .otherwise
        .as_ref()
        .filter(|_| surroundings.dynamic.is_empty() && surroundings.breadth == Breadth::EveryScope);
    let instead = instead.and_then(|layer| alternative(&inputs, layer));
    let mut effective = cascade::resolve(inputs);
    effective.problems.extend(std::mem::take(&mut reader.problems));
    if let (Some((layer, instead)), true) = (instead, is_bare(&effective)) {
        reader.note(&layer.source, Found::Servers(layer.definitions.len()));
        effective = instead;
    }
    Configuration {
        effective,
        looked_at: reader.looked_at,
        project_root: root,
        policy,
        disabled,
        rules: reader.rules,
        principals: reader.principals,
        hooks: reader.hooks,
        identity_provider: reader.identity_provider,
        account: reader.account,
        model: reader.model,
        theme: reader.theme,
    }
}

/// What it would be with a layer more, where there is nothing else and no policy refuses what is in it.
fn alternative<'l>(inputs: &Inputs, layer: &'l Layer) -> Option<(&'l Layer, Effective)> {
    if inputs.layers.iter().any(|it| !it.definitions.is_empty()) {
        return None;
    }
    let mut inputs = inputs.clone();
    inputs.layers.insert(0, layer.clone());
    let effective = cascade::resolve(inputs);
    let is_refused = |server: &cascade::Server| matches!(server.state, State::Refused(_));
    (!effective.servers.iter().any(is_refused)).then_some((layer, effective))
}

fn is_bare(effective: &Effective) -> bool {
    effective.servers.is_empty() && effective.problems.is_empty() && effective.lock.is_none()
}

/// The servers that an embedding program defines itself, in the words of a configuration file, and nothing else.
pub fn of_program(program: &str, text: &str) -> Effective {
    let source = Source::program(Scope::Dynamic, program);
    let layer = Layer::read(&source, text, Naming::Plain, Shape::Wrapped);
    cascade::resolve(Inputs { layers: vec![layer], ..Inputs::default() })
}

struct Reader<'a> {
    kept: &'a mut Kept,
    places: &'a Places,
    looked_at: Vec<LookedAt>,
    problems: Vec<Problem>,
    rules: Rules,
    principals: Principals,
    hooks: Vec<Hook>,
    identity_provider: Option<IdentityProvider>,
    account: Option<Account>,
    model: Option<ModelChoice>,
    theme: Option<Theme>,
}

impl Reader<'_> {
    fn note(&mut self, source: &Arc<Source>, found: Found) {
        self.looked_at.push(LookedAt { source: source.clone(), found });
    }

    /// Reads a source's text and notes it; `None` where there is nothing.
    fn read(&mut self, source: &Arc<Source>, kinds: Kinds) -> Option<Result<String, Unreadable>> {
        let path = source.path()?;
        match read::text(path, kinds) {
            Ok(Content::Absent) => {
                self.note(source, Found::Nothing);
                None
            }
            Ok(Content::Text(text)) => Some(Ok(text)),
            Err(why) => Some(Err(why)),
        }
    }

    fn note_layer(&mut self, layer: &Layer) {
        let failed = layer.definitions.is_empty() && !layer.problems.is_empty();
        let found = if failed { Found::Failure } else { Found::Servers(layer.definitions.len()) };
        self.note(&layer.source, found);
    }

    fn layer(&mut self, source: &Arc<Source>, naming: Naming<'_>, shape: Shape) -> Option<Layer> {
        let kinds = match source.scope {
            Scope::Dynamic => Kinds::PipesToo,
            Scope::Enterprise
            | Scope::Connectors
            | Scope::Project
            | Scope::Local
            | Scope::User
            | Scope::Managed => Kinds::RegularOnly,
        };
        let (mut layer, text) = match self.read(source, kinds)? {
            Ok(text) => (Layer::read(source, &text, naming, shape), Some(text)),
            Err(why) => (Layer::failed(source, ProblemKind::Unreadable(why)), None),
        };
        if let Some(before) = self.kept.instead(source, text, &layer.problems) {
            let found = std::mem::take(&mut layer.problems);
            layer = Layer::read(source, &before, naming, shape);
            layer.problems.extend(found);
        }
        self.note_layer(&layer);
        Some(layer)
    }

    /// An administrator's files. The mere presence of the server file, in whatever condition, locks out the rest.
    fn managed(&mut self, inputs: &mut Inputs) {
        let servers = Source::file(Scope::Enterprise, self.places.managed_servers());
        let folder = &self.places.managed;
        if folder.symlink_metadata().is_ok() && !folder.is_dir() {
            let kind = ProblemKind::Unreadable(Unreadable::NoFolder);
            let layer = Layer::failed(&Source::file(Scope::Enterprise, folder), kind);
            self.note_layer(&layer);
            inputs.lock = Some(layer.source.clone());
            inputs.layers.push(layer);
            return;
        }
        if let Some(layer) = self.layer(&servers, Naming::Plain, Shape::Wrapped) {
            inputs.lock = Some(servers);
            inputs.layers.push(layer);
        }
        let source = Source::file(Scope::Enterprise, self.places.managed_settings());
        let settings = match self.read(&source, Kinds::RegularOnly) {
            None => return,
            Some(Ok(text)) => Settings::read(&source, &text, Authority::Administrator),
            Some(Err(why)) => {
                let kind = ProblemKind::Unreadable(why);
                Settings::failed(&source, kind)
            }
        };
        self.take(settings, inputs);
    }

    fn settings(&mut self, scope: Scope, path: &Path, inputs: &mut Inputs) {
        let source = Source::file(scope, path);
        let read = |text: &str| Settings::read(&source, text, Authority::Person);
        let failed = |why| Settings::failed(&source, ProblemKind::Unreadable(why));
        if let Some(settings) = self.kept_settings(&source, read, failed) {
            self.take(settings, inputs);
        }
    }

    /// Settings as a file says them, or as it said them before it broke.
    fn kept_settings(
        &mut self,
        source: &Arc<Source>,
        read: impl Fn(&str) -> Settings,
        failed: impl Fn(Unreadable) -> Settings,
    ) -> Option<Settings> {
        let (mut settings, text) = match self.read(source, Kinds::RegularOnly)? {
            Ok(text) => (read(&text), Some(text)),
            Err(why) => (failed(why), None),
        };
        if let Some(before) = self.kept.instead(source, text, &settings.layer.problems) {
            let found = std::mem::take(&mut settings.layer.problems);
            settings = read(&before);
            settings.layer.problems.extend(found);
        }
        Some(settings)
    }

    /// Local settings of folders around the root. Their servers are another project's, but what the person
    /// allowed, denied or switched off there holds: a `.git` in a tree must not undo it.
    fn restrictions_above(&mut self, folder: &Path, root: &Path, inputs: &mut Inputs) {
        for folder in folder.ancestors().filter(|folder| *folder != root) {
            let path = self.places.local_settings(folder);
            if path.symlink_metadata().is_ok() {
                let before = inputs.layers.len();
                let rules = std::mem::take(&mut self.rules);
                let (hooks, vouching) = (self.hooks.len(), self.identity_provider.clone());
                let (account, model) = (self.account.clone(), self.model.clone());
                let principals = std::mem::take(&mut self.principals);
                self.settings(Scope::Local, &path, inputs);
                // Commands of another project are no business of this one.
                self.hooks.truncate(hooks);
                self.identity_provider = vouching;
                self.account = account;
                self.model = model;
                let around = std::mem::take(&mut self.rules).restrictions();
                self.rules = rules.and(around);
                let around = std::mem::take(&mut self.principals).restrictions();
                self.principals = principals.and(around);
                for layer in &mut inputs.layers[before..] {
                    layer.definitions.clear();
                }
            }
        }
    }

    fn take(&mut self, settings: Settings, inputs: &mut Inputs) {
        self.note_layer(&settings.layer);
        self.rules = std::mem::take(&mut self.rules).and(settings.permissions);
        self.principals = std::mem::take(&mut self.principals).and(settings.principals);
        inputs.policy = std::mem::take(&mut inputs.policy).and(settings.policy);
        self.hooks.extend(settings.hooks);
        if self.identity_provider.is_none() {
            self.identity_provider = settings.identity_provider;
        }
        if self.account.is_none() {
            self.account = settings.account;
        }
        self.theme = self.theme.or(settings.theme);
        if self.model.is_none() {
            self.model = settings.model;
        }
        inputs.disabled.extend(settings.disabled);
        inputs.layers.push(settings.layer);
    }

    fn dynamic(&mut self, index: usize, config: &DynamicConfig) -> Layer {
        match config {
            DynamicConfig::Inline(text) => {
                let source = Source::inline(index + 1);
                let layer = Layer::read(&source, text, Naming::Plain, Shape::Wrapped);
                self.note_layer(&layer);
                layer
            }
            DynamicConfig::File(path) => {
                let source = Source::file(Scope::Dynamic, path);
                self.layer(&source, Naming::Plain, Shape::Wrapped).unwrap_or_else(|| {
                    Layer::failed(&source, ProblemKind::Unreadable(Unreadable::Absent))
                })
            }
        }
    }

    /// The working folder's servers and those of every folder above it, nearest first.
    /// Rules count up to the project's root: whoever can write further up has no say here.
    fn projects(&mut self, working_folder: &Path, root: &Path, inputs: &mut Inputs) {
        for folder in working_folder.ancestors() {
            let source = Source::file(Scope::Project, folder.join(PROJECT_FILE));
            if !folder.starts_with(root) {
                inputs.layers.extend(self.layer(&source, Naming::Plain, Shape::Wrapped));
                continue;
            }
            let failed = |why| {
                let layer = Layer::failed(&source, ProblemKind::Unreadable(why));
                let permissions = Rules::lost(&source);
                Settings { layer, permissions, ..Settings::empty(&source) }
            };
            let read = |text: &str| Settings::read_project(&source, text);
            let Some(settings) = self.kept_settings(&source, read, failed) else { continue };
            self.take(settings, inputs);
        }
    }

    /// Plugins in the order of their names, so that the first is the same one every time.
    fn plugins(&mut self, inputs: &mut Inputs) {
        let folder = self.places.plugins();
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

    /// The connectors of the account, as it listed them the last time; none where the embedding program brings its own.
    fn connectors(&mut self, embedded: &[Layer], inputs: &mut Inputs) {
        let Some(account) = &self.account else { return };
        if embedded.iter().any(|it| it.source.scope == Scope::Connectors) {
            return;
        }
        if let Some(listing) = connectors::remembered(self.places, account) {
            let layer = listing.layer();
            self.note_layer(&layer);
            inputs.layers.push(layer);
        }
    }

    /// A plugin's servers: from its own file, else from its manifest.
    fn plugin(&mut self, name: &str, root: &Path) -> Option<Layer> {
        let own = Source::file(Scope::Managed, root.join(PROJECT_FILE));
        let found = self.layer(&own, Naming::Plugin(name), Shape::WrappedOrBare);
        found.or_else(|| {
            ["plugin.json", ".claude-plugin/plugin.json"].iter().find_map(|manifest| {
                let source = Source::file(Scope::Managed, root.join(manifest));
                self.layer(&source, Naming::Plugin(name), Shape::Manifest)
            })
        })
    }

    /// The person's decisions. A store that cannot be read approves nothing, and says so.
    fn approvals(&mut self) -> Approvals {
        let source = Source::file(Scope::User, self.places.approvals());
        let kind = match read::text(&self.places.approvals(), Kinds::RegularOnly) {
            Ok(Content::Absent) => return Approvals::default(),
            Ok(Content::Text(text)) => match Approvals::parse(&text) {
                Ok(approvals) => return approvals,
                Err(damaged) => ProblemKind::Approvals(damaged),
            },
            Err(why) => ProblemKind::Unreadable(why),
        };
        self.problems.push(Problem::of_source(&source, kind));
        Approvals::default()
    }
}
