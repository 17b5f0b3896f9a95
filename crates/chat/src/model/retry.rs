//! The retry policy of model requests. Computes delays; waiting is left to `client`.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use switchboard::wire::backoff::Backoff;

use crate::model::attempt_error::RetryAdvice;

/// Limits on retries and waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The maximum number of attempts.
    pub max_attempts: u32,
    /// The backoff before the second attempt; it doubles with each further one.
    pub initial_backoff: Duration,
    /// The longest backoff, unless the service asks for more.
    pub max_backoff: Duration,
    /// How long the service may take to start its response.
    pub response_timeout: Duration,
    /// The longest time between two parts of a stream.
    pub idle_timeout: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            max_attempts: 5,
            initial_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(30),
            response_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(120),
        }
    }
}

impl RetryPolicy {
    /// The delay after an attempt; `None` where there is no further one.
    pub(crate) fn backoff(&self, attempt: u32, advice: RetryAdvice) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        match advice {
            RetryAdvice::Never => None,
            RetryAdvice::After(wait) => Some(wait),
            RetryAdvice::WithBackoff => {
                let backoff = Backoff::new(self.initial_backoff, self.max_backoff);
                let most = backoff.delay(attempt.saturating_sub(1));
                // Jitter from half to full, so that clients that failed together do not retry together.
                let spread = RandomState::new().hash_one(attempt) % 1000;
                let share = 500 + u32::try_from(spread / 2).unwrap_or_default();
                Some(most.saturating_mul(share) / 1000)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end_and_a_services_word_counts() {
        let policy = RetryPolicy::default();
        for (attempt, most) in [(1, 500), (2, 1000), (3, 2000), (4, 4000)] {
            let wait = policy.backoff(attempt, RetryAdvice::WithBackoff).expect("it goes on");
            let most = Duration::from_millis(most);
            assert!(wait >= most / 2 && wait <= most, "{attempt}: {wait:?}");
        }
        assert_eq!(policy.backoff(5, RetryAdvice::WithBackoff), None);
        assert_eq!(policy.backoff(1, RetryAdvice::Never), None);
        let stated = Duration::from_secs(7);
        assert_eq!(policy.backoff(3, RetryAdvice::After(stated)), Some(stated));
        assert_eq!(policy.backoff(5, RetryAdvice::After(stated)), None);
    }
}
