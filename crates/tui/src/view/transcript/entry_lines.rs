//! The lines of an entry. Responses are laid out by `markdown` instead.

use std::time::Instant;

use ratatui::text::{Line, Span};

use crate::text::ansi;
use crate::text::wrap::{Margin, truncate, wrap, wrap_text};
use crate::theme::{GlyphSet, ScreenTheme, Tone};
use crate::view::transcript::detail::Detail;
use crate::view::transcript::entry::EntryBody;
use switchboard::config::display::sanitize;

/// The lines of an entry.
pub(crate) fn lines_of(
    body: &EntryBody,
    width: usize,
    detail: Detail,
    (theme, now): (&ScreenTheme, Instant),
) -> Vec<Line<'static>> {
    match body {
        EntryBody::User(text) => {
            let mark = Span::styled("> ", theme.style(Tone::Accent));
            wrap_text(text, theme.style(Tone::Strong), width, &Margin::hanging(mark))
        }
        EntryBody::ChannelMessage(text) => {
            let mark = match theme.glyphs {
                GlyphSet::Unicode => "← ",
                GlyphSet::Ascii => "<- ",
            };
            let mark = Span::styled(mark, theme.style(Tone::Accent));
            wrap_text(text, theme.style(Tone::Text), width, &Margin::hanging(mark))
        }
        EntryBody::Thinking(text) => thought_lines(text, width, detail, theme),
        EntryBody::ToolCall(card) => card.lines(width, detail, theme, now),
        EntryBody::Note(text) | EntryBody::RetryNote(text) => {
            let lines = ansi::lines(text, theme);
            lines.iter().flat_map(|it| wrap(&it.spans, width, &Margin::none())).collect()
        }
        EntryBody::Error(text) => {
            let sign = match theme.glyphs {
                GlyphSet::Unicode => "✗ ",
                GlyphSet::Ascii => "! ",
            };
            let mut margin = Margin::hanging(Span::styled(sign, theme.style(Tone::Error)));
            let mut lines = Vec::new();
            for line in ansi::lines(text, theme) {
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
    theme: &ScreenTheme,
) -> Vec<Line<'static>> {
    let style = theme.style(Tone::Muted);
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
