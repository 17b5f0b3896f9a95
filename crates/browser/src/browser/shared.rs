//! The browser of this process, which its sessions share: started at first use, again after a crash, and stopped when it is
//! idle or its last session ends.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::browser::context::BrowserContext;
use crate::browser::running::{BrowserOrigin, ContextOptions, RunningBrowser};
use crate::error::Result;

/// How often the idle time is looked at.
const IDLE_INTERVAL: Duration = Duration::from_secs(20);

/// The browser of this process. It is kept alive by the sessions that use it.
pub(crate) struct SharedBrowser {
    running: tokio::sync::Mutex<Slot>,
    activity: Mutex<Activity>,
}

#[derive(Default)]
struct Slot {
    browser: Weak<RunningBrowser>,
    generation: u64,
}

struct Activity {
    last: Instant,
    calls: usize,
}

/// A call under way, during which the browser is not idle.
pub(crate) struct ActiveCall<'a>(&'a SharedBrowser);

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        let mut activity = self.0.activity();
        activity.calls -= 1;
        activity.last = Instant::now();
    }
}

impl SharedBrowser {
    pub(crate) fn new() -> SharedBrowser {
        SharedBrowser {
            running: tokio::sync::Mutex::default(),
            activity: Mutex::new(Activity { last: Instant::now(), calls: 0 }),
        }
    }

    fn activity(&self) -> std::sync::MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the browser as used until the value is dropped.
    pub(crate) fn begin_call(&self) -> ActiveCall<'_> {
        let mut activity = self.activity();
        activity.calls += 1;
        activity.last = Instant::now();
        ActiveCall(self)
    }

    /// Opens a context in the running browser; starts one if there is none. No session lets go of the browser meanwhile.
    pub(crate) async fn open(
        &self,
        origin: &BrowserOrigin,
        options: ContextOptions<'_>,
    ) -> Result<(Arc<RunningBrowser>, Arc<BrowserContext>)> {
        let mut slot = self.running.lock().await;
        let running = slot.browser.upgrade().filter(|it| !it.has_ended());
        let browser = match running {
            Some(browser) => browser,
            None => {
                slot.generation += 1;
                Arc::new(RunningBrowser::start(origin, slot.generation).await?)
            }
        };
        slot.browser = Arc::downgrade(&browser);
        let context = browser.open_context(options).await?;
        Ok((browser, context))
    }

    /// Closes a session's context, and ends the browser if no other session uses it.
    pub(crate) async fn close(&self, browser: Arc<RunningBrowser>, context: Arc<BrowserContext>) {
        let slot = self.running.lock().await;
        browser.close_context(&context).await;
        drop(context);
        let is_last = Arc::strong_count(&browser) == 1;
        if is_last {
            browser.shut_down().await;
        }
        drop(slot);
    }

    /// Whether nothing has used the browser for a time.
    pub(crate) fn is_idle(&self, limit: Duration) -> bool {
        let activity = self.activity();
        activity.calls == 0 && activity.last.elapsed() >= limit
    }

    /// Waits until nothing has used the browser for a time.
    pub(crate) async fn wait_until_idle(&self, limit: Duration) {
        loop {
            let idle = {
                let activity = self.activity();
                if activity.calls > 0 { Duration::ZERO } else { activity.last.elapsed() }
            };
            match limit.checked_sub(idle) {
                None | Some(Duration::ZERO) => return,
                Some(rest) => tokio::time::sleep(rest.min(IDLE_INTERVAL)).await,
            }
        }
    }
}
