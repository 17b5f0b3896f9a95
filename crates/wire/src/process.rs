//! Child processes: servers over stdio, short commands, and the watchdog that kills what this process leaves behind.
//! Which program runs, with which environment and whether at all, is decided by the caller.

pub mod activity;
pub(crate) mod cgroup;
pub mod child;
pub mod command;
pub(crate) mod descendants;
pub(crate) mod family;
pub(crate) mod file_limit;
pub(crate) mod group;
pub mod memory_use;
pub(crate) mod process_table;
pub(crate) mod program;
pub(crate) mod running_programs;
pub(crate) mod set_descendants;
pub(crate) mod stop;
pub(crate) mod supervisor;
pub(crate) mod watchdog;
pub(crate) mod watched_programs;

pub use cgroup::CgroupUse;
pub use child::{DescendantSearch, Process, ProcessTransport, spawn, spawn_with_pipes};
pub use descendants::{OWNER_VARIABLE, kill_orphans};
pub use file_limit::raise_file_limit;
pub use group::ProcessGroupGuard;
pub use program::{ProcessOptions, ProcessSet, Program, StartError};
pub use set_descendants::SetDescendants;
pub use stop::{ProcessExit, StopStep};
pub use supervisor::run_supervisor;
pub use watchdog::{Watchdog, WatchdogProgram, run_watchdog};
