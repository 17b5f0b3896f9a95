//! Limits per principal over real sockets: one client cannot use up what others need.

use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_gateway::{Limits, Quota};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, ServerMatrix, TEST_TIMEOUT};
use crate::raw_http::{LEGACY, MODERN, RawClient, RawResponse};

async fn fixture(limits: Limits) -> (ServerMatrix, GatewayFixture) {
    let upstreams = ServerMatrix::start();
    let options = FixtureOptions { limits, ..FixtureOptions::default() };
    let fixture = upstreams.gateway(&["ls"], options).await;
    (upstreams, fixture)
}

fn initialize() -> Json {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

fn list() -> Json {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}})
}

/// The client in a new session.
async fn with_session(client: &RawClient) -> RawClient {
    let opened = client.post(&initialize()).await;
    assert_eq!(opened.status, 200);
    let session = opened.header("mcp-session-id").map(ToOwned::to_owned);
    RawClient { session, ..client.clone() }
}

async fn check_refused(mut refused: RawResponse, status: u16, limit: &str) {
    assert_eq!(refused.status, status);
    assert!(refused.header("retry-after").is_some());
    let body = refused.message().await.expect("a JSON-RPC error");
    let text = body["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains(&format!("`{limit}`")), "{text}");
}

async fn metrics(client: &RawClient) -> String {
    let head = client.request_head("GET /metrics");
    client.send(format!("{head}\r\n").as_bytes()).await.remaining_text().await
}

#[tokio::test]
async fn one_principal_cannot_take_the_sessions_of_another_and_ended_sessions_do_not_count() {
    let sessions = Quota { per_principal: 2, total: 3 };
    let (_upstreams, fixture) = fixture(Limits { sessions, ..Limits::default() }).await;
    let (first, second) =
        (RawClient::client(fixture.address, 0), RawClient::client(fixture.address, 1));
    let session = with_session(&first).await;
    with_session(&first).await;
    check_refused(first.post(&initialize()).await, 429, "sessions").await;
    with_session(&second).await;
    check_refused(second.post(&initialize()).await, 503, "sessions-total").await;
    let page = metrics(&first).await;
    assert!(page.contains("switchboard_limit_rejections_total{limit=\"sessions\"} 1"), "{page}");
    assert_eq!(session.delete().await.status, 200);
    let reopened = async { while first.post(&initialize()).await.status != 200 {} };
    timeout(TEST_TIMEOUT, reopened).await.expect("the session no longer counts");
    fixture.stop().await;
}

#[tokio::test]
async fn requests_over_the_rate_are_refused_for_their_principal_only() {
    let limits = Limits { requests_per_second: Some(2), ..Limits::default() };
    let (_upstreams, fixture) = fixture(limits).await;
    let first = with_session(&RawClient::client(fixture.address, 0)).await;
    let second = with_session(&RawClient::client(fixture.address, 1)).await;
    let mut refused = None;
    for _ in 0..50 {
        let response = first.post(&list()).await;
        if response.status != 200 {
            refused = Some(response);
            break;
        }
    }
    check_refused(refused.expect("too many requests"), 429, "request-rate").await;
    assert_eq!(second.post(&list()).await.status, 200);
    fixture.stop().await;
}

#[tokio::test]
async fn idle_unauthenticated_connections_do_not_starve_a_client_with_a_token() {
    let connections = Quota { per_principal: 8, total: 8 };
    let limits = Limits { connections, unauthenticated_connections: 2, ..Limits::default() };
    let (_upstreams, fixture) = fixture(limits).await;
    let client = RawClient::client(fixture.address, 0);
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(client.connect().await);
    }
    // The oldest make room.
    for closed in &mut idle[..2] {
        let read = timeout(TEST_TIMEOUT, closed.read_u8()).await;
        assert!(read.expect("it is closed").is_err());
    }
    for _ in 0..8 {
        idle.push(client.connect().await);
        let served = RawClient::client(fixture.address, 1);
        let session = with_session(&served).await;
        assert_eq!(session.post(&list()).await.status, 200);
    }
    drop(idle);
    fixture.stop().await;
}

#[tokio::test]
async fn a_connection_without_an_authenticated_request_is_closed_after_a_timeout() {
    let authentication_timeout = Duration::from_millis(50);
    let (_upstreams, fixture) =
        fixture(Limits { authentication_timeout, ..Limits::default() }).await;
    let client = RawClient::client(fixture.address, 0);
    let mut idle = client.connect().await;
    let read = timeout(Duration::from_secs(10), idle.read_u8()).await;
    assert!(read.expect("closed before the timeout of the head").is_err());
    let session = with_session(&client).await;
    let mut stream = session.open_stream(None).await;
    assert_eq!(stream.status, 200);
    assert!(stream.event().await.is_some());
    let next = timeout(authentication_timeout * 4, stream.event()).await;
    assert!(next.is_err(), "an authenticated connection stays open");
    drop(stream);
    fixture.stop().await;
}

fn modern(method: &str, params: &Json) -> Json {
    let mut params = params.clone();
    let info = json!({"name": "test", "version": "1"});
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": info,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params})
}

#[tokio::test]
async fn listen_streams_count_as_sessions_until_they_end() {
    let sessions = Quota { per_principal: 1, total: 9 };
    let (_upstreams, fixture) = fixture(Limits { sessions, ..Limits::default() }).await;
    let client = RawClient::client(fixture.address, 0);
    let listen = modern("subscriptions/listen", &json!({"notifications": {}}));
    let open = client.post(&listen).await;
    assert!(open.is_stream(), "{open:?}");
    check_refused(client.post(&listen).await, 429, "sessions").await;
    drop(open);
    let reopened = async { while client.post(&listen).await.status != 200 {} };
    timeout(TEST_TIMEOUT, reopened).await.expect("the stream no longer counts");
    fixture.stop().await;
}

#[tokio::test]
async fn connections_are_limited_per_principal_until_they_close() {
    let connections = Quota { per_principal: 2, total: 100 };
    let (_upstreams, fixture) = fixture(Limits { connections, ..Limits::default() }).await;
    let (first, second) =
        (RawClient::client(fixture.address, 0), RawClient::client(fixture.address, 1));
    let listen = modern("subscriptions/listen", &json!({"notifications": {}}));
    let mut open = vec![first.post(&listen).await, first.post(&listen).await];
    assert!(open.iter().all(RawResponse::is_stream), "{open:?}");
    let refused = first.post(&list()).await;
    assert_eq!(refused.header("connection"), Some("close"));
    check_refused(refused, 429, "principal-connections").await;
    assert!(second.post(&listen).await.is_stream(), "another principal");
    open.pop();
    let reopened = async { while first.post(&listen).await.status != 200 {} };
    timeout(TEST_TIMEOUT, reopened).await.expect("the connection no longer counts");
    drop(open);
    fixture.stop().await;
}
