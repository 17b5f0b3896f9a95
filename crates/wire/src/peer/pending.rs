//! Calls under way, and those that ended a moment ago. The task that owns the link looks here for whom an answer is and
//! on whose account the other side speaks; callers who need not bother that task write themselves down and off.

use super::attribution::{Attribution, CallOwner};
use crate::jsonrpc::message::{Payload, RequestId, RpcError};
use crate::transport::CloseReason;
use crate::transport_error::TransportError;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// For how long the other side may still speak on account of a call that was called off, and of one that it answered.
const CANCELLED_GRACE: Duration = Duration::from_secs(10);
const ANSWERED_GRACE: Duration = Duration::from_secs(1);
/// How many such calls are remembered.
const MAX_RECENT_CALLS: usize = 1024;

/// A sign of progress, as the other side sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress(pub Payload);

/// What the task keeps of a call until its answer comes.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) response: oneshot::Sender<CallOutcome>,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
    pub(super) owner: Option<Arc<dyn CallOwner>>,
}

/// How a call ended, seen from the task.
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

/// A call made for somebody that nobody waits for any more, of which the other side may not know yet.
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

/// What the other side does: who has answered asks nothing more, but may still say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    Request,
    Notification,
}

impl PendingCalls {
    /// The lock is held for a look or a change, and never while somebody else's code runs that could wait.
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, number: u64, pending: PendingCall) {
        self.calls().pending.insert(number, pending);
    }

    /// Takes a call that has ended out.
    pub(super) fn remove(&self, number: u64, ending: CallEnding) -> Option<PendingCall> {
        let mut calls = self.calls();
        let mut pending = calls.pending.remove(&number)?;
        if let Some(owner) = pending.owner.take() {
            calls.add_recent(owner, ending);
        }
        Some(pending)
    }

    /// Looks at a call that still waits.
    pub(super) fn peek<T>(&self, number: u64, look: impl FnOnce(&PendingCall) -> T) -> Option<T> {
        self.calls().pending.get(&number).map(look)
    }

    pub(super) fn drain(&self) -> Vec<PendingCall> {
        self.calls().pending.drain().map(|it| it.1).collect()
    }

    /// On whose account the other side speaks. Where it does not say, it can only be told while one alone waits.
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
            // It may speak of what somebody else called off a moment ago.
            (Attribution::Owner(owner), _) if calls.is_ambiguous(&*owner, kind) => {
                Attribution::Ambiguous
            }
            // What is said may come after the answer, on another way.
            (Attribution::None, MessageKind::Notification) => {
                let now = Instant::now();
                let late = calls.recent.iter().filter(|it| it.expires_at > now);
                Attribution::resolve(late.map(|it| (0, &it.owner)))
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
        let (now, principal) = (Instant::now(), owner.principal());
        self.recent.iter().any(|recent| {
            recent.owner.principal() != principal
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

/// Spreads the numbers of calls over a map. They are our own, one after the other, and nobody else can put any
/// there, so nothing has to be guarded against numbers that were chosen to collide.
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
        // The golden ratio of 2^64: neighbours end far apart in the high bits, which a map looks at too.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
