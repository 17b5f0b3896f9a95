//! Interrupted streams of legacy sessions: the remaining events come exactly once, in order, and only to their client.

use serde_json::{Value as Json, json};

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, ServerMatrix};
use crate::raw_http::{RawClient, RawResponse, SseEvent};
use crate::test_client::{ClientKind, TestClient, answer_as};

fn call_request(test_client: &mut TestClient, tool: &str, arguments: Json) -> Json {
    let params = json!({"name": format!("mcp__ls__{tool}"), "arguments": arguments,
                        "_meta": {"progressToken": "p"}});
    test_client.build_request("tools/call", params)
}

/// Starts a call, and reads its stream up to the first event with an id.
async fn start_call(
    test_client: &mut TestClient,
    tool: &str,
    arguments: Json,
) -> (Json, RawResponse, String) {
    let request = call_request(test_client, tool, arguments);
    let mut stream = test_client.http.post(&request).await;
    assert!(stream.is_stream());
    let first = stream.event().await.expect("a first event");
    (request["id"].clone(), stream, first.id.expect("it has a name"))
}

fn event_number(event: &SseEvent) -> u64 {
    let id = event.id.as_deref().expect("every event has a name");
    id.rsplit('-').next().and_then(|it| it.parse().ok()).expect("a number")
}

/// Checks that the events after one come once and in order.
#[track_caller]
fn check_order(events: &[SseEvent], after: u64) {
    let places: Vec<u64> = events.iter().map(event_number).collect();
    let expected: Vec<u64> = (after + 1..).take(places.len()).collect();
    assert_eq!(places, expected);
}

async fn fixture() -> (ServerMatrix, GatewayFixture) {
    let upstreams = ServerMatrix::start();
    let fixture = upstreams.gateway(&["ls"], FixtureOptions::shared_processes()).await;
    (upstreams, fixture)
}

#[tokio::test]
async fn an_interrupted_stream_is_resumed_where_it_was() {
    let (_quarter, mut fixture) = fixture().await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let arguments = json!({"text": "t", "steps": 20, "ms": 200, "ask": true});
    let (id, mut stream, mut last) = start_call(&mut test_client, "talk", arguments).await;
    let mut all = Vec::new();
    // The connection breaks after every third event.
    let question = 'asked: loop {
        for _ in 0..3 {
            let event = stream.event().await.expect("it goes on");
            last = event.id.clone().expect("a name");
            all.push(event.clone());
            if event.message["method"] == "elicitation/create" {
                break 'asked event.message;
            }
        }
        drop(stream);
        stream = test_client.http.open_stream(Some(&last)).await;
        assert_eq!(stream.status, 200);
    };
    drop(stream);
    check_order(&all, 0);
    let progress: Vec<&Json> =
        all.iter().map(|it| &it.message["params"]["progress"]).filter(|it| !it.is_null()).collect();
    assert_eq!(progress, (1..=20).collect::<Vec<_>>());
    let answer =
        json!({"jsonrpc": "2.0", "id": question["id"], "result": answer_as("ada")(&question)});
    assert_eq!(test_client.http.post(&answer).await.status, 202);
    for _ in 0..2 {
        // The response is available at once, later, and again.
        let rest = test_client.http.open_stream(Some(&last)).await.remaining_events().await;
        check_order(&rest, event_number(all.last().expect("events")));
        let [answer] = &rest[..] else { panic!("one answer: {rest:?}") };
        assert_eq!(answer.message["id"], id);
        let got = &answer.message["result"]["structuredContent"]["answer"]["content"]["name"];
        assert_eq!(*got, "ada");
    }
    test_client.http.delete().await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_response_that_was_sent_but_not_read_is_sent_again() {
    let (_quarter, mut fixture) = fixture().await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let (id, stream, first) =
        start_call(&mut test_client, "slow", json!({"ms": 50, "steps": 1})).await;
    // Everything was sent, and nothing read but the first event.
    let rest = stream.remaining_events().await;
    assert_eq!(rest.last().map(|it| it.message["id"].clone()), Some(id));
    let again = test_client.http.open_stream(Some(&first)).await.remaining_events().await;
    assert_eq!(again, rest);
    fixture.stop().await;
}

#[tokio::test]
async fn hundreds_of_unread_events_come_before_new_ones() {
    let (_quarter, mut fixture) = fixture().await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let arguments = json!({"text": "t", "steps": 300, "ms": 300, "ask": true});
    let (_, stream, first) = start_call(&mut test_client, "talk", arguments).await;
    drop(stream);
    // It takes longer than the other call, so that all its events are sent by then.
    test_client
        .request("tools/call", json!({"name": "mcp__ls__slow", "arguments": {"ms": 1500}}))
        .await;
    let mut stream = test_client.http.open_stream(Some(&first)).await;
    let mut all = Vec::new();
    loop {
        let event = stream.event().await.expect("it goes on");
        all.push(event);
        if all.last().is_some_and(|it| it.message["method"] == "elicitation/create") {
            break;
        }
    }
    check_order(&all, 0);
    assert!(all.len() > 300, "{}", all.len());
    drop(stream);
    test_client.http.delete().await;
    fixture.stop().await;
}

#[tokio::test]
async fn unknown_and_foreign_event_ids_are_refused() {
    let (_quarter, mut fixture) = fixture().await;
    let mut ada = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let (_, stream, first) = start_call(&mut ada, "slow", json!({"ms": 20, "steps": 2})).await;
    let rest = stream.remaining_events().await;
    let last = rest.last().and_then(|it| it.id.clone()).expect("a name");
    for made_up in
        ["", "x", "-", "1", "1-", "-1", "99-0", "0-0", "1-99999", "18446744073709551616-0"]
    {
        let reply = ada.http.open_stream(Some(made_up)).await;
        assert_eq!(reply.status, 404, "{made_up}");
    }
    let mut bob = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 1).await;
    for id in [&first, &last] {
        assert_eq!(bob.http.open_stream(Some(id)).await.status, 404, "bob has no such stream");
    }
    // With the other client's session, but its own token.
    let own = bob.http.session.replace(ada.http.session.clone().expect("a session"));
    assert_eq!(bob.http.open_stream(Some(&first)).await.status, 404);
    assert_eq!(bob.http.open_stream(None).await.status, 404);
    bob.http.session = own;
    // The same event id in both sessions: each client gets its own stream.
    let (_, stream, first) =
        start_call(&mut bob, "talk", json!({"text": "bob's", "steps": 2})).await;
    drop(stream);
    let rest = bob.http.open_stream(Some(&first)).await.remaining_events().await;
    assert!(rest.iter().any(|it| it.message.to_string().contains("bob's")), "{rest:?}");
    let rest = ada.http.open_stream(Some(&first)).await.remaining_events().await;
    assert!(!rest.iter().any(|it| it.message.to_string().contains("bob's")), "{rest:?}");
    fixture.stop().await;
}

#[tokio::test]
async fn a_second_get_stream_replaces_the_first() {
    let (_quarter, mut fixture) = fixture().await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let mut first = test_client.http.open_stream(None).await;
    let named = first.event().await.and_then(|it| it.id).expect("a name to come back with");
    let mut second = test_client.http.open_stream(None).await;
    assert_eq!(first.event().await, None, "the first one is over");
    let change = json!({"name": "mcp__ls__change_tools", "arguments": {}});
    test_client.request("tools/call", change.clone()).await.result();
    let news = second.message().await.expect("news");
    assert_eq!(news["method"], "notifications/tools/list_changed");
    drop(second);
    // Messages that were sent without a reader go to the next reader.
    let mut resumed = test_client.http.open_stream(Some(&named)).await;
    let news = resumed.message().await.expect("news");
    assert_eq!(news["method"], "notifications/tools/list_changed");
    test_client.request("tools/call", change).await.result();
    let news = resumed.message().await.expect("more news");
    assert_eq!(news["method"], "notifications/tools/list_changed");
    drop(resumed);
    fixture.stop().await;
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_streams_and_calls() {
    let (upstreams, mut fixture) = fixture().await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let standing = test_client.http.open_stream(None).await;
    let request = call_request(&mut test_client, "slow", json!({"ms": 60_000, "steps": 1}));
    let stream = test_client.http.post(&request).await;
    assert!(stream.is_stream());
    assert_eq!(test_client.http.delete().await.status, 200);
    assert!(standing.remaining_events().await.iter().all(|it| it.message.is_null()));
    assert!(stream.remaining_events().await.iter().all(|it| it.message.is_null()));
    upstreams.wait_cancelled("ls", "slow").await;
    assert_eq!(test_client.http.delete().await.status, 404);
    assert_eq!(test_client.http.open_stream(None).await.status, 404);
    assert_eq!(test_client.http.post(&request).await.status, 404);
    fixture.stop().await;
}

#[tokio::test]
async fn an_idle_session_ends() {
    let upstreams = ServerMatrix::start();
    let idle = std::time::Duration::from_secs(60);
    let mut fixture = upstreams
        .gateway(
            &["ls"],
            FixtureOptions { session_idle_timeout: idle, ..FixtureOptions::default() },
        )
        .await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    for _ in 0..8 {
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(26)).await;
        tokio::time::resume();
        tokio::task::yield_now().await;
    }
    let request = test_client.build_request("ping", json!({}));
    let status = || async { test_client.http.post(&request).await.status };
    let mut left = 200;
    while status().await != 404 {
        left -= 1;
        assert!(left > 0, "it lives on");
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(3600)).await;
        tokio::time::resume();
    }
    fixture.stop().await;
}

/// All bytes of the stream of a slow call, for a client of this protocol version.
async fn stream_text(version: &str) -> String {
    let (_quarter, fixture) = fixture().await;
    let mut http = RawClient::client(fixture.address, 0);
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let mut reply = http.post(&initialize).await;
    assert_eq!(reply.message().await.expect("a result")["result"]["protocolVersion"], version);
    http.session = reply.header("mcp-session-id").map(str::to_owned);
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "mcp__ls__talk", "arguments": {"text": "t", "steps": 1, "ms": 700, "ask": false}}});
    let reply = http.post(&call).await;
    assert!(reply.is_stream());
    let text = reply.remaining_text().await;
    fixture.stop().await;
    text
}

#[tokio::test]
async fn a_stream_begins_with_an_event_without_a_message_only_in_versions_that_have_it() {
    let text = stream_text("2025-11-25").await;
    assert!(text.starts_with("id: 1-0\nretry: 1000\ndata: \n\n"), "{text}");
    for version in ["2025-06-18", "2025-03-26", "2024-11-05"] {
        let text = stream_text(version).await;
        let messages = text.split_terminator("\n\n").map(|event| {
            let data = event.lines().find_map(|line| line.strip_prefix("data:"));
            serde_json::from_str::<Json>(data.unwrap_or_default().trim())
        });
        assert!(messages.clone().all(|it| it.is_ok()), "{version}: {text}");
        assert!(messages.count() > 0 && !text.contains("retry:"), "{version}: {text}");
    }
}
