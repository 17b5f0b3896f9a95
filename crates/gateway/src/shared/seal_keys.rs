//! The keys that replicas seal with, from files: one key per line, newest first, as 32 bytes in hexadecimal or Base64. The
//! files are read again when they change, so that keys can be replaced without a restart.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use thiserror::Error;
use tokio::sync::watch;

use crate::sealed_state::{KEY_LEN, SealKey, SealKeys, StateSealer};

/// The largest key file.
const MAX_FILE_SIZE: u64 = 64 * 1024;
/// The most keys.
const MAX_KEYS: usize = 32;

/// Why keys cannot be used.
#[derive(Debug, Error)]
pub enum SealKeyError {
    /// The file cannot be read.
    #[error("`{file}` cannot be read")]
    Unreadable {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Others could read or change it.
    #[error(
        "`{file}` can be read or changed by other users (mode {mode:03o}); run `chmod 600` on it"
    )]
    TooPermissive {
        /// The file.
        file: String,
        /// Its permissions.
        mode: u32,
    },
    /// A line is no key.
    #[error("line {line} of `{file}` is not a key: 32 bytes in hexadecimal or Base64")]
    Malformed {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
    },
    /// There is no key at all, or too many.
    #[error("the key files hold {0} keys; between 1 and {MAX_KEYS} are possible")]
    Count(usize),
}

/// The keys of some files. The first key of the first file seals; all keys open.
#[derive(Debug)]
pub struct SealKeyFiles {
    files: Vec<PathBuf>,
    published: watch::Sender<SealKeys>,
    /// The files as they were read.
    texts: Vec<String>,
}

impl SealKeyFiles {
    /// Reads the files.
    pub fn open(files: Vec<PathBuf>) -> Result<SealKeyFiles, SealKeyError> {
        let texts = read_all(&files)?;
        let (published, _) = watch::channel(parse_all(&files, &texts)?);
        Ok(SealKeyFiles { files, published, texts })
    }

    /// Reads the files again. Returns whether the keys have changed; after an error the last keys stay in use.
    pub fn reload(&mut self) -> Result<bool, SealKeyError> {
        let texts = read_all(&self.files)?;
        if texts == self.texts {
            return Ok(false);
        }
        let keys = parse_all(&self.files, &texts)?;
        self.texts = texts;
        let _no_gateway = self.published.send(keys);
        Ok(true)
    }

    /// What seals with these keys.
    pub(crate) fn sealer(&self) -> StateSealer {
        StateSealer::with_keys(self.published.subscribe())
    }
}

fn read_all(files: &[PathBuf]) -> Result<Vec<String>, SealKeyError> {
    let read = |path: &PathBuf| {
        let unreadable =
            |source| SealKeyError::Unreadable { file: path.display().to_string(), source };
        // Opening a pipe would wait for its writer.
        let metadata = fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(unreadable(io::Error::other("it is not a file")));
        }
        check_permissions(path, &metadata)?;
        let mut text = String::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(MAX_FILE_SIZE).read_to_string(&mut text).map_err(unreadable)?;
        Ok(text)
    };
    files.iter().map(read).collect()
}

/// A group may read the file, because that is how containers get secrets; other users may not.
#[cfg(unix)]
fn check_permissions(path: &Path, metadata: &fs::Metadata) -> Result<(), SealKeyError> {
    use std::os::unix::fs::PermissionsExt;
    const OF_OTHERS: u32 = 0o027;
    let mode = metadata.permissions().mode() & 0o777;
    match mode & OF_OTHERS {
        0 => Ok(()),
        _ => Err(SealKeyError::TooPermissive { file: path.display().to_string(), mode }),
    }
}

#[cfg(not(unix))]
fn check_permissions(_path: &Path, _metadata: &fs::Metadata) -> Result<(), SealKeyError> {
    Ok(())
}

fn parse_all(files: &[PathBuf], texts: &[String]) -> Result<SealKeys, SealKeyError> {
    let mut keys = Vec::new();
    for (file, text) in files.iter().zip(texts) {
        keys.append(&mut parse(file, text)?);
    }
    match keys.len() {
        1..=MAX_KEYS => Ok(Arc::from(keys)),
        count => Err(SealKeyError::Count(count)),
    }
}

fn parse(file: &Path, text: &str) -> Result<Vec<SealKey>, SealKeyError> {
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let key = |(index, line): (usize, &str)| {
        let malformed =
            SealKeyError::Malformed { file: file.display().to_string(), line: index + 1 };
        parse_key(line).map(SealKey::new).ok_or(malformed)
    };
    lines.map(key).collect()
}

fn parse_key(line: &str) -> Option<[u8; KEY_LEN]> {
    let hexadecimal = || {
        let digit = |at: usize| u8::from_str_radix(line.get(2 * at..2 * at + 2)?, 16).ok();
        let is_hexadecimal =
            line.len() == 2 * KEY_LEN && line.bytes().all(|it| it.is_ascii_hexdigit());
        is_hexadecimal.then(|| (0..KEY_LEN).map_while(digit).collect::<Vec<u8>>())
    };
    let base64 = || BASE64_STANDARD.decode(line).ok();
    let base64_url = || BASE64_URL_SAFE_NO_PAD.decode(line.trim_end_matches('=')).ok();
    let bytes = hexadecimal().or_else(base64).or_else(base64_url)?;
    bytes.try_into().ok()
}

/// A key file in a folder, opened.
#[cfg(test)]
pub(crate) fn test_keys(folder: &std::path::Path) -> SealKeyFiles {
    let file = folder.join("key");
    std::fs::write(&file, "00".repeat(32)).expect("written");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&file, own).expect("it is ours");
    }
    SealKeyFiles::open(vec![file]).expect("a key")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn keys_are_hexadecimal_or_base64_and_anything_else_is_named_by_its_line() {
        let same = BASE64_STANDARD.encode(parse_key(FIRST).expect("a key"));
        assert_eq!(parse_key(&same), parse_key(FIRST));
        assert_eq!(parse_key(&BASE64_URL_SAFE_NO_PAD.encode([255; 32])), Some([255; 32]));
        let text = format!("# keys\n\n{FIRST}\n{}\n", &FIRST[2..]);
        let error = parse(Path::new("keys"), &text).expect_err("the last is too short");
        let expected = "line 4 of `keys` is not a key: 32 bytes in hexadecimal or Base64";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn changed_files_are_used_and_broken_ones_change_nothing() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        fs::write(&first, FIRST).expect("written");
        fs::write(&second, FIRST.replace("00", "ff")).expect("written");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let set = |mode| fs::set_permissions(&first, fs::Permissions::from_mode(mode));
            set(0o644).expect("it is ours");
            let error = SealKeyFiles::open(vec![first.clone()]).expect_err("others can read it");
            assert!(error.to_string().contains("(mode 644)"), "{error}");
            set(0o640).expect("it is ours");
            fs::set_permissions(&second, fs::Permissions::from_mode(0o600)).expect("it is ours");
        }
        let mut keys = SealKeyFiles::open(vec![first.clone(), second.clone()]).expect("two keys");
        let sealer = keys.sealer();
        let sealed = sealer.seal_bytes("x", b"value");
        assert!(!keys.reload().expect("readable"));
        fs::write(&first, FIRST.replace("00", "aa")).expect("written");
        fs::write(&second, format!("{FIRST}\n")).expect("written");
        assert!(keys.reload().expect("readable"));
        assert_eq!(sealer.unseal_bytes("x", &sealed).as_deref(), Some(b"value".as_slice()));
        fs::write(&first, "no key").expect("written");
        keys.reload().expect_err("it is broken");
        assert_eq!(sealer.unseal_bytes("x", &sealed).as_deref(), Some(b"value".as_slice()));
        fs::write(&first, "").expect("written");
        fs::write(&second, "# none").expect("written");
        let error = keys.reload().expect_err("there is none");
        assert_eq!(error.to_string(), "the key files hold 0 keys; between 1 and 32 are possible");
    }
}
