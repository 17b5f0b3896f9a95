//! Finds the line and column of a byte in a text.

use std::cell::Cell;

use crate::source::Position;

/// A text whose lines can be looked up, parsed or not.
#[derive(Debug)]
pub struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
    /// The last place that was asked for: a whole file may be one line, and counting it again for
    /// everything in it would take for ever.
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

    /// The line and column of a byte.
    pub fn position(&self, byte: usize) -> Position {
        let byte = self.text.floor_char_boundary(byte);
        let line = self.starts.partition_point(|start| *start <= byte).max(1);
        let start = self.starts[line - 1];
        let last = self.cached.get();
        // From the last place that was asked for, on or back, unless the line's beginning is nearer.
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

    /// The line's text without its ending; lines count from 1.
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
    fn positions_are_the_same_in_whatever_order_they_are_asked() {
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
