//! A private file of clients and tokens, one per line: `name: token`, or `name: sha256:` and the digest in hex.
//! The caller decides when it is read again; an invalid file leaves the entries unchanged.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;
use tokio::sync::watch;

use super::principal::Principal;
use crate::crypto::digest::{Sha256Digest, sha256};

/// Limits for the size of the file and the number of clients.
const MAX_FILE_SIZE: u64 = 4 * 1024 * 1024;
const MAX_CLIENTS: usize = 10_000;
/// Limits for the length of a token.
const MIN_TOKEN_LENGTH: usize = 16;
const MAX_TOKEN_LENGTH: usize = 4096;
const MAX_NAME_LENGTH: usize = 64;
const SHA256_PREFIX: &str = "sha256:";

/// The clients of a token file.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    entries: RwLock<Arc<TokenEntries>>,
    /// The number of times that the entries changed.
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct TokenEntries {
    file_digest: Sha256Digest,
    clients: HashMap<Sha256Digest, Principal>,
}

/// The result of reading the file again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// The content is the same.
    Unchanged,
    /// The content changed; the number of clients. Removed clients are no longer accepted.
    Changed(usize),
}

/// Why a token file is refused.
#[derive(Debug, Error)]
#[error("the tokens in `{}` cannot be used", path.display())]
pub struct TokenFileError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub kind: TokenFileErrorKind,
}

/// An error in a token file.
#[derive(Debug, Error)]
pub enum TokenFileErrorKind {
    /// It cannot be read.
    #[error("the file cannot be read")]
    Unreadable(#[source] io::Error),
    /// It is a folder, a pipe, or something else.
    #[error("it is not a file")]
    NotRegularFile,
    /// Other users can read or change it.
    #[error("other users can read or change it (mode {mode:03o}); run `chmod 600` on it")]
    TooPermissive {
        /// Its permissions.
        mode: u32,
    },
    /// It is too large.
    #[error("it is larger than {MAX_FILE_SIZE} bytes, or has more than {MAX_CLIENTS} clients")]
    TooLarge,
    /// It contains no client.
    #[error("it contains no client")]
    Empty,
    /// A line is invalid.
    #[error("line {line} is invalid")]
    Line {
        /// The line number, from 1.
        line: usize,
        /// The error in the line.
        #[source]
        source: TokenLineError,
    },
}

/// An error in a line. Contains nothing of the line, which may be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenLineError {
    /// It is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// It has no colon.
    #[error("it is not `name: token`")]
    Syntax,
    /// The name is invalid.
    #[error(
        "the name is empty, too long, or has other characters than letters, digits, `.`, `_` and `-`"
    )]
    InvalidName,
    /// The name is used twice.
    #[error("another line has the same name")]
    DuplicateName,
    /// The token is used twice.
    #[error("another line has the same token")]
    DuplicateToken,
    /// The token is too short.
    #[error("the token is shorter than {MIN_TOKEN_LENGTH} characters")]
    TokenTooShort,
    /// The token has invalid characters or is too long.
    #[error("the token is too long, or has invalid characters")]
    InvalidToken,
    /// The digest is invalid.
    #[error("the digest is not 64 hexadecimal digits")]
    InvalidDigest,
}

impl TokenFile {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<TokenFile, TokenFileError> {
        let entries = read(path).and_then(|text| TokenEntries::parse(&text));
        let entries = entries.map_err(|kind| TokenFileError { path: path.to_owned(), kind })?;
        let (entries, changes) = (RwLock::new(Arc::new(entries)), watch::Sender::new(0));
        Ok(TokenFile { path: path.to_owned(), entries, changes })
    }

    /// Reads the file again. If it is invalid, the entries stay unchanged.
    pub fn reload(&self) -> Result<Reload, TokenFileError> {
        let error = |kind| TokenFileError { path: self.path.clone(), kind };
        let text = read(&self.path).map_err(error)?;
        if sha256(&text) == self.entries().file_digest {
            return Ok(Reload::Unchanged);
        }
        let entries = TokenEntries::parse(&text).map_err(error)?;
        let count = entries.clients.len();
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(entries);
        self.changes.send_modify(|count| *count += 1);
        Ok(Reload::Changed(count))
    }

    /// Tells when the entries change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The number of clients.
    pub fn len(&self) -> usize {
        self.entries().clients.len()
    }

    /// Always `false`: a file without clients is refused.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The client of a token.
    pub(crate) fn find(&self, token: &str) -> Option<Principal> {
        let digest = sha256(token.as_bytes());
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.clients.get(&digest).cloned()
    }

    fn entries(&self) -> Arc<TokenEntries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads a file that only its owner can access. Checks the open file, so that it cannot be replaced in between.
fn read(path: &Path) -> Result<Vec<u8>, TokenFileErrorKind> {
    // Opening a pipe would block until a writer opens it.
    let is_file = path.metadata().map_err(TokenFileErrorKind::Unreadable)?.is_file();
    if !is_file {
        return Err(TokenFileErrorKind::NotRegularFile);
    }
    let file = File::open(path).map_err(TokenFileErrorKind::Unreadable)?;
    let metadata = file.metadata().map_err(TokenFileErrorKind::Unreadable)?;
    check_owner_only(&metadata)?;
    let mut text = Vec::new();
    file.take(MAX_FILE_SIZE + 1).read_to_end(&mut text).map_err(TokenFileErrorKind::Unreadable)?;
    match text.len() as u64 > MAX_FILE_SIZE {
        true => Err(TokenFileErrorKind::TooLarge),
        false => Ok(text),
    }
}

#[cfg(unix)]
fn check_owner_only(metadata: &std::fs::Metadata) -> Result<(), TokenFileErrorKind> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata.permissions().mode() & 0o777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(TokenFileErrorKind::TooPermissive { mode }),
    }
}

/// On other systems a file inherits its permissions from the folder.
#[cfg(not(unix))]
fn check_owner_only(_metadata: &std::fs::Metadata) -> Result<(), TokenFileErrorKind> {
    Ok(())
}

impl TokenEntries {
    fn parse(bytes: &[u8]) -> Result<TokenEntries, TokenFileErrorKind> {
        let mut clients = HashMap::new();
        let mut names = HashSet::new();
        for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let error = |source| TokenFileErrorKind::Line { line: number + 1, source };
            let line = std::str::from_utf8(line).map_err(|_| error(TokenLineError::NotUtf8))?;
            let Some((name, digest)) = parse_line(line).map_err(error)? else { continue };
            if clients.len() == MAX_CLIENTS {
                return Err(TokenFileErrorKind::TooLarge);
            }
            if !names.insert(name) {
                return Err(error(TokenLineError::DuplicateName));
            }
            if clients.insert(digest, Principal::from_token_file(name)).is_some() {
                return Err(error(TokenLineError::DuplicateToken));
            }
        }
        match clients.is_empty() {
            true => Err(TokenFileErrorKind::Empty),
            false => Ok(TokenEntries { file_digest: sha256(bytes), clients }),
        }
    }
}

/// The name and the token digest of a line; `None` for blank lines and comments.
fn parse_line(line: &str) -> Result<Option<(&str, Sha256Digest)>, TokenLineError> {
    let line = line.trim_start_matches('\u{feff}').trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, token) = line.split_once(':').ok_or(TokenLineError::Syntax)?;
    let (name, token) = (name.trim_end(), token.trim_start());
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME_LENGTH || !name.bytes().all(is_of_name) {
        return Err(TokenLineError::InvalidName);
    }
    // A token contains no colon, so it cannot be mistaken for a digest.
    let digest = match token.strip_prefix(SHA256_PREFIX) {
        Some(hex) => parse_digest(hex).ok_or(TokenLineError::InvalidDigest)?,
        None if token.len() < MIN_TOKEN_LENGTH => return Err(TokenLineError::TokenTooShort),
        None if !is_token68(token) => return Err(TokenLineError::InvalidToken),
        None => sha256(token.as_bytes()),
    };
    Ok(Some((name, digest)))
}

/// Whether a text has the syntax of a token (RFC 6750, section 2.1).
fn is_token68(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    text.len() <= MAX_TOKEN_LENGTH && text.bytes().all(is_of_token)
}

fn parse_digest(hex: &str) -> Option<Sha256Digest> {
    let hex = hex.trim().as_bytes();
    let mut digest = Sha256Digest::default();
    if hex.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    /// A file that only its owner can access.
    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("written");
        file
    }

    fn names(list: &TokenFile) -> Vec<String> {
        let mut names: Vec<_> = list.entries().clients.values().map(ToString::to_string).collect();
        names.sort();
        names
    }

    fn line_error(text: &[u8]) -> Option<(usize, TokenLineError)> {
        match TokenEntries::parse(text) {
            Err(TokenFileErrorKind::Line { line, source }) => Some((line, source)),
            Ok(_) => None,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn clients_are_found_by_plain_or_hashed_tokens() {
        let hashed: String =
            sha256(b"another-token-of-ours").iter().map(|byte| format!("{byte:02X}")).collect();
        let text = format!(
            "\u{feff}# our clients\r\n\r\n  editor : {TOKEN}  \r\n\nci-1.a_B:sha256:{hashed}\n"
        );
        let file = file(&text);
        let list = TokenFile::open(file.path()).expect("a list");
        assert_eq!(names(&list), ["ci-1.a_B", "editor"]);
        let name = |token: &str| list.find(token).map(|it| it.to_string());
        assert_eq!(name(TOKEN).as_deref(), Some("editor"));
        assert_eq!(name("another-token-of-ours").as_deref(), Some("ci-1.a_B"));
        for stranger in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", &hashed] {
            assert_eq!(name(stranger), None, "{stranger}");
        }
        assert_eq!(name(&format!("sha256:{hashed}")), None);
    }

    #[test]
    fn an_invalid_line_is_reported_without_its_token() {
        let good = format!("a: {TOKEN}");
        for (text, line, expected_error) in [
            ("just-a-token-without-name", 1, TokenLineError::Syntax),
            (&format!("{good}\n\nb c: {TOKEN}x"), 3, TokenLineError::InvalidName),
            (&format!(": {TOKEN}"), 1, TokenLineError::InvalidName),
            (&format!("{}: {TOKEN}", "a".repeat(65)), 1, TokenLineError::InvalidName),
            (&format!("{good}\na: {TOKEN}x"), 2, TokenLineError::DuplicateName),
            (&format!("{good}\nb: {TOKEN}"), 2, TokenLineError::DuplicateToken),
            ("a: 0123456789abcde", 1, TokenLineError::TokenTooShort),
            ("a:", 1, TokenLineError::TokenTooShort),
            ("a: canary canary canary", 1, TokenLineError::InvalidToken),
            ("a: canary:canary:canary", 1, TokenLineError::InvalidToken),
            (&format!("a: {}", "x".repeat(5000)), 1, TokenLineError::InvalidToken),
            ("a: sha256:canary", 1, TokenLineError::InvalidDigest),
            (&format!("a: sha256:{}", "g".repeat(64)), 1, TokenLineError::InvalidDigest),
            (&format!("a: sha256:{}é", "0".repeat(62)), 1, TokenLineError::InvalidDigest),
        ] {
            assert_eq!(line_error(text.as_bytes()), Some((line, expected_error)), "{text}");
            let printed =
                format!("{:?}", TokenEntries::parse(text.as_bytes()).expect_err("it is wrong"));
            assert!(!printed.contains("canary") && !printed.contains(TOKEN), "{printed}");
        }
        assert_eq!(line_error(b"a: \xff"), Some((1, TokenLineError::NotUtf8)));
        assert!(matches!(TokenEntries::parse(b"# no entries\n"), Err(TokenFileErrorKind::Empty)));
        let many: String =
            (0..=MAX_CLIENTS).map(|it| format!("c{it}: token-number-{it:08}\n")).collect();
        assert!(matches!(TokenEntries::parse(many.as_bytes()), Err(TokenFileErrorKind::TooLarge)));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_open_to_others_is_refused_with_a_hint() {
        use std::os::unix::fs::PermissionsExt;

        let file = file(&format!("a: {TOKEN}"));
        for mode in [0o640, 0o604, 0o620, 0o777] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("set");
            let error = TokenFile::open(file.path()).expect_err("it is open to others");
            assert!(
                matches!(error.kind, TokenFileErrorKind::TooPermissive { mode: it } if it == mode)
            );
            let cause = error.source().expect("a cause").to_string();
            assert!(cause.contains("chmod 600") && cause.contains(&format!("{mode:o}")), "{cause}");
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("set");
            assert!(TokenFile::open(file.path()).is_ok());
        }
        let folder = tempfile::tempdir().expect("a folder");
        let error = TokenFile::open(folder.path()).expect_err("it is a folder");
        assert!(matches!(error.kind, TokenFileErrorKind::NotRegularFile));
        let error = TokenFile::open(&folder.path().join("none")).expect_err("it is not there");
        assert!(matches!(error.kind, TokenFileErrorKind::Unreadable(_)));
    }

    #[test]
    fn a_changed_file_is_reloaded_and_an_invalid_one_ignored() {
        let file = file(&format!("a: {TOKEN}\n"));
        let list = TokenFile::open(file.path()).expect("a list");
        assert_eq!(list.reload().expect("it is good"), Reload::Unchanged);
        fs::write(file.path(), "b: another-token-of-ours\nc: a-third-token-of-ours")
            .expect("written");
        assert_eq!(list.reload().expect("it is good"), Reload::Changed(2));
        assert_eq!(list.find(TOKEN), None);
        assert_eq!(names(&list), ["b", "c"]);
        for broken in ["", "b: short", "rubbish"] {
            fs::write(file.path(), broken).expect("written");
            assert!(list.reload().is_err(), "{broken}");
            assert_eq!(names(&list), ["b", "c"]);
        }
        fs::remove_file(file.path()).expect("removed");
        assert!(list.reload().is_err());
        assert!(list.find("another-token-of-ours").is_some() && !list.is_empty());
    }
}
