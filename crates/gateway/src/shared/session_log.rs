//! A session of this replica in the store: the description of its client, its events, and its calls without a result. A new
//! owner goes on from there.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::RequestId;
use tokio::sync::watch;
use tracing::debug;

use super::fleet::Resync;
use super::shared_state::SharedState;
use super::store::{
    Epoch, SessionChanges, SessionContents, SessionWrite, StoreError, StoredEvent, StoredSession,
};

/// The most bytes and events of a session in the store.
const MAX_BYTES: usize = 4 * 1024 * 1024;
const MAX_EVENTS: usize = 2000;
/// How much longer than its idle timeout a session stays in the store.
const EXTRA_TTL: Duration = Duration::from_secs(120);
/// The number of positions that one epoch may use.
const POSITIONS_PER_EPOCH: u32 = 32;

/// The description of a session's client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRecord {
    pub(crate) principal: String,
    pub(crate) account: String,
    pub(crate) protocol_version: String,
    /// The declared capabilities, as JSON.
    pub(crate) capabilities: String,
    /// The lowest level of log messages, where the client has set one.
    pub(crate) log_level: Option<String>,
    /// The resources that the client subscribes to.
    pub(crate) subscriptions: Vec<String>,
    /// Has the client read the stream outside of requests? Then it knows where to resume.
    pub(crate) has_read_get_stream: bool,
}

/// An event that a client may have received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentEvent {
    pub(crate) stream: u64,
    pub(crate) number: u64,
    pub(crate) bytes: Bytes,
}

/// What happened in a session.
#[derive(Debug, Default)]
pub(crate) struct SessionUpdate {
    pub(crate) record: Option<SessionRecord>,
    pub(crate) opened: Vec<(u64, RequestId)>,
    pub(crate) events: Vec<SentEvent>,
    pub(crate) closed: Vec<u64>,
}

/// All of a session, to write it again.
#[derive(Debug)]
pub(crate) struct SessionImage {
    pub(crate) last_stream: u64,
    pub(crate) update: SessionUpdate,
}

/// What a new owner knows of a session.
#[derive(Debug)]
pub(crate) struct RestoredSession {
    pub(crate) record: SessionRecord,
    pub(crate) last_stream: u64,
    pub(crate) events: Vec<SentEvent>,
    /// The calls that the last owner did not finish, by stream.
    pub(crate) lost_calls: Vec<(u64, RequestId)>,
}

/// Does this replica still own the session?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    Ours,
    Lost,
}

/// The session in the store.
#[derive(Debug)]
pub(crate) struct SessionLog {
    state: SharedState,
    id: String,
    epoch: Epoch,
    ttl: Duration,
    next_position: u64,
    /// The positions and sizes of the events in the store.
    kept: VecDeque<(u64, usize)>,
    kept_bytes: usize,
    /// The store lacks something: all must be written again.
    is_behind: bool,
}

impl SessionLog {
    fn new(state: SharedState, id: &str, (epoch, idle_timeout): (Epoch, Duration)) -> SessionLog {
        SessionLog {
            state,
            id: id.to_owned(),
            epoch,
            ttl: idle_timeout + EXTRA_TTL,
            next_position: (epoch << POSITIONS_PER_EPOCH) + 1,
            kept: VecDeque::new(),
            kept_bytes: 0,
            is_behind: false,
        }
    }

    /// The log of a new session. If the store cannot be reached, it is written once it can.
    pub(crate) async fn create(
        state: SharedState,
        id: &str,
        record: &SessionRecord,
        idle_timeout: Duration,
    ) -> (SessionLog, Result<(), StoreError>) {
        const FIRST_EPOCH: Epoch = 1;
        let mut log = SessionLog::new(state, id, (FIRST_EPOCH, idle_timeout));
        let created = log.write_session(record, 0).await;
        if created.is_err() {
            log.fall_behind();
        }
        (log, created.map(drop))
    }

    /// Takes a session over from a replica that has gone. None if another replica was faster, or the session has ended.
    pub(crate) async fn take_over(
        state: SharedState,
        (id, epoch): (&str, Epoch),
        idle_timeout: Duration,
    ) -> Result<Option<(SessionLog, RestoredSession)>, StoreError> {
        let Some(store) = state.store() else { return Ok(None) };
        let owner = (state.me().id, idle_timeout + EXTRA_TTL);
        let Some(contents) = store.take_over(id, epoch, owner).await? else { return Ok(None) };
        let mut log = SessionLog::new(state.clone(), id, (contents.session.epoch, idle_timeout));
        for event in &contents.events {
            log.kept.push_back((event.position, event.bytes.len()));
            log.kept_bytes += event.bytes.len();
        }
        Ok(log.restore(contents).map(|restored| (log, restored)))
    }

    fn restore(&self, contents: SessionContents) -> Option<RestoredSession> {
        let record = read_record(&self.state, &self.id, &contents.session.record)?;
        let unseal = |purpose: &str, bytes: &[u8]| self.state.sealer().unseal_bytes(purpose, bytes);
        let event = |it: StoredEvent| {
            let bytes = unseal(&self.event_purpose(it.stream, it.number), &it.bytes)?;
            Some(SentEvent { stream: it.stream, number: it.number, bytes: bytes.into() })
        };
        let call = |(stream, call): (u64, Vec<u8>)| {
            let id: Json = serde_json::from_slice(&unseal(&self.call_purpose(), &call)?).ok()?;
            Some((stream, RequestId::from_json(&id)))
        };
        Some(RestoredSession {
            record,
            last_stream: contents.session.last_stream,
            events: contents.events.into_iter().filter_map(event).collect(),
            lost_calls: contents.open_calls.into_iter().filter_map(call).collect(),
        })
    }

    /// Counts the owners of the session.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What follows the store's return.
    pub(crate) fn resync_signal(&self) -> watch::Receiver<Resync> {
        self.state.resync_signal()
    }

    fn event_purpose(&self, stream: u64, number: u64) -> String {
        format!("event {} {stream} {number}", self.id)
    }

    fn call_purpose(&self) -> String {
        format!("call {}", self.id)
    }

    /// Writes what happened. If the store cannot be reached, the session goes on, and all of it is written later.
    pub(crate) async fn write(&mut self, update: SessionUpdate) -> Ownership {
        if self.is_behind {
            return Ownership::Ours;
        }
        let changes = self.changes(update);
        match self.send(&changes).await {
            Ok(SessionWrite::Written) => Ownership::Ours,
            Ok(SessionWrite::NotOwner) => Ownership::Lost,
            Ok(SessionWrite::Missing) | Err(_) => {
                self.fall_behind();
                Ownership::Ours
            }
        }
    }

    /// The store lacks something. The session is told to write all of it when the store can be reached.
    fn fall_behind(&mut self) {
        self.is_behind = true;
        self.state.report_failed_write();
    }

    /// Does the store lack something of the session?
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Writes all of the session again.
    pub(crate) async fn rewrite(&mut self, image: SessionImage) -> Ownership {
        debug!(epoch = self.epoch, "session written again");
        let state = self.state.clone();
        let _slot = state.rewrite_slot().await;
        self.kept.clear();
        self.kept_bytes = 0;
        let SessionImage { last_stream, update } = image;
        let Some(record) = &update.record else { return Ownership::Ours };
        match self.write_session(record, last_stream).await {
            Ok(SessionWrite::Written) => {}
            Ok(SessionWrite::NotOwner) => return Ownership::Lost,
            Ok(SessionWrite::Missing) | Err(_) => {
                self.fall_behind();
                return Ownership::Ours;
            }
        }
        self.is_behind = false;
        self.write(update).await
    }

    async fn write_session(
        &self,
        record: &SessionRecord,
        last_stream: u64,
    ) -> Result<SessionWrite, StoreError> {
        let store = self.state.store().ok_or(StoreError::Away)?;
        let session = StoredSession {
            owner: Some(self.state.me().id),
            epoch: self.epoch,
            record: self.seal_record(record),
            last_stream,
        };
        store.create_session(&self.id, &session, self.ttl).await
    }

    async fn send(&self, changes: &SessionChanges) -> Result<SessionWrite, StoreError> {
        let store = self.state.store().ok_or(StoreError::Away)?;
        store.change_session(&self.id, self.epoch, (changes, self.ttl)).await
    }

    fn seal_record(&self, record: &SessionRecord) -> Vec<u8> {
        let text = serde_json::to_vec(record).expect("it has only texts");
        self.state.sealer().seal_bytes(&record_purpose(&self.id), &text)
    }

    fn changes(&mut self, update: SessionUpdate) -> SessionChanges {
        let sealer = self.state.sealer();
        let call = |(stream, id): &(u64, RequestId)| {
            let text = id.to_json().to_string();
            (*stream, sealer.seal_bytes(&self.call_purpose(), text.as_bytes()))
        };
        let opened = update.opened.iter().map(call).collect();
        let record = update.record.as_ref().map(|it| self.seal_record(it));
        let mut events = Vec::with_capacity(update.events.len());
        for SentEvent { stream, number, bytes } in update.events {
            let sealed = sealer.seal_bytes(&self.event_purpose(stream, number), &bytes);
            let position = self.next_position;
            self.next_position += 1;
            self.kept.push_back((position, sealed.len()));
            self.kept_bytes += sealed.len();
            events.push(StoredEvent { position, stream, number, bytes: sealed });
        }
        let trim_before = self.trim();
        SessionChanges { record, opened, events, closed: update.closed, trim_before }
    }

    /// Forgets the oldest events beyond the limits. Returns the first position that stays; 0 if all do.
    fn trim(&mut self) -> u64 {
        let before = self.kept.len();
        while self.kept.len() > MAX_EVENTS || (self.kept_bytes > MAX_BYTES && self.kept.len() > 1) {
            let Some((_, size)) = self.kept.pop_front() else { break };
            self.kept_bytes -= size;
        }
        match self.kept.front() {
            Some((position, _)) if self.kept.len() < before => *position,
            Some(_) | None => 0,
        }
    }

    /// Leaves the session to another replica.
    pub(crate) async fn release(&self) {
        if let Some(store) = self.state.store() {
            let _best_effort = store.release_session(&self.id, self.epoch).await;
        }
    }

    /// Removes the session.
    pub(crate) async fn remove(&self) {
        if let Some(store) = self.state.store() {
            let _expires_later = store.remove_session(&self.id, self.epoch).await;
        }
    }
}

fn record_purpose(id: &str) -> String {
    format!("session {id}")
}

/// Opens the description of a session's client.
pub(crate) fn read_record(state: &SharedState, id: &str, sealed: &[u8]) -> Option<SessionRecord> {
    let text = state.sealer().unseal_bytes(&record_purpose(id), sealed)?;
    serde_json::from_slice(&text).ok()
}
