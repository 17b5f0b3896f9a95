//! When the issuer's keys are fetched, how often, and what happens during an outage.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::advance;

use super::issuer::{
    ISSUER, Issuer, IssuerBehavior, RESOURCE, Signer, authenticate_bearer, claims, header_map,
    jwk_with_kid,
};
use crate::fetch::origin_guard::UrlError;
use crate::resource_server::{
    AccessTokenError, AuthError, Authenticator, IssuerError, JwtPolicy, JwtPolicyError, JwtVerifier,
};
use crate::scopes::Scopes;

fn is_cached(authenticator: &Authenticator, token: &str) -> bool {
    authenticator.cached(&header_map(&[("authorization", &format!("Bearer {token}"))])).is_some()
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_fetch_keys_once() {
    let issuer = Issuer::new();
    let authenticator = std::sync::Arc::new(issuer.authenticator());
    let mut all = JoinSet::new();
    for number in 0..50 {
        let (authenticator, token) =
            (authenticator.clone(), issuer.token(json!({ "sub": number.to_string() })));
        all.spawn(async move { authenticate_bearer(&authenticator, &token).await.is_ok() });
    }
    assert!(all.join_all().await.into_iter().all(|is_in| is_in));
    assert_eq!(issuer.key_fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_verified_token_is_cached() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    let token = issuer.token(json!({}));
    assert!(!is_cached(&authenticator, &token));
    assert!(authenticate_bearer(&authenticator, &token).await.is_ok());
    assert!(is_cached(&authenticator, &token));
    issuer.set_behavior(IssuerBehavior::Down);
    assert!(
        is_cached(&authenticator, &token)
            && authenticate_bearer(&authenticator, &token).await.is_ok()
    );
    assert!(!is_cached(&authenticator, &issuer.token(json!({ "sub": "eve" }))));
    assert_eq!(issuer.fetches.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_are_fetched_at_most_once_a_minute() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    let second = Signer::generate("ES256");
    let token = second.sign(&json!({ "alg": "ES256", "kid": "k2" }), &claims(json!({})));
    let refused = Err(AuthError::Token(AccessTokenError::Signature));
    for _ in 0..20 {
        assert_eq!(authenticate_bearer(&authenticator, &token).await, refused);
    }
    assert_eq!(issuer.key_fetches(), 1);
    issuer.set_keys(&[jwk_with_kid(&issuer.key, "k1"), jwk_with_kid(&second, "k2")]);
    advance(Duration::from_secs(59)).await;
    assert_eq!(authenticate_bearer(&authenticator, &token).await, refused);
    advance(Duration::from_secs(1)).await;
    assert!(authenticate_bearer(&authenticator, &token).await.is_ok());
    assert_eq!(issuer.key_fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_removed_key_expires_after_an_hour() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    let token = issuer.token(json!({}));
    assert!(authenticate_bearer(&authenticator, &token).await.is_ok());
    issuer.set_keys(&[jwk_with_kid(&Signer::generate("ES256"), "k2")]);
    advance(Duration::from_secs(3599)).await;
    assert!(is_cached(&authenticator, &token));
    advance(Duration::from_secs(1)).await;
    // The old keys stay valid until the new ones are fetched.
    assert!(is_cached(&authenticator, &token));
    authenticator.close().await;
    assert!(!is_cached(&authenticator, &token));
    assert_eq!(
        authenticate_bearer(&authenticator, &token).await,
        Err(AuthError::Token(AccessTokenError::Signature))
    );
    assert_eq!(issuer.key_fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_keeps_cached_keys_and_is_temporary() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    issuer.set_behavior(IssuerBehavior::Down);
    let token = issuer.token(json!({}));
    for _ in 0..10 {
        let refused =
            authenticate_bearer(&authenticator, &token).await.expect_err("there are no keys");
        assert!(
            matches!(refused, AuthError::IssuerUnavailable(IssuerError::Fetch(_))),
            "{refused:?}"
        );
        assert_eq!((refused.status().as_u16(), authenticator.challenge(&refused)), (503, None));
    }
    // Both metadata URLs, once.
    assert_eq!(issuer.fetches.load(Ordering::SeqCst), 2);
    issuer.set_behavior(IssuerBehavior::Good);
    advance(Duration::from_secs(5)).await;
    assert!(authenticate_bearer(&authenticator, &token).await.is_ok());
    issuer.set_behavior(IssuerBehavior::Down);
    advance(Duration::from_secs(7200)).await;
    assert!(is_cached(&authenticator, &token));
    authenticator.close().await;
    assert!(is_cached(&authenticator, &token));
    assert!(
        authenticate_bearer(&authenticator, &issuer.token(json!({ "sub": "bob" }))).await.is_ok()
    );
    let rotated =
        Signer::generate("ES256").sign(&json!({ "alg": "ES256", "kid": "k2" }), &claims(json!({})));
    assert!(matches!(
        authenticate_bearer(&authenticator, &rotated).await,
        Err(AuthError::IssuerUnavailable(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_issuer_times_out_and_a_cancelled_request_stops_no_fetch() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    let token = issuer.token(json!({}));
    issuer.set_behavior(IssuerBehavior::Hangs);
    let leaves =
        tokio::time::timeout(Duration::from_secs(1), authenticate_bearer(&authenticator, &token))
            .await;
    assert!(leaves.is_err());
    assert_eq!(
        authenticate_bearer(&authenticator, &token).await,
        Err(AuthError::IssuerUnavailable(IssuerError::TimedOut))
    );
    assert_eq!(issuer.fetches.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn invalid_issuer_metadata_is_refused() {
    for (body, error) in [
        (
            json!({ "issuer": "https://evil.example", "jwks_uri": "https://evil.example/jwks" }),
            IssuerError::WrongIssuer,
        ),
        (
            json!({ "issuer": ISSUER, "jwks_uri": "https://169.254.169.254/jwks" }),
            IssuerError::UnsafeJwksUri(UrlError::PrivateAddress),
        ),
        (
            json!({ "issuer": ISSUER, "jwks_uri": "http://keys.example.com/jwks" }),
            IssuerError::UnsafeJwksUri(UrlError::Unencrypted),
        ),
        (
            json!({ "issuer": ISSUER, "jwks_uri": "file:///etc/passwd" }),
            IssuerError::UnsafeJwksUri(UrlError::Scheme),
        ),
        (
            json!({ "issuer": ISSUER, "jwks_uri": "https://127.0.0.1/jwks" }),
            IssuerError::UnsafeJwksUri(UrlError::PrivateAddress),
        ),
        (
            json!({ "issuer": ISSUER, "jwks_uri": format!("{ISSUER}/jwks") }),
            IssuerError::InvalidJwks,
        ),
        (json!({ "issuer": ISSUER }), IssuerError::NoMetadata),
        (json!([]), IssuerError::NoMetadata),
    ] {
        let issuer = Issuer::new();
        issuer.set_behavior(IssuerBehavior::Returns(body.clone()));
        let refused = authenticate_bearer(&issuer.authenticator(), &issuer.token(json!({}))).await;
        assert_eq!(refused, Err(AuthError::IssuerUnavailable(error)), "{body}");
    }
}

#[tokio::test]
async fn the_issuers_own_spelling_is_used() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    assert_eq!(
        authenticator.metadata_document().expect("a document")["authorization_servers"],
        json!([ISSUER])
    );
    // The configured issuer lacks the trailing slash.
    let name = format!("{ISSUER}/");
    issuer.name.lock().expect("unpoisoned").clone_from(&name);
    assert!(
        authenticate_bearer(&authenticator, &issuer.token(json!({ "iss": name }))).await.is_ok()
    );
    let without = authenticate_bearer(&authenticator, &issuer.token(json!({}))).await;
    assert_eq!(without, Err(AuthError::Token(AccessTokenError::WrongIssuer)));
    assert_eq!(
        authenticator.metadata_document().expect("a document")["authorization_servers"],
        json!([name])
    );
}

#[test]
fn policy_values_must_be_urls() {
    let check = |issuer: &str, resource: &str| {
        let terms = JwtPolicy {
            issuer: issuer.to_owned(),
            resource: resource.to_owned(),
            audiences: Vec::new(),
            scopes: Scopes::default(),
        };
        JwtVerifier::new(terms, Issuer::new(), &[]).map(|_| ())
    };
    assert_eq!(check(ISSUER, RESOURCE), Ok(()));
    assert_eq!(check("http://127.0.0.1:8080/realms/x", "http://127.0.0.1:1/mcp"), Ok(()));
    for bad in [
        "",
        "as.example.com",
        "file:///x",
        "https://u@as.example.com",
        "https://a.b?x",
        "https://a.b#x",
    ] {
        assert_eq!(check(bad, RESOURCE), Err(JwtPolicyError::Issuer), "{bad}");
    }
    for bad in ["", "mcp", "urn:x", "https://u:p@a.b/", "https://a.b/#x"] {
        assert_eq!(check(ISSUER, bad), Err(JwtPolicyError::Resource), "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_credential_of_an_accepted_request_is_valid_until_it_expires_or_its_key_is_withdrawn() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    let credential = |token: &str| {
        authenticator.credential(&header_map(&[("authorization", &format!("Bearer {token}"))]))
    };
    let token = issuer.token(json!({}));
    assert!(authenticate_bearer(&authenticator, &token).await.is_ok());
    let (accepted, expired) = (credential(&token), issuer.token(json!({ "exp": 1 })));
    assert!(authenticator.is_valid(&accepted, |_| false));
    assert!(!authenticator.is_valid(&credential(&expired), |_| false));
    assert!(!authenticator.is_valid(&accepted, |_| true), "it is revoked");
    assert!(!format!("{accepted:?}").contains(&token));
    // Another key of the issuer changes nothing.
    let second = Signer::generate("ES256");
    issuer.set_keys(&[jwk_with_kid(&issuer.key, "k1"), jwk_with_kid(&second, "k2")]);
    advance(Duration::from_secs(3600)).await;
    assert!(authenticator.is_valid(&accepted, |_| false));
    authenticator.close().await;
    assert!(authenticator.is_valid(&accepted, |_| false));
    issuer.set_keys(&[jwk_with_kid(&second, "k2")]);
    advance(Duration::from_secs(3600)).await;
    assert!(authenticator.is_valid(&accepted, |_| false), "until the keys are fetched");
    authenticator.close().await;
    assert!(!authenticator.is_valid(&accepted, |_| false));
}
