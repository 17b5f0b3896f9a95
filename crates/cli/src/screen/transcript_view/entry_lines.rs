//! How what was said and done looks, entry by entry. Answers lay themselves out.

use std::time::Instant;

use ratatui::text::{Line, Span};

use super::{Detail, EntryBody};
use crate::screen::clean_text::sanitize;
use crate::screen::look::{GlyphSet, ScreenTheme, Tone};
use crate::screen::painted;
use crate::screen::wrapping::{Margin, truncate, wrap, wrap_text};

/// The lines of an entry.
pub(super) fn lines_of(
    body: &EntryBody,
    width: usize,
    detail: Detail,
    (look, now): (&ScreenTheme, Instant),
) -> Vec<Line<'static>> {
    match body {
        EntryBody::User(text) => {
            let mark = Span::styled("> ", look.style(Tone::Accent));
            wrap_text(text, look.style(Tone::Strong), width, &Margin::hanging(mark))
        }
        EntryBody::Thinking(text) => thought_lines(text, width, detail, look),
        EntryBody::ToolCall(card) => card.lines(width, detail, look, now),
        EntryBody::Note(text) => {
            let lines = painted::lines(text, look);
            lines.iter().flat_map(|it| wrap(&it.spans, width, &Margin::none())).collect()
        }
        EntryBody::Error(text) => {
            let sign = match look.glyphs {
                GlyphSet::Unicode => "✗ ",
                GlyphSet::Ascii => "! ",
            };
            let mut margin = Margin::hanging(Span::styled(sign, look.style(Tone::Error)));
            let mut lines = Vec::new();
            for line in painted::lines(text, look) {
                lines.extend(wrap(&line.spans, width, &margin));
                margin.first.clone_from(&margin.rest);
            }
            lines
        }
        EntryBody::Response(_) => Vec::new(),
    }
}

fn thought_lines(
    text: &str,
    width: usize,
    detail: Detail,
    look: &ScreenTheme,
) -> Vec<Line<'static>> {
    let style = look.style(Tone::Muted);
    let text = sanitize(text.trim());
    match detail {
        Detail::Expanded => wrap_text(&text, style, width, &Margin::all(Span::styled("  ", style))),
        Detail::Folded => {
            let first = text.lines().next().unwrap_or_default();
            let line = format!("thought: {first}");
            vec![Line::from(Span::styled(truncate(&line, width), style))]
        }
    }
}
