//! A token that is removed from the token file: its streams and sessions end, and those of other clients do not.

use serde_json::json;
use switchboard_gateway::RevokedSubject;
use tokio::time::timeout;

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, ServerMatrix, TEST_TIMEOUT, token};
use crate::raw_http::{RawClient, RawResponse};
use crate::test_client::{ClientKind, TestClient};

/// Reads a stream to its end.
async fn read_to_end(stream: &mut RawResponse) {
    let ended = async { while stream.event().await.is_some() {} };
    timeout(TEST_TIMEOUT, ended).await.expect("the stream ends");
}

/// Leaves only the token of the second client.
fn revoke_first(fixture: &GatewayFixture) {
    let path = fixture.folder.path().join("tokens");
    std::fs::write(&path, format!("c1: {}\n", token(1))).expect("it can be written");
    fixture.token_file.as_ref().expect("clients authenticate").reload().expect("it is valid");
}

#[tokio::test]
async fn a_revoked_token_ends_its_streams_and_sessions() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["ls", "mh"], FixtureOptions::default()).await;
    let legacy = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let other = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 1).await;
    let mut modern = TestClient::connect(&mut fixture, ClientKind::ModernHttp, 0).await;
    let mut standing = legacy.http.open_stream(None).await;
    let standing_of_other = other.http.open_stream(None).await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let listen = modern.build_request("subscriptions/listen", listen);
    let mut listening = modern.http.post(&listen).await;
    let call = json!({"name": "mcp__mh__talk",
                      "arguments": {"text": "slow", "steps": 1, "ms": 600_000}});
    let call = modern.build_request("tools/call", call);
    let mut calling = modern.http.post(&call).await;
    for stream in [&standing, &standing_of_other, &listening, &calling] {
        assert!(stream.is_stream(), "{stream:?}");
    }
    revoke_first(&fixture);
    for stream in [&mut standing, &mut listening, &mut calling] {
        read_to_end(stream).await;
    }
    // The session has ended: not even a valid token of the same name reaches it.
    let path = fixture.folder.path().join("tokens");
    std::fs::write(&path, format!("c0: {}\nc1: {}\n", token(0), token(1))).expect("written");
    fixture.token_file.as_ref().expect("clients authenticate").reload().expect("it is valid");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let ended = async { while legacy.http.post(&ping).await.status != 404 {} };
    timeout(TEST_TIMEOUT, ended).await.expect("the session ends");
    assert_eq!(other.http.post(&ping).await.status, 200);
    let fresh = RawClient { session: None, ..legacy.http.clone() };
    assert_eq!(fresh.open_stream(None).await.status, 405, "without a session");
    // The stream of the other client is open: it ends with the gateway.
    drop((legacy, other, modern, standing_of_other));
    fixture.stop().await;
}

#[tokio::test]
async fn a_revoked_principal_is_refused_until_it_is_restored() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["mh"], FixtureOptions::default()).await;
    let legacy = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let other = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 1).await;
    let mut standing = legacy.http.open_stream(None).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let first = RevokedSubject::Principal("c0".to_owned());
    assert_eq!(fixture.gateway.restore(&first).await, Ok(false), "it was not revoked");
    fixture.gateway.revoke(first.clone()).await.expect("there is no store");
    assert!(fixture.gateway.is_revoked(&first));
    read_to_end(&mut standing).await;
    let refused = legacy.http.post(&ping).await;
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").is_some_and(|it| it.contains("invalid_token")));
    assert_eq!(other.http.post(&ping).await.status, 200);
    assert_eq!(fixture.gateway.restore(&first).await, Ok(true));
    let again = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    assert_eq!(again.http.post(&ping).await.status, 200);
    drop((legacy, other, again));
    fixture.stop().await;
}
