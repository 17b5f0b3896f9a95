//! A short delay for many requests from one timer, after which a response becomes an event stream. A timer for each
//! request would wake the runtime's timer thread for nearly every call, which costs more than a short call itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::http::shutdown::wait_until_true;

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(125);
/// The number of ticks in a delay. The first tick may come at once.
const TICKS: usize = 3;
/// No request has started to wait since the last tick.
const NO_WAITERS: u64 = 0;

/// The delay. Clones share the timer.
#[derive(Debug, Clone)]
pub(crate) struct StreamDelay {
    ticks: watch::Sender<u64>,
    waiters: Arc<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    /// The number of requests that started to wait since the last tick.
    started: AtomicU64,
    /// Wakes a timer that has stopped.
    wake: Notify,
}

impl StreamDelay {
    /// A delay, and the future that runs its timer until shutdown. The timer stops while no request waits.
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

    /// Waits between 250 and 375 ms. Cancel-safe.
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
        let mut tick: u64 = 0;
        loop {
            self.waiters.wake.notified().await;
            // Runs on while requests start between two ticks: stopping costs more than ticking.
            while self.ticks.receiver_count() > 0
                || self.waiters.started.swap(NO_WAITERS, Ordering::Relaxed) != NO_WAITERS
            {
                sleep(TICK).await;
                tick = tick.wrapping_add(1);
                let _no_waiters = self.ticks.send(tick);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_delay_is_within_bounds_and_the_timer_stops_while_no_request_waits() {
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
            // No request waits, so that the paused clock skips hours.
            tokio::time::advance(Duration::from_secs(3600)).await;
        }
        let before = *delay.ticks.borrow();
        tokio::time::advance(Duration::from_secs(3600)).await;
        tokio::task::yield_now().await;
        assert!(*delay.ticks.borrow() <= before + 1);
        shutdown_sender.send(true).expect("the timer runs");
        running.await.expect("it ends at shutdown");
    }
}
