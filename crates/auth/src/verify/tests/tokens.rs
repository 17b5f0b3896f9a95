//! Which tokens are taken, and which are not.

use serde_json::{Value, json};

use super::issuer::{ISSUER, Issuer, RESOURCE, Signer, claims, named, show, text};
use crate::runner::now;
use crate::verify::{Refusal, TokenFault};

#[tokio::test]
async fn a_good_token_says_who_it_is_for_whom_and_for_what() {
    let issuer = Issuer::new();
    let ada = show(&issuer.door(), &issuer.token(json!({}))).await.expect("she is let in");
    assert_eq!(ada.to_string(), "ada@https://as.example.com");
    assert_eq!((ada.name(), ada.issuer(), ada.client()), ("ada", Some(ISSUER), Some("editor")));
    assert_eq!(ada.scopes().to_string(), "tools read");
}

#[tokio::test]
async fn every_way_to_sign_is_taken_with_its_own_kind_of_key_only() {
    let ways =
        ["ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];
    let kinds = ["ES256", "ES384", "ES512", "EdDSA", "RS256"];
    let signers = kinds.map(|kind| (kind, Signer::of(kind)));
    for (kind, signer) in &signers {
        let issuer = Issuer::new();
        issuer.has(&[named(signer, "k")]);
        let door = issuer.door();
        for way in ways {
            let token = signer.sign(&json!({ "alg": way, "kid": "k" }), &claims(json!({})));
            let is_rsa = |name: &str| name.starts_with("RS") || name.starts_with("PS");
            let is_own = *kind == way || (is_rsa(kind) && is_rsa(way));
            assert_eq!(show(&door, &token).await.is_ok(), is_own, "{kind} {way}");
        }
    }
}

#[tokio::test]
async fn what_is_not_signed_by_the_issuer_is_refused() {
    let issuer = Issuer::new();
    let rsa = Signer::of("RS256");
    issuer.has(&[named(&issuer.key, "k1"), named(&rsa, "r1")]);
    let door = issuer.door();
    let good = issuer.token(json!({}));
    let [header, said, signature] = good.split('.').collect::<Vec<_>>()[..] else {
        panic!("three")
    };
    let with = |header: Value| format!("{}.{said}.{signature}", text(header.to_string()));
    let malformed = TokenFault::Malformed;
    let bad = TokenFault::Signature;
    let thief = Signer::of("ES256");
    let head = json!({ "alg": "ES256", "kid": "k1" });
    let mut bringing = head.clone();
    bringing["jwk"] = thief.jwk();
    bringing["jku"] = json!("https://evil.example/jwks");
    // The classic: the public key as the secret of something symmetric.
    let message = format!("{}.{said}", text(json!({ "alg": "HS256", "kid": "r1" }).to_string()));
    let secret = aws_lc_rs::hmac::Key::new(
        aws_lc_rs::hmac::HMAC_SHA256,
        rsa.jwk()["n"].as_str().expect("a modulus").as_bytes(),
    );
    let symmetric =
        format!("{message}.{}", text(aws_lc_rs::hmac::sign(&secret, message.as_bytes())));
    let rows = [
        ("none", format!("{}.{said}.", text(r#"{"alg":"none"}"#)), malformed),
        ("None", format!("{}.{said}.", text(r#"{"alg":"None"}"#)), malformed),
        ("none, signed", with(json!({ "alg": "none", "kid": "k1" })), malformed),
        ("symmetric", symmetric, malformed),
        ("no algorithm", with(json!({ "kid": "k1" })), malformed),
        (
            "said twice",
            format!("{}.{said}.{signature}", text(r#"{"alg":"ES256","alg":"ES256"}"#)),
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
            format!("{header}.{}.{signature}", text(claims(json!({"sub": "eve"})).to_string())),
            bad,
        ),
        ("no signature", format!("{header}.{said}."), bad),
        ("zeros", format!("{header}.{said}.{}", text([0; 64])), bad),
        ("a short signature", format!("{header}.{said}.{}", &signature[..80]), bad),
        ("two parts", format!("{header}.{said}"), malformed),
        ("four parts", format!("{good}.x"), malformed),
        ("five parts", format!("{good}..x"), malformed),
        ("one word", "canary".to_owned(), malformed),
        ("dots", "..".to_owned(), malformed),
        ("padding", format!("{header}=.{said}.{signature}"), malformed),
        ("too long", format!("{header}.{}.{signature}", "a".repeat(16 * 1024 - 300)), bad),
    ];
    for (what, token, fault) in rows {
        assert_eq!(show(&door, &token).await, Err(Refusal::Token(fault)), "{what}");
    }
    assert!(show(&door, &good).await.is_ok());
}

#[tokio::test]
async fn keys_are_for_what_they_say() {
    let rsa = Signer::of("RS256");
    let token = |way: &str| rsa.sign(&json!({ "alg": way }), &claims(json!({})));
    for (change, way, is_taken) in [
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
        let mut jwk = named(&rsa, "k");
        let map = jwk.as_object_mut().expect("an object");
        map.extend(change.as_object().expect("an object").clone());
        issuer.has(&[json!("rubbish"), json!({}), named(&Signer::of("EdDSA"), "other"), jwk]);
        assert_eq!(show(&issuer.door(), &token(way)).await.is_ok(), is_taken, "{change} {way}");
    }
}

#[tokio::test]
async fn a_token_is_for_us_from_the_issuer_and_of_this_time() {
    let issuer = Issuer::new();
    let door = issuer.door();
    let now = now();
    for good in [
        json!({ "aud": ["https://other.example", RESOURCE] }),
        json!({ "aud": format!("{RESOURCE}/") }),
        json!({ "exp": now - 30 }),
        json!({ "exp": now as f64 + 0.5 }),
        json!({ "nbf": now + 30 }),
        json!({ "scope": null, "client_id": null, "iat": null }),
    ] {
        assert!(show(&door, &issuer.token(good.clone())).await.is_ok(), "{good}");
    }
    for (bad, fault) in [
        (json!({ "iss": "https://evil.example" }), TokenFault::Issuer),
        (json!({ "iss": "https://as.example.com/" }), TokenFault::Issuer),
        (json!({ "iss": "HTTPS://as.example.com" }), TokenFault::Issuer),
        (json!({ "iss": null }), TokenFault::Malformed),
        (json!({ "iss": [ISSUER] }), TokenFault::Malformed),
        (json!({ "aud": null }), TokenFault::Malformed),
        (json!({ "aud": "https://mcp.example.com" }), TokenFault::Audience),
        (json!({ "aud": "https://mcp.example.com/mcp/more" }), TokenFault::Audience),
        (json!({ "aud": "editor" }), TokenFault::Audience),
        (json!({ "aud": [] }), TokenFault::Audience),
        (json!({ "aud": "" }), TokenFault::Audience),
        (json!({ "aud": { "x": RESOURCE } }), TokenFault::Malformed),
        (json!({ "exp": now - 61 }), TokenFault::Expired),
        (json!({ "exp": 0 }), TokenFault::Expired),
        (json!({ "exp": -5 }), TokenFault::Expired),
        (json!({ "exp": null }), TokenFault::Malformed),
        (json!({ "exp": "tomorrow" }), TokenFault::Malformed),
        (json!({ "nbf": now + 120 }), TokenFault::Early),
        (json!({ "nbf": "now" }), TokenFault::Malformed),
        (json!({ "sub": null }), TokenFault::Subject),
        (json!({ "sub": "" }), TokenFault::Subject),
        (json!({ "sub": 7 }), TokenFault::Subject),
        (json!({ "sub": "ada\nroot" }), TokenFault::Subject),
        (json!({ "sub": "a".repeat(300) }), TokenFault::Subject),
        (json!({ "cnf": { "x5t#S256": "abc" } }), TokenFault::Binding),
        (json!({ "cnf": { "jkt": "a", "x5t#S256": "b" } }), TokenFault::Binding),
        (json!({ "cnf": "abc" }), TokenFault::Binding),
        (json!({ "cnf": { "jkt": "abc" } }), TokenFault::Scheme),
    ] {
        let refused = show(&door, &issuer.token(bad.clone())).await;
        assert_eq!(refused, Err(Refusal::Token(fault)), "{bad}");
    }
}

#[tokio::test]
async fn a_token_for_another_purpose_is_no_access_token() {
    let issuer = Issuer::new();
    let door = issuer.door();
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
        let refused = Err(Refusal::Token(TokenFault::Type));
        match is_taken {
            true => assert!(show(&door, &token).await.is_ok(), "{typ}"),
            false => assert_eq!(show(&door, &token).await, refused, "{typ}"),
        }
    }
}

#[tokio::test]
async fn scopes_are_read_in_every_form_and_needed_ones_must_be_there() {
    let issuer = Issuer::new();
    let door = issuer.door_for("tools");
    for good in [
        json!({ "scope": "read tools" }),
        json!({ "scope": null, "scp": ["read", "tools"] }),
        json!({ "scope": null, "scp": "read tools" }),
        json!({ "scope": ["tools"] }),
    ] {
        assert!(show(&door, &issuer.token(good.clone())).await.is_ok(), "{good}");
    }
    for bad in [json!({ "scope": null }), json!({ "scope": "tool" }), json!({ "scope": "xtools" })]
    {
        let token = issuer.token(bad.clone());
        for time in ["first", "second"] {
            let refused = show(&door, &token).await.expect_err("it is not enough");
            assert!(matches!(refused, Refusal::Scopes(_)), "{bad} {time}");
            assert_eq!(refused.status(), 403);
            let challenge = door.challenge(&refused).expect("a challenge");
            let challenge = challenge.to_str().expect("a text");
            assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
            assert!(challenge.contains("scope=\"tools\""), "{challenge}");
        }
    }
}
