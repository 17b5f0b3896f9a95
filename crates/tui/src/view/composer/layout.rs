//! How the text that is being written looks: which letters are in which row, and where the cursor is.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::Composer;
use switchboard::config::display::sanitize;

/// The text in rows.
#[derive(Debug, PartialEq, Eq)]
pub struct ComposerLayout {
    /// The rows, from the top.
    pub rows: Vec<ComposerRow>,
    /// The row that the cursor is in.
    pub row: usize,
    /// The column that the cursor is in.
    pub column: usize,
}

/// A row.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ComposerRow {
    /// What is shown.
    pub text: String,
    /// Where each letter is: its column, and its place in the text. The end of the row is among them.
    offsets: Vec<(usize, usize)>,
}

impl ComposerLayout {
    /// The place in the text that is nearest to a column of a row.
    pub(crate) fn offset_at(&self, row: usize, column: usize) -> usize {
        let paths = &self.rows[row].offsets;
        let found = paths.iter().rev().find(|(it, _)| *it <= column);
        found.or(paths.first()).map_or(0, |(_, at)| *at)
    }
}

impl Composer {
    /// Says how wide it is drawn.
    pub fn set_width(&mut self, width: usize) {
        self.width = width;
    }

    /// Lays the text out for a width. The cursor always has a cell.
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
