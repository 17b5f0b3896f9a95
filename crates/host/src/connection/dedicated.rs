//! Dedicated connections to a server, besides the shared one: for clients that must not share it or have other
//! capabilities. They are opened on first use and closed when idle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::peer::CallOwner;
use switchboard_wire::process::child::DescendantSearch;
use switchboard_wire::protocol::capabilities::ClientCapability;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::connection::actor;
use crate::connection::actor::ConnectionOptions;
use crate::connection::context::ConnectionContext;
use crate::connection::handle::ConnectionHandle;
use crate::connection::status::ServerView;

/// How long an unused connection stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// The maximum number of dedicated connections.
const MAX_DEDICATED: usize = 4096;

/// Names a dedicated connection, and says how to open it.
#[derive(Debug, Clone)]
pub struct DedicatedConnection {
    /// Its key. Clients with the same key share the connection.
    pub key: Arc<str>,
    /// The client capabilities that the server is told of.
    pub client_capabilities: Vec<ClientCapability>,
    /// Answers the server's requests that belong to no call.
    pub default_handler: Option<Arc<dyn CallOwner>>,
}

/// The handles of all dedicated connections, by server and key.
pub(crate) type DedicatedHandles = BTreeMap<(String, Arc<str>), ConnectionHandle>;

/// All dedicated connections. The engine owns them.
#[derive(Debug, Default)]
pub(crate) struct DedicatedConnections {
    entries: BTreeMap<(String, Arc<str>), DedicatedEntry>,
}

#[derive(Debug)]
struct DedicatedEntry {
    handle: ConnectionHandle,
    task: JoinHandle<()>,
    /// The number of uses at the last check, and the time since which it has not changed.
    last_use: (u64, Instant),
}

impl DedicatedConnections {
    /// The dedicated connection, opened now where there is none; `None` where there are too many.
    pub(crate) fn open(
        &mut self,
        main: &ConnectionHandle,
        dedicated: DedicatedConnection,
        context: &Arc<ConnectionContext>,
        reports: &mpsc::Sender<Arc<ServerView>>,
    ) -> Option<ConnectionHandle> {
        let entry_key = (main.desired().name().to_owned(), dedicated.key);
        if let Some(entry) = self.entries.get(&entry_key) {
            return Some(entry.handle.clone());
        }
        if self.entries.len() >= MAX_DEDICATED {
            return None;
        }
        let options = ConnectionOptions {
            predecessor: None,
            client_capabilities: Some(dedicated.client_capabilities),
            default_handler: dedicated.default_handler,
        };
        let desired = main.desired().clone();
        let (handle, task) = actor::spawn(desired, context.clone(), reports.clone(), options);
        let entry = DedicatedEntry { handle: handle.clone(), task, last_use: (0, Instant::now()) };
        self.entries.insert(entry_key, entry);
        Some(handle)
    }

    /// The handles of all.
    pub(crate) fn handles(&self) -> DedicatedHandles {
        self.entries
            .iter()
            .map(|(entry_key, entry)| (entry_key.clone(), entry.handle.clone()))
            .collect()
    }

    /// Closes those of a server. Returns whether there were any.
    pub(crate) fn close_server(&mut self, server: &str, closing_tasks: &mut JoinSet<()>) -> bool {
        self.close_where(closing_tasks, |entry_key, _| entry_key.0 == server)
    }

    /// Closes those with a key. Returns whether there were any.
    pub(crate) fn close_key(&mut self, key: &str, closing_tasks: &mut JoinSet<()>) -> bool {
        self.close_where(closing_tasks, |entry_key, _| *entry_key.1 == *key)
    }

    /// Closes those that are idle. Returns whether there were any.
    pub(crate) fn close_idle(&mut self, closing_tasks: &mut JoinSet<()>) -> bool {
        self.close_where(closing_tasks, |_, entry| {
            let uses = entry.handle.total_uses();
            if uses != entry.last_use.0 || entry.handle.is_in_use() {
                entry.last_use = (uses, Instant::now());
            }
            entry.last_use.1.elapsed() >= IDLE_TIMEOUT
        })
    }

    /// Closes all.
    pub(crate) fn close_all(&mut self, closing_tasks: &mut JoinSet<()>) {
        self.close_where(closing_tasks, |_, _| true);
    }

    fn close_where(
        &mut self,
        closing_tasks: &mut JoinSet<()>,
        mut is_closable: impl FnMut(&(String, Arc<str>), &mut DedicatedEntry) -> bool,
    ) -> bool {
        let closed: Vec<_> =
            self.entries.extract_if(.., |entry_key, entry| is_closable(entry_key, entry)).collect();
        let had_any = !closed.is_empty();
        for (_, entry) in closed {
            closing_tasks.spawn(async move {
                entry.handle.stop(DescendantSearch::Now).await;
                let _panicked = entry.task.await;
            });
        }
        had_any
    }
}
