//! A model's answer as lines of the screen. The answer may still be coming: blocks that are whole are laid out once, only
//! the last one is laid out again when more of it comes.

mod code;
mod layout;
mod table;

pub use code::{highlighter_loaded, highlighter_version};

use pulldown_cmark::{Event, Options, Parser};
use ratatui::text::Line;

use code::StreamedCode;
use layout::BlockLayout;

use crate::theme::ScreenTheme;
use switchboard::config::display::sanitize;

/// What of Markdown is understood beside the basics.
const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// An answer, as far as it has come.
#[derive(Debug, Default)]
pub struct StreamedMarkdown {
    source: String,
    /// How much of it is laid out for good.
    stable_bytes: usize,
    /// The block of code that is still coming.
    code: Option<StreamedCode>,
    is_dirty: bool,
}

impl StreamedMarkdown {
    /// It goes on.
    pub fn push(&mut self, text: &str) {
        self.source.push_str(&sanitize(text));
        self.is_dirty = true;
    }

    /// Came something that is not laid out yet?
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Nothing is laid out.
    pub fn reset_layout(&mut self) {
        self.stable_bytes = 0;
        self.code = None;
    }

    /// Lays out what is not settled, behind the lines that are. Says how many lines are settled now.
    pub fn layout(
        &mut self,
        lines: &mut Vec<Line<'static>>,
        width: usize,
        theme: &ScreenTheme,
    ) -> usize {
        self.is_dirty = false;
        let tail = &self.source[self.stable_bytes..];
        let starts = block_starts(tail);
        let last = starts.last().copied().unwrap_or(0);
        if last > 0 {
            self.code = None;
        }
        let mut blocks = starts.windows(2).map(|pair| &tail[pair[0]..pair[1]]);
        let mut is_first = self.stable_bytes == 0;
        for block in &mut blocks {
            append_block(lines, is_first, BlockLayout::new(theme, width).lines(block));
            is_first = false;
        }
        let settled = lines.len();
        let block = &tail[last..];
        if !block.trim().is_empty() {
            let layout = BlockLayout::new(theme, width).with_streamed_code(&mut self.code);
            append_block(lines, is_first, layout.lines(block));
        }
        self.stable_bytes += last;
        settled
    }
}

fn append_block(lines: &mut Vec<Line<'static>>, is_first: bool, block: Vec<Line<'static>>) {
    if !is_first && !block.is_empty() {
        lines.push(Line::default());
    }
    lines.extend(block);
}

/// Where blocks of a text begin that nothing behind them can change any more: there is an empty line before them. What
/// stands closer together is one block here; a table that is still coming looks like two.
fn block_starts(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut depth = 0_usize;
    for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
        match event {
            Event::Start(_) => {
                if depth == 0 {
                    starts.extend(separate_block_start(text, range.start));
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Rule if depth == 0 => starts.extend(separate_block_start(text, range.start)),
            Event::Text(_)
            | Event::Code(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::FootnoteReference(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
    }
    if starts.first().is_none_or(|first| *first > 0) {
        starts.insert(0, 0);
    }
    starts
}

/// The start of the line of a block, where an empty line is before it. Indentation belongs to its block.
fn separate_block_start(text: &str, at: usize) -> Option<usize> {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = text[..start].strip_suffix('\n').unwrap_or_default();
    let last = before.rsplit('\n').next().unwrap_or_default();
    (start == 0 || (last.trim().is_empty() && before.contains('\n'))).then_some(start)
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::theme::{GlyphSet, Palette};

    /// A whole text as lines.
    fn lines(text: &str, width: usize, theme: &ScreenTheme) -> Vec<Line<'static>> {
        let mut answer = StreamedMarkdown::default();
        answer.push(text);
        let mut lines = Vec::new();
        answer.layout(&mut lines, width, theme);
        lines
    }

    const LOOK: ScreenTheme = ScreenTheme { palette: Palette::Plain, glyphs: GlyphSet::Unicode };

    fn shown(text: &str, width: usize) -> String {
        lines(text, width, &LOOK).iter().map(|it| format!("{it}\n")).collect()
    }

    const MUCH: &str = "# Title\n\nSome *words* and `code` with a [link](https://e.example/x), \
        wrapped over lines.\n\n- one\n- two\n  1. inner\n  2. more\n- three\n\n> quoted\n> text\n\n\
        ```rust\nfn main() {\n    go();\n}\n```\n\n| a | long column | n |\n|---|:---:|--:|\n\
        | x | some words here that are long | 12 |\n| yy | - | 3 |\n\n---\n\nEnd.\n";

    #[test]
    fn every_block_has_its_shape() {
        insta::assert_snapshot!(shown(MUCH, 40));
    }

    #[test]
    fn an_answer_that_comes_in_pieces_looks_like_one_that_came_whole() {
        for step in [1, 3, 7, 50] {
            let mut answer = StreamedMarkdown::default();
            let mut lines = Vec::new();
            let mut settled = 0;
            let letters: Vec<char> = MUCH.chars().collect();
            for piece in letters.chunks(step) {
                answer.push(&piece.iter().collect::<String>());
                lines.truncate(settled);
                settled = answer.layout(&mut lines, 40, &LOOK);
            }
            let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
            assert_eq!(text, shown(MUCH, 40), "{step}");
        }
    }

    #[test]
    fn what_is_unfinished_is_shown_as_far_as_it_goes() {
        assert_eq!(shown("```\nfn a", 20), "  fn a\n");
        assert_eq!(shown("**bold", 20), "**bold\n");
        assert_eq!(shown("| a |", 20), "| a |\n");
        assert_eq!(shown("- ", 20), "• \n");
    }

    #[test]
    fn nothing_is_wider_than_the_screen() {
        for width in [4, 10, 23, 40, 80] {
            for line in lines(MUCH, width, &LOOK) {
                let text = line.to_string();
                assert!(text.width() <= width, "{width}: {text}");
            }
        }
    }
}
