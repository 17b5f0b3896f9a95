//! Fifty concurrent clients that use the same ids: no message of one reaches another, and nothing of them is left after
//! they have disconnected.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use switchboard::config::permission::{PermissionEffect, PermissionRules, ToolRule};
use testkit::processes::processes_with_environment;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::gateway_fixture::{
    FixtureOptions, GatewayFixture, SERVERS, ServerMatrix, TEST_TIMEOUT, wait_until,
};
use crate::raw_http::RawClient;
use crate::test_client::{ALL_KINDS, ClientKind, TestClient, answer_as};

/// The number of clients.
const CLIENTS: usize = 50;
/// How long they run, in seconds, unless the environment variable is set.
const DEFAULT_SECONDS: u64 = 8;
const SECONDS_VARIABLE: &str = "SWB_ISOLATION_SECONDS";

/// Pseudo-random numbers with a fixed seed.
struct Prng(u64);

impl Prng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A marker that only this client sends.
fn marker(client: usize) -> String {
    format!("canary-{client:03}-end")
}

/// Fails if the message contains the marker of another client.
fn check_only_own_marker(client: usize, message: &Json) {
    let (text, own) = (message.to_string(), marker(client));
    for (at, _) in text.match_indices("canary-") {
        assert!(text[at..].starts_with(&own), "client {client} got {text}");
    }
}

/// One request, with random events while it runs.
async fn one_request(test_client: &mut TestClient, client: usize, prng: &mut Prng) {
    let server = SERVERS[usize::try_from(prng.below(4)).unwrap_or_default()];
    let own = marker(client);
    let arguments = json!({
        "text": own, "ms": prng.below(30), "steps": 1 + prng.below(4), "ask": prng.below(2) == 0,
    });
    let params = json!({
        "name": format!("mcp__{server}__talk"), "arguments": arguments,
        "_meta": {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"},
    });
    let answers = |question: &Json| {
        check_only_own_marker(client, question);
        answer_as(&own)(question)
    };
    match prng.below(10) {
        0 | 1 => cancelled_call(test_client, client, (params, prng)).await,
        2 if test_client.kind == ClientKind::LegacyHttp => {
            resumed_call(test_client, client, params).await
        }
        _ => {
            let exchange = test_client.request_answering("tools/call", params, &answers).await;
            exchange.notifications.iter().for_each(|it| check_only_own_marker(client, it));
            match &exchange.outcome {
                Ok(result) => {
                    check_only_own_marker(client, result);
                    assert!(
                        result.to_string().contains(&own) || result["isError"] == true,
                        "{result}"
                    );
                }
                Err(error) => check_only_own_marker(client, error),
            }
        }
    }
}

/// Starts a call and cancels it.
async fn cancelled_call(
    test_client: &mut TestClient,
    client: usize,
    (params, prng): (Json, &mut Prng),
) {
    let request = test_client.build_request("tools/call", params);
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": request["id"]}});
    let some = Duration::from_millis(prng.below(40));
    match test_client.kind {
        ClientKind::LegacyInMemory | ClientKind::ModernInMemory => {
            test_client.send(&request);
            test_client.send(&cancelled);
            // Messages that crossed the cancellation belong to this client, too.
            let ping = test_client.build_request("tools/list", json!({}));
            test_client.send(&ping);
            loop {
                let message = test_client.receive().await;
                check_only_own_marker(client, &message);
                if message["id"] == ping["id"] && message.get("method").is_none() {
                    break;
                }
            }
        }
        ClientKind::LegacyHttp | ClientKind::ModernHttp => {
            let asking = async {
                let mut reply = test_client.http.post(&request).await;
                while let Some(message) = reply.message().await {
                    check_only_own_marker(client, &message);
                }
            };
            let _hung_up = timeout(some, asking).await;
            if test_client.kind == ClientKind::LegacyHttp {
                test_client.http.post(&cancelled).await;
            }
        }
    }
}

/// Interrupts the stream and resumes it.
async fn resumed_call(test_client: &mut TestClient, client: usize, mut params: Json) {
    params["arguments"]["ask"] = false.into();
    params["arguments"]["ms"] = 300.into();
    let request = test_client.build_request("tools/call", params);
    let mut reply = test_client.http.post(&request).await;
    if !reply.is_stream() {
        check_only_own_marker(client, &reply.message().await.unwrap_or_default());
        return;
    }
    let first = reply.event().await.and_then(|it| it.id).expect("a name");
    drop(reply);
    let mut reply = test_client.http.open_stream(Some(&first)).await;
    let mut last = Json::Null;
    while let Some(message) = reply.message().await {
        check_only_own_marker(client, &message);
        last = message;
    }
    assert_eq!(last["id"], request["id"], "client {client}: the answer came last");
}

async fn client(mut test_client: TestClient, number: usize, until: Instant) -> usize {
    let mut prng = Prng(0x5eed + u64::try_from(number).unwrap_or_default());
    let mut asked = 0;
    while Instant::now() < until {
        timeout(TEST_TIMEOUT * 2, one_request(&mut test_client, number, &mut prng))
            .await
            .unwrap_or_else(|_| panic!("client {number}, {:?}: no end", test_client.kind));
        asked += 1;
    }
    if test_client.kind == ClientKind::LegacyHttp {
        assert_eq!(test_client.http.delete().await.status, 200);
    }
    asked
}

/// The resident memory of this process, in KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().split(' ').next().and_then(|it| it.parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_clients_with_the_same_ids_never_get_each_others_messages() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams
        .gateway(&SERVERS, FixtureOptions { clients: CLIENTS, ..FixtureOptions::default() })
        .await;
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let seconds = std::env::var(SECONDS_VARIABLE)
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(DEFAULT_SECONDS);
    let begun = Instant::now();
    let end = begun + Duration::from_secs(seconds);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let kind = match number % 5 {
            0 => ALL_KINDS[number / 5 % 4],
            1 | 2 => ClientKind::LegacyHttp,
            _ => ClientKind::ModernHttp,
        };
        let test_client = TestClient::connect(&mut fixture, kind, number).await;
        clients.spawn(client(test_client, number, end));
    }
    let half = memory_at(begun + Duration::from_secs(seconds / 2));
    let (mut asked, half) = (0, half.await);
    while let Some(done) = clients.join_next().await {
        asked += done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    }
    let after = memory();
    eprintln!("{asked} questions in {seconds} s; {half} kB at half time, {after} kB at the end");
    assert!(asked > CLIENTS * 4, "only {asked} questions were asked");
    assert!(after < half + half / 2 + 64 * 1024, "{half} kB became {after} kB");
    // Transports end with their clients; suspended requests are dropped with the gateway.
    wait_until("no session is left", || metrics.num_alive_tasks() <= before + max_suspended(asked))
        .await;
    let mark = format!("SWITCHBOARD_OWNER={}.", std::process::id());
    assert!(!processes_with_environment(&mark).is_empty(), "the servers are there");
    fixture.stop().await;
    wait_until("no child is left", || processes_with_environment(&mark).is_empty()).await;
    wait_until("no task is left", || metrics.num_alive_tasks() == 0).await;
}

/// The most requests of modern clients that disconnected while the request was suspended.
fn max_suspended(asked: usize) -> usize {
    asked
}

/// The memory at a given time.
async fn memory_at(when: Instant) -> u64 {
    tokio::time::timeout_at(when.into(), std::future::pending::<()>()).await.expect_err("a wait");
    memory()
}

#[tokio::test]
async fn a_filtered_long_list_ends() {
    let entry = testkit::ScriptedProgram::config_entry(&testkit::Script::legacy().tools(2500));
    let mut rules = PermissionRules::default();
    rules.add_for_session(
        PermissionEffect::Deny,
        ToolRule::parse("mcp__s__tool_7").expect("a rule"),
    );
    let mut fixture = GatewayFixture::open(
        &[("s", entry)],
        FixtureOptions { rules, ..FixtureOptions::default() },
    )
    .await;
    for kind in ALL_KINDS {
        let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
        let (mut names, mut params) = (BTreeSet::new(), json!({}));
        loop {
            let page = test_client.request("tools/list", params).await.result().clone();
            for tool in page["tools"].as_array().expect("a list") {
                assert!(names.insert(tool["name"].to_string()), "{tool} comes twice");
            }
            match page.get("nextCursor") {
                Some(next) => params = json!({"cursor": next}),
                None => break,
            }
        }
        assert!(names.len() >= 2499, "{}", names.len());
        assert!(!names.contains("\"mcp__s__tool_7\""));
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_client_cannot_use_ids_cursors_or_tasks_of_another() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&SERVERS, FixtureOptions::shared_processes()).await;
    let mut ada = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let mut bob = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 1).await;
    let other_principal =
        RawClient { session: ada.http.session.clone(), ..RawClient::client(fixture.address, 1) };
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(other_principal.post(&ping).await.status, 404);
    assert_eq!(other_principal.open_stream(None).await.status, 404);
    assert_eq!(other_principal.open_stream(Some("1-0")).await.status, 404);
    assert_eq!(other_principal.delete().await.status, 404);
    // Another client cancels a call and sends a response for it in its own session: neither has an effect.
    let params = json!({"name": "mcp__lh__ask", "arguments": {"kind": "elicitation"}});
    let request = ada.build_request("tools/call", params);
    let mut stream = ada.http.post(&request).await;
    let question = stream.message().await.expect("a question");
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": request["id"]}});
    assert_eq!(bob.http.post(&cancelled).await.status, 202);
    let answer = |who: &str| json!({"jsonrpc": "2.0", "id": question["id"], "result": answer_as(who)(&question)});
    assert_eq!(bob.http.post(&answer("bob")).await.status, 202);
    assert_eq!(other_principal.post(&answer("thief")).await.status, 404);
    assert_eq!(ada.http.post(&answer("ada")).await.status, 202);
    let result = stream.message().await.expect("an answer");
    let rounds = &result["result"]["structuredContent"]["rounds"];
    assert_eq!(rounds[0]["elicitation"]["content"]["name"], "ada", "{result}");
    // A client without a subscription gets no updates, and cannot end the subscription of another.
    let uri = "scripted://resource/0";
    let mut standing = ada.http.open_stream(None).await;
    let mut other = bob.http.open_stream(None).await;
    ada.request("resources/subscribe", json!({"uri": uri})).await.result();
    bob.request("resources/unsubscribe", json!({"uri": uri})).await.result();
    for server in SERVERS {
        let touch = json!({"name": format!("mcp__{server}__touch"), "arguments": {"uri": uri}});
        bob.request("tools/call", touch).await.result();
    }
    let news = standing.message().await.expect("news");
    assert_eq!(news["params"]["uri"], uri, "{news}");
    let change = json!({"name": "mcp__ls__change_tools", "arguments": {}});
    bob.request("tools/call", change).await.result();
    let news = other.message().await.expect("news");
    assert_eq!(news["method"], "notifications/tools/list_changed", "not the other's resource");
    // A cursor and a task that were never issued.
    for (method, params) in [
        ("tools/list", json!({"cursor": "1.1"})),
        ("tools/list", json!({"cursor": "999.0"})),
        ("resources/list", json!({"cursor": "x"})),
    ] {
        assert_eq!(bob.request(method, params).await.error()["code"], -32602, "{method}");
    }
    fixture.stop().await;
}

/// Two programs with one token (or none): messages of the second one's call do not reach the first, whose call runs on
/// the same server.
async fn check_two_programs(authenticated_clients: usize, kind: ClientKind) {
    let upstreams = ServerMatrix::start();
    let fixture_options =
        FixtureOptions { clients: authenticated_clients, ..FixtureOptions::default() };
    let mut fixture = upstreams.gateway(&["ls"], fixture_options).await;
    let mut ada = TestClient::connect(&mut fixture, kind, 0).await;
    let mut bob = TestClient::connect(&mut fixture, kind, 0).await;
    let params = |text: &str, steps: u64, ms: u64, ask: bool| {
        json!({"name": "mcp__ls__talk", "_meta": {"progressToken": 1},
               "arguments": {"text": text, "steps": steps, "ms": ms, "ask": ask}})
    };
    // Ada's call is silent until it has ended.
    let waiting = tokio::spawn(async move {
        let exchange = ada.request("tools/call", params("canary-000-end", 1, 1500, false)).await;
        (exchange, ada)
    });
    upstreams.wait_called("ls", "talk").await;
    let answers = answer_as("canary-001-end");
    let exchange =
        bob.request_answering("tools/call", params("canary-001-end", 2, 1, true), &answers).await;
    exchange.notifications.iter().for_each(|it| check_only_own_marker(1, it));
    assert_eq!(exchange.server_requests, ["elicitation/create"], "{kind:?}: {exchange:?}");
    let (exchange, _ada) = timeout(TEST_TIMEOUT, waiting).await.expect("an end").expect("no panic");
    check_only_own_marker(0, &json!(exchange.notifications));
    check_only_own_marker(0, exchange.result());
    assert!(exchange.server_requests.is_empty(), "{kind:?}: {exchange:?}");
    drop((bob, _ada));
    fixture.stop().await;
}

#[tokio::test]
async fn two_programs_with_one_token_never_get_each_others_messages() {
    for kind in ALL_KINDS {
        check_two_programs(3, kind).await;
    }
}

#[tokio::test]
async fn two_programs_without_a_token_never_get_each_others_messages() {
    check_two_programs(0, ClientKind::LegacyHttp).await;
    check_two_programs(0, ClientKind::ModernHttp).await;
}
