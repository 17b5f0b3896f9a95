//! Logins without a user: client credentials, workload identity, and an identity provider.

use serde_json::json;

use super::*;
use crate::crypto::signing_key::SigningKey;
use crate::crypto::signing_key::tests::verify_and_decode;
use crate::token::response::TokenErrorCode;

#[test]
fn client_credentials_with_a_secret() {
    let setup = configured(ClientCredential::Secret(Secret::new("s")));
    let run =
        run_flow(LoginPlan { client_config: setup, ..plan(LoginGrant::ClientCredentials) }, serve);
    let form = run.last_form();
    assert_eq!(form["grant_type"], "client_credentials");
    assert_eq!(run.requests[2].headers["authorization"], "Basic bWluZTpz");
    assert!(!form.contains_key("client_secret") && run.outcome.is_ok());
}

#[test]
fn client_credentials_with_a_private_key() {
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    };
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let public = pair.public_key().as_ref().to_vec();
    let key = SigningKey::from_ecdsa(std::sync::Arc::new(pair));
    let setup = configured(ClientCredential::PrivateKey(key));
    let run =
        run_flow(LoginPlan { client_config: setup, ..plan(LoginGrant::ClientCredentials) }, serve);
    let form = run.last_form();
    let (_, claims) =
        verify_and_decode(&form["client_assertion"], &ECDSA_P256_SHA256_FIXED, &public);
    assert_eq!([&claims["aud"], &claims["sub"]], ["https://as.example.com", "mine"]);
}

#[test]
fn workload_identity_sends_its_token_once() {
    let setup = configured(ClientCredential::None);
    let method = || LoginGrant::WorkloadIdentity(Secret::new("jwt"));
    let run = run_flow(LoginPlan { client_config: setup.clone(), ..plan(method()) }, serve);
    assert_eq!(run.last_form()["assertion"], "jwt");
    assert!(run.outcome.is_ok());
    let run =
        run_flow(LoginPlan { client_config: setup, ..plan(method()) }, |request| {
            match request.url.path() {
                "/token" => respond_with(400, json!({ "error": "invalid_grant" })),
                _ => serve(request),
            }
        });
    assert_eq!(run.requests.len(), 3);
    let error = run.error();
    let FlowError::Token(error) = &error else { panic!("{error:?}") };
    assert_eq!(error.code(), Some(TokenErrorCode::InvalidGrant));
}

#[test]
fn an_identity_provider_login_opens_no_browser() {
    for endpoint in [None, Some("https://idp.corp.example/token")] {
        let run = run_flow(enterprise(endpoint), with_provider);
        let count = run.requests.len();
        let (at_provider, at_server) = (run.form(count - 2), run.form(count - 1));
        assert_eq!(run.requests[count - 2].url.as_str(), "https://idp.corp.example/token");
        assert_eq!(
            [&at_provider["subject_token"], &at_provider["audience"], &at_provider["resource"]],
            ["id-token", "https://as.example.com", SERVER]
        );
        assert_eq!(at_server["assertion"], "id-jag");
        assert_eq!(run.requests[count - 1].headers["authorization"], "Basic bWluZTphcy1zZWNyZXQ=");
        assert!(run.opened.is_empty() && run.outcome.is_ok());
    }
}

#[test]
fn an_identity_provider_is_signed_in_to_like_a_server() {
    let at_provider = LoginPlan {
        server: url("https://idp.corp.example/"),
        metadata_url: Some(url("https://idp.corp.example/.well-known/openid-configuration")),
        client_config: configured(ClientCredential::None),
        scopes: Some(Scopes::parse("openid")),
        ..browser()
    };
    let run = run_flow_with(
        at_provider,
        |request| match request.url.path() {
            "/.well-known/openid-configuration" => respond_with(
                200,
                json!({
                    "issuer": "https://idp.corp.example",
                    "authorization_endpoint": "https://idp.corp.example/authorize",
                    "token_endpoint": "https://idp.corp.example/token",
                }),
            ),
            "/token" => respond_with(200, json!({ "access_token": "at", "id_token": "who" })),
            _ => not_found(),
        },
        |url| {
            let state = parameter(url, "state").expect("a state");
            vec![format!("code=c&state={state}")]
        },
    );
    assert_eq!(parameter(&run.opened[0], "scope").as_deref(), Some("openid"));
    let login = run.outcome.expect("signed in");
    assert_eq!(login.tokens.id_token, Some(Secret::new("who")));
}
