//! Calls that are pending, and those that ended a moment ago. The task finds the call of a response here, and the
//! owner of a request or notification; calls on the fast path enter and remove themselves.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::attribution::{Attribution, CallOwner};
use crate::jsonrpc::message::{Payload, RequestId, RpcError};
use crate::transport::CloseReason;
use crate::transport_error::TransportError;

/// How long the peer may still send messages that belong to a cancelled call, and to an answered one. A server
/// that ignores the cancellation goes on with the call for as long as the call takes.
const CANCELLED_GRACE: Duration = Duration::from_secs(300);
const ANSWERED_GRACE: Duration = Duration::from_secs(1);
/// How many ended calls are remembered.
const MAX_RECENT_CALLS: usize = 1024;

/// The parameters of a progress notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress(pub Payload);

/// The entry of a call until its response arrives.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) response: oneshot::Sender<CallOutcome>,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
    pub(super) owner: Option<Arc<dyn CallOwner>>,
}

/// The outcome of a call, as the task reports it.
#[derive(Debug)]
pub(super) enum CallOutcome {
    Response(Result<Payload, RpcError>),
    Transport(TransportError),
    Closed(CloseReason),
}

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct PendingCalls(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    pending: HashMap<u64, PendingCall, BuildHasherDefault<CallNumberHasher>>,
    recent: VecDeque<RecentCall>,
}

/// An ended call whose owner may still receive messages.
#[derive(Debug)]
struct RecentCall {
    owner: Arc<dyn CallOwner>,
    expires_at: Instant,
    ending: CallEnding,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEnding {
    Cancelled,
    Answered,
}

/// A message of the remote peer. It sends no requests for a call that it has answered, but may send notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    Request,
    Notification,
}

impl PendingCalls {
    /// The lock is held for one lookup or change, and never while foreign code runs that could block.
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, number: u64, pending: PendingCall) {
        self.calls().pending.insert(number, pending);
    }

    /// Removes a call that has ended.
    pub(super) fn remove(&self, number: u64, ending: CallEnding) -> Option<PendingCall> {
        let mut calls = self.calls();
        let mut pending = calls.pending.remove(&number)?;
        if let Some(owner) = pending.owner.take() {
            calls.add_recent(owner, ending);
        }
        Some(pending)
    }

    /// Reads a call that is still pending.
    pub(super) fn peek<T>(&self, number: u64, read: impl FnOnce(&PendingCall) -> T) -> Option<T> {
        self.calls().pending.get(&number).map(read)
    }

    pub(super) fn drain(&self) -> Vec<PendingCall> {
        self.calls().pending.drain().map(|it| it.1).collect()
    }

    /// Finds the owner of a message. Without a related request, the owner is only known while one session has
    /// calls.
    pub(super) fn attribute(
        &self,
        related_to: Option<&RequestId>,
        kind: MessageKind,
    ) -> Attribution {
        let calls = self.calls();
        if let Some(RequestId::Number(number)) = related_to {
            let pending = calls.pending.get(number);
            let owner = pending.and_then(|it| it.owner.as_ref());
            return Attribution::resolve(owner.map(|it| (*number, it)));
        }
        let owned =
            calls.pending.iter().filter_map(|(number, it)| Some((*number, it.owner.as_ref()?)));
        match (Attribution::resolve(owned), kind) {
            // The message may belong to a call of another session that was just cancelled.
            (Attribution::Owner(owner), _) if calls.is_ambiguous(&*owner, kind) => {
                Attribution::Ambiguous
            }
            // A notification may arrive after the response, on another stream.
            (Attribution::None, MessageKind::Notification) => {
                let now = Instant::now();
                let recent = calls.recent.iter().filter(|it| it.expires_at > now);
                Attribution::resolve(recent.map(|it| (0, &it.owner)))
            }
            (
                attribution @ (Attribution::None | Attribution::Owner(_) | Attribution::Ambiguous),
                _,
            ) => attribution,
        }
    }
}

impl Calls {
    fn is_ambiguous(&self, owner: &dyn CallOwner, kind: MessageKind) -> bool {
        if self.recent.is_empty() {
            return false;
        }
        let (now, session) = (Instant::now(), owner.session());
        self.recent.iter().any(|recent| {
            recent.owner.session() != session
                && recent.expires_at > now
                && (recent.ending == CallEnding::Cancelled || kind == MessageKind::Notification)
        })
    }

    fn add_recent(&mut self, owner: Arc<dyn CallOwner>, ending: CallEnding) {
        let now = Instant::now();
        let grace = match ending {
            CallEnding::Cancelled => CANCELLED_GRACE,
            CallEnding::Answered => ANSWERED_GRACE,
        };
        while self.recent.len() >= MAX_RECENT_CALLS
            || self.recent.front().is_some_and(|it| it.expires_at <= now)
        {
            self.recent.pop_front();
        }
        self.recent.push_back(RecentCall { owner, expires_at: now + grace, ending });
    }
}

/// Hashes call numbers. They are sequential and assigned by us, so no protection against chosen collisions is
/// needed.
#[derive(Default)]
struct CallNumberHasher(u64);

impl Hasher for CallNumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio: neighbours differ in the high bits, which the map uses as well.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
