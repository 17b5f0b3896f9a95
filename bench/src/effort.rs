//! How much trouble a run takes: everything that a figure needs to be believed, or only enough to see that it works.
//! Said once, when the program begins.

use std::sync::OnceLock;

static CHOSEN: OnceLock<Effort> = OnceLock::new();

/// How much trouble a run takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// All repetitions; pages are written.
    Full,
    /// One repetition of little; pages are printed and not kept.
    Quick,
}

impl Effort {
    /// Says so, for the rest of the run.
    pub fn choose(self) {
        let _said_before = CHOSEN.set(self);
    }

    /// What was said.
    pub fn chosen() -> Effort {
        CHOSEN.get().copied().unwrap_or(Effort::Full)
    }
}

/// How often something is repeated that is repeated so often where it counts.
pub fn repetitions(full: usize) -> usize {
    match Effort::chosen() {
        Effort::Full => full,
        Effort::Quick => 1,
    }
}

/// How many there are of something of which there are so many where it counts.
pub fn scaled(full: usize) -> usize {
    match Effort::chosen() {
        Effort::Full => full,
        Effort::Quick => full.div_ceil(20),
    }
}
