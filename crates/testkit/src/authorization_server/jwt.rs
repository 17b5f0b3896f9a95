//! P-256 keys and the JWTs that they sign (JWS with ES256), encoded and decoded by hand.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A signing key. `Debug` hides it.
pub struct SigningKey {
    pair: EcdsaKeyPair,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl Default for SigningKey {
    fn default() -> SigningKey {
        SigningKey::new()
    }
}

impl SigningKey {
    /// A new key.
    pub fn new() -> SigningKey {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
        SigningKey { pair: pair.expect("a key can be made") }
    }

    /// The public key as a JWK.
    pub fn public_jwk(&self) -> Value {
        // An uncompressed point: a marker byte, then both coordinates.
        let point = self.pair.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "x": base64url_encode(&point[1..33]), "y": base64url_encode(&point[33..65])})
    }

    /// The private key as PKCS #8 in PEM.
    pub fn to_pem(&self) -> String {
        let der = self.pair.to_pkcs8v1().expect("a key that was made can be written");
        let text = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
        let lines: Vec<&str> =
            (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
    }

    /// Signs a JWT; sets `alg` in the header.
    pub fn sign_jwt(&self, mut header: Value, claims: &Value) -> String {
        header["alg"] = json!("ES256");
        let message = format!(
            "{}.{}",
            base64url_encode(header.to_string().as_bytes()),
            base64url_encode(claims.to_string().as_bytes())
        );
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes());
        let signature = signature.expect("a message can be signed");
        format!("{message}.{}", base64url_encode(signature.as_ref()))
    }
}

/// A parsed JWT whose signature is not verified.
#[derive(Debug, Clone, PartialEq)]
pub struct UnverifiedJwt {
    /// The header.
    pub header: Value,
    /// The claims.
    pub claims: Value,
    message: String,
    signature: Vec<u8>,
}

impl UnverifiedJwt {
    /// Parses a JWT.
    pub fn parse(token: &str) -> Option<UnverifiedJwt> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let json = |part: &str| serde_json::from_slice(&base64url_decode(part)?).ok();
        Some(UnverifiedJwt {
            header: json(header)?,
            claims: json(claims)?,
            message: message.to_owned(),
            signature: base64url_decode(signature)?,
        })
    }

    /// Whether this public key signed it with ES256.
    pub fn is_signed_by(&self, key: &Value) -> bool {
        let coordinate =
            |name: &str| base64url_decode(key[name].as_str()?).filter(|it| it.len() == 32);
        let (Some(x), Some(y)) = (coordinate("x"), coordinate("y")) else { return false };
        let point = [&[4], &x[..], &y[..]].concat();
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        self.header["alg"] == "ES256"
            && key.verify(self.message.as_bytes(), &self.signature).is_ok()
    }
}

/// The thumbprint of a public key (RFC 7638).
pub fn jwk_thumbprint(key: &Value) -> String {
    // The required members in alphabetical order, without whitespace.
    let canonical = format!(
        "{{\"crv\":{},\"kty\":{},\"x\":{},\"y\":{}}}",
        key["crv"], key["kty"], key["x"], key["y"]
    );
    sha256_base64url(canonical.as_bytes())
}

/// The SHA-256 digest in base64url.
pub fn sha256_base64url(bytes: &[u8]) -> String {
    base64url_encode(digest(&SHA256, bytes).as_ref())
}

fn base64url_encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn base64url_decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_signing_key_verifies_and_only_the_signed_message() {
        let (key, other) = (SigningKey::new(), SigningKey::new());
        let token = key.sign_jwt(json!({"typ": "JWT"}), &json!({"sub": "ada"}));
        let read = UnverifiedJwt::parse(&token).unwrap();
        assert_eq!(read.claims, json!({"sub": "ada"}));
        assert!(read.is_signed_by(&key.public_jwk()));
        assert!(!read.is_signed_by(&other.public_jwk()));
        let (_, signature) = token.rsplit_once('.').unwrap();
        let forged = other.sign_jwt(json!({}), &json!({"sub": "eve"}));
        let (message, _) = forged.rsplit_once('.').unwrap();
        assert!(
            !UnverifiedJwt::parse(&format!("{message}.{signature}"))
                .unwrap()
                .is_signed_by(&key.public_jwk())
        );
    }

    #[test]
    fn a_thumbprint_matches_the_standard() {
        // Section 3.1 of RFC 7638 has an RSA key; this one is from RFC 9449, figure 3 and section 6.1.
        let key = json!({"kty": "EC", "crv": "P-256",
            "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
            "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"});
        assert_eq!(jwk_thumbprint(&key), "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
    }
}
