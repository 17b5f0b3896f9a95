//! How often a model is asked again, and how long is waited in between. Decides, and does not wait.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::model_trouble::Again;

/// How patient a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Temper {
    /// How often it asks in all.
    pub attempts: u32,
    /// How long it waits before the second attempt; each further wait is twice as long.
    pub pause: Duration,
    /// How long it waits at most, where the service does not say.
    pub longest_pause: Duration,
    /// How long the service may take to begin.
    pub beginning: Duration,
    /// How long a stream may be silent.
    pub idle: Duration,
}

impl Default for Temper {
    fn default() -> Temper {
        Temper {
            attempts: 5,
            pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            beginning: Duration::from_secs(300),
            idle: Duration::from_secs(120),
        }
    }
}

impl Temper {
    /// How long to wait after so many attempts; none where it is enough.
    pub(crate) fn wait(&self, attempt: u32, again: Again) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        match again {
            Again::No => None,
            Again::After(wait) => Some(wait),
            Again::Soon => {
                let factor = 2u32.saturating_pow(attempt.saturating_sub(1));
                let most = self.pause.saturating_mul(factor).min(self.longest_pause);
                // From half of it to all of it, so that many who failed together do not come back together.
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
        let temper = Temper::default();
        for (attempt, most) in [(1, 500), (2, 1000), (3, 2000), (4, 4000)] {
            let wait = temper.wait(attempt, Again::Soon).expect("it goes on");
            let most = Duration::from_millis(most);
            assert!(wait >= most / 2 && wait <= most, "{attempt}: {wait:?}");
        }
        assert_eq!(temper.wait(5, Again::Soon), None);
        assert_eq!(temper.wait(1, Again::No), None);
        let said = Duration::from_secs(7);
        assert_eq!(temper.wait(3, Again::After(said)), Some(said));
        assert_eq!(temper.wait(5, Again::After(said)), None);
    }
}
