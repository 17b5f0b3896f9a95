//! What was said and done, from the top to the bottom, as lines of the screen. Lines are made once for a width and kept;
//! what is not looked at is not made.

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
use switchboard::config::display::sanitize;

use detail::Detail;
use entry::{Entry, EntryBody, EntryLayout};
use entry_lines::lines_of;
use viewport::{LinePosition, Viewport};

/// All of it.
#[derive(Debug)]
pub struct TranscriptView {
    entries: Vec<Entry>,
    viewport: Viewport,
    detail: Detail,
    /// The card that was chosen.
    selected: Option<usize>,
    width: usize,
    height: usize,
    theme: ScreenTheme,
    now: Instant,
}

impl TranscriptView {
    /// Nothing yet.
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

    /// Is there anything?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes everything away.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.viewport = Viewport::Bottom;
        self.selected = None;
    }

    /// The person said something.
    pub fn push_user(&mut self, text: &str) {
        self.push(EntryBody::User(sanitize(text)));
    }

    /// We say something; the text may hold our own colours.
    pub fn push_note(&mut self, text: &str) {
        self.push(EntryBody::Note(text.to_owned()));
    }

    /// We say that something went wrong; the text may hold our own colours.
    pub fn push_error(&mut self, text: &str) {
        self.push(EntryBody::Error(text.to_owned()));
    }

    /// The model goes on with its words.
    pub fn push_response(&mut self, text: &str) {
        if let Some(Entry { body: EntryBody::Response(answer), .. }) = self.entries.last_mut() {
            answer.push(text);
            return;
        }
        let mut answer = StreamedMarkdown::default();
        answer.push(text);
        self.push(EntryBody::Response(answer));
    }

    /// The model goes on thinking.
    pub fn push_thinking(&mut self, text: &str) {
        if let Some(Entry { body: EntryBody::Thinking(thought), layout: laid, .. }) =
            self.entries.last_mut()
        {
            thought.push_str(text);
            *laid = None;
            return;
        }
        self.push(EntryBody::Thinking(text.to_owned()));
    }

    /// What the model said of this answer so far does not count.
    pub fn discard_response(&mut self) {
        while let Some(Entry { body: EntryBody::Response(_) | EntryBody::Thinking(_), .. }) =
            self.entries.last()
        {
            self.entries.pop();
        }
        self.clamp_viewport();
    }

    /// A call begins.
    pub fn push_call(&mut self, call: ToolCallView, now: Instant) {
        self.push(EntryBody::ToolCall(ToolCallCard::new(call, now)));
    }

    /// A call says how far it is.
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

    /// A call has ended.
    pub fn finish_call(&mut self, id: &str, how: CallOutcome, text: &str, took: Duration) {
        if let Some((card, laid)) = self.call_entry(id) {
            card.finish(how, text, took);
            *laid = None;
        }
    }

    /// Does something in it move?
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
            | EntryBody::Response(_)
            | EntryBody::Thinking(_)
            | EntryBody::Note(_)
            | EntryBody::Error(_) => None,
        })
    }

    fn push(&mut self, body: EntryBody) {
        self.entries.push(Entry { body, detail: None, layout: None });
    }

    /// Folds and unfolds: the card that was chosen, or everything.
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

    /// Chooses the card before the chosen one, or the last.
    pub fn select_previous(&mut self) {
        let end = self.selected.unwrap_or(self.entries.len());
        let found = self.entries[..end].iter().rposition(|it| it.body.is_foldable());
        if let Some(found) = found {
            self.selected = Some(found);
            self.scroll_into_view(found);
        }
    }

    /// Chooses the card after the chosen one; after the last, none.
    pub fn select_next(&mut self) {
        let Some(chosen) = self.selected else { return };
        let found = self.entries.iter().skip(chosen + 1).position(|it| it.body.is_foldable());
        self.selected = found.map(|at| at + chosen + 1);
        match self.selected {
            Some(found) => self.scroll_into_view(found),
            None => self.scroll_to_bottom(),
        }
    }

    /// Is a card chosen?
    pub fn has_selection(&self) -> bool {
        self.selected.is_some()
    }

    /// Chooses nothing.
    pub fn clear_selection(&mut self) {
        self.selected = None;
    }

    /// Draws what the eye is on.
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

    /// The lines of an entry, made anew where they are not what they should be.
    fn layout_entry(&mut self, at: usize) -> &EntryLayout {
        let is_apart = at > 0 && self.entries[at].body.needs_gap_after(&self.entries[at - 1].body);
        let (width, theme, now) = (self.width, self.theme, self.now);
        let entry = &mut self.entries[at];
        let detail = entry.detail.unwrap_or(self.detail);
        let edition = markdown::highlighter_version(theme.palette);
        let is_kept = entry.layout.as_ref().is_some_and(|laid| {
            let is_same = (laid.width, laid.detail) == (width, detail);
            is_same
                && match &entry.body {
                    EntryBody::Response(answer) => {
                        laid.highlighter_version == edition && !answer.is_dirty()
                    }
                    EntryBody::ToolCall(card) => !card.is_running(),
                    EntryBody::User(_)
                    | EntryBody::Thinking(_)
                    | EntryBody::Note(_)
                    | EntryBody::Error(_) => true,
                }
        });
        if !is_kept {
            let before = entry
                .layout
                .take()
                .filter(|it| it.width == width && it.highlighter_version == edition);
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
                highlighter_version: edition,
                lines,
                stable_lines: settled,
            });
        }
        entry.layout.as_ref().expect("it was just made where it was missing")
    }
}
