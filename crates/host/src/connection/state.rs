//! The state machine of a connection: decides the next state and action after an event. Pure; the actor performs.

use std::sync::Arc;
use std::time::Duration;

use crate::failure::{ConnectionFailure, FailureClass};

/// The maximum number of attempts in a row.
pub const MAX_ATTEMPTS: u32 = 5;
/// The base of the backoff: the pause after attempt `n` is this times 2ⁿ.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// A connection that lasted this long resets the count of attempts.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// The state of a connection.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Not started.
    Idle,
    /// Being opened.
    Opening {
        /// The number of the attempt, from one.
        attempt: u32,
    },
    /// Open.
    Open {
        /// The attempt that opened it.
        attempt: u32,
    },
    /// Lost or not opened; the next attempt follows after a pause.
    BackingOff {
        /// The number of attempts so far.
        attempts: u32,
        /// Why.
        cause: Arc<ConnectionFailure>,
    },
    /// The server requires a login.
    AuthRequired {
        /// The rejection.
        cause: Arc<ConnectionFailure>,
    },
    /// Not opened, and no further attempt is planned.
    Failed {
        /// Why.
        cause: Arc<ConnectionFailure>,
    },
    /// Stopped.
    Closed,
}

/// An event of a connection.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The connection is started.
    Start,
    /// The attempt succeeded.
    Opened,
    /// The attempt failed.
    OpenFailed(Arc<ConnectionFailure>),
    /// The open connection was lost.
    Lost {
        /// Why.
        cause: Arc<ConnectionFailure>,
        /// How long it was open.
        lived: Duration,
    },
    /// The backoff elapsed.
    BackoffElapsed,
    /// A caller wants to use the connection.
    Requested,
    /// The connection is to be closed and opened again.
    Reconnect,
    /// The connection is to be stopped.
    Stop,
}

/// What the actor has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Open the connection.
    Open,
    /// Wait, then send [`Event::BackoffElapsed`].
    BackOff(Duration),
    /// Close the connection or the attempt.
    Close,
    /// Close the connection and open it again.
    CloseAndOpen,
}

/// Whether failed attempts are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPolicy {
    /// One attempt, for a program that runs one command.
    NoRetry,
    /// Up to [`MAX_ATTEMPTS`] with backoff, for a program that keeps running.
    RetryWithBackoff,
}

impl State {
    /// The state after an event, and the action to perform.
    pub fn on(self, event: Event, policy: RetryPolicy) -> (State, Action) {
        match event {
            Event::Stop => self.on_stop(),
            Event::Reconnect => self.on_reconnect(),
            Event::Requested => self.on_requested(),
            Event::Start => match self {
                State::Idle => open_attempt(1),
                State::Opening { .. }
                | State::Open { .. }
                | State::BackingOff { .. }
                | State::AuthRequired { .. }
                | State::Failed { .. }
                | State::Closed => (self, Action::Nothing),
            },
            Event::Opened => match self {
                State::Opening { attempt } => (State::Open { attempt }, Action::Nothing),
                State::Closed => (State::Closed, Action::Close),
                State::Idle
                | State::Open { .. }
                | State::BackingOff { .. }
                | State::AuthRequired { .. }
                | State::Failed { .. } => (self, Action::Nothing),
            },
            Event::OpenFailed(cause) => match self {
                State::Opening { attempt } => after_failure(attempt, cause, policy),
                State::Idle
                | State::Open { .. }
                | State::BackingOff { .. }
                | State::AuthRequired { .. }
                | State::Failed { .. }
                | State::Closed => (self, Action::Nothing),
            },
            Event::Lost { cause, lived } => match self {
                // A failure that is permanent at the first attempt may pass for a server that was connected.
                State::Open { attempt } => {
                    let attempts = if lived >= STABLE_AFTER { 0 } else { attempt };
                    match cause.class() {
                        FailureClass::AuthRequired => {
                            (State::AuthRequired { cause }, Action::Nothing)
                        }
                        FailureClass::Transient | FailureClass::Permanent => {
                            retry(attempts, cause, policy)
                        }
                    }
                }
                State::Idle
                | State::Opening { .. }
                | State::BackingOff { .. }
                | State::AuthRequired { .. }
                | State::Failed { .. }
                | State::Closed => (self, Action::Nothing),
            },
            Event::BackoffElapsed => match self {
                State::BackingOff { attempts, .. } => open_attempt(attempts + 1),
                State::Idle
                | State::Opening { .. }
                | State::Open { .. }
                | State::AuthRequired { .. }
                | State::Failed { .. }
                | State::Closed => (self, Action::Nothing),
            },
        }
    }

    fn on_stop(self) -> (State, Action) {
        match self {
            State::Opening { .. } | State::Open { .. } => (State::Closed, Action::Close),
            State::Idle
            | State::BackingOff { .. }
            | State::AuthRequired { .. }
            | State::Failed { .. }
            | State::Closed => (State::Closed, Action::Nothing),
        }
    }

    fn on_reconnect(self) -> (State, Action) {
        match self {
            State::Open { .. } => (State::Opening { attempt: 1 }, Action::CloseAndOpen),
            State::Idle
            | State::BackingOff { .. }
            | State::AuthRequired { .. }
            | State::Failed { .. } => open_attempt(1),
            // An attempt is already under way.
            State::Opening { .. } | State::Closed => (self, Action::Nothing),
        }
    }

    /// A request ends the backoff and gives a failed connection one more attempt; it does not replace a login.
    fn on_requested(self) -> (State, Action) {
        match self {
            State::Idle => open_attempt(1),
            State::BackingOff { attempts, .. } => open_attempt(attempts + 1),
            State::Failed { .. } => open_attempt(MAX_ATTEMPTS),
            State::Opening { .. }
            | State::Open { .. }
            | State::AuthRequired { .. }
            | State::Closed => (self, Action::Nothing),
        }
    }
}

fn open_attempt(attempt: u32) -> (State, Action) {
    (State::Opening { attempt }, Action::Open)
}

/// The state after `attempts` failed attempts.
fn after_failure(
    attempts: u32,
    cause: Arc<ConnectionFailure>,
    policy: RetryPolicy,
) -> (State, Action) {
    match cause.class() {
        FailureClass::AuthRequired => (State::AuthRequired { cause }, Action::Nothing),
        FailureClass::Transient => retry(attempts, cause, policy),
        FailureClass::Permanent => (State::Failed { cause }, Action::Nothing),
    }
}

/// Plans another attempt, where the policy and the number of attempts allow it.
fn retry(attempts: u32, cause: Arc<ConnectionFailure>, policy: RetryPolicy) -> (State, Action) {
    match policy == RetryPolicy::RetryWithBackoff && attempts < MAX_ATTEMPTS {
        true => (State::BackingOff { attempts, cause }, Action::BackOff(backoff(attempts))),
        false => (State::Failed { cause }, Action::Nothing),
    }
}

fn backoff(attempts: u32) -> Duration {
    INITIAL_BACKOFF.saturating_mul(1 << attempts.min(16)).min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::failure::FailureKind;

    fn transient() -> Arc<ConnectionFailure> {
        Arc::new(ConnectionFailure::new(FailureKind::Closed))
    }

    fn permanent() -> Arc<ConnectionFailure> {
        Arc::new(ConnectionFailure::new(FailureKind::NoCommonVersion { theirs: Vec::new() }))
    }

    fn login() -> Arc<ConnectionFailure> {
        Arc::new(ConnectionFailure::new(FailureKind::AuthRequired))
    }

    const RETRYING: RetryPolicy = RetryPolicy::RetryWithBackoff;

    fn open(attempt: u32) -> State {
        State::Open { attempt }
    }

    fn lost(lived: u64) -> Event {
        Event::Lost { cause: transient(), lived: Duration::from_secs(lived) }
    }

    #[track_caller]
    fn check(state: State, event: Event, expected: (State, Action)) {
        assert_eq!(state.on(event, RETRYING), expected);
    }

    fn backing_off(attempts: u32) -> State {
        State::BackingOff { attempts, cause: transient() }
    }

    #[test]
    fn a_connection_is_made_and_stands() {
        check(State::Idle, Event::Start, (State::Opening { attempt: 1 }, Action::Open));
        check(State::Opening { attempt: 1 }, Event::Opened, (open(1), Action::Nothing));
        check(open(1), Event::Requested, (open(1), Action::Nothing));
    }

    #[test]
    fn a_lost_connection_is_made_again_after_pauses_that_double_up_to_a_bound() {
        let pause = |seconds| Action::BackOff(Duration::from_secs(seconds));
        check(open(3), lost(31), (backing_off(0), pause(1)));
        for (attempt, seconds) in [(1, 2), (2, 4), (3, 8), (4, 16)] {
            let failed = Event::OpenFailed(transient());
            check(State::Opening { attempt }, failed, (backing_off(attempt), pause(seconds)));
            let next = State::Opening { attempt: attempt + 1 };
            check(backing_off(attempt), Event::BackoffElapsed, (next, Action::Open));
        }
        let last = State::Opening { attempt: 5 };
        let failed = State::Failed { cause: transient() };
        check(last, Event::OpenFailed(transient()), (failed, Action::Nothing));
        assert_eq!(backoff(40), MAX_BACKOFF);
    }

    #[test]
    fn a_server_that_dies_soon_after_every_start_is_given_up() {
        let mut state = State::Opening { attempt: 1 };
        let mut starts = 1;
        loop {
            state = state.on(Event::Opened, RETRYING).0.on(lost(2), RETRYING).0;
            match state {
                State::BackingOff { .. } => {
                    state = state.on(Event::BackoffElapsed, RETRYING).0;
                    starts += 1;
                }
                State::Failed { .. } => break,
                State::Idle
                | State::Opening { .. }
                | State::Open { .. }
                | State::AuthRequired { .. }
                | State::Closed => panic!("{state:?}"),
            }
        }
        assert_eq!(starts, MAX_ATTEMPTS);
    }

    #[test]
    fn what_waiting_does_not_mend_fails_at_once() {
        let opening = State::Opening { attempt: 1 };
        let failed = State::Failed { cause: permanent() };
        check(opening, Event::OpenFailed(permanent()), (failed, Action::Nothing));
    }

    #[test]
    fn what_stood_once_is_tried_again_though_a_first_attempt_would_have_been_the_last() {
        let lost = Event::Lost { cause: permanent(), lived: STABLE_AFTER };
        let backing_off = State::BackingOff { attempts: 0, cause: permanent() };
        check(open(1), lost.clone(), (backing_off, Action::BackOff(INITIAL_BACKOFF)));
        let failed = State::Failed { cause: permanent() };
        assert_eq!(open(1).on(lost, RetryPolicy::NoRetry), (failed, Action::Nothing));
    }

    #[test]
    fn a_wall_stays_until_a_person_tries_again() {
        let walled = State::AuthRequired { cause: login() };
        let opening = State::Opening { attempt: 2 };
        check(opening, Event::OpenFailed(login()), (walled.clone(), Action::Nothing));
        check(walled.clone(), Event::Requested, (walled.clone(), Action::Nothing));
        check(walled, Event::Reconnect, (State::Opening { attempt: 1 }, Action::Open));
    }

    #[test]
    fn a_use_ends_a_pause_and_gives_a_failed_connection_one_more_chance() {
        check(backing_off(2), Event::Requested, (State::Opening { attempt: 3 }, Action::Open));
        let failed = State::Failed { cause: transient() };
        let chance = State::Opening { attempt: MAX_ATTEMPTS };
        check(failed.clone(), Event::Requested, (chance.clone(), Action::Open));
        check(chance, Event::OpenFailed(transient()), (failed, Action::Nothing));
    }

    #[test]
    fn whoever_tries_only_once_fails_at_once() {
        let opening = State::Opening { attempt: 1 };
        let (state, act) = opening.on(Event::OpenFailed(transient()), RetryPolicy::NoRetry);
        assert_eq!((state, act), (State::Failed { cause: transient() }, Action::Nothing));
    }

    #[test]
    fn a_person_can_have_it_made_anew_at_any_time() {
        let opening = || State::Opening { attempt: 1 };
        check(open(4), Event::Reconnect, (opening(), Action::CloseAndOpen));
        check(backing_off(4), Event::Reconnect, (opening(), Action::Open));
        check(State::Failed { cause: permanent() }, Event::Reconnect, (opening(), Action::Open));
        check(opening(), Event::Reconnect, (opening(), Action::Nothing));
        check(State::Closed, Event::Reconnect, (State::Closed, Action::Nothing));
    }

    #[test]
    fn what_comes_too_late_changes_nothing() {
        for event in
            [Event::BackoffElapsed, Event::OpenFailed(transient()), Event::Opened, Event::Start]
        {
            check(open(1), event, (open(1), Action::Nothing));
        }
        check(State::Closed, Event::Opened, (State::Closed, Action::Close));
        check(backing_off(1), lost(1), (backing_off(1), Action::Nothing));
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Start),
            Just(Event::Opened),
            Just(Event::OpenFailed(transient())),
            Just(Event::OpenFailed(permanent())),
            Just(Event::OpenFailed(login())),
            (0..60u64).prop_map(lost),
            Just(Event::BackoffElapsed),
            Just(Event::Requested),
            Just(Event::Reconnect),
        ]
    }

    proptest! {
        #[test]
        fn an_attempt_is_never_beyond_the_bound_and_a_stopped_connection_stays_stopped(
            events in prop::collection::vec(any_event(), 0..40)
        ) {
            let mut state = State::Idle;
            for event in &events {
                state = state.on(event.clone(), RETRYING).0;
                if let State::Opening { attempt } | State::Open { attempt } = state {
                    prop_assert!((1..=MAX_ATTEMPTS).contains(&attempt));
                }
            }
            let (mut state, _) = state.on(Event::Stop, RETRYING);
            for event in events {
                state = state.on(event, RETRYING).0;
                prop_assert_eq!(&state, &State::Closed);
            }
        }
    }
}
