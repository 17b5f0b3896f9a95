//! Finds the session that a message of the server belongs to, where the message itself does not say.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::SessionId;

/// How long a server may go on with a call that was cancelled, and so ask about it.
const CANCELLED_GRACE: Duration = Duration::from_secs(300);
/// How long after a response notifications of its call may arrive.
const ANSWERED_GRACE: Duration = Duration::from_secs(1);
/// How many ended calls are remembered.
const MAX_RECENT_CALLS: usize = 1024;

/// The session of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attribution {
    /// Only this session has calls.
    Session(SessionId),
    /// No session has calls.
    NoCall,
    /// Several sessions have calls.
    Ambiguous,
}

/// Calls that ended a moment ago.
#[derive(Debug, Default)]
pub(super) struct RecentCalls(VecDeque<RecentCall>);

#[derive(Debug)]
struct RecentCall {
    session: SessionId,
    end: CallEnd,
    expires_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallEnd {
    Answered,
    Cancelled,
}

impl RecentCalls {
    pub(super) fn answered(&mut self, session: SessionId, now: Instant) {
        self.add(session, CallEnd::Answered, now + ANSWERED_GRACE, now);
    }

    pub(super) fn cancelled(&mut self, session: SessionId, now: Instant) {
        self.add(session, CallEnd::Cancelled, now + CANCELLED_GRACE, now);
    }

    /// One entry per session and kind is enough: the newest expires last.
    fn add(&mut self, session: SessionId, end: CallEnd, expires_at: Instant, now: Instant) {
        self.0.retain(|it| it.expires_at > now && !(it.session == session && it.end == end));
        if self.0.len() >= MAX_RECENT_CALLS {
            self.0.pop_front();
        }
        self.0.push_back(RecentCall { session, end, expires_at });
    }

    /// The session of a request of the server. It asks about open calls, and about cancelled ones that it goes on
    /// with.
    pub(super) fn attribute_request(
        &self,
        calling: &BTreeSet<SessionId>,
        now: Instant,
    ) -> Attribution {
        let cancelled = self.sessions(now, |end| end == CallEnd::Cancelled);
        match resolve(calling.iter().copied()) {
            // A cancelled call alone has no one who could answer.
            Attribution::NoCall => match resolve(cancelled) {
                Attribution::NoCall => Attribution::NoCall,
                Attribution::Session(_) | Attribution::Ambiguous => Attribution::Ambiguous,
            },
            Attribution::Session(_) | Attribution::Ambiguous => {
                resolve(calling.iter().copied().chain(cancelled))
            }
        }
    }

    /// The session of a notification, which may also belong to a call that was just answered.
    pub(super) fn attribute_notification(
        &self,
        calling: &BTreeSet<SessionId>,
        now: Instant,
    ) -> Attribution {
        resolve(calling.iter().copied().chain(self.sessions(now, |_| true)))
    }

    fn sessions(
        &self,
        now: Instant,
        is_wanted: impl Fn(CallEnd) -> bool,
    ) -> impl Iterator<Item = SessionId> {
        let wanted = move |it: &&RecentCall| it.expires_at > now && is_wanted(it.end);
        self.0.iter().filter(wanted).map(|it| it.session)
    }
}

fn resolve(mut sessions: impl Iterator<Item = SessionId>) -> Attribution {
    let Some(first) = sessions.next() else { return Attribution::NoCall };
    match sessions.all(|it| it == first) {
        true => Attribution::Session(first),
        false => Attribution::Ambiguous,
    }
}
