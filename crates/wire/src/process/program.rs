//! What to start and how: programs, options, and sets of programs that end together.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::mpsc;

use super::descendants::{self, Owner};
use super::watchdog::Watchdog;
use crate::jsonrpc::message::DEFAULT_MAX_MESSAGE_SIZE;

/// Programs and flocks that this process has started so far; each has a number in its mark.
static NEXT_PROGRAM: AtomicU64 = AtomicU64::new(0);

static NEXT_SET: AtomicU64 = AtomicU64::new(0);

/// How programs are kept.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The largest message we take from it.
    pub max_message_size: usize,
    /// Who kills it when we can not.
    pub watchdog: Option<Watchdog>,
    /// Whom it belongs to.
    pub process_set: ProcessSet,
    /// Who else hears what it says on standard error. What finds no room there is passed over.
    pub stderr: Option<mpsc::Sender<Bytes>>,
}

impl Default for ProcessOptions {
    fn default() -> ProcessOptions {
        ProcessOptions {
            max_message_size: DEFAULT_MAX_MESSAGE_SIZE,
            watchdog: None,
            process_set: ProcessSet::new(),
            stderr: None,
        }
    }
}

/// What to start. Arguments and variables do not print: secrets are among them.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// The program, a name to look for or a path.
    pub command: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// All of its environment: nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// The folder it starts in.
    pub cwd: Option<PathBuf>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.command.display())
    }
}

/// A program could not be started.
#[derive(Debug, Error)]
#[error("could not start `{}`", .command.display())]
pub struct StartError {
    /// The program.
    pub command: OsString,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Programs that belong together and end together. Clones are the same flock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSet(u64);

impl ProcessSet {
    /// A flock of its own.
    pub fn new() -> ProcessSet {
        ProcessSet(NEXT_SET.fetch_add(1, Ordering::Relaxed))
    }

    /// Kills everybody whom any program of this flock started, in whatever group. Only for the end, when nothing
    /// of it shall run any more. Blocks while it looks through the process table.
    pub fn kill_descendants(self) -> usize {
        descendants::kill_marked(&Owner::current().set_mark(self.0))
    }

    /// A new mark for a program of this set.
    pub(super) fn next_program_mark(self) -> String {
        Owner::current().program_mark(self.0, NEXT_PROGRAM.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for ProcessSet {
    fn default() -> ProcessSet {
        ProcessSet::new()
    }
}
