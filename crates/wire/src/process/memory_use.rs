//! The memory use of programs: of the process, its descendants and its process group. Linux only.

use std::collections::{BTreeMap, BTreeSet};

/// A process and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessEntry {
    pid: u32,
    parent_pid: u32,
    process_group: u32,
}

/// The resident bytes of each process tree, by its root process. Blocks briefly.
pub fn resident_bytes(programs: &[u32]) -> BTreeMap<u32, u64> {
    if programs.is_empty() {
        return BTreeMap::new();
    }
    let all = processes();
    let sum = |program: u32| {
        let family = process_tree(&all, program);
        let known: Vec<u64> = family.into_iter().filter_map(process_resident_bytes).collect();
        (!known.is_empty()).then(|| (program, known.iter().sum()))
    };
    programs.iter().copied().filter_map(sum).collect()
}

/// A process, its descendants and its process group.
fn process_tree(all: &[ProcessEntry], program: u32) -> BTreeSet<u32> {
    let mut family = BTreeSet::from([program]);
    family.extend(all.iter().filter(|it| it.process_group == program).map(|it| it.pid));
    loop {
        let before = family.len();
        let children = all.iter().filter(|it| family.contains(&it.parent_pid)).map(|it| it.pid);
        let children: Vec<u32> = children.collect();
        family.extend(children);
        if family.len() == before {
            return family;
        }
    }
}

/// Parses `/proc/…/stat`. The name in it may contain anything, including brackets.
fn parse_stat(text: &str) -> Option<ProcessEntry> {
    let (front, back) = text.rsplit_once(')')?;
    let number = front.split_once(' ')?.0.parse().ok()?;
    let mut fields = back.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(ProcessEntry { pid: number, parent_pid: parent, process_group: group })
}

/// Parses the memory line of `/proc/…/status`.
fn parse_resident_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(target_os = "linux")]
fn processes() -> Vec<ProcessEntry> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let read = |number| std::fs::read_to_string(format!("/proc/{number}/stat")).ok();
    numbers.filter_map(read).filter_map(|text| parse_stat(&text)).collect()
}

#[cfg(target_os = "linux")]
fn process_resident_bytes(number: u32) -> Option<u64> {
    parse_resident_bytes(&std::fs::read_to_string(format!("/proc/{number}/status")).ok()?)
}

#[cfg(not(target_os = "linux"))]
fn processes() -> Vec<ProcessEntry> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
fn process_resident_bytes(_: u32) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_its_descendants() {
        let process = |number, parent, group| ProcessEntry {
            pid: number,
            parent_pid: parent,
            process_group: group,
        };
        let all = [
            process(1, 0, 1),
            process(10, 1, 10),
            process(11, 10, 11),
            process(12, 11, 12),
            // Its parent exited, but it stayed in the group.
            process(13, 1, 10),
            process(20, 1, 20),
        ];
        assert_eq!(process_tree(&all, 10), BTreeSet::from([10, 11, 12, 13]));
        assert_eq!(process_tree(&all, 99), BTreeSet::from([99]));
    }

    #[test]
    fn lines_of_the_system_are_read_whatever_a_program_is_called() {
        let line = "42 (a) b (c)) S 7 42 42 0 -1 4194304";
        assert_eq!(
            parse_stat(line),
            Some(ProcessEntry { pid: 42, parent_pid: 7, process_group: 42 })
        );
        assert_eq!(parse_stat("nonsense"), None);
        assert_eq!(parse_resident_bytes("Name:\ta\nVmRSS:\t    2048 kB\n"), Some(2_097_152));
        assert_eq!(parse_resident_bytes("Name:\ta\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn our_own_memory_is_known() {
        let own = std::process::id();
        assert!(resident_bytes(&[own])[&own] > 0);
    }
}
