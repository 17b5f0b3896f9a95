//! How tokens are shown, and what is said to whom shows none.

use std::sync::Arc;

use std::fs;

use http::{HeaderMap, HeaderValue, Method, Uri};
use proptest::prelude::*;
use serde_json::json;

use super::issuer::{Issuer, RESOURCE, headers_of, knock};
use crate::verify::{Asked, BearerList, Doorkeeper, Refusal, TokenFault};

const TOKEN: &str = "0123456789abcdef";

fn list() -> (Doorkeeper, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), format!("editor: {TOKEN}\n")).expect("written");
    let list = Arc::new(BearerList::open(file.path()).expect("a list"));
    (Doorkeeper::List(list), file)
}

/// Headers, and who it is.
type Row<'a> = (&'a [(&'static str, &'a str)], Result<&'a str, Refusal>);

#[tokio::test]
async fn a_token_is_shown_in_one_header_in_one_way() {
    let (door, _file) = list();
    let unlisted = Refusal::Token(TokenFault::Unlisted);
    let rows: &[Row<'_>] = &[
        (&[("authorization", "Bearer 0123456789abcdef")], Ok("editor")),
        (&[("authorization", "bearer  0123456789abcdef ")], Ok("editor")),
        (&[], Err(Refusal::NoToken)),
        (&[("authorization", "Basic MDEyMzQ1Njc4OWFiY2RlZg==")], Err(Refusal::NoToken)),
        (&[("x-api-key", TOKEN)], Err(Refusal::NoToken)),
        (&[("authorization", TOKEN)], Err(Refusal::Malformed)),
        (&[("authorization", "Bearer")], Err(Refusal::Malformed)),
        (&[("authorization", "Bearer ")], Err(Refusal::Malformed)),
        (&[("authorization", "Bearer 0123456789abcdef x")], Err(Refusal::Malformed)),
        (&[("authorization", "Bearer 0123456789abcdef,")], Err(Refusal::Malformed)),
        (&[("authorization", "Bearer \"0123456789abcdef\"")], Err(Refusal::Malformed)),
        (
            &[("authorization", "Bearer 0123456789abcdef"), ("authorization", "Bearer x")],
            Err(Refusal::Malformed),
        ),
        (&[("authorization", "Bearer 0123456789abcdeg")], Err(unlisted.clone())),
        (&[("authorization", "Bearer 0123456789abcde")], Err(unlisted)),
        (&[("authorization", "DPoP 0123456789abcdef")], Err(Refusal::Token(TokenFault::Scheme))),
    ];
    for (headers, expected) in rows {
        let got = knock(&door, headers).await;
        assert_eq!(
            got.as_ref().map(|it| it.name()),
            expected.as_ref().map(|it| *it),
            "{headers:?}"
        );
        let known = door.known(&headers_of(headers));
        assert_eq!(known.as_ref().map(|it| it.name()), expected.as_ref().ok().copied());
    }
    let long = format!("Bearer {}", "a".repeat(20_000));
    assert_eq!(knock(&door, &[("authorization", &long)]).await, Err(Refusal::Malformed));
}

#[tokio::test]
async fn where_nobody_is_asked_everybody_is_local() {
    let door = Doorkeeper::nobody();
    assert_eq!(door.known(&HeaderMap::new()).map(|it| it.to_string()).as_deref(), Some("local"));
    assert!(knock(&door, &[]).await.is_ok());
    assert_eq!((door.document(), door.resource().map(|it| it.url())), (None, None));
}

#[tokio::test]
async fn whoever_is_turned_away_is_told_where_tokens_are() {
    let issuer = Issuer::new();
    let door = issuer.door_for("tools read");
    let place = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
    let said = |door: &Doorkeeper, refusal: &Refusal| {
        let challenge = door.challenge(refusal).expect("a challenge");
        (refusal.status().as_u16(), challenge.to_str().expect("a text").to_owned())
    };
    assert_eq!(
        said(&door, &Refusal::NoToken),
        (401, format!("Bearer resource_metadata=\"{place}\", scope=\"tools read\""))
    );
    assert_eq!(
        said(&door, &Refusal::Token(TokenFault::Expired)),
        (
            401,
            format!(
                "Bearer resource_metadata=\"{place}\", error=\"invalid_token\", \
                 error_description=\"the token has expired\", scope=\"tools read\""
            )
        )
    );
    let (list, _file) = list();
    assert_eq!(said(&list, &Refusal::NoToken), (401, "Bearer".to_owned()));
    assert_eq!(said(&list, &Refusal::Malformed).0, 400);
    let resource = door.resource().expect("a resource");
    assert_eq!(resource.metadata_url().as_str(), place);
    let document = door.document().expect("a document");
    assert_eq!(document["resource"], RESOURCE);
    assert_eq!(document["authorization_servers"], json!(["https://as.example.com"]));
    assert_eq!(document["scopes_supported"], json!(["tools", "read"]));
    assert_eq!(document["bearer_methods_supported"], json!(["header"]));
    let algorithms = document["dpop_signing_alg_values_supported"].as_array().expect("a list");
    assert!(algorithms.contains(&json!("ES256")) && !algorithms.contains(&json!("none")));
    // Our own client understands what we say of ourselves.
    let read = crate::discovery::resource_metadata::read(
        document.to_string().as_bytes(),
        resource.metadata_url(),
        resource.url(),
    );
    assert_eq!(read.expect("metadata").authorization_servers, ["https://as.example.com"]);
    let challenge = said(&door, &Refusal::NoToken).1;
    let parsed = crate::challenge::parse([challenge.as_str()]);
    assert_eq!(parsed[0].parameter("resource_metadata"), Some(place));
}

#[tokio::test]
async fn nothing_that_is_refused_is_repeated() {
    let issuer = Issuer::new();
    let door = issuer.door();
    for token in ["canary", "canary.canary.canary", &issuer.token(json!({ "sub": "canary\n" }))] {
        let refusal = super::issuer::show(&door, token).await.expect_err("it is no token");
        let challenge = door.challenge(&refusal).expect("a challenge");
        let all = format!("{refusal} {refusal:?} {challenge:?} {door:?}");
        assert!(!all.contains("canary") && !all.contains(token), "{all}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_let_anybody_in(
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
            let asked = Asked { headers: &headers, method: &Method::POST, target: &target };
            let (list, _file) = list();
            for door in [list, Issuer::new().door()] {
                let refusal = door.verify(asked).await.expect_err("nobody made a token");
                let _said = door.challenge(&refusal);
                assert!(door.known(&headers).is_none());
            }
        });
    }
}
