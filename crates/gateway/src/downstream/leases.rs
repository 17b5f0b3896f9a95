//! Connections that modern requests over HTTP use one at a time. Such a request has no session, and two requests may
//! come from two programs with the same credentials; a server whose messages do not say which call they belong to
//! therefore serves one of them at a time on each connection. `relay` closes the connections of cancelled requests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use switchboard_wire::shared::Shared;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use crate::downstream::client::Client;

/// The most connections to one server that the requests of one account use at the same time.
const MAX_LEASES: usize = 16;
/// How long a request waits for a connection.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Unused entries are removed whenever the number of entries reaches a multiple of this.
const PRUNE_INTERVAL: usize = 256;

/// The server, and the account of the client.
type LeaseKey = (Arc<str>, Arc<str>);

/// The connections in use. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLeases {
    /// Shared state: two requests must not get the same connection.
    by_key: Shared<HashMap<LeaseKey, LeasedConnections>>,
    /// Unbounded, but each message holds a permit, of which an account has [`MAX_LEASES`] for each server.
    abandoned: mpsc::UnboundedSender<AbandonedConnection>,
}

/// The connections of one key: each has a number and the session that its calls are attributed to.
#[derive(Debug)]
struct LeasedConnections {
    permits: Arc<Semaphore>,
    last: u64,
    /// By the client's capabilities and the number.
    free: BTreeMap<(String, u64), u64>,
}

impl Default for LeasedConnections {
    fn default() -> LeasedConnections {
        let permits = Arc::new(Semaphore::new(MAX_LEASES));
        LeasedConnections { permits, last: 0, free: BTreeMap::new() }
    }
}

impl LeasedConnections {
    /// Takes the number and the session of a connection that was free, or of a new one.
    fn take(&mut self, capabilities: &str) -> (u64, u64) {
        let free = self.free.keys().find(|it| it.0 == capabilities).cloned();
        if let Some((key, session)) = free.and_then(|it| self.free.remove_entry(&it)) {
            return (key.1, session);
        }
        self.last += 1;
        (self.last, Client::new_session())
    }
}

/// A connection whose request was cancelled. It counts as used until this is dropped.
#[derive(Debug)]
pub(crate) struct AbandonedConnection {
    /// The key of the dedicated connection to close.
    pub(crate) connection_key: String,
    _permit: Option<OwnedSemaphorePermit>,
}

/// The right to use a connection alone. The connection is free again when the lease is dropped after
/// [`ConnectionLease::complete`]; otherwise the server may still work on the call, and the connection is closed.
#[derive(Debug)]
pub(crate) struct ConnectionLease {
    leases: ConnectionLeases,
    key: LeaseKey,
    capabilities: String,
    /// The number of the connection.
    number: u64,
    /// The session that its calls are attributed to.
    pub(crate) session: u64,
    permit: Option<OwnedSemaphorePermit>,
    is_complete: AtomicBool,
}

impl ConnectionLeases {
    /// No connections, and those that are to be closed later.
    pub(crate) fn new() -> (ConnectionLeases, mpsc::UnboundedReceiver<AbandonedConnection>) {
        let (abandoned, receiver) = mpsc::unbounded_channel();
        (ConnectionLeases { by_key: Shared::default(), abandoned }, receiver)
    }

    /// A connection for a request of this client to a server. Waits while too many are in use; None if that takes too
    /// long.
    pub(crate) async fn acquire(&self, server: &str, client: &Client) -> Option<ConnectionLease> {
        let key = (server.into(), client.account.clone());
        let permits = self.by_key.update(|all| {
            if all.len() % PRUNE_INTERVAL == PRUNE_INTERVAL - 1 {
                // Permits and waiting requests hold the semaphore.
                all.retain(|_, it| Arc::strong_count(&it.permits) > 1);
            }
            all.entry(LeaseKey::clone(&key)).or_default().permits.clone()
        });
        let permit = timeout(MAX_WAIT, permits.acquire_owned()).await.ok()?.ok()?;
        let capabilities = client.capabilities().to_string();
        let (number, session) =
            self.by_key.update(|all| all.entry(key.clone()).or_default().take(&capabilities));
        Some(ConnectionLease {
            leases: self.clone(),
            key,
            capabilities,
            number,
            session,
            permit: Some(permit),
            is_complete: AtomicBool::new(false),
        })
    }
}

impl ConnectionLease {
    /// The key of the dedicated connection.
    pub(crate) fn connection_key(&self) -> String {
        let ConnectionLease { key, capabilities, number, .. } = self;
        format!("lease:{}:{}/{number}|{capabilities}", key.0, key.1)
    }

    /// Records that the server has answered the request.
    pub(crate) fn complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        if self.is_complete.load(Ordering::Relaxed) {
            let free = (std::mem::take(&mut self.capabilities), self.number);
            self.leases.by_key.update(|all| {
                if let Some(connections) = all.get_mut(&self.key) {
                    connections.free.insert(free, self.session);
                }
            });
        } else {
            let connection_key = self.connection_key();
            let abandoned = AbandonedConnection { connection_key, _permit: self.permit.take() };
            let _gateway_ended = self.leases.abandoned.send(abandoned);
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::protocol::era::Era;

    use super::*;

    fn client(account: &str) -> Client {
        Client::new("local".into(), Era::Modern, None).with_account(account.into())
    }

    async fn acquire(leases: &ConnectionLeases, client: &Client) -> ConnectionLease {
        leases.acquire("s", client).await.expect("a connection")
    }

    #[tokio::test]
    async fn a_connection_serves_one_request_at_a_time_and_is_closed_after_a_cancelled_one() {
        let (leases, mut abandoned) = ConnectionLeases::new();
        let ada = client("ada");
        let (first, second) = (acquire(&leases, &ada).await, acquire(&leases, &ada).await);
        assert!(first.connection_key() != second.connection_key());
        assert!(first.session != second.session);
        let reusable = (first.connection_key(), first.session);
        first.complete();
        drop(first);
        let again = acquire(&leases, &ada).await;
        assert_eq!((again.connection_key(), again.session), reusable, "it is free again");
        assert!(abandoned.try_recv().is_err());
        // The server may still work on a call that was cancelled.
        let cancelled = second.connection_key();
        drop(second);
        assert_ne!(acquire(&leases, &ada).await.connection_key(), cancelled);
        assert_eq!(abandoned.try_recv().expect("to close").connection_key, cancelled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_a_connection_and_other_accounts_do_not() {
        let (leases, _abandoned) = ConnectionLeases::new();
        let (ada, bob) = (client("192.0.2.1"), client("192.0.2.2"));
        let mut held = Vec::new();
        for _ in 0..MAX_LEASES {
            held.push(acquire(&leases, &ada).await);
        }
        assert!(leases.acquire("s", &ada).await.is_none(), "after a wait");
        let other = leases.acquire("other", &ada).await.expect("a connection to another server");
        let of_bob = acquire(&leases, &bob).await;
        assert!(held.iter().all(|it| it.connection_key() != of_bob.connection_key()));
        assert!(held.iter().all(|it| it.connection_key() != other.connection_key()));
        let (next, ()) = tokio::join!(leases.acquire("s", &ada), async {
            let released = held.pop().expect("one");
            released.complete();
        });
        assert!(next.is_some(), "the first that is free");
    }
}
