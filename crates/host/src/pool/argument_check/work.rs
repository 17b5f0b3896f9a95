//! The work that a check may take. Everything that visits a schema or a value pays for it here, so that no schema of a
//! server can make a check take long, whatever its shape.

use thiserror::Error;

/// The most steps of a check. A step takes well under a microsecond.
pub(super) const MAX_STEPS: u64 = 4_000_000;
/// The most steps of a single match of a pattern.
const MAX_MATCH_STEPS: u64 = 1_000_000;
/// The most steps of all matches in a check.
const MAX_PATTERN_STEPS: u64 = 4_000_000;
/// The most steps, and the most steps of all matches, of a check that takes no noticeable time.
const MAX_QUICK_STEPS: u64 = 20_000;
/// The deepest recursion of a check. It is bounded apart from the steps, because the stack of a thread is small.
const MAX_NESTING: usize = 400;

/// The check needs more work than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the check takes too many steps")]
pub(super) struct WorkLimitError;

/// The remaining work of a check.
#[derive(Debug)]
pub(super) struct Work {
    remaining_steps: u64,
    remaining_pattern_steps: u64,
    on_slow_pattern: OnSlowPattern,
    nesting: usize,
}

/// The behaviour of a match that exceeds the remaining work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnSlowPattern {
    /// Ignore the pattern, as one that backtracks too much: the estimate is the worst case of its size, and most
    /// patterns take far less.
    Ignore,
    /// Stop the check.
    Stop,
}

impl Work {
    pub(super) fn limited_to(steps: u64) -> Work {
        Work {
            remaining_steps: steps,
            remaining_pattern_steps: MAX_PATTERN_STEPS,
            on_slow_pattern: OnSlowPattern::Ignore,
            nesting: 0,
        }
    }

    /// The work of a check that may run between other tasks.
    pub(super) fn quick() -> Work {
        Work {
            remaining_steps: MAX_QUICK_STEPS,
            remaining_pattern_steps: MAX_QUICK_STEPS,
            on_slow_pattern: OnSlowPattern::Stop,
            nesting: 0,
        }
    }

    pub(super) fn spend(&mut self, steps: u64) -> Result<(), WorkLimitError> {
        self.remaining_steps = self.remaining_steps.checked_sub(steps).ok_or(WorkLimitError)?;
        Ok(())
    }

    /// Pays for reading some bytes of text.
    pub(super) fn spend_on_text(&mut self, text: &str) -> Result<(), WorkLimitError> {
        self.spend(1 + u64::try_from(text.len() / 64).unwrap_or(u64::MAX))
    }

    /// Pays for a match of a pattern. `false` if the pattern is to be ignored.
    pub(super) fn affords_match(&mut self, steps: u64) -> Result<bool, WorkLimitError> {
        let remaining = self.remaining_pattern_steps.checked_sub(steps);
        match (remaining.filter(|_| steps <= MAX_MATCH_STEPS), self.on_slow_pattern) {
            (Some(remaining), _) => {
                self.remaining_pattern_steps = remaining;
                Ok(true)
            }
            (None, OnSlowPattern::Ignore) => Ok(false),
            (None, OnSlowPattern::Stop) => Err(WorkLimitError),
        }
    }

    /// Begins a level of recursion, which ends with [`Work::leave`]. After an error the check is over, and no level
    /// needs to be left.
    pub(super) fn enter(&mut self) -> Result<(), WorkLimitError> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING { Err(WorkLimitError) } else { self.spend(1) }
    }

    pub(super) fn leave(&mut self) {
        self.nesting -= 1;
    }
}
