//! The kinds of faults, which failures each excuses, and the plan of a run: the order, times and targets of faults. Pure.

use std::fmt;
use std::time::Duration;

use crate::random::SeededRandom;

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A server's program is killed.
    KillProgram,
    /// A server's program is stopped for a while (SIGSTOP).
    StopProgram,
    /// A remote server is killed, and restarted later.
    KillRemote,
    /// A remote server is stopped for a while (SIGSTOP).
    StopRemote,
    /// The remote end of the link is down: packets are lost without an error.
    SilentLink,
    /// The local end of the link is down: the system reports at once that there is no route.
    NoLink,
    /// The link is slow: data arrives late and in small chunks.
    SlowLink,
    /// The disk for state, logs and audit records is full.
    FullDisk,
    /// The clock jumps ahead, and later back to the actual time.
    ClockAhead,
    /// The clock jumps back, and later ahead to the actual time.
    ClockBack,
    /// A server is added to the configuration, and later removed.
    NewServer,
    /// A server's entry changes.
    ChangedServer,
    /// The configuration is unreadable for a while.
    BrokenFile,
    /// All issued tokens are revoked.
    DeadTokens,
    /// All issued tokens are revoked, and no new ones are issued for a while.
    NoTokens,
    /// The shared host is killed.
    KillHost,
    /// The shared host is stopped for a while (SIGSTOP).
    StopHost,
    /// The disk with the folder of the shared host is full, and a new host has to start on it.
    FullHostDisk,
    /// The shared host ends, and a socket to which no process listens is in its place.
    StaleSocket,
}

/// Faults of programs that `swb` starts.
pub const PROGRAM_FAULTS: [FaultKind; 2] = [FaultKind::KillProgram, FaultKind::StopProgram];
/// Faults of the environment.
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

/// Faults of the shared host.
pub const HOST_FAULTS: [FaultKind; 4] =
    [FaultKind::KillHost, FaultKind::StopHost, FaultKind::FullHostDisk, FaultKind::StaleSocket];

/// Whether calls to affected servers may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailures {
    /// Yes, with a reason.
    Allowed,
    /// No: they may only take longer.
    NotAllowed,
}

impl FaultKind {
    /// Whether calls to affected servers may fail.
    pub fn call_failures(self) -> CallFailures {
        match self {
            FaultKind::KillProgram
            | FaultKind::KillRemote
            | FaultKind::SilentLink
            | FaultKind::NoLink
            | FaultKind::NewServer
            | FaultKind::ChangedServer
            | FaultKind::NoTokens
            | FaultKind::KillHost
            | FaultKind::StaleSocket => CallFailures::Allowed,
            FaultKind::StopProgram
            | FaultKind::StopRemote
            | FaultKind::SlowLink
            | FaultKind::FullDisk
            | FaultKind::ClockAhead
            | FaultKind::ClockBack
            | FaultKind::BrokenFile
            | FaultKind::DeadTokens
            | FaultKind::StopHost
            | FaultKind::FullHostDisk => CallFailures::NotAllowed,
        }
    }

    /// The minimum and maximum duration, in milliseconds. `None` for faults without a duration.
    fn duration_range(self) -> Option<(u64, u64)> {
        match self {
            FaultKind::KillProgram
            | FaultKind::ChangedServer
            | FaultKind::DeadTokens
            | FaultKind::NewServer
            | FaultKind::KillHost
            | FaultKind::StaleSocket => None,
            FaultKind::StopProgram | FaultKind::StopRemote | FaultKind::StopHost => {
                Some((1_000, 3_000))
            }
            FaultKind::KillRemote | FaultKind::SilentLink | FaultKind::NoLink => {
                Some((1_500, 4_500))
            }
            FaultKind::SlowLink | FaultKind::BrokenFile | FaultKind::NoTokens => {
                Some((1_500, 3_000))
            }
            FaultKind::FullDisk | FaultKind::FullHostDisk => Some((2_000, 4_000)),
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
            FaultKind::KillHost => "kill the shared host",
            FaultKind::StopHost => "stop the shared host, go on",
            FaultKind::FullHostDisk => "shared host's disk full",
            FaultKind::StaleSocket => "stale socket, no host",
        })
    }
}

/// A planned fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// A random number that selects the affected server.
    pub target: u64,
    /// Its duration.
    pub duration: Duration,
    /// The pause before it.
    pub pause: Duration,
}

/// An endless sequence of faults: every kind occurs once before any repeats.
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

    /// The next fault.
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
    fn every_fault_kind_occurs_once_before_any_repeats() {
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
    fn a_seed_reproduces_its_plan() {
        let plan = |seed| {
            let mut plan = FaultPlan::new(&ENVIRONMENT_FAULTS, SeededRandom::new(seed, 1));
            (0..30).map(|_| plan.next()).collect::<Vec<_>>()
        };
        assert_eq!(plan(5), plan(5));
        assert_ne!(plan(5), plan(6));
    }
}
