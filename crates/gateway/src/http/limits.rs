//! Limits of what one principal, and all principals together, may use, and the accounting of it. Does no I/O; `accounts`
//! reads the clock for the request rate. Counting changes atomics; only finding an account reads shared state.

pub(crate) mod accounts;
pub(crate) mod client_account;
pub(crate) mod connections;
pub(crate) mod rate;

use std::time::Duration;

use crate::telemetry::limit_kind::LimitKind;

/// A limit per principal, and one over all principals. One remote address may use half of the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The most that one principal may use.
    pub per_principal: usize,
    /// The most that all principals together may use.
    pub total: usize,
}

/// The limits of an HTTP server. Without authentication, a remote address counts as a principal; an IPv6 network of 64
/// bits counts as one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Open sessions of legacy clients and `subscriptions/listen` streams of modern clients.
    pub sessions: Quota,
    /// Bytes of events that are kept so that interrupted streams can be resumed; the oldest are dropped first. As many
    /// again may wait for clients to read them; a stream whose client is slower ends, and can be resumed.
    pub replay_bytes: Quota,
    /// Requests in flight.
    pub requests_in_flight: Quota,
    /// Requests per second and principal, with bursts of the same size; `None` for no limit. An address may send
    /// [`Limits::ADDRESS_RATE_FACTOR`] times as many.
    pub requests_per_second: Option<u32>,
    /// Open connections.
    pub connections: Quota,
    /// Open connections from one remote address.
    pub connections_per_address: usize,
    /// Open connections without an authenticated request so far. One more closes the oldest idle one.
    pub unauthenticated_connections: usize,
    /// How long a connection may be open without an authenticated request.
    pub authentication_timeout: Duration,
}

impl Limits {
    /// How many times the requests of one principal an address may send: several principals may share it.
    pub const ADDRESS_RATE_FACTOR: u32 = 8;

    /// The limits that apply to all principals of one remote address together.
    pub(crate) fn of_address(&self) -> Limits {
        let half = |quota: Quota| Quota { per_principal: quota.total.div_ceil(2), ..quota };
        Limits {
            sessions: half(self.sessions),
            requests_in_flight: half(self.requests_in_flight),
            requests_per_second: self
                .requests_per_second
                .map(|it| it.saturating_mul(Limits::ADDRESS_RATE_FACTOR)),
            ..self.clone()
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: Quota { per_principal: 1000, total: 10_000 },
            replay_bytes: Quota { per_principal: 64 << 20, total: 512 << 20 },
            requests_in_flight: Quota { per_principal: 256, total: 8192 },
            requests_per_second: Some(500),
            connections: Quota { per_principal: 2048, total: 8192 },
            connections_per_address: 4096,
            unauthenticated_connections: 2048,
            authentication_timeout: Duration::from_secs(10),
        }
    }
}

/// A request that would exceed a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitExceeded {
    pub(crate) limit: LimitKind,
    /// When a retry may succeed.
    pub(crate) retry_after: Duration,
}
