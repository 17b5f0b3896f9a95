//! How requests present tokens, and the challenges of refused requests.

use std::sync::Arc;

use std::fs;

use http::{HeaderMap, HeaderValue, Method, Uri};
use proptest::prelude::*;
use serde_json::json;

use super::issuer::{Issuer, RESOURCE, authenticate, header_map};
use crate::resource_server::{AccessTokenError, AuthError, Authenticator, RequestHead, TokenFile};

const TOKEN: &str = "0123456789abcdef";

fn list() -> (Authenticator, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), format!("editor: {TOKEN}\n")).expect("written");
    let list = Arc::new(TokenFile::open(file.path()).expect("a list"));
    (Authenticator::TokenFile(list), file)
}

/// Headers, and the expected name.
type Row<'a> = (&'a [(&'static str, &'a str)], Result<&'a str, AuthError>);

#[tokio::test]
async fn a_token_is_presented_in_one_authorization_header() {
    let (authenticator, _file) = list();
    let unlisted = AuthError::Token(AccessTokenError::Unknown);
    let rows: &[Row<'_>] = &[
        (&[("authorization", "Bearer 0123456789abcdef")], Ok("editor")),
        (&[("authorization", "bearer  0123456789abcdef ")], Ok("editor")),
        (&[], Err(AuthError::MissingToken)),
        (&[("authorization", "Basic MDEyMzQ1Njc4OWFiY2RlZg==")], Err(AuthError::MissingToken)),
        (&[("x-api-key", TOKEN)], Err(AuthError::MissingToken)),
        (&[("authorization", TOKEN)], Err(AuthError::Malformed)),
        (&[("authorization", "Bearer")], Err(AuthError::Malformed)),
        (&[("authorization", "Bearer ")], Err(AuthError::Malformed)),
        (&[("authorization", "Bearer 0123456789abcdef x")], Err(AuthError::Malformed)),
        (&[("authorization", "Bearer 0123456789abcdef,")], Err(AuthError::Malformed)),
        (&[("authorization", "Bearer \"0123456789abcdef\"")], Err(AuthError::Malformed)),
        (
            &[("authorization", "Bearer 0123456789abcdef"), ("authorization", "Bearer x")],
            Err(AuthError::Malformed),
        ),
        (&[("authorization", "Bearer 0123456789abcdeg")], Err(unlisted.clone())),
        (&[("authorization", "Bearer 0123456789abcde")], Err(unlisted)),
        (
            &[("authorization", "DPoP 0123456789abcdef")],
            Err(AuthError::Token(AccessTokenError::WrongScheme)),
        ),
    ];
    for (headers, expected) in rows {
        let got = authenticate(&authenticator, headers).await;
        assert_eq!(
            got.as_ref().map(|it| it.name()),
            expected.as_ref().map(|it| *it),
            "{headers:?}"
        );
        let known = authenticator.cached(&header_map(headers));
        assert_eq!(known.as_ref().map(|it| it.name()), expected.as_ref().ok().copied());
    }
    let long = format!("Bearer {}", "a".repeat(20_000));
    assert_eq!(
        authenticate(&authenticator, &[("authorization", &long)]).await,
        Err(AuthError::Malformed)
    );
}

#[tokio::test]
async fn without_authentication_every_request_is_local() {
    let authenticator = Authenticator::disabled();
    assert_eq!(
        authenticator.cached(&HeaderMap::new()).map(|it| it.to_string()).as_deref(),
        Some("local")
    );
    assert!(authenticate(&authenticator, &[]).await.is_ok());
    assert_eq!(
        (authenticator.metadata_document(), authenticator.resource().map(|it| it.url())),
        (None, None)
    );
}

#[tokio::test]
async fn a_refusal_names_the_metadata_url() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator_requiring("tools read");
    let metadata_url = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
    let challenge_of = |authenticator: &Authenticator, refusal: &AuthError| {
        let challenge = authenticator.challenge(refusal).expect("a challenge");
        (refusal.status().as_u16(), challenge.to_str().expect("a text").to_owned())
    };
    assert_eq!(
        challenge_of(&authenticator, &AuthError::MissingToken),
        (401, format!("Bearer resource_metadata=\"{metadata_url}\", scope=\"tools read\""))
    );
    assert_eq!(
        challenge_of(&authenticator, &AuthError::Token(AccessTokenError::Expired)),
        (
            401,
            format!(
                "Bearer resource_metadata=\"{metadata_url}\", error=\"invalid_token\", \
                 error_description=\"the token has expired\", scope=\"tools read\""
            )
        )
    );
    let (list, _file) = list();
    assert_eq!(challenge_of(&list, &AuthError::MissingToken), (401, "Bearer".to_owned()));
    assert_eq!(challenge_of(&list, &AuthError::Malformed).0, 400);
    let resource = authenticator.resource().expect("a resource");
    assert_eq!(resource.metadata_url().as_str(), metadata_url);
    let document = authenticator.metadata_document().expect("a document");
    assert_eq!(document["resource"], RESOURCE);
    assert_eq!(document["authorization_servers"], json!(["https://as.example.com"]));
    assert_eq!(document["scopes_supported"], json!(["tools", "read"]));
    assert_eq!(document["bearer_methods_supported"], json!(["header"]));
    let algorithms = document["dpop_signing_alg_values_supported"].as_array().expect("a list");
    assert!(algorithms.contains(&json!("ES256")) && !algorithms.contains(&json!("none")));
    // Our own client accepts our metadata.
    let read = crate::discovery::resource_metadata::parse_resource_metadata(
        document.to_string().as_bytes(),
        resource.metadata_url(),
        resource.url(),
    );
    assert_eq!(read.expect("metadata").authorization_servers, ["https://as.example.com"]);
    let challenge = challenge_of(&authenticator, &AuthError::MissingToken).1;
    let parsed = crate::challenge::parse([challenge.as_str()]);
    assert_eq!(parsed[0].parameter("resource_metadata"), Some(metadata_url));
}

#[tokio::test]
async fn errors_contain_nothing_of_the_token() {
    let issuer = Issuer::new();
    let authenticator = issuer.authenticator();
    for token in ["canary", "canary.canary.canary", &issuer.token(json!({ "sub": "canary\n" }))] {
        let refusal = super::issuer::authenticate_bearer(&authenticator, token)
            .await
            .expect_err("it is no token");
        let challenge = authenticator.challenge(&refusal).expect("a challenge");
        let all = format!("{refusal} {refusal:?} {challenge:?} {authenticator:?}");
        assert!(!all.contains("canary") && !all.contains(token), "{all}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_or_authenticate(
        scheme in prop::sample::select(vec!["", "Bearer ", "DPoP ", "bearer  "]),
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..80),
            "[A-Za-z0-9_-]{0,20}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,20}".prop_map(String::into_bytes),
            "eyJhbGciOiJFUzI1NiJ9\\.e[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{86}".prop_map(String::into_bytes),
        ],
    ) {
        let Ok(value) = HeaderValue::from_bytes(&[scheme.as_bytes(), &bytes].concat()) else {
            return Ok(());
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", value.clone());
            headers.insert("dpop", value);
            let target = Uri::from_static("/mcp");
            let request = RequestHead { headers: &headers, method: &Method::POST, uri: &target };
            let (list, _file) = list();
            for authenticator in [list, Issuer::new().authenticator()] {
                let refusal = authenticator.authenticate(request).await.expect_err("no token was issued");
                let _said = authenticator.challenge(&refusal);
                assert!(authenticator.cached(&headers).is_none());
            }
        });
    }
}
