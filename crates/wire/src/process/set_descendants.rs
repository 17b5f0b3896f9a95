//! The descendants of all programs in a process set: found once before the programs stop, killed once afterwards.

use super::descendants;
use super::family::{Family, Recipients};
use super::program::ProcessSet;
use super::running_programs;

/// The descendants of the programs in a process set.
#[derive(Debug)]
pub struct SetDescendants {
    process_set: ProcessSet,
    family: Family,
}

impl SetDescendants {
    /// Finds them. To be called before the programs are told to stop: a descendant whose parent exits loses its link
    /// to it. Blocks while it scans the process table.
    pub fn find(process_set: ProcessSet) -> SetDescendants {
        let programs = running_programs::of_set(process_set);
        let family = match programs.is_empty() {
            true => Family::default(),
            false => Family::find(programs),
        };
        SetDescendants { process_set, family }
    }

    /// Kills them, and all processes with a mark of the set. To be called last, when none of the programs shall run
    /// any more. Blocks while it scans the process table.
    pub fn kill(self) {
        if self.family != Family::default() {
            self.family.kill(Recipients::All);
        }
        descendants::kill_marked(&self.process_set.mark());
    }
}
