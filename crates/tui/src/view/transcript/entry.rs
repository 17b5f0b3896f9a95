//! An entry of the transcript: its content, how much of it is shown and its lines for a width.

use ratatui::text::Line;

use crate::view::markdown::StreamedMarkdown;
use crate::view::transcript::detail::Detail;
use crate::view::transcript::tool_call::ToolCallCard;

/// The content of an entry.
#[derive(Debug)]
pub(crate) enum EntryBody {
    /// A message of the user.
    User(String),
    /// A message of a channel, on one line.
    ChannelMessage(String),
    /// A response of the model.
    Response(StreamedMarkdown),
    /// The model's thinking.
    Thinking(String),
    /// A tool call.
    ToolCall(ToolCallCard),
    /// A note, with SGR colours.
    Note(String),
    /// A note about a model request that is retried, with SGR colours.
    RetryNote(String),
    /// An error with its hint.
    Error(String),
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) body: EntryBody,
    /// Its own level of detail, where it differs from the transcript's.
    pub(crate) detail: Option<Detail>,
    pub(crate) layout: Option<EntryLayout>,
}

#[derive(Debug)]
pub(crate) struct EntryLayout {
    pub(crate) width: usize,
    pub(crate) detail: Detail,
    pub(crate) highlighter_version: u64,
    pub(crate) lines: Vec<Line<'static>>,
    /// How many of the lines stay when more text arrives.
    pub(crate) stable_lines: usize,
}

impl EntryBody {
    /// Can it be folded and unfolded?
    pub(crate) fn is_foldable(&self) -> bool {
        matches!(self, EntryBody::ToolCall(_) | EntryBody::Thinking(_))
    }

    fn is_note(&self) -> bool {
        matches!(self, EntryBody::Note(_) | EntryBody::RetryNote(_))
    }

    /// Is there an empty line between `before` and this?
    pub(crate) fn needs_gap_after(&self, before: &EntryBody) -> bool {
        !(before.is_note() && self.is_note())
    }
}
