//! The events that change the screen's state.

use std::sync::Arc;

use crossterm::event::KeyEvent;
use switchboard::host::Snapshot;
use switchboard::pool::Pool;
use switchboard_chat::conversation::event::ConversationEvent;

use crate::configured_servers::ConfiguredServers;
use crate::elicitor::ElicitorMessage;
use crate::state::active_model::ActiveModel;
use crate::state::prompt_invocation::PromptInvocation;
use crate::view::overlay::Overlay;
use crate::view::pager::StartPosition;

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
