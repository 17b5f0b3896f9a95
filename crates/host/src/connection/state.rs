//! Decides what becomes of a connection, and what is to be done about it. Pure: the task performs.

use std::sync::Arc;
use std::time::Duration;

use crate::cause::{Cause, Outlook};

/// How many attempts a connection gets in a row.
pub const MOST_ATTEMPTS: u32 = 5;
/// The first pause between attempts; each one after it is twice as long.
const FIRST_REST: Duration = Duration::from_secs(1);
/// The longest pause between attempts.
const LONGEST_REST: Duration = Duration::from_secs(30);
/// A connection that lived this long was a good one: losing it begins a new count.
const STEADY: Duration = Duration::from_secs(30);

/// Where a connection is.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Nothing was asked of it yet.
    Idle,
    /// It is being made.
    Opening {
        /// Which attempt of a row this is, from one.
        attempt: u32,
    },
    /// It stands.
    Open {
        /// The attempt that made it.
        attempt: u32,
    },
    /// It was lost or could not be made, and the next attempt comes after a pause.
    Resting {
        /// How many attempts of this row were made.
        attempts: u32,
        /// Why.
        cause: Arc<Cause>,
    },
    /// The server wants a login first.
    Walled {
        /// How it said so.
        cause: Arc<Cause>,
    },
    /// It could not be made, and waiting does not help.
    Failed {
        /// Why.
        cause: Arc<Cause>,
    },
    /// It was ended for good.
    Over,
}

/// What happens to a connection.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It is wanted for the first time.
    Start,
    /// The attempt succeeded.
    Opened,
    /// The attempt failed.
    OpenFailed(Arc<Cause>),
    /// It was lost.
    Lost {
        /// Why.
        cause: Arc<Cause>,
        /// How long it had stood.
        lived: Duration,
    },
    /// The pause is over.
    Rested,
    /// Somebody wants to use it.
    Wanted,
    /// A person wants it made anew.
    Reconnect,
    /// It is not wanted any more.
    Stop,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// Make the connection.
    Open,
    /// Wait, then say [`Event::Rested`].
    Rest(Duration),
    /// End the connection or the attempt.
    HangUp,
    /// End it, and make it anew.
    HangUpAndOpen,
}

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Once: somebody waits for an answer.
    Once,
    /// Again and again, within bounds: we are here to stay.
    Patient,
}

impl State {
    /// Where the connection is after an event, and what is to be done.
    pub fn on(self, event: Event, persistence: Persistence) -> (State, Act) {
        match event {
            Event::Stop => self.stop(),
            Event::Reconnect => self.reconnect(),
            Event::Wanted => self.wanted(),
            Event::Start => match self {
                State::Idle => opening(1),
                State::Opening { .. }
                | State::Open { .. }
                | State::Resting { .. }
                | State::Walled { .. }
                | State::Failed { .. }
                | State::Over => (self, Act::Nothing),
            },
            Event::Opened => match self {
                State::Opening { attempt } => (State::Open { attempt }, Act::Nothing),
                State::Over => (State::Over, Act::HangUp),
                State::Idle
                | State::Open { .. }
                | State::Resting { .. }
                | State::Walled { .. }
                | State::Failed { .. } => (self, Act::Nothing),
            },
            Event::OpenFailed(cause) => match self {
                State::Opening { attempt } => after(attempt, cause, persistence),
                State::Idle
                | State::Open { .. }
                | State::Resting { .. }
                | State::Walled { .. }
                | State::Failed { .. }
                | State::Over => (self, Act::Nothing),
            },
            Event::Lost { cause, lived } => match self {
                // What stood once may stand again, even where a first attempt would be the last.
                State::Open { attempt } => {
                    let attempts = if lived >= STEADY { 0 } else { attempt };
                    match cause.outlook() {
                        Outlook::Login => (State::Walled { cause }, Act::Nothing),
                        Outlook::Passing | Outlook::Lasting => again(attempts, cause, persistence),
                    }
                }
                State::Idle
                | State::Opening { .. }
                | State::Resting { .. }
                | State::Walled { .. }
                | State::Failed { .. }
                | State::Over => (self, Act::Nothing),
            },
            Event::Rested => match self {
                State::Resting { attempts, .. } => opening(attempts + 1),
                State::Idle
                | State::Opening { .. }
                | State::Open { .. }
                | State::Walled { .. }
                | State::Failed { .. }
                | State::Over => (self, Act::Nothing),
            },
        }
    }

    fn stop(self) -> (State, Act) {
        match self {
            State::Opening { .. } | State::Open { .. } => (State::Over, Act::HangUp),
            State::Idle
            | State::Resting { .. }
            | State::Walled { .. }
            | State::Failed { .. }
            | State::Over => (State::Over, Act::Nothing),
        }
    }

    fn reconnect(self) -> (State, Act) {
        match self {
            State::Open { .. } => (State::Opening { attempt: 1 }, Act::HangUpAndOpen),
            State::Idle | State::Resting { .. } | State::Walled { .. } | State::Failed { .. } => {
                opening(1)
            }
            // It is on its way already.
            State::Opening { .. } | State::Over => (self, Act::Nothing),
        }
    }

    /// A use ends a pause, and gives a failed connection one more chance. It does not climb a wall.
    fn wanted(self) -> (State, Act) {
        match self {
            State::Idle => opening(1),
            State::Resting { attempts, .. } => opening(attempts + 1),
            State::Failed { .. } => opening(MOST_ATTEMPTS),
            State::Opening { .. } | State::Open { .. } | State::Walled { .. } | State::Over => {
                (self, Act::Nothing)
            }
        }
    }
}

fn opening(attempt: u32) -> (State, Act) {
    (State::Opening { attempt }, Act::Open)
}

/// After a failure: so many attempts were made.
fn after(attempts: u32, cause: Arc<Cause>, persistence: Persistence) -> (State, Act) {
    match cause.outlook() {
        Outlook::Login => (State::Walled { cause }, Act::Nothing),
        Outlook::Passing => again(attempts, cause, persistence),
        Outlook::Lasting => (State::Failed { cause }, Act::Nothing),
    }
}

/// Tries once more after a pause, within bounds.
fn again(attempts: u32, cause: Arc<Cause>, persistence: Persistence) -> (State, Act) {
    match persistence == Persistence::Patient && attempts < MOST_ATTEMPTS {
        true => (State::Resting { attempts, cause }, Act::Rest(rest(attempts))),
        false => (State::Failed { cause }, Act::Nothing),
    }
}

fn rest(attempts: u32) -> Duration {
    FIRST_REST.saturating_mul(1 << attempts.min(16)).min(LONGEST_REST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cause::CauseKind;

    fn passing() -> Arc<Cause> {
        Arc::new(Cause::of(CauseKind::Closed))
    }

    fn lasting() -> Arc<Cause> {
        Arc::new(Cause::of(CauseKind::NoCommonVersion { theirs: Vec::new() }))
    }

    fn login() -> Arc<Cause> {
        Arc::new(Cause::of(CauseKind::WantsLogin))
    }

    const PATIENT: Persistence = Persistence::Patient;

    fn open(attempt: u32) -> State {
        State::Open { attempt }
    }

    fn lost(lived: u64) -> Event {
        Event::Lost { cause: passing(), lived: Duration::from_secs(lived) }
    }

    #[track_caller]
    fn check(state: State, event: Event, expected: (State, Act)) {
        assert_eq!(state.on(event, PATIENT), expected);
    }

    fn resting(attempts: u32) -> State {
        State::Resting { attempts, cause: passing() }
    }

    #[test]
    fn a_connection_is_made_and_stands() {
        check(State::Idle, Event::Start, (State::Opening { attempt: 1 }, Act::Open));
        check(State::Opening { attempt: 1 }, Event::Opened, (open(1), Act::Nothing));
        check(open(1), Event::Wanted, (open(1), Act::Nothing));
    }

    #[test]
    fn a_lost_connection_is_made_again_after_pauses_that_double_up_to_a_bound() {
        let pause = |seconds| Act::Rest(Duration::from_secs(seconds));
        check(open(3), lost(31), (resting(0), pause(1)));
        for (attempt, seconds) in [(1, 2), (2, 4), (3, 8), (4, 16)] {
            let failed = Event::OpenFailed(passing());
            check(State::Opening { attempt }, failed, (resting(attempt), pause(seconds)));
            let next = State::Opening { attempt: attempt + 1 };
            check(resting(attempt), Event::Rested, (next, Act::Open));
        }
        let last = State::Opening { attempt: 5 };
        let failed = State::Failed { cause: passing() };
        check(last, Event::OpenFailed(passing()), (failed, Act::Nothing));
        assert_eq!(rest(40), LONGEST_REST);
    }

    #[test]
    fn a_server_that_dies_soon_after_every_start_is_given_up() {
        let mut state = State::Opening { attempt: 1 };
        let mut starts = 1;
        loop {
            state = state.on(Event::Opened, PATIENT).0.on(lost(2), PATIENT).0;
            match state {
                State::Resting { .. } => {
                    state = state.on(Event::Rested, PATIENT).0;
                    starts += 1;
                }
                State::Failed { .. } => break,
                State::Idle
                | State::Opening { .. }
                | State::Open { .. }
                | State::Walled { .. }
                | State::Over => panic!("{state:?}"),
            }
        }
        assert_eq!(starts, MOST_ATTEMPTS);
    }

    #[test]
    fn what_waiting_does_not_mend_fails_at_once() {
        let opening = State::Opening { attempt: 1 };
        let failed = State::Failed { cause: lasting() };
        check(opening, Event::OpenFailed(lasting()), (failed, Act::Nothing));
    }

    #[test]
    fn what_stood_once_is_tried_again_though_a_first_attempt_would_have_been_the_last() {
        let lost = Event::Lost { cause: lasting(), lived: STEADY };
        let resting = State::Resting { attempts: 0, cause: lasting() };
        check(open(1), lost.clone(), (resting, Act::Rest(FIRST_REST)));
        let failed = State::Failed { cause: lasting() };
        assert_eq!(open(1).on(lost, Persistence::Once), (failed, Act::Nothing));
    }

    #[test]
    fn a_wall_stays_until_a_person_tries_again() {
        let walled = State::Walled { cause: login() };
        let opening = State::Opening { attempt: 2 };
        check(opening, Event::OpenFailed(login()), (walled.clone(), Act::Nothing));
        check(walled.clone(), Event::Wanted, (walled.clone(), Act::Nothing));
        check(walled, Event::Reconnect, (State::Opening { attempt: 1 }, Act::Open));
    }

    #[test]
    fn a_use_ends_a_pause_and_gives_a_failed_connection_one_more_chance() {
        check(resting(2), Event::Wanted, (State::Opening { attempt: 3 }, Act::Open));
        let failed = State::Failed { cause: passing() };
        let chance = State::Opening { attempt: MOST_ATTEMPTS };
        check(failed.clone(), Event::Wanted, (chance.clone(), Act::Open));
        check(chance, Event::OpenFailed(passing()), (failed, Act::Nothing));
    }

    #[test]
    fn whoever_tries_only_once_fails_at_once() {
        let opening = State::Opening { attempt: 1 };
        let (state, act) = opening.on(Event::OpenFailed(passing()), Persistence::Once);
        assert_eq!((state, act), (State::Failed { cause: passing() }, Act::Nothing));
    }

    #[test]
    fn a_person_can_have_it_made_anew_at_any_time() {
        let opening = || State::Opening { attempt: 1 };
        check(open(4), Event::Reconnect, (opening(), Act::HangUpAndOpen));
        check(resting(4), Event::Reconnect, (opening(), Act::Open));
        check(State::Failed { cause: lasting() }, Event::Reconnect, (opening(), Act::Open));
        check(opening(), Event::Reconnect, (opening(), Act::Nothing));
        check(State::Over, Event::Reconnect, (State::Over, Act::Nothing));
    }

    #[test]
    fn what_comes_too_late_changes_nothing() {
        for event in [Event::Rested, Event::OpenFailed(passing()), Event::Opened, Event::Start] {
            check(open(1), event, (open(1), Act::Nothing));
        }
        check(State::Over, Event::Opened, (State::Over, Act::HangUp));
        check(resting(1), lost(1), (resting(1), Act::Nothing));
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Start),
            Just(Event::Opened),
            Just(Event::OpenFailed(passing())),
            Just(Event::OpenFailed(lasting())),
            Just(Event::OpenFailed(login())),
            (0..60u64).prop_map(lost),
            Just(Event::Rested),
            Just(Event::Wanted),
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
                state = state.on(event.clone(), PATIENT).0;
                if let State::Opening { attempt } | State::Open { attempt } = state {
                    prop_assert!((1..=MOST_ATTEMPTS).contains(&attempt));
                }
            }
            let (mut state, _) = state.on(Event::Stop, PATIENT);
            for event in events {
                state = state.on(event, PATIENT).0;
                prop_assert_eq!(&state, &State::Over);
            }
        }
    }
}
