//! Connections beside the one that a server has for everybody: for whoever must not share it, or can do other things
//! for the server than we can. They are made when first used, and end when nobody uses them any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::introduction::ClientCapability;
use switchboard_wire::peer::CallOwner;
use switchboard_wire::process::DescendantSearch;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::connection::{self, ConnectionHandle, ConnectionOptions, ServerView};
use crate::engine::ConnectionContext;

/// How long a lane lives that nobody uses.
const IDLE: Duration = Duration::from_secs(600);
/// How many lanes there may be.
const MOST: usize = 4096;

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
        lane: DedicatedConnection,
        settings: &Arc<ConnectionContext>,
        reports: &mpsc::Sender<Arc<ServerView>>,
    ) -> Option<ConnectionHandle> {
        let place = (main.desired().name().to_owned(), lane.key);
        if let Some(kept) = self.entries.get(&place) {
            return Some(kept.handle.clone());
        }
        if self.entries.len() >= MOST {
            return None;
        }
        let (predecessor, abilities) = (None, Some(lane.client_capabilities));
        let particulars = ConnectionOptions {
            predecessor,
            client_capabilities: abilities,
            default_handler: lane.default_handler,
        };
        let wanted = main.desired().clone();
        let (handle, task) =
            connection::spawn(wanted, settings.clone(), reports.clone(), particulars);
        let kept = DedicatedEntry { handle: handle.clone(), task, last_use: (0, Instant::now()) };
        self.entries.insert(place, kept);
        Some(handle)
    }

    /// All of them, for readers.
    pub(crate) fn handles(&self) -> DedicatedHandles {
        self.entries.iter().map(|(place, kept)| (place.clone(), kept.handle.clone())).collect()
    }

    /// Ends those of a server. Says whether there were any.
    pub(crate) fn close_server(&mut self, server: &str, ending: &mut JoinSet<()>) -> bool {
        self.close_where(ending, |place, _| place.0 == server)
    }

    /// Ends those of one key. Says whether there were any.
    pub(crate) fn close_key(&mut self, key: &str, ending: &mut JoinSet<()>) -> bool {
        self.close_where(ending, |place, _| *place.1 == *key)
    }

    /// Ends those that nobody uses any more. Says whether there were any.
    pub(crate) fn close_idle(&mut self, ending: &mut JoinSet<()>) -> bool {
        self.close_where(ending, |_, kept| {
            let uses = kept.handle.total_uses();
            if uses != kept.last_use.0 || kept.handle.is_in_use() {
                kept.last_use = (uses, Instant::now());
            }
            kept.last_use.1.elapsed() >= IDLE
        })
    }

    /// Ends all.
    pub(crate) fn close_all(&mut self, ending: &mut JoinSet<()>) {
        self.close_where(ending, |_, _| true);
    }

    fn close_where(
        &mut self,
        ending: &mut JoinSet<()>,
        mut is_over: impl FnMut(&(String, Arc<str>), &mut DedicatedEntry) -> bool,
    ) -> bool {
        let over: Vec<_> =
            self.entries.extract_if(.., |place, kept| is_over(place, kept)).collect();
        let had_some = !over.is_empty();
        for (_, kept) in over {
            ending.spawn(async move {
                kept.handle.stop(DescendantSearch::Now).await;
                let _panicked = kept.task.await;
            });
        }
        had_some
    }
}
