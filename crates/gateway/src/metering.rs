//! Counts what goes through, for whoever watches the gateway.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use switchboard::calling::CallFailure;
use switchboard_wire::message::Payload;

/// All counters.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(crate) sessions: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) refused: AtomicU64,
    calls: AtomicU64,
    failures: AtomicU64,
}

impl Meters {
    pub(crate) fn began(&self) -> Instant {
        Instant::now()
    }

    pub(crate) fn called(
        &self,
        server: &str,
        began: Instant,
        outcome: &Result<Payload, CallFailure>,
    ) {
        let _later = (server, began, BTreeMap::<u8, u8>::new());
        self.calls.fetch_add(1, Ordering::Relaxed);
        if outcome.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}
