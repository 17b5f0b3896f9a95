//! The chat as it stands: what was said, what is being written, what lies over it. Decides what a key or an event means
//! and what is to be done; does nothing itself. `chat_frame` draws it, `deeds` does what it decides.

pub use crate::tui::update::conversation_events::{USER_CALL_PREFIX, model_error_text};
pub use crate::tui::update::keys::{HistorySearch, NO_MODEL};
pub use crate::tui::update::prompt_arguments::{PromptArgument, PromptInvocation};

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::KeyEvent;
use switchboard::config::permission::PermissionMode;
use switchboard::host::Snapshot;
use switchboard::pool::Pool;
use switchboard_chat::conversation::event::ConversationEvent;
use switchboard_chat::model::language_model::{LanguageModel, Usage};

use crate::chat_ui::launch::clean_text::sanitize;
use crate::tui::configured_servers::ConfiguredServers;
use crate::tui::elicitor::{DialogQueue, ElicitorMessage};
use crate::tui::input_history::InputHistory;
use crate::tui::slash_command::SlashCommand;
use crate::tui::theme::ScreenTheme;
use crate::tui::view::composer::Composer;
use crate::tui::view::composer::completion::CompletionMenu;
use crate::tui::view::overlay::{Notice, Overlay, OverlayOutcome, Redraw, ServerAction};
use crate::tui::view::pager::{Pager, StartPosition};
use crate::tui::view::transcript::TranscriptView;

/// How long the first of two keys that leave is remembered.
const QUIT_CONFIRM_WINDOW: Duration = Duration::from_secs(2);

/// Something that the chat hears.
pub enum ScreenEvent {
    /// A key.
    Key(KeyEvent),
    /// Text that was pasted.
    Paste(String),
    /// The window has another size, or has to be drawn for another reason.
    Redraw,
    /// Something happened in the conversation, or in a call of our own.
    Conversation(ConversationEvent),
    /// How servers are doing.
    Servers(Arc<Snapshot>),
    /// Which tools there are.
    Pool(Arc<Pool>),
    /// What is configured.
    Configured(Arc<ConfiguredServers>),
    /// A quarter of a second went by.
    Tick,
    /// Something to say.
    Note(String),
    /// Something went wrong.
    Error(String),
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
        start: StartPosition,
    },
    /// Something is being said to the model for the person.
    MessageQueued(String),
    /// Something lies over the chat from now on.
    OpenOverlay(Box<dyn Overlay>),
    /// A text that was written elsewhere.
    DraftReplaced(String),
    /// Which model answers.
    Model(Option<ActiveModel>),
    /// How many tokens the model looks at now.
    ContextTokens(u64),
    /// What was said last and waits was taken back, or could not be.
    MessageWithdrawn(Withdrawal),
    /// A server's prompt wants arguments.
    Prompt(PromptInvocation),
    /// What a server says an argument could be; and the text that it was asked with.
    Completions {
        /// The text.
        typed: String,
        /// What it could be.
        values: Vec<String>,
    },
    /// Somebody looks here, or elsewhere.
    Focus(WindowFocus),
    /// Somebody asks something, or wants to know no more.
    Elicitor(ElicitorMessage),
}

/// Where somebody looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowFocus {
    /// At this window, as far as we know.
    Focused,
    /// At another one.
    Unfocused,
}

/// Did something that was said come back?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal {
    /// Yes.
    Withdrawn,
    /// No: it is part of the conversation already.
    TooLate,
}

/// A model as the screen knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveModel {
    /// Its name.
    pub name: String,
    /// How many tokens it can look at.
    pub context_window: Option<u64>,
}

impl ActiveModel {
    /// What the screen knows of a model.
    pub fn from_model(model: &Arc<dyn LanguageModel>) -> ActiveModel {
        ActiveModel { name: model.name().to_owned(), context_window: model.context_window() }
    }
}

/// Something to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Say something to the model.
    SendMessage(String),
    /// Take back what was said last and waits.
    WithdrawMessage,
    /// Stop what is under way.
    Interrupt,
    /// Do what a slash command says.
    RunCommand(SlashCommand),
    /// Do something for a panel or a dialog.
    RunServerAction(ServerAction),
    /// Remember what was sent.
    SaveHistory(String),
    /// Let an editor have the text.
    OpenEditor(String),
    /// Stop the program, as a shell does.
    Suspend,
    /// Draw everything anew.
    Repaint,
    /// Make a sound: somebody looks elsewhere and is wanted.
    RingBell,
    /// Ask as much as this from now on.
    SetMode(PermissionMode),
    /// Get a server's prompt.
    GetPrompt(PromptInvocation),
    /// Ask a server what an argument could be.
    CompleteArgument {
        /// The prompt, with what was answered so far.
        prompt: PromptInvocation,
        /// What is typed of the argument.
        typed: String,
    },
}

/// The chat.
pub struct ScreenState {
    /// What was said.
    pub transcript: TranscriptView,
    /// What is being written.
    pub composer: Composer,
    /// What could stand at the cursor.
    pub completions: Option<CompletionMenu>,
    /// What was sent before.
    pub history: InputHistory,
    /// The search in it, while there is one.
    pub history_search: Option<HistorySearch>,
    /// The prompt whose arguments are asked for.
    pub prompt: Option<PromptInvocation>,
    /// What lies over the chat, the topmost last.
    pub overlays: Vec<Box<dyn Overlay>>,
    /// What is asked. Over everything else.
    pub dialogs: DialogQueue,
    /// What was said and waits to be heard.
    pub queued: VecDeque<String>,
    /// Since when the model is at work.
    pub turn_started: Option<Instant>,
    /// Who answers.
    pub model: Option<ActiveModel>,
    /// What it cost.
    pub usage: Usage,
    /// How many tokens the model looks at.
    pub context_tokens: u64,
    /// How much is asked.
    pub mode: PermissionMode,
    /// Where we are.
    pub folder: String,
    /// The servers.
    pub snapshot: Arc<Snapshot>,
    /// The tools.
    pub pool: Arc<Pool>,
    /// How it looks.
    pub theme: ScreenTheme,
    /// What the clock says.
    pub now: Instant,
    /// Where somebody looks. Terminals that do not say are looked at.
    focus: WindowFocus,
    /// When somebody began to leave.
    pub(crate) quit_requested: Option<Instant>,
    /// Was the first of two keys typed?
    pub(crate) has_ctrl_x: bool,
    /// Was the menu sent away?
    pub(crate) is_menu_dismissed: bool,
    /// Calls of our own under way.
    pub(crate) user_calls: usize,
}

impl ScreenState {
    /// A chat in which nothing was said.
    pub fn new(theme: ScreenTheme, folder: String, now: Instant) -> ScreenState {
        ScreenState {
            transcript: TranscriptView::new(now),
            composer: Composer::default(),
            completions: None,
            history: InputHistory::default(),
            history_search: None,
            prompt: None,
            overlays: Vec::new(),
            dialogs: DialogQueue::default(),
            queued: VecDeque::new(),
            turn_started: None,
            model: None,
            usage: Usage::default(),
            context_tokens: 0,
            mode: PermissionMode::Default,
            folder,
            snapshot: Arc::default(),
            pool: Arc::default(),
            theme,
            now,
            focus: WindowFocus::Focused,
            quit_requested: None,
            has_ctrl_x: false,
            is_menu_dismissed: false,
            user_calls: 0,
        }
    }

    /// Hears an event at a time.
    pub fn update(&mut self, event: ScreenEvent, now: Instant) -> Vec<Effect> {
        self.now = now;
        match event {
            ScreenEvent::Key(key) => self.on_key(key),
            ScreenEvent::Paste(text) => self.on_paste(&text),
            ScreenEvent::Conversation(event) => {
                let is_end = matches!(event, ConversationEvent::TurnEnded(_));
                self.on_conversation_event(event);
                if is_end { self.bell_if_unfocused() } else { Vec::new() }
            }
            ScreenEvent::Servers(snapshot) => {
                self.snapshot = snapshot.clone();
                self.notify(&Notice::Servers(snapshot));
                self.refresh_completions();
                Vec::new()
            }
            ScreenEvent::Pool(pool) => {
                self.pool = pool.clone();
                self.notify(&Notice::Pool(pool));
                self.refresh_completions();
                Vec::new()
            }
            ScreenEvent::Configured(configured_servers) => {
                self.notify(&Notice::Configured(configured_servers));
                Vec::new()
            }
            ScreenEvent::Tick => {
                self.notify(&Notice::Tick);
                Vec::new()
            }
            event @ (ScreenEvent::Redraw
            | ScreenEvent::Note(_)
            | ScreenEvent::Error(_)
            | ScreenEvent::Text { .. }
            | ScreenEvent::Page { .. }
            | ScreenEvent::MessageQueued(_)
            | ScreenEvent::OpenOverlay(_)
            | ScreenEvent::DraftReplaced(_)
            | ScreenEvent::Model(_)
            | ScreenEvent::ContextTokens(_)
            | ScreenEvent::MessageWithdrawn(_)
            | ScreenEvent::Prompt(_)
            | ScreenEvent::Completions { .. }
            | ScreenEvent::Focus(_)
            | ScreenEvent::Elicitor(_)) => self.apply(event),
        }
    }

    fn apply(&mut self, event: ScreenEvent) -> Vec<Effect> {
        match event {
            ScreenEvent::Note(text) => {
                self.notify_first_line(&text);
                self.transcript.push_note(&text);
            }
            ScreenEvent::Error(text) => {
                self.notify_first_line(&text);
                self.transcript.push_error(&text);
            }
            ScreenEvent::Text { title, text } => self.show_text(&title, &text),
            ScreenEvent::Page { title, text, start: begin } => {
                self.overlays.push(Box::new(Pager::new(&title, &text, begin)));
            }
            ScreenEvent::MessageQueued(text) => self.queued.push_back(text),
            ScreenEvent::OpenOverlay(overlay) => self.overlays.push(overlay),
            ScreenEvent::DraftReplaced(text) => {
                self.composer.replace(&text);
                self.draft_changed();
            }
            ScreenEvent::Model(model) => self.model = model,
            ScreenEvent::ContextTokens(tokens) => self.context_tokens = tokens,
            ScreenEvent::MessageWithdrawn(Withdrawal::Withdrawn) => {
                if let Some(text) = self.queued.pop_back() {
                    self.composer.replace(&text);
                }
            }
            ScreenEvent::Prompt(asked) => return self.start_prompt(asked),
            ScreenEvent::Completions { typed, values } => self.set_completions(&typed, values),
            ScreenEvent::Focus(focus) => self.focus = focus,
            ScreenEvent::Elicitor(ElicitorMessage::Request(question)) => {
                self.dialogs.push(question);
                return self.bell_if_unfocused();
            }
            ScreenEvent::Elicitor(ElicitorMessage::Note(text)) => {
                self.transcript.push_note(&sanitize(&text))
            }
            ScreenEvent::Elicitor(ElicitorMessage::Withdrawn) => {
                let (Redraw::Yes | Redraw::No) = self.dialogs.remove_withdrawn();
            }
            ScreenEvent::MessageWithdrawn(Withdrawal::TooLate)
            | ScreenEvent::Redraw
            | ScreenEvent::Key(_)
            | ScreenEvent::Paste(_)
            | ScreenEvent::Conversation(_)
            | ScreenEvent::Servers(_)
            | ScreenEvent::Pool(_)
            | ScreenEvent::Configured(_)
            | ScreenEvent::Tick => {}
        }
        Vec::new()
    }

    /// Does anything move, so that it has to be drawn again and again?
    pub fn is_animating(&self) -> bool {
        self.turn_started.is_some()
            || self.user_calls > 0
            || self.transcript.is_animating()
            || !self.overlays.is_empty()
            || !self.dialogs.is_empty()
            || self.is_quit_pending()
    }

    /// Is the model at work, or a call of our own?
    pub fn is_busy(&self) -> bool {
        self.turn_started.is_some() || self.user_calls > 0
    }

    /// Would the same key leave now?
    pub fn is_quit_pending(&self) -> bool {
        self.quit_requested
            .is_some_and(|it| self.now.saturating_duration_since(it) < QUIT_CONFIRM_WINDOW)
    }

    /// Whoever looks elsewhere hears that something is wanted or done.
    fn bell_if_unfocused(&self) -> Vec<Effect> {
        match self.focus {
            WindowFocus::Focused => Vec::new(),
            WindowFocus::Unfocused => vec![Effect::RingBell],
        }
    }

    /// What fills less than the window is part of the transcript.
    fn show_text(&mut self, title: &str, text: &str) {
        match text.lines().count() < self.transcript.page_size() {
            true => self.transcript.push_note(text),
            false => self.overlays.push(Box::new(Pager::new(title, text, StartPosition::Top))),
        }
    }

    /// What lies over the chat hides what is said there, so its first line is said above too.
    fn notify_first_line(&mut self, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        self.notify(&Notice::ActionDone(line.to_owned()));
    }

    fn notify(&mut self, notice: &Notice) {
        for overlay in &mut self.overlays {
            let (Redraw::Yes | Redraw::No) = overlay.on_notice(notice);
        }
        let (Redraw::Yes | Redraw::No) = self.dialogs.on_notice(notice);
    }

    /// What became of something that lies over the chat.
    pub(crate) fn apply_outcome(&mut self, outcome: OverlayOutcome) -> Vec<Effect> {
        match outcome {
            OverlayOutcome::Stay => Vec::new(),
            OverlayOutcome::Close => {
                self.overlays.pop();
                Vec::new()
            }
            OverlayOutcome::Run(action) => vec![Effect::RunServerAction(action)],
        }
    }

    fn on_paste(&mut self, text: &str) -> Vec<Effect> {
        if !self.dialogs.is_empty() {
            let outcome = self.dialogs.on_paste(text, self.now);
            return dialog_effects(outcome);
        }
        if let Some(overlay) = self.overlays.last_mut() {
            let outcome = overlay.on_paste(text);
            return self.apply_outcome(outcome);
        }
        self.composer.paste(text);
        self.draft_changed();
        Vec::new()
    }
}

/// What is to be done after a dialog took a key. It has gone by itself.
pub(crate) fn dialog_effects(outcome: OverlayOutcome) -> Vec<Effect> {
    match outcome {
        OverlayOutcome::Stay | OverlayOutcome::Close => Vec::new(),
        OverlayOutcome::Run(action) => vec![Effect::RunServerAction(action)],
    }
}
