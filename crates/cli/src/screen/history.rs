//! What was sent before, for the arrows and for searching: kept in a file of the project, for its owner only.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use switchboard::config::entry::sha256;
use switchboard::places::Places;

/// How much is remembered.
const MOST: usize = 1000;
/// The longest that is remembered, in bytes.
const LONGEST: usize = 64 * 1024;
/// The largest file that is read.
const LARGEST: u64 = 64 * 1024 * 1024;

/// What was sent before.
#[derive(Debug, Default)]
pub struct History {
    file: Option<PathBuf>,
    entries: Vec<String>,
    /// Where the arrows are, and what was being written when they left it.
    at: Option<(usize, String)>,
}

impl History {
    /// What is kept for a project. A file that cannot be read is no history.
    pub fn of(places: &Places, root: &Path) -> History {
        let key = &sha256(root.as_os_str().as_encoded_bytes())[..32];
        let file = places.state.join("input-history").join(format!("{key}.jsonl"));
        let entries = read(&file);
        History { file: Some(file), entries, at: None }
    }

    /// Adds what was sent. Says why it could not be kept.
    pub fn add(&mut self, text: &str) -> io::Result<()> {
        self.at = None;
        let is_worth_it = !text.trim().is_empty() && text.len() <= LONGEST;
        if !is_worth_it || self.entries.last().is_some_and(|it| it == text) {
            return Ok(());
        }
        self.entries.push(text.to_owned());
        let Some(file) = &self.file else { return Ok(()) };
        if self.entries.len() > MOST {
            // Not with every entry: a quarter goes at once.
            self.entries.drain(..MOST / 4);
            return write(file, &self.entries);
        }
        append(file, text)
    }

    /// The one before; `draft` is what is being written now.
    pub fn before(&mut self, draft: &str) -> Option<&str> {
        let (at, draft) = match self.at.take() {
            Some((at, draft)) => (at.saturating_sub(1), draft),
            None => (self.entries.len().checked_sub(1)?, draft.to_owned()),
        };
        self.at = Some((at, draft));
        self.entries.get(at).map(String::as_str)
    }

    /// The one after; after the last comes what was being written.
    pub fn after(&mut self) -> Option<String> {
        let (at, draft) = self.at.take()?;
        match self.entries.get(at + 1) {
            Some(entry) => {
                self.at = Some((at + 1, draft));
                Some(entry.clone())
            }
            None => Some(draft),
        }
    }

    /// Are the arrows somewhere in it?
    pub fn is_open(&self) -> bool {
        self.at.is_some()
    }

    /// The arrows begin at the end again.
    pub fn close(&mut self) {
        self.at = None;
    }

    /// The latest one that holds a text, with `skip` later ones passed over.
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
    let is_small = fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() <= LARGEST);
    if !is_small {
        return Vec::new();
    }
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut entries: Vec<String> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    entries.drain(..entries.len().saturating_sub(MOST));
    entries
}

fn line(text: &str) -> String {
    format!("{}\n", serde_json::Value::from(text))
}

fn append(file: &Path, text: &str) -> io::Result<()> {
    make_folder(file)?;
    options().append(true).open(file)?.write_all(line(text).as_bytes())
}

fn write(file: &Path, entries: &[String]) -> io::Result<()> {
    make_folder(file)?;
    let draft = file.with_extension("draft");
    let text: String = entries.iter().map(|it| line(it)).collect();
    options().write(true).truncate(true).open(&draft)?.write_all(text.as_bytes())?;
    fs::rename(draft, file)
}

fn make_folder(file: &Path) -> io::Result<()> {
    let Some(folder) = file.parent() else { return Ok(()) };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(folder: &Path) -> History {
        History::of(&Places::below(folder), Path::new("/project"))
    }

    #[test]
    fn arrows_walk_back_and_return_to_the_draft() {
        let mut history = History::default();
        history.add("one").expect("kept nowhere");
        history.add("two").expect("kept nowhere");
        assert_eq!(history.before("draft"), Some("two"));
        assert_eq!(history.before("two"), Some("one"));
        assert_eq!(history.before("one"), Some("one"));
        assert_eq!(history.after().as_deref(), Some("two"));
        assert_eq!(history.after().as_deref(), Some("draft"));
        assert_eq!(history.after(), None);
    }

    #[test]
    fn it_is_kept_for_its_owner_and_bounded() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let mut kept = history(folder.path());
        for number in 0..=MOST {
            kept.add(&format!("line {number}\nmore")).expect("it can be written");
        }
        let again = history(folder.path());
        assert!(again.entries.len() <= MOST, "{}", again.entries.len());
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
        let other = History::of(&Places::below(folder.path()), Path::new("/other"));
        assert!(other.entries.is_empty());
    }

    #[test]
    fn searching_finds_the_latest_first() {
        let mut history = History::default();
        for text in ["call A", "read b", "call C"] {
            history.add(text).expect("kept nowhere");
        }
        assert_eq!(history.search("CALL", 0), Some("call C"));
        assert_eq!(history.search("call", 1), Some("call A"));
        assert_eq!(history.search("call", 2), None);
        assert_eq!(history.search("", 0), None);
    }
}
