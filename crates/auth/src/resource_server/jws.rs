//! Parses and verifies compact JWS (RFC 7515) with public keys (RFC 7517). `none` and symmetric algorithms are
//! not supported, and a key in the header is used only where the caller accepts it.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    EcdsaVerificationAlgorithm, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::crypto::digest::sha256_base64url;

/// The maximum length of a JWS.
pub(crate) const MAX_LENGTH: usize = 16 * 1024;
/// Limits for the keys of a set, and for the keys tried for a token without `kid`.
const MAX_KEYS: usize = 128;
const MAX_CANDIDATES: usize = 8;
/// The maximum length of an RSA modulus in bytes, because verification slows down with it.
const MAX_RSA_BYTES: usize = 1024;

/// A signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rsa(RsaAlgorithm),
    Ecdsa(Curve),
    Ed25519,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RsaAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
    P521,
}

/// The accepted signature algorithms.
pub(crate) const SUPPORTED_ALGORITHMS: [&str; 10] =
    ["ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];

impl Algorithm {
    fn parse(name: &str) -> Option<Algorithm> {
        Some(match name {
            "ES256" => Algorithm::Ecdsa(Curve::P256),
            "ES384" => Algorithm::Ecdsa(Curve::P384),
            "ES512" => Algorithm::Ecdsa(Curve::P521),
            "EdDSA" | "Ed25519" => Algorithm::Ed25519,
            "RS256" => Algorithm::Rsa(RsaAlgorithm::Rs256),
            "RS384" => Algorithm::Rsa(RsaAlgorithm::Rs384),
            "RS512" => Algorithm::Rsa(RsaAlgorithm::Rs512),
            "PS256" => Algorithm::Rsa(RsaAlgorithm::Ps256),
            "PS384" => Algorithm::Rsa(RsaAlgorithm::Ps384),
            "PS512" => Algorithm::Rsa(RsaAlgorithm::Ps512),
            _ => return None,
        })
    }

    fn rsa_parameters(self) -> Option<&'static RsaParameters> {
        match self {
            Algorithm::Rsa(RsaAlgorithm::Rs256) => Some(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::Rsa(RsaAlgorithm::Rs384) => Some(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::Rsa(RsaAlgorithm::Rs512) => Some(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::Rsa(RsaAlgorithm::Ps256) => Some(&RSA_PSS_2048_8192_SHA256),
            Algorithm::Rsa(RsaAlgorithm::Ps384) => Some(&RSA_PSS_2048_8192_SHA384),
            Algorithm::Rsa(RsaAlgorithm::Ps512) => Some(&RSA_PSS_2048_8192_SHA512),
            Algorithm::Ecdsa(_) | Algorithm::Ed25519 => None,
        }
    }
}

/// The header of a JWS.
#[derive(Debug, Deserialize)]
pub(crate) struct JwsHeader {
    alg: String,
    pub kid: Option<String>,
    pub typ: Option<String>,
    /// The key in the header of a DPoP proof.
    pub jwk: Option<Value>,
    /// Critical extensions (RFC 7515, section 4.1.11). None is supported.
    crit: Option<Value>,
}

/// A parsed JWS, not verified yet.
pub(crate) struct Jws<'a> {
    pub header: JwsHeader,
    algorithm: Algorithm,
    message: &'a str,
    claims: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    /// Parses a JWS. `None` if it is malformed or its algorithm is not supported.
    pub fn parse(text: &'a str) -> Option<Jws<'a>> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        let (message, signature) = text.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: JwsHeader = serde_json::from_slice(&decode(header)?).ok()?;
        if header.crit.is_some() {
            return None;
        }
        let algorithm = Algorithm::parse(&header.alg)?;
        let (claims, signature) = (decode(claims)?, decode(signature)?);
        Some(Jws { header, algorithm, message, claims, signature })
    }

    /// The claims, if this key signed them.
    pub fn verified_claims<T: for<'de> Deserialize<'de>>(&self, key: &Jwk) -> Option<T> {
        if !key.verifies(self) {
            return None;
        }
        serde_json::from_slice(&self.claims).ok()
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Jwk {
    kid: Option<String>,
    /// The only algorithm that the key is for, if the key names one.
    alg: Option<String>,
    material: KeyMaterial,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyMaterial {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    Ec {
        curve: Curve,
        point: Vec<u8>,
    },
    Ed25519(Vec<u8>),
}

impl Jwk {
    /// Parses a JWK. `None` if its type or use is not supported.
    pub fn parse(jwk: &Value) -> Option<Jwk> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let number = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let is_for_signatures = jwk.get("use").is_none_or(|it| it == "sig");
        let operations = jwk.get("key_ops").and_then(Value::as_array);
        let verifies = operations.is_none_or(|all| all.iter().any(|it| it == "verify"));
        if !is_for_signatures || !verifies {
            return None;
        }
        let point = |curve, size: usize| {
            let (x, y) = (number("x")?, number("y")?);
            let is_whole = x.len() == size && y.len() == size;
            is_whole.then(|| KeyMaterial::Ec { curve, point: [&[4], &x[..], &y[..]].concat() })
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let bare = |number: Vec<u8>| -> Vec<u8> {
                    number.into_iter().skip_while(|byte| *byte == 0).collect()
                };
                let (modulus, exponent) = (bare(number("n")?), bare(number("e")?));
                let is_sane = modulus.len() <= MAX_RSA_BYTES && (1..=8).contains(&exponent.len());
                is_sane.then_some(KeyMaterial::Rsa { modulus, exponent })?
            }
            ("EC", Some("P-256")) => point(Curve::P256, 32)?,
            ("EC", Some("P-384")) => point(Curve::P384, 48)?,
            ("EC", Some("P-521")) => point(Curve::P521, 66)?,
            ("OKP", Some("Ed25519")) => {
                KeyMaterial::Ed25519(number("x").filter(|it| it.len() == 32)?)
            }
            _ => return None,
        };
        let [kid, alg] = ["kid", "alg"].map(|name| text(name).map(str::to_owned));
        Some(Jwk { kid, alg, material })
    }

    /// Parses the JWK of a DPoP proof, which must not contain private members.
    pub fn parse_public(jwk: &Value) -> Option<Jwk> {
        let private = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];
        let is_public = private.iter().all(|name| jwk.get(name).is_none());
        is_public.then(|| Jwk::parse(jwk)).flatten()
    }

    /// The JWK thumbprint (RFC 7638): the required members in lexicographic order.
    pub fn thumbprint(&self) -> String {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let canonical = match &self.material {
            KeyMaterial::Rsa { modulus, exponent } => {
                json!({ "e": text(exponent), "kty": "RSA", "n": text(modulus) })
            }
            KeyMaterial::Ec { curve, point } => {
                let name = match curve {
                    Curve::P256 => "P-256",
                    Curve::P384 => "P-384",
                    Curve::P521 => "P-521",
                };
                let (x, y) = point[1..].split_at((point.len() - 1) / 2);
                json!({ "crv": name, "kty": "EC", "x": text(x), "y": text(y) })
            }
            KeyMaterial::Ed25519(x) => json!({ "crv": "Ed25519", "kty": "OKP", "x": text(x) }),
        };
        sha256_base64url(canonical.to_string().as_bytes())
    }

    /// Whether the key can verify this algorithm. The key determines the possible algorithms; the header only
    /// selects one of them.
    fn supports(&self, jws: &Jws<'_>) -> bool {
        let of_kind = match (&self.material, jws.algorithm) {
            (KeyMaterial::Rsa { .. }, Algorithm::Rsa(_))
            | (KeyMaterial::Ed25519(_), Algorithm::Ed25519) => true,
            (KeyMaterial::Ec { curve, .. }, Algorithm::Ecdsa(named)) => *curve == named,
            (
                KeyMaterial::Rsa { .. } | KeyMaterial::Ec { .. } | KeyMaterial::Ed25519(_),
                Algorithm::Rsa(_) | Algorithm::Ecdsa(_) | Algorithm::Ed25519,
            ) => false,
        };
        let is_for = |alg: &String| Algorithm::parse(alg) == Some(jws.algorithm);
        of_kind && self.alg.as_ref().is_none_or(is_for)
    }

    fn verifies(&self, jws: &Jws<'_>) -> bool {
        let (message, signature) = (jws.message.as_bytes(), &jws.signature[..]);
        if !self.supports(jws) {
            return false;
        }
        match &self.material {
            KeyMaterial::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: &modulus[..], e: &exponent[..] };
                let parameters = jws.algorithm.rsa_parameters();
                parameters
                    .is_some_and(|parameters| key.verify(parameters, message, signature).is_ok())
            }
            KeyMaterial::Ec { curve, point } => {
                let parameters: &'static EcdsaVerificationAlgorithm = match curve {
                    Curve::P256 => &ECDSA_P256_SHA256_FIXED,
                    Curve::P384 => &ECDSA_P384_SHA384_FIXED,
                    Curve::P521 => &ECDSA_P521_SHA512_FIXED,
                };
                UnparsedPublicKey::new(parameters, point).verify(message, signature).is_ok()
            }
            KeyMaterial::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
            }
        }
    }
}

/// The keys of an issuer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Jwks(Vec<Jwk>);

impl Jwks {
    /// Parses a JWKS and drops unusable keys. `None` if it is not a JWKS.
    pub fn parse(body: &[u8]) -> Option<Jwks> {
        #[derive(Deserialize)]
        struct Raw {
            keys: Vec<Value>,
        }
        let raw: Raw = serde_json::from_slice(body).ok()?;
        Some(Jwks(raw.keys.iter().filter_map(Jwk::parse).take(MAX_KEYS).collect()))
    }

    /// Whether a key may have signed this token. Without `kid`, any key of the right type may have.
    pub fn has_candidate(&self, jws: &Jws<'_>) -> bool {
        self.candidates(jws).next().is_some()
    }

    /// The claims, if one of the keys signed them.
    pub fn verified_claims<T: for<'de> Deserialize<'de>>(&self, jws: &Jws<'_>) -> Option<T> {
        self.candidates(jws).take(MAX_CANDIDATES).find_map(|key| jws.verified_claims(key))
    }

    fn candidates<'a>(&'a self, jws: &'a Jws<'_>) -> impl Iterator<Item = &'a Jwk> {
        let kid = &jws.header.kid;
        self.0.iter().filter(move |key| (kid.is_none() || key.kid == *kid) && key.supports(jws))
    }
}
