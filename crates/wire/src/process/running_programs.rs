//! The programs of this process that run, by process id: where the search for the descendants of a process set begins.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::program::ProcessSet;

static RUNNING: Mutex<BTreeMap<u32, ProcessSet>> = Mutex::new(BTreeMap::new());

/// Held for one insert, removal or copy.
fn running() -> MutexGuard<'static, BTreeMap<u32, ProcessSet>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn insert(pid: u32, process_set: ProcessSet) {
    running().insert(pid, process_set);
}

pub(super) fn remove(pid: i32) {
    if let Ok(pid) = u32::try_from(pid) {
        running().remove(&pid);
    }
}

/// The programs of a set.
pub(super) fn of_set(process_set: ProcessSet) -> Vec<u32> {
    let running = running();
    running.iter().filter(|(_, set)| **set == process_set).map(|(pid, _)| *pid).collect()
}
