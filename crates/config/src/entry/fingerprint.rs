//! The hash of a server definition. Approvals and reloads compare it to notice a change.

use std::fmt;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::transport::TransportConfig;
use crate::template::{ExpandedText, TextSegment};

/// A hash of everything that a server runs or connects to. Any changed byte changes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Hashes an entry as written together with its expanded transport.
    pub(super) fn compute(raw: &Json, transport: &TransportConfig<ExpandedText>) -> Fingerprint {
        let mut hasher = FingerprintHasher(Sha256::new());
        hasher.write_str(&raw.to_string());
        hasher.write_transport(transport);
        Fingerprint(format!("sha256:{}", to_hex(&hasher.0.finalize())))
    }

    /// Wraps a fingerprint that was read from a file.
    pub fn from_stored(text: &str) -> Fingerprint {
        Fingerprint(text.to_owned())
    }

    /// Returns the text: `sha256:` and 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the SHA-256 hash in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Hashes every text after its length, so that two different servers never produce the same input.
struct FingerprintHasher(Sha256);

impl FingerprintHasher {
    fn write_str(&mut self, text: &str) {
        self.0.update(text.len().to_le_bytes());
        self.0.update(text.as_bytes());
    }

    fn write_count(&mut self, count: usize) {
        self.0.update(count.to_le_bytes());
    }

    /// A reference and a text that only looks like one must have different hashes.
    fn write_expanded(&mut self, text: &ExpandedText) {
        let segments = text.joined_segments();
        self.write_count(segments.len());
        for piece in &segments {
            match piece {
                TextSegment::Plain(text) | TextSegment::Variable { value: text, .. } => {
                    self.write_str("plain");
                    self.write_str(text);
                }
                TextSegment::Secret(reference) => {
                    self.write_str("secret");
                    self.write_str(&reference.to_string());
                }
            }
        }
    }

    fn write_optional(&mut self, text: Option<&ExpandedText>) {
        self.write_count(usize::from(text.is_some()));
        if let Some(text) = text {
            self.write_expanded(text);
        }
    }

    fn write_pairs(&mut self, pairs: &[(String, ExpandedText)]) {
        self.write_count(pairs.len());
        for (key, value) in pairs {
            self.write_str(key);
            self.write_expanded(value);
        }
    }

    /// Hashes the texts that contain variables; the raw entry covers the rest.
    fn write_transport(&mut self, transport: &TransportConfig<ExpandedText>) {
        self.write_str(transport.kind().id());
        match transport {
            TransportConfig::Stdio(it) => {
                self.write_expanded(&it.command);
                self.write_count(it.args.len());
                it.args.iter().for_each(|text| self.write_expanded(text));
                self.write_pairs(&it.env);
                self.write_optional(it.cwd.as_ref());
            }
            TransportConfig::Sse(it)
            | TransportConfig::Http(it)
            | TransportConfig::Ws(it)
            | TransportConfig::ConnectorProxy(it) => {
                self.write_expanded(&it.url);
                self.write_pairs(&it.headers);
                let oauth = it.oauth.as_ref();
                self.write_optional(oauth.and_then(|oauth| oauth.client_id.as_ref()));
                self.write_optional(oauth.and_then(|oauth| oauth.client_secret.as_ref()));
                self.write_optional(
                    oauth.and_then(|oauth| oauth.auth_server_metadata_url.as_ref()),
                );
                // Newer keys are hashed only if they are set, so that approvals from before they existed stay
                // valid.
                for text in oauth.iter().flat_map(|it| {
                    it.private_key.iter().chain(&it.workload_token).chain(&it.client_metadata_url)
                }) {
                    self.write_expanded(text);
                }
                if let Some(tls) = &it.tls {
                    self.write_optional(tls.ca_file.as_ref());
                    self.write_optional(tls.client_certificate.as_ref());
                    self.write_optional(tls.client_key.as_ref());
                }
            }
            TransportConfig::SseIde(it) | TransportConfig::WsIde(it) => {
                self.write_expanded(&it.url);
                self.write_optional(it.auth_token.as_ref());
            }
            TransportConfig::Sdk { name } => self.write_str(name),
        }
    }
}
