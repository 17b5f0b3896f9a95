//! Wraps styled text to a width: at spaces, or inside words that are too long. Counts terminal cells, and never splits a
//! grapheme.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The text in front of lines.
#[derive(Debug, Clone, Default)]
pub struct Margin {
    /// In front of the first line.
    pub first: Vec<Span<'static>>,
    /// In front of the others.
    pub rest: Vec<Span<'static>>,
}

impl Margin {
    /// No margin.
    pub fn none() -> Margin {
        Margin::default()
    }

    /// A mark in front of the first line, spaces of the same width in front of the others.
    pub fn hanging(mark: Span<'static>) -> Margin {
        let room = " ".repeat(mark.content.width());
        Margin { first: vec![mark], rest: vec![Span::raw(room)] }
    }

    /// The same mark in front of all lines.
    pub fn all(mark: Span<'static>) -> Margin {
        Margin { first: vec![mark.clone()], rest: vec![mark] }
    }
}

/// A grapheme with its style.
struct Grapheme<'a> {
    text: &'a str,
    width: usize,
    style: Style,
    is_space: bool,
}

/// Wraps one line of text.
pub fn wrap(spans: &[Span<'_>], width: usize, margin: &Margin) -> Vec<Line<'static>> {
    let graphemes: Vec<Grapheme<'_>> = spans.iter().flat_map(graphemes_of).collect();
    let mut lines = Vec::new();
    let mut start = 0;
    loop {
        let front = if lines.is_empty() { &margin.first } else { &margin.rest };
        let taken: usize = front.iter().map(|it| it.content.width()).sum();
        let (end, next) = break_line(&graphemes, start, width.saturating_sub(taken).max(1));
        lines.push(build_line(front, &graphemes[start..end]));
        if next >= graphemes.len() {
            return lines;
        }
        start = next;
    }
}

/// Wraps plain text of several lines in one style.
pub fn wrap_text(text: &str, style: Style, width: usize, margin: &Margin) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for piece in text.split('\n') {
        let front = match lines.is_empty() {
            true => margin.clone(),
            false => Margin { first: margin.rest.clone(), rest: margin.rest.clone() },
        };
        lines.extend(wrap(&[Span::styled(piece.to_owned(), style)], width, &front));
    }
    lines
}

/// The text, shortened with an ellipsis where it does not fit.
pub fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shortened = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let grapheme_width = grapheme.width();
        if used + grapheme_width + 1 > width {
            break;
        }
        used += grapheme_width;
        shortened.push_str(grapheme);
    }
    if width > 0 {
        shortened.push('…');
    }
    shortened
}

fn graphemes_of<'s>(span: &'s Span<'_>) -> impl Iterator<Item = Grapheme<'s>> {
    let style = span.style;
    span.content.graphemes(true).map(move |text| Grapheme {
        text,
        width: text.width(),
        style,
        is_space: text == " ",
    })
}

/// The end of the line that begins at `start`, and the start of the next one.
fn break_line(graphemes: &[Grapheme<'_>], start: usize, room: usize) -> (usize, usize) {
    let mut used = 0;
    let mut space = None;
    for (at, grapheme) in graphemes.iter().enumerate().skip(start) {
        if grapheme.is_space {
            space = Some(at);
        }
        if used + grapheme.width > room {
            return match space {
                // Leading spaces are indentation, not a place to break.
                Some(space) if graphemes[start..space].iter().any(|it| !it.is_space) => {
                    (space, after_spaces(graphemes, space))
                }
                Some(_) | None => (at.max(start + 1), at.max(start + 1)),
            };
        }
        used += grapheme.width;
    }
    (graphemes.len(), graphemes.len())
}

fn after_spaces(graphemes: &[Grapheme<'_>], from: usize) -> usize {
    let skipped = graphemes[from..].iter().take_while(|it| it.is_space).count();
    from + skipped
}

fn build_line(front: &[Span<'static>], graphemes: &[Grapheme<'_>]) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = front.to_vec();
    let mut text = String::new();
    let mut style = Style::default();
    for grapheme in graphemes {
        if grapheme.style != style && !text.is_empty() {
            spans.push(Span::styled(std::mem::take(&mut text), style));
        }
        style = grapheme.style;
        text.push_str(grapheme.text);
    }
    if !text.is_empty() {
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, width: usize, expected: &[&str]) {
        let lines = wrap(&[Span::raw(text)], width, &Margin::none());
        let shown: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn lines_break_at_spaces_and_inside_long_words() {
        check("one two three", 7, &["one two", "three"]);
        check("evenoddeven four", 4, &["even", "odde", "ven", "four"]);
        check("", 5, &[""]);
        check("    indented text", 10, &["    indent", "ed text"]);
    }

    #[test]
    fn wide_letters_count_double_and_joined_ones_stay_whole() {
        check("日本語", 4, &["日本", "語"]);
        check("e\u{301}e\u{301}e\u{301}", 2, &["e\u{301}e\u{301}", "e\u{301}"]);
        check("日", 1, &["日"]);
    }

    #[test]
    fn a_margin_hangs() {
        let lines = wrap(&[Span::raw("aa bb cc")], 6, &Margin::hanging(Span::raw("- ")));
        let shown: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["- aa", "  bb", "  cc"]);
    }

    #[test]
    fn a_text_that_does_not_fit_is_shortened_by_whole_letters() {
        assert_eq!(truncate("日本語", 5), "日本…");
        assert_eq!(truncate("日本語", 4), "日…");
        assert_eq!(truncate("abc", 3), "abc");
        assert_eq!(truncate("abc", 0), "");
    }
}
