//! The chat as it stands: what was said, what is being written, what lies over it. Decides what a key or an event means
//! and what is to be done; does nothing itself. `chat_frame` draws it, `deeds` does what it decides.

mod happenings;
mod prompt_arguments;
mod recall;
mod typing;

pub use happenings::{OWN_CALL, model_failure};
pub use prompt_arguments::{Argument, PromptAsked};
pub use typing::{NO_MODEL, Searching};

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::KeyEvent;
use switchboard::config::permission::Mode;
use switchboard::engine::Snapshot;
use switchboard::pool::Pool;
use switchboard_chat::happening::Happening;
use switchboard_chat::language_model::{LanguageModel, Usage};

use crate::screen::clean_text::clean;
use crate::screen::composer::Composer;
use crate::screen::history::History;
use crate::screen::look::Look;
use crate::screen::menu::Menu;
use crate::screen::overlay::{Deed, News, Overlay, Reaction, Redraw};
use crate::screen::page_view::{Begin, PageView};
use crate::screen::panel::roster::Roster;
use crate::screen::questions::{Arrival, Queue};
use crate::screen::slash::Slash;
use crate::screen::transcript_view::Transcript;

/// How long the first of two keys that leave is remembered.
const TWICE_WITHIN: Duration = Duration::from_secs(2);

/// Something that the chat hears.
pub enum Event {
    /// A key.
    Key(KeyEvent),
    /// Text that was pasted.
    Paste(String),
    /// The window has another size, or has to be drawn for another reason.
    Drawn,
    /// Something happened in the conversation, or in a call of our own.
    Happened(Happening),
    /// How servers are doing.
    Servers(Arc<Snapshot>),
    /// Which tools there are.
    Pool(Arc<Pool>),
    /// What is configured.
    Configured(Arc<Roster>),
    /// A quarter of a second went by.
    Tick,
    /// Something to say.
    Note(String),
    /// Something went wrong.
    Fault(String),
    /// A text of a command: a note where it is short, else a page of its own.
    Text {
        /// What it is.
        title: String,
        /// The text.
        text: String,
    },
    /// A text on a page of its own.
    Page {
        /// What it is.
        title: String,
        /// The text.
        text: String,
        /// Where it is looked at first.
        begin: Begin,
    },
    /// Something is being said to the model for the person.
    Said(String),
    /// Something lies over the chat from now on.
    Over(Box<dyn Overlay>),
    /// A text that was written elsewhere.
    Composed(String),
    /// Which model answers.
    Model(Option<ModelSeen>),
    /// How many tokens the model looks at now.
    Context(u64),
    /// What was said last and waits was taken back, or could not be.
    TakenBack(Returned),
    /// A server's prompt wants arguments.
    Prompt(PromptAsked),
    /// What a server says an argument could be; and the text that it was asked with.
    Completed {
        /// The text.
        typed: String,
        /// What it could be.
        values: Vec<String>,
    },
    /// Somebody looks here, or elsewhere.
    Focus(Focus),
    /// Somebody asks something, or wants to know no more.
    Arrived(Arrival),
}

/// Where somebody looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Focus {
    /// At this window, as far as we know.
    Here,
    /// At another one.
    Elsewhere,
}

/// Did something that was said come back?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// Yes.
    Yes,
    /// No: it is part of the conversation already.
    No,
}

/// A model as the screen knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSeen {
    /// Its name.
    pub name: String,
    /// How many tokens it can look at.
    pub window: Option<u64>,
}

impl ModelSeen {
    /// What the screen knows of a model.
    pub fn of(model: &Arc<dyn LanguageModel>) -> ModelSeen {
        ModelSeen { name: model.name().to_owned(), window: model.window() }
    }
}

/// Something to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Act {
    /// Leave.
    Quit,
    /// Say something to the model.
    Say(String),
    /// Take back what was said last and waits.
    TakeBack,
    /// Stop what is under way.
    Interrupt,
    /// Do what a slash command says.
    Run(Slash),
    /// Do something for a panel or a dialog.
    Do(Deed),
    /// Remember what was sent.
    Remember(String),
    /// Let an editor have the text.
    Edit(String),
    /// Stop the program, as a shell does.
    Suspend,
    /// Draw everything anew.
    Repaint,
    /// Make a sound: somebody looks elsewhere and is wanted.
    Ring,
    /// Ask as much as this from now on.
    SetMode(Mode),
    /// Get a server's prompt.
    GetPrompt(PromptAsked),
    /// Ask a server what an argument could be.
    Complete {
        /// The prompt, with what was answered so far.
        prompt: PromptAsked,
        /// What is typed of the argument.
        typed: String,
    },
}

/// The chat.
pub struct Chat {
    /// What was said.
    pub transcript: Transcript,
    /// What is being written.
    pub composer: Composer,
    /// What could stand at the cursor.
    pub menu: Option<Menu>,
    /// What was sent before.
    pub history: History,
    /// The search in it, while there is one.
    pub searching: Option<Searching>,
    /// The prompt whose arguments are asked for.
    pub asking: Option<PromptAsked>,
    /// What lies over the chat, the topmost last.
    pub overlays: Vec<Box<dyn Overlay>>,
    /// What is asked. Over everything else.
    pub questions: Queue,
    /// What was said and waits to be heard.
    pub queued: VecDeque<String>,
    /// Since when the model is at work.
    pub turn: Option<Instant>,
    /// Who answers.
    pub model: Option<ModelSeen>,
    /// What it cost.
    pub used: Usage,
    /// How many tokens the model looks at.
    pub context: u64,
    /// How much is asked.
    pub mode: Mode,
    /// Where we are.
    pub folder: String,
    /// The servers.
    pub snapshot: Arc<Snapshot>,
    /// The tools.
    pub pool: Arc<Pool>,
    /// How it looks.
    pub look: Look,
    /// What the clock says.
    pub now: Instant,
    /// Where somebody looks. Terminals that do not say are looked at.
    focus: Focus,
    /// When somebody began to leave.
    leaving: Option<Instant>,
    /// Was the first of two keys typed?
    has_prefix: bool,
    /// Was the menu sent away?
    is_menu_closed: bool,
    /// Calls of our own under way.
    calls: usize,
}

impl Chat {
    /// A chat in which nothing was said.
    pub fn new(look: Look, folder: String, now: Instant) -> Chat {
        Chat {
            transcript: Transcript::new(now),
            composer: Composer::default(),
            menu: None,
            history: History::default(),
            searching: None,
            asking: None,
            overlays: Vec::new(),
            questions: Queue::default(),
            queued: VecDeque::new(),
            turn: None,
            model: None,
            used: Usage::default(),
            context: 0,
            mode: Mode::Default,
            folder,
            snapshot: Arc::default(),
            pool: Arc::default(),
            look,
            now,
            focus: Focus::Here,
            leaving: None,
            has_prefix: false,
            is_menu_closed: false,
            calls: 0,
        }
    }

    /// Hears an event at a time.
    pub fn on(&mut self, event: Event, now: Instant) -> Vec<Act> {
        self.now = now;
        match event {
            Event::Key(key) => self.key(key),
            Event::Paste(text) => self.paste(&text),
            Event::Happened(happening) => {
                let is_end = matches!(happening, Happening::TurnEnded(_));
                self.happened(happening);
                if is_end { self.ring() } else { Vec::new() }
            }
            Event::Servers(snapshot) => {
                self.snapshot = snapshot.clone();
                self.tell(&News::Servers(snapshot));
                self.look_up();
                Vec::new()
            }
            Event::Pool(pool) => {
                self.pool = pool.clone();
                self.tell(&News::Pool(pool));
                self.look_up();
                Vec::new()
            }
            Event::Configured(roster) => {
                self.tell(&News::Configured(roster));
                Vec::new()
            }
            Event::Tick => {
                self.tell(&News::Tick);
                Vec::new()
            }
            event @ (Event::Drawn
            | Event::Note(_)
            | Event::Fault(_)
            | Event::Text { .. }
            | Event::Page { .. }
            | Event::Said(_)
            | Event::Over(_)
            | Event::Composed(_)
            | Event::Model(_)
            | Event::Context(_)
            | Event::TakenBack(_)
            | Event::Prompt(_)
            | Event::Completed { .. }
            | Event::Focus(_)
            | Event::Arrived(_)) => self.heard(event),
        }
    }

    fn heard(&mut self, event: Event) -> Vec<Act> {
        match event {
            Event::Note(text) => {
                self.tell_first(&text);
                self.transcript.note(&text);
            }
            Event::Fault(text) => {
                self.tell_first(&text);
                self.transcript.fault(&text);
            }
            Event::Text { title, text } => self.show(&title, &text),
            Event::Page { title, text, begin } => {
                self.overlays.push(Box::new(PageView::new(&title, &text, begin)));
            }
            Event::Said(text) => self.queued.push_back(text),
            Event::Over(overlay) => self.overlays.push(overlay),
            Event::Composed(text) => {
                self.composer.replace(&text);
                self.typed();
            }
            Event::Model(model) => self.model = model,
            Event::Context(tokens) => self.context = tokens,
            Event::TakenBack(Returned::Yes) => {
                if let Some(text) = self.queued.pop_back() {
                    self.composer.replace(&text);
                }
            }
            Event::Prompt(asked) => return self.begin_asking(asked),
            Event::Completed { typed, values } => self.complete(&typed, values),
            Event::Focus(focus) => self.focus = focus,
            Event::Arrived(Arrival::Asked(question)) => {
                self.questions.take(question);
                return self.ring();
            }
            Event::Arrived(Arrival::Note(text)) => self.transcript.note(&clean(&text)),
            Event::Arrived(Arrival::Withdrawn) => {
                let (Redraw::Yes | Redraw::No) = self.questions.tidy();
            }
            Event::TakenBack(Returned::No)
            | Event::Drawn
            | Event::Key(_)
            | Event::Paste(_)
            | Event::Happened(_)
            | Event::Servers(_)
            | Event::Pool(_)
            | Event::Configured(_)
            | Event::Tick => {}
        }
        Vec::new()
    }

    /// Does anything move, so that it has to be drawn again and again?
    pub fn is_moving(&self) -> bool {
        self.turn.is_some()
            || self.calls > 0
            || self.transcript.is_moving()
            || !self.overlays.is_empty()
            || !self.questions.is_empty()
            || self.is_leaving()
    }

    /// Is the model at work, or a call of our own?
    pub fn is_busy(&self) -> bool {
        self.turn.is_some() || self.calls > 0
    }

    /// Would the same key leave now?
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some_and(|it| self.now.saturating_duration_since(it) < TWICE_WITHIN)
    }

    /// Whoever looks elsewhere hears that something is wanted or done.
    fn ring(&self) -> Vec<Act> {
        match self.focus {
            Focus::Here => Vec::new(),
            Focus::Elsewhere => vec![Act::Ring],
        }
    }

    /// What fills less than the window is part of the transcript.
    fn show(&mut self, title: &str, text: &str) {
        match text.lines().count() < self.transcript.page() {
            true => self.transcript.note(text),
            false => self.overlays.push(Box::new(PageView::new(title, text, Begin::Top))),
        }
    }

    /// What lies over the chat hides what is said there, so its first line is said above too.
    fn tell_first(&mut self, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        self.tell(&News::Done(line.to_owned()));
    }

    fn tell(&mut self, news: &News) {
        for overlay in &mut self.overlays {
            let (Redraw::Yes | Redraw::No) = overlay.hear(news);
        }
        let (Redraw::Yes | Redraw::No) = self.questions.hear(news);
    }

    /// What became of something that lies over the chat.
    fn react(&mut self, reaction: Reaction) -> Vec<Act> {
        match reaction {
            Reaction::Stay => Vec::new(),
            Reaction::Close => {
                self.overlays.pop();
                Vec::new()
            }
            Reaction::Do(deed) => vec![Act::Do(deed)],
        }
    }

    fn paste(&mut self, text: &str) -> Vec<Act> {
        if !self.questions.is_empty() {
            let reaction = self.questions.paste(text, self.now);
            return answered(reaction);
        }
        if let Some(overlay) = self.overlays.last_mut() {
            let reaction = overlay.paste(text);
            return self.react(reaction);
        }
        self.composer.paste(text);
        self.typed();
        Vec::new()
    }
}

/// What is to be done after a dialog took a key. It has gone by itself.
fn answered(reaction: Reaction) -> Vec<Act> {
    match reaction {
        Reaction::Stay | Reaction::Close => Vec::new(),
        Reaction::Do(deed) => vec![Act::Do(deed)],
    }
}

#[cfg(test)]
mod tests;
