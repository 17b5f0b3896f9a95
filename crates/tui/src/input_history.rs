//! The history of sent inputs, for the arrow keys and the search. One file per project, readable by its owner only.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use switchboard::config::entry::server::sha256;
use switchboard::sources::Paths;

/// The maximum number of entries.
const MAX_ENTRIES: usize = 1000;
/// The largest entry, in bytes.
const MAX_ENTRY_BYTES: usize = 64 * 1024;
/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The input history of a project.
#[derive(Debug, Default)]
pub struct InputHistory {
    file: Option<PathBuf>,
    entries: Vec<String>,
    /// The entry the arrow keys are at, and the draft to return to.
    position: Option<(usize, String)>,
}

impl InputHistory {
    /// Reads the history of the project at `root`. A file that cannot be read counts as empty.
    pub fn for_project(paths: &Paths, root: &Path) -> InputHistory {
        let key = &sha256(root.as_os_str().as_encoded_bytes())[..32];
        let file = paths.state.join("input-history").join(format!("{key}.jsonl"));
        let entries = read(&file);
        InputHistory { file: Some(file), entries, position: None }
    }

    /// Adds an entry and writes it to the file.
    pub fn add(&mut self, text: &str) -> io::Result<()> {
        self.position = None;
        let is_storable = !text.trim().is_empty() && text.len() <= MAX_ENTRY_BYTES;
        if !is_storable || self.entries.last().is_some_and(|it| it == text) {
            return Ok(());
        }
        self.entries.push(text.to_owned());
        let Some(file) = &self.file else { return Ok(()) };
        if self.entries.len() > MAX_ENTRIES {
            // Removes a quarter at once, so that the file is not rewritten with every entry.
            self.entries.drain(..MAX_ENTRIES / 4);
            return write(file, &self.entries);
        }
        append(file, text)
    }

    /// The previous entry. `draft` is kept to return to.
    pub fn previous_entry(&mut self, draft: &str) -> Option<&str> {
        let (at, draft) = match self.position.take() {
            Some((at, draft)) => (at.saturating_sub(1), draft),
            None => (self.entries.len().checked_sub(1)?, draft.to_owned()),
        };
        self.position = Some((at, draft));
        self.entries.get(at).map(String::as_str)
    }

    /// The next entry; after the last one, the draft.
    pub fn next_entry(&mut self) -> Option<String> {
        let (at, draft) = self.position.take()?;
        match self.entries.get(at + 1) {
            Some(entry) => {
                self.position = Some((at + 1, draft));
                Some(entry.clone())
            }
            None => Some(draft),
        }
    }

    /// Is the user browsing the history?
    pub fn is_browsing(&self) -> bool {
        self.position.is_some()
    }

    /// Returns to the end of the history.
    pub fn stop_browsing(&mut self) {
        self.position = None;
    }

    /// The latest entry that contains a text, ignoring case, after skipping `skip` later matches.
    pub fn search(&self, text: &str, skip: usize) -> Option<&str> {
        if text.is_empty() {
            return None;
        }
        let needle = text.to_lowercase();
        let mut seen: Vec<&str> = Vec::new();
        for entry in self.entries.iter().rev() {
            if entry.to_lowercase().contains(&needle) && !seen.contains(&entry.as_str()) {
                seen.push(entry);
                if seen.len() > skip {
                    return Some(entry);
                }
            }
        }
        None
    }
}

fn read(file: &Path) -> Vec<String> {
    let is_small = fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() <= MAX_FILE_BYTES);
    if !is_small {
        return Vec::new();
    }
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut entries: Vec<String> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    entries.drain(..entries.len().saturating_sub(MAX_ENTRIES));
    entries
}

fn json_line(text: &str) -> String {
    format!("{}\n", serde_json::Value::from(text))
}

fn append(file: &Path, text: &str) -> io::Result<()> {
    create_folder(file)?;
    open_options().append(true).open(file)?.write_all(json_line(text).as_bytes())
}

fn write(file: &Path, entries: &[String]) -> io::Result<()> {
    create_folder(file)?;
    let draft = file.with_extension("draft");
    let text: String = entries.iter().map(|it| json_line(it)).collect();
    open_options().write(true).truncate(true).open(&draft)?.write_all(text.as_bytes())?;
    fs::rename(draft, file)
}

fn create_folder(file: &Path) -> io::Result<()> {
    let Some(folder) = file.parent() else { return Ok(()) };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(folder: &Path) -> InputHistory {
        InputHistory::for_project(&Paths::in_dir(folder), Path::new("/project"))
    }

    #[test]
    fn arrows_walk_back_and_return_to_the_draft() {
        let mut history = InputHistory::default();
        history.add("one").expect("kept nowhere");
        history.add("two").expect("kept nowhere");
        assert_eq!(history.previous_entry("draft"), Some("two"));
        assert_eq!(history.previous_entry("two"), Some("one"));
        assert_eq!(history.previous_entry("one"), Some("one"));
        assert_eq!(history.next_entry().as_deref(), Some("two"));
        assert_eq!(history.next_entry().as_deref(), Some("draft"));
        assert_eq!(history.next_entry(), None);
    }

    #[test]
    fn it_is_kept_for_its_owner_and_bounded() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let mut kept = history(folder.path());
        for number in 0..=MAX_ENTRIES {
            kept.add(&format!("line {number}\nmore")).expect("it can be written");
        }
        let again = history(folder.path());
        assert!(again.entries.len() <= MAX_ENTRIES, "{}", again.entries.len());
        assert_eq!(again.entries.last().map(String::as_str), Some("line 1000\nmore"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let file = again.file.expect("it has a file");
            let mode = fs::metadata(file).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn the_same_twice_is_once_and_another_project_has_another() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let mut kept = history(folder.path());
        kept.add("same").expect("it can be written");
        kept.add("same").expect("it can be written");
        assert_eq!(history(folder.path()).entries, ["same"]);
        let other = InputHistory::for_project(&Paths::in_dir(folder.path()), Path::new("/other"));
        assert!(other.entries.is_empty());
    }

    #[test]
    fn searching_finds_the_latest_first() {
        let mut history = InputHistory::default();
        for text in ["call A", "read b", "call C"] {
            history.add(text).expect("kept nowhere");
        }
        assert_eq!(history.search("CALL", 0), Some("call C"));
        assert_eq!(history.search("call", 1), Some("call A"));
        assert_eq!(history.search("call", 2), None);
        assert_eq!(history.search("", 0), None);
    }
}
