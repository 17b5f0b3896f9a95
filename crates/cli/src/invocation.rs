//! One run of the program: the machine, the flags that every command has, and what they lead to.

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
use switchboard::config::settings::model::ModelSettings;
use switchboard::config::source::{Origin, Source};
use switchboard::sources::loader;
use switchboard::sources::loader::{Configuration, DynamicConfig, LoadOptions};

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::invocation::options::GlobalOptions;
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

    /// How wide a progress line on standard error may be; `None` where none is drawn.
    pub fn progress_width(&self) -> Option<usize> {
        let terminal = &self.env.terminal;
        (terminal.stderr_is_terminal && !self.wants_json()).then_some(terminal.stderr_width)
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
            breadth: match self.global.strict_mcp_config {
                true => ScopeFilter::DynamicOnly,
                false => ScopeFilter::All,
            },
            embedded: Vec::new(),
            fallback: Some(demo_server::layer()),
        }
    }

    /// A place in a file as people like to read it.
    pub fn display_origin(&self, origin: &Origin) -> String {
        self.env.display_origin(origin)
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
