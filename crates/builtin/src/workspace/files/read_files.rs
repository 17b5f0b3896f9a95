//! The fingerprints of the files that a client has read, to detect changes by others. A hundred most recently
//! used files are remembered.

use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use sha2::{Digest, Sha256};

/// How many files are remembered.
pub(crate) const MAX_FILES: usize = 100;

/// The fingerprint of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    modified: (i64, i64),
    size: u64,
    hash: [u8; 32],
}

impl Fingerprint {
    pub(crate) fn new(status: &Stat, contents: &[u8]) -> Fingerprint {
        Fingerprint {
            modified: modified(status),
            size: u64::try_from(status.st_size).unwrap_or(0),
            hash: Sha256::digest(contents).into(),
        }
    }

    /// Whether the contents are the same. A changed modification time alone does not matter.
    pub(crate) fn has_same_contents(&self, other: &Fingerprint) -> bool {
        self == other || (self.size, self.hash) == (other.size, other.hash)
    }
}

/// The modification time in seconds and nanoseconds.
#[expect(clippy::unnecessary_cast, reason = "the types differ from system to system")]
pub(crate) fn modified(status: &Stat) -> (i64, i64) {
    (status.st_mtime as i64, status.st_mtime_nsec as i64)
}

/// The files that were read, most recently used last.
#[derive(Debug, Default)]
pub(crate) struct ReadFiles(Vec<(PathBuf, Fingerprint)>);

impl ReadFiles {
    /// Remembers a file and evicts the least recently used one.
    pub(crate) fn insert(&mut self, path: &Path, fingerprint: Fingerprint) {
        self.0.retain(|(known, _)| known != path);
        if self.0.len() >= MAX_FILES {
            self.0.remove(0);
        }
        self.0.push((path.to_owned(), fingerprint));
    }

    /// The fingerprint of a file, which then counts as used.
    pub(crate) fn touch(&mut self, path: &Path) -> Option<Fingerprint> {
        let at = self.0.iter().position(|(known, _)| known == path)?;
        let found = self.0.remove(at);
        let fingerprint = found.1.clone();
        self.0.push(found);
        Some(fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(hash: u8) -> Fingerprint {
        Fingerprint { modified: (1, 0), size: 3, hash: [hash; 32] }
    }

    #[test]
    fn the_hundred_used_last_are_remembered() {
        let mut known = ReadFiles::default();
        let path = |number: usize| PathBuf::from(format!("/{number}"));
        for number in 0..MAX_FILES {
            known.insert(&path(number), fingerprint(1));
        }
        assert!(known.touch(&path(0)).is_some());
        known.insert(&path(MAX_FILES), fingerprint(1));
        assert!(known.touch(&path(1)).is_none(), "it was used longest ago");
        assert!(known.touch(&path(0)).is_some() && known.touch(&path(MAX_FILES)).is_some());
        assert_eq!(known.0.len(), MAX_FILES);
    }

    #[test]
    fn a_touched_file_is_the_same_and_a_changed_one_is_not() {
        let touched = Fingerprint { modified: (2, 5), ..fingerprint(1) };
        assert!(fingerprint(1).has_same_contents(&touched));
        assert!(
            !fingerprint(1).has_same_contents(&fingerprint(2)),
            "same time and size, other contents"
        );
    }
}
