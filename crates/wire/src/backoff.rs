//! Exponential backoff between attempts. Pure: no clock, no sleeping, no randomness.
//! Sleeping, limits on attempts and jitter are left to the caller.

use std::time::Duration;

/// Exponential delays: `initial`, doubled after each failure, at most `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// A backoff without failures.
    pub const fn new(initial: Duration, max: Duration) -> Backoff {
        Backoff { initial, max, failures: 0 }
    }

    /// The delay before the next attempt. Counts one failure.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.delay(self.failures);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// The delay after the given number of earlier failures, whatever was counted.
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.initial.saturating_mul(factor).min(self.max)
    }

    /// Starts over with the initial delay, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Starts over if a connection was open for at least the maximum delay.
    pub fn reset_if_lasted(&mut self, open_for: Duration) {
        if open_for >= self.max {
            self.reset();
        }
    }

    /// Replaces the initial delay, such as by the `retry:` field of an event stream. Keeps the count of failures.
    pub fn set_initial(&mut self, initial: Duration) {
        self.initial = initial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[track_caller]
    fn check(backoff: &mut Backoff, expected: &[u64]) {
        let delays: Vec<u64> = expected.iter().map(|_| backoff.next_delay().as_secs()).collect();
        assert_eq!(delays, expected);
    }

    #[test]
    fn delays_double_up_to_the_maximum() {
        check(&mut Backoff::new(SECOND, 30 * SECOND), &[1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_reset_starts_over() {
        let mut backoff = Backoff::new(2 * SECOND, 60 * SECOND);
        check(&mut backoff, &[2, 4]);
        backoff.reset();
        check(&mut backoff, &[2, 4]);
    }

    #[test]
    fn only_a_connection_that_lasted_resets() {
        let mut backoff = Backoff::new(SECOND, 10 * SECOND);
        check(&mut backoff, &[1, 2]);
        backoff.reset_if_lasted(9 * SECOND);
        check(&mut backoff, &[4]);
        backoff.reset_if_lasted(10 * SECOND);
        check(&mut backoff, &[1]);
    }

    #[test]
    fn a_new_initial_delay_keeps_the_failures() {
        let mut backoff = Backoff::new(SECOND, 100 * SECOND);
        check(&mut backoff, &[1, 2]);
        backoff.set_initial(3 * SECOND);
        check(&mut backoff, &[12, 24]);
    }

    #[test]
    fn many_failures_do_not_overflow() {
        let backoff = Backoff::new(SECOND, Duration::MAX);
        assert_eq!(backoff.delay(10), 1024 * SECOND);
        assert_eq!(backoff.delay(31), SECOND * (1 << 31));
        for failures in [32, 33, 1000, u32::MAX] {
            assert_eq!(backoff.delay(failures), SECOND * u32::MAX, "{failures}");
        }
        let mut capped = Backoff { failures: u32::MAX, ..Backoff::new(SECOND, 60 * SECOND) };
        check(&mut capped, &[60, 60]);
        assert_eq!(Backoff::new(Duration::ZERO, SECOND).delay(40), Duration::ZERO);
    }
}
