//! Waits for things that may be absent, for use in `select!`. Without one, they wait forever.

use std::future::Future;
use std::pin::Pin;

use tokio::time::{Instant, sleep_until};

/// Polls a stored future. The caller removes it when it has completed. Cancel-safe, because the future stays stored.
pub(super) async fn wait_for<T>(stored: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match stored {
        Some(future) => future.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Waits until a point in time.
pub(super) async fn wait_until(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}
