//! The slash commands that show a text. The backend renders what a command of the same name prints.

use std::sync::Arc;

use switchboard::config::display::printable;

use super::{EffectRunner, error_event};
use crate::backend::{CommandPage, LogText, PageInput};
use crate::slash_command::{COMMANDS, SlashCommand};
use crate::state::event::ScreenEvent;
use crate::text::ansi::paint;
use crate::theme::Tone;
use crate::view::pager::StartPosition;
use crate::view::panel::ServerPanel;
use crate::view::panel::server_page::Tab;

/// How many lines of a log are shown.
const LOG_LINES: usize = 2000;

/// The keys listed by `/help`.
const KEYS: [(&str, &str); 17] = [
    ("Enter", "send"),
    ("Alt-Enter, Shift-Enter, Ctrl-J, \\ Enter", "new line"),
    ("Up, Down", "input history; Up also recalls queued input"),
    ("Ctrl-R", "search the input history"),
    ("Tab", "complete from the menu"),
    ("Esc", "stop the model or a call; close a dialog"),
    ("Ctrl-C", "clear the line; twice: quit"),
    ("Ctrl-D", "quit, on an empty line"),
    ("Ctrl-G, Ctrl-X Ctrl-E", "edit in your editor"),
    ("Shift-Tab", "permission mode: default, acceptEdits, plan"),
    ("Ctrl-O", "expand or collapse calls, results and reasoning"),
    ("Alt-Up, Alt-Down", "choose a call to expand"),
    ("PageUp, PageDown, Shift-Up, Shift-Down", "scroll"),
    ("Ctrl-Home, Ctrl-End", "to the beginning, to the end"),
    ("Ctrl-A E K U W Y, Alt-B F D", "move, cut and paste as in a shell"),
    ("Ctrl-_", "undo"),
    ("Ctrl-Z, Ctrl-L", "suspend the program; redraw"),
];

impl EffectRunner {
    /// Shows the text of a command.
    pub(crate) fn show_page(&mut self, command: SlashCommand) {
        let event = match command {
            SlashCommand::Help => text_event("help", help_text()),
            SlashCommand::Mcp(server) => self.server_panel(server.as_deref()),
            SlashCommand::Tools(server) => self.page("tools", CommandPage::Tools(server)),
            SlashCommand::Resources(server) => {
                self.page("resources", CommandPage::Resources(server))
            }
            SlashCommand::Plugin(id) => self.page("plugins", CommandPage::Plugins(id)),
            SlashCommand::Permissions => self.page("permissions", CommandPage::Permissions),
            SlashCommand::Model(_) => ScreenEvent::Note(self.model_text()),
            SlashCommand::Logs(name) => match name.or_else(|| self.only_server()) {
                Some(name) => return self.show_log(name),
                None => ScreenEvent::Error("write /logs SERVER".to_owned()),
            },
            SlashCommand::Doctor(name) => self.page("doctor", CommandPage::Doctor(name)),
            SlashCommand::Call { .. }
            | SlashCommand::Read { .. }
            | SlashCommand::Prompt { .. }
            | SlashCommand::Clear
            | SlashCommand::Ide(_)
            | SlashCommand::Registry(_)
            | SlashCommand::Quit => return,
        };
        self.queue_event(event);
    }

    fn page(&self, title: &str, page: CommandPage) -> ScreenEvent {
        let context = &self.context;
        let input = PageInput {
            host: &context.host,
            configuration: &context.configuration,
            call_context: &context.call_context,
            width: context.width,
        };
        match context.backend.page(page, input) {
            Ok(text) => text_event(title, text),
            Err(error) => error_event(&error),
        }
    }

    fn server_panel(&self, server: Option<&str>) -> ScreenEvent {
        let panel = ServerPanel::open(&self.context.host, Arc::new(self.configured_servers()));
        ScreenEvent::OpenOverlay(Box::new(match server {
            Some(server) => panel.opened_at(server, Tab::Overview),
            None => panel,
        }))
    }

    fn model_text(&self) -> String {
        let settings = &self.context.settings_file;
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
        let snapshot = self.context.host.snapshot();
        let mut names = snapshot.servers.keys();
        names.next().filter(|_| names.next().is_none()).cloned()
    }

    /// Shows the end of a server's log in a pager.
    pub(crate) fn show_log(&mut self, name: String) {
        let backend = self.context.backend.clone();
        self.spawn(async move {
            let title = format!("log of {}", printable(&name));
            match tokio::task::spawn_blocking(move || backend.log(name, LOG_LINES)).await {
                Ok(Ok(LogText::Empty(note))) => ScreenEvent::Note(note),
                Ok(Ok(LogText::Lines(text))) => {
                    ScreenEvent::Page { title, text, start: StartPosition::Bottom }
                }
                Ok(Err(error)) => error_event(&error),
                Err(_) => ScreenEvent::Error("the log could not be read".to_owned()),
            }
        });
    }
}

fn text_event(title: &str, text: String) -> ScreenEvent {
    ScreenEvent::Text { title: title.to_owned(), text }
}

fn help_text() -> String {
    let mut text = format!("{}\n", paint(Tone::Strong, "Commands"));
    for it in COMMANDS {
        let left = format!("/{} {}", it.name, it.usage);
        text.push_str(&format!("  {left:<30} {}\n", paint(Tone::Muted, it.about)));
    }
    let left = "/mcp__SERVER__PROMPT";
    text.push_str(&format!("  {left:<30} {}\n", paint(Tone::Muted, "a server's prompt")));
    let left = "@SERVER:URI";
    let about = "in a message: include a resource";
    text.push_str(&format!("  {left:<30} {}\n", paint(Tone::Muted, about)));
    text.push_str(&format!("\n{}\n", paint(Tone::Strong, "Keys")));
    for (keys, about) in KEYS {
        text.push_str(&format!("  {keys:<40} {}\n", paint(Tone::Muted, about)));
    }
    text
}
