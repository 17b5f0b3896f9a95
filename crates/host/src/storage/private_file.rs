//! Small files that only their owner can read: created once, or replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Creates a file. An existing one stays as it is.
pub(crate) fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = write_draft(path, content)?;
    // Unlike a rename, a link fails if the file is there by now.
    let linked = fs::hard_link(&draft, path);
    let _always_ours = fs::remove_file(&draft);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Replaces a file, or creates it.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::rename(write_draft(path, content)?, path)
}

/// Fails if other users can read or change a file.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = path.metadata()?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let text = format!(
                "other users can read or change `{}` (mode {mode:03o}); run `chmod 600` on it",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
    }
    Ok(())
}

fn write_draft(path: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.draft", std::process::id()));
    let draft = PathBuf::from(name);
    // Of a killed process with the same id.
    let _usually_absent = fs::remove_file(&draft);
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(&draft)?.write_all(content)?;
    Ok(draft)
}
