//! The kinds of faults, what each may excuse, and the plan of a run: which fault comes when and hits whom. Pure.

use std::fmt;
use std::time::Duration;

use crate::random::SeededRandom;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A server's program is killed.
    KillProgram,
    /// A server's program is stopped for a while.
    StopProgram,
    /// A server on the other side of the link is killed, and is away for a while.
    KillRemote,
    /// A server on the other side of the link is stopped for a while.
    StopRemote,
    /// The other end of the link is down: nothing comes back, and nobody says why.
    SilentLink,
    /// Our end of the link is down: the system says at once that there is no way.
    NoLink,
    /// Everything on the link comes late and little by little.
    SlowLink,
    /// There is no room left for state, logs and records.
    FullDisk,
    /// The clock jumps ahead, and back to the truth.
    ClockAhead,
    /// The clock jumps back, and ahead to the truth.
    ClockBack,
    /// A server is added to the configuration, and later taken out.
    NewServer,
    /// A server's entry changes.
    ChangedServer,
    /// The configuration cannot be read for a while.
    BrokenFile,
    /// Every token that was given out is worthless from now on.
    DeadTokens,
    /// The same, and nobody gives out new ones for a while.
    NoTokens,
}

/// Those that hit programs that `swb` starts.
pub const PROGRAM_FAULTS: [FaultKind; 2] = [FaultKind::KillProgram, FaultKind::StopProgram];
/// Those that hit what is around.
pub const ENVIRONMENT_FAULTS: [FaultKind; 13] = [
    FaultKind::KillRemote,
    FaultKind::StopRemote,
    FaultKind::SilentLink,
    FaultKind::NoLink,
    FaultKind::SlowLink,
    FaultKind::FullDisk,
    FaultKind::ClockAhead,
    FaultKind::ClockBack,
    FaultKind::NewServer,
    FaultKind::ChangedServer,
    FaultKind::BrokenFile,
    FaultKind::DeadTokens,
    FaultKind::NoTokens,
];

/// May calls to whoever is hit fail?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailures {
    /// Yes, as long as they say why.
    Allowed,
    /// No: they may take longer, and that is all.
    NotAllowed,
}

impl FaultKind {
    /// May calls to whoever is hit fail?
    pub fn call_failures(self) -> CallFailures {
        match self {
            FaultKind::KillProgram
            | FaultKind::KillRemote
            | FaultKind::SilentLink
            | FaultKind::NoLink
            | FaultKind::NewServer
            | FaultKind::ChangedServer
            | FaultKind::NoTokens => CallFailures::Allowed,
            FaultKind::StopProgram
            | FaultKind::StopRemote
            | FaultKind::SlowLink
            | FaultKind::FullDisk
            | FaultKind::ClockAhead
            | FaultKind::ClockBack
            | FaultKind::BrokenFile
            | FaultKind::DeadTokens => CallFailures::NotAllowed,
        }
    }

    /// How long it lasts, from the shortest to the longest, in milliseconds. None where it is done as soon as it is begun.
    fn duration_range(self) -> Option<(u64, u64)> {
        match self {
            FaultKind::KillProgram
            | FaultKind::ChangedServer
            | FaultKind::DeadTokens
            | FaultKind::NewServer => None,
            FaultKind::StopProgram | FaultKind::StopRemote => Some((1_000, 3_000)),
            FaultKind::KillRemote | FaultKind::SilentLink | FaultKind::NoLink => {
                Some((1_500, 4_500))
            }
            FaultKind::SlowLink | FaultKind::BrokenFile | FaultKind::NoTokens => {
                Some((1_500, 3_000))
            }
            FaultKind::FullDisk => Some((2_000, 4_000)),
            // The clock is read from a file at most once a second.
            FaultKind::ClockAhead | FaultKind::ClockBack => Some((3_000, 5_000)),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            FaultKind::KillProgram => "kill a program",
            FaultKind::StopProgram => "stop a program, go on",
            FaultKind::KillRemote => "kill a remote server",
            FaultKind::StopRemote => "stop a remote server, go on",
            FaultKind::SilentLink => "cut the link, silence",
            FaultKind::NoLink => "cut the link, no way",
            FaultKind::SlowLink => "slow link",
            FaultKind::FullDisk => "disk full",
            FaultKind::ClockAhead => "clock ahead and back",
            FaultKind::ClockBack => "clock back and ahead",
            FaultKind::NewServer => "add a server, remove it",
            FaultKind::ChangedServer => "change a server",
            FaultKind::BrokenFile => "break the settings",
            FaultKind::DeadTokens => "tokens die",
            FaultKind::NoTokens => "tokens die, issuer down",
        })
    }
}

/// One fault as it is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// A number that chooses whom it hits.
    pub target: u64,
    /// How long it lasts.
    pub duration: Duration,
    /// How long nothing happens before it.
    pub pause: Duration,
}

/// Faults of one lane, one after the other, without an end: every kind once before any comes again.
#[derive(Debug)]
pub struct FaultPlan {
    kinds: Vec<FaultKind>,
    dice: SeededRandom,
    left: Vec<FaultKind>,
}

impl FaultPlan {
    /// A plan of these kinds.
    pub fn new(kinds: &[FaultKind], dice: SeededRandom) -> FaultPlan {
        FaultPlan { kinds: kinds.to_vec(), dice, left: Vec::new() }
    }

    /// What comes next.
    pub fn next(&mut self) -> PlannedFault {
        if self.left.is_empty() {
            self.left = self.kinds.clone();
            self.dice.shuffle(&mut self.left);
        }
        let kind = self.left.pop().unwrap_or(self.kinds[0]);
        let lasts = kind.duration_range().map_or(0, |(from, to)| from + self.dice.below(to - from));
        PlannedFault {
            kind,
            target: self.dice.next(),
            duration: Duration::from_millis(lasts),
            pause: Duration::from_millis(300 + self.dice.below(900)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_once_before_any_comes_again() {
        let mut plan = FaultPlan::new(&ENVIRONMENT_FAULTS, SeededRandom::new(3, 1));
        for _ in 0..3 {
            let mut round: Vec<FaultKind> =
                ENVIRONMENT_FAULTS.iter().map(|_| plan.next().kind).collect();
            round.sort_unstable();
            let mut all = ENVIRONMENT_FAULTS.to_vec();
            all.sort_unstable();
            assert_eq!(round, all);
        }
    }

    #[test]
    fn a_seed_gives_the_same_plan_again() {
        let plan = |seed| {
            let mut plan = FaultPlan::new(&ENVIRONMENT_FAULTS, SeededRandom::new(seed, 1));
            (0..30).map(|_| plan.next()).collect::<Vec<_>>()
        };
        assert_eq!(plan(5), plan(5));
        assert_ne!(plan(5), plan(6));
    }
}
