//! Random tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// An unguessable token.
pub fn random_token() -> String {
    let mut bytes = [0_u8; 12];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness");
    URL_SAFE_NO_PAD.encode(bytes)
}
