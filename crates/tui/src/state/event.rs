//! The events that change the screen's state.

use std::sync::Arc;

use crossterm::event::KeyEvent;
use switchboard::Snapshot;
use switchboard::pool::Pool;
use switchboard_chat::conversation::event::ConversationEvent;

use crate::configured_servers::ConfiguredServers;
use crate::elicitor::ElicitorMessage;
use crate::state::active_model::ActiveModel;
use crate::state::prompt_invocation::PromptInvocation;
use crate::view::overlay::Overlay;
use crate::view::pager::StartPosition;

/// An event.
pub enum ScreenEvent {
    /// A key press.
    Key(KeyEvent),
    /// Pasted text.
    Paste(String),
    /// The screen has to be drawn again, after a resize for example.
    Redraw,
    /// An event of the conversation, or of a call by the user.
    Conversation(ConversationEvent),
    /// The state of the servers changed.
    Servers(Arc<Snapshot>),
    /// The tools changed.
    Pool(Arc<Pool>),
    /// The configuration changed.
    Configured(Arc<ConfiguredServers>),
    /// The tick for animations, four times a second.
    Tick,
    /// A note to show.
    Note(String),
    /// An error to show.
    Error(String),
    /// The text of a command: a note where it is short, else in a pager.
    Text {
        /// Its title.
        title: String,
        /// The text.
        text: String,
    },
    /// A text in a pager.
    Page {
        /// Its title.
        title: String,
        /// The text.
        text: String,
        /// The position it opens at.
        start: StartPosition,
    },
    /// A message was queued on behalf of the user.
    MessageQueued(String),
    /// An overlay to open.
    OpenOverlay(Box<dyn Overlay>),
    /// The draft as it comes back from the editor.
    DraftReplaced(String),
    /// The model changed.
    Model(Option<ActiveModel>),
    /// The size of the context changed, in tokens.
    ContextTokens(u64),
    /// The last queued message was withdrawn, or was not.
    MessageWithdrawn(Withdrawal),
    /// A server's prompt needs arguments.
    Prompt(PromptInvocation),
    /// Completions for an argument arrived.
    Completions {
        /// The text.
        typed: String,
        /// The completions.
        values: Vec<String>,
    },
    /// The terminal window gained or lost the focus.
    Focus(WindowFocus),
    /// The selection in the IDE changed: how many lines of which file.
    IdeSelection(Option<String>),
    /// A mention of the IDE, to be typed into the input.
    IdeMention(String),
    /// A message of the elicitor.
    Elicitor(ElicitorMessage),
}

/// Whether the terminal window has the focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowFocus {
    /// It has, or the terminal does not report it.
    Focused,
    /// Another window has it.
    Unfocused,
}

/// Whether a queued message was withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal {
    /// It was.
    Withdrawn,
    /// It is part of the conversation already.
    TooLate,
}
