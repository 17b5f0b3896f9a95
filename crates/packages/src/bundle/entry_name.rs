//! The names of entries in an archive: which ones are safe on every platform, and which ones collide.

use std::collections::HashSet;

use super::error::{ArchiveError, NameFault};

/// The maximum length of a name in bytes.
const MAX_NAME_LENGTH: usize = 1024;
/// The maximum length of one part of a name, which file systems have.
const MAX_PART_LENGTH: usize = 255;
/// The maximum number of parts of a name.
const MAX_PARTS: usize = 64;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
}

/// Checks a raw name. Returns it without the slash at the end of a folder's name.
pub(crate) fn check_name(raw: &[u8]) -> Result<(&str, EntryKind), NameFault> {
    let name = std::str::from_utf8(raw).map_err(|_| NameFault::NotUtf8)?;
    if name.len() > MAX_NAME_LENGTH {
        return Err(NameFault::TooLong);
    }
    if name.starts_with('/') {
        return Err(NameFault::Absolute);
    }
    if name.contains(|c: char| c == '\\' || c == ':' || c.is_control()) {
        return Err(NameFault::Character);
    }
    let (name, kind) = match name.strip_suffix('/') {
        Some(folder) => (folder, EntryKind::Folder),
        None => (name, EntryKind::File),
    };
    let mut count = 0;
    for part in name.split('/') {
        count += 1;
        match part {
            "" => return Err(NameFault::Empty),
            "." | ".." => return Err(NameFault::Dots),
            part if part.len() > MAX_PART_LENGTH => return Err(NameFault::TooLong),
            _ => {}
        }
    }
    match count > MAX_PARTS {
        true => Err(NameFault::TooLong),
        false => Ok((name, kind)),
    }
}

/// The names so far. Two that differ only in upper and lower case are one file on many systems.
#[derive(Debug, Default)]
pub(crate) struct SeenNames {
    files: HashSet<String>,
    folders: HashSet<String>,
    written_folders: HashSet<String>,
}

impl SeenNames {
    /// How many files and folders are written, also those that are named only in the path of another.
    pub(crate) fn count(&self) -> usize {
        self.files.len() + self.folders.len()
    }

    /// Adds a folder that may be there already.
    pub(crate) fn add_repeated_folder(&mut self, name: &str) -> Result<(), ArchiveError> {
        self.written_folders.remove(&name.to_lowercase());
        self.add(name, EntryKind::Folder)
    }

    /// Adds a name, or fails if it collides with another.
    pub(crate) fn add(&mut self, name: &str, kind: EntryKind) -> Result<(), ArchiveError> {
        let folded = name.to_lowercase();
        let both = || ArchiveError::FileAndFolder { name: name.to_owned() };
        let twice = || ArchiveError::Duplicate { name: name.to_owned() };
        for (end, _) in folded.match_indices('/') {
            if self.files.contains(&folded[..end]) {
                return Err(both());
            }
            self.folders.insert(folded[..end].to_owned());
        }
        match kind {
            EntryKind::File if self.folders.contains(&folded) => Err(both()),
            EntryKind::File => self.files.insert(folded).then_some(()).ok_or_else(twice),
            EntryKind::Folder if self.files.contains(&folded) => Err(both()),
            EntryKind::Folder => {
                self.folders.insert(folded.clone());
                self.written_folders.insert(folded).then_some(()).ok_or_else(twice)
            }
        }
    }
}
