//! A file of clients and their tokens, a line each: `name: token`, or `name: sha256:` and the digest in hex. It is the
//! owner's alone. It is read again when the caller says so; a file that went bad changes nothing.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;

use super::principal::Principal;
use super::{Digest, digest_of};

/// The most that is read of a file, and the most clients in it.
const LARGEST: u64 = 4 * 1024 * 1024;
const MOST: usize = 10_000;
/// How long a token has to be, and may be.
const SHORTEST_TOKEN: usize = 16;
const LONGEST_TOKEN: usize = 4096;
const LONGEST_NAME: usize = 64;
const HASHED: &str = "sha256:";

/// The clients of a file.
#[derive(Debug)]
pub struct BearerList {
    path: PathBuf,
    roll: RwLock<Arc<Roll>>,
}

#[derive(Debug)]
struct Roll {
    text: Digest,
    clients: HashMap<Digest, Principal>,
}

/// What came of reading the file again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refreshed {
    /// It is as it was.
    Unchanged,
    /// It is another, with so many clients. Who is no more in it is not known from now on.
    Changed(usize),
}

/// Why a file of clients is not taken.
#[derive(Debug, Error)]
#[error("the tokens in `{}` cannot be used", path.display())]
pub struct ListError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub kind: ListErrorKind,
}

/// What is wrong with a file of clients.
#[derive(Debug, Error)]
pub enum ListErrorKind {
    /// It cannot be read.
    #[error("the file cannot be read")]
    Unreadable(#[source] io::Error),
    /// It is a folder, a pipe, or something else.
    #[error("it is not a file")]
    NotFile,
    /// It is not the owner's alone.
    #[error("others than its owner can read or change it (mode {mode:03o}); run `chmod 600` on it")]
    Open {
        /// The permissions that it has.
        mode: u32,
    },
    /// It is larger than any list.
    #[error("it is larger than {LARGEST} bytes, or has more than {MOST} clients")]
    TooLarge,
    /// It holds nobody.
    #[error("there is no client in it")]
    Empty,
    /// A line of it is wrong.
    #[error("line {line} is wrong")]
    Line {
        /// Which one, from 1.
        line: usize,
        /// How.
        #[source]
        fault: LineFault,
    },
}

/// What is wrong with a line. None of them holds any of it: it may be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LineFault {
    /// It is not text.
    #[error("it is not text")]
    NotText,
    /// It has no colon.
    #[error("it is not `name: token`")]
    Form,
    /// The name is none.
    #[error(
        "the name is empty, too long, or has other signs than letters, digits, `.`, `_` and `-`"
    )]
    Name,
    /// The name was there already.
    #[error("another line has the same name")]
    SameName,
    /// The token was there already.
    #[error("another line has the same token")]
    SameToken,
    /// The token could be guessed.
    #[error("the token is shorter than {SHORTEST_TOKEN} signs")]
    Short,
    /// The token cannot be shown in a header.
    #[error("the token is too long, or has signs that no token has")]
    Token,
    /// The digest is none.
    #[error("the digest is not 64 hexadecimal digits")]
    Digest,
}

impl BearerList {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<BearerList, ListError> {
        let roll = read(path).and_then(|text| Roll::parse(&text));
        let roll = roll.map_err(|kind| ListError { path: path.to_owned(), kind })?;
        Ok(BearerList { path: path.to_owned(), roll: RwLock::new(Arc::new(roll)) })
    }

    /// Reads the file again. Where it is bad, the old list stays.
    pub fn refresh(&self) -> Result<Refreshed, ListError> {
        let wrong = |kind| ListError { path: self.path.clone(), kind };
        let text = read(&self.path).map_err(wrong)?;
        if digest_of(&text) == self.roll().text {
            return Ok(Refreshed::Unchanged);
        }
        let roll = Roll::parse(&text).map_err(wrong)?;
        let count = roll.clients.len();
        *self.roll.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(roll);
        Ok(Refreshed::Changed(count))
    }

    /// How many clients there are.
    pub fn len(&self) -> usize {
        self.roll().clients.len()
    }

    /// Is there none? A file without clients is not taken, so there is one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whose token this is.
    pub(super) fn client(&self, token: &str) -> Option<Principal> {
        let digest = digest_of(token.as_bytes());
        let roll = self.roll.read().unwrap_or_else(PoisonError::into_inner);
        roll.clients.get(&digest).cloned()
    }

    fn roll(&self) -> Arc<Roll> {
        self.roll.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a file holds, if it is one that only its owner can read. It is the open file that is looked at, so nobody can
/// put another in its place in between.
fn read(path: &Path) -> Result<Vec<u8>, ListErrorKind> {
    // Opening a pipe would wait for whoever writes to it.
    let is_file = path.metadata().map_err(ListErrorKind::Unreadable)?.is_file();
    if !is_file {
        return Err(ListErrorKind::NotFile);
    }
    let file = File::open(path).map_err(ListErrorKind::Unreadable)?;
    let metadata = file.metadata().map_err(ListErrorKind::Unreadable)?;
    check_owner_only(&metadata)?;
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text).map_err(ListErrorKind::Unreadable)?;
    match text.len() as u64 > LARGEST {
        true => Err(ListErrorKind::TooLarge),
        false => Ok(text),
    }
}

#[cfg(unix)]
fn check_owner_only(metadata: &std::fs::Metadata) -> Result<(), ListErrorKind> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata.permissions().mode() & 0o777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(ListErrorKind::Open { mode }),
    }
}

/// Elsewhere a file inherits who may read it from its folder.
#[cfg(not(unix))]
fn check_owner_only(_metadata: &std::fs::Metadata) -> Result<(), ListErrorKind> {
    Ok(())
}

impl Roll {
    fn parse(bytes: &[u8]) -> Result<Roll, ListErrorKind> {
        let mut clients = HashMap::new();
        let mut names = HashSet::new();
        for (number, line) in bytes.split(|&sign| sign == b'\n').enumerate() {
            let wrong = |fault| ListErrorKind::Line { line: number + 1, fault };
            let line = std::str::from_utf8(line).map_err(|_| wrong(LineFault::NotText))?;
            let Some((name, digest)) = client_in(line).map_err(wrong)? else { continue };
            if clients.len() == MOST {
                return Err(ListErrorKind::TooLarge);
            }
            if !names.insert(name) {
                return Err(wrong(LineFault::SameName));
            }
            if clients.insert(digest, Principal::listed(name)).is_some() {
                return Err(wrong(LineFault::SameToken));
            }
        }
        match clients.is_empty() {
            true => Err(ListErrorKind::Empty),
            false => Ok(Roll { text: digest_of(bytes), clients }),
        }
    }
}

/// The name and the token's digest in a line, where there is a client in it.
fn client_in(line: &str) -> Result<Option<(&str, Digest)>, LineFault> {
    let line = line.trim_start_matches('\u{feff}').trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, token) = line.split_once(':').ok_or(LineFault::Form)?;
    let (name, token) = (name.trim_end(), token.trim_start());
    let is_of_name = |sign: u8| sign.is_ascii_alphanumeric() || b"._-".contains(&sign);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_of_name) {
        return Err(LineFault::Name);
    }
    // No token has a colon in it, so none is taken for a digest.
    let digest = match token.strip_prefix(HASHED) {
        Some(hex) => digest_in(hex).ok_or(LineFault::Digest)?,
        None if token.len() < SHORTEST_TOKEN => return Err(LineFault::Short),
        None if !is_token(token) => return Err(LineFault::Token),
        None => digest_of(token.as_bytes()),
    };
    Ok(Some((name, digest)))
}

/// Is it written as a token is (RFC 6750, section 2.1)?
fn is_token(text: &str) -> bool {
    let is_of_token = |sign: u8| sign.is_ascii_alphanumeric() || b"-._~+/=".contains(&sign);
    text.len() <= LONGEST_TOKEN && text.bytes().all(is_of_token)
}

fn digest_in(hex: &str) -> Option<Digest> {
    let hex = hex.trim().as_bytes();
    let mut digest = Digest::default();
    if hex.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
        let digit = |sign: u8| char::from(sign).to_digit(16);
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

    /// A file that is the owner's alone.
    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("written");
        file
    }

    fn names(list: &BearerList) -> Vec<String> {
        let mut names: Vec<_> = list.roll().clients.values().map(ToString::to_string).collect();
        names.sort();
        names
    }

    fn fault(text: &[u8]) -> Option<(usize, LineFault)> {
        match Roll::parse(text) {
            Err(ListErrorKind::Line { line, fault }) => Some((line, fault)),
            Ok(_) => None,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn clients_are_known_by_their_tokens_plain_or_hashed() {
        let hashed: String =
            digest_of(b"another-token-of-ours").iter().map(|byte| format!("{byte:02X}")).collect();
        let text = format!(
            "\u{feff}# our clients\r\n\r\n  editor : {TOKEN}  \r\n\nci-1.a_B:sha256:{hashed}\n"
        );
        let file = file(&text);
        let list = BearerList::open(file.path()).expect("a list");
        assert_eq!(names(&list), ["ci-1.a_B", "editor"]);
        let name = |token: &str| list.client(token).map(|it| it.to_string());
        assert_eq!(name(TOKEN).as_deref(), Some("editor"));
        assert_eq!(name("another-token-of-ours").as_deref(), Some("ci-1.a_B"));
        for stranger in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", &hashed] {
            assert_eq!(name(stranger), None, "{stranger}");
        }
        assert_eq!(name(&format!("sha256:{hashed}")), None);
    }

    #[test]
    fn a_wrong_line_is_named_and_its_token_is_not() {
        let good = format!("a: {TOKEN}");
        for (text, line, fault_in_it) in [
            ("just-a-token-without-name", 1, LineFault::Form),
            (&format!("{good}\n\nb c: {TOKEN}x"), 3, LineFault::Name),
            (&format!(": {TOKEN}"), 1, LineFault::Name),
            (&format!("{}: {TOKEN}", "a".repeat(65)), 1, LineFault::Name),
            (&format!("{good}\na: {TOKEN}x"), 2, LineFault::SameName),
            (&format!("{good}\nb: {TOKEN}"), 2, LineFault::SameToken),
            ("a: 0123456789abcde", 1, LineFault::Short),
            ("a:", 1, LineFault::Short),
            ("a: canary canary canary", 1, LineFault::Token),
            ("a: canary:canary:canary", 1, LineFault::Token),
            (&format!("a: {}", "x".repeat(5000)), 1, LineFault::Token),
            ("a: sha256:canary", 1, LineFault::Digest),
            (&format!("a: sha256:{}", "g".repeat(64)), 1, LineFault::Digest),
            (&format!("a: sha256:{}é", "0".repeat(62)), 1, LineFault::Digest),
        ] {
            assert_eq!(fault(text.as_bytes()), Some((line, fault_in_it)), "{text}");
            let shown = format!("{:?}", Roll::parse(text.as_bytes()).expect_err("it is wrong"));
            assert!(!shown.contains("canary") && !shown.contains(TOKEN), "{shown}");
        }
        assert_eq!(fault(b"a: \xff"), Some((1, LineFault::NotText)));
        assert!(matches!(Roll::parse(b"# nobody\n"), Err(ListErrorKind::Empty)));
        let many: String = (0..=MOST).map(|it| format!("c{it}: token-number-{it:08}\n")).collect();
        assert!(matches!(Roll::parse(many.as_bytes()), Err(ListErrorKind::TooLarge)));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_refused_with_what_to_do() {
        use std::os::unix::fs::PermissionsExt;

        let file = file(&format!("a: {TOKEN}"));
        for mode in [0o640, 0o604, 0o620, 0o777] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("set");
            let error = BearerList::open(file.path()).expect_err("it is open to others");
            assert!(matches!(error.kind, ListErrorKind::Open { mode: it } if it == mode));
            let cause = error.source().expect("a cause").to_string();
            assert!(cause.contains("chmod 600") && cause.contains(&format!("{mode:o}")), "{cause}");
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("set");
            assert!(BearerList::open(file.path()).is_ok());
        }
        let folder = tempfile::tempdir().expect("a folder");
        let error = BearerList::open(folder.path()).expect_err("it is a folder");
        assert!(matches!(error.kind, ListErrorKind::NotFile));
        let error = BearerList::open(&folder.path().join("none")).expect_err("it is not there");
        assert!(matches!(error.kind, ListErrorKind::Unreadable(_)));
    }

    #[test]
    fn a_changed_file_is_read_anew_and_a_broken_one_changes_nothing() {
        let file = file(&format!("a: {TOKEN}\n"));
        let list = BearerList::open(file.path()).expect("a list");
        assert_eq!(list.refresh().expect("it is good"), Refreshed::Unchanged);
        fs::write(file.path(), "b: another-token-of-ours\nc: a-third-token-of-ours")
            .expect("written");
        assert_eq!(list.refresh().expect("it is good"), Refreshed::Changed(2));
        assert_eq!(list.client(TOKEN), None);
        assert_eq!(names(&list), ["b", "c"]);
        for broken in ["", "b: short", "rubbish"] {
            fs::write(file.path(), broken).expect("written");
            assert!(list.refresh().is_err(), "{broken}");
            assert_eq!(names(&list), ["b", "c"]);
        }
        fs::remove_file(file.path()).expect("removed");
        assert!(list.refresh().is_err());
        assert!(list.client("another-token-of-ours").is_some() && !list.is_empty());
    }
}
