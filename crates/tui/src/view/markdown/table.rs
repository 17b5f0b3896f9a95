//! A Markdown table fitted to a width: cells are wrapped; in very narrow areas rows become lists.

use pulldown_cmark::Alignment;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::text::wrap::{Margin, wrap};
use crate::theme::{GlyphSet, ScreenTheme, Tone};

/// The narrowest readable column.
const MIN_COLUMN_WIDTH: usize = 4;

/// A cell's text.
pub type TableCell = Vec<Span<'static>>;

/// A parsed table.
#[derive(Debug, Default)]
pub struct MarkdownTable {
    /// The alignment of each column.
    pub alignments: Vec<Alignment>,
    /// The header cells.
    pub head: Vec<TableCell>,
    /// The rows.
    pub rows: Vec<Vec<TableCell>>,
}

impl MarkdownTable {
    /// Its lines for a width.
    pub fn lines(&self, width: usize, theme: &ScreenTheme) -> Vec<Line<'static>> {
        let columns = self.alignments.len().max(1);
        let room = width.saturating_sub(3 * (columns - 1));
        if room < columns * MIN_COLUMN_WIDTH {
            return self.list_lines(width, theme);
        }
        let widths = self.column_widths(columns, room);
        let (bar, dash, cross) = match theme.glyphs {
            GlyphSet::Unicode => (" │ ", "─", "─┼─"),
            GlyphSet::Ascii => (" | ", "-", "-+-"),
        };
        let faint = theme.style(Tone::Muted);
        let mut lines = self.row_lines(&self.head, &widths, Span::styled(bar, faint));
        let rule: Vec<String> = widths.iter().map(|it| dash.repeat(*it)).collect();
        lines.push(Line::from(Span::styled(rule.join(cross), faint)));
        for row in &self.rows {
            lines.extend(self.row_lines(row, &widths, Span::styled(bar, faint)));
        }
        lines
    }

    /// The width of each column: its widest cell, with the widest columns reduced until all fit.
    fn column_widths(&self, columns: usize, room: usize) -> Vec<usize> {
        let mut widths = vec![1; columns];
        for row in std::iter::once(&self.head).chain(&self.rows) {
            for (column, cell) in row.iter().enumerate().take(columns) {
                widths[column] = widths[column].max(cell_width(cell));
            }
        }
        while widths.iter().sum::<usize>() > room {
            match widths.iter_mut().max() {
                Some(widest) if *widest > 1 => *widest -= 1,
                Some(_) | None => break,
            }
        }
        widths
    }

    fn row_lines(
        &self,
        cells: &[TableCell],
        widths: &[usize],
        bar: Span<'static>,
    ) -> Vec<Line<'static>> {
        let nothing = TableCell::new();
        let wrapped: Vec<Vec<Line<'static>>> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| {
                wrap(cells.get(column).unwrap_or(&nothing), *width, &Margin::none())
            })
            .collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        (0..height)
            .map(|at| {
                let mut spans = Vec::new();
                for (column, width) in widths.iter().enumerate() {
                    if column > 0 {
                        spans.push(bar.clone());
                    }
                    let line = wrapped[column].get(at).cloned().unwrap_or_default();
                    spans.extend(self.aligned(column, line, *width));
                }
                Line::from(spans)
            })
            .collect()
    }

    fn aligned(&self, column: usize, line: Line<'static>, width: usize) -> Vec<Span<'static>> {
        let free = width.saturating_sub(line.width());
        let before = match self.alignments.get(column) {
            Some(Alignment::Right) => free,
            Some(Alignment::Center) => free / 2,
            Some(Alignment::Left | Alignment::None) | None => 0,
        };
        let mut spans = vec![Span::raw(" ".repeat(before))];
        spans.extend(line.spans);
        spans.push(Span::raw(" ".repeat(free - before)));
        spans.retain(|it| !it.content.is_empty());
        spans
    }

    fn list_lines(&self, width: usize, theme: &ScreenTheme) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                let mut spans = self.head.get(column).cloned().unwrap_or_default();
                spans.push(Span::styled(": ", theme.style(Tone::Muted)));
                spans.extend(cell.iter().cloned());
                lines.extend(wrap(&spans, width, &Margin::none()));
            }
            lines.push(Line::default());
        }
        lines.pop();
        lines
    }
}

fn cell_width(cell: &TableCell) -> usize {
    cell.iter().map(|it| it.content.width()).sum()
}
