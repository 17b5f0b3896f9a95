//! Tables that fit the terminal's width.

use unicode_width::UnicodeWidthStr;

use crate::output::style::{TextStyle, paint};

/// A cell: text and style.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    style: Option<TextStyle>,
}

impl Cell {
    /// A cell without style.
    pub fn plain(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), style: None }
    }

    /// A cell with a style.
    pub fn styled(style: TextStyle, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), style: Some(style) }
    }
}

/// A column that may be truncated, and at which end.
#[derive(Debug, Clone, Copy)]
pub enum Truncate {
    /// At the end, as for commands and names.
    End(usize),
    /// At the start, as for paths.
    Start(usize),
}

impl Truncate {
    fn column(self) -> usize {
        match self {
            Truncate::End(column) | Truncate::Start(column) => column,
        }
    }
}

/// Columns are not truncated below this width.
const MIN_COLUMN_WIDTH: usize = 8;
const COLUMN_GAP: usize = 2;

/// Lays out rows under a header. Lines are at most `width` columns wide if truncation allows; the widest column is
/// truncated first.
pub fn render(
    header: &[&str],
    rows: &[Vec<Cell>],
    width: usize,
    truncated_columns: &[Truncate],
) -> String {
    let mut widths: Vec<usize> = header.iter().map(|title| title.width()).collect();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            widths[column] = widths[column].max(cell.text.width());
        }
    }
    let total: usize = widths.iter().sum::<usize>() + COLUMN_GAP * (widths.len() - 1);
    for _ in 0..total.saturating_sub(width) {
        let widest =
            truncated_columns.iter().map(|it| it.column()).max_by_key(|column| widths[*column]);
        match widest {
            Some(column) if widths[column] > MIN_COLUMN_WIDTH => widths[column] -= 1,
            Some(_) | None => break,
        }
    }
    let ends: Vec<Truncate> = (0..widths.len())
        .map(|column| {
            let found = truncated_columns.iter().find(|it| it.column() == column);
            found.copied().unwrap_or(Truncate::End(column))
        })
        .collect();
    let titles: Vec<Cell> = header.iter().map(|it| Cell::styled(TextStyle::Dim, *it)).collect();
    std::iter::once(&titles).chain(rows).map(|row| row_line(row, &widths, &ends)).collect()
}

fn row_line(row: &[Cell], widths: &[usize], ends: &[Truncate]) -> String {
    let mut line = String::new();
    for (index, ((cell, width), end)) in row.iter().zip(widths).zip(ends).enumerate() {
        let text = match end {
            Truncate::End(_) => truncate_end(&cell.text, *width),
            Truncate::Start(_) => truncate_start(&cell.text, *width),
        };
        let last = index + 1 == row.len();
        let padding = if last { 0 } else { width.saturating_sub(text.width()) + COLUMN_GAP };
        match cell.style {
            Some(style) if !text.is_empty() => line.push_str(&paint(style, &text)),
            Some(_) | None => line.push_str(&text),
        }
        line.push_str(&" ".repeat(padding));
    }
    format!("{}\n", line.trim_end())
}

/// The text, truncated at the end with an ellipsis.
pub fn truncate_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut fitting = String::new();
    for c in text.chars() {
        fitting.push(c);
        if fitting.width() >= width {
            fitting.pop();
            break;
        }
    }
    fitting.push('…');
    fitting
}

/// The text, truncated at the start with an ellipsis.
fn truncate_start(text: &str, width: usize) -> String {
    let backwards: String = text.chars().rev().collect();
    truncate_end(&backwards, width).chars().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<Cell>> {
        vec![
            vec![
                Cell::plain("github"),
                Cell::plain("https://api.example.com/a/long/path"),
                Cell::plain("ready"),
            ],
            vec![Cell::plain("日本"), Cell::plain("x"), Cell::plain("disabled")],
        ]
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_wide_screen_shows_everything_and_wide_characters_count_double() {
        let text =
            plain(&render(&["NAME", "TARGET", "STATE"], &rows(), usize::MAX, &[Truncate::End(1)]));
        assert_eq!(
            text,
            "NAME    TARGET                               STATE\n\
             github  https://api.example.com/a/long/path  ready\n\
             日本    x                                    disabled\n"
        );
    }

    #[test]
    fn on_a_narrow_screen_the_yielding_column_is_cut() {
        let text = plain(&render(&["NAME", "TARGET", "STATE"], &rows(), 40, &[Truncate::End(1)]));
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains("https://api.example.c…"), "{text}");
    }

    #[test]
    fn joined_characters_neither_crash_nor_widen_the_table() {
        let hearts = vec![vec![
            Cell::plain("❤️❤️❤️❤️ yyyyyyyyyyyyyyyyyyyyyyyy"),
            Cell::plain("👨‍👩‍👧‍👦👨‍👩‍👧‍👦 zzzzzzzzzzzzzzzzzzz"),
        ]];
        for width in 0..60 {
            let text = plain(&render(
                &["A", "B"],
                &hearts,
                width,
                &[Truncate::End(0), Truncate::Start(1)],
            ));
            let most = width.max(2 * MIN_COLUMN_WIDTH + COLUMN_GAP);
            assert!(text.lines().all(|line| line.width() <= most), "{width}\n{text}");
        }
    }

    #[test]
    fn of_a_path_the_end_stays() {
        let text = plain(&render(&["NAME", "TARGET", "STATE"], &rows(), 40, &[Truncate::Start(1)]));
        assert!(text.contains("…ample.com/a/long/path"), "{text}");
    }
}
