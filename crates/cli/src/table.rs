//! Tables that fit the width they are shown in.

use unicode_width::UnicodeWidthStr;

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

/// A column that may be cut where the screen is narrow, and which end of its texts matters less.
#[derive(Debug, Clone, Copy)]
pub enum Yielding {
    /// The end goes: a command, a name.
    Back(usize),
    /// The beginning goes: a path.
    Front(usize),
}

impl Yielding {
    fn column(self) -> usize {
        match self {
            Yielding::Back(column) | Yielding::Front(column) => column,
        }
    }
}

/// Columns narrower than this help nobody.
const NARROWEST: usize = 8;
const GAP: usize = 2;

/// Lays out rows under a header, each line at most `width` columns wide where that is possible.
/// The widest yielding column gives way first.
pub fn render(header: &[&str], rows: &[Vec<Cell>], width: usize, yielding: &[Yielding]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|title| title.width()).collect();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            widths[column] = widths[column].max(cell.text.width());
        }
    }
    let total: usize = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
    for _ in 0..total.saturating_sub(width) {
        let widest = yielding.iter().map(|it| it.column()).max_by_key(|column| widths[*column]);
        match widest {
            Some(column) if widths[column] > NARROWEST => widths[column] -= 1,
            Some(_) | None => break,
        }
    }
    let ends: Vec<Yielding> = (0..widths.len())
        .map(|column| {
            let found = yielding.iter().find(|it| it.column() == column);
            found.copied().unwrap_or(Yielding::Back(column))
        })
        .collect();
    let titles: Vec<Cell> = header.iter().map(|it| Cell::meaning(Meaning::Faint, *it)).collect();
    std::iter::once(&titles).chain(rows).map(|row| line(row, &widths, &ends)).collect()
}

fn line(row: &[Cell], widths: &[usize], ends: &[Yielding]) -> String {
    let mut line = String::new();
    for (index, ((cell, width), end)) in row.iter().zip(widths).zip(ends).enumerate() {
        let text = match end {
            Yielding::Back(_) => cut(&cell.text, *width),
            Yielding::Front(_) => cut_front(&cell.text, *width),
        };
        let last = index + 1 == row.len();
        let padding = if last { 0 } else { width.saturating_sub(text.width()) + GAP };
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
    for c in text.chars() {
        kept.push(c);
        if kept.width() >= width {
            kept.pop();
            break;
        }
    }
    kept.push('…');
    kept
}

/// The text, or as much of its end as fits with an ellipsis in front.
fn cut_front(text: &str, width: usize) -> String {
    let backwards: String = text.chars().rev().collect();
    cut(&backwards, width).chars().rev().collect()
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
            plain(&render(&["NAME", "TARGET", "STATE"], &rows(), usize::MAX, &[Yielding::Back(1)]));
        assert_eq!(
            text,
            "NAME    TARGET                               STATE\n\
             github  https://api.example.com/a/long/path  ready\n\
             日本    x                                    disabled\n"
        );
    }

    #[test]
    fn on_a_narrow_screen_the_yielding_column_is_cut() {
        let text = plain(&render(&["NAME", "TARGET", "STATE"], &rows(), 40, &[Yielding::Back(1)]));
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
                &[Yielding::Back(0), Yielding::Front(1)],
            ));
            let most = width.max(2 * NARROWEST + GAP);
            assert!(text.lines().all(|line| line.width() <= most), "{width}\n{text}");
        }
    }

    #[test]
    fn of_a_path_the_end_stays() {
        let text = plain(&render(&["NAME", "TARGET", "STATE"], &rows(), 40, &[Yielding::Front(1)]));
        assert!(text.contains("…ample.com/a/long/path"), "{text}");
    }
}
