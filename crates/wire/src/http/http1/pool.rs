//! Idle connections that wait for reuse, by driver thread and origin. A sweeper task closes the stale ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::BytesMut;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::connection::{DriverThread, PooledConnection, READ_BUFFER, driver_thread};

/// How many idle connections are kept per host. Without HTTP/2 each call in flight needs its own.
pub(crate) const MAX_IDLE_PER_HOST: usize = 64;
/// How long an idle connection is kept.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often idle connections are checked.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// The idle connections of one client.
#[derive(Default)]
pub(super) struct Pool(Mutex<IdleConnections>);

/// Idle connections by driver thread and origin.
#[derive(Default)]
struct IdleConnections {
    by_thread: HashMap<DriverThread, HashMap<Arc<str>, IdleList>>,
    /// The task that closes stale connections.
    sweeper: Option<AbortHandle>,
}

/// Connections with the time since when they are idle.
type IdleList = Vec<(Instant, PooledConnection)>;

impl Pool {
    /// The lock is held for one push, pop or sweep, and never across an await.
    fn idle(&self) -> MutexGuard<'_, IdleConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle connection that is still usable.
    pub(super) fn checkout(&self, origin: &str) -> Option<PooledConnection> {
        let here = driver_thread();
        loop {
            // The most recently used connection is the least likely to be closed.
            let (since, mut connection) =
                self.idle().by_thread.get_mut(&here)?.get_mut(origin)?.pop()?;
            if since.elapsed() < IDLE_TIMEOUT && connection.is_reusable() {
                return Some(connection);
            }
        }
    }

    pub(super) fn checkin(self: &Arc<Pool>, mut connection: PooledConnection) {
        if connection.read_buffer.capacity() > READ_BUFFER {
            connection.read_buffer = BytesMut::new();
        }
        let mut idle = self.idle();
        let connections = idle.by_thread.entry(connection.thread).or_default();
        let connections = match connections.get_mut(&connection.origin) {
            Some(connections) => connections,
            None => connections.entry(connection.origin.clone()).or_default(),
        };
        if connections.len() >= MAX_IDLE_PER_HOST {
            connections.remove(0);
        }
        connections.push((Instant::now(), connection));
        // A sweeper whose runtime is gone is finished, too.
        if idle.sweeper.as_ref().is_none_or(AbortHandle::is_finished) {
            let sweeping = tokio::spawn(sweep(Arc::downgrade(self)));
            idle.sweeper = Some(sweeping.abort_handle());
        }
    }
}

/// Closes connections that are stale or closed by the server, until none are left.
async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        idle.by_thread.retain(|_, origins| {
            origins.retain(|_, connections| {
                connections.retain_mut(|(since, connection)| {
                    since.elapsed() < IDLE_TIMEOUT && connection.is_reusable()
                });
                !connections.is_empty()
            });
            !origins.is_empty()
        });
        if idle.by_thread.is_empty() {
            idle.sweeper = None;
            return;
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(sweeper) = &self.idle().sweeper {
            sweeper.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use url::Url;

    use super::*;

    #[tokio::test]
    async fn idle_connections_are_closed_by_the_server_or_the_sweeper() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}/mcp")).expect("a URL");
        let pool = Arc::new(Pool::default());
        let mut others = Vec::new();
        for _ in 0..2 {
            let opening = PooledConnection::open(&url, Duration::from_secs(5));
            let (connection, accepted) = tokio::join!(opening, listener.accept());
            pool.checkin(connection.expect("a connection"));
            others.push(accepted.expect("a connection").0);
        }
        let idle_count =
            || pool.idle().by_thread.values().flat_map(HashMap::values).map(Vec::len).sum();
        drop(others.pop());
        tokio::time::pause();
        let mut counts: Vec<usize> = vec![idle_count()];
        for _ in 0..5 {
            tokio::time::advance(SWEEP_INTERVAL).await;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            counts.push(idle_count());
        }
        counts.dedup();
        assert_eq!(counts, [2, 1, 0]);
        assert!(pool.idle().sweeper.is_none(), "an empty pool has no sweeper");
    }
}
