//! Finds the line and column of a byte in a text.

use std::cell::Cell;

use crate::source::Position;

/// The line starts of a text.
#[derive(Debug)]
pub struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
    /// The last position that was computed. A whole file may be one line, and counting its characters from the
    /// start for every value would take quadratic time.
    cached: Cell<CachedPosition>,
}

#[derive(Debug, Clone, Copy, Default)]
struct CachedPosition {
    line: usize,
    byte: usize,
    column: usize,
}

impl<'t> LineIndex<'t> {
    /// Indexes the lines of `text`.
    pub fn new(text: &'t str) -> LineIndex<'t> {
        let after_breaks =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(index, _)| index + 1);
        let starts = std::iter::once(0).chain(after_breaks).collect();
        LineIndex { text, starts, cached: Cell::default() }
    }

    /// Returns the line and column of a byte.
    pub fn position(&self, byte: usize) -> Position {
        let byte = self.text.floor_char_boundary(byte);
        let line = self.starts.partition_point(|start| *start <= byte).max(1);
        let start = self.starts[line - 1];
        let last = self.cached.get();
        // Counts from the last position, forwards or backwards, unless the start of the line is nearer.
        let column = match last.line == line {
            true if last.byte <= byte => last.column + self.text[last.byte..byte].chars().count(),
            true if last.byte - byte < byte - start => {
                last.column - self.text[byte..last.byte].chars().count()
            }
            true | false => 1 + self.text[start..byte].chars().count(),
        };
        self.cached.set(CachedPosition { line, byte, column });
        Position { line, column }
    }

    /// Returns a line without its line ending; lines count from 1.
    pub fn line(&self, line: usize) -> &'t str {
        let start = line.checked_sub(1).and_then(|index| self.starts.get(index));
        let Some(start) = start else { return "" };
        let end = self.starts.get(line).copied().unwrap_or(self.text.len());
        self.text[*start..end].trim_end_matches(['\n', '\r'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_do_not_depend_on_the_order_of_requests() {
        let text = "aé\nbüc\n日本語 x";
        let all: Vec<usize> = (0..=text.len()).collect();
        let alone: Vec<Position> =
            all.iter().map(|byte| LineIndex::new(text).position(*byte)).collect();
        let lines = LineIndex::new(text);
        let forwards: Vec<Position> = all.iter().map(|byte| lines.position(*byte)).collect();
        let mut backwards: Vec<Position> =
            all.iter().rev().map(|byte| lines.position(*byte)).collect();
        backwards.reverse();
        assert_eq!((&forwards, &backwards), (&alone, &alone));
    }
}
