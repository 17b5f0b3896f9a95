//! An entry of the transcript: its content, how much of it is shown and its lines for a width.

use ratatui::text::Line;

use crate::view::markdown::StreamedMarkdown;
use crate::view::transcript::detail::Detail;
use crate::view::transcript::tool_call::ToolCallCard;

/// Something that was said or done.
#[derive(Debug)]
pub(crate) enum EntryBody {
    /// The person said it.
    User(String),
    /// The model said it.
    Response(StreamedMarkdown),
    /// The model thought it.
    Thinking(String),
    /// A call.
    ToolCall(ToolCallCard),
    /// We say it; with our own colours.
    Note(String),
    /// We say that something went wrong, and what helps.
    Error(String),
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) body: EntryBody,
    /// Where it differs from all others.
    pub(crate) detail: Option<Detail>,
    pub(crate) layout: Option<EntryLayout>,
}

#[derive(Debug)]
pub(crate) struct EntryLayout {
    pub(crate) width: usize,
    pub(crate) detail: Detail,
    pub(crate) highlighter_version: u64,
    pub(crate) lines: Vec<Line<'static>>,
    /// How many of the lines stay when the text goes on.
    pub(crate) stable_lines: usize,
}

impl EntryBody {
    /// Can it be folded and unfolded?
    pub(crate) fn is_foldable(&self) -> bool {
        matches!(self, EntryBody::ToolCall(_) | EntryBody::Thinking(_))
    }

    /// Is there an empty line between `before` and this?
    pub(crate) fn needs_gap_after(&self, before: &EntryBody) -> bool {
        !matches!((before, self), (EntryBody::Note(_), EntryBody::Note(_)))
    }
}
