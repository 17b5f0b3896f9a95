//! Text in tones, sanitized and wrapped by display width. Everything that dialogs and panels show goes through it, so
//! no text of a server reaches the terminal unescaped.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use switchboard::config::display::printable;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::theme::{ScreenTheme, Tone};

/// The most combining marks per character: more would overlap the lines around it.
const MAX_COMBINING_MARKS: usize = 4;
/// The replacement of a tab.
const TAB: &str = "    ";

/// A text with a tone.
pub type TonedText = (Tone, String);

/// Lines before layout.
#[derive(Debug, Clone, Default)]
pub struct RichText {
    rows: Vec<RichLine>,
}

#[derive(Debug, Clone)]
struct RichLine {
    spans: Vec<TonedText>,
    /// The indentation of continuation lines.
    hanging_indent: usize,
}

impl RichText {
    /// Adds text of any number of lines, in one tone.
    pub fn push_text(&mut self, tone: Tone, text: &str) {
        self.push_indented(0, tone, text);
    }

    /// Adds text, indented by `indent` columns.
    pub fn push_indented(&mut self, indent: usize, tone: Tone, text: &str) {
        for line in text.split('\n') {
            let line = format!("{}{}", " ".repeat(indent), line.trim_end_matches('\r'));
            self.push_line(indent, vec![(tone, line)]);
        }
    }

    /// Adds one line of several pieces; continuation lines are indented by `hanging` columns.
    pub fn push_line(&mut self, hanging: usize, pieces: Vec<TonedText>) {
        let pieces = pieces.into_iter().map(|(tone, text)| (tone, sanitize(&text))).collect();
        self.rows.push(RichLine { spans: pieces, hanging_indent: hanging });
    }

    /// Adds an empty line.
    pub fn push_blank(&mut self) {
        self.rows.push(RichLine { spans: Vec::new(), hanging_indent: 0 });
    }

    /// Adds a label with its value; values are aligned.
    pub fn push_labelled(&mut self, label: &str, tone: Tone, value: &str) {
        const LABEL: usize = 14;
        let label = if label.is_empty() { String::new() } else { format!("{label}:") };
        for (index, line) in value.split('\n').enumerate() {
            let front = if index == 0 { label.as_str() } else { "" };
            let front = format!("{front:<LABEL$}");
            self.push_line(LABEL, vec![(Tone::Muted, front), (tone, line.to_owned())]);
        }
    }

    /// Wraps the lines to a width.
    pub fn layout(&self, width: u16, theme: &ScreenTheme) -> Vec<Line<'static>> {
        let width = usize::from(width.max(1));
        self.rows.iter().flat_map(|row| row.layout(width, theme)).collect()
    }
}

/// A text without control characters, tabs and stacked combining marks.
pub fn sanitize(text: &str) -> String {
    let text = printable(&text.replace('\t', TAB));
    if text.is_ascii() {
        return text;
    }
    let limited = |it: &str| it.chars().take(MAX_COMBINING_MARKS + 1).collect::<String>();
    text.graphemes(true).map(limited).collect()
}

/// A sanitized text, shortened with an ellipsis where it does not fit.
pub fn sanitize_and_truncate(text: &str, width: usize) -> String {
    let text = sanitize(text);
    if text.width() <= width {
        return text;
    }
    let mut shortened = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        if used + grapheme.width() + 1 > width {
            break;
        }
        used += grapheme.width();
        shortened.push_str(grapheme);
    }
    if width > 0 {
        shortened.push('…');
    }
    shortened
}

struct Cell<'t> {
    text: &'t str,
    width: usize,
    tone: Tone,
}

impl RichLine {
    fn layout(&self, width: usize, theme: &ScreenTheme) -> Vec<Line<'static>> {
        let hanging = if self.hanging_indent + 8 > width { 0 } else { self.hanging_indent };
        let cells: Vec<Cell<'_>> = self
            .spans
            .iter()
            .flat_map(|(tone, text)| {
                let cell = |text| Cell { text, width: UnicodeWidthStr::width(text), tone: *tone };
                text.graphemes(true).map(cell)
            })
            .collect();
        let mut lines = Vec::new();
        let mut start = 0;
        loop {
            let indent = if start == 0 { 0 } else { hanging };
            let end = line_end(&cells, start, width.saturating_sub(indent).max(1));
            lines.push(build_line(&cells[start..end], indent, theme));
            start = end;
            // The space at a line break is dropped.
            if start < cells.len() && cells[start].text == " " && start > 0 {
                start += 1;
            }
            if start >= cells.len() {
                return lines;
            }
        }
    }
}

/// The end of the line that begins at `start`: after a word where possible.
fn line_end(cells: &[Cell<'_>], start: usize, width: usize) -> usize {
    let mut used = 0;
    let mut space = None;
    let mut has_word = false;
    for (at, cell) in cells.iter().enumerate().skip(start) {
        if cell.text == " " && has_word {
            space = Some(at);
        }
        has_word = has_word || cell.text != " ";
        if used + cell.width > width {
            return space.unwrap_or(at).max(start + 1);
        }
        used += cell.width;
    }
    cells.len()
}

fn build_line(cells: &[Cell<'_>], indent: usize, theme: &ScreenTheme) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    if indent > 0 {
        spans.push(Span::raw(" ".repeat(indent)));
    }
    for run in cells.chunk_by(|one, other| one.tone == other.tone) {
        let text: String = run.iter().map(|it| it.text).collect();
        spans.push(Span::styled(text, theme.style(run[0].tone)));
    }
    Line::from(spans)
}

/// Draws as many lines as fit.
pub fn draw_lines(buffer: &mut Buffer, area: Rect, lines: &[Line<'static>]) {
    let area = area.intersection(*buffer.area());
    for (y, line) in (area.top()..area.bottom()).zip(lines) {
        buffer.set_line(area.x, y, line, area.width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{GlyphSet, Palette};

    const LOOK: ScreenTheme = ScreenTheme { palette: Palette::Plain, glyphs: GlyphSet::Unicode };

    #[track_caller]
    fn check(text: &str, width: u16, expected: &[&str]) {
        let mut content = RichText::default();
        content.push_text(Tone::Text, text);
        let laid: Vec<String> =
            content.layout(width, &LOOK).iter().map(ToString::to_string).collect();
        assert_eq!(laid, expected, "{text}");
    }

    #[test]
    fn words_stay_whole_where_they_can() {
        check("one two three", 8, &["one two", "three"]);
        check("evenoddeven", 4, &["even", "odde", "ven"]);
        check("a\nb", 4, &["a", "b"]);
        check("", 4, &[""]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        check("漢字漢字", 4, &["漢字", "漢字"]);
        check("漢字", 3, &["漢", "字"]);
        check("漢", 1, &["漢"]);
    }

    #[test]
    fn nothing_that_a_terminal_acts_on_is_left() {
        check("\x1b[2Ja", 40, &["\\u{1b}[2Ja"]);
        check("a\u{202e}b", 40, &["a\\u{202e}b"]);
        check("a\tb\r", 40, &["a    b"]);
        let climbing = format!("a{}", "\u{301}".repeat(500));
        assert_eq!(sanitize(&climbing).chars().count(), MAX_COMBINING_MARKS + 1);
    }

    #[test]
    fn text_is_shortened_by_columns() {
        assert_eq!(sanitize_and_truncate("abcdef", 4), "abc…");
        assert_eq!(sanitize_and_truncate("漢字漢", 4), "漢…");
        assert_eq!(sanitize_and_truncate("abc", 3), "abc");
        assert_eq!(sanitize_and_truncate("abc", 0), "");
    }
}
