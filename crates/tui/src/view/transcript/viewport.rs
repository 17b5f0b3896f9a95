//! The visible part of the transcript: its end, or a position further up.

use super::TranscriptView;

/// A line of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinePosition {
    pub(crate) entry: usize,
    pub(crate) line: usize,
}

/// The visible part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Viewport {
    /// The end; it follows new lines.
    Bottom,
    /// A position further up: the first visible line, and the end of the transcript when the user left it.
    Scrolled { top: LinePosition, end: LinePosition },
}

impl TranscriptView {
    pub(crate) fn scroll_into_view(&mut self, entry: usize) {
        let (top, bottom) = (self.top(), self.top_at_bottom());
        let spot = LinePosition { entry, line: 0 };
        let last = self.forward(top, self.height.saturating_sub(1));
        if spot < top || spot > last {
            let end = self.last_line();
            self.viewport = if spot >= bottom {
                Viewport::Bottom
            } else {
                Viewport::Scrolled { top: spot, end }
            };
        }
    }

    /// Scrolls up.
    pub fn scroll_up(&mut self, lines: usize) {
        let top = self.top();
        let top = self.backward(top, lines);
        if top < self.top_at_bottom() {
            let end = match self.viewport {
                Viewport::Bottom => self.last_line(),
                Viewport::Scrolled { end, .. } => end,
            };
            self.viewport = Viewport::Scrolled { top, end };
        }
    }

    /// Scrolls down.
    pub fn scroll_down(&mut self, lines: usize) {
        let Viewport::Scrolled { top, end } = self.viewport else { return };
        let top = self.forward(top, lines);
        self.viewport = match top < self.top_at_bottom() {
            true => Viewport::Scrolled { top, end },
            false => Viewport::Bottom,
        };
    }

    /// The lines of a page, less one.
    pub fn page_size(&self) -> usize {
        self.height.saturating_sub(1).max(1)
    }

    /// Scrolls to the start.
    pub fn scroll_to_top(&mut self) {
        let end = self.last_line();
        let top = LinePosition { entry: 0, line: 0 };
        if top < self.top_at_bottom() {
            self.viewport = Viewport::Scrolled { top, end };
        }
    }

    /// Scrolls to the end.
    pub fn scroll_to_bottom(&mut self) {
        self.viewport = Viewport::Bottom;
    }

    /// The number of lines added since the user scrolled up; `None` at the end.
    pub fn lines_below(&mut self) -> Option<usize> {
        let Viewport::Scrolled { end, .. } = self.viewport else { return None };
        let mut count = 0;
        for entry in end.entry..self.entries.len() {
            count += self.entry_height(entry);
        }
        Some(count.saturating_sub(end.line))
    }

    /// Returns to the end where the first visible line is gone.
    pub(crate) fn clamp_viewport(&mut self) {
        if let Viewport::Scrolled { top, .. } = self.viewport
            && (top.entry >= self.entries.len() || top >= self.top_at_bottom())
        {
            self.viewport = Viewport::Bottom;
        }
    }

    pub(crate) fn top(&mut self) -> LinePosition {
        match self.viewport {
            Viewport::Bottom => self.top_at_bottom(),
            Viewport::Scrolled { top, .. } => top,
        }
    }

    /// The first visible line at the end of the transcript.
    fn top_at_bottom(&mut self) -> LinePosition {
        let end = self.end();
        self.backward(end, self.height)
    }

    /// The position after the last line, inside its entry, which may still grow.
    fn last_line(&mut self) -> LinePosition {
        match self.entries.len().checked_sub(1) {
            Some(entry) => LinePosition { entry, line: self.entry_height(entry) },
            None => self.end(),
        }
    }

    /// The position after the last entry.
    fn end(&self) -> LinePosition {
        LinePosition { entry: self.entries.len(), line: 0 }
    }

    fn backward(&mut self, from: LinePosition, mut lines: usize) -> LinePosition {
        let LinePosition { mut entry, mut line } = from;
        loop {
            if lines <= line {
                return LinePosition { entry, line: line - lines };
            }
            if entry == 0 {
                return LinePosition { entry: 0, line: 0 };
            }
            lines -= line;
            entry -= 1;
            line = self.entry_height(entry);
        }
    }

    fn forward(&mut self, from: LinePosition, mut lines: usize) -> LinePosition {
        let LinePosition { mut entry, mut line } = from;
        while entry < self.entries.len() {
            let left = self.entry_height(entry).saturating_sub(line);
            if lines < left {
                return LinePosition { entry, line: line + lines };
            }
            lines -= left;
            entry += 1;
            line = 0;
        }
        self.end()
    }
}
