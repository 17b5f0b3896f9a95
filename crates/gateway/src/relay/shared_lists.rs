//! Changes of servers' lists, for all replicas: a server may tell only one of its connections. The replica that sees a change
//! writes a digest of the new lists; the others fetch the lists of that server again. Each change leads to one fetch,
//! also where the lists differ between connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard::catalogue::{Catalogue, ListKind};
use switchboard::connection::Status;
use switchboard_config::entry::server::sha256;
use tracing::info;

use super::Relay;
use crate::shared::key_digest::digest;
use crate::shared::shared_state::SharedState;
use crate::shared::store::SharedList;

/// How long a digest stays. A replica that connects to the server later fetches the new lists anyway.
const DIGEST_TTL: Duration = Duration::from_secs(24 * 3600);
/// What digests are sealed for.
const PURPOSE: &str = "server lists";

/// The lists of a server, as replicas tell each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ListsDigest {
    server: String,
    digest: String,
}

/// What this replica knows of the lists of servers.
#[derive(Debug, Default)]
struct KnownLists {
    /// The lists that this replica has, by server, and their digest.
    own: BTreeMap<String, (Arc<Catalogue>, String)>,
    /// The digests in the store, by server, as they were last read or written.
    stored: BTreeMap<String, String>,
}

impl KnownLists {
    /// Takes note of the lists of a server. Returns their digest if they have changed and the store does not have it.
    fn note_own(&mut self, server: &str, lists: &Arc<Catalogue>) -> Option<String> {
        let before = self.own.get(server);
        if before.is_some_and(|(known, _)| Arc::ptr_eq(known, lists)) {
            return None;
        }
        let before = before.map(|it| it.1.clone());
        let now = digest_of(lists);
        self.own.insert(server.to_owned(), (lists.clone(), now.clone()));
        let is_changed = before.is_some_and(|it| it != now);
        let is_news = is_changed && self.stored.get(server) != Some(&now);
        is_news.then(|| {
            self.stored.insert(server.to_owned(), now.clone());
            now
        })
    }

    /// Takes note of a digest in the store. Returns whether another replica has seen lists that this one does not have.
    fn note_stored(&mut self, read: &ListsDigest) -> bool {
        let before = self.stored.insert(read.server.clone(), read.digest.clone());
        let own = self.own.get(&read.server);
        before.as_ref() != Some(&read.digest) && own.is_some_and(|it| it.1 != read.digest)
    }
}

fn digest_of(lists: &Catalogue) -> String {
    let mut text = Vec::new();
    for kind in ListKind::ALL {
        text.extend_from_slice(kind.id().as_bytes());
        for item in lists.items(kind) {
            text.push(0);
            text.extend_from_slice(item.raw.as_bytes());
        }
        text.push(1);
    }
    sha256(&text).to_string()
}

/// Tells the other replicas of changed lists, and fetches those that they tell of. Ends with the relay, or the host.
pub(crate) async fn share_lists(relay: Weak<Relay>) {
    let watched = relay.upgrade().and_then(|it| {
        it.shared.store()?;
        Some((it.host.watch(), it.shared.watch_fleet(), it.revocations.changes()))
    });
    let Some((mut snapshots, mut fleet, mut end)) = watched else { return };
    let mut known = KnownLists::default();
    loop {
        {
            let Some(relay) = relay.upgrade() else { return };
            let snapshot = snapshots.borrow_and_update().clone();
            for view in snapshot.servers.values().filter(|it| it.status == Status::Connected) {
                if view.catalogue.has_stale_list() {
                    continue;
                }
                if let Some(digest) = known.note_own(&view.name, &view.catalogue) {
                    publish(&relay.shared, ListsDigest { server: view.name.clone(), digest }).await;
                }
            }
            for read in read(&relay.shared) {
                if known.note_stored(&read) {
                    info!(server = read.server, "another replica has seen the lists change");
                    relay.host.refresh_lists(&read.server).await;
                }
            }
            fleet.mark_unchanged();
        }
        tokio::select! {
            changed = snapshots.changed() => if changed.is_err() { return },
            changed = fleet.changed() => if changed.is_err() { return },
            () = end.ended() => return,
        }
    }
}

/// Writes a digest. While the store is away nothing is told: clients get the lists of their replica.
async fn publish(shared: &SharedState, lists: ListsDigest) {
    let Some(store) = shared.store() else { return };
    let text = serde_json::to_vec(&lists).expect("it has only texts");
    let sealed = shared.sealer().seal_bytes(PURPOSE, &text);
    let member = digest(&lists.server);
    let entry = (&*member, &*sealed);
    let _away = store.put_entry(SharedList::ServerLists, entry, DIGEST_TTL).await;
}

fn read(shared: &SharedState) -> Vec<ListsDigest> {
    let lists = shared.fleet().lists.clone();
    let entries = lists.get(&SharedList::ServerLists).into_iter().flatten();
    let open = |sealed: &Vec<u8>| {
        let text = shared.sealer().unseal_bytes(PURPOSE, sealed)?;
        serde_json::from_slice(&text).ok()
    };
    entries.filter_map(|(_, sealed)| open(sealed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(digest: &str) -> ListsDigest {
        ListsDigest { server: "s".to_owned(), digest: digest.to_owned() }
    }

    #[test]
    fn a_change_is_told_once_and_fetched_once_even_if_the_lists_stay_different() {
        let mut known = KnownLists::default();
        assert!(!known.note_stored(&stored("a")), "it is not connected");
        let lists = Arc::new(Catalogue::default());
        assert_eq!(known.note_own("s", &lists), None, "the first lists are no change");
        assert!(!known.note_stored(&stored("a")), "it was there before");
        assert!(known.note_stored(&stored("b")));
        assert!(!known.note_stored(&stored("b")), "the fetch made no difference");
        assert_eq!(known.note_own("s", &Arc::new(Catalogue::default())), None, "the same lists");
        known.own.insert("s".to_owned(), (lists, "older".to_owned()));
        let now = digest_of(&Catalogue::default());
        assert_eq!(known.note_own("s", &Arc::default()), Some(now.clone()));
        assert!(!known.note_stored(&stored(&now)), "it is what this replica has written");
        known.own.insert("s".to_owned(), (Arc::default(), "older".to_owned()));
        assert_eq!(known.note_own("s", &Arc::default()), None, "the store has it");
    }
}
