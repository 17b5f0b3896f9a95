//! The kinds of faults, what each may excuse, and the plan of a run: which fault comes when and hits whom. Pure.

use std::fmt;
use std::time::Duration;

use crate::dice::Dice;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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
pub const OF_PROGRAMS: [Kind; 2] = [Kind::KillProgram, Kind::StopProgram];
/// Those that hit what is around.
pub const OF_SURROUNDINGS: [Kind; 13] = [
    Kind::KillRemote,
    Kind::StopRemote,
    Kind::SilentLink,
    Kind::NoLink,
    Kind::SlowLink,
    Kind::FullDisk,
    Kind::ClockAhead,
    Kind::ClockBack,
    Kind::NewServer,
    Kind::ChangedServer,
    Kind::BrokenFile,
    Kind::DeadTokens,
    Kind::NoTokens,
];

/// May calls to whoever is hit fail?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excuse {
    /// Yes, as long as they say why.
    Failures,
    /// No: they may take longer, and that is all.
    Nothing,
}

impl Kind {
    /// May calls to whoever is hit fail?
    pub fn excuse(self) -> Excuse {
        match self {
            Kind::KillProgram
            | Kind::KillRemote
            | Kind::SilentLink
            | Kind::NoLink
            | Kind::NewServer
            | Kind::ChangedServer
            | Kind::NoTokens => Excuse::Failures,
            Kind::StopProgram
            | Kind::StopRemote
            | Kind::SlowLink
            | Kind::FullDisk
            | Kind::ClockAhead
            | Kind::ClockBack
            | Kind::BrokenFile
            | Kind::DeadTokens => Excuse::Nothing,
        }
    }

    /// How long it lasts, from the shortest to the longest, in milliseconds. None where it is done as soon as it is begun.
    fn lasts(self) -> Option<(u64, u64)> {
        match self {
            Kind::KillProgram | Kind::ChangedServer | Kind::DeadTokens | Kind::NewServer => None,
            Kind::StopProgram | Kind::StopRemote => Some((1_000, 3_000)),
            Kind::KillRemote | Kind::SilentLink | Kind::NoLink => Some((1_500, 4_500)),
            Kind::SlowLink | Kind::BrokenFile | Kind::NoTokens => Some((1_500, 3_000)),
            Kind::FullDisk => Some((2_000, 4_000)),
            // The clock is read from a file at most once a second.
            Kind::ClockAhead | Kind::ClockBack => Some((3_000, 5_000)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::KillProgram => "kill a program",
            Kind::StopProgram => "stop a program, go on",
            Kind::KillRemote => "kill a remote server",
            Kind::StopRemote => "stop a remote server, go on",
            Kind::SilentLink => "cut the link, silence",
            Kind::NoLink => "cut the link, no way",
            Kind::SlowLink => "slow link",
            Kind::FullDisk => "disk full",
            Kind::ClockAhead => "clock ahead and back",
            Kind::ClockBack => "clock back and ahead",
            Kind::NewServer => "add a server, remove it",
            Kind::ChangedServer => "change a server",
            Kind::BrokenFile => "break the settings",
            Kind::DeadTokens => "tokens die",
            Kind::NoTokens => "tokens die, issuer down",
        })
    }
}

/// One fault as it is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What goes wrong.
    pub kind: Kind,
    /// A number that chooses whom it hits.
    pub target: u64,
    /// How long it lasts.
    pub lasts: Duration,
    /// How long nothing happens before it.
    pub pause: Duration,
}

/// Faults of one lane, one after the other, without an end: every kind once before any comes again.
#[derive(Debug)]
pub struct Plan {
    kinds: Vec<Kind>,
    dice: Dice,
    left: Vec<Kind>,
}

impl Plan {
    /// A plan of these kinds.
    pub fn new(kinds: &[Kind], dice: Dice) -> Plan {
        Plan { kinds: kinds.to_vec(), dice, left: Vec::new() }
    }

    /// What comes next.
    pub fn next(&mut self) -> Planned {
        if self.left.is_empty() {
            self.left = self.kinds.clone();
            self.dice.shuffle(&mut self.left);
        }
        let kind = self.left.pop().unwrap_or(self.kinds[0]);
        let lasts = kind.lasts().map_or(0, |(from, to)| from + self.dice.roll(to - from));
        Planned {
            kind,
            target: self.dice.next(),
            lasts: Duration::from_millis(lasts),
            pause: Duration::from_millis(300 + self.dice.roll(900)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_once_before_any_comes_again() {
        let mut plan = Plan::new(&OF_SURROUNDINGS, Dice::new(3, 1));
        for _ in 0..3 {
            let mut round: Vec<Kind> = OF_SURROUNDINGS.iter().map(|_| plan.next().kind).collect();
            round.sort_unstable();
            let mut all = OF_SURROUNDINGS.to_vec();
            all.sort_unstable();
            assert_eq!(round, all);
        }
    }

    #[test]
    fn a_seed_gives_the_same_plan_again() {
        let plan = |seed| {
            let mut plan = Plan::new(&OF_SURROUNDINGS, Dice::new(seed, 1));
            (0..30).map(|_| plan.next()).collect::<Vec<_>>()
        };
        assert_eq!(plan(5), plan(5));
        assert_ne!(plan(5), plan(6));
    }
}
