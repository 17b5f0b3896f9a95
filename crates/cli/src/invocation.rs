//! One run of the program: its environment, its global options, and the configuration they select.

pub(crate) mod demo_server;
pub mod lookup;
pub mod options;
pub mod scope;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use switchboard::config::merge::ScopeFilter;
use switchboard::config::problem::Severity;
use switchboard::config::scope::Scope;
use switchboard::config::settings::connector_account::ConnectorAccount;
use switchboard::config::settings::identity_provider::IdentityProvider;
use switchboard::config::settings::login_defaults::LoginDefaults;
use switchboard::config::settings::model::ModelSettings;
use switchboard::config::settings::sharing::SharingSettings;
use switchboard::config::source::{Origin, Source};
use switchboard::sources::loader;
use switchboard::sources::loader::{Configuration, DynamicConfig, LoadOptions};

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::invocation::options::GlobalOptions;
use crate::outcome::Failure;
use crate::output::report;
use crate::output::unusable_files;
use crate::prompt::terminal_prompt::TerminalPrompt;

/// One run of the program.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The environment.
    pub env: ProcessEnv,
    /// The options that every command has.
    pub global: GlobalOptions,
    /// Prompts at the terminal.
    pub prompt: TerminalPrompt,
    /// What the first configuration that was read says about providers.
    providers: Arc<OnceLock<ConfiguredProviders>>,
    /// Set when the files that cannot be used were reported, so that a run reports them once.
    unusable_files_reported: Arc<OnceLock<()>>,
}

/// The providers that a configuration names.
#[derive(Debug, Clone)]
pub struct ConfiguredProviders {
    /// The identity provider for enterprise logins.
    pub identity_provider: Option<IdentityProvider>,
    /// Defaults for logins at every server.
    pub login_defaults: LoginDefaults,
    /// The account whose connectors are used.
    pub account: Option<ConnectorAccount>,
    /// The language model to use.
    pub model: Option<ModelSettings>,
    /// How servers are shared with other sessions.
    pub sharing: SharingSettings,
}

/// What is done about files that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnusableFiles {
    Report,
    LeaveToCaller,
}

impl ConfiguredProviders {
    fn from_configuration(configuration: &Configuration) -> ConfiguredProviders {
        let Configuration { identity_provider, login_defaults, account, model, sharing, .. } =
            configuration;
        ConfiguredProviders {
            identity_provider: identity_provider.clone(),
            login_defaults: login_defaults.clone(),
            account: account.clone(),
            model: model.clone(),
            sharing: sharing.clone(),
        }
    }
}

impl Invocation {
    /// A run that has not read any configuration yet.
    pub fn new(env: ProcessEnv, global: GlobalOptions) -> Invocation {
        let prompt = TerminalPrompt::new(&env);
        Invocation {
            env,
            global,
            prompt,
            providers: Arc::default(),
            unusable_files_reported: Arc::default(),
        }
    }

    /// The providers of the configuration. Loads the configuration if no caller has done so yet.
    pub fn providers(&self) -> &ConfiguredProviders {
        self.providers.get_or_init(|| {
            ConfiguredProviders::from_configuration(&loader::load(&self.load_options()))
        })
    }

    /// The same run without prompts.
    pub fn non_interactive(&self) -> Invocation {
        Invocation { prompt: self.prompt.non_interactive(), ..self.clone() }
    }

    /// Is `--json` set?
    pub fn wants_json(&self) -> bool {
        self.global.json
    }

    /// How wide a progress line on standard error may be; `None` where none is drawn.
    pub fn progress_width(&self) -> Option<usize> {
        let terminal = &self.env.terminal;
        (terminal.stderr_is_terminal && !self.wants_json()).then_some(terminal.stderr_width)
    }

    /// Can the full screen be used?
    pub fn can_use_screen(&self) -> bool {
        self.env.terminal.is_interactive && !self.global.json
    }

    /// Loads the configuration; where no server is configured, it holds only the demo server. A `--mcp-config` that
    /// cannot be read is an error; other files that cannot be used are reported on standard error.
    pub fn load(&self) -> Result<Configuration, Failure> {
        self.load_from(&self.load_options(), UnusableFiles::Report)
    }

    /// Loads the configuration like [`Invocation::load`], for callers that show its problems themselves.
    pub fn load_with_problems(&self) -> Result<Configuration, Failure> {
        self.load_from(&self.load_options(), UnusableFiles::LeaveToCaller)
    }

    /// Loads the configuration without the demo server, for commands that change it.
    pub fn load_without_demo(&self) -> Result<Configuration, Failure> {
        let options = LoadOptions { fallback: None, ..self.load_options() };
        self.load_from(&options, UnusableFiles::Report)
    }

    fn load_from(
        &self,
        surroundings: &LoadOptions,
        unusable_files: UnusableFiles,
    ) -> Result<Configuration, Failure> {
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
        let is_first = self.unusable_files_reported.set(()).is_ok();
        match unusable_files {
            UnusableFiles::Report if is_first => {
                report::print_stderr(&unusable_files::as_text(&self.env, &configuration));
            }
            UnusableFiles::Report | UnusableFiles::LeaveToCaller => {}
        }
        Ok(configuration)
    }

    /// What the configuration is loaded from.
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

    /// A position in a file, relative to the working folder or home.
    pub fn display_origin(&self, origin: &Origin) -> String {
        self.env.display_origin(origin)
    }

    /// A source, relative to the working folder or home.
    pub fn display_source(&self, source: &Source) -> String {
        self.env.display_source(source)
    }

    /// A path, relative to the working folder or home.
    pub fn display_path(&self, path: &Path) -> String {
        self.env.display_path(path)
    }
}
