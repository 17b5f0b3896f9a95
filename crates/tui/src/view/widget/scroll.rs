//! A scroll position over a number of lines.

/// A scroll position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scroll {
    /// The first visible line.
    pub top: usize,
    /// The number of lines, and of visible lines, at the last drawing.
    total: usize,
    height: usize,
}

impl Scroll {
    /// The visible range of `total` lines in `height` rows.
    pub fn visible(&mut self, total: usize, height: u16) -> std::ops::Range<usize> {
        self.total = total;
        self.height = usize::from(height);
        self.top = self.top.min(total.saturating_sub(self.height));
        self.top..(self.top + self.height).min(total)
    }

    /// Scrolls down by `lines`; up where it is negative.
    pub fn scroll_by(&mut self, lines: isize) {
        let last = self.total.saturating_sub(self.height);
        self.top = self.top.saturating_add_signed(lines).min(last);
    }

    /// The lines of a page, less one.
    pub fn page_size(&self) -> isize {
        isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// Scrolls to the end.
    pub fn scroll_to_end(&mut self) {
        self.top = self.total.saturating_sub(self.height);
    }

    /// Is the last line visible?
    pub fn is_at_end(&self) -> bool {
        self.top + self.height >= self.total
    }

    /// Scrolls so that these lines are visible, the first of them in any case.
    pub fn scroll_into_view(&mut self, lines: std::ops::Range<usize>, height: u16) {
        let height = usize::from(height);
        if lines.end > self.top + height {
            self.top = lines.end.saturating_sub(height);
        }
        self.top = self.top.min(lines.start);
    }

    /// The number of hidden lines above and below.
    pub fn hidden_counts(&self) -> (usize, usize) {
        (self.top, self.total.saturating_sub(self.top + self.height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrolling_stops_at_both_ends() {
        let mut scroll = Scroll::default();
        assert_eq!(scroll.visible(10, 4), 0..4);
        scroll.scroll_by(100);
        assert_eq!(scroll.visible(10, 4), 6..10);
        scroll.scroll_by(-3);
        assert_eq!((scroll.top, scroll.hidden_counts()), (3, (3, 3)));
        scroll.scroll_into_view(9..10, 4);
        assert_eq!(scroll.top, 6);
        scroll.scroll_into_view(0..9, 4);
        assert_eq!(scroll.top, 0);
        assert_eq!(scroll.visible(2, 0), 0..0);
    }
}
