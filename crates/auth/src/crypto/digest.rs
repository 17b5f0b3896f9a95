//! SHA-256 digests, raw and as base64url text.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A SHA-256 digest. Tokens are looked up by their digest, so that the time of a lookup does not show how
/// close a guessed token is.
pub(crate) type Sha256Digest = [u8; 32];

pub(crate) fn sha256(bytes: &[u8]) -> Sha256Digest {
    let mut all = [0; 32];
    all.copy_from_slice(digest(&SHA256, bytes).as_ref());
    all
}

/// The SHA-256 digest as base64url without padding.
pub(crate) fn sha256_base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, bytes))
}
