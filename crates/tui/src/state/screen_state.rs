//! The state of the screen: the conversation, the draft, the overlays and dialogs, what is running. `update` changes it,
//! `frame` draws it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::Snapshot;
use switchboard::config::permission::PermissionMode;
use switchboard::pool::Pool;
use switchboard_chat::channel::ChannelNotices;
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

/// How long the first Ctrl-C counts towards leaving.
const QUIT_CONFIRM_WINDOW: Duration = Duration::from_secs(2);

/// A search in the input history.
#[derive(Debug, Default)]
pub struct HistorySearch {
    /// The text to find.
    pub text: String,
    /// How many matches are skipped.
    pub skipped: usize,
}

/// The state of the screen.
pub struct ScreenState {
    /// The conversation.
    pub transcript: TranscriptView,
    /// The draft.
    pub composer: Composer,
    /// The completion menu, while it is open.
    pub completions: Option<CompletionMenu>,
    /// The input history.
    pub history: InputHistory,
    /// The search in it, while it is open.
    pub history_search: Option<HistorySearch>,
    /// The prompt whose arguments are being entered.
    pub prompt: Option<PromptInvocation>,
    /// The open overlays, the topmost last.
    pub overlays: Vec<Box<dyn Overlay>>,
    /// The dialogs, which lie over everything else.
    pub dialogs: DialogQueue,
    /// Messages that the conversation has not accepted yet.
    pub queued: VecDeque<String>,
    /// When the running turn started.
    pub turn_started: Option<Instant>,
    /// The model.
    pub model: Option<ActiveModel>,
    /// The tokens used so far.
    pub usage: Usage,
    /// The size of the context, in tokens.
    pub context_tokens: u64,
    /// The permission mode.
    pub mode: PermissionMode,
    /// What is selected in the IDE: how many lines of which file.
    pub ide_selection: Option<String>,
    /// The working folder, as it is displayed.
    pub folder: String,
    /// What was said about channels.
    pub(crate) channel_notices: ChannelNotices,
    /// The servers.
    pub snapshot: Arc<Snapshot>,
    /// The tools.
    pub pool: Arc<Pool>,
    /// The theme.
    pub theme: ScreenTheme,
    /// The time of the last event.
    pub now: Instant,
    /// Whether the terminal window has the focus.
    pub(crate) focus: WindowFocus,
    /// When Ctrl-C was pressed for the first time.
    pub(crate) quit_requested: Option<Instant>,
    /// Was the last key Ctrl-X?
    pub(crate) has_ctrl_x: bool,
    /// Did the user close the completion menu?
    pub(crate) is_menu_dismissed: bool,
    /// The number of the user's running calls.
    pub(crate) user_calls: usize,
}

impl ScreenState {
    /// The state of an empty conversation.
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
            ide_selection: None,
            folder,
            channel_notices: ChannelNotices::default(),
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

    /// Does anything have to be redrawn on every tick?
    pub fn is_animating(&self) -> bool {
        self.turn_started.is_some()
            || self.user_calls > 0
            || self.transcript.is_animating()
            || !self.overlays.is_empty()
            || !self.dialogs.is_empty()
            || self.is_quit_pending()
    }

    /// Is a turn or a call of the user running?
    pub fn is_busy(&self) -> bool {
        self.turn_started.is_some() || self.user_calls > 0
    }

    /// Would Ctrl-C leave now?
    pub fn is_quit_pending(&self) -> bool {
        self.quit_requested
            .is_some_and(|it| self.now.saturating_duration_since(it) < QUIT_CONFIRM_WINDOW)
    }
}
