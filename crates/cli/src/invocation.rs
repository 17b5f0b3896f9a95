//! One run of the program: its environment, its global options, and the configuration they select.

pub(crate) mod browser_server;
pub(crate) mod computer_server;
pub(crate) mod demo_server;
pub mod lookup;
pub mod options;
pub mod scope;
pub mod session_flags;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use switchboard::config::file::layer::Layer;
use switchboard::config::merge::{ScopeFilter, SdkEntries};
use switchboard::config::problem::{ProblemKind, Severity};
use switchboard::config::scope::Scope;
use switchboard::config::settings::browser::BrowserSection;
use switchboard::config::settings::connector_account::ConnectorAccount;
use switchboard::config::settings::identity_provider::IdentityProvider;
use switchboard::config::settings::login_defaults::LoginDefaults;
use switchboard::config::settings::model::ModelSettings;
use switchboard::config::settings::session_ingress::SessionIngress;
use switchboard::config::settings::sharing::SharingSettings;
use switchboard::config::source::{Origin, Source, SourceKind};
use switchboard::sources::AccountSummary;
use switchboard::sources::loader;
use switchboard::sources::loader::{Configuration, DynamicConfig, LoadOptions};

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::invocation::browser_server::BrowserUse;
use crate::invocation::options::GlobalOptions;
use crate::invocation::session_flags::{SessionFlags, UserPresence};
use crate::outcome::Failure;
use crate::output::account_text::{KnownAccount, TokenSource};
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
    /// What the options of the conversation say about settings, folders and built-in tools.
    pub session: SessionFlags,
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
    /// What is known about the account and its connectors.
    pub connectors: Option<AccountSummary>,
    /// The origin that gets the token of this session.
    pub session_ingress: Option<SessionIngress>,
    /// The language model to use.
    pub model: Option<ModelSettings>,
    /// How servers are shared with other sessions.
    pub sharing: SharingSettings,
    /// How the browser server works.
    pub browser: BrowserSection,
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
        let Configuration { connectors, session_ingress, .. } = configuration;
        ConfiguredProviders {
            identity_provider: identity_provider.clone(),
            login_defaults: login_defaults.clone(),
            account: account.clone(),
            connectors: connectors.clone(),
            session_ingress: session_ingress.clone(),
            model: model.clone(),
            sharing: sharing.clone(),
            browser: configuration.browser.clone(),
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
            session: SessionFlags::default(),
            prompt,
            providers: Arc::default(),
            unusable_files_reported: Arc::default(),
        }
    }

    /// The same run with the options of a conversation.
    pub fn with_session(self, session: SessionFlags) -> Invocation {
        // Settings may name providers.
        Invocation { session, providers: Arc::default(), ..self }
    }

    /// The same run with a user who converses in it.
    pub fn with_user(&self) -> Invocation {
        let session = SessionFlags { user: UserPresence::Present, ..self.session.clone() };
        Invocation { session, ..self.clone() }
    }

    /// The providers of the configuration. Loads the configuration if no caller has done so yet.
    pub fn providers(&self) -> &ConfiguredProviders {
        self.providers.get_or_init(|| {
            ConfiguredProviders::from_configuration(&loader::load(&self.load_options()))
        })
    }

    /// What is known about the connector account; `None` without one.
    pub fn known_account(&self) -> Option<KnownAccount<'_>> {
        let providers = self.providers();
        let has_token = providers.account.as_ref().is_some_and(|it| it.token.is_some());
        let source = if has_token { TokenSource::Settings } else { TokenSource::Login };
        let summary = providers.connectors.as_ref()?;
        Some(KnownAccount { env: &self.env, summary, source })
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

    /// Loads the configuration with layers of the program that runs this one, and without the demo server.
    pub fn load_embedded(&self, layers: Vec<Layer>) -> Result<Configuration, Failure> {
        self.load_from(&self.embedded_options(layers), UnusableFiles::Report)
    }

    /// What [`Invocation::load_embedded`] loads from.
    pub fn embedded_options(&self, layers: Vec<Layer>) -> LoadOptions {
        let own = self.load_options();
        LoadOptions {
            fallback: None,
            embedded: [own.embedded, layers].concat(),
            // The program that runs this one also chose its command line.
            sdk_entries: SdkEntries::OfCommandLineToo,
            ..own
        }
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
        let asked_before = self.browser_use();
        let mut configuration = loader::load(surroundings);
        let _known_already =
            self.providers.set(ConfiguredProviders::from_configuration(&configuration));
        if self.global.browser.is_asked_for() && configuration.browser.managed.is_forbidden {
            return Err(browser_server::forbidden());
        }
        // A setting adds the browser server, too.
        if self.browser_use() != asked_before {
            let added = browser_server::layers(self.browser_use());
            let embedded = [surroundings.embedded.clone(), added].concat();
            let rules = browser_server::with_rules(self.browser_use(), surroundings.rules.clone());
            configuration = loader::load(&LoadOptions { embedded, rules, ..surroundings.clone() });
        }
        let failed = configuration
            .effective
            .problems
            .iter()
            .filter(|it| !self.is_of_session_settings(&it.origin.source))
            .find(|it| it.origin.scope() == Scope::Dynamic && it.severity() == Severity::Error);
        if let (Some(problem), None) = (failed, &configuration.effective.exclusive_source) {
            let detail = report::problems(&self.env, std::iter::once(problem));
            return Err(
                Failure::new(Exit::Configuration, "--mcp-config cannot be used").detail(detail)
            );
        }
        if let Some(problem) = configuration.effective.problems.iter().find(|it| {
            self.is_of_session_settings(&it.origin.source) && is_unusable_source(&it.kind)
        }) {
            let detail = report::problems(&self.env, std::iter::once(problem));
            return Err(
                Failure::new(Exit::Configuration, "--settings cannot be used").detail(detail)
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
        let dynamic = |text: &String| self.file_or_inline(text);
        LoadOptions {
            paths: self.env.paths.clone(),
            working_folder: self.env.working_folder.clone(),
            environment: self.env.template_environment(),
            dynamic: self.global.mcp_config.iter().map(dynamic).collect(),
            settings: self.session.settings.as_ref().map(dynamic),
            rules: browser_server::with_rules(
                self.browser_use(),
                computer_server::with_rule(self.session.computer, self.session.rules.clone()),
            ),
            setting_sources: self.session.setting_sources,
            scope_filter: match self.global.strict_mcp_config {
                true => ScopeFilter::DynamicOnly,
                false => ScopeFilter::All,
            },
            sdk_entries: SdkEntries::OfProgramLayers,
            connectors: self.env.variables.connector_use(),
            plugins: self.session.plugins.clone(),
            embedded: [
                computer_server::layers(self.session.computer),
                browser_server::layers(self.browser_use()),
            ]
            .concat(),
            fallback: Some(demo_server::layer()),
        }
    }

    /// Whether an option, or a setting that has been read, asks for the browser server.
    pub fn browser_use(&self) -> BrowserUse {
        let setting = self.providers.get().map(|it| &it.browser);
        let is_forbidden = setting.is_some_and(|it| it.managed.is_forbidden);
        let is_enabled = setting.is_some_and(|it| it.enabled == Some(true));
        match !is_forbidden && (is_enabled || self.global.browser.is_asked_for()) {
            true => BrowserUse::AskedFor,
            false => BrowserUse::AsConfigured,
        }
    }

    /// The value of an option that is a path or JSON.
    fn file_or_inline(&self, text: &str) -> DynamicConfig {
        match text.trim_start().starts_with(['{', '[', '"']) {
            true => DynamicConfig::Inline(text.to_owned()),
            false => DynamicConfig::File(self.env.working_folder.join(text)),
        }
    }

    /// Is it the source of `--settings`?
    fn is_of_session_settings(&self, source: &Source) -> bool {
        match (&source.kind, &self.session.settings) {
            (SourceKind::InlineSettings, _) => true,
            (SourceKind::File(path), Some(text)) if source.scope == Scope::Dynamic => {
                *path == self.env.working_folder.join(text)
            }
            (SourceKind::File(_) | SourceKind::Inline(_) | SourceKind::Program(_), _) => false,
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

/// Does the problem make a whole source unusable?
fn is_unusable_source(kind: &ProblemKind) -> bool {
    matches!(kind, ProblemKind::Syntax(_) | ProblemKind::Unreadable(_))
}
