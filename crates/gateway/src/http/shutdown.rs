//! How the HTTP server stops: why, in which steps, and the signal for what runs.

use std::time::Duration;

use tokio::sync::watch;

/// Why a server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The program ends.
    Ended,
    /// Another process accepts connections at the same socket.
    HandedOver,
}

impl From<()> for StopReason {
    fn from((): ()) -> StopReason {
        StopReason::Ended
    }
}

/// The steps of a stop. At first, new requests are still served, so that no client meets a closed connection: `/readyz`
/// says that the server is draining, and each HTTP/1.1 response closes its connection. Then running requests finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainOptions {
    /// How long new requests are still served.
    pub delay: Duration,
    /// How long running requests have to finish after that.
    pub timeout: Duration,
}

impl DrainOptions {
    /// The least time for which new requests are still served where another process takes over, so that clients with an
    /// open connection move to it.
    pub const HANDOVER_DELAY: Duration = Duration::from_secs(2);

    /// How long new requests are still served after a stop for this reason.
    pub(crate) fn delay_after(&self, reason: StopReason) -> Duration {
        match reason {
            StopReason::Ended => self.delay,
            StopReason::HandedOver => self.delay.max(DrainOptions::HANDOVER_DELAY),
        }
    }
}

impl Default for DrainOptions {
    fn default() -> DrainOptions {
        DrainOptions { delay: Duration::ZERO, timeout: Duration::from_secs(10) }
    }
}

/// Waits until the signal is true, or its sender is dropped.
pub(crate) async fn wait_until_true(signal: &mut watch::Receiver<bool>) {
    let _true_or_closed = signal.wait_for(|it| *it).await.is_ok();
}
