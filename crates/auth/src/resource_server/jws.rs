//! Signed statements of others (RFC 7515, compact) and the public keys that they are checked with (RFC 7517). There is
//! no `none` here, nothing symmetric, and no key that a statement brings along but where the caller takes it.

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

/// The longest statement that is looked at.
pub(crate) const MAX_LENGTH: usize = 16 * 1024;
/// The most keys of a set that are kept, and that are tried where a statement does not say which one it is.
const MAX_KEYS: usize = 128;
const MAX_CANDIDATES: usize = 8;
/// The largest RSA key there is, in bytes: checking takes longer with its size.
const MAX_RSA_BYTES: usize = 1024;

/// How a statement is signed.
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

/// Every way to sign that is taken.
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

/// What is said of a statement before it.
#[derive(Debug, Deserialize)]
pub(crate) struct JwsHeader {
    alg: String,
    pub kid: Option<String>,
    pub typ: Option<String>,
    /// The key that a proof brings along.
    pub jwk: Option<Value>,
    /// What must be understood. We understand nothing of the kind.
    crit: Option<Value>,
}

/// A statement whose signature was not looked at yet.
pub(crate) struct Jws<'a> {
    pub header: JwsHeader,
    algorithm: Algorithm,
    message: &'a str,
    claims: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    /// Reads a statement. `None` where it is none that we could check.
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

    /// What it says, if this key signed it.
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
    /// The one algorithm that it is for, where that is said.
    alg: Option<String>,
    material: KeyMaterial,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyMaterial {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point, uncompressed.
    Ec {
        curve: Curve,
        point: Vec<u8>,
    },
    Ed25519(Vec<u8>),
}

impl Jwk {
    /// Reads a key of a set. `None` where it is of another kind or for another purpose.
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

    /// Reads the key that a proof brings along: public, and nothing of the private half with it.
    pub fn parse_public(jwk: &Value) -> Option<Jwk> {
        let private = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];
        let is_public = private.iter().all(|name| jwk.get(name).is_none());
        is_public.then(|| Jwk::parse(jwk)).flatten()
    }

    /// The name by which the key is known (RFC 7638): the members that count, in the order of their names.
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

    /// May it sign in the way that a statement says it is signed? The key decides which ways there are; what the
    /// statement says of itself only picks among them.
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
    /// Reads a set. What is no key that we could use is left out; `None` where it is no set at all.
    pub fn parse(body: &[u8]) -> Option<Jwks> {
        #[derive(Deserialize)]
        struct Raw {
            keys: Vec<Value>,
        }
        let raw: Raw = serde_json::from_slice(body).ok()?;
        Some(Jwks(raw.keys.iter().filter_map(Jwk::parse).take(MAX_KEYS).collect()))
    }

    /// Is there a key that may have signed a statement? One that does not say which may be of any of its kind.
    pub fn has_candidate(&self, jws: &Jws<'_>) -> bool {
        self.candidates(jws).next().is_some()
    }

    /// What a statement says, if one of the keys signed it.
    pub fn verified_claims<T: for<'de> Deserialize<'de>>(&self, jws: &Jws<'_>) -> Option<T> {
        self.candidates(jws).take(MAX_CANDIDATES).find_map(|key| jws.verified_claims(key))
    }

    fn candidates<'a>(&'a self, jws: &'a Jws<'_>) -> impl Iterator<Item = &'a Jwk> {
        let kid = &jws.header.kid;
        self.0.iter().filter(move |key| (kid.is_none() || key.kid == *kid) && key.supports(jws))
    }
}
