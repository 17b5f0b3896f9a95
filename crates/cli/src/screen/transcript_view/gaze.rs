//! What of the transcript the eye is on: the end, whatever comes, or something further up.

use super::Transcript;

/// A line of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) entry: usize,
    pub(super) line: usize,
}

/// What the eye is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gaze {
    /// The end, whatever comes.
    Bottom,
    /// Something further up: the first line that is shown, and what was the end when the eye left it.
    At { top: Spot, end: Spot },
}

impl Transcript {
    pub(super) fn reveal(&mut self, entry: usize) {
        let (top, bottom) = (self.top(), self.bottom_top());
        let spot = Spot { entry, line: 0 };
        let last = self.forward(top, self.height.saturating_sub(1));
        if spot < top || spot > last {
            let end = self.last_line();
            self.gaze = if spot >= bottom { Gaze::Bottom } else { Gaze::At { top: spot, end } };
        }
    }

    /// Looks further up.
    pub fn scroll_up(&mut self, lines: usize) {
        let top = self.top();
        let top = self.backward(top, lines);
        if top < self.bottom_top() {
            let end = match self.gaze {
                Gaze::Bottom => self.last_line(),
                Gaze::At { end, .. } => end,
            };
            self.gaze = Gaze::At { top, end };
        }
    }

    /// Looks further down.
    pub fn scroll_down(&mut self, lines: usize) {
        let Gaze::At { top, end } = self.gaze else { return };
        let top = self.forward(top, lines);
        self.gaze = match top < self.bottom_top() {
            true => Gaze::At { top, end },
            false => Gaze::Bottom,
        };
    }

    /// One page, with a line of the last one.
    pub fn page(&self) -> usize {
        self.height.saturating_sub(1).max(1)
    }

    /// Looks at the beginning.
    pub fn look_at_top(&mut self) {
        let end = self.last_line();
        let top = Spot { entry: 0, line: 0 };
        if top < self.bottom_top() {
            self.gaze = Gaze::At { top, end };
        }
    }

    /// Looks at the end.
    pub fn look_at_bottom(&mut self) {
        self.gaze = Gaze::Bottom;
    }

    /// How many lines came since the eye left the end; none where it is there.
    pub fn unseen(&mut self) -> Option<usize> {
        let Gaze::At { end, .. } = self.gaze else { return None };
        let mut count = 0;
        for entry in end.entry..self.entries.len() {
            count += self.height_of(entry);
        }
        Some(count.saturating_sub(end.line))
    }

    /// A gaze at something that is gone goes to the end.
    pub(super) fn keep_gaze(&mut self) {
        if let Gaze::At { top, .. } = self.gaze
            && (top.entry >= self.entries.len() || top >= self.bottom_top())
        {
            self.gaze = Gaze::Bottom;
        }
    }

    pub(super) fn top(&mut self) -> Spot {
        match self.gaze {
            Gaze::Bottom => self.bottom_top(),
            Gaze::At { top, .. } => top,
        }
    }

    /// The first line that is shown while the eye is on the end.
    fn bottom_top(&mut self) -> Spot {
        let end = self.end();
        self.backward(end, self.height)
    }

    /// The place behind the last line, as a part of its entry: the entry may go on.
    fn last_line(&mut self) -> Spot {
        match self.entries.len().checked_sub(1) {
            Some(entry) => Spot { entry, line: self.height_of(entry) },
            None => self.end(),
        }
    }

    /// The place behind the last line.
    fn end(&self) -> Spot {
        Spot { entry: self.entries.len(), line: 0 }
    }

    fn backward(&mut self, from: Spot, mut lines: usize) -> Spot {
        let Spot { mut entry, mut line } = from;
        loop {
            if lines <= line {
                return Spot { entry, line: line - lines };
            }
            if entry == 0 {
                return Spot { entry: 0, line: 0 };
            }
            lines -= line;
            entry -= 1;
            line = self.height_of(entry);
        }
    }

    fn forward(&mut self, from: Spot, mut lines: usize) -> Spot {
        let Spot { mut entry, mut line } = from;
        while entry < self.entries.len() {
            let left = self.height_of(entry).saturating_sub(line);
            if lines < left {
                return Spot { entry, line: line + lines };
            }
            lines -= left;
            entry += 1;
            line = 0;
        }
        self.end()
    }
}
