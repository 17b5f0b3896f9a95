//! The state machine of a connection: decides the next state and action after an event. Pure; the actor performs.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::backoff::Backoff;

use crate::connection::status::Status;
use crate::failure::{ConnectionFailure, FailureClass, FailureKind};

/// The maximum number of attempts in a row.
pub const MAX_ATTEMPTS: u32 = 5;
/// The backoff before an attempt that follows a failure or a loss.
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// The backoff after [`MAX_ATTEMPTS`], for a policy that never gives up.
const SLOW_BACKOFF: Backoff = Backoff::new(Duration::from_secs(30), Duration::from_secs(30));
/// A connection that lasted this long resets the count of attempts.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// A series of attempts. A start, a requested reconnect and the loss of a stable connection each begin a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    count: u32,
    backoff: Backoff,
}

impl Attempts {
    const NONE: Attempts = Attempts { count: 0, backoff: RETRY_BACKOFF };
    /// One more attempt, and none after it.
    const LAST: Attempts = Attempts { count: MAX_ATTEMPTS, backoff: RETRY_BACKOFF };
    /// The attempts of a policy that never gives up, after those of a series failed: the longest delay before each.
    const SLOW: Attempts = Attempts { count: MAX_ATTEMPTS, backoff: SLOW_BACKOFF };

    /// The number of attempts so far, including the current one.
    pub fn count(self) -> u32 {
        self.count
    }

    fn next(self) -> Attempts {
        Attempts { count: self.count.saturating_add(1), ..self }
    }

    /// Whether the attempts of a series have all been made.
    pub(super) fn is_series_over(self) -> bool {
        self.count >= MAX_ATTEMPTS
    }
}

/// The state of a connection.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Not started.
    Idle,
    /// Being opened.
    Opening {
        /// The attempts with the current one.
        attempts: Attempts,
    },
    /// Open.
    Open {
        /// The attempts with the one that opened it.
        attempts: Attempts,
    },
    /// Lost or not opened; the next attempt follows after a pause.
    BackingOff {
        /// The attempts so far.
        attempts: Attempts,
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

/// An action for the actor.
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
    /// The same, and then an attempt every 30 seconds whatever the failure, for a program that runs unattended.
    NeverGiveUp,
}

/// Whether the lists of a server's last connection are shown until it is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RememberedLists {
    /// No list without a connection.
    Unused,
    /// While a server connects for the first time, for a program whose clients should not wait for it.
    WhileConnecting,
}

impl State {
    /// The state after an event, and the action to perform.
    pub fn on(self, event: Event, policy: RetryPolicy) -> (State, Action) {
        match event {
            Event::Stop => self.on_stop(),
            Event::Reconnect => self.on_reconnect(),
            Event::Requested => self.on_requested(),
            Event::Start => match self {
                State::Idle => open(Attempts::NONE.next()),
                State::Opening { .. }
                | State::Open { .. }
                | State::BackingOff { .. }
                | State::AuthRequired { .. }
                | State::Failed { .. }
                | State::Closed => (self, Action::Nothing),
            },
            Event::Opened => match self {
                State::Opening { attempts } => (State::Open { attempts }, Action::Nothing),
                State::Closed => (State::Closed, Action::Close),
                State::Idle
                | State::Open { .. }
                | State::BackingOff { .. }
                | State::AuthRequired { .. }
                | State::Failed { .. } => (self, Action::Nothing),
            },
            Event::OpenFailed(cause) => match self {
                State::Opening { attempts } => after_failure(attempts, cause, policy),
                State::Idle
                | State::Open { .. }
                | State::BackingOff { .. }
                | State::AuthRequired { .. }
                | State::Failed { .. }
                | State::Closed => (self, Action::Nothing),
            },
            Event::Lost { cause, lived } => match self {
                // A failure that is permanent at the first attempt may pass for a server that was connected.
                State::Open { attempts } => {
                    let attempts = if lived >= STABLE_AFTER { Attempts::NONE } else { attempts };
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
                State::BackingOff { attempts, .. } => open(attempts.next()),
                State::Idle
                | State::Opening { .. }
                | State::Open { .. }
                | State::AuthRequired { .. }
                | State::Failed { .. }
                | State::Closed => (self, Action::Nothing),
            },
        }
    }

    /// The published view of the state.
    pub(super) fn status(&self) -> Status {
        let max_attempts = MAX_ATTEMPTS;
        match self {
            State::Idle => Status::Pending { attempt: 1, max_attempts, cause: None },
            State::Opening { attempts } => {
                let attempt = attempts.count().min(max_attempts);
                Status::Pending { attempt, max_attempts, cause: None }
            }
            // The attempts that follow are too far apart to wait for.
            State::BackingOff { attempts, cause } if attempts.is_series_over() => {
                Status::Failed(cause.clone())
            }
            State::BackingOff { attempts, cause } => {
                let attempt = attempts.count() + 1;
                Status::Pending { attempt, max_attempts, cause: Some(cause.clone()) }
            }
            State::Open { .. } => Status::Connected,
            State::AuthRequired { cause }
                if matches!(cause.kind, FailureKind::SessionRefused(_)) =>
            {
                Status::SessionRefused(cause.clone())
            }
            State::AuthRequired { cause } => Status::NeedsAuth(cause.clone()),
            State::Failed { cause } => Status::Failed(cause.clone()),
            State::Closed => Status::Disabled,
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
            State::Open { .. } => {
                (State::Opening { attempts: Attempts::NONE.next() }, Action::CloseAndOpen)
            }
            State::Idle
            | State::BackingOff { .. }
            | State::AuthRequired { .. }
            | State::Failed { .. } => open(Attempts::NONE.next()),
            // An attempt is already under way.
            State::Opening { .. } | State::Closed => (self, Action::Nothing),
        }
    }

    /// A request ends the backoff and gives a failed connection one more attempt; it does not replace a login.
    fn on_requested(self) -> (State, Action) {
        match self {
            State::Idle => open(Attempts::NONE.next()),
            State::BackingOff { attempts, .. } => open(attempts.next()),
            State::Failed { .. } => open(Attempts::LAST),
            State::Opening { .. }
            | State::Open { .. }
            | State::AuthRequired { .. }
            | State::Closed => (self, Action::Nothing),
        }
    }
}

fn open(attempts: Attempts) -> (State, Action) {
    (State::Opening { attempts }, Action::Open)
}

/// The state after failed attempts.
fn after_failure(
    attempts: Attempts,
    cause: Arc<ConnectionFailure>,
    policy: RetryPolicy,
) -> (State, Action) {
    match cause.class() {
        FailureClass::AuthRequired => (State::AuthRequired { cause }, Action::Nothing),
        FailureClass::Transient => retry(attempts, cause, policy),
        FailureClass::Permanent => give_up(attempts, cause, policy),
    }
}

/// Plans another attempt, where the policy and the number of attempts allow it.
fn retry(
    attempts: Attempts,
    cause: Arc<ConnectionFailure>,
    policy: RetryPolicy,
) -> (State, Action) {
    match policy {
        RetryPolicy::RetryWithBackoff | RetryPolicy::NeverGiveUp if !attempts.is_series_over() => {
            back_off(attempts, cause)
        }
        RetryPolicy::NoRetry | RetryPolicy::RetryWithBackoff | RetryPolicy::NeverGiveUp => {
            give_up(attempts, cause, policy)
        }
    }
}

/// Ends a series of attempts.
fn give_up(
    attempts: Attempts,
    cause: Arc<ConnectionFailure>,
    policy: RetryPolicy,
) -> (State, Action) {
    match policy {
        RetryPolicy::NoRetry | RetryPolicy::RetryWithBackoff => {
            (State::Failed { cause }, Action::Nothing)
        }
        RetryPolicy::NeverGiveUp => {
            let count = attempts.count().max(MAX_ATTEMPTS);
            back_off(Attempts { count, ..Attempts::SLOW }, cause)
        }
    }
}

fn back_off(mut attempts: Attempts, cause: Arc<ConnectionFailure>) -> (State, Action) {
    let delay = attempts.backoff.next_delay();
    (State::BackingOff { attempts, cause }, Action::BackOff(delay))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    /// A series with this many attempts, the first one without a delay.
    fn attempts(count: u32) -> Attempts {
        let mut attempts = Attempts { count, ..Attempts::NONE };
        (1..count).for_each(|_| _ = attempts.backoff.next_delay());
        attempts
    }

    /// A series after a stable connection was lost: every attempt follows a delay.
    fn attempts_after_loss(count: u32) -> Attempts {
        Attempts { count, ..attempts(count + 1) }
    }

    fn opening(count: u32) -> State {
        State::Opening { attempts: attempts(count) }
    }

    fn open(count: u32) -> State {
        State::Open { attempts: attempts(count) }
    }

    fn lost(lived: u64) -> Event {
        Event::Lost { cause: transient(), lived: Duration::from_secs(lived) }
    }

    #[track_caller]
    fn check(state: State, event: Event, expected: (State, Action)) {
        assert_eq!(state.on(event, RETRYING), expected);
    }

    fn backing_off(failed: u32) -> State {
        let attempts = Attempts { count: failed, ..attempts(failed + 1) };
        State::BackingOff { attempts, cause: transient() }
    }

    fn pause(seconds: u64) -> Action {
        Action::BackOff(Duration::from_secs(seconds))
    }

    #[test]
    fn a_connection_is_opened_and_stays_open() {
        check(State::Idle, Event::Start, (opening(1), Action::Open));
        check(opening(1), Event::Opened, (open(1), Action::Nothing));
        check(open(1), Event::Requested, (open(1), Action::Nothing));
    }

    #[test]
    fn a_first_connection_is_tried_five_times_with_delays_that_start_at_one_second() {
        for (attempt, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
            let failed = Event::OpenFailed(transient());
            check(opening(attempt), failed, (backing_off(attempt), pause(seconds)));
            let next = (opening(attempt + 1), Action::Open);
            check(backing_off(attempt), Event::BackoffElapsed, next);
        }
        let failed = State::Failed { cause: transient() };
        check(opening(5), Event::OpenFailed(transient()), (failed, Action::Nothing));
    }

    #[test]
    fn a_lost_connection_is_tried_five_times_with_delays_that_start_at_one_second() {
        let opening = |count| State::Opening { attempts: attempts_after_loss(count) };
        let (mut state, action) = open(3).on(lost(31), RETRYING);
        assert_eq!(action, pause(1));
        for (attempt, seconds) in [(1, 2), (2, 4), (3, 8), (4, 16)] {
            state = state.on(Event::BackoffElapsed, RETRYING).0;
            assert_eq!(state, opening(attempt));
            let (next, action) = state.on(Event::OpenFailed(transient()), RETRYING);
            assert_eq!(action, pause(seconds), "after attempt {attempt}");
            state = next;
        }
        state = state.on(Event::BackoffElapsed, RETRYING).0;
        let failed = State::Failed { cause: transient() };
        check(state, Event::OpenFailed(transient()), (failed, Action::Nothing));
    }

    #[test]
    fn the_first_retry_of_a_connection_lost_soon_after_its_start_waits_one_second() {
        check(open(1), lost(2), (backing_off(1), pause(1)));
        check(open(2), lost(2), (backing_off(2), pause(2)));
    }

    #[test]
    fn a_delay_is_at_most_thirty_seconds() {
        assert_eq!(RETRY_BACKOFF.delay(40), Duration::from_secs(30));
    }

    #[test]
    fn a_server_that_exits_soon_after_every_start_fails_after_the_last_attempt() {
        let mut state = opening(1);
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
    fn a_permanent_failure_of_the_first_attempt_is_final() {
        let failed = State::Failed { cause: permanent() };
        check(opening(1), Event::OpenFailed(permanent()), (failed, Action::Nothing));
    }

    #[test]
    fn a_connection_that_was_open_is_retried_even_after_a_permanent_failure() {
        let lost = Event::Lost { cause: permanent(), lived: STABLE_AFTER };
        let backing_off = State::BackingOff {
            attempts: Attempts { count: 0, ..attempts_after_loss(1) },
            cause: permanent(),
        };
        check(open(1), lost.clone(), (backing_off, pause(1)));
        let failed = State::Failed { cause: permanent() };
        assert_eq!(open(1).on(lost, RetryPolicy::NoRetry), (failed, Action::Nothing));
    }

    #[test]
    fn a_required_login_stays_until_a_reconnect_is_requested() {
        let needs_login = State::AuthRequired { cause: login() };
        check(opening(2), Event::OpenFailed(login()), (needs_login.clone(), Action::Nothing));
        check(needs_login.clone(), Event::Requested, (needs_login.clone(), Action::Nothing));
        check(needs_login, Event::Reconnect, (opening(1), Action::Open));
    }

    #[test]
    fn a_request_ends_the_backoff_and_gives_a_failed_connection_one_more_attempt() {
        check(backing_off(2), Event::Requested, (opening(3), Action::Open));
        let failed = State::Failed { cause: transient() };
        let chance = State::Opening { attempts: Attempts::LAST };
        check(failed.clone(), Event::Requested, (chance.clone(), Action::Open));
        check(chance, Event::OpenFailed(transient()), (failed, Action::Nothing));
    }

    #[test]
    fn without_retries_the_first_failure_is_final() {
        let (state, act) = opening(1).on(Event::OpenFailed(transient()), RetryPolicy::NoRetry);
        assert_eq!((state, act), (State::Failed { cause: transient() }, Action::Nothing));
    }

    #[test]
    fn a_timeout_under_load_is_tried_again() {
        let timeout =
            Arc::new(ConnectionFailure::new(FailureKind::Timeout(Duration::from_secs(30))));
        let (state, action) = opening(1).on(Event::OpenFailed(timeout), RETRYING);
        assert_eq!(action, pause(1));
        assert!(matches!(state, State::BackingOff { .. }), "{state:?}");
    }

    /// Runs a policy that never gives up through failures, and returns the delays in seconds and the statuses.
    fn never_give_up(failures: &[Arc<ConnectionFailure>]) -> Vec<(u64, &'static str)> {
        let mut state = opening(1);
        let on = |state: State, event| state.on(event, RetryPolicy::NeverGiveUp);
        let delays = failures.iter().map(|failure| {
            let failed = Event::OpenFailed(failure.clone());
            let (next, action) = on(std::mem::replace(&mut state, State::Idle), failed);
            let Action::BackOff(delay) = action else { panic!("{action:?}") };
            let status = next.status().id();
            state = on(next, Event::BackoffElapsed).0;
            assert_eq!(state.status().id(), "pending");
            (delay.as_secs(), status)
        });
        delays.collect()
    }

    #[test]
    fn a_policy_that_never_gives_up_goes_on_every_thirty_seconds_and_says_failed_meanwhile() {
        let delays = never_give_up(&vec![transient(); 8]);
        let pending = [1, 2, 4, 8].map(|seconds| (seconds, "pending"));
        let failed = [(30, "failed"); 4];
        assert_eq!(delays, [pending.as_slice(), failed.as_slice()].concat());
        // What only a user can change may have been changed since.
        assert_eq!(never_give_up(&vec![permanent(); 3]), [(30, "failed"); 3]);
    }

    #[test]
    fn a_request_does_not_wait_for_the_next_slow_attempt() {
        let cause = transient();
        let slow = State::BackingOff { attempts: Attempts::SLOW, cause: cause.clone() };
        let (opened, action) = slow.on(Event::Requested, RetryPolicy::NeverGiveUp);
        assert_eq!(action, Action::Open);
        assert!(!opened.status().is_settled());
        let (state, action) = opened.on(Event::OpenFailed(cause), RetryPolicy::NeverGiveUp);
        assert_eq!((state.status().id(), action), ("failed", pause(30)));
    }

    #[test]
    fn a_login_is_not_replaced_by_attempts_that_never_end() {
        let needs_login = State::AuthRequired { cause: login() };
        let on = opening(1).on(Event::OpenFailed(login()), RetryPolicy::NeverGiveUp);
        assert_eq!(on, (needs_login, Action::Nothing));
    }

    #[test]
    fn a_reconnect_can_be_requested_at_any_time() {
        let opening = || opening(1);
        check(open(4), Event::Reconnect, (opening(), Action::CloseAndOpen));
        check(backing_off(4), Event::Reconnect, (opening(), Action::Open));
        check(State::Failed { cause: permanent() }, Event::Reconnect, (opening(), Action::Open));
        check(opening(), Event::Reconnect, (opening(), Action::Nothing));
        check(State::Closed, Event::Reconnect, (State::Closed, Action::Nothing));
    }

    #[test]
    fn a_late_event_changes_nothing() {
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
                if let State::Opening { attempts } | State::Open { attempts } = state {
                    prop_assert!((1..=MAX_ATTEMPTS).contains(&attempts.count()));
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
