//! Reads configuration files with a size limit, never blocks on a pipe, and classifies every failure.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use switchboard_config::problem::ReadFailure;

/// The maximum size of a configuration file.
pub const MAX_FILE_BYTES: u64 = 16_000_000;

/// The content at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    /// No file exists.
    Absent,
    /// The text of the file.
    Text(String),
}

/// Which kinds of files may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedFiles {
    /// Only regular files: a pipe in a project would block forever.
    RegularOnly,
    /// Also pipes, because the user named the file, for example with a shell's `<(…)`.
    PipesToo,
}

/// Reads a file as text. A missing file is no error.
pub fn read_text(path: &Path, allowed: AllowedFiles) -> Result<FileContent, ReadFailure> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) && path.symlink_metadata().is_err() => {
            return Ok(FileContent::Absent);
        }
        Err(error) => return Err(unreadable(&error)),
    };
    check_kind(&metadata, allowed)?;
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    let expected_bytes = usize::try_from(metadata.len()).unwrap_or(0);
    let mut bytes = Vec::with_capacity(expected_bytes + 1);
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ReadFailure::TooLarge { limit: MAX_FILE_BYTES });
    }
    String::from_utf8(bytes).map(FileContent::Text).map_err(|_| ReadFailure::NotUtf8)
}

fn check_kind(metadata: &Metadata, allowed: AllowedFiles) -> Result<(), ReadFailure> {
    if metadata.is_dir() {
        return Err(ReadFailure::IsDirectory);
    }
    let is_allowed = match allowed {
        AllowedFiles::RegularOnly => metadata.is_file(),
        AllowedFiles::PipesToo => metadata.is_file() || is_pipe(metadata),
    };
    if !is_allowed {
        return Err(ReadFailure::NotRegularFile);
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(ReadFailure::TooLarge { limit: MAX_FILE_BYTES });
    }
    Ok(())
}

#[cfg(unix)]
fn is_pipe(metadata: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Classifies an I/O error. A dangling link counts as an error, not as an absent file.
#[expect(clippy::wildcard_enum_match_arm, reason = "`io::ErrorKind` is non-exhaustive")]
pub fn unreadable(error: &io::Error) -> ReadFailure {
    if is_link_loop(error) {
        return ReadFailure::SymlinkLoop;
    }
    match error.kind() {
        io::ErrorKind::NotFound => ReadFailure::NotFound,
        io::ErrorKind::PermissionDenied => ReadFailure::PermissionDenied,
        io::ErrorKind::IsADirectory => ReadFailure::IsDirectory,
        other => ReadFailure::Other(other),
    }
}

#[cfg(unix)]
fn is_link_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(unix))]
fn is_link_loop(_: &io::Error) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_kind_of_unreadable_file_has_its_own_error() {
        let home = tempfile::tempdir().expect("a temp folder");
        let at = |name: &str| home.path().join(name);
        let read = |name: &str| read_text(&at(name), AllowedFiles::RegularOnly);
        assert_eq!(read("nothing"), Ok(FileContent::Absent));
        assert_eq!(read("nothing/below"), Ok(FileContent::Absent));
        assert_eq!(read("."), Err(ReadFailure::IsDirectory));
        symlink(at("loop"), at("loop")).expect("a link");
        assert_eq!(read("loop"), Err(ReadFailure::SymlinkLoop));
        symlink(at("nothing"), at("dangling")).expect("a link");
        assert_eq!(read("dangling"), Err(ReadFailure::NotFound));
        std::fs::write(at("latin1"), b"\xe9t\xe9").expect("a file");
        assert_eq!(read("latin1"), Err(ReadFailure::NotUtf8));
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).expect("a pipe");
        assert_eq!(read("pipe"), Err(ReadFailure::NotRegularFile));
        assert_eq!(
            read_text(Path::new("/dev/zero"), AllowedFiles::PipesToo),
            Err(ReadFailure::NotRegularFile)
        );
        File::create(at("huge")).and_then(|file| file.set_len(MAX_FILE_BYTES + 1)).expect("a hole");
        assert_eq!(read("huge"), Err(ReadFailure::TooLarge { limit: MAX_FILE_BYTES }));
        std::fs::write(at("fine"), "é").expect("a file");
        assert_eq!(read("fine"), Ok(FileContent::Text("é".to_owned())));
    }
}
