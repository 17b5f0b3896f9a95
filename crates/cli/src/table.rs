//! Tables that fit the width they are shown in.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::style::{Meaning, paint};

/// A cell: its text, and the colour of its meaning.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    meaning: Option<Meaning>,
}

impl Cell {
    /// A cell without colour.
    pub fn plain(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), meaning: None }
    }

    /// A cell with colour.
    pub fn meaning(meaning: Meaning, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), meaning: Some(meaning) }
    }
}

/// Columns narrower than this help nobody.
const NARROWEST: usize = 8;
const GAP: usize = 2;

/// Lays out rows under a header, each line at most `width` columns wide where that is possible.
/// Columns give way in the order of `yielding`.
pub fn render(header: &[&str], rows: &[Vec<Cell>], width: usize, yielding: &[usize]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|title| title.width()).collect();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            widths[column] = widths[column].max(cell.text.width());
        }
    }
    let total: usize = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
    let mut excess = total.saturating_sub(width);
    for column in yielding {
        let give = excess.min(widths[*column].saturating_sub(NARROWEST));
        widths[*column] -= give;
        excess -= give;
    }
    let titles: Vec<Cell> = header.iter().map(|it| Cell::meaning(Meaning::Faint, *it)).collect();
    std::iter::once(&titles).chain(rows).map(|row| line(row, &widths)).collect()
}

fn line(row: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        let text = cut(&cell.text, *width);
        let last = index + 1 == row.len();
        let padding = if last { 0 } else { width - text.width() + GAP };
        match cell.meaning {
            Some(meaning) if !text.is_empty() => line.push_str(&paint(meaning, &text)),
            Some(_) | None => line.push_str(&text),
        }
        line.push_str(&" ".repeat(padding));
    }
    format!("{}\n", line.trim_end())
}

/// The text, or as much of it as fits with an ellipsis behind.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
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
        let text = plain(&render(&["NAME", "TARGET", "STATE"], &rows(), usize::MAX, &[1]));
        assert_eq!(
            text,
            "NAME    TARGET                               STATE\n\
             github  https://api.example.com/a/long/path  ready\n\
             日本    x                                    disabled\n"
        );
    }

    #[test]
    fn on_a_narrow_screen_the_yielding_column_is_cut() {
        let text = plain(&render(&["NAME", "TARGET", "STATE"], &rows(), 40, &[1]));
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains("https://api.example.c…"), "{text}");
    }
}
