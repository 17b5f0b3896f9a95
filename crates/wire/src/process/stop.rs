//! How a program is stopped: the steps, how long each waits, and the result.

use std::process::ExitStatus;
use std::time::Duration;

/// How long a program has to exit after its standard input was closed.
pub(super) const CLOSE_GRACE: Duration = Duration::from_millis(80);
/// How long it has after SIGINT.
pub(super) const INTERRUPT_GRACE: Duration = Duration::from_millis(100);
/// How long it has after SIGTERM.
pub(super) const TERMINATE_GRACE: Duration = Duration::from_millis(400);
/// How long the system may take after SIGKILL.
pub(super) const KILL_GRACE: Duration = Duration::from_secs(1);

/// The step that made a program exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopStep {
    /// Its standard input was closed.
    CloseStdin,
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// How a program was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit {
    /// The exit status; absent if waiting for it failed.
    pub status: Option<ExitStatus>,
    /// The last step that was needed.
    pub step: StopStep,
}
