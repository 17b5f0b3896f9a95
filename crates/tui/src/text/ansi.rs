//! The few SGR colours that our own commands write: painting text with them, and reading such text as lines.

use std::fmt::Display;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::theme::{ScreenTheme, Tone};
use switchboard::config::display::sanitize;

/// The lines of a text with SGR colours. Other control sequences are removed.
pub fn lines(text: &str, theme: &ScreenTheme) -> Vec<Line<'static>> {
    let mut tone = Tone::Text;
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.split('\n').map(|line| parse_line(line, theme, &mut tone)).collect()
}

fn parse_line(line: &str, theme: &ScreenTheme, tone: &mut Tone) -> Line<'static> {
    let mut spans = Vec::new();
    let mut rest = line;
    let mut from = 0;
    while let Some(at) = rest[from..].find("\u{1b}[").map(|at| at + from) {
        let codes = &rest[at + 2..];
        let length = codes.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(codes.len());
        if !codes[length..].starts_with('m') {
            from = at + 2;
            continue;
        }
        push_span(&mut spans, &rest[..at], theme.style(*tone));
        *tone = tone_of_codes(&codes[..length], *tone);
        rest = &codes[length + 1..];
        from = 0;
    }
    push_span(&mut spans, rest, theme.style(*tone));
    Line::from(spans)
}

fn push_span(spans: &mut Vec<Span<'static>>, text: &str, style: Style) {
    if !text.is_empty() {
        spans.push(Span::styled(sanitize(text), style));
    }
}

/// The text with the SGR codes of a tone around it. Tones without a code of their own leave it as it is.
pub fn paint(tone: Tone, text: impl Display) -> String {
    let code = match tone {
        Tone::Success => "32",
        Tone::Warning => "33",
        Tone::Error => "31",
        Tone::Muted => "2",
        Tone::Strong => "1",
        Tone::Text | Tone::Accent | Tone::Selected | Tone::Code | Tone::Link => {
            return text.to_string();
        }
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// The tone that SGR codes stand for; other codes change nothing.
fn tone_of_codes(codes: &str, before: Tone) -> Tone {
    match codes {
        "" | "0" => Tone::Text,
        "32" => Tone::Success,
        "33" => Tone::Warning,
        "31" => Tone::Error,
        "2" => Tone::Muted,
        "1" => Tone::Strong,
        _ => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{GlyphSet, Palette};

    #[test]
    fn our_colours_become_tones_and_others_vanish() {
        let theme = ScreenTheme { palette: Palette::Dark, glyphs: GlyphSet::Unicode };
        let text = format!("a {} b\n\u{1b}[2Jc\n", paint(Tone::Error, "bad"));
        let lines = lines(&text, &theme);
        let shown: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a bad b", "c"]);
        assert_eq!(lines[0].spans[1].style, theme.style(Tone::Error));
        assert_eq!(lines[0].spans[2].style, theme.style(Tone::Text));
    }
}
