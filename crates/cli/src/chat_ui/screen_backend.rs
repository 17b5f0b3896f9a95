//! Implements the screen's backend with the command line's own output: pages, changes, logins and errors read as they do
//! outside the screen.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use switchboard::auth::browser::browser_flow::LoginPrompt;
use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::login::LoginRequest;
use switchboard::permission::settings_file::RuleFile;
use switchboard::pool::Tool;
use switchboard::request::RequestError;
use switchboard::sources::loader::Configuration;
use switchboard::tool_result::ToolOutput;
use switchboard::{Host, ToolCall, ToolCallError};
use switchboard_chat::ide::IdeSession;
use switchboard_tui::backend::{
    Backend, BackendFuture, CommandPage, ErrorText, LogText, PageInput, ServerChange, SharedModel,
};
use switchboard_tui::configured_servers::{ConfiguredServer, ConfiguredServers, Eligibility};
use switchboard_tui::elicitor;
use switchboard_tui::elicitor::ElicitorContext;
use switchboard_tui::theme::Tone;
use switchboard_tui::view::dialog::project_servers::{ProjectServer, ServerDefiner};

use crate::call_args;
use crate::commands::approve::{self, ApproveArgs};
use crate::commands::disable::{self, DisableArgs};
use crate::commands::enable::{self, EnableArgs};
use crate::commands::plugin;
use crate::commands::registry;
use crate::commands::reject::{self, RejectArgs};
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::catalogue_table;
use crate::output::diagnosis::{Diagnosis, HostState};
use crate::output::entry_text::plain_entry_text;
use crate::output::login_text;
use crate::output::report;
use crate::output::rule_table;
use crate::output::server_text;
use crate::output::style::TextStyle;
use crate::output::tool_output;
use crate::output::tool_table;
use crate::prompt::browser;
use crate::prompt::login_prompt::BrowserMode;
use crate::runtime::channels;
use crate::runtime::ide;
use crate::runtime::language_model;
use crate::runtime::login;
use crate::runtime::server_log;
use crate::runtime::servers;
use crate::runtime::variables;

/// The backend of one run.
#[derive(Debug)]
pub struct ScreenBackend {
    session: Invocation,
}

impl ScreenBackend {
    /// A backend for this run.
    pub fn new(session: &Invocation) -> ScreenBackend {
        ScreenBackend { session: session.clone() }
    }

    /// The same run at a terminal of this width.
    fn session_with_width(&self, width: usize) -> Invocation {
        let mut session = self.session.clone();
        session.env.terminal.width = width;
        session
    }

    fn configured_server(&self, server: &ResolvedServer) -> ConfiguredServer {
        let transport = server.entry.as_ref().map_or("-", |it| it.transport.kind().id());
        let tone = match server_text::state_style(&server.state) {
            TextStyle::Success => Tone::Success,
            TextStyle::Warning => Tone::Warning,
            TextStyle::Error => Tone::Error,
            TextStyle::Dim => Tone::Muted,
            TextStyle::Bold => Tone::Strong,
        };
        ConfiguredServer {
            name: server.name.clone(),
            scope: server.scope().id(),
            transport,
            origin: self.session.display_origin(&server.origin),
            entry: plain_entry_text(&self.session.env, server),
            fingerprint: server.approvable().map(|it| it.fingerprint.as_str().to_owned()),
            eligibility: Eligibility::of(&server.state),
            state: (tone, server_text::state_text(&server.state)),
            reason: server_text::state_reason(&self.session.env, server),
            problems: server.problems.iter().map(|it| it.kind.to_string()).collect(),
            is_trusted: server.is_trusted(),
            is_remote: server.spec.as_ref().is_some_and(|it| it.transport.url().is_some()),
        }
    }
}

impl Backend for ScreenBackend {
    fn change_server(&self, change: ServerChange) -> Result<String, ErrorText> {
        let session = &self.session;
        let output = match change {
            ServerChange::Enable(name) => enable::run(&EnableArgs { name }, session),
            ServerChange::Disable(name) => {
                disable::run(&DisableArgs { name, scope: None }, session)
            }
            ServerChange::Approve { name, fingerprint } => {
                let arguments = ApproveArgs { names: vec![name], all: false, hash: fingerprint };
                approve::run(&arguments, session)
            }
            ServerChange::Reject(name) => {
                reject::run(&RejectArgs { names: vec![name], all: false }, session)
            }
        };
        output.map(output_text).map_err(error_text)
    }

    fn page(&self, page: CommandPage, input: PageInput<'_>) -> Result<String, ErrorText> {
        let session = self.session_with_width(input.width);
        let output = match page {
            CommandPage::Tools(server) => {
                let pool = input.host.pool();
                let is_shown = |tool: &&Tool| server.as_ref().is_none_or(|it| tool.server == *it);
                let shown: Vec<&Tool> =
                    pool.tools().iter().map(AsRef::as_ref).filter(is_shown).collect();
                CommandOutput::text(tool_table::as_text(&session.env, &shown))
                    .note(tool_table::quarantined(&pool))
            }
            CommandPage::Resources(server) => {
                let mut snapshot = (*input.host.snapshot()).clone();
                if let Some(server) = server {
                    snapshot.servers.retain(|name, _| *name == server);
                }
                let layouts = &catalogue_table::RESOURCES;
                CommandOutput::text(catalogue_table::as_text(&session.env, &snapshot, layouts))
            }
            CommandPage::Plugins(id) => {
                let page = plugin::screen_page(id.as_deref(), input.configuration, &session);
                page.map_err(error_text)?
            }
            CommandPage::Permissions => {
                let rules = input.call_context.rules.current();
                CommandOutput::text(rule_table::as_text(&session.env, &rules))
            }
            CommandPage::Doctor(name) => {
                let names: Vec<String> = name.into_iter().collect();
                let servers = servers::active_servers(&session, input.configuration, &names);
                let servers = servers.map_err(error_text)?;
                let (snapshot, pool) = (input.host.snapshot(), input.host.pool());
                let examined = HostState { snapshot: &snapshot, pool: &pool };
                Diagnosis::new(&session.env, &servers, examined, input.configuration)
                    .to_text(&session.env)
            }
        };
        Ok(output_text(output))
    }

    fn log(&self, server: String, max_lines: usize) -> Result<LogText, ErrorText> {
        let log = server_log::read(&self.session, &server, max_lines).map_err(error_text)?;
        Ok(match (log.text.is_empty(), log.exists) {
            (true, true) => LogText::Empty(String::new()),
            (true, false) => LogText::Empty(server_log::empty_note(&server)),
            (false, _) => LogText::Lines(server_log::escaped(&log.text)),
        })
    }

    fn load_model(&self, name: Option<String>) -> Result<Option<SharedModel>, ErrorText> {
        language_model::open(&self.session, name.as_deref()).map_err(error_text)
    }

    fn parse_arguments(&self, tool: Option<&Tool>, words: &[String]) -> Result<Json, ErrorText> {
        let parsed =
            call_args::parse(words, &self.session.env.working_folder).map_err(error_text)?;
        Ok(match tool {
            Some(tool) => parsed.typed_for(tool),
            None => parsed.into_json(),
        })
    }

    fn tool_timeout(&self) -> Result<Duration, ErrorText> {
        variables::duration_variable(&self.session, "MCP_TOOL_TIMEOUT", ToolCall::DEFAULT_TIMEOUT)
            .map_err(error_text)
    }

    fn render_output(&self, output: &ToolOutput, _width: usize) -> String {
        output_text(tool_output::text(output))
    }

    fn render_request_error(&self, error: &RequestError) -> ErrorText {
        error_text(tool_output::request_failure(error))
    }

    fn render_call_failure<'a>(
        &'a self,
        failure: &'a ToolCallError,
        host: &'a Host,
        tool: &'a str,
    ) -> BackendFuture<'a, ErrorText> {
        Box::pin(async move {
            let failure = tool_output::call_failure(failure, &host.snapshot());
            error_text(login::with_scope_hint(failure, host, tool).await)
        })
    }

    fn log_in<'a>(
        &'a self,
        host: &'a Host,
        configuration: &'a Configuration,
        server: &'a str,
        prompt: &'a dyn LoginPrompt,
    ) -> BackendFuture<'a, Result<String, ErrorText>> {
        Box::pin(async move {
            if let Some(server) = configuration.effective.winner(server) {
                login::forget_auth_required(&self.session, server);
            }
            let label = server_label(server);
            match host.login(server, prompt, &LoginRequest::default()).await {
                Ok(login) => {
                    let _gone = host.reconnect(server).await;
                    let details = login_text::details_text(&login);
                    Ok(format!("Signed in to {label}.\n{details}"))
                }
                Err(error) => Err(error_text(login_text::login_failure(&label, &error))),
            }
        })
    }

    fn log_out<'a>(
        &'a self,
        host: &'a Host,
        configuration: &'a Configuration,
        server: &'a str,
    ) -> BackendFuture<'a, Result<String, ErrorText>> {
        Box::pin(async move {
            let label = server_label(server);
            let desired = servers::desired_servers(configuration, &[server.to_owned()]);
            let Some(desired) = desired.into_iter().next() else {
                return Err(ErrorText(format!("there is no server {label}")));
            };
            match host.forget_login(&desired).await {
                Ok(outcome) => {
                    let _gone = host.reconnect(server).await;
                    Ok(output_text(login_text::logout_output(&label, &outcome)))
                }
                Err(error) => Err(error_text(login_text::login_failure(&label, &error))),
            }
        })
    }

    fn apply_configuration<'a>(
        &'a self,
        host: &'a Host,
        configuration: &'a Configuration,
    ) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            channels::apply(&self.session, host, configuration).await;
            servers::apply_configuration(host, configuration, &[]).await;
        })
    }

    fn unconfirmed_channels(&self, configuration: &Configuration) -> Vec<String> {
        let channels = channels::unconfirmed(&self.session, configuration);
        channels.iter().map(ToString::to_string).collect()
    }

    fn confirm_channels<'a>(
        &'a self,
        host: &'a Host,
        configuration: &'a Configuration,
    ) -> BackendFuture<'a, ()> {
        channels::confirm(&self.session);
        Box::pin(channels::apply(&self.session, host, configuration))
    }

    fn run_ide_command<'a>(
        &'a self,
        host: &'a Host,
        configuration: &'a Configuration,
        session: &'a IdeSession,
        argument: Option<&'a str>,
    ) -> BackendFuture<'a, Result<String, ErrorText>> {
        Box::pin(async move {
            let running = ide::run_command(&self.session, (host, session), configuration, argument);
            running.await.map_err(error_text)
        })
    }

    fn run_registry_command<'a>(
        &'a self,
        words: &'a [String],
        width: usize,
    ) -> BackendFuture<'a, Result<String, ErrorText>> {
        Box::pin(async move {
            let mut session = self.session.clone();
            session.env.terminal.width = width;
            let output = registry::run_screen_command(&session, words).await;
            output.map(output_text).map_err(error_text)
        })
    }

    fn configured_servers(&self, configuration: &Configuration) -> ConfiguredServers {
        let is_shown =
            |it: &&ResolvedServer| it.is_selected() || matches!(it.state, ServerState::Rejected);
        let servers = configuration.effective.servers.iter().filter(is_shown);
        ConfiguredServers { servers: servers.map(|it| self.configured_server(it)).collect() }
    }

    fn pending_project_servers(&self, configuration: &Configuration) -> Vec<ProjectServer> {
        let pending = |server: &ResolvedServer| {
            let ServerState::Pending(pending) = server.state else { return None };
            let entry = server.entry.as_ref()?;
            Some(ProjectServer {
                name: server.name.clone(),
                origin: self.session.display_origin(&server.origin),
                fingerprint: server.approvable()?.fingerprint.as_str().to_owned(),
                entry: plain_entry_text(&self.session.env, server),
                pending,
                wants_trust: entry.common.trust,
                definer: match server.plugin {
                    Some(_) => ServerDefiner::Plugin,
                    None => ServerDefiner::Project,
                },
            })
        };
        // Those of the project, and those of plugins from marketplaces.
        let servers = configuration.effective.servers.iter();
        servers.filter(|it| it.approval_key.is_some()).filter_map(pending).collect()
    }
}

fn server_label(name: &str) -> String {
    format!("`{}`", printable(name))
}

fn output_text(output: CommandOutput) -> String {
    format!("{}{}", output.text, output.notes)
}

/// What the screen's dialogs need to know of this run.
pub(crate) fn elicitor_context(
    session: &Invocation,
    configuration: &Configuration,
) -> ElicitorContext {
    let project_root = configuration.project_root.clone();
    let file = RuleFile::Local { project_root }.path(&session.env.paths);
    let preferred = session.prompt.browser().map(str::to_owned);
    ElicitorContext {
        rule_file: session.display_path(&file),
        working_folder: session.env.working_folder.clone(),
        open_url: Arc::new(move |url| browser::open(url, preferred.as_deref())),
        browser_mode: match BrowserMode::detect(&session.env, false) {
            BrowserMode::Open => elicitor::BrowserMode::Open,
            BrowserMode::PrintUrl => elicitor::BrowserMode::ShowUrl,
        },
    }
}

/// A failure as the command line prints it.
pub(crate) fn error_text(failure: Failure) -> ErrorText {
    ErrorText(report::failure_text(&failure))
}

#[cfg(test)]
mod tests {
    use switchboard_tui::text::ansi;

    use super::*;
    use crate::output::style;

    #[test]
    fn the_screen_reads_the_colours_that_commands_write() {
        for (written, read) in [
            (TextStyle::Success, Tone::Success),
            (TextStyle::Warning, Tone::Warning),
            (TextStyle::Error, Tone::Error),
            (TextStyle::Dim, Tone::Muted),
            (TextStyle::Bold, Tone::Strong),
        ] {
            assert_eq!(style::paint(written, "text"), ansi::paint(read, "text"));
        }
    }
}
