//! Links the lines of the audit log: each line names its number and the digest of the line before it. The head file beside
//! the log names the last line, and the first one that was not removed by rotation. With a key, the last line of each
//! write and the head are signed. `verify` checks all of it.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use switchboard_config::entry::server::sha256;

use crate::storage::private_file;

/// The digest that the first line names.
pub(super) const NO_LINE: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// The beginning of what a line has besides its record.
const LINK: &str = ",\"chain\":{";
/// The beginning of a line's signature.
const SIGNATURE: &str = ",\"sig\":\"";
/// The largest key or head file.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// The key that signs a chain.
pub struct ChainKey(Ed25519KeyPair);

impl std::fmt::Debug for ChainKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChainKey({})", self.public().to_text())
    }
}

/// The public half of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPublicKey(Vec<u8>);

impl ChainKey {
    /// Reads a key, or creates it in a file that only its owner can read. Blocks.
    pub fn open_or_create(path: &Path) -> io::Result<ChainKey> {
        if !path.exists() {
            let key = Ed25519KeyPair::generate().map_err(io::Error::other)?;
            let document = key.to_pkcs8().map_err(io::Error::other)?;
            private_file::create(path, pem(document.as_ref()).as_bytes())?;
        }
        // Another process may have created it first.
        ChainKey::open(path)
    }

    /// Reads a key. Blocks.
    pub fn open(path: &Path) -> io::Result<ChainKey> {
        private_file::check(path)?;
        let text = read_bounded(path)?;
        let invalid = || {
            let text = format!("`{}` is no Ed25519 key in PEM (PKCS #8)", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        let body: String = text.lines().filter(|it| !it.starts_with("-----")).collect();
        let document = STANDARD.decode(body.trim()).map_err(|_| invalid())?;
        Ed25519KeyPair::from_pkcs8(&document).map(ChainKey).map_err(|_| invalid())
    }

    /// The public half.
    pub fn public(&self) -> ChainPublicKey {
        ChainPublicKey(self.0.public_key().as_ref().to_vec())
    }

    fn sign(&self, text: &str) -> String {
        STANDARD.encode(self.0.sign(text.as_bytes()).as_ref())
    }
}

fn pem(document: &[u8]) -> String {
    let body = STANDARD.encode(document);
    format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
}

impl ChainPublicKey {
    /// The key as text.
    pub fn to_text(&self) -> String {
        STANDARD.encode(&self.0)
    }

    /// Parses the text of a key.
    pub fn parse(text: &str) -> Option<ChainPublicKey> {
        let bytes = STANDARD.decode(text.trim()).ok()?;
        (bytes.len() == 32).then_some(ChainPublicKey(bytes))
    }

    fn verifies(&self, text: &str, signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        UnparsedPublicKey::new(&ED25519, &self.0).verify(text.as_bytes(), &signature).is_ok()
    }
}

/// How lines are linked.
#[derive(Debug)]
pub(super) struct Chain {
    /// Signs them.
    pub(super) key: Option<ChainKey>,
}

/// The ends of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChainHead {
    /// The number of the first line that was not removed by rotation.
    pub(super) start: u64,
    /// The number of the last line; 0 if there is none.
    pub(super) seq: u64,
    /// The digest of the last line.
    pub(super) hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sig: Option<String>,
}

/// The link of a line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Link {
    pub(super) seq: u64,
    /// The digest of the line before.
    pub(super) prev: String,
    pub(super) sig: Option<String>,
}

impl Default for ChainHead {
    fn default() -> ChainHead {
        ChainHead { start: 1, seq: 0, hash: NO_LINE.to_owned(), sig: None }
    }
}

impl ChainHead {
    /// Reads the head of a log; `None` if there is none.
    pub(super) fn read(log: &Path) -> io::Result<Option<ChainHead>> {
        match read_bounded(&head_path(log)) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|_| {
                let text = format!("`{}` is damaged", head_path(log).display());
                io::Error::new(io::ErrorKind::InvalidData, text)
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the head file. The caller holds the lock of the log.
    pub(super) fn write(&mut self, log: &Path, chain: &Chain) -> io::Result<()> {
        self.sig = chain.key.as_ref().map(|key| key.sign(&self.signed_text()));
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        private_file::replace(&head_path(log), &text)
    }

    pub(super) fn is_signed_by(&self, key: &ChainPublicKey) -> bool {
        self.sig.as_ref().is_some_and(|it| key.verifies(&self.signed_text(), it))
    }

    fn signed_text(&self) -> String {
        format!("audit log head\n{}\n{}\n{}", self.start, self.seq, self.hash)
    }
}

/// The path of the head file of a log.
pub(super) fn head_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".head");
    PathBuf::from(name)
}

/// The default path of the key of a log.
pub fn default_key_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".key");
    PathBuf::from(name)
}

/// Links lines (each with its line break) to the head, and moves the head. The last line is signed.
pub(super) fn link(lines: &[u8], head: &mut ChainHead, chain: &Chain) -> Vec<u8> {
    let lines: Vec<&[u8]> =
        lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let mut linked = Vec::with_capacity(lines.iter().map(|it| it.len() + 256).sum());
    let last = lines.len().saturating_sub(1);
    for (index, line) in lines.iter().enumerate() {
        let record = String::from_utf8_lossy(line);
        let record = record.strip_suffix('}').unwrap_or(&record);
        let seq = head.seq + 1;
        let mut text = format!("{record}{LINK}\"seq\":{seq},\"prev\":\"{}\"", head.hash);
        if index == last
            && let Some(key) = &chain.key
        {
            let signature = key.sign(&text);
            text.push_str(&format!("{SIGNATURE}{signature}\""));
        }
        text.push_str("}}");
        head.seq = seq;
        head.hash = sha256(text.as_bytes()).to_string();
        linked.extend_from_slice(text.as_bytes());
        linked.push(b'\n');
    }
    linked
}

/// The link of a line; `None` if it has none.
pub(super) fn link_of(line: &str) -> Option<Link> {
    #[derive(Deserialize)]
    struct ChainLine {
        chain: Link,
    }
    serde_json::from_str::<ChainLine>(line).ok().map(|it| it.chain)
}

/// Is the signature of a line that of a key? `false` without one.
pub(super) fn is_line_signed_by(line: &str, key: &ChainPublicKey) -> bool {
    let Some((text, rest)) = line.rsplit_once(SIGNATURE) else { return false };
    rest.strip_suffix("\"}}").is_some_and(|signature| key.verifies(text, signature))
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_created_once_and_only_for_its_owner() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("key");
        let first = ChainKey::open_or_create(&path).expect("a key").public();
        assert_eq!(ChainKey::open_or_create(&path).expect("a key").public(), first);
        assert_eq!(ChainPublicKey::parse(&first.to_text()), Some(first));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
            assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
            mode(0o644).expect("it is ours");
            let error = ChainKey::open(&path).expect_err("others can read it");
            assert!(error.to_string().contains("chmod 600"), "{error}");
            mode(0o600).expect("it is ours");
        }
        fs::write(&path, "no key").expect("written");
        assert_eq!(ChainKey::open(&path).expect_err("no key").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_linked_line_is_still_a_record_and_only_the_last_one_is_signed() {
        let chain = Chain { key: Some(ChainKey(Ed25519KeyPair::generate().expect("a key"))) };
        let key = chain.key.as_ref().expect("a key").public();
        let mut head = ChainHead::default();
        let linked = link(b"{\"a\":1}\n{\"a\":2}\n", &mut head, &chain);
        let text = String::from_utf8(linked).expect("UTF-8");
        let lines: Vec<&str> = text.lines().collect();
        let links: Vec<Link> = lines.iter().map(|it| link_of(it).expect("a link")).collect();
        assert_eq!((links[0].seq, links[0].prev.as_str()), (1, NO_LINE));
        assert_eq!((links[1].seq, links[1].prev.as_str()), (2, &*sha256(lines[0].as_bytes())));
        assert_eq!((head.seq, head.hash.as_str()), (2, &*sha256(lines[1].as_bytes())));
        assert!(!is_line_signed_by(lines[0], &key) && is_line_signed_by(lines[1], &key));
        let changed = lines[1].replace("\"a\":2", "\"a\":3");
        assert!(!is_line_signed_by(&changed, &key));
        let other = Ed25519KeyPair::generate().expect("a key");
        assert!(!is_line_signed_by(lines[1], &ChainKey(other).public()));
    }
}
