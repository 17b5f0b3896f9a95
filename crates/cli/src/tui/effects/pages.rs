//! The slash commands that show a text. What plain commands say is said by the same code.

use std::sync::Arc;

use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;
use switchboard::pool::tool::Tool;

use super::{EffectRunner, error_event};
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::catalogue_table;
use crate::output::diagnosis::Diagnosis;
use crate::output::rule_table;
use crate::output::style::{TextStyle, paint};
use crate::output::tool_table;
use crate::runtime::server_log;
use crate::runtime::servers;
use crate::tui::configured_servers::ConfiguredServers;
use crate::tui::slash_command::{COMMANDS, SlashCommand};
use crate::tui::state::screen_state::ScreenEvent;
use crate::tui::view::pager::StartPosition;
use crate::tui::view::panel::ServerPanel;
use crate::tui::view::panel::server_page::Tab;

/// How much of a log is shown.
const LOG_LINES: usize = 2000;

/// The keys, for people who ask.
const KEYS: [(&str, &str); 17] = [
    ("Enter", "send"),
    ("Alt-Enter, Shift-Enter, Ctrl-J, \\ Enter", "new line"),
    ("Up, Down", "what you sent before; Up also takes back what waits"),
    ("Ctrl-R", "search in what you sent before"),
    ("Tab", "take what the menu offers"),
    ("Esc", "stop the model or a call; close what is open"),
    ("Ctrl-C", "empty the line; twice: leave"),
    ("Ctrl-D", "leave, on an empty line"),
    ("Ctrl-G, Ctrl-X Ctrl-E", "write in your editor"),
    ("Shift-Tab", "how much is asked: default, acceptEdits, plan"),
    ("Ctrl-O", "unfold and fold calls, results and thoughts"),
    ("Alt-Up, Alt-Down", "choose one call to unfold"),
    ("PageUp, PageDown, Shift-Up, Shift-Down", "scroll"),
    ("Ctrl-Home, Ctrl-End", "to the beginning, to the end"),
    ("Ctrl-A E K U W Y, Alt-B F D", "move, cut and paste as in a shell"),
    ("Ctrl-_", "undo"),
    ("Ctrl-Z, Ctrl-L", "stop the program for a while; draw anew"),
];

impl EffectRunner {
    /// Shows the text of a command.
    pub(crate) async fn text_event(&mut self, slash: SlashCommand) {
        let event = match slash {
            SlashCommand::Help => text("help", &CommandOutput::text(help_text())),
            SlashCommand::Mcp(server) => self.server_panel(server.as_deref()),
            SlashCommand::Tools(server) => self.tools_page(server.as_deref()),
            SlashCommand::Resources(server) => self.resources_page(server.as_deref()),
            SlashCommand::Permissions => text(
                "permissions",
                &CommandOutput::text(rule_table::as_text(
                    &self.session.env,
                    &self.call_context.rules.current(),
                )),
            ),
            SlashCommand::Model(_) => ScreenEvent::Note(self.model_text()),
            SlashCommand::Logs(name) => {
                let session = self.session.clone();
                let name = name.or_else(|| self.only_server());
                match name {
                    Some(name) => return self.spawn(log_page(session, name)),
                    None => ScreenEvent::Error("write /logs SERVER".to_owned()),
                }
            }
            SlashCommand::Doctor(name) => self.doctor_page(name.as_deref()),
            SlashCommand::Call { .. }
            | SlashCommand::Read { .. }
            | SlashCommand::Prompt { .. }
            | SlashCommand::Clear
            | SlashCommand::Quit => return,
        };
        self.queue_event(event);
    }

    fn server_panel(&self, server: Option<&str>) -> ScreenEvent {
        let configured_servers =
            ConfiguredServers::from_configuration(&self.session, &self.configuration);
        let panel = ServerPanel::open(&self.host, Arc::new(configured_servers));
        ScreenEvent::OpenOverlay(Box::new(match server {
            Some(server) => panel.opened_at(server, Tab::Overview),
            None => panel,
        }))
    }

    fn tools_page(&self, server: Option<&str>) -> ScreenEvent {
        let pool = self.host.pool();
        let is_meant = |tool: &&Tool| server.is_none_or(|it| tool.server == it);
        let meant: Vec<&Tool> = pool.tools().iter().map(AsRef::as_ref).filter(is_meant).collect();
        let done = CommandOutput::text(tool_table::as_text(&self.session.env, &meant));
        text("tools", &done.note(tool_table::quarantined(&pool)))
    }

    fn resources_page(&self, server: Option<&str>) -> ScreenEvent {
        let mut snapshot = (*self.host.snapshot()).clone();
        if let Some(server) = server {
            snapshot.servers.retain(|name, _| name == server);
        }
        let said =
            catalogue_table::as_text(&self.session.env, &snapshot, &catalogue_table::RESOURCES);
        text("resources", &CommandOutput::text(said))
    }

    fn doctor_page(&self, name: Option<&str>) -> ScreenEvent {
        match self.winners(name) {
            Err(failure) => error_event(&failure),
            Ok(servers) => {
                let snapshot = self.host.snapshot();
                let env = &self.session.env;
                let diagnosis = Diagnosis::new(env, &servers, &snapshot);
                text("doctor", &diagnosis.to_text(env, &self.configuration))
            }
        }
    }

    fn winners(&self, name: Option<&str>) -> Result<Vec<&ResolvedServer>, Failure> {
        let names: Vec<String> = name.map(str::to_owned).into_iter().collect();
        servers::active_servers(&self.session, &self.configuration, &names)
    }

    fn model_text(&self) -> String {
        let settings = self.session.display_path(&self.session.env.paths.user_settings());
        let how = format!(
            "To set one: ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment, or in {settings}:\n\
             \x20 \"model\": {{\"provider\": \"anthropic\", \"name\": \"…\", \"apiKey\": \"${{KEY}}\"}}\n\
             /model NAME or /model PROVIDER/NAME takes another one for this conversation."
        );
        match &self.model {
            Some(model) => format!("{} answers.\n{how}", printable(&model.name)),
            None => format!("No model is set.\n{how}"),
        }
    }

    fn only_server(&self) -> Option<String> {
        let snapshot = self.host.snapshot();
        let mut names = snapshot.servers.keys();
        names.next().filter(|_| names.next().is_none()).cloned()
    }
}

/// What a server said, in a window of its own.
pub async fn log_page(session: Invocation, name: String) -> ScreenEvent {
    let title = format!("log of {}", printable(&name));
    let note = server_log::empty_note(&name);
    let read = move || server_log::read(&session, &name, LOG_LINES);
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(log)) if log.text.is_empty() => {
            ScreenEvent::Note(if log.exists { String::new() } else { note })
        }
        Ok(Ok(log)) => {
            let text = server_log::escaped(&log.text);
            ScreenEvent::Page { title, text, start: StartPosition::Bottom }
        }
        Ok(Err(failure)) => error_event(&failure),
        Err(_) => ScreenEvent::Error("the log could not be read".to_owned()),
    }
}

fn text(title: &str, done: &CommandOutput) -> ScreenEvent {
    let text = format!("{}{}", done.text, done.notes);
    ScreenEvent::Text { title: title.to_owned(), text }
}

fn help_text() -> String {
    let mut text = format!("{}\n", paint(TextStyle::Bold, "Commands"));
    for it in COMMANDS {
        let left = format!("/{} {}", it.name, it.usage);
        text.push_str(&format!("  {left:<30} {}\n", paint(TextStyle::Dim, it.about)));
    }
    let left = "/mcp__SERVER__PROMPT";
    text.push_str(&format!("  {left:<30} {}\n", paint(TextStyle::Dim, "a server's prompt")));
    let left = "@SERVER:URI";
    let about = "in a message: what the server has there";
    text.push_str(&format!("  {left:<30} {}\n", paint(TextStyle::Dim, about)));
    text.push_str(&format!("\n{}\n", paint(TextStyle::Bold, "Keys")));
    for (keys, about) in KEYS {
        text.push_str(&format!("  {keys:<40} {}\n", paint(TextStyle::Dim, about)));
    }
    text
}
