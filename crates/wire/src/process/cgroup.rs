//! A cgroup (version 2) for each program: descendants do not leave it by a new session, a new environment or the exit
//! of their parents, and the system kills all of them in one step. Only where this process may create cgroups.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};

use super::process_table::{children, pid_namespace};

/// The first part of the names of our cgroups; the mark of the program follows.
const NAME_PREFIX: &str = "switchboard-";

/// How many programs may wait to be moved. More get no cgroup.
const MAX_QUEUED: usize = 1024;

/// How long the members may take to die.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Whether programs get a cgroup of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupUse {
    /// Where this process may create cgroups.
    #[default]
    WherePossible,
    /// Never. Descendants are found by their links and marks only.
    Never,
}

impl CgroupUse {
    /// Whether programs that are started with this value get a cgroup.
    pub fn is_effective(self) -> bool {
        match self {
            CgroupUse::WherePossible => writable_parent().is_some(),
            CgroupUse::Never => false,
        }
    }
}

/// The cgroup of a program. Dropping it leaves its members alone.
#[derive(Debug)]
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Creates a cgroup for the program with this mark; `None` where that is not possible.
    pub(super) fn create(mark: &str, cgroup_use: CgroupUse) -> Option<Cgroup> {
        match cgroup_use {
            CgroupUse::WherePossible => {}
            CgroupUse::Never => return None,
        }
        let path = writable_parent()?.join(cgroup_name(mark));
        fs::create_dir(&path).ok()?;
        Some(Cgroup { path })
    }

    /// Moves a program and its descendants in, soon: the system takes milliseconds for a move, so one thread does all
    /// of them. A descendant that lost its parent before that stays outside.
    pub(super) fn add(&self, program: u32) {
        static QUEUE: OnceLock<mpsc::SyncSender<(PathBuf, u32)>> = OnceLock::new();
        let queue = QUEUE.get_or_init(|| {
            let (sender, programs) = mpsc::sync_channel::<(PathBuf, u32)>(MAX_QUEUED);
            // It ends with this process; what it does has no effect afterwards.
            let work = move || programs.iter().for_each(|(path, program)| move_in(&path, program));
            let _no_thread = thread::Builder::new().name("cgroups".to_owned()).spawn(work);
            sender
        });
        let _too_many = queue.try_send((self.path.clone(), program));
    }

    /// Tells the system to kill all members. Does not wait until they are gone.
    pub(super) fn kill(&self) {
        let _gone = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Kills all members, waits until they are gone, and removes the cgroup. Blocks.
    pub(super) fn kill_and_remove(self) {
        self.kill();
        let began = Instant::now();
        while !self.is_empty() && began.elapsed() < EMPTY_TIMEOUT {
            thread::sleep(POLL_INTERVAL);
        }
        remove(&self.path);
    }

    /// Removes a cgroup that was never used.
    pub(super) fn remove(self) {
        remove(&self.path);
    }

    fn is_empty(&self) -> bool {
        let events = fs::read_to_string(self.path.join("cgroup.events"));
        events.map_or(true, |text| !text.lines().any(|line| line == "populated 1"))
    }

    /// Whether all members are in our PID namespace. One of an outer namespace is listed as 0, and has no entry in the
    /// process table; one of an inner namespace has an owner whose process id is not valid here.
    fn has_only_members_of_our_namespace(&self) -> bool {
        let members = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        let here = pid_namespace("self");
        here.is_some() && members.lines().all(|pid| pid_namespace(pid) == here)
    }
}

/// Moves a program and its descendants into a cgroup. Blocks.
fn move_in(path: &Path, program: u32) {
    let procs = path.join("cgroup.procs");
    let mut moved = BTreeSet::new();
    let mut members = vec![program];
    // Children are read after the move: later ones start inside.
    while let Some(pid) = members.pop() {
        let _gone_or_refused = fs::write(&procs, pid.to_string());
        moved.insert(pid);
        members.extend(children(pid).into_iter().filter(|child| !moved.contains(child)));
    }
}

/// Kills what is in the cgroups of the programs whose mark is chosen, and removes them. Blocks.
pub(super) fn kill_in_cgroups(is_chosen: impl Fn(&str) -> bool) {
    let Some(entries) = writable_parent().and_then(|parent| fs::read_dir(parent).ok()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(mark) = name.to_str().and_then(parse_name) else { continue };
        let cgroup = Cgroup { path: entry.path() };
        if is_chosen(&mark) && cgroup.has_only_members_of_our_namespace() {
            cgroup.kill_and_remove();
        }
    }
}

fn cgroup_name(mark: &str) -> String {
    format!("{NAME_PREFIX}{}", mark.replace('/', "-"))
}

/// The mark of the program that a cgroup was created for.
fn parse_name(name: &str) -> Option<String> {
    Some(name.strip_prefix(NAME_PREFIX)?.replace('-', "/"))
}

/// Removes a cgroup and those that a program created below it. A cgroup with members stays.
fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _has_members = fs::remove_dir(path);
}

/// The cgroup of this process, if it may create others below it and move processes from it.
fn writable_parent() -> Option<&'static Path> {
    static PARENT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let path = own_cgroup(&cgroups, &mounts)?;
        let is_writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
        // Without `cgroup.kill` (Linux 5.14) a cgroup cannot be killed in one step.
        let can_use = is_writable(&path) && is_writable(&path.join("cgroup.procs"));
        (can_use && has_kill_file(&path)).then_some(path)
    };
    PARENT.get_or_init(find).as_deref()
}

/// Whether the system can kill a cgroup. The root cgroup has no such file, but its children have.
fn has_kill_file(path: &Path) -> bool {
    if path.join("cgroup.kill").exists() {
        return true;
    }
    let probe = path.join(format!("{NAME_PREFIX}probe-{}", std::process::id()));
    let has_file = fs::create_dir(&probe).is_ok() && probe.join("cgroup.kill").exists();
    remove(&probe);
    has_file
}

/// The directory of this process's cgroup, from the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn own_cgroup(cgroups: &str, mounts: &str) -> Option<PathBuf> {
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, mount_point) = (fields.next()?, fields.next()?);
        let below = Path::new(own).strip_prefix(root).ok()?;
        Some(Path::new(mount_point).join(below))
    })
}

/// Puts a process into the cgroup of a mark, where cgroups are writable.
#[cfg(test)]
pub(super) fn put_into_cgroup(mark: &str, pid: u32) {
    if let Some(parent) = writable_parent() {
        let path = parent.join(cgroup_name(mark));
        fs::create_dir(&path).expect("it is writable");
        fs::write(path.join("cgroup.procs"), pid.to_string()).expect("it can be moved");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cgroups: &str, mounts: &str, expected: Option<&str>) {
        assert_eq!(own_cgroup(cgroups, mounts).as_deref(), expected.map(Path::new));
    }

    #[test]
    fn the_own_cgroup_is_below_the_mount_of_version_2() {
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        check("0::/user.slice/a.scope\n", unified, Some("/sys/fs/cgroup/user.slice/a.scope"));
        let hybrid = "31 30 0:9 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        check("4:cpu:/x\n0::/\n", hybrid, Some("/sys/fs/cgroup/unified/"));
        let container = "30 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        check("0::/docker/1/a\n", container, Some("/sys/fs/cgroup/a"));
        check("0::/elsewhere\n", container, None);
        check("4:cpu:/x\n", unified, None);
    }

    #[test]
    fn the_name_of_a_cgroup_holds_the_mark() {
        assert_eq!(cgroup_name("12.99/3/4"), "switchboard-12.99-3-4");
        assert_eq!(parse_name("switchboard-12.99-3-4").as_deref(), Some("12.99/3/4"));
        assert_eq!(parse_name("user.slice"), None);
    }
}
