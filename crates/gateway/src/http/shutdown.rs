//! The shutdown signal of the HTTP server, and how long requests have to finish after it.

use std::time::Duration;

use tokio::sync::watch;

/// How long running requests have to finish at shutdown.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until the signal is true, or its sender is dropped.
pub(crate) async fn wait_until_true(signal: &mut watch::Receiver<bool>) {
    let _true_or_closed = signal.wait_for(|it| *it).await.is_ok();
}
