//! Decides which of the found lock files belong to an IDE that may be connected, and which IDE is connected. The decisions
//! are pure; reading is left to `discovery`.

use std::path::Path;

use super::discovery::{FoundLock, IdeScan, IdeSearch, ValidityCheck, scan};
use super::lock_file::{IdeLock, IdePlatform, LockError};

/// What a lock file is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockVerdict {
    /// The IDE can be connected.
    Valid,
    /// The IDE runs, but none of its folders contains the working folder.
    OtherWorkspace,
    /// A newer lock file, with this index in the scan, names the same IDE.
    Duplicate {
        /// The index.
        of: usize,
    },
    /// The IDE has ended: its process is gone, and its port is closed.
    Dead,
    /// Nothing listens at the port.
    NotListening,
    /// It is no lock file.
    Invalid(LockError),
}

/// How an IDE is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdeSelector {
    /// The one with this port.
    Port(u16),
    /// The only valid one.
    OnlyValid,
}

/// The chosen IDE, or why none is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdeChoice<'s> {
    /// This one.
    Chosen(&'s IdeLock),
    /// No IDE runs.
    NoneFound,
    /// IDEs run, but none has the working folder open.
    NoneMatches,
    /// Several have it open.
    Several(Vec<&'s IdeLock>),
    /// No IDE listens at the port.
    NothingAtPort(u16),
}

/// The verdict on each lock file of a scan.
pub fn judge(scan: &IdeScan, check: ValidityCheck) -> Vec<LockVerdict> {
    let newest = |port: u16| {
        let same = scan.locks.iter().enumerate().filter(|(_, it)| port_of(it) == Some(port));
        // Of two that are equally new, the first counts.
        same.max_by_key(|(at, it)| (it.modified, std::cmp::Reverse(*at))).map(|(at, _)| at)
    };
    let verdict = |(at, found): (usize, &FoundLock)| match &found.lock {
        Err(error) => LockVerdict::Invalid(error.clone()),
        Ok(lock) => match newest(lock.port) {
            Some(of) if of != at => LockVerdict::Duplicate { of },
            Some(_) | None => judge_lock(lock, found, &scan.working_folder, check),
        },
    };
    scan.locks.iter().enumerate().map(verdict).collect()
}

fn port_of(found: &FoundLock) -> Option<u16> {
    found.lock.as_ref().ok().map(|it| it.port)
}

fn judge_lock(
    lock: &IdeLock,
    found: &FoundLock,
    working_folder: &Path,
    check: ValidityCheck,
) -> LockVerdict {
    if check == ValidityCheck::Skip {
        return LockVerdict::Valid;
    }
    if !found.is_listening {
        // A process id of Windows says nothing here.
        return match (lock.platform, found.is_process_alive) {
            (IdePlatform::Local, Some(false)) => LockVerdict::Dead,
            (IdePlatform::Local | IdePlatform::Windows, Some(_) | None) => {
                LockVerdict::NotListening
            }
        };
    }
    match found.folders.iter().any(|it| it.contains(working_folder, lock.platform)) {
        true => LockVerdict::Valid,
        false => LockVerdict::OtherWorkspace,
    }
}

/// Chooses an IDE.
pub fn choose<'s>(
    scan: &'s IdeScan,
    verdicts: &[LockVerdict],
    selector: IdeSelector,
) -> IdeChoice<'s> {
    let judged = scan.locks.iter().zip(verdicts);
    let judged = judged.filter_map(|(found, verdict)| Some((found.lock.as_ref().ok()?, verdict)));
    let running: Vec<(&IdeLock, &LockVerdict)> = judged
        .filter(|(_, it)| matches!(it, LockVerdict::Valid | LockVerdict::OtherWorkspace))
        .collect();
    match selector {
        // A terminal of the IDE names the port, so the folder does not matter.
        IdeSelector::Port(port) => match running.iter().find(|(lock, _)| lock.port == port) {
            Some((lock, _)) => IdeChoice::Chosen(lock),
            None => IdeChoice::NothingAtPort(port),
        },
        IdeSelector::OnlyValid => {
            let valid = running.iter().filter(|(_, it)| **it == LockVerdict::Valid);
            let valid: Vec<&IdeLock> = valid.map(|(lock, _)| *lock).collect();
            match (valid.as_slice(), running.is_empty()) {
                ([only], _) => IdeChoice::Chosen(only),
                ([], true) => IdeChoice::NoneFound,
                ([], false) => IdeChoice::NoneMatches,
                ([_, ..], _) => IdeChoice::Several(valid),
            }
        }
    }
}

/// The IDEs that were found, with a verdict on each lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundIdes {
    /// The host where they listen.
    pub host: String,
    /// The lock files.
    pub scan: IdeScan,
    /// The verdicts, in the same order.
    pub verdicts: Vec<LockVerdict>,
}

impl FoundIdes {
    /// Looks for IDEs.
    pub async fn find(search: &IdeSearch) -> FoundIdes {
        let scan = scan(search).await;
        let verdicts = judge(&scan, search.check);
        FoundIdes { host: search.host().to_owned(), scan, verdicts }
    }

    /// Chooses an IDE.
    pub fn choose(&self, selector: IdeSelector) -> IdeChoice<'_> {
        choose(&self.scan, &self.verdicts, selector)
    }

    /// The IDEs that run: first those that have the working folder open, then the others.
    pub fn running(&self) -> Vec<&IdeLock> {
        self.with(&LockVerdict::Valid).chain(self.with(&LockVerdict::OtherWorkspace)).collect()
    }

    /// Whether an IDE has the working folder open.
    pub fn is_match(&self, lock: &IdeLock) -> bool {
        self.with(&LockVerdict::Valid).any(|it| it == lock)
    }

    fn with<'s>(&'s self, wanted: &'s LockVerdict) -> impl Iterator<Item = &'s IdeLock> {
        let judged = self.scan.locks.iter().zip(&self.verdicts);
        let chosen = judged.filter(move |(_, verdict)| *verdict == wanted);
        chosen.filter_map(|(found, _)| found.lock.as_ref().ok())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::ide::path_match::WorkspaceFolder;

    fn found(port: u16, folder: &str) -> FoundLock {
        let text = format!(r#"{{"pid": 1, "workspaceFolders": ["{folder}"], "transport": "ws"}}"#);
        let folders = vec![WorkspaceFolder {
            written: folder.to_owned(),
            resolved: Some(PathBuf::from(folder)),
        }];
        FoundLock {
            path: PathBuf::from(format!("/ide/{port}.lock")),
            lock: IdeLock::parse(port, &text),
            modified: SystemTime::UNIX_EPOCH,
            folders,
            is_process_alive: Some(true),
            is_listening: true,
        }
    }

    fn of_windows(mut found: FoundLock) -> FoundLock {
        if let Ok(lock) = &mut found.lock {
            lock.platform = IdePlatform::Windows;
        }
        found
    }

    fn scan(locks: Vec<FoundLock>) -> IdeScan {
        IdeScan { working_folder: "/w/a".into(), folders: Vec::new(), locks }
    }

    #[track_caller]
    fn check(locks: Vec<FoundLock>, expected: &[LockVerdict]) {
        assert_eq!(judge(&scan(locks), ValidityCheck::Check), expected);
    }

    #[track_caller]
    fn check_choice(locks: Vec<FoundLock>, selector: IdeSelector, expected: &str) {
        let scan = scan(locks);
        let verdicts = judge(&scan, ValidityCheck::Check);
        let text = match choose(&scan, &verdicts, selector) {
            IdeChoice::Chosen(lock) => format!("port {}", lock.port),
            IdeChoice::NoneFound => "none".to_owned(),
            IdeChoice::NoneMatches => "no match".to_owned(),
            IdeChoice::Several(locks) => format!("{} match", locks.len()),
            IdeChoice::NothingAtPort(port) => format!("nothing at {port}"),
        };
        assert_eq!(text, expected);
    }

    #[test]
    fn an_ide_with_the_working_folder_open_is_valid_and_another_one_is_not() {
        check(
            vec![found(1, "/w"), found(2, "/w/a"), found(3, "/x")],
            &[LockVerdict::Valid, LockVerdict::Valid, LockVerdict::OtherWorkspace],
        );
    }

    /// anthropics/claude-code#1411 and #23013.
    #[test]
    fn each_folder_of_a_workspace_with_several_counts() {
        let mut several = found(1, "/x");
        several.folders.extend(found(1, "/w").folders);
        check(vec![several.clone()], &[LockVerdict::Valid]);
        several.folders.pop();
        check(vec![several], &[LockVerdict::OtherWorkspace]);
    }

    #[test]
    fn an_ide_is_dead_only_if_its_process_is_gone_and_its_port_is_closed() {
        let closed = |is_process_alive| FoundLock {
            is_process_alive,
            is_listening: false,
            ..found(1, "/w")
        };
        check(vec![closed(Some(false))], &[LockVerdict::Dead]);
        check(vec![closed(Some(true))], &[LockVerdict::NotListening]);
        check(vec![closed(None)], &[LockVerdict::NotListening]);
        let other_namespace = FoundLock { is_process_alive: Some(false), ..found(1, "/w") };
        check(vec![other_namespace], &[LockVerdict::Valid]);
    }

    /// anthropics/claude-code#72129, #14421 and #1232.
    #[test]
    fn an_ide_on_windows_is_never_called_dead() {
        let closed = FoundLock {
            is_process_alive: Some(false),
            is_listening: false,
            ..of_windows(found(1, "/w"))
        };
        check(vec![closed], &[LockVerdict::NotListening]);
    }

    /// anthropics/claude-code#34715.
    #[test]
    fn the_same_ide_in_two_lock_folders_counts_once() {
        let newer = FoundLock {
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
            ..found(1, "/w")
        };
        let locks = vec![found(1, "/w"), newer];
        check(locks.clone(), &[LockVerdict::Duplicate { of: 1 }, LockVerdict::Valid]);
        check_choice(locks, IdeSelector::OnlyValid, "port 1");
        let same = vec![found(1, "/w"), found(1, "/w")];
        check(same, &[LockVerdict::Valid, LockVerdict::Duplicate { of: 0 }]);
    }

    #[test]
    fn exactly_one_valid_ide_is_chosen_by_itself() {
        check_choice(vec![], IdeSelector::OnlyValid, "none");
        check_choice(vec![found(3, "/x")], IdeSelector::OnlyValid, "no match");
        check_choice(vec![found(1, "/w"), found(3, "/x")], IdeSelector::OnlyValid, "port 1");
        check_choice(vec![found(1, "/w"), found(2, "/w/a")], IdeSelector::OnlyValid, "2 match");
    }

    #[test]
    fn a_port_selects_an_ide_beside_other_valid_ones_and_whatever_its_folder_is() {
        let locks = vec![found(1, "/w"), found(2, "/w/a"), found(3, "/x")];
        check_choice(locks.clone(), IdeSelector::Port(2), "port 2");
        check_choice(locks.clone(), IdeSelector::Port(3), "port 3");
        check_choice(locks, IdeSelector::Port(4), "nothing at 4");
    }

    #[test]
    fn without_the_check_every_lock_is_valid() {
        let closed =
            FoundLock { is_listening: false, is_process_alive: Some(false), ..found(3, "/x") };
        assert_eq!(judge(&scan(vec![closed]), ValidityCheck::Skip), [LockVerdict::Valid]);
    }
}
