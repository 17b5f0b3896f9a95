//! Detects that the machine was suspended, after which a connection may be dead without an error.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The wall clock must run ahead of the monotonic clock by this much.
const SUSPEND_THRESHOLD: Duration = Duration::from_secs(10);

/// Compares the wall clock with the monotonic clock, which stops while the machine is suspended.
pub(super) struct SuspendDetector {
    monotonic: Instant,
    wall: SystemTime,
}

impl SuspendDetector {
    pub(super) fn new() -> SuspendDetector {
        SuspendDetector { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// Whether the machine was suspended since the last check.
    pub(super) fn has_suspended(&mut self) -> bool {
        let now = SuspendDetector::new();
        let wall = now.wall.duration_since(self.wall).unwrap_or_default();
        let monotonic = now.monotonic.saturating_duration_since(self.monotonic);
        *self = now;
        wall > monotonic + SUSPEND_THRESHOLD
    }
}
