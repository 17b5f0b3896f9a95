//! One run of the program: the machine, the flags that every command has, and what they lead to.

pub(crate) mod demo_server;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use switchboard::config::merge::{ResolvedServer, ScopeFilter, ServerState};
use switchboard::config::problem::Severity;
use switchboard::config::scope::Scope;
use switchboard::config::settings::connector_account::ConnectorAccount;
use switchboard::config::settings::identity_provider::IdentityProvider;
use switchboard::config::settings::model::ModelSettings;
use switchboard::config::source::{Origin, Source, SourceKind};
use switchboard::sources::loader;
use switchboard::sources::loader::{Configuration, DynamicConfig, LoadOptions};
use switchboard::sources::paths::{PROJECT_FILE, project_root};

use crate::args::GlobalOptions;

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::outcome::Failure;
use crate::output::report;
use crate::prompt::terminal_prompt::TerminalPrompt;

/// One run.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The machine.
    pub env: ProcessEnv,
    /// The flags that every command has.
    pub global: GlobalOptions,
    /// Who is at the terminal.
    pub prompt: TerminalPrompt,
    /// What the configuration that was read first says of signing in.
    providers: Arc<OnceLock<ConfiguredProviders>>,
}

/// Whom a configuration names for signing in.
#[derive(Debug, Clone)]
pub struct ConfiguredProviders {
    /// Who vouches for people.
    pub identity_provider: Option<IdentityProvider>,
    /// The account whose connectors are used.
    pub account: Option<ConnectorAccount>,
    /// The language model to use.
    pub model: Option<ModelSettings>,
}

impl ConfiguredProviders {
    fn from_configuration(configuration: &Configuration) -> ConfiguredProviders {
        let Configuration { identity_provider, account, model, .. } = configuration;
        ConfiguredProviders {
            identity_provider: identity_provider.clone(),
            account: account.clone(),
            model: model.clone(),
        }
    }
}

/// What an administrator's exclusive control is called, word for word, wherever it stops something.
pub const ENTERPRISE_LOCK: &str =
    "enterprise MCP configuration is active and has exclusive control over MCP servers";

impl Invocation {
    /// A run that has read nothing yet.
    pub fn new(env: ProcessEnv, global: GlobalOptions) -> Invocation {
        let prompt = TerminalPrompt::new(&env);
        Invocation { env, global, prompt, providers: Arc::default() }
    }

    /// Whom the configuration names for signing in. Reads it where nobody has done so yet.
    pub fn providers(&self) -> &ConfiguredProviders {
        self.providers.get_or_init(|| {
            ConfiguredProviders::from_configuration(&loader::load(&self.load_options()))
        })
    }

    /// The same run with nobody at the terminal.
    pub fn non_interactive(&self) -> Invocation {
        Invocation { prompt: self.prompt.non_interactive(), ..self.clone() }
    }

    /// Is the answer for a program?
    pub fn wants_json(&self) -> bool {
        self.global.json
    }

    /// Is somebody there who can use the screen?
    pub fn can_use_screen(&self) -> bool {
        self.env.terminal.is_interactive && !self.global.json
    }

    /// Reads every configuration; where nothing is configured, the demonstration's server is all there is. A
    /// `--mcp-config` that cannot be read at all is an error: somebody asked for it.
    pub fn load(&self) -> Result<Configuration, Failure> {
        self.load_from(&self.load_options())
    }

    /// The same without the demonstration: what people wrote, for commands that change it.
    pub fn load_without_demo(&self) -> Result<Configuration, Failure> {
        self.load_from(&LoadOptions { fallback: None, ..self.load_options() })
    }

    fn load_from(&self, surroundings: &LoadOptions) -> Result<Configuration, Failure> {
        let configuration = loader::load(surroundings);
        let _known_already =
            self.providers.set(ConfiguredProviders::from_configuration(&configuration));
        let failed = configuration
            .effective
            .problems
            .iter()
            .find(|it| it.origin.scope() == Scope::Dynamic && it.severity() == Severity::Error);
        if let (Some(problem), None) = (failed, &configuration.effective.exclusive_source) {
            let detail = report::problems(&self.env, std::iter::once(problem));
            return Err(
                Failure::new(Exit::Configuration, "--mcp-config cannot be used").detail(detail)
            );
        }
        Ok(configuration)
    }

    /// What the configuration depends on.
    pub fn load_options(&self) -> LoadOptions {
        let dynamic = |text: &String| match text.trim_start().starts_with(['{', '[', '"']) {
            true => DynamicConfig::Inline(text.clone()),
            false => DynamicConfig::File(self.env.working_folder.join(text)),
        };
        LoadOptions {
            paths: self.env.paths.clone(),
            working_folder: self.env.working_folder.clone(),
            environment: self.env.template_environment(),
            dynamic: self.global.mcp_config.iter().map(dynamic).collect(),
            scope_filter: match self.global.strict_mcp_config {
                true => ScopeFilter::DynamicOnly,
                false => ScopeFilter::All,
            },
            embedded: Vec::new(),
            fallback: Some(demo_server::layer()),
        }
    }

    /// Fails while an administrator's file has exclusive control.
    pub fn expect_unlocked(&self, configuration: &Configuration) -> Result<(), Failure> {
        match &configuration.effective.exclusive_source {
            None => Ok(()),
            Some(source) => {
                let file = self.display_source(source);
                Err(Failure::new(Exit::Policy, ENTERPRISE_LOCK).hint(&format!(
                    "the servers in {file} are the only ones; ask your administrator"
                )))
            }
        }
    }

    /// The failure of a name that nothing is configured under.
    pub fn not_found(&self, configuration: &Configuration, name: &str) -> Failure {
        let names = configuration.effective.servers.iter().map(|server| server.name.as_str());
        let failure = Failure::new(Exit::NotFound, &format!("there is no server `{name}`"));
        match switchboard::config::file::entry_decoder::nearest(name, names) {
            Some(nearest) => failure.hint(&format!("did you mean `{nearest}`?")),
            None if name == demo_server::NAME => {
                failure.hint("it is there only while nothing is configured")
            }
            None if configuration.effective.servers.is_empty()
                || demo_server::only_server(configuration).is_some() =>
            {
                failure.hint("nothing is configured yet; `swb add` adds a server")
            }
            None => failure.hint("`swb list --all` shows what is configured"),
        }
    }

    /// Every definition of a name, the winner first.
    pub fn definitions<'c>(
        &self,
        configuration: &'c Configuration,
        name: &str,
    ) -> Result<Vec<&'c ResolvedServer>, Failure> {
        let mut found: Vec<&ResolvedServer> =
            configuration.effective.servers.iter().filter(|it| it.name == name).collect();
        found.sort_by_key(|server| match (server.is_selected(), &server.state) {
            (true, ServerState::Invalid) => 1,
            (true, _) => 0,
            (false, _) => 2,
        });
        if found.is_empty() {
            return Err(self.not_found(configuration, name));
        }
        Ok(found)
    }

    /// The file of a scope that people write to.
    pub fn scope_file(&self, scope: WritableScope) -> PathBuf {
        let paths = &self.env.paths;
        let folder = &self.env.working_folder;
        match scope {
            WritableScope::User => paths.user_settings(),
            WritableScope::Local => paths.local_settings(&project_root(folder)),
            WritableScope::Project => self.nearest_project_file(),
        }
    }

    /// The project's file: the nearest that is there, else one to be made at the project's root.
    fn nearest_project_file(&self) -> PathBuf {
        let folder = &self.env.working_folder;
        let root = project_root(folder);
        folder
            .ancestors()
            .take_while(|at| at.starts_with(&root))
            .map(|at| at.join(PROJECT_FILE))
            .find(|file| file.symlink_metadata().is_ok())
            .unwrap_or_else(|| root.join(PROJECT_FILE))
    }

    /// The file that a definition can be changed in: the scope's own, or, of a project's, the one that
    /// defines it, as long as that lies in the project.
    pub fn editable_file(&self, server: &ResolvedServer) -> Option<(WritableScope, PathBuf)> {
        let scope = WritableScope::from_scope(server.scope())?;
        let path = server.origin.source.path()?;
        let reachable = match scope {
            WritableScope::User | WritableScope::Local => path == self.scope_file(scope),
            WritableScope::Project => path.starts_with(project_root(&self.env.working_folder)),
        };
        reachable.then(|| (scope, path.to_owned()))
    }

    /// A place in a file as people like to read it.
    pub fn display_origin(&self, origin: &Origin) -> String {
        let source = self.display_source(&origin.source);
        match (&origin.source.kind, origin.position) {
            (SourceKind::File(_) | SourceKind::Inline(_), Some(position)) => {
                format!("{source}:{}", position.line)
            }
            (SourceKind::Program(_), Some(_)) | (_, None) => source,
        }
    }

    /// A source as people like to read it.
    pub fn display_source(&self, source: &Source) -> String {
        self.env.display_source(source)
    }

    /// A path as people like to read it.
    pub fn display_path(&self, path: &Path) -> String {
        self.env.display_path(path)
    }
}

/// A scope that people write to with commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum WritableScope {
    /// You, in this project; kept outside its tree.
    Local,
    /// You, in every project.
    User,
    /// Everybody in this project: `.mcp.json`.
    Project,
}

impl WritableScope {
    /// The same among all scopes.
    pub fn scope(self) -> Scope {
        match self {
            WritableScope::Local => Scope::Local,
            WritableScope::User => Scope::User,
            WritableScope::Project => Scope::Project,
        }
    }

    /// The scope as one that people write to, where it is.
    pub fn from_scope(scope: Scope) -> Option<WritableScope> {
        match scope {
            Scope::Local => Some(WritableScope::Local),
            Scope::User => Some(WritableScope::User),
            Scope::Project => Some(WritableScope::Project),
            Scope::Enterprise | Scope::Dynamic | Scope::Connectors | Scope::Plugin => None,
        }
    }
}
