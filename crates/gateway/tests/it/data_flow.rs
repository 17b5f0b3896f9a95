//! Rules that apply after results of other tools: what one server has sent must not reach another one.

use serde_json::json;
use switchboard::config::permission::{PermissionMode, PermissionRules};
use switchboard::config::scope::Scope;
use switchboard::config::settings::Settings;
use switchboard::config::source::{Authority, Source};
use switchboard_gateway::SessionPolicy;

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, ServerMatrix};
use crate::test_client::{ALL_KINDS, ClientKind, TestClient};

/// What `lh` has sent must not go to `mh`.
pub fn rules() -> PermissionRules {
    let text = r#"{"permissions": {
        "allow": ["mcp__lh", "mcp__mh"],
        "deny": [{"rule": "mcp__mh", "after": "mcp__lh"}]
    }}"#;
    let source = Source::file(Scope::User, "/srv/operator/settings.json");
    let settings = Settings::read(&source, text, Authority::User);
    assert!(settings.layer.problems.is_empty(), "{:?}", settings.layer.problems);
    settings.permissions
}

async fn fixture(servers: &ServerMatrix) -> GatewayFixture {
    let options = FixtureOptions {
        rules: rules(),
        mode: PermissionMode::DontAsk,
        ..FixtureOptions::default()
    };
    servers.gateway(&["lh", "mh"], options).await
}

async fn client(fixture: &mut GatewayFixture, kind: ClientKind, number: usize) -> TestClient {
    TestClient::with_capabilities(fixture, kind, number, json!({})).await
}

/// The reason why a call of `mh` is denied; `None` if it is made.
pub async fn denied(client: &mut TestClient) -> Option<String> {
    let exchange = client.call("mcp__mh__echo", json!({"text": "hi"}), "").await;
    let result = exchange.result();
    let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    (result["isError"] == true).then_some(text)
}

#[tokio::test]
async fn after_a_result_of_one_server_the_session_cannot_call_the_other() {
    let servers = ServerMatrix::start();
    for kind in ALL_KINDS {
        let mut fixture = fixture(&servers).await;
        let mut first = client(&mut fixture, kind, 0).await;
        assert_eq!(denied(&mut first).await, None, "{kind:?}: nothing was seen yet");
        first.call("mcp__lh__echo", json!({"text": "secret"}), "").await.result();
        let reason = denied(&mut first).await.expect("it is denied");
        let expected = "the deny rule `mcp__mh` after results of `mcp__lh` (user settings)";
        assert!(reason.contains(expected), "{kind:?}: {reason}");
        assert!(!reason.contains("/srv/operator"), "{reason}");
        // The first server can still be called, and other principals are not affected.
        first.call("mcp__lh__echo", json!({"text": "more"}), "").await.result();
        let mut other = client(&mut fixture, kind, 1).await;
        assert_eq!(denied(&mut other).await, None, "{kind:?}: another principal");
        drop((first, other));
        fixture.stop().await;
    }
}

#[tokio::test]
async fn a_resource_counts_as_a_result_and_a_denied_call_does_not() {
    let servers = ServerMatrix::start();
    let mut fixture = fixture(&servers).await;
    let kind = ClientKind::LegacyHttp;
    let mut reader = client(&mut fixture, kind, 0).await;
    let listed = reader.request("resources/list", json!({})).await;
    let uri = listed.result()["resources"][0]["uri"].clone();
    assert_eq!(denied(&mut reader).await, None, "a list is the operator's, and no content");
    reader.request("resources/read", json!({"uri": uri})).await.result();
    assert!(denied(&mut reader).await.is_some(), "the content may be in the arguments");
    drop(reader);
    fixture.stop().await;
}

#[tokio::test]
async fn each_session_has_seen_its_own_results_and_requests_without_one_share_them() {
    let servers = ServerMatrix::start();
    let mut fixture = fixture(&servers).await;
    let mut first = client(&mut fixture, ClientKind::LegacyHttp, 0).await;
    first.call("mcp__lh__echo", json!({"text": "secret"}), "").await.result();
    assert!(denied(&mut first).await.is_some());
    let mut second = client(&mut fixture, ClientKind::LegacyHttp, 0).await;
    assert_eq!(denied(&mut second).await, None, "another session of the same principal");
    let mut without = client(&mut fixture, ClientKind::ModernHttp, 0).await;
    without.call("mcp__lh__echo", json!({"text": "secret"}), "").await.result();
    let mut also_without = client(&mut fixture, ClientKind::ModernHttp, 0).await;
    assert!(denied(&mut also_without).await.is_some(), "nothing tells the two apart");
    drop((first, second, without, also_without));
    fixture.stop().await;
}

#[tokio::test]
async fn a_client_without_a_session_shares_what_its_principal_has_seen() {
    let servers = ServerMatrix::start();
    let options = FixtureOptions {
        rules: rules(),
        mode: PermissionMode::DontAsk,
        sessions: SessionPolicy::NoClients,
        ..FixtureOptions::default()
    };
    let mut fixture = servers.gateway(&["lh", "mh"], options).await;
    let mut first = client(&mut fixture, ClientKind::LegacyHttp, 0).await;
    assert_eq!(first.http.session, None);
    assert_eq!(denied(&mut first).await, None);
    first.call("mcp__lh__echo", json!({"text": "secret"}), "").await.result();
    assert!(denied(&mut first).await.is_some(), "every request is a client of its own");
    let mut other = client(&mut fixture, ClientKind::LegacyHttp, 1).await;
    assert_eq!(denied(&mut other).await, None, "another principal");
    drop((first, other));
    fixture.stop().await;
}
