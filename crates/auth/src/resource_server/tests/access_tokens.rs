//! Which access tokens are accepted.

use serde_json::{Value, json};

use super::issuer::{
    ISSUER, Issuer, RESOURCE, Signer, authenticate_bearer, base64url, claims, jwk_with_kid,
};
use crate::resource_server::{AccessTokenError, AuthError};
use crate::time_and_random::unix_now;

#[tokio::test]
async fn a_valid_token_gives_subject_client_and_scopes() {
    let issuer = Issuer::new();
    let ada = authenticate_bearer(&issuer.authenticator(), &issuer.token(json!({})))
        .await
        .expect("she is let in");
    assert_eq!(ada.to_string(), "ada@https://as.example.com");
    assert_eq!((ada.name(), ada.issuer(), ada.client()), ("ada", Some(ISSUER), Some("editor")));
    assert_eq!(ada.scopes().to_string(), "tools read");
}

#[tokio::test]
async fn every_algorithm_needs_its_own_key_type() {
    let algorithms =
        ["ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];
    let kinds = ["ES256", "ES384", "ES512", "EdDSA", "RS256"];
    let signers = kinds.map(|kind| (kind, Signer::generate(kind)));
    for (kind, signer) in &signers {
        let issuer = Issuer::new();
        issuer.set_keys(&[jwk_with_kid(signer, "k")]);
        let authenticator = issuer.authenticator();
        for algorithm in algorithms {
            let token = signer.sign(&json!({ "alg": algorithm, "kid": "k" }), &claims(json!({})));
            let is_rsa = |name: &str| name.starts_with("RS") || name.starts_with("PS");
            let is_own = *kind == algorithm || (is_rsa(kind) && is_rsa(algorithm));
            assert_eq!(
                authenticate_bearer(&authenticator, &token).await.is_ok(),
                is_own,
                "{kind} {algorithm}"
            );
        }
    }
}

#[tokio::test]
async fn tokens_not_signed_by_the_issuer_are_refused() {
    let issuer = Issuer::new();
    let rsa = Signer::generate("RS256");
    issuer.set_keys(&[jwk_with_kid(&issuer.key, "k1"), jwk_with_kid(&rsa, "r1")]);
    let authenticator = issuer.authenticator();
    let good = issuer.token(json!({}));
    let [header, payload, signature] = good.split('.').collect::<Vec<_>>()[..] else {
        panic!("three")
    };
    let with = |header: Value| format!("{}.{payload}.{signature}", base64url(header.to_string()));
    let malformed = AccessTokenError::Malformed;
    let bad = AccessTokenError::Signature;
    let thief = Signer::generate("ES256");
    let head = json!({ "alg": "ES256", "kid": "k1" });
    let mut bringing = head.clone();
    bringing["jwk"] = thief.jwk();
    bringing["jku"] = json!("https://evil.example/jwks");
    // Key confusion: the public key as an HMAC secret.
    let message =
        format!("{}.{payload}", base64url(json!({ "alg": "HS256", "kid": "r1" }).to_string()));
    let secret = aws_lc_rs::hmac::Key::new(
        aws_lc_rs::hmac::HMAC_SHA256,
        rsa.jwk()["n"].as_str().expect("a modulus").as_bytes(),
    );
    let symmetric =
        format!("{message}.{}", base64url(aws_lc_rs::hmac::sign(&secret, message.as_bytes())));
    let rows = [
        ("none", format!("{}.{payload}.", base64url(r#"{"alg":"none"}"#)), malformed),
        ("None", format!("{}.{payload}.", base64url(r#"{"alg":"None"}"#)), malformed),
        ("none, signed", with(json!({ "alg": "none", "kid": "k1" })), malformed),
        ("symmetric", symmetric, malformed),
        ("no algorithm", with(json!({ "kid": "k1" })), malformed),
        (
            "repeated algorithm",
            format!("{}.{payload}.{signature}", base64url(r#"{"alg":"ES256","alg":"ES256"}"#)),
            malformed,
        ),
        (
            "to be understood",
            with(json!({ "alg": "ES256", "kid": "k1", "crit": ["b64"] })),
            malformed,
        ),
        ("another algorithm", with(json!({ "alg": "RS256", "kid": "k1" })), bad),
        ("another's key", with(json!({ "alg": "ES256", "kid": "r1" })), bad),
        ("another header", with(json!({ "alg": "ES256", "kid": "k1", "x": 1 })), bad),
        ("a thief's", thief.sign(&head, &claims(json!({}))), bad),
        ("its own key", thief.sign(&bringing, &claims(json!({}))), bad),
        (
            "other claims",
            format!(
                "{header}.{}.{signature}",
                base64url(claims(json!({"sub": "eve"})).to_string())
            ),
            bad,
        ),
        ("no signature", format!("{header}.{payload}."), bad),
        ("zeros", format!("{header}.{payload}.{}", base64url([0; 64])), bad),
        ("a short signature", format!("{header}.{payload}.{}", &signature[..80]), bad),
        ("two parts", format!("{header}.{payload}"), malformed),
        ("four parts", format!("{good}.x"), malformed),
        ("five parts", format!("{good}..x"), malformed),
        ("one word", "canary".to_owned(), malformed),
        ("dots", "..".to_owned(), malformed),
        ("padding", format!("{header}=.{payload}.{signature}"), malformed),
        ("too long", format!("{header}.{}.{signature}", "a".repeat(16 * 1024 - 300)), bad),
    ];
    for (what, token, error) in rows {
        assert_eq!(
            authenticate_bearer(&authenticator, &token).await,
            Err(AuthError::Token(error)),
            "{what}"
        );
    }
    assert!(authenticate_bearer(&authenticator, &good).await.is_ok());
}

#[tokio::test]
async fn keys_are_used_only_for_their_purpose() {
    let rsa = Signer::generate("RS256");
    let token = |algorithm: &str| rsa.sign(&json!({ "alg": algorithm }), &claims(json!({})));
    for (change, algorithm, is_taken) in [
        (json!({}), "RS256", true),
        (json!({ "use": "sig", "key_ops": ["verify"], "alg": "RS256" }), "RS256", true),
        (json!({ "alg": "RS256" }), "PS256", false),
        (json!({ "alg": "RS512" }), "RS256", false),
        (json!({ "alg": "RSA-OAEP" }), "RS256", false),
        (json!({ "use": "enc" }), "RS256", false),
        (json!({ "key_ops": ["encrypt"] }), "RS256", false),
        (json!({ "kty": "oct", "k": "AAAA" }), "RS256", false),
        (json!({ "e": "" }), "RS256", false),
        (json!({ "n": "AQAB" }), "RS256", false),
    ] {
        let issuer = Issuer::new();
        let mut jwk = jwk_with_kid(&rsa, "k");
        let map = jwk.as_object_mut().expect("an object");
        map.extend(change.as_object().expect("an object").clone());
        issuer.set_keys(&[
            json!("rubbish"),
            json!({}),
            jwk_with_kid(&Signer::generate("EdDSA"), "other"),
            jwk,
        ]);
        assert_eq!(
            authenticate_bearer(&issuer.authenticator(), &token(algorithm)).await.is_ok(),
            is_taken,
            "{change} {algorithm}"
        );
    }
}

#[tokio::test]
async fn a_token_is_for_us_from_the_issuer_and_of_this_time() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    let now = unix_now();
    for good in [
        json!({ "aud": ["https://other.example", RESOURCE] }),
        json!({ "aud": format!("{RESOURCE}/") }),
        json!({ "exp": now - 30 }),
        json!({ "exp": now as f64 + 0.5 }),
        json!({ "nbf": now + 30 }),
        json!({ "scope": null, "client_id": null, "iat": null }),
    ] {
        assert!(
            authenticate_bearer(&authenticator, &issuer.token(good.clone())).await.is_ok(),
            "{good}"
        );
    }
    for (bad, error) in [
        (json!({ "iss": "https://evil.example" }), AccessTokenError::WrongIssuer),
        (json!({ "iss": "https://as.example.com/" }), AccessTokenError::WrongIssuer),
        (json!({ "iss": "HTTPS://as.example.com" }), AccessTokenError::WrongIssuer),
        (json!({ "iss": null }), AccessTokenError::Malformed),
        (json!({ "iss": [ISSUER] }), AccessTokenError::Malformed),
        (json!({ "aud": null }), AccessTokenError::Malformed),
        (json!({ "aud": "https://mcp.example.com" }), AccessTokenError::WrongAudience),
        (json!({ "aud": "https://mcp.example.com/mcp/more" }), AccessTokenError::WrongAudience),
        (json!({ "aud": "editor" }), AccessTokenError::WrongAudience),
        (json!({ "aud": [] }), AccessTokenError::WrongAudience),
        (json!({ "aud": "" }), AccessTokenError::WrongAudience),
        (json!({ "aud": { "x": RESOURCE } }), AccessTokenError::Malformed),
        (json!({ "exp": now - 61 }), AccessTokenError::Expired),
        (json!({ "exp": 0 }), AccessTokenError::Expired),
        (json!({ "exp": -5 }), AccessTokenError::Expired),
        (json!({ "exp": null }), AccessTokenError::Malformed),
        (json!({ "exp": "tomorrow" }), AccessTokenError::Malformed),
        (json!({ "nbf": now + 120 }), AccessTokenError::NotYetValid),
        (json!({ "nbf": "now" }), AccessTokenError::Malformed),
        (json!({ "sub": null }), AccessTokenError::InvalidSubject),
        (json!({ "sub": "" }), AccessTokenError::InvalidSubject),
        (json!({ "sub": 7 }), AccessTokenError::InvalidSubject),
        (json!({ "sub": "ada\nroot" }), AccessTokenError::InvalidSubject),
        (json!({ "sub": "a".repeat(300) }), AccessTokenError::InvalidSubject),
        (json!({ "cnf": { "x5t#S256": "abc" } }), AccessTokenError::UnsupportedConfirmation),
        (
            json!({ "cnf": { "jkt": "a", "x5t#S256": "b" } }),
            AccessTokenError::UnsupportedConfirmation,
        ),
        (json!({ "cnf": "abc" }), AccessTokenError::UnsupportedConfirmation),
        (json!({ "cnf": { "jkt": "abc" } }), AccessTokenError::WrongScheme),
    ] {
        let refused = authenticate_bearer(&authenticator, &issuer.token(bad.clone())).await;
        assert_eq!(refused, Err(AuthError::Token(error)), "{bad}");
    }
}

#[tokio::test]
async fn other_token_types_are_refused() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    for (typ, is_taken) in [
        (json!("at+jwt"), true),
        (json!("application/at+JWT"), true),
        (json!("JWT"), true),
        (json!(null), true),
        (json!("dpop+jwt"), false),
        (json!("logout+jwt"), false),
        (json!("oauth-id-jag+jwt"), false),
        (json!(""), false),
    ] {
        let token = issuer
            .key
            .sign(&json!({ "typ": typ, "alg": "ES256", "kid": "k1" }), &claims(json!({})));
        let refused = Err(AuthError::Token(AccessTokenError::WrongType));
        match is_taken {
            true => assert!(authenticate_bearer(&authenticator, &token).await.is_ok(), "{typ}"),
            false => {
                assert_eq!(authenticate_bearer(&authenticator, &token).await, refused, "{typ}")
            }
        }
    }
}

#[tokio::test]
async fn scopes_are_read_in_every_form_and_required_ones_are_checked() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator_requiring("tools");
    for good in [
        json!({ "scope": "read tools" }),
        json!({ "scope": null, "scp": ["read", "tools"] }),
        json!({ "scope": null, "scp": "read tools" }),
        json!({ "scope": ["tools"] }),
    ] {
        assert!(
            authenticate_bearer(&authenticator, &issuer.token(good.clone())).await.is_ok(),
            "{good}"
        );
    }
    for bad in [json!({ "scope": null }), json!({ "scope": "tool" }), json!({ "scope": "xtools" })]
    {
        let token = issuer.token(bad.clone());
        for time in ["first", "second"] {
            let refused =
                authenticate_bearer(&authenticator, &token).await.expect_err("it is not enough");
            assert!(matches!(refused, AuthError::InsufficientScope(_)), "{bad} {time}");
            assert_eq!(refused.status(), 403);
            let challenge = authenticator.challenge(&refused).expect("a challenge");
            let challenge = challenge.to_str().expect("a text");
            assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
            assert!(challenge.contains("scope=\"tools\""), "{challenge}");
        }
    }
}
