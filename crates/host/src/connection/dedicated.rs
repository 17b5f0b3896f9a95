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
use tracing::{debug, warn};

use crate::connection::actor;
use crate::connection::actor::ConnectionOptions;
use crate::connection::context::ConnectionContext;
use crate::connection::handle::ConnectionHandle;
use crate::connection::status::ServerView;

/// How long an unused connection stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// The maximum number of dedicated connections. Each may be a process.
const MAX_DEDICATED: usize = 1024;
/// The maximum number of dedicated connections of one account.
const MAX_PER_ACCOUNT: usize = 128;
/// How long a connection must be unused before it is closed to make room for another one.
const MIN_IDLE: Duration = Duration::from_secs(10);

/// The key and the options of a dedicated connection.
#[derive(Debug, Clone)]
pub struct DedicatedConnection {
    /// Its key. Clients with the same key share the connection.
    pub key: Arc<str>,
    /// What the connection is counted for: the client's principal, or its remote address. Limits apply to each account.
    pub account: Arc<str>,
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
    account: Arc<str>,
    handle: ConnectionHandle,
    task: JoinHandle<()>,
    /// The number of uses at the last check, and the time since which it has not changed.
    last_use: (u64, Instant),
}

impl DedicatedEntry {
    /// Updates the time of the last use. `None` while the connection is in use, else how long it has been unused.
    fn idle_time(&mut self) -> Option<Duration> {
        let uses = self.handle.total_uses();
        let is_in_use = self.handle.is_in_use();
        if uses != self.last_use.0 || is_in_use {
            self.last_use = (uses, Instant::now());
        }
        (!is_in_use).then(|| self.last_use.1.elapsed())
    }
}

/// Whether one more connection may be opened. `Key` names one that is open.
#[derive(Debug, PartialEq, Eq)]
enum Admission<Key> {
    Admitted,
    /// After this one was closed.
    Replaces(Key),
    Refused,
}

/// Decides whether an account may open one more connection. Where the account has too many, its longest unused one makes
/// room; where all accounts together have too many, that of the account with the most. Takes the key, the account and the
/// idle time of each open connection.
fn admission<'a, Key>(
    open: impl Iterator<Item = (Key, &'a str, Option<Duration>)>,
    account: &str,
) -> Admission<Key> {
    let open: Vec<_> = open.collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, account, _) in &open {
        *counts.entry(account).or_default() += 1;
    }
    let is_account_full = counts.get(account).is_some_and(|it| *it >= MAX_PER_ACCOUNT);
    if !is_account_full && open.len() < MAX_DEDICATED {
        return Admission::Admitted;
    }
    let replaceable = open
        .into_iter()
        .filter_map(|(key, of, idle)| Some((key, of, idle.filter(|it| *it >= MIN_IDLE)?)))
        .filter(|it| !is_account_full || it.1 == account)
        .max_by_key(|it| (counts.get(it.1).copied(), it.2));
    replaceable.map_or(Admission::Refused, |it| Admission::Replaces(it.0))
}

impl DedicatedConnections {
    /// The dedicated connection, opened now where there is none; `None` where there are too many.
    pub(crate) fn open(
        &mut self,
        main: &ConnectionHandle,
        dedicated: DedicatedConnection,
        (context, reports): (&Arc<ConnectionContext>, &mpsc::Sender<Arc<ServerView>>),
        closing_tasks: &mut JoinSet<()>,
    ) -> Option<ConnectionHandle> {
        let entry_key = (main.desired().name().to_owned(), dedicated.key);
        if let Some(entry) = self.entries.get(&entry_key) {
            return Some(entry.handle.clone());
        }
        let open = self.entries.iter_mut().map(|(key, entry)| {
            let idle = entry.idle_time();
            (key, &*entry.account, idle)
        });
        match admission(open, &dedicated.account) {
            Admission::Admitted => {}
            Admission::Replaces(unused) => {
                let unused = unused.clone();
                debug!(server = unused.0, "closing an unused dedicated connection to make room");
                self.close_where(closing_tasks, |key, _| *key == unused);
            }
            Admission::Refused => {
                warn!(server = entry_key.0, "too many dedicated connections: request refused");
                return None;
            }
        }
        debug!(server = entry_key.0, "opening a dedicated connection");
        let options = ConnectionOptions {
            predecessor: None,
            client_capabilities: Some(dedicated.client_capabilities),
            default_handler: dedicated.default_handler,
        };
        let desired = main.desired().clone();
        let (handle, task) = actor::spawn(desired, context.clone(), reports.clone(), options);
        let entry = DedicatedEntry {
            account: dedicated.account,
            handle: handle.clone(),
            task,
            last_use: (0, Instant::now()),
        };
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
            entry.idle_time().is_some_and(|it| it >= IDLE_TIMEOUT)
        })
    }

    /// Closes all dedicated connections.
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

#[cfg(test)]
mod tests {
    use super::*;

    const USED: Option<Duration> = None;
    const IDLE: Option<Duration> = Some(MIN_IDLE);
    const LONG_IDLE: Option<Duration> = Some(Duration::from_secs(60));

    /// The connections of accounts: how many, whose, and their idle time.
    fn check(
        open: &[(usize, &'static str, Option<Duration>)],
        account: &str,
        expected: Admission<&str>,
    ) {
        let open = open.iter().flat_map(|it| std::iter::repeat_n((it.1, it.1, it.2), it.0));
        assert_eq!(admission(open, account), expected);
    }

    #[test]
    fn an_account_with_too_many_connections_replaces_its_own_unused_one() {
        let full = [(MAX_PER_ACCOUNT - 1, "ada", USED), (1, "ada", IDLE), (1, "bob", LONG_IDLE)];
        check(&full, "ada", Admission::Replaces("ada"));
        check(&full, "bob", Admission::Admitted);
        let in_use = [(MAX_PER_ACCOUNT, "ada", USED), (1, "bob", LONG_IDLE)];
        check(&in_use, "ada", Admission::Refused);
        let just_used = [(MAX_PER_ACCOUNT, "ada", Some(Duration::ZERO))];
        check(&just_used, "ada", Admission::Refused);
    }

    #[test]
    fn an_account_with_many_connections_makes_room_for_one_with_few() {
        const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let few = MAX_PER_ACCOUNT / 2;
        let mut open: Vec<_> = NAMES.iter().map(|it| (few, *it, LONG_IDLE)).collect();
        open.push((MAX_PER_ACCOUNT, "many", IDLE));
        open.push((MAX_DEDICATED - few * NAMES.len() - MAX_PER_ACCOUNT, "rest", USED));
        check(&open, "new", Admission::Replaces("many"));
    }
}
