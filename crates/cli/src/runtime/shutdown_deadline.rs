//! The time by which a program must have ended: one deadline for everything that it does at its end.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// A deadline for the end of a program. There is none until it is set.
#[derive(Debug, Default)]
pub struct ShutdownDeadline(Cell<Option<Instant>>);

impl ShutdownDeadline {
    /// Sets the deadline to this time from now. Only the first call has an effect.
    pub fn start(&self, limit: Duration) {
        if self.0.get().is_none() {
            self.0.set(Some(Instant::now() + limit));
        }
    }

    /// Is there a deadline?
    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Runs work at the end of the program, until the deadline that is set when it starts. What it has not finished is
    /// left to the watchdog.
    pub async fn limit(&self, work: impl Future<Output = ()>) {
        match self.0.get() {
            None => work.await,
            Some(deadline) => {
                let _time_is_up = timeout_at(deadline, work).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_work_at_the_end_has_one_deadline() {
        let deadline = ShutdownDeadline::default();
        deadline.limit(std::future::ready(())).await;
        let began = Instant::now();
        deadline.start(Duration::from_millis(500));
        deadline.start(Duration::from_secs(60));
        for _ in 0..3 {
            deadline.limit(std::future::pending()).await;
        }
        assert_eq!(began.elapsed(), Duration::from_millis(500));
    }
}
