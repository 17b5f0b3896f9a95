//! DPoP on the client side (RFC 9449): the key that tokens are bound to, and one proof per request.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use url::Url;

use crate::crypto::digest::sha256_base64url;
use crate::crypto::signing_key::SigningKey;
use crate::secret::Secret;
use crate::time_and_random::TimeAndRandom;

/// A key that tokens are bound to. Clones share the key pair.
#[derive(Clone)]
pub struct DpopKey {
    key_pair: Arc<EcdsaKeyPair>,
}

impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProofKey({})", self.thumbprint())
    }
}

/// Keys are equal if their public keys are.
impl PartialEq for DpopKey {
    fn eq(&self, other: &DpopKey) -> bool {
        self.thumbprint() == other.thumbprint()
    }
}

impl Eq for DpopKey {}

/// The request that a proof is for.
#[derive(Debug, Clone, Copy)]
pub struct ProofTarget<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The request URL.
    pub url: &'a Url,
    /// The nonce that the server demands.
    pub nonce: Option<&'a str>,
    /// The access token sent with the request.
    pub token: Option<&'a Secret>,
}

impl DpopKey {
    /// Generates a new key.
    pub fn generate() -> DpopKey {
        let key_pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
        DpopKey { key_pair: Arc::new(key_pair.expect("the system's generator does not run dry")) }
    }

    /// Decodes a stored key.
    pub fn from_stored(stored: &Secret) -> Option<DpopKey> {
        let der = URL_SAFE_NO_PAD.decode(stored.reveal()).ok()?;
        let key_pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).ok()?;
        Some(DpopKey { key_pair: Arc::new(key_pair) })
    }

    /// Encodes the key for storage.
    pub fn to_stored(&self) -> Secret {
        let der = self.key_pair.to_pkcs8v1().expect("a key that was made can be written down");
        Secret::new(URL_SAFE_NO_PAD.encode(der.as_ref()))
    }

    /// The public key as a JWK.
    fn public_jwk(&self) -> Value {
        // An uncompressed point: 4, x, y.
        let point = self.key_pair.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let text = |number: &[u8]| URL_SAFE_NO_PAD.encode(number);
        json!({ "crv": "P-256", "kty": "EC", "x": text(x), "y": text(y) })
    }

    /// The JWK thumbprint of the public key (RFC 7638).
    pub fn thumbprint(&self) -> String {
        sha256_base64url(self.public_jwk().to_string().as_bytes())
    }

    /// Signs a proof for one request.
    pub fn sign_proof(&self, target: ProofTarget<'_>, inputs: &mut TimeAndRandom<'_>) -> Secret {
        let mut htu = target.url.clone();
        htu.set_query(None);
        htu.set_fragment(None);
        let mut claims = json!({
            "jti": inputs.random_token().reveal(),
            "htm": target.method,
            "htu": htu.as_str(),
            "iat": inputs.now,
        });
        if let Some(nonce) = target.nonce {
            claims["nonce"] = json!(nonce);
        }
        if let Some(token) = target.token {
            claims["ath"] = json!(sha256_base64url(token.reveal().as_bytes()));
        }
        let header = json!({ "typ": "dpop+jwt", "jwk": self.public_jwk() });
        SigningKey::from_ecdsa(self.key_pair.clone()).sign(header, &claims)
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::ECDSA_P256_SHA256_FIXED;

    use super::*;
    use crate::crypto::signing_key::tests::verify_and_decode;
    use crate::time_and_random::with_system_random;

    fn proof(key: &DpopKey, nonce: Option<&str>, token: Option<&Secret>) -> (Value, Value) {
        let url = Url::parse("https://a.b/mcp?x=y#z").expect("a URL");
        let target = ProofTarget { method: "POST", url: &url, nonce, token };
        let proof = with_system_random(77, |inputs| key.sign_proof(target, inputs));
        verify_and_decode(
            proof.reveal(),
            &ECDSA_P256_SHA256_FIXED,
            key.key_pair.public_key().as_ref(),
        )
    }

    #[test]
    fn a_proof_names_its_request() {
        let key = DpopKey::generate();
        let (header, claims) = proof(&key, None, None);
        let parts = [&header["typ"], &header["alg"], &header["jwk"]["kty"], &header["jwk"]["crv"]];
        assert_eq!(parts, ["dpop+jwt", "ES256", "EC", "P-256"]);
        assert!(header["jwk"].get("d").is_none());
        assert_eq!([&claims["htm"], &claims["htu"]], ["POST", "https://a.b/mcp"]);
        assert_eq!(claims["iat"], 77);
        assert!(claims.get("ath").is_none() && claims.get("nonce").is_none());
        // The example of RFC 9449, section 4.1, has this hash for this token.
        let token = Secret::new("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU");
        let (_, claims) = proof(&key, Some("n"), Some(&token));
        assert_eq!(claims["ath"], "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo");
        assert_eq!(claims["nonce"], "n");
    }

    #[test]
    fn every_proof_has_its_own_jti() {
        let key = DpopKey::generate();
        assert_ne!(proof(&key, None, None).1["jti"], proof(&key, None, None).1["jti"]);
    }

    #[test]
    fn a_stored_key_is_the_same_key_and_does_not_print() {
        let key = DpopKey::generate();
        let stored = key.to_stored();
        assert_eq!(DpopKey::from_stored(&stored), Some(key.clone()));
        assert_ne!(DpopKey::generate(), key);
        assert_eq!(DpopKey::from_stored(&Secret::new("rubbish")), None);
        assert!(!format!("{key:?}").contains(stored.reveal()));
    }
}
