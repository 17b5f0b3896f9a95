//! Pauses that double from attempt to attempt.

use std::time::Duration;

/// An exponential backoff.
#[derive(Debug)]
pub(super) struct Backoff {
    initial: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) const fn new(initial: Duration, max: Duration) -> Backoff {
        Backoff { initial, max, next: initial }
    }

    /// The pause before the next attempt.
    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.max);
        pause
    }

    /// The pause after an attempt that lasted this long. One that lasted as long as the longest pause counts as a
    /// success, and the pauses start again with the shortest.
    pub(super) fn next_pause_after(&mut self, lasted: Duration) -> Duration {
        if lasted >= self.max {
            self.reset();
        }
        self.next_pause()
    }

    pub(super) fn reset(&mut self) {
        self.next = self.initial;
    }
}
