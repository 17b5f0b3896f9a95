//! The log file: private, appended to, and limited in size by two files that replace each other. Several processes may
//! share it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use switchboard::sources::atomic_file;

/// The largest size of a file. The file before it is kept with `.1` after its name.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// An open log file.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    max_bytes: u64,
}

impl LogFile {
    /// Opens a file for appending, readable by its owner only. Creates it and its folder if needed.
    pub(super) fn open(path: &Path) -> io::Result<LogFile> {
        let file = open_private(path)?;
        Ok(LogFile { path: path.to_owned(), file, max_bytes: MAX_FILE_BYTES })
    }

    /// Appends a line in one write, so that lines of several processes do not mix.
    pub(super) fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let metadata = self.file.metadata()?;
        // Devices and pipes have no size to limit.
        if metadata.is_file()
            && metadata.len() > 0
            && metadata.len() + line.len() as u64 > self.max_bytes
        {
            self.rotate()?;
        }
        self.file.write_all(line)
    }

    /// Starts a new file. The lock keeps two processes from rotating one after the other; without it, a later line
    /// tries again.
    fn rotate(&mut self) -> io::Result<()> {
        if self.file.try_lock().is_err() {
            return Ok(());
        }
        if is_at(&self.file, &self.path)? {
            fs::rename(&self.path, older_path(&self.path))?;
        }
        // Dropping the old file releases the lock.
        self.file = open_private(&self.path)?;
        Ok(())
    }
}

fn open_private(path: &Path) -> io::Result<File> {
    let file = atomic_file::open_append(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(file)
}

fn older_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    PathBuf::from(name)
}

/// Does the path still name this file, or has another process started a new one?
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let current = match fs::metadata(path) {
        Ok(current) => current,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let own = file.metadata()?;
        Ok((own.dev(), own.ino()) == (current.dev(), current.ino()))
    }
    #[cfg(not(unix))]
    {
        let _known_only_on_unix = (file, current);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, max_bytes: u64) -> LogFile {
        LogFile { max_bytes, ..LogFile::open(path).expect("a file") }
    }

    #[test]
    fn two_files_rotate_within_the_limit() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("logs").join("swb.log");
        let mut log = open(&path, 50);
        for number in 0..100 {
            log.write_line(format!("line {number:03}\n").as_bytes()).expect("written");
        }
        let newer = fs::read_to_string(&path).expect("the log");
        let older = fs::read_to_string(older_path(&path)).expect("the older log");
        assert!(newer.ends_with("line 099\n") && newer.len() <= 50, "{newer}");
        assert_eq!(older.len(), 45);
        assert_eq!(fs::read_dir(folder.path().join("logs")).expect("a folder").count(), 2);
    }

    #[test]
    fn a_file_that_another_process_rotated_is_opened_again() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("swb.log");
        let (mut one, mut other) = (open(&path, 10), open(&path, 10));
        one.write_line(b"1234567\n").expect("written");
        one.write_line(b"from one\n").expect("written");
        other.max_bytes = 17;
        other.write_line(b"other\n").expect("written");
        other.write_line(b"other\n").expect("written");
        let text = fs::read_to_string(&path).expect("the log");
        assert_eq!(text, "from one\nother\n");
        let older = fs::read_to_string(older_path(&path)).expect("the older log");
        assert_eq!(older, "1234567\nother\n");
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_it_even_if_it_was_public_before() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("swb.log");
        let mode = || fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
        drop(LogFile::open(&path).expect("a file"));
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        drop(LogFile::open(&path).expect("a file"));
        assert_eq!(mode(), 0o600);
    }
}
