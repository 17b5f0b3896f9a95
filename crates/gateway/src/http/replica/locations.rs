//! The owners of sessions that requests were sent to lately, so that most requests need no look into the store.

use std::collections::HashMap;

use switchboard_wire::shared::Shared;

use crate::shared::store::ReplicaId;

/// The most sessions to remember. Beyond it all are forgotten, and looked up again.
const MAX_SESSIONS: usize = 100_000;

/// The owners of sessions.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    /// Shared state: every request for a session of another replica looks in it.
    owners: Shared<HashMap<String, ReplicaId>>,
}

impl Locations {
    pub(crate) fn get(&self, session: &str) -> Option<ReplicaId> {
        self.owners.read(|owners| owners.get(session).copied())
    }

    pub(crate) fn insert(&self, session: &str, owner: ReplicaId) {
        if self.get(session) == Some(owner) {
            return;
        }
        self.owners.update(|owners| {
            if owners.len() >= MAX_SESSIONS {
                owners.clear();
            }
            owners.insert(session.to_owned(), owner);
        });
    }

    pub(crate) fn remove(&self, session: &str) {
        self.owners.update(|owners| owners.remove(session));
    }
}
