//! How a program is stopped: the steps, how long each waits, and the result.

use std::process::ExitStatus;
use std::time::Duration;

/// How long a program has to end by itself once its standard input is closed.
pub(super) const CLOSE_GRACE: Duration = Duration::from_millis(80);
/// How long it has after an interrupt.
pub(super) const INTERRUPT_GRACE: Duration = Duration::from_millis(100);
/// How long it has after it was told to terminate.
pub(super) const TERMINATE_GRACE: Duration = Duration::from_millis(400);
/// How long the system may take to end it.
pub(super) const KILL_GRACE: Duration = Duration::from_secs(1);

/// What it took to end a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopStep {
    /// Its standard input was closed.
    CloseStdin,
    /// An interrupt.
    Interrupt,
    /// It was told to terminate.
    Terminate,
    /// It was killed.
    Kill,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit {
    /// What the system says of it; absent where it could not be waited for.
    pub status: Option<ExitStatus>,
    /// What it took.
    pub step: StopStep,
}
