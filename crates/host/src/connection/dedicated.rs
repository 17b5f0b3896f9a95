//! Connections beside the one that a server has for everybody: for whoever must not share it, or can do other things
//! for the server than we can. They are made when first used, and end when nobody uses them any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::peer::CallOwner;
use switchboard_wire::process::child::DescendantSearch;
use switchboard_wire::protocol::capabilities::ClientCapability;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::connection::{self, ConnectionHandle, ConnectionOptions, ServerView};
use crate::host::ConnectionContext;

/// How long a lane lives that nobody uses.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// How many lanes there may be.
const MAX_DEDICATED: usize = 4096;

/// Which lane somebody wants to use.
#[derive(Debug, Clone)]
pub struct DedicatedConnection {
    /// Whose it is. Those who give the same name share it.
    pub key: Arc<str>,
    /// What can be done for the server there.
    pub client_capabilities: Vec<ClientCapability>,
    /// Who answers what the server asks there outside of any call, where somebody does.
    pub default_handler: Option<Arc<dyn CallOwner>>,
}

/// All lanes by server and key, for readers.
pub(crate) type DedicatedHandles = BTreeMap<(String, Arc<str>), ConnectionHandle>;

/// The lanes there are. The engine owns them.
#[derive(Debug, Default)]
pub(crate) struct DedicatedConnections {
    entries: BTreeMap<(String, Arc<str>), DedicatedEntry>,
}

#[derive(Debug)]
struct DedicatedEntry {
    handle: ConnectionHandle,
    task: JoinHandle<()>,
    /// How often it had been used when it was last looked at, and since when that is so.
    last_use: (u64, Instant),
}

impl DedicatedConnections {
    /// The lane that somebody wants, made now where there is none. None where there are too many.
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
        let (predecessor, abilities) = (None, Some(dedicated.client_capabilities));
        let options = ConnectionOptions {
            predecessor,
            client_capabilities: abilities,
            default_handler: dedicated.default_handler,
        };
        let desired = main.desired().clone();
        let (handle, task) = connection::spawn(desired, context.clone(), reports.clone(), options);
        let entry = DedicatedEntry { handle: handle.clone(), task, last_use: (0, Instant::now()) };
        self.entries.insert(entry_key, entry);
        Some(handle)
    }

    /// All of them, for readers.
    pub(crate) fn handles(&self) -> DedicatedHandles {
        self.entries
            .iter()
            .map(|(entry_key, entry)| (entry_key.clone(), entry.handle.clone()))
            .collect()
    }

    /// Ends those of a server. Says whether there were any.
    pub(crate) fn close_server(&mut self, server: &str, closing_tasks: &mut JoinSet<()>) -> bool {
        self.close_where(closing_tasks, |entry_key, _| entry_key.0 == server)
    }

    /// Ends those of one key. Says whether there were any.
    pub(crate) fn close_key(&mut self, key: &str, closing_tasks: &mut JoinSet<()>) -> bool {
        self.close_where(closing_tasks, |entry_key, _| *entry_key.1 == *key)
    }

    /// Ends those that nobody uses any more. Says whether there were any.
    pub(crate) fn close_idle(&mut self, closing_tasks: &mut JoinSet<()>) -> bool {
        self.close_where(closing_tasks, |_, entry| {
            let uses = entry.handle.total_uses();
            if uses != entry.last_use.0 || entry.handle.is_in_use() {
                entry.last_use = (uses, Instant::now());
            }
            entry.last_use.1.elapsed() >= IDLE_TIMEOUT
        })
    }

    /// Ends all.
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
