//! Digests of names in keys of the store, so that names of principals stay here.

use switchboard_config::entry::server::sha256;

/// The length of a digest.
const DIGEST_CHARS: usize = 32;

/// A digest of a text, for a key of the store.
pub(crate) fn digest(text: &str) -> String {
    sha256(text.as_bytes()).to_string().chars().take(DIGEST_CHARS).collect()
}
