//! Calls under way, and those that ended a moment ago. The task that owns the link looks here for whom an answer is and
//! on whose account the other side speaks; callers who need not bother that task write themselves down and off.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::behalf::{Attribution, CallOwner};
use super::call::PendingCall;
use crate::message::RequestId;

/// For how long the other side may still speak on account of a call that was called off, and of one that it answered.
const CANCELLED_GRACE: Duration = Duration::from_secs(10);
const ANSWERED_GRACE: Duration = Duration::from_secs(1);
/// How many such calls are remembered.
const MAX_RECENT_CALLS: usize = 1024;

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct PendingCalls(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    waiting: HashMap<u64, PendingCall, BuildHasherDefault<CallNumberHasher>>,
    over: VecDeque<RecentCall>,
}

/// A call made for somebody that nobody waits for any more, of which the other side may not know yet.
#[derive(Debug)]
struct RecentCall {
    attendant: Arc<dyn CallOwner>,
    until: Instant,
    how: CallEnding,
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

    pub(super) fn insert(&self, number: u64, waiting: PendingCall) {
        self.calls().waiting.insert(number, waiting);
    }

    /// Takes a call that has ended out.
    pub(super) fn remove(&self, number: u64, how: CallEnding) -> Option<PendingCall> {
        let mut calls = self.calls();
        let mut waiting = calls.waiting.remove(&number)?;
        if let Some(attendant) = waiting.attendant.take() {
            calls.add_recent(attendant, how);
        }
        Some(waiting)
    }

    /// Looks at a call that still waits.
    pub(super) fn peek<T>(&self, number: u64, look: impl FnOnce(&PendingCall) -> T) -> Option<T> {
        self.calls().waiting.get(&number).map(look)
    }

    pub(super) fn drain(&self) -> Vec<PendingCall> {
        self.calls().waiting.drain().map(|it| it.1).collect()
    }

    /// On whose account the other side speaks. Where it does not say, it can only be told while one alone waits.
    pub(super) fn attribute(&self, amid: Option<&RequestId>, speech: MessageKind) -> Attribution {
        let calls = self.calls();
        if let Some(RequestId::Number(number)) = amid {
            let waiting = calls.waiting.get(number);
            let attendant = waiting.and_then(|it| it.attendant.as_ref());
            return Attribution::resolve(attendant.map(|it| (*number, it)));
        }
        let attended =
            calls.waiting.iter().filter_map(|(number, it)| Some((*number, it.attendant.as_ref()?)));
        match (Attribution::resolve(attended), speech) {
            // It may speak of what somebody else called off a moment ago.
            (Attribution::Owner(attendant), _) if calls.is_ambiguous(&*attendant, speech) => {
                Attribution::Ambiguous
            }
            // What is said may come after the answer, on another way.
            (Attribution::None, MessageKind::Notification) => {
                let now = Instant::now();
                let late = calls.over.iter().filter(|it| it.until > now);
                Attribution::resolve(late.map(|it| (0, &it.attendant)))
            }
            (behalf @ (Attribution::None | Attribution::Owner(_) | Attribution::Ambiguous), _) => {
                behalf
            }
        }
    }
}

impl Calls {
    fn is_ambiguous(&self, attendant: &dyn CallOwner, speech: MessageKind) -> bool {
        if self.over.is_empty() {
            return false;
        }
        let (now, own) = (Instant::now(), attendant.principal());
        self.over.iter().any(|over| {
            over.attendant.principal() != own
                && over.until > now
                && (over.how == CallEnding::Cancelled || speech == MessageKind::Notification)
        })
    }

    fn add_recent(&mut self, attendant: Arc<dyn CallOwner>, how: CallEnding) {
        let now = Instant::now();
        let lasts = match how {
            CallEnding::Cancelled => CANCELLED_GRACE,
            CallEnding::Answered => ANSWERED_GRACE,
        };
        while self.over.len() >= MAX_RECENT_CALLS
            || self.over.front().is_some_and(|it| it.until <= now)
        {
            self.over.pop_front();
        }
        self.over.push_back(RecentCall { attendant, until: now + lasts, how });
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
