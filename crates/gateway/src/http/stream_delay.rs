//! Tells many who wait for a little while that it has passed, from one timer. A timer for each request would wake the
//! thread that keeps time with nearly each of them, which costs more than the rest of a short call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::server::wait_until_true;

/// The time between two beats.
const TICK: Duration = Duration::from_millis(125);
/// How many beats are a while: the first one may come at once.
const TICKS: usize = 3;
/// Nobody has begun to wait since the timer looked.
const NO_WAITERS: u64 = 0;

/// The way to the timer. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct StreamDelay {
    ticks: watch::Sender<u64>,
    waiters: Arc<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    /// How often somebody began to wait.
    started: AtomicU64,
    /// Rings for a timer that has stopped.
    wake: Notify,
}

impl StreamDelay {
    /// A pulse, and the work of keeping it, which ends when all ends. It rests while nobody waits.
    pub(crate) fn new(
        mut shutdown: watch::Receiver<bool>,
    ) -> (StreamDelay, impl Future<Output = ()> + Send + 'static) {
        let delay = StreamDelay { ticks: watch::Sender::new(0), waiters: Arc::default() };
        let timer = delay.clone();
        let running = async move {
            tokio::select! {
                () = timer.run() => {}
                () = wait_until_true(&mut shutdown) => {}
            }
        };
        (delay, running)
    }

    /// Waits for a while: 250 ms at least, and 375 ms at most. May be dropped.
    pub(crate) async fn wait(&self) {
        let mut ticks = self.ticks.subscribe();
        if self.waiters.started.fetch_add(1, Ordering::Relaxed) == NO_WAITERS {
            self.waiters.wake.notify_one();
        }
        for _ in 0..TICKS {
            let _we_hold_the_other_end = ticks.changed().await.is_ok();
        }
    }

    async fn run(&self) {
        loop {
            self.waiters.wake.notified().await;
            // As long as somebody comes between two beats it goes on: stopping costs more than beating.
            while self.ticks.receiver_count() > 0
                || self.waiters.started.swap(NO_WAITERS, Ordering::Relaxed) != NO_WAITERS
            {
                sleep(TICK).await;
                self.ticks.send_modify(|tick| *tick = tick.wrapping_add(1));
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
        let (shutdown_sender, shutdown) = watch::channel(false);
        let (delay, running) = StreamDelay::new(shutdown);
        let running = tokio::spawn(running);
        for _ in 0..3 {
            let began = Instant::now();
            tokio::join!(delay.wait(), async {
                tokio::time::advance(TICK / 3).await;
                delay.wait().await;
            });
            let waited = began.elapsed();
            assert!(waited >= TICK * 2 && waited <= TICK * 4, "{waited:?}");
            // Nobody waits any more, so that hours pass at once.
            tokio::time::advance(Duration::from_secs(3600)).await;
        }
        let before = *delay.ticks.borrow();
        tokio::time::advance(Duration::from_secs(3600)).await;
        tokio::task::yield_now().await;
        assert!(*delay.ticks.borrow() <= before + 1);
        shutdown_sender.send_replace(true);
        running.await.expect("it ends with everything");
    }
}
