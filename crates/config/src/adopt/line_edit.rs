//! Removes and inserts whole lines of a text.

use std::ops::Range;

/// The lines of a text.
pub(super) struct Lines<'t> {
    text: &'t str,
    ranges: Vec<Range<usize>>,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Lines<'t> {
        let mut ranges = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            ranges.push(start..start + line.len());
            start += line.len();
        }
        Lines { text, ranges }
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// One line with its line break.
    pub(super) fn text(&self, line: usize) -> &'t str {
        &self.text[self.ranges[line].clone()]
    }

    pub(super) fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// The line of a byte.
    pub(super) fn at(&self, byte: usize) -> usize {
        self.ranges.partition_point(|range| range.end <= byte).min(self.len().saturating_sub(1))
    }

    /// The lines that a range of bytes touches.
    pub(super) fn covering(&self, bytes: &Range<usize>) -> Range<usize> {
        self.at(bytes.start)..self.at(bytes.end.saturating_sub(1).max(bytes.start)) + 1
    }
}

/// A text whose lines are being removed and added.
pub(super) struct LineEdit<'l, 't> {
    lines: &'l Lines<'t>,
    is_removed: Vec<bool>,
    /// The lines of the current removal, for `close_gaps`.
    current: Vec<usize>,
    insertion: Option<(usize, String)>,
    paragraph: Option<String>,
}

impl<'l, 't> LineEdit<'l, 't> {
    pub(super) fn new(lines: &'l Lines<'t>) -> LineEdit<'l, 't> {
        LineEdit {
            lines,
            is_removed: vec![false; lines.len()],
            current: Vec::new(),
            insertion: None,
            paragraph: None,
        }
    }

    pub(super) fn remove(&mut self, ranges: Vec<Range<usize>>) {
        for line in ranges.into_iter().flatten() {
            self.is_removed[line] = true;
            self.current.push(line);
        }
    }

    /// Removes the lines between those that were removed since the last call, where all lines of a gap match.
    pub(super) fn close_gaps(&mut self, matches: impl Fn(&str) -> bool) {
        let mut current = std::mem::take(&mut self.current);
        current.sort_unstable();
        for pair in current.windows(2) {
            let mut gap = pair[0] + 1..pair[1];
            if gap.clone().all(|line| matches(self.lines.text(line))) {
                gap.by_ref().for_each(|line| self.is_removed[line] = true);
            }
        }
    }

    /// Inserts complete lines before a line.
    pub(super) fn insert_at(&mut self, line: usize, text: String) {
        self.insertion = Some((line, text));
    }

    /// Adds complete lines at the end, after a blank line.
    pub(super) fn append_paragraph(&mut self, text: String) {
        self.paragraph = Some(text);
    }

    /// The edited text. Where a removal leaves two blank lines, one of them goes too.
    pub(super) fn finish(mut self) -> String {
        self.drop_double_blanks();
        let mut text = String::new();
        for line in 0..self.lines.len() {
            if let Some((_, inserted)) = self.insertion.take_if(|(place, _)| *place == line) {
                text.push_str(&inserted);
            }
            if !self.is_removed[line] {
                text.push_str(self.lines.text(line));
            }
        }
        if let Some((_, inserted)) = self.insertion {
            self.paragraph = Some(inserted);
        }
        if let Some(paragraph) = self.paragraph {
            let newline = self.lines.newline();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push_str(newline);
            }
            let ends_blank = text.is_empty() || text.ends_with("\n\n") || text.ends_with("\n\r\n");
            text.push_str(if ends_blank { "" } else { newline });
            text.push_str(&paragraph);
        }
        text
    }

    fn drop_double_blanks(&mut self) {
        let count = self.lines.len();
        let is_blank = |line: usize| self.lines.text(line).trim().is_empty();
        let mut start = 0;
        while start < count {
            if !self.is_removed[start] {
                start += 1;
                continue;
            }
            let end = (start..count).find(|line| !self.is_removed[*line]).unwrap_or(count);
            let holds_insertion =
                self.insertion.as_ref().is_some_and(|(line, _)| (start..end).contains(line));
            let blank_before = start == 0 || is_blank(start - 1);
            if !holds_insertion && blank_before {
                if end < count && is_blank(end) {
                    self.is_removed[end] = true;
                } else if end == count && start > 0 {
                    self.is_removed[start - 1] = true;
                }
            }
            start = end + 1;
        }
    }
}
