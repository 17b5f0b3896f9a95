//! What a watchdog knows: the programs of its owner, and the descendants of each that its scans found. Pure.

use std::collections::BTreeMap;

use super::family::Family;
use super::process_table::ProcessEntry;

/// The running programs of an owner, by process id, which is also the id of the process group.
#[derive(Debug, Default)]
pub(super) struct WatchedPrograms(BTreeMap<i32, Option<Family>>);

impl WatchedPrograms {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn programs(&self) -> impl Iterator<Item = i32> + '_ {
        self.0.keys().copied()
    }

    /// Reads a line of the owner: `+ID` for a program that started, `-ID` for one that ended. Returns the known family
    /// of a program that ended.
    pub(super) fn read_line(&mut self, line: &str) -> Option<Family> {
        let program = line.get(1..)?.parse().ok()?;
        match line.as_bytes().first()? {
            b'+' => {
                self.0.insert(program, None);
                None
            }
            b'-' => self.0.remove(&program).flatten(),
            _ => None,
        }
    }

    /// Remembers the descendants of all programs.
    pub(super) fn scan(&mut self, table: &[ProcessEntry]) {
        for (program, family) in &mut self.0 {
            match family {
                Some(family) => {
                    family.extend(table);
                }
                None => *family = Some(Family::collect(u32::try_from(*program).ok(), table)),
            }
        }
    }

    /// All known descendants of all programs.
    pub(super) fn family(&self) -> Family {
        let mut all = Family::default();
        for family in self.0.values().flatten() {
            all.merge(family.clone());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(processes: &[(u32, u32)]) -> Vec<ProcessEntry> {
        let entry = |&(pid, parent): &(u32, u32)| ProcessEntry {
            pid,
            parent,
            group: pid,
            session: pid,
            start_time: u64::from(pid),
        };
        processes.iter().map(entry).collect()
    }

    #[test]
    fn a_descendant_seen_once_is_known_after_its_program_has_exited() {
        let mut watched = WatchedPrograms::default();
        assert_eq!(watched.read_line("+10"), None);
        watched.scan(&table(&[(10, 1), (11, 10)]));
        let orphan = table(&[(11, 1)]);
        watched.scan(&orphan);
        assert_eq!(watched.family(), {
            let mut family = Family::collect([10], &table(&[(10, 1), (11, 10)]));
            family.extend(&orphan);
            family
        });
        assert_ne!(watched.family(), Family::default());
        assert_eq!(watched.programs().collect::<Vec<_>>(), [10]);
    }

    #[test]
    fn a_program_that_ended_returns_its_descendants_and_is_forgotten() {
        let mut watched = WatchedPrograms::default();
        let running = table(&[(10, 1), (11, 10)]);
        watched.read_line("+10");
        watched.scan(&running);
        assert_eq!(watched.read_line("-10"), Some(Family::collect([10], &running)));
        assert!(watched.is_empty());
        assert_eq!(watched.read_line("-10"), None);
    }

    #[test]
    fn a_line_that_makes_no_sense_is_ignored() {
        let mut watched = WatchedPrograms::default();
        for line in ["", "+", "+x", "10", "?10", "é"] {
            assert_eq!(watched.read_line(line), None);
        }
        assert!(watched.is_empty());
    }
}
