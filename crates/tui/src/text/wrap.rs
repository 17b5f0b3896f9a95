//! Lines of styled text, broken to fit a width: at spaces where there are any, inside long words else. Widths are those
//! of the terminal's cells, letters are whole graphemes.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// What stands in front of lines.
#[derive(Debug, Clone, Default)]
pub struct Margin {
    /// In front of the first.
    pub first: Vec<Span<'static>>,
    /// In front of the others.
    pub rest: Vec<Span<'static>>,
}

impl Margin {
    /// Nothing.
    pub fn none() -> Margin {
        Margin::default()
    }

    /// A mark in front of the first line, as much room in front of the others.
    pub fn hanging(mark: Span<'static>) -> Margin {
        let room = " ".repeat(mark.content.width());
        Margin { first: vec![mark], rest: vec![Span::raw(room)] }
    }

    /// The same in front of all.
    pub fn all(mark: Span<'static>) -> Margin {
        Margin { first: vec![mark.clone()], rest: vec![mark] }
    }
}

/// A letter as it is shown.
struct Grapheme<'a> {
    text: &'a str,
    width: usize,
    style: Style,
    is_space: bool,
}

/// Wraps one line of text.
pub fn wrap(spans: &[Span<'_>], width: usize, margin: &Margin) -> Vec<Line<'static>> {
    let letters: Vec<Grapheme<'_>> = spans.iter().flat_map(graphemes_of).collect();
    let mut lines = Vec::new();
    let mut start = 0;
    loop {
        let front = if lines.is_empty() { &margin.first } else { &margin.rest };
        let taken: usize = front.iter().map(|it| it.content.width()).sum();
        let (end, next) = break_line(&letters, start, width.saturating_sub(taken).max(1));
        lines.push(build_line(front, &letters[start..end]));
        if next >= letters.len() {
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

/// The text, or as much of it as fits with an ellipsis behind.
pub fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let wide = grapheme.width();
        if used + wide + 1 > width {
            break;
        }
        used += wide;
        kept.push_str(grapheme);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
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

/// Where the line that begins at `start` ends, and where the next one begins.
fn break_line(letters: &[Grapheme<'_>], start: usize, room: usize) -> (usize, usize) {
    let mut used = 0;
    let mut space = None;
    for (at, letter) in letters.iter().enumerate().skip(start) {
        if letter.is_space {
            space = Some(at);
        }
        if used + letter.width > room {
            return match space {
                // Room in front of a line is somebody's indentation, not a place to break.
                Some(space) if letters[start..space].iter().any(|it| !it.is_space) => {
                    (space, after_spaces(letters, space))
                }
                Some(_) | None => (at.max(start + 1), at.max(start + 1)),
            };
        }
        used += letter.width;
    }
    (letters.len(), letters.len())
}

fn after_spaces(letters: &[Grapheme<'_>], from: usize) -> usize {
    let skipped = letters[from..].iter().take_while(|it| it.is_space).count();
    from + skipped
}

fn build_line(front: &[Span<'static>], letters: &[Grapheme<'_>]) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = front.to_vec();
    let mut text = String::new();
    let mut style = Style::default();
    for letter in letters {
        if letter.style != style && !text.is_empty() {
            spans.push(Span::styled(std::mem::take(&mut text), style));
        }
        style = letter.style;
        text.push_str(letter.text);
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
