//! Bound tokens with a valid proof, an invalid one, and none.

use serde_json::{Value, json};
use url::Url;

use super::issuer::{Issuer, RESOURCE, Signer, authenticate, authenticate_bearer};
use crate::crypto::digest::sha256_base64url;
use crate::crypto::dpop::{DpopKey, ProofTarget};
use crate::resource_server::jws::Jwk;
use crate::resource_server::{
    AccessTokenError, AuthError, Authenticator, DpopProofError, Principal,
};
use crate::secret::Secret;
use crate::time_and_random::{unix_now, with_system_random};

async fn bound(
    authenticator: &Authenticator,
    token: &str,
    proofs: &[&str],
) -> Result<Principal, AuthError> {
    let authorization = format!("DPoP {token}");
    let mut headers = vec![("authorization", authorization.as_str())];
    headers.extend(proofs.iter().map(|proof| ("dpop", *proof)));
    authenticate(authenticator, &headers).await
}

#[tokio::test]
async fn a_proof_of_our_client_is_accepted_once() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    let key = DpopKey::generate();
    let token = issuer.token(json!({ "cnf": { "jkt": key.thumbprint() } }));
    let secret = Secret::new(token.clone());
    let proof = |url: &str| {
        let url = Url::parse(url).expect("a URL");
        let proven = ProofTarget { method: "POST", url: &url, nonce: None, token: Some(&secret) };
        with_system_random(unix_now(), |inputs| key.sign_proof(proven, inputs)).reveal().to_owned()
    };
    for time in ["first", "second"] {
        let proof = proof("https://mcp.example.com/mcp?x=y");
        let ada = bound(&authenticator, &token, &[&proof]).await.expect(time);
        assert_eq!(ada.name(), "ada");
        let again = bound(&authenticator, &token, &[&proof]).await;
        assert_eq!(again, Err(AuthError::Proof(DpopProofError::Replayed)));
    }
    // A bound token is never cached for Bearer, and never accepted as one.
    let headers = super::issuer::header_map(&[("authorization", &format!("Bearer {token}"))]);
    assert_eq!(authenticator.cached(&headers), None);
    assert_eq!(
        authenticate_bearer(&authenticator, &token).await,
        Err(AuthError::Token(AccessTokenError::WrongScheme))
    );
    let free = issuer.token(json!({}));
    let presented = bound(&authenticator, &free, &[&proof(RESOURCE)]).await;
    assert_eq!(presented, Err(AuthError::Token(AccessTokenError::WrongScheme)));
}

#[tokio::test]
async fn every_defect_of_a_proof_is_refused() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    let key = Signer::generate("ES256");
    let thief = Signer::generate("ES256");
    let jkt = Jwk::parse(&key.jwk()).expect("a key").thumbprint();
    let token = issuer.token(json!({ "cnf": { "jkt": jkt } }));
    let mut number = 0;
    let mut made = |signer: &Signer, header: Value, claims: Value| {
        number += 1;
        let mut whole = (
            json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": signer.jwk() }),
            json!({ "jti": number.to_string(), "htm": "POST", "htu": RESOURCE, "iat": unix_now(), "ath": sha256_base64url(token.as_bytes()) }),
        );
        for (to, from) in [(&mut whole.0, header), (&mut whole.1, claims)] {
            let to = to.as_object_mut().expect("an object");
            to.extend(from.as_object().expect("an object").clone());
        }
        signer.sign(&whole.0, &whole.1)
    };
    let mut private = key.jwk();
    private["d"] = json!("AAAA");
    let good = made(&key, json!({}), json!({}));
    assert!(bound(&authenticator, &token, &[&good]).await.is_ok());
    let now = unix_now();
    let mut rows = vec![
        (
            "other method",
            made(&key, json!({}), json!({ "htm": "GET" })),
            DpopProofError::WrongRequest,
        ),
        (
            "other case",
            made(&key, json!({}), json!({ "htm": "post" })),
            DpopProofError::WrongRequest,
        ),
        (
            "other host",
            made(&key, json!({}), json!({ "htu": "https://evil.example/mcp" })),
            DpopProofError::WrongRequest,
        ),
        (
            "other path",
            made(&key, json!({}), json!({ "htu": "https://mcp.example.com/" })),
            DpopProofError::WrongRequest,
        ),
        (
            "other scheme",
            made(&key, json!({}), json!({ "htu": "http://mcp.example.com/mcp" })),
            DpopProofError::WrongRequest,
        ),
        ("no URL", made(&key, json!({}), json!({ "htu": "mcp" })), DpopProofError::WrongRequest),
        (
            "other token",
            made(&key, json!({}), json!({ "ath": sha256_base64url(b"another") })),
            DpopProofError::WrongToken,
        ),
        (
            "old",
            made(&key, json!({}), json!({ "iat": now - 150 })),
            DpopProofError::OutsideTimeWindow,
        ),
        (
            "future",
            made(&key, json!({}), json!({ "iat": now + 90 })),
            DpopProofError::OutsideTimeWindow,
        ),
        (
            "below zero",
            made(&key, json!({}), json!({ "iat": -1 })),
            DpopProofError::OutsideTimeWindow,
        ),
        ("huge", made(&key, json!({}), json!({ "iat": 1e300 })), DpopProofError::OutsideTimeWindow),
        ("no name", made(&key, json!({}), json!({ "jti": "" })), DpopProofError::Malformed),
        (
            "long name",
            made(&key, json!({}), json!({ "jti": "x".repeat(300) })),
            DpopProofError::Malformed,
        ),
        ("no number", made(&key, json!({}), json!({ "iat": "now" })), DpopProofError::Malformed),
        ("no type", made(&key, json!({ "typ": "JWT" }), json!({})), DpopProofError::Malformed),
        ("symmetric", made(&key, json!({ "alg": "HS256" }), json!({})), DpopProofError::Malformed),
        ("none", made(&key, json!({ "alg": "none" }), json!({})), DpopProofError::Malformed),
        ("private", made(&key, json!({ "jwk": private }), json!({})), DpopProofError::Malformed),
        ("no key", made(&key, json!({ "jwk": {} }), json!({})), DpopProofError::Malformed),
        ("thief's key", made(&thief, json!({}), json!({})), DpopProofError::WrongKey),
        (
            "thief's signature",
            made(&thief, json!({ "jwk": key.jwk() }), json!({})),
            DpopProofError::Malformed,
        ),
        ("rubbish", "rubbish".to_owned(), DpopProofError::Malformed),
        ("the token itself", token.clone(), DpopProofError::Malformed),
    ];
    let long = format!("{}{}", made(&key, json!({}), json!({})), "a".repeat(9000));
    rows.push(("long", long, DpopProofError::Malformed));
    for (what, proof, error) in rows {
        assert_eq!(
            bound(&authenticator, &token, &[&proof]).await,
            Err(AuthError::Proof(error)),
            "{what}"
        );
    }
    assert_eq!(
        bound(&authenticator, &token, &[]).await,
        Err(AuthError::Proof(DpopProofError::Missing))
    );
    let [one, other] = [0, 0].map(|_| made(&key, json!({}), json!({})));
    let refusal =
        bound(&authenticator, &token, &[&one, &other]).await.expect_err("two are too many");
    assert_eq!(refusal, AuthError::Proof(DpopProofError::Multiple));
    assert_eq!(refusal.status(), 401);
    let challenge = authenticator.challenge(&refusal).expect("a challenge");
    let challenge = challenge.to_str().expect("a text");
    assert!(challenge.starts_with("DPoP resource_metadata="), "{challenge}");
    assert!(challenge.contains("error=\"invalid_dpop_proof\""), "{challenge}");
    assert!(challenge.contains("algs=\"ES256 "), "{challenge}");
    // A refused proof is not used up.
    assert!(bound(&authenticator, &token, &[&one]).await.is_ok());
}

#[tokio::test]
async fn a_proof_may_use_every_key_type() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    for algorithm in ["ES256", "ES384", "EdDSA", "RS256"] {
        let key = Signer::generate(algorithm);
        let jkt = Jwk::parse(&key.jwk()).expect("a key").thumbprint();
        let token = issuer.token(json!({ "cnf": { "jkt": jkt } }));
        let proof = key.sign(
            &json!({ "typ": "dpop+jwt", "alg": algorithm, "jwk": key.jwk() }),
            &json!({ "jti": algorithm, "htm": "POST", "htu": RESOURCE, "iat": unix_now(), "ath": sha256_base64url(token.as_bytes()) }),
        );
        assert!(bound(&authenticator, &token, &[&proof]).await.is_ok(), "{algorithm}");
    }
}

#[test]
fn thumbprints_are_those_of_the_standards() {
    // RFC 7638, section 3.1; RFC 8037, appendix A.3; RFC 9449, section 6.1.
    let rsa = json!({ "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29", "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw" });
    let edwards = json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
    let curve = json!({ "kty": "EC", "crv": "P-256", "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs", "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA" });
    for (jwk, thumbprint) in [
        (rsa, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"),
        (edwards, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"),
        (curve, "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"),
    ] {
        assert_eq!(Jwk::parse(&jwk).expect("a key").thumbprint(), thumbprint);
    }
}
