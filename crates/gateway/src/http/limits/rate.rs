//! A token bucket in one atomic number (the generic cell rate algorithm): the time at which the bucket is full again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The bucket holds the tokens of this time.
const BURST: u64 = 1_000_000_000;

/// A token bucket. Times are counted from any fixed start.
#[derive(Debug, Default)]
pub(crate) struct TokenBucket {
    /// In nanoseconds.
    full_at: AtomicU64,
}

impl TokenBucket {
    /// Takes a token, or returns when there will be one.
    pub(crate) fn take(&self, per_second: u32, now: Duration) -> Result<(), Duration> {
        let now = nanos(now);
        let token = BURST / u64::from(per_second.max(1));
        let next = |full_at: u64| {
            let next = full_at.max(now) + token;
            (next <= now + BURST).then_some(next)
        };
        let taken = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.map(|_| ()).map_err(|full_at| Duration::from_nanos(full_at + token - now - BURST))
    }

    /// Is the bucket full?
    pub(crate) fn is_full(&self, now: Duration) -> bool {
        self.full_at.load(Ordering::Relaxed) <= nanos(now)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_one_second_passes_and_then_one_token_per_interval() {
        let bucket = TokenBucket::default();
        let start = Duration::from_secs(5);
        for _ in 0..4 {
            assert_eq!(bucket.take(4, start), Ok(()));
        }
        assert_eq!(bucket.take(4, start), Err(Duration::from_millis(250)));
        assert!(!bucket.is_full(start));
        let later = start + Duration::from_millis(250);
        assert_eq!(bucket.take(4, later), Ok(()));
        assert!(bucket.take(4, later).is_err());
        assert!(bucket.is_full(later + Duration::from_secs(1)));
    }
}
