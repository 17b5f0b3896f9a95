//! The layout of the draft: its rows, and the position of the cursor.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::Composer;
use switchboard::config::display::sanitize;

/// The draft in rows.
#[derive(Debug, PartialEq, Eq)]
pub struct ComposerLayout {
    /// The rows, from the top.
    pub rows: Vec<ComposerRow>,
    /// The row of the cursor.
    pub row: usize,
    /// The column of the cursor.
    pub column: usize,
}

/// A row.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ComposerRow {
    /// The displayed text.
    pub text: String,
    /// The column and the byte offset of each grapheme, and of the end of the row.
    offsets: Vec<(usize, usize)>,
}

impl ComposerLayout {
    /// The byte offset nearest to a column of a row.
    pub(crate) fn offset_at(&self, row: usize, column: usize) -> usize {
        let paths = &self.rows[row].offsets;
        let found = paths.iter().rev().find(|(it, _)| *it <= column);
        found.or(paths.first()).map_or(0, |(_, at)| *at)
    }
}

impl Composer {
    /// Sets the width at which it is drawn.
    pub fn set_width(&mut self, width: usize) {
        self.width = width;
    }

    /// Wraps the draft to a width. The cursor always has a cell.
    pub fn layout(&self, width: usize) -> ComposerLayout {
        let width = width.max(2);
        let mut layout = ComposerLayout { rows: Vec::new(), row: 0, column: 0 };
        let mut row = ComposerRow::default();
        let mut column = 0;
        for (at, grapheme) in self.text.grapheme_indices(true) {
            if grapheme == "\n" {
                row.offsets.push((column, at));
                self.note_cursor(&mut layout, at, column);
                layout.rows.push(std::mem::take(&mut row));
                column = 0;
                continue;
            }
            let shown = self.shown(grapheme);
            let wide = shown.width();
            if column + wide >= width && column > 0 {
                layout.rows.push(std::mem::take(&mut row));
                column = 0;
            }
            self.note_cursor(&mut layout, at, column);
            row.offsets.push((column, at));
            row.text.push_str(&shown);
            column += wide;
        }
        self.note_cursor(&mut layout, self.text.len(), column);
        row.offsets.push((column, self.text.len()));
        layout.rows.push(row);
        layout
    }

    fn note_cursor(&self, layout: &mut ComposerLayout, at: usize, column: usize) {
        if at == self.cursor {
            (layout.row, layout.column) = (layout.rows.len(), column);
        }
    }

    fn shown(&self, grapheme: &str) -> String {
        match grapheme.chars().next().and_then(|c| self.paste_label(c)) {
            Some(folded) => folded,
            None => sanitize(grapheme),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, width: usize, rows: &[&str], cursor: (usize, usize)) {
        let mut composer = Composer::default();
        composer.insert(text);
        let layout = composer.layout(width);
        let shown: Vec<&str> = layout.rows.iter().map(|it| it.text.as_str()).collect();
        assert_eq!((shown, (layout.row, layout.column)), (rows.to_vec(), cursor));
    }

    #[test]
    fn rows_end_before_the_edge_so_that_the_cursor_has_room() {
        check("abcdef", 4, &["abc", "def"], (1, 3));
        check("", 4, &[""], (0, 0));
        check("ab\n", 4, &["ab", ""], (1, 0));
        check("日本", 4, &["日", "本"], (1, 2));
    }
}
