//! Client authentication with a private key (RFC 7523): keys from PEM, and signed client assertions.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use thiserror::Error;

use crate::secret::Secret;
use crate::time_and_random::TimeAndRandom;

/// The `client_assertion_type` of a JWT assertion.
pub(crate) const CLIENT_ASSERTION_TYPE: &str =
    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The lifetime of an assertion, in seconds.
const ASSERTION_LIFETIME: u64 = 300;

/// A private key that signs JWTs.
#[derive(Clone)]
pub struct SigningKey(KeyPairKind);

#[derive(Clone)]
enum KeyPairKind {
    Ecdsa { name: &'static str, pair: Arc<EcdsaKeyPair> },
    Rsa(Arc<RsaKeyPair>),
}

/// Prints the algorithm, not the key.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.algorithm())
    }
}

/// Why a PEM text is not a signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SigningKeyError {
    /// The text has no PEM private key.
    #[error("it contains no PEM private key")]
    NotPem,
    /// The key is for an unsupported algorithm.
    #[error("it is not a key for ES256, ES384 or RS256")]
    UnsupportedKey,
}

impl SigningKey {
    /// Parses a private key from PEM: PKCS#8, SEC 1 or PKCS#1.
    pub fn from_pem(pem: &str) -> Result<SigningKey, SigningKeyError> {
        let der = decode_private_key(pem).ok_or(SigningKeyError::NotPem)?;
        let curve = |name, algorithm: &'static EcdsaSigningAlgorithm| {
            let pair = EcdsaKeyPair::from_private_key_der(algorithm, &der).ok()?;
            Some(KeyPairKind::Ecdsa { name, pair: Arc::new(pair) })
        };
        let rsa = || {
            let pair = RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)).ok()?;
            Some(KeyPairKind::Rsa(Arc::new(pair)))
        };
        let kind = curve("ES256", &ECDSA_P256_SHA256_FIXED_SIGNING)
            .or_else(|| curve("ES384", &ECDSA_P384_SHA384_FIXED_SIGNING))
            .or_else(rsa);
        kind.map(SigningKey).ok_or(SigningKeyError::UnsupportedKey)
    }

    pub(crate) fn from_ecdsa(pair: Arc<EcdsaKeyPair>) -> SigningKey {
        SigningKey(KeyPairKind::Ecdsa { name: "ES256", pair })
    }

    /// The JWS name of its algorithm.
    pub fn algorithm(&self) -> &'static str {
        match &self.0 {
            KeyPairKind::Ecdsa { name, .. } => name,
            KeyPairKind::Rsa(_) => "RS256",
        }
    }

    /// Signs a compact JWS (RFC 7515) and sets `alg` in its header.
    pub(crate) fn sign(&self, mut header: Value, claims: &Value) -> Secret {
        header["alg"] = json!(self.algorithm());
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signing_input = format!("{}.{}", part(&header), part(claims));
        let random = SystemRandom::new();
        let signature = match &self.0 {
            KeyPairKind::Ecdsa { pair, .. } => {
                let signed = pair.sign(&random, signing_input.as_bytes());
                signed.expect("a key that was read signs").as_ref().to_vec()
            }
            KeyPairKind::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, signing_input.as_bytes(), &mut signature)
                    .expect("a key that was read signs, and the room is its own size");
                signature
            }
        };
        Secret::new(format!("{signing_input}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// A client assertion for one authorization server.
    pub fn client_assertion(
        &self,
        client: &str,
        audience: &str,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Secret {
        let claims = json!({
            "iss": client,
            "sub": client,
            "aud": audience,
            "jti": inputs.random_token().reveal(),
            "iat": inputs.now,
            "exp": inputs.now.saturating_add(ASSERTION_LIFETIME),
        });
        self.sign(json!({ "typ": "JWT" }), &claims)
    }
}

fn decode_private_key(pem: &str) -> Option<Vec<u8>> {
    let mut lines = pem.lines().map(str::trim);
    let is_begin =
        |line: &str| line.starts_with("-----BEGIN ") && line.ends_with("PRIVATE KEY-----");
    lines.by_ref().find(|line| is_begin(line))?;
    let body: String = lines.take_while(|line| !line.starts_with("-----END ")).collect();
    STANDARD.decode(body).ok().filter(|der| !der.is_empty())
}

#[cfg(test)]
pub(crate) mod tests {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
        VerificationAlgorithm,
    };

    use super::*;
    use crate::time_and_random::with_system_random;

    fn pem(label: &str, der: &[u8]) -> String {
        let text = STANDARD.encode(der);
        let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
    }

    /// The header and claims of a JWS, after its signature was verified.
    pub(crate) fn verify_and_decode(
        assertion: &str,
        algorithm: &'static dyn VerificationAlgorithm,
        public: &[u8],
    ) -> (Value, Value) {
        let parts: Vec<_> = assertion.split('.').collect();
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).expect("base64");
        let signing_input = format!("{}.{}", parts[0], parts[1]);
        UnparsedPublicKey::new(algorithm, public)
            .verify(signing_input.as_bytes(), &decode(parts[2]))
            .expect("the signature holds");
        let json = |part: &str| serde_json::from_slice(&decode(part)).expect("JSON");
        (json(parts[0]), json(parts[1]))
    }

    #[test]
    fn an_assertion_of_an_ec_key_verifies() {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        let text = pem("PRIVATE KEY", pair.to_pkcs8v1().expect("a document").as_ref());
        let key = SigningKey::from_pem(&format!("# a remark\n{text}")).expect("a key");
        let assertion =
            with_system_random(1000, |inputs| key.client_assertion("me", "https://as.b", inputs));
        let (header, claims) = verify_and_decode(
            assertion.reveal(),
            &ECDSA_P256_SHA256_FIXED,
            pair.public_key().as_ref(),
        );
        assert_eq!(header, json!({ "typ": "JWT", "alg": "ES256" }));
        let who = [&claims["iss"], &claims["sub"], &claims["aud"]];
        assert_eq!(who, ["me", "me", "https://as.b"]);
        assert_eq!([&claims["iat"], &claims["exp"]], [1000, 1300]);
        assert_eq!(claims["jti"].as_str().map(str::len), Some(43));
    }

    #[test]
    fn an_assertion_of_an_rsa_key_verifies() {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).expect("a document");
        let key = SigningKey::from_pem(&pem("PRIVATE KEY", der.as_ref())).expect("a key");
        let assertion =
            with_system_random(0, |inputs| key.client_assertion("me", "https://as.b", inputs));
        let public = pair.public_key().as_ref();
        let (header, _) =
            verify_and_decode(assertion.reveal(), &RSA_PKCS1_2048_8192_SHA256, public);
        assert_eq!(header["alg"], "RS256");
    }

    #[test]
    fn invalid_keys_are_refused_and_keys_do_not_print() {
        for (text, error) in [
            ("", SigningKeyError::NotPem),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", SigningKeyError::NotPem),
            ("-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----", SigningKeyError::NotPem),
            ("-----BEGIN PRIVATE KEY-----", SigningKeyError::NotPem),
            (
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
                SigningKeyError::UnsupportedKey,
            ),
        ] {
            assert_eq!(SigningKey::from_pem(text).map(|_| ()), Err(error), "{text}");
        }
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        assert_eq!(format!("{:?}", SigningKey::from_ecdsa(Arc::new(pair))), "SigningKey(ES256)");
    }
}
