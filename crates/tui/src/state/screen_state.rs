//! The state of the screen: the conversation, the draft, the overlays and dialogs, what is running. `update` changes it,
//! `frame` draws it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::config::permission::PermissionMode;
use switchboard::host::Snapshot;
use switchboard::pool::Pool;
use switchboard_chat::model::language_model::Usage;

use crate::input_history::InputHistory;
use crate::state::active_model::ActiveModel;
use crate::state::event::WindowFocus;
use crate::state::prompt_invocation::PromptInvocation;
use crate::theme::ScreenTheme;
use crate::view::composer::Composer;
use crate::view::composer::completion::CompletionMenu;
use crate::view::dialog::queue::DialogQueue;
use crate::view::overlay::Overlay;
use crate::view::transcript::TranscriptView;

/// How long the first of two keys that leave is remembered.
const QUIT_CONFIRM_WINDOW: Duration = Duration::from_secs(2);

/// A search in the input history.
#[derive(Debug, Default)]
pub struct HistorySearch {
    /// What is looked for.
    pub text: String,
    /// How many that fit were passed over.
    pub skipped: usize,
}

/// The state of the screen.
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
    pub(crate) focus: WindowFocus,
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
}
