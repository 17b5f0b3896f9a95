//! The effort of a run: all repetitions for reliable figures, or only enough to see that everything works. Chosen
//! once, at the start of the program.

use std::sync::OnceLock;

static CHOSEN: OnceLock<Effort> = OnceLock::new();

/// The effort of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// All repetitions; pages are written.
    Full,
    /// One repetition of a small load; pages are printed and not stored.
    Quick,
}

impl Effort {
    /// Sets the effort for the rest of the run.
    pub fn choose(self) {
        let _said_before = CHOSEN.set(self);
    }

    /// The chosen effort.
    pub fn chosen() -> Effort {
        CHOSEN.get().copied().unwrap_or(Effort::Full)
    }
}

/// The number of repetitions, given that of a full run.
pub fn repetitions(full: usize) -> usize {
    match Effort::chosen() {
        Effort::Full => full,
        Effort::Quick => 1,
    }
}

/// The size of a load, given that of a full run.
pub fn scaled(full: usize) -> usize {
    match Effort::chosen() {
        Effort::Full => full,
        Effort::Quick => full.div_ceil(20),
    }
}
