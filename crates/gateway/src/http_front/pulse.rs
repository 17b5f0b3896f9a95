//! Tells many who wait for a little while that it has passed, from one timer. A timer for each request would wake the
//! thread that keeps time with nearly each of them, which costs more than the rest of a short call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::told;

/// The time between two beats.
const BEAT: Duration = Duration::from_millis(125);
/// How many beats are a while: the first one may come at once.
const BEATS: usize = 3;
/// Nobody has begun to wait since the timer looked.
const RESTING: u64 = 0;

/// The way to the timer. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Pulse {
    beats: watch::Sender<u64>,
    wanted: Arc<Wanted>,
}

#[derive(Debug, Default)]
struct Wanted {
    /// How often somebody began to wait.
    times: AtomicU64,
    /// Rings for a timer that has stopped.
    bell: Notify,
}

impl Pulse {
    /// A pulse, and the work of keeping it, which ends when all ends. It rests while nobody waits.
    pub(super) fn new(
        mut ending: watch::Receiver<bool>,
    ) -> (Pulse, impl Future<Output = ()> + Send + 'static) {
        let pulse = Pulse { beats: watch::Sender::new(0), wanted: Arc::default() };
        let kept = pulse.clone();
        let keeping = async move {
            tokio::select! {
                () = kept.keep() => {}
                () = told(&mut ending) => {}
            }
        };
        (pulse, keeping)
    }

    /// Waits for a while: 250 ms at least, and 375 ms at most. May be dropped.
    pub(super) async fn a_while(&self) {
        let mut beats = self.beats.subscribe();
        if self.wanted.times.fetch_add(1, Ordering::Relaxed) == RESTING {
            self.wanted.bell.notify_one();
        }
        for _ in 0..BEATS {
            let _we_hold_the_other_end = beats.changed().await.is_ok();
        }
    }

    async fn keep(&self) {
        loop {
            self.wanted.bell.notified().await;
            // As long as somebody comes between two beats it goes on: stopping costs more than beating.
            while self.beats.receiver_count() > 0
                || self.wanted.times.swap(RESTING, Ordering::Relaxed) != RESTING
            {
                sleep(BEAT).await;
                self.beats.send_modify(|beat| *beat = beat.wrapping_add(1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_while_is_neither_short_nor_long_and_the_pulse_rests_in_between() {
        let (end, ending) = watch::channel(false);
        let (pulse, keeping) = Pulse::new(ending);
        let keeping = tokio::spawn(keeping);
        for _ in 0..3 {
            let began = Instant::now();
            tokio::join!(pulse.a_while(), async {
                tokio::time::advance(BEAT / 3).await;
                pulse.a_while().await;
            });
            let waited = began.elapsed();
            assert!(waited >= BEAT * 2 && waited <= BEAT * 4, "{waited:?}");
            // Nobody waits any more, so that hours pass at once.
            tokio::time::advance(Duration::from_secs(3600)).await;
        }
        let before = *pulse.beats.borrow();
        tokio::time::advance(Duration::from_secs(3600)).await;
        tokio::task::yield_now().await;
        assert!(*pulse.beats.borrow() <= before + 1);
        end.send_replace(true);
        keeping.await.expect("it ends with everything");
    }
}
