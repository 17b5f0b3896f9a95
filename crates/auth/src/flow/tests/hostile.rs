//! Outages, hostile metadata, and events that no step asked for.

use serde_json::{Value, json};

use super::*;
use crate::challenge::AuthChallenge;
use crate::discovery::auth_server_metadata::AuthServerMetadataError;
use crate::discovery::resource_metadata::ResourceMetadataError;
use crate::fetch::origin_guard::UrlError;

#[test]
fn an_outage_is_not_mistaken_for_missing_metadata() {
    assert!(matches!(run_flow(browser(), |_| unreachable()).error(), FlowError::Fetch(_)));
    let run = run_flow(browser(), |_| respond_with(503, json!({})));
    assert_eq!(run.error(), FlowError::Unavailable { status: 503 });
}

#[test]
fn hostile_metadata_ends_the_login() {
    let with_resource = |change: Value| {
        run_flow(browser(), move |request| match request.url.path() {
            "/.well-known/oauth-protected-resource/mcp" => respond_with(200, change.clone()),
            _ => serve(request),
        })
        .error()
    };
    let other = json!({ "resource": "https://evil.example/", "authorization_servers": [] });
    assert!(matches!(
        with_resource(other),
        FlowError::ResourceMetadata(ResourceMetadataError::Mismatch(_))
    ));
    for (named, error) in [
        ("http://as.example.com", UrlError::Unencrypted),
        ("https://169.254.169.254", UrlError::PrivateAddress),
        ("https://localhost", UrlError::PrivateAddress),
        ("javascript:alert(1)", UrlError::Scheme),
        ("file:///etc", UrlError::Scheme),
        ("https://a.b\n", UrlError::Malformed),
    ] {
        let change = json!({ "resource": SERVER, "authorization_servers": [named] });
        let expected = FlowError::Url { what: "authorization server", source: error };
        assert_eq!(with_resource(change), expected, "{named}");
    }
    let with_metadata = |key: &'static str, value: Value| {
        let mut changed = metadata();
        changed[key] = value;
        run_flow(browser(), move |request| match request.url.path() {
            "/.well-known/oauth-authorization-server" => respond_with(200, changed.clone()),
            _ => serve(request),
        })
        .error()
    };
    let wrong = with_metadata("issuer", json!("https://evil.example"));
    assert!(matches!(
        wrong,
        FlowError::AuthServerMetadata(AuthServerMetadataError::WrongIssuer(_))
    ));
    for key in ["authorization_endpoint", "token_endpoint"] {
        for value in
            ["$(calc)", "javascript:alert(1)", "--flag", "https://127.0.0.1/", "https://a\r\n.b"]
        {
            let error = with_metadata(key, json!(value));
            assert!(
                matches!(
                    error,
                    FlowError::AuthServerMetadata(AuthServerMetadataError::Endpoint { .. })
                ),
                "{key} {value}"
            );
        }
    }
    let challenge = AuthChallenge {
        resource_metadata: Some("http://169.254.169.254/latest".to_owned()),
        ..AuthChallenge::default()
    };
    let run = run_flow(LoginPlan { challenge, ..browser() }, serve);
    assert!(run.request_lines().is_empty());
    assert_eq!(
        run.error(),
        FlowError::Url { what: "metadata URL", source: UrlError::PrivateAddress }
    );
}

#[test]
fn unexpected_events_end_a_login() {
    let (mut flow, _) = with_system_random(0, |inputs| Flow::start(browser(), inputs));
    for _ in 0..3 {
        let step = with_system_random(0, |inputs| flow.on(Event::Waited, inputs));
        assert!(matches!(step, Step::Failed(FlowError::UnexpectedEvent)));
    }
}
