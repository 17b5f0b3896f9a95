//! Which connections may be open: a number per remote address, and a small share for connections that have not
//! authenticated yet. `server` closes what this refuses.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use switchboard_wire::shared::Shared;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use super::Limits;
use crate::telemetry::limit_kind::LimitKind;

/// How long after a connection was accepted its first request may still be on its way.
const FIRST_REQUEST_TIME: Duration = Duration::from_millis(500);

/// The open connections; `Handle` closes one.
#[derive(Debug)]
struct ConnectionTable<Handle> {
    next_number: u64,
    by_address: HashMap<IpAddr, usize>,
    /// By age, the oldest first.
    unauthenticated: BTreeMap<u64, Handle>,
}

impl<Handle> Default for ConnectionTable<Handle> {
    fn default() -> Self {
        let (by_address, unauthenticated) = (HashMap::new(), BTreeMap::new());
        ConnectionTable { next_number: 0, by_address, unauthenticated }
    }
}

impl<Handle> ConnectionTable<Handle> {
    /// Admits a connection: its number, and the unauthenticated one to close for it.
    fn admit(
        &mut self,
        address: IpAddr,
        handle: Handle,
        is_busy: impl Fn(&Handle) -> bool,
        limits: &Limits,
    ) -> Result<(u64, Option<Handle>), LimitKind> {
        let open = self.by_address.entry(address).or_default();
        if *open >= limits.connections_per_address {
            return Err(LimitKind::AddressConnections);
        }
        *open += 1;
        let is_full = self.unauthenticated.len() >= limits.unauthenticated_connections;
        let evicted = if is_full { self.take_oldest_idle(is_busy) } else { None };
        self.next_number += 1;
        self.unauthenticated.insert(self.next_number, handle);
        Ok((self.next_number, evicted))
    }

    /// Removes the oldest unauthenticated connection that is not busy; if all are busy, the oldest.
    fn take_oldest_idle(&mut self, is_busy: impl Fn(&Handle) -> bool) -> Option<Handle> {
        let idle = self.unauthenticated.iter().find(|it| !is_busy(it.1));
        let number = *idle.or_else(|| self.unauthenticated.first_key_value())?.0;
        self.unauthenticated.remove(&number)
    }

    /// Returns whether the connection was still open for authentication.
    fn authenticate(&mut self, number: u64) -> bool {
        self.unauthenticated.remove(&number).is_some()
    }

    fn close(&mut self, number: u64, address: IpAddr) {
        self.unauthenticated.remove(&number);
        if let Some(open) = self.by_address.get_mut(&address) {
            *open -= 1;
            if *open == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

/// The open connections. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections {
    /// Shared state: changes when a connection opens, authenticates for the first time, and closes.
    table: Shared<ConnectionTable<Arc<ConnectionHandle>>>,
}

/// What the table knows of an open connection.
#[derive(Debug, Default)]
struct ConnectionHandle {
    /// Tells the connection to close.
    evicted: Notify,
    /// The number of requests whose response has not started.
    requests: AtomicUsize,
    /// Has a request arrived?
    has_requested: AtomicBool,
    /// Notified when the first request arrives.
    first_request: Notify,
}

/// A request whose response has not started. Its connection is busy until this is dropped.
#[derive(Debug)]
pub(crate) struct BusyConnection {
    handle: Arc<ConnectionHandle>,
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        self.handle.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open connection. It is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    connections: Connections,
    number: u64,
    pub(crate) address: IpAddr,
    opened: Instant,
    handle: Arc<ConnectionHandle>,
}

impl Connections {
    /// Admits a connection. The second value says whether an older one is closed for it.
    pub(crate) fn admit(
        &self,
        address: IpAddr,
        limits: &Limits,
    ) -> Result<(OpenConnection, Option<LimitKind>), LimitKind> {
        let handle = Arc::new(ConnectionHandle::default());
        let is_busy = |it: &Arc<ConnectionHandle>| it.requests.load(Ordering::Relaxed) > 0;
        let (number, evicted) =
            self.table.update(|table| table.admit(address, handle.clone(), is_busy, limits))?;
        let (connections, opened) = (self.clone(), Instant::now());
        let connection = OpenConnection { connections, number, address, opened, handle };
        let evicts = evicted.map(|it| {
            it.evicted.notify_one();
            LimitKind::UnauthenticatedConnections
        });
        Ok((connection, evicts))
    }
}

impl OpenConnection {
    /// Marks the connection as busy with a request, so that an idle one is closed rather than this one.
    pub(crate) fn start_request(&self) -> BusyConnection {
        if !self.handle.has_requested.load(Ordering::Relaxed) {
            self.handle.has_requested.store(true, Ordering::Relaxed);
            self.handle.first_request.notify_one();
        }
        self.handle.requests.fetch_add(1, Ordering::Relaxed);
        BusyConnection { handle: self.handle.clone() }
    }

    /// Completes when the first request has arrived, or when the connection is too old for one to be on its way: the client
    /// of a connection that was just accepted has sent a request that was not read yet.
    pub(crate) async fn first_request(&self) {
        if !self.handle.has_requested.load(Ordering::Relaxed) {
            let _too_old =
                timeout_at(self.opened + FIRST_REQUEST_TIME, self.handle.first_request.notified())
                    .await;
        }
    }

    /// Records that the connection has authenticated.
    pub(crate) fn authenticate(&self) {
        self.connections.table.update(|table| table.authenticate(self.number));
    }

    /// Completes when the connection is to be closed because it has not authenticated: after the timeout, or because it
    /// is the oldest idle one of too many.
    pub(crate) async fn unauthenticated_too_long(&self, limits: &Limits) {
        tokio::select! {
            () = self.handle.evicted.notified() => {}
            () = sleep(limits.authentication_timeout) => {
                let number = self.number;
                if !self.connections.table.read(|it| it.unauthenticated.contains_key(&number)) {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.table.update(|table| table.close(self.number, self.address));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn limits() -> Limits {
        let (connections_per_address, unauthenticated_connections) = (3, 2);
        Limits { connections_per_address, unauthenticated_connections, ..Limits::default() }
    }

    #[test]
    fn the_oldest_unauthenticated_connection_makes_room_for_a_new_one() {
        let mut table = ConnectionTable::default();
        assert_eq!(table.admit(A, "first", |_| false, &limits()), Ok((1, None)));
        assert_eq!(table.admit(A, "second", |_| false, &limits()), Ok((2, None)));
        assert!(table.authenticate(1));
        assert_eq!(table.admit(B, "third", |_| false, &limits()), Ok((3, None)));
        assert_eq!(table.admit(B, "fourth", |_| false, &limits()), Ok((4, Some("second"))));
        assert!(!table.authenticate(2), "it is being closed");
    }

    #[test]
    fn a_busy_connection_is_closed_only_if_no_other_is_idle() {
        let mut table = ConnectionTable::default();
        let is_busy = |it: &&str| it.starts_with("busy");
        for name in ["busy-1", "idle-2"] {
            assert!(table.admit(A, name, is_busy, &limits()).is_ok());
        }
        assert_eq!(table.admit(B, "busy-3", is_busy, &limits()), Ok((3, Some("idle-2"))));
        assert_eq!(table.admit(B, "busy-4", is_busy, &limits()), Ok((4, Some("busy-1"))));
    }

    #[test]
    fn connections_are_limited_per_address_until_they_close() {
        let mut table = ConnectionTable::default();
        for number in 1..=3 {
            assert!(table.admit(A, (), |_| false, &limits()).is_ok_and(|it| it.0 == number));
            table.authenticate(number);
        }
        assert_eq!(table.admit(A, (), |_| false, &limits()), Err(LimitKind::AddressConnections));
        assert!(table.admit(B, (), |_| false, &limits()).is_ok());
        table.close(2, A);
        assert!(table.admit(A, (), |_| false, &limits()).is_ok());
    }
}
