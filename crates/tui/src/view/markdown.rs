//! Markdown as lines, for responses that are still streaming: complete blocks are laid out once, only the last one is
//! laid out again when more text arrives.

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

/// The supported Markdown extensions.
const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// A response as far as it has arrived.
#[derive(Debug, Default)]
pub struct StreamedMarkdown {
    source: String,
    /// How many bytes of it are laid out for good.
    stable_bytes: usize,
    /// The code block that is still arriving.
    code: Option<StreamedCode>,
    is_dirty: bool,
}

impl StreamedMarkdown {
    /// Appends text.
    pub fn push(&mut self, text: &str) {
        self.source.push_str(&sanitize(text));
        self.is_dirty = true;
    }

    /// Is there text that is not laid out yet?
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Discards the layout.
    pub fn reset_layout(&mut self) {
        self.stable_bytes = 0;
        self.code = None;
    }

    /// Appends the lines of everything that is not laid out for good, and returns how many lines are now.
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

/// The starts of blocks that no later text can change: those after an empty line. Blocks without an empty line between
/// them count as one, because an unfinished table looks like two.
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

/// The start of a block's first line where an empty line precedes it. Its indentation belongs to it.
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
    fn a_streamed_response_looks_like_a_whole_one() {
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
    fn unfinished_blocks_are_shown_as_far_as_they_go() {
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
