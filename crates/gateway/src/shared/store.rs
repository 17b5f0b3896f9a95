//! The storage that replicas share. It keeps bytes and orders changes; what they mean, and their seal, is left to
//! [`super::shared_state`].

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::rand;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why the store did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// It cannot be reached, or did not answer in time.
    #[error("the store cannot be reached")]
    Away,
    /// It refused the command, for example because its memory is full.
    #[error("the store refused a command")]
    Refused,
}

/// A replica: one run of the gateway's process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ReplicaId(pub(crate) u64);

/// A text that is no [`ReplicaId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not the id of a replica")]
pub struct InvalidReplicaId;

impl ReplicaId {
    /// A new id.
    pub(crate) fn random() -> ReplicaId {
        let mut bytes = [0; 8];
        rand::fill(&mut bytes).expect("the system has random numbers");
        ReplicaId(u64::from_be_bytes(bytes))
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ReplicaId {
    type Err = InvalidReplicaId;

    fn from_str(text: &str) -> Result<ReplicaId, InvalidReplicaId> {
        let id = u64::from_str_radix(text, 16).map_err(|_| InvalidReplicaId)?;
        (text.len() == 16).then_some(ReplicaId(id)).ok_or(InvalidReplicaId)
    }
}

impl From<ReplicaId> for String {
    fn from(id: ReplicaId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for ReplicaId {
    type Error = InvalidReplicaId;

    fn try_from(text: String) -> Result<ReplicaId, InvalidReplicaId> {
        text.parse()
    }
}

/// Counts how often a session has changed its owner. A write with an older epoch is refused.
pub(crate) type Epoch = u64;

/// A session as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// The replica that runs the session; None after it has left.
    pub(crate) owner: Option<ReplicaId>,
    pub(crate) epoch: Epoch,
    /// The sealed description of the client.
    pub(crate) record: Vec<u8>,
    /// The number of the newest stream.
    pub(crate) last_stream: u64,
}

/// A session with what a new owner needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionContents {
    pub(crate) session: StoredSession,
    /// In the order in which they were written.
    pub(crate) events: Vec<StoredEvent>,
    /// The sealed calls without a result, by their stream.
    pub(crate) open_calls: BTreeMap<u64, Vec<u8>>,
}

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Increases with each event of the session, whichever replica owns it.
    pub(crate) position: u64,
    pub(crate) stream: u64,
    /// The number in its stream.
    pub(crate) number: u64,
    /// The sealed event.
    pub(crate) bytes: Vec<u8>,
}

/// Changes of a session that are made together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionChanges {
    /// A new description of the client.
    pub(crate) record: Option<Vec<u8>>,
    /// Calls that began, by their stream.
    pub(crate) opened: Vec<(u64, Vec<u8>)>,
    /// New events. Those that the store has are left as they are.
    pub(crate) events: Vec<StoredEvent>,
    /// The streams of calls that have ended.
    pub(crate) closed: Vec<u64>,
    /// Events before this position are removed.
    pub(crate) trim_before: u64,
}

/// The result of a write to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionWrite {
    /// It is done.
    Written,
    /// Another replica owns the session.
    NotOwner,
    /// The store has no such session.
    Missing,
}

/// A replica that is alive tells so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    pub(crate) replica: ReplicaId,
    /// Its sealed description.
    pub(crate) info: Vec<u8>,
    /// How long it counts as alive without another heartbeat.
    pub(crate) ttl: Duration,
    /// The store's generation if it has none: it is new, or has lost what it held.
    pub(crate) new_generation: u64,
    /// The revision of the shared lists that the replica has read; 0 for none.
    pub(crate) known_lists: u64,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetSnapshot {
    /// The sealed descriptions of all replicas that are alive.
    pub(crate) replicas: BTreeMap<ReplicaId, Vec<u8>>,
    /// Changes when the store has lost what it held.
    pub(crate) generation: u64,
    /// The revision of the shared lists.
    pub(crate) lists_revision: u64,
    /// The shared lists; None if the replica has read this revision.
    pub(crate) lists: Option<SharedLists>,
}

/// The sealed entries of all shared lists, by list and member.
pub(crate) type SharedLists = BTreeMap<SharedList, BTreeMap<String, Vec<u8>>>;

/// A short list that every replica reads when it has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedList {
    /// Calls that wait for approval, by replica.
    Approvals,
    /// What was revoked, by a digest of its name.
    Revocations,
    /// Digests of the lists of servers that have changed, by a digest of the server's name.
    ServerLists,
}

impl SharedList {
    pub(crate) const ALL: [SharedList; 3] =
        [SharedList::Approvals, SharedList::Revocations, SharedList::ServerLists];

    pub(crate) fn id(self) -> &'static str {
        match self {
            SharedList::Approvals => "approvals",
            SharedList::Revocations => "revocations",
            SharedList::ServerLists => "server-lists",
        }
    }
}

/// Tokens of a request rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRequest {
    /// The rate; a burst of one second is allowed.
    pub(crate) per_second: u32,
    /// Without so many, none are taken.
    pub(crate) at_least: u32,
    /// Not more than so many are taken.
    pub(crate) at_most: u32,
}

/// The tokens that were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenGrant {
    Granted(u32),
    /// None are left; when there will be enough.
    RetryAfter(Duration),
}

/// One quota that a call is counted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCharge {
    /// The name of the counter, which is part of a key.
    pub(crate) quota: String,
    pub(crate) per_minute: Option<u64>,
    /// Days end at midnight (UTC).
    pub(crate) per_day: Option<u64>,
    pub(crate) concurrent: Option<u64>,
}

/// The result of counting a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStart {
    /// It is counted for all charges.
    Counted,
    /// It exceeds the limit of a charge, and is counted for none.
    Exceeded { charge: usize, limit: CallLimit, retry_after: Duration },
}

/// A limit of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallLimit {
    Minute,
    Day,
    Concurrent,
}

/// What is counted for a charge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls of the last minute, as far as they still count.
    pub(crate) minute: u64,
    pub(crate) day: u64,
    pub(crate) running: u64,
}

/// The storage. Every value has a time to live.
#[async_trait]
pub trait StateStore: fmt::Debug + Send + Sync {
    /// Registers a replica as alive, and reads what all replicas share.
    async fn beat(&self, heartbeat: &Heartbeat) -> Result<FleetSnapshot, StoreError>;
    /// Removes a replica.
    async fn leave(&self, replica: ReplicaId) -> Result<(), StoreError>;

    /// Writes a session, whatever the store has of it, unless it has a newer epoch.
    async fn create_session(
        &self,
        id: &str,
        session: &StoredSession,
        ttl: Duration,
    ) -> Result<SessionWrite, StoreError>;
    async fn find_session(&self, id: &str) -> Result<Option<StoredSession>, StoreError>;
    /// Makes a replica the owner of a session that has this epoch. None if it has another one, or is gone.
    async fn take_over(
        &self,
        id: &str,
        expected: Epoch,
        (owner, ttl): (ReplicaId, Duration),
    ) -> Result<Option<SessionContents>, StoreError>;
    /// Changes a session as its owner, and renews its time to live.
    async fn change_session(
        &self,
        id: &str,
        epoch: Epoch,
        (changes, ttl): (&SessionChanges, Duration),
    ) -> Result<SessionWrite, StoreError>;
    /// Leaves a session without an owner.
    async fn release_session(&self, id: &str, epoch: Epoch) -> Result<(), StoreError>;
    /// Removes a session as its owner.
    async fn remove_session(&self, id: &str, epoch: Epoch) -> Result<(), StoreError>;

    async fn put(&self, key: &str, value: &[u8], ttl: Duration) -> Result<(), StoreError>;
    /// Writes a value unless there is one. Returns whether it was written.
    async fn put_new(&self, key: &str, value: &[u8], ttl: Duration) -> Result<bool, StoreError>;
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// Adds members to a set, or replaces their values, and renews the time to live of the set.
    async fn add_members(
        &self,
        key: &str,
        members: &[(String, Vec<u8>)],
        ttl: Duration,
    ) -> Result<(), StoreError>;
    /// The values of all members of a set.
    async fn members(&self, key: &str) -> Result<Vec<Vec<u8>>, StoreError>;
    /// Writes an entry of a list. An empty value removes it. The list lives as long as its entry with the longest time.
    async fn put_entry(
        &self,
        list: SharedList,
        (member, value): (&str, &[u8]),
        ttl: Duration,
    ) -> Result<(), StoreError>;
    async fn take_tokens(
        &self,
        account: &str,
        request: TokenRequest,
    ) -> Result<TokenGrant, StoreError>;
    /// Counts a call of an account for all charges, or for none. It counts as running until its slot is ended, or is not
    /// renewed within its time to live.
    async fn start_call(
        &self,
        account: &str,
        charges: &[CallCharge],
        (slot, ttl): (&str, Duration),
    ) -> Result<CallStart, StoreError>;
    /// Counts calls as running for another time to live, also those that the store does not know.
    async fn renew_calls(
        &self,
        (account, quota): (&str, &str),
        slots: &[Arc<str>],
        ttl: Duration,
    ) -> Result<(), StoreError>;
    /// Counts calls as running no longer.
    async fn end_calls(
        &self,
        (account, quota): (&str, &str),
        slots: &[Arc<str>],
    ) -> Result<(), StoreError>;
    /// What is counted for charges, in the same order.
    async fn call_counts(
        &self,
        account: &str,
        charges: &[CallCharge],
    ) -> Result<Vec<CallCounts>, StoreError>;
    /// Takes a lock, and returns its fencing number, which increases with each holder. None if another holder has it.
    async fn lock(
        &self,
        name: &str,
        (holder, ttl): (&str, Duration),
    ) -> Result<Option<u64>, StoreError>;
    /// Frees a lock if this holder has it.
    async fn unlock(&self, name: &str, holder: &str) -> Result<(), StoreError>;
}
