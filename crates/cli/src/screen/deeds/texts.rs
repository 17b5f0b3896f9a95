//! The slash commands that show a text. What plain commands say is said by the same code.

use std::sync::Arc;

use switchboard::config::cascade::Server;
use switchboard::config::shown::printable;
use switchboard::pool::tool::Tool;

use super::{Deeds, fault};
use crate::commands::{doctor, logs, permissions, resources, tools};
use crate::listing;
use crate::live;
use crate::outcome::{Done, Failure};
use crate::screen::chat::Event;
use crate::screen::page_view::Begin;
use crate::screen::panel::Panel;
use crate::screen::panel::roster::Roster;
use crate::screen::panel::server_sheet::Tab;
use crate::screen::slash::{COMMANDS, Slash};
use crate::session::Session;
use crate::style::{Meaning, paint};

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

impl Deeds {
    /// Shows the text of a command.
    pub(super) async fn text(&mut self, slash: Slash) {
        let event = match slash {
            Slash::Help => text("help", &Done::text(help())),
            Slash::Mcp(server) => self.servers(server.as_deref()),
            Slash::Tools(server) => self.tools(server.as_deref()),
            Slash::Resources(server) => self.resources(server.as_deref()),
            Slash::Permissions => {
                text("permissions", &permissions::list(&self.session, &self.desk.rules.now()))
            }
            Slash::Model(_) => Event::Note(self.model_text()),
            Slash::Logs(name) => {
                let session = self.session.clone();
                let name = name.or_else(|| self.only_server());
                match name {
                    Some(name) => return self.beside(log(session, name)),
                    None => Event::Fault("write /logs SERVER".to_owned()),
                }
            }
            Slash::Doctor(name) => self.doctor(name.as_deref()),
            Slash::Call { .. }
            | Slash::Read { .. }
            | Slash::Prompt { .. }
            | Slash::Clear
            | Slash::Quit => return,
        };
        self.tell(event);
    }

    fn servers(&self, server: Option<&str>) -> Event {
        let roster = Roster::of(&self.session, &self.configuration);
        let panel = Panel::open(&self.host, Arc::new(roster));
        Event::Over(Box::new(match server {
            Some(server) => panel.at(server, Tab::Overview),
            None => panel,
        }))
    }

    fn tools(&self, server: Option<&str>) -> Event {
        let pool = self.host.pool();
        let is_meant = |tool: &&Tool| server.is_none_or(|it| tool.server == it);
        let meant: Vec<&Tool> = pool.tools().iter().map(AsRef::as_ref).filter(is_meant).collect();
        let done = Done::text(tools::as_text(&self.session, &meant));
        text("tools", &done.note(tools::quarantined(&pool)))
    }

    fn resources(&self, server: Option<&str>) -> Event {
        let mut snapshot = (*self.host.snapshot()).clone();
        if let Some(server) = server {
            snapshot.servers.retain(|name, _| name == server);
        }
        let said = listing::as_text(&self.session, &snapshot, &resources::SHAPES);
        text("resources", &Done::text(said))
    }

    fn doctor(&self, name: Option<&str>) -> Event {
        match self.winners(name) {
            Err(failure) => fault(&failure),
            Ok(servers) => {
                let snapshot = self.host.snapshot();
                let done =
                    doctor::findings(&self.session, &self.configuration, &servers, &snapshot);
                text("doctor", &done)
            }
        }
    }

    fn winners(&self, name: Option<&str>) -> Result<Vec<&Server>, Failure> {
        let names: Vec<String> = name.map(str::to_owned).into_iter().collect();
        live::in_play(&self.session, &self.configuration, &names)
    }

    fn model_text(&self) -> String {
        let settings = self.session.shown_path(&self.session.machine.places.user_settings());
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
pub async fn log(session: Session, name: String) -> Event {
    let title = format!("log of {}", printable(&name));
    let read = move || {
        let arguments = logs::Logs { name, follow: false, lines: LOG_LINES };
        logs::run(&arguments, &session)
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(done)) if done.text.is_empty() => Event::Note(done.notes),
        Ok(Ok(done)) => Event::Page { title, text: done.text, begin: Begin::Bottom },
        Ok(Err(failure)) => fault(&failure),
        Err(_) => Event::Fault("the log could not be read".to_owned()),
    }
}

fn text(title: &str, done: &Done) -> Event {
    let text = format!("{}{}", done.text, done.notes);
    Event::Text { title: title.to_owned(), text }
}

fn help() -> String {
    let mut text = format!("{}\n", paint(Meaning::Strong, "Commands"));
    for it in COMMANDS {
        let left = format!("/{} {}", it.name, it.usage);
        text.push_str(&format!("  {left:<30} {}\n", paint(Meaning::Faint, it.about)));
    }
    let left = "/mcp__SERVER__PROMPT";
    text.push_str(&format!("  {left:<30} {}\n", paint(Meaning::Faint, "a server's prompt")));
    let left = "@SERVER:URI";
    let about = "in a message: what the server has there";
    text.push_str(&format!("  {left:<30} {}\n", paint(Meaning::Faint, about)));
    text.push_str(&format!("\n{}\n", paint(Meaning::Strong, "Keys")));
    for (keys, about) in KEYS {
        text.push_str(&format!("  {keys:<40} {}\n", paint(Meaning::Faint, about)));
    }
    text
}
