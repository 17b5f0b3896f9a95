//! The programs to start: commands, options, and sets of programs that end together.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::{mpsc, watch};

use super::cgroup::CgroupUse;
use super::descendants::Owner;
use super::watchdog::Watchdog;
use crate::jsonrpc::message::DEFAULT_MAX_MESSAGE_SIZE;

/// Numbers of the programs and process sets that this process started; they are part of the marks.
static NEXT_PROGRAM: AtomicU64 = AtomicU64::new(0);

static NEXT_SET: AtomicU64 = AtomicU64::new(0);

/// Options for starting programs.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The size limit for a message from the program, in bytes.
    pub max_message_size: usize,
    /// The watchdog that kills the program if this process dies.
    pub watchdog: Option<Watchdog>,
    /// The set that the program belongs to.
    pub process_set: ProcessSet,
    /// Receives a copy of the standard error output. Output is dropped while the channel is full.
    pub stderr: Option<mpsc::Sender<Bytes>>,
    /// Receives the process id of each program that is started.
    pub started: Option<watch::Sender<Option<u32>>>,
    /// Whether the program gets a cgroup of its own.
    pub cgroups: CgroupUse,
}

impl Default for ProcessOptions {
    fn default() -> ProcessOptions {
        ProcessOptions {
            max_message_size: DEFAULT_MAX_MESSAGE_SIZE,
            watchdog: None,
            process_set: ProcessSet::new(),
            stderr: None,
            started: None,
            cgroups: CgroupUse::default(),
        }
    }
}

/// A program to start. Arguments and environment are not printed, because they may contain secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// A path, or a name to look up in `PATH`.
    pub command: OsString,
    /// The arguments.
    pub args: Vec<OsString>,
    /// The complete environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
}

impl Program {
    /// The file name of the program, for logs.
    pub(super) fn name(&self) -> OsString {
        Path::new(&self.command).file_name().unwrap_or_default().to_owned()
    }
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
    /// The error of the system.
    #[source]
    pub source: io::Error,
}

/// Programs that are stopped together. Copies denote the same set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSet(u64);

impl ProcessSet {
    /// An empty set.
    pub fn new() -> ProcessSet {
        ProcessSet(NEXT_SET.fetch_add(1, Ordering::Relaxed))
    }

    /// The mark of all programs in this set.
    pub(super) fn mark(self) -> String {
        Owner::current().set_mark(self.0)
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
