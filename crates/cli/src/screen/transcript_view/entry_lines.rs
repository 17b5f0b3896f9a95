//! How what was said and done looks, entry by entry. Answers lay themselves out.

use std::time::Instant;

use ratatui::text::{Line, Span};

use super::{Body, Detail};
use crate::screen::clean_text::clean;
use crate::screen::look::{Look, Signs, Tone};
use crate::screen::painted;
use crate::screen::wrapping::{Margin, shortened, wrap, wrap_text};

/// The lines of an entry.
pub(super) fn lines_of(
    body: &Body,
    width: usize,
    detail: Detail,
    (look, now): (&Look, Instant),
) -> Vec<Line<'static>> {
    match body {
        Body::Person(text) => {
            let mark = Span::styled("> ", look.style(Tone::Accent));
            wrap_text(text, look.style(Tone::Strong), width, &Margin::hanging(mark))
        }
        Body::Thought(text) => thought_lines(text, width, detail, look),
        Body::Call(card) => card.lines(width, detail, look, now),
        Body::Note(text) => {
            let lines = painted::lines(text, look);
            lines.iter().flat_map(|it| wrap(&it.spans, width, &Margin::none())).collect()
        }
        Body::Fault(text) => {
            let sign = match look.signs {
                Signs::Drawn => "✗ ",
                Signs::Ascii => "! ",
            };
            let mut margin = Margin::hanging(Span::styled(sign, look.style(Tone::Bad)));
            let mut lines = Vec::new();
            for line in painted::lines(text, look) {
                lines.extend(wrap(&line.spans, width, &margin));
                margin.first.clone_from(&margin.rest);
            }
            lines
        }
        Body::Answer(_) => Vec::new(),
    }
}

fn thought_lines(text: &str, width: usize, detail: Detail, look: &Look) -> Vec<Line<'static>> {
    let style = look.style(Tone::Faint);
    let text = clean(text.trim());
    match detail {
        Detail::Whole => wrap_text(&text, style, width, &Margin::all(Span::styled("  ", style))),
        Detail::Folded => {
            let first = text.lines().next().unwrap_or_default();
            let line = format!("thought: {first}");
            vec![Line::from(Span::styled(shortened(&line, width), style))]
        }
    }
}
