//! The conversation as lines. The lines of an entry are laid out once per width and kept; entries outside the viewport
//! are not laid out.

pub mod detail;
mod entry;
mod entry_lines;
pub(crate) mod tool_call;
mod viewport;

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use switchboard_chat::conversation::event::{CallOutcome, ToolCallView};

use crate::theme::{GlyphSet, Palette, ScreenTheme, Tone};
use crate::view::markdown;
use crate::view::markdown::StreamedMarkdown;
use crate::view::transcript::tool_call::ToolCallCard;
use switchboard::config::display::{sanitize, sanitize_line};

use detail::Detail;
use entry::{Entry, EntryBody, EntryLayout};
use entry_lines::lines_of;
use viewport::{LinePosition, Viewport};

/// The conversation on the screen.
#[derive(Debug)]
pub struct TranscriptView {
    entries: Vec<Entry>,
    viewport: Viewport,
    detail: Detail,
    /// The selected entry.
    selected: Option<usize>,
    width: usize,
    height: usize,
    theme: ScreenTheme,
    now: Instant,
}

impl TranscriptView {
    /// An empty transcript.
    pub fn new(now: Instant) -> TranscriptView {
        TranscriptView {
            entries: Vec::new(),
            viewport: Viewport::Bottom,
            detail: Detail::Folded,
            selected: None,
            width: 80,
            height: 20,
            theme: ScreenTheme { palette: Palette::Plain, glyphs: GlyphSet::Ascii },
            now,
        }
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.viewport = Viewport::Bottom;
        self.selected = None;
    }

    /// Adds a message of the user.
    pub fn push_user(&mut self, text: &str) {
        self.push(EntryBody::User(sanitize(text)));
    }

    /// Adds a message of a channel.
    pub fn push_channel_message(&mut self, line: &str) {
        self.push(EntryBody::ChannelMessage(sanitize_line(line)));
    }

    /// Adds a note; the text may hold SGR colours.
    pub fn push_note(&mut self, text: &str) {
        self.push(EntryBody::Note(text.to_owned()));
    }

    /// Shows a note about a request that is retried, in place of the last such note.
    pub fn set_retry_note(&mut self, text: &str) {
        if let Some(Entry { body: EntryBody::RetryNote(_), .. }) = self.entries.last() {
            self.entries.pop();
        }
        self.push(EntryBody::RetryNote(text.to_owned()));
        self.clamp_viewport();
    }

    /// Adds an error; the text may hold SGR colours.
    pub fn push_error(&mut self, text: &str) {
        self.push(EntryBody::Error(text.to_owned()));
    }

    /// Appends to the model's response.
    pub fn push_response(&mut self, text: &str) {
        if let Some(Entry { body: EntryBody::Response(answer), .. }) = self.entries.last_mut() {
            answer.push(text);
            return;
        }
        let mut answer = StreamedMarkdown::default();
        answer.push(text);
        self.push(EntryBody::Response(answer));
    }

    /// Appends to the model's thinking.
    pub fn push_thinking(&mut self, text: &str) {
        if let Some(Entry { body: EntryBody::Thinking(thought), layout, .. }) =
            self.entries.last_mut()
        {
            thought.push_str(text);
            *layout = None;
            return;
        }
        self.push(EntryBody::Thinking(text.to_owned()));
    }

    /// Removes the unfinished response before a retry.
    pub fn discard_response(&mut self) {
        while let Some(Entry { body: EntryBody::Response(_) | EntryBody::Thinking(_), .. }) =
            self.entries.last()
        {
            self.entries.pop();
        }
        self.clamp_viewport();
    }

    /// Adds a running call.
    pub fn push_call(&mut self, call: ToolCallView, now: Instant) {
        self.push(EntryBody::ToolCall(ToolCallCard::new(call, now)));
    }

    /// Updates the progress of a call.
    pub fn set_call_progress(
        &mut self,
        id: &str,
        done: f64,
        of: Option<f64>,
        message: Option<String>,
    ) {
        if let Some((card, _)) = self.call_entry(id) {
            card.set_progress(done, of, message);
        }
    }

    /// Completes a call.
    pub fn finish_call(&mut self, id: &str, how: CallOutcome, text: &str, duration: Duration) {
        if let Some((card, layout)) = self.call_entry(id) {
            card.finish(how, text, duration);
            *layout = None;
        }
    }

    /// Is a recent call running?
    pub fn is_animating(&self) -> bool {
        let is_running =
            |it: &Entry| matches!(&it.body, EntryBody::ToolCall(card) if card.is_running());
        self.entries.iter().rev().take(64).any(is_running)
    }

    fn call_entry(&mut self, id: &str) -> Option<(&mut ToolCallCard, &mut Option<EntryLayout>)> {
        self.entries.iter_mut().rev().find_map(|entry| match &mut entry.body {
            EntryBody::ToolCall(card) if &*card.id == id => Some((card, &mut entry.layout)),
            EntryBody::ToolCall(_)
            | EntryBody::User(_)
            | EntryBody::ChannelMessage(_)
            | EntryBody::Response(_)
            | EntryBody::Thinking(_)
            | EntryBody::Note(_)
            | EntryBody::RetryNote(_)
            | EntryBody::Error(_) => None,
        })
    }

    fn push(&mut self, body: EntryBody) {
        self.entries.push(Entry { body, detail: None, layout: None });
    }

    /// Folds or unfolds the selected entry; without a selection, all entries.
    pub fn toggle_expanded(&mut self) {
        match self.selected.and_then(|at| self.entries.get_mut(at)) {
            Some(entry) => {
                entry.detail = Some(entry.detail.unwrap_or(self.detail).toggled());
            }
            None => {
                self.detail = self.detail.toggled();
                for entry in &mut self.entries {
                    entry.detail = None;
                }
            }
        }
    }

    /// Selects the previous foldable entry; without a selection, the last one.
    pub fn select_previous(&mut self) {
        let end = self.selected.unwrap_or(self.entries.len());
        let found = self.entries[..end].iter().rposition(|it| it.body.is_foldable());
        if let Some(found) = found {
            self.selected = Some(found);
            self.scroll_into_view(found);
        }
    }

    /// Selects the next foldable entry; after the last one, none.
    pub fn select_next(&mut self) {
        let Some(chosen) = self.selected else { return };
        let found = self.entries.iter().skip(chosen + 1).position(|it| it.body.is_foldable());
        self.selected = found.map(|at| at + chosen + 1);
        match self.selected {
            Some(found) => self.scroll_into_view(found),
            None => self.scroll_to_bottom(),
        }
    }

    /// Is an entry selected?
    pub fn has_selection(&self) -> bool {
        self.selected.is_some()
    }

    /// Clears the selection.
    pub fn clear_selection(&mut self) {
        self.selected = None;
    }

    /// Draws the visible entries.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme, now: Instant) {
        if (self.width, self.theme) != (usize::from(area.width), *theme) {
            self.width = usize::from(area.width);
            self.theme = *theme;
        }
        self.height = usize::from(area.height);
        self.now = now;
        self.clamp_viewport();
        let LinePosition { mut entry, mut line } = self.top();
        let mut y = area.top();
        while y < area.bottom() && entry < self.entries.len() {
            let is_chosen = self.selected == Some(entry);
            let accent = self.theme.style(Tone::Accent);
            let lines = &self.layout_entry(entry).lines;
            for shown in lines.iter().skip(line) {
                if y >= area.bottom() {
                    break;
                }
                let buffer = frame.buffer_mut();
                buffer.set_line(area.x, y, shown, area.width);
                if is_chosen && area.width > 0 && !shown.spans.is_empty() {
                    buffer[(area.x, y)].set_style(accent);
                }
                y += 1;
            }
            entry += 1;
            line = 0;
        }
    }

    fn entry_height(&mut self, entry: usize) -> usize {
        self.layout_entry(entry).lines.len()
    }

    /// The layout of an entry, rebuilt where it is out of date.
    fn layout_entry(&mut self, at: usize) -> &EntryLayout {
        let is_apart = at > 0 && self.entries[at].body.needs_gap_after(&self.entries[at - 1].body);
        let (width, theme, now) = (self.width, self.theme, self.now);
        let entry = &mut self.entries[at];
        let detail = entry.detail.unwrap_or(self.detail);
        let version = markdown::highlighter_version(theme.palette);
        let is_current = entry.layout.as_ref().is_some_and(|layout| {
            let is_same = (layout.width, layout.detail) == (width, detail);
            is_same
                && match &entry.body {
                    EntryBody::Response(answer) => {
                        layout.highlighter_version == version && !answer.is_dirty()
                    }
                    EntryBody::ToolCall(card) => !card.is_running(),
                    EntryBody::User(_)
                    | EntryBody::ChannelMessage(_)
                    | EntryBody::Thinking(_)
                    | EntryBody::Note(_)
                    | EntryBody::RetryNote(_)
                    | EntryBody::Error(_) => true,
                }
        });
        if !is_current {
            let before = entry
                .layout
                .take()
                .filter(|it| it.width == width && it.highlighter_version == version);
            let gap = usize::from(is_apart);
            let (mut lines, settled) = match (&mut entry.body, before) {
                (EntryBody::Response(answer), Some(mut before)) => {
                    before.lines.truncate(before.stable_lines.max(gap));
                    let settled = answer.layout(&mut before.lines, width, &theme);
                    (before.lines, settled)
                }
                (EntryBody::Response(answer), None) => {
                    let mut lines = vec![Line::default(); gap];
                    answer.reset_layout();
                    let settled = answer.layout(&mut lines, width, &theme);
                    (lines, settled)
                }
                (body, _) => {
                    let mut lines = vec![Line::default(); gap];
                    lines.extend(lines_of(body, width, detail, (&theme, now)));
                    (lines, 0)
                }
            };
            lines.shrink_to_fit();
            entry.layout = Some(EntryLayout {
                width,
                detail,
                highlighter_version: version,
                lines,
                stable_lines: settled,
            });
        }
        entry.layout.as_ref().expect("it was just made where it was missing")
    }
}
