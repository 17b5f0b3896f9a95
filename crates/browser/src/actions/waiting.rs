//! Waiting for text, for a quiet network, or for some time.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::actions::page::Page;
use crate::error::{BrowserError, Result};
use crate::shown_text::quoted;

/// How often a page is looked at.
const POLL: Duration = Duration::from_millis(100);
/// How long the network has to be quiet.
const QUIET: Duration = Duration::from_millis(400);

/// What is waited for.
#[derive(Debug, Clone)]
pub(crate) enum WaitCondition {
    Text(String),
    TextGone(String),
    NetworkIdle,
    Time,
}

impl Page {
    /// Waits; returns what came.
    pub(crate) async fn wait_for(
        &self,
        awaiting: &WaitCondition,
        limit: Duration,
    ) -> Result<String> {
        let start = Instant::now();
        let seconds = limit.as_secs_f64();
        let after = |start: Instant| format!("after {:.1} s", start.elapsed().as_secs_f64());
        match awaiting {
            WaitCondition::Time => {
                sleep(limit).await;
                self.with(|_| ())?;
                Ok(format!("waited {seconds} s"))
            }
            WaitCondition::Text(text) => match self.poll_text(text, true, limit).await? {
                true => Ok(format!("{} is there {}", quoted(text, 80), after(start))),
                false => {
                    let what = format!("{} did not appear", quoted(text, 80));
                    Err(BrowserError::WaitedInVain { what, seconds })
                }
            },
            WaitCondition::TextGone(text) => match self.poll_text(text, false, limit).await? {
                true => Ok(format!("{} is gone {}", quoted(text, 80), after(start))),
                false => {
                    let what = format!("{} did not go", quoted(text, 80));
                    Err(BrowserError::WaitedInVain { what, seconds })
                }
            },
            WaitCondition::NetworkIdle => match self.wait_for_quiet(start + limit).await? {
                true => Ok(format!("the network is quiet {}", after(start))),
                false => {
                    let what = "the network did not become quiet".to_owned();
                    Err(BrowserError::WaitedInVain { what, seconds })
                }
            },
        }
    }

    async fn poll_text(&self, text: &str, wanted: bool, limit: Duration) -> Result<bool> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(dialog) = self.dialog() {
                return Err(self.dialog_error(&dialog));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let mut has_text = false;
            for frame in self.frames_in_order()? {
                let answer = self
                    .run_within::<bool>(&frame, "hasText", &json!([text]), left.max(POLL))
                    .await;
                // A page that is busy or on its way has no text yet.
                has_text |= answer.unwrap_or(false);
            }
            if has_text == wanted {
                return Ok(true);
            }
            if Instant::now() + POLL > deadline {
                return Ok(false);
            }
            sleep(POLL).await;
        }
    }

    async fn wait_for_quiet(&self, deadline: Instant) -> Result<bool> {
        loop {
            let tab = self.tab;
            let left = deadline.saturating_duration_since(Instant::now());
            let quiet = self.context.wait(left, |state| {
                let tab = state.tabs.get(&tab)?;
                (tab.requests.under_way() == 0 && !tab.is_navigating)
                    .then(|| tab.requests.list.newest())
            });
            let Some(newest) = quiet.await else { return Ok(false) };
            let left = deadline.saturating_duration_since(Instant::now());
            let disturbed = self.context.wait(QUIET.min(left), |state| {
                let tab = state.tabs.get(&tab)?;
                (tab.requests.list.newest() != newest || tab.is_navigating).then_some(())
            });
            if disturbed.await.is_none() {
                self.with(|_| ())?;
                return Ok(true);
            }
        }
    }
}
