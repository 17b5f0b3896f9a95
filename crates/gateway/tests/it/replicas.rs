//! Two gateways that share a store, as a load balancer without affinity uses them: requests of one client alternate.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::permission::{GrantScope, PermissionDecision};
use switchboard_config::permission::{PermissionMode, PermissionRules};
use switchboard_config::settings::quotas::CallQuota;
use switchboard_gateway::{
    ApprovalQueue, Limits, MemoryStore, RevokeError, RevokedSubject, SessionPolicy,
    SessionsWhileAway, StoreChoice,
};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::data_flow;
use crate::gateway_fixture::{
    FixtureOptions, GatewayFixture, ReplicaFixture, ServerMatrix, TEST_TIMEOUT,
};
use crate::raw_http::{RawClient, SseEvent};
use crate::test_client::{ClientKind, TestClient, answer_as};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

/// Two replicas, each with servers of its own, and their store.
struct Replicas {
    store: MemoryStore,
    first: GatewayFixture,
    second: GatewayFixture,
    _folder: TempDir,
    servers: [ServerMatrix; 2],
}

/// The options of both replicas.
fn options() -> FixtureOptions {
    FixtureOptions::shared_processes()
}

fn write_key(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("seal.key");
    std::fs::write(&path, KEY).expect("written");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, own).expect("it is ours");
    }
    path
}

impl Replicas {
    async fn start(servers: &[&str]) -> Replicas {
        Replicas::with_options(servers, SessionsWhileAway::Refused, options).await
    }

    async fn with_options(
        servers: &[&str],
        while_away: SessionsWhileAway,
        options: impl Fn() -> FixtureOptions,
    ) -> Replicas {
        let folder = tempfile::tempdir().expect("a temp folder");
        let keys = write_key(folder.path());
        let store = MemoryStore::default();
        let matrices = [ServerMatrix::start(), ServerMatrix::start()];
        let replica = || {
            let store = StoreChoice::Memory(store.clone());
            Some(ReplicaFixture { keys: keys.clone(), store, while_away })
        };
        let with = || FixtureOptions { replica: replica(), ..options() };
        let first = matrices[0].gateway(servers, with()).await;
        let second = matrices[1].gateway(servers, with()).await;
        let replicas = Replicas { store, first, second, _folder: folder, servers: matrices };
        replicas.wait_until_both_know_each_other().await;
        replicas
    }

    async fn wait_until_both_know_each_other(&self) {
        for fixture in [&self.first, &self.second] {
            wait_for_metric(fixture, "switchboard_replicas 2").await;
        }
    }

    /// A client of the first replica.
    async fn client(&mut self, kind: ClientKind) -> TestClient {
        TestClient::connect(&mut self.first, kind, 0).await
    }

    async fn stop(self) {
        self.first.stop().await;
        self.second.stop().await;
    }
}

async fn metrics(fixture: &GatewayFixture) -> String {
    let client = RawClient::client(fixture.address, 0);
    let head = client.request_head("GET /metrics");
    client.send(format!("{head}Connection: close\r\n\r\n").as_bytes()).await.remaining_text().await
}

async fn wait_for_metric(fixture: &GatewayFixture, line: &str) {
    let mut poll = tokio::time::interval(Duration::from_millis(20));
    let waiting = async {
        while !metrics(fixture).await.lines().any(|it| it == line) {
            poll.tick().await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("no {line}"));
}

fn call(test_client: &mut TestClient, tool: &str, arguments: Json) -> Json {
    let params = json!({"name": format!("mcp__ls__{tool}"), "arguments": arguments,
                        "_meta": {"progressToken": "p"}});
    test_client.build_request("tools/call", params)
}

async fn echo(test_client: &mut TestClient, text: &str) -> Json {
    let params = json!({"name": "mcp__ls__echo", "arguments": {"text": text}});
    test_client.request("tools/call", params).await.result()["content"][0]["text"].clone()
}

fn numbers(events: &[SseEvent]) -> Vec<u64> {
    let number = |it: &SseEvent| it.id.as_ref()?.rsplit('-').next()?.parse().ok();
    events.iter().filter_map(number).collect()
}

#[tokio::test]
async fn requests_of_a_session_may_reach_any_replica() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let mut test_client = replicas.client(ClientKind::LegacyHttp).await;
    for (number, address) in
        [replicas.second.address, replicas.first.address].iter().cycle().take(6).enumerate()
    {
        test_client.http.address = *address;
        assert_eq!(echo(&mut test_client, &number.to_string()).await, number.to_string());
    }
    let called = |matrix: &ServerMatrix| {
        matrix.received("ls").iter().filter(|it| it["method"] == "tools/call").count()
    };
    let calls: Vec<usize> = replicas.servers.iter().map(called).collect();
    assert_eq!(calls, [6, 0], "the session stays with the servers of its replica");
    let forwarded = metrics(&replicas.second).await;
    assert!(forwarded.contains("switchboard_forwarded_total 3\n"), "{forwarded}");
    // Another client has no access to the session.
    let thief = RawClient {
        token: RawClient::client(test_client.http.address, 1).token,
        ..test_client.http.clone()
    };
    for address in [replicas.first.address, replicas.second.address] {
        let request = test_client.build_request("ping", json!({}));
        let stolen = RawClient { address, ..thief.clone() }.post(&request).await;
        assert_eq!(stolen.status, 404);
    }
    // It ends everywhere.
    test_client.http.address = replicas.second.address;
    assert_eq!(test_client.http.delete().await.status, 200);
    for address in [replicas.first.address, replicas.second.address] {
        test_client.http.address = address;
        let request = test_client.build_request("ping", json!({}));
        assert_eq!(test_client.http.post(&request).await.status, 404);
    }
    replicas.stop().await;
}

#[tokio::test]
async fn a_question_is_answered_and_a_stream_resumed_through_the_other_replica() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let (first, second) = (replicas.first.address, replicas.second.address);
    let mut test_client = replicas.client(ClientKind::LegacyHttp).await;
    test_client.http.address = second;
    let arguments = json!({"text": "t", "steps": 20, "ms": 200, "ask": true});
    let request = call(&mut test_client, "talk", arguments);
    let mut stream = test_client.http.post(&request).await;
    assert!(stream.is_stream());
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    let mut all = Vec::new();
    let mut address = second;
    let question = 'asked: loop {
        for _ in 0..3 {
            let event = stream.event().await.expect("it goes on");
            all.push(event.clone());
            if event.message["method"] == "elicitation/create" {
                break 'asked event.message;
            }
        }
        // The connection breaks, and the balancer chooses the other replica.
        address = if address == first { second } else { first };
        test_client.http.address = address;
        let last = all.last().and_then(|it| it.id.clone()).expect("an id");
        stream = test_client.http.open_stream(Some(&last)).await;
        assert_eq!(stream.status, 200);
    };
    drop(stream);
    assert_eq!(numbers(&all), (0..all.len() as u64).collect::<Vec<_>>());
    test_client.http.address = second;
    let result = answer_as("ada")(&question);
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    assert_eq!(test_client.http.post(&answer).await.status, 202);
    let last = all.last().and_then(|it| it.id.clone()).expect("an id");
    let rest = test_client.http.open_stream(Some(&last)).await.remaining_events().await;
    let [answer] = &rest[..] else { panic!("one answer: {rest:?}") };
    let name = &answer.message["result"]["structuredContent"]["answer"]["content"]["name"];
    assert_eq!(*name, "ada");
    test_client.http.delete().await;
    replicas.stop().await;
}

#[tokio::test]
async fn a_replica_that_stops_leaves_its_sessions_with_all_events_to_the_other() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let second = replicas.second.address;
    let mut test_client = replicas.client(ClientKind::LegacyHttp).await;
    let level = json!({"level": "error"});
    test_client.request("logging/setLevel", level).await.result();
    let resource = json!({"uri": "scripted://resource/1"});
    test_client.request("resources/subscribe", resource.clone()).await.result();
    let request = call(&mut test_client, "talk", json!({"text": "t", "steps": 5, "ms": 300}));
    let mut stream = test_client.http.post(&request).await;
    let first_event = stream.event().await.expect("a first event");
    let before = stream.remaining_events().await;
    let last = first_event.id.expect("an id");
    // The replica stops without any client connected, so that its sessions are released at once.
    let Replicas { first, second: left, store, servers, _folder } = replicas;
    first.stop().await;
    test_client.http.address = second;
    let again = test_client.http.open_stream(Some(&last)).await.remaining_events().await;
    assert_eq!(again, before, "the other replica has every event");
    assert_eq!(echo(&mut test_client, "on").await, "on");
    let called = servers[1].received("ls");
    assert!(called.iter().any(|it| it["params"]["name"] == "echo"), "{called:?}");
    // The servers of the other replica know what the client wants.
    let mut poll = tokio::time::interval(Duration::from_millis(20));
    let was_told = |method: &str, member: &str, value: &Json| {
        let mut received = servers[1].received("ls").into_iter();
        received.any(|it| it["method"] == method && it["params"][member] == *value)
    };
    let restored = async {
        while !was_told("logging/setLevel", "level", &json!("error"))
            || !was_told("resources/subscribe", "uri", &resource["uri"])
        {
            poll.tick().await;
        }
    };
    let restored = timeout(TEST_TIMEOUT, restored).await;
    assert!(restored.is_ok(), "{:?}", servers[1].received("ls"));
    let mut updates = test_client.http.open_stream(None).await;
    let touch = call(&mut test_client, "touch", resource.clone());
    test_client.http.post(&touch).await.remaining_text().await;
    let updated = async {
        while updates.event().await.expect("it goes on").message["method"]
            != "notifications/resources/updated"
        {}
    };
    timeout(TEST_TIMEOUT, updated).await.expect("the client is told");
    drop(updates);
    let page = metrics(&left).await;
    assert!(page.contains("switchboard_sessions_taken_over_total 1\n"), "{page}");
    test_client.http.delete().await;
    left.stop().await;
    drop((store, _folder));
}

#[tokio::test]
async fn a_suspended_request_goes_on_where_it_waits() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let mut test_client = replicas.client(ClientKind::ModernHttp).await;
    let params = json!({"name": "mcp__ls__ask", "arguments": {"kind": "elicitation"}});
    let asked = test_client.request_once("tools/call", params.clone()).await.result().clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let questions = asked["inputRequests"].as_object().expect("questions");
    let answers: Json =
        questions.iter().map(|(name, it)| (name.clone(), answer_as("ada")(it))).collect();
    let mut again = params;
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = answers;
    test_client.http.address = replicas.second.address;
    let answered = test_client.request_once("tools/call", again.clone()).await;
    assert!(answered.result()["resultType"] != "input_required", "{:?}", answered.outcome);
    let repeated = test_client.request_once("tools/call", again.clone()).await;
    assert_eq!(repeated.error()["code"], -32602, "it was used");
    replicas.stop().await;
}

#[tokio::test]
async fn a_suspended_request_of_a_replica_that_has_gone_is_told_as_lost() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let mut test_client = replicas.client(ClientKind::ModernHttp).await;
    let params = json!({"name": "mcp__ls__ask", "arguments": {"kind": "elicitation"}});
    let asked = test_client.request_once("tools/call", params.clone()).await.result().clone();
    let Replicas { first, second, servers, _folder, .. } = replicas;
    first.stop().await;
    let mut again = params;
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({});
    test_client.http.address = second.address;
    let lost = test_client.request_once("tools/call", again).await;
    let message = lost.error()["message"].as_str().unwrap_or_default();
    assert!(message.contains("it is not repeated"), "{message}");
    let asked_again = servers[1].received("ls").iter().any(|it| it["params"]["name"] == "ask");
    assert!(!asked_again, "it was repeated");
    second.stop().await;
    drop(_folder);
}

#[tokio::test]
async fn a_state_of_a_modern_server_is_used_once_by_all_replicas_together() {
    let mut replicas = Replicas::start(&["mh"]).await;
    let addresses = [replicas.second.address, replicas.first.address];
    let mut test_client = replicas.client(ClientKind::ModernHttp).await;
    let params = json!({"name": "mcp__mh__ask", "arguments": {"kind": "elicitation"}});
    let asked = test_client.request_once("tools/call", params.clone()).await.result().clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let questions = asked["inputRequests"].as_object().expect("questions");
    let answers: Json =
        questions.iter().map(|(name, it)| (name.clone(), answer_as("ada")(it))).collect();
    let mut again = params;
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = answers;
    let mut refused = 0;
    for address in addresses {
        test_client.http.address = address;
        let outcome = test_client.request_once("tools/call", again.clone()).await.outcome;
        match outcome {
            // The second server does not know the state of the first one, which is no concern of ours.
            Err(error)
                if error["message"].as_str().is_some_and(|it| it.contains("used already")) =>
            {
                refused += 1;
            }
            Ok(_) | Err(_) => {}
        }
    }
    assert_eq!(refused, 1, "the first use counts for both");
    replicas.store.set_away(true);
    test_client.http.address = replicas.first.address;
    let request = test_client.build_request("tools/call", again);
    let mut response = test_client.http.post(&request).await;
    // It was used here, which this replica knows without the store.
    let refused = response.message().await.expect("an answer");
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    replicas.store.set_away(false);
    replicas.stop().await;
}

#[tokio::test]
async fn a_state_that_cannot_be_noted_as_used_stays_valid() {
    let mut replicas = Replicas::start(&["mh"]).await;
    let mut test_client = replicas.client(ClientKind::ModernHttp).await;
    let params = json!({"name": "mcp__mh__ask", "arguments": {"kind": "elicitation"}});
    let asked = test_client.request_once("tools/call", params.clone()).await.result().clone();
    let questions = asked["inputRequests"].as_object().expect("questions");
    let answers: Json =
        questions.iter().map(|(name, it)| (name.clone(), answer_as("ada")(it))).collect();
    let mut again = params;
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = answers;
    replicas.store.set_away(true);
    for address in [replicas.second.address, replicas.first.address] {
        test_client.http.address = address;
        let request = test_client.build_request("tools/call", again.clone());
        let refused = test_client.http.post(&request).await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    }
    replicas.store.set_away(false);
    let used = test_client.request_once("tools/call", again.clone()).await;
    assert!(used.result()["resultType"] != "input_required", "{:?}", used.outcome);
    test_client.http.address = replicas.second.address;
    let repeated = test_client.request_once("tools/call", again).await;
    let message = repeated.error()["message"].as_str().unwrap_or_default();
    assert!(message.contains("used already"), "{message}");
    replicas.stop().await;
}

#[tokio::test]
async fn a_session_moves_while_another_one_of_its_replica_still_drains() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let second = replicas.second.address;
    let mut busy = replicas.client(ClientKind::LegacyHttp).await;
    let mut moved = replicas.client(ClientKind::LegacyHttp).await;
    let request = call(&mut busy, "slow", json!({"ms": 4000, "steps": 8}));
    let stream = busy.http.post(&request).await;
    assert!(stream.is_stream());
    let Replicas { first, second: left, servers, _folder, .. } = replicas;
    let stopping = tokio::spawn(first.stop());
    moved.http.address = second;
    let mut reached = 0;
    while !stopping.is_finished() {
        // Longer than a response may take that needs no stream.
        let request = call(&mut moved, "slow", json!({"ms": 400, "steps": 1}));
        let response = moved.http.post(&request).await;
        assert_eq!(response.status, 200, "its client would begin a new session");
        let events = response.remaining_events().await;
        assert_eq!(events.last().map(|it| &it.message["id"]), Some(&request["id"]), "{events:?}");
        assert!(events.last().is_some_and(|it| it.message["result"].is_object()), "{events:?}");
        if servers[1].received("ls").iter().any(|it| it["params"]["name"] == "slow") {
            reached += 1;
        }
    }
    assert!(reached > 2, "the session has moved while the other one ran");
    let events = stream.remaining_events().await;
    assert!(events.last().is_some_and(|it| it.message["result"].is_object()), "{events:?}");
    stopping.await.expect("no panic");
    moved.http.delete().await;
    left.stop().await;
    drop(_folder);
}

#[tokio::test]
async fn while_the_store_is_away_known_sessions_go_on_and_new_ones_are_refused() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let (first, second) = (replicas.first.address, replicas.second.address);
    let mut known = replicas.client(ClientKind::LegacyHttp).await;
    let mut unknown = replicas.client(ClientKind::LegacyHttp).await;
    known.http.address = second;
    assert_eq!(echo(&mut known, "before").await, "before");
    replicas.store.set_away(true);
    for address in [first, second, first, second] {
        known.http.address = address;
        assert_eq!(echo(&mut known, "on").await, "on", "the other replica knows where it is");
    }
    unknown.http.address = second;
    let ping = unknown.build_request("ping", json!({}));
    let refused = unknown.http.post(&ping).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "not 404");
    let hello = unknown.build_request(
        "initialize",
        json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "new", "version": "1"},
        }),
    );
    let refused = RawClient { session: None, ..unknown.http.clone() }.post(&hello).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    let mut modern = TestClient::connect(&mut replicas.second, ClientKind::ModernHttp, 0).await;
    assert_eq!(echo(&mut modern, "unharmed").await, "unharmed");
    // Events while it is away are written when it is back.
    known.http.address = first;
    let request = call(&mut known, "slow", json!({"ms": 400, "steps": 2}));
    let mut stream = known.http.post(&request).await;
    let id = stream.event().await.expect("an event").id.expect("an id");
    let before = stream.remaining_events().await;
    let ready = RawClient::client(first, 0);
    let head = ready.request_head("GET /readyz");
    let readiness = async |line: &str| {
        let response = ready.send(format!("{head}Connection: close\r\n\r\n").as_bytes()).await;
        assert_eq!(response.status, 200, "a balancer must not take it out");
        response.remaining_text().await.lines().any(|it| it == line)
    };
    let mut poll = tokio::time::interval(Duration::from_millis(20));
    while !readiness("store: away").await {
        poll.tick().await;
    }
    replicas.store.set_away(false);
    while readiness("store: away").await {
        poll.tick().await;
    }
    unknown.http.address = second;
    assert_eq!(echo(&mut unknown, "found").await, "found");
    let Replicas { first, second, _folder, .. } = replicas;
    first.stop().await;
    known.http.address = second.address;
    let again = known.http.open_stream(Some(&id)).await.remaining_events().await;
    assert_eq!(again, before);
    second.stop().await;
    drop(_folder);
}

#[tokio::test]
async fn sessions_may_begin_without_the_store_where_the_operator_wants_that() {
    let mut replicas = Replicas::with_options(&["ls"], SessionsWhileAway::Local, options).await;
    replicas.store.set_away(true);
    let mut local = replicas.client(ClientKind::LegacyHttp).await;
    assert_eq!(echo(&mut local, "here").await, "here");
    wait_for_metric(&replicas.second, "switchboard_store_connected 0").await;
    replicas.store.set_away(false);
    local.http.address = replicas.second.address;
    let mut poll = tokio::time::interval(Duration::from_millis(20));
    let found = async {
        loop {
            let ping = local.build_request("ping", json!({}));
            match local.http.post(&ping).await.status {
                200 => return,
                503 => drop(poll.tick().await),
                status => panic!("{status}: the client would begin a new session"),
            }
        }
    };
    timeout(TEST_TIMEOUT, found).await.expect("it is written when the store is back");
    replicas.stop().await;
}

#[tokio::test]
async fn a_store_that_has_lost_everything_gets_the_sessions_again() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let mut test_client = replicas.client(ClientKind::LegacyHttp).await;
    let request = call(&mut test_client, "slow", json!({"ms": 400, "steps": 2}));
    let mut stream = test_client.http.post(&request).await;
    let id = stream.event().await.expect("an event").id.expect("an id");
    let before = stream.remaining_events().await;
    replicas.store.clear();
    test_client.http.address = replicas.second.address;
    let mut poll = tokio::time::interval(Duration::from_millis(20));
    let found = async {
        loop {
            let ping = test_client.build_request("ping", json!({}));
            match test_client.http.post(&ping).await.status {
                200 => return,
                503 => drop(poll.tick().await),
                status => panic!("{status}: the client would begin a new session"),
            }
        }
    };
    timeout(TEST_TIMEOUT, found).await.expect("it is written again");
    let Replicas { first, second, _folder, .. } = replicas;
    first.stop().await;
    let again = test_client.http.open_stream(Some(&id)).await.remaining_events().await;
    assert_eq!(again, before);
    second.stop().await;
    drop(_folder);
}

#[tokio::test]
async fn replicas_together_let_through_what_the_rate_allows() {
    let limited = || FixtureOptions {
        limits: Limits { requests_per_second: Some(30), ..Limits::default() },
        ..options()
    };
    let mut replicas = Replicas::with_options(&["ls"], SessionsWhileAway::Refused, limited).await;
    let addresses = [replicas.first.address, replicas.second.address];
    let mut test_client = replicas.client(ClientKind::ModernHttp).await;
    let mut passed = 0;
    let started = std::time::Instant::now();
    for number in 0..120 {
        test_client.http.address = addresses[number % 2];
        let request = test_client.build_request("tools/list", json!({}));
        let response = test_client.http.post(&request).await;
        match response.status {
            200 => passed += 1,
            429 => assert!(response.header("retry-after").is_some()),
            status => panic!("{status}"),
        }
    }
    // A burst of one second, and what has come back since.
    let allowed = 30.0 * (1.0 + started.elapsed().as_secs_f64()) + 1.0;
    assert!((20..=allowed as usize).contains(&passed), "{passed} of {allowed}");
    replicas.stop().await;
}

#[tokio::test]
async fn a_waiting_call_is_shown_and_decided_on_any_replica() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let keys = write_key(folder.path());
    let store = MemoryStore::default();
    let matrices = [ServerMatrix::start(), ServerMatrix::start()];
    let mut fixtures = Vec::new();
    let mut queues = Vec::new();
    let mut tasks = Vec::new();
    for matrix in &matrices {
        let (queue, task) = ApprovalQueue::new(ApprovalQueue::DEFAULT_TIMEOUT);
        tasks.push(tokio::spawn(task));
        let replica = ReplicaFixture {
            keys: keys.clone(),
            store: StoreChoice::Memory(store.clone()),
            while_away: SessionsWhileAway::Refused,
        };
        let options = FixtureOptions {
            mode: PermissionMode::Default,
            rules: PermissionRules::default(),
            replica: Some(replica),
            approvals: Some(queue.clone()),
            ..FixtureOptions::shared_processes()
        };
        let fixture = matrix.gateway(&["ls"], options).await;
        let gateway = fixture.gateway.clone();
        let shared = queue.clone();
        tasks.push(tokio::spawn(async move { gateway.share_approvals(shared).await }));
        queues.push(queue);
        fixtures.push(fixture);
    }
    let decided = {
        let mut client =
            TestClient::with_capabilities(&mut fixtures[0], ClientKind::ModernHttp, 0, json!({}))
                .await;
        let calling = async { echo(&mut client, "allowed").await };
        let deciding = async {
            let mut shown = queues[1].watch();
            let shown = timeout(TEST_TIMEOUT, shown.wait_for(|it| !it.is_empty()));
            let waiting = shown.await.expect("in time").expect("it is open")[0].clone();
            assert_eq!((&*waiting.caller, &*waiting.tool), ("c0", "echo"));
            let allow =
                PermissionDecision::Allow { decided_by: "ops".to_owned(), scope: GrantScope::Once };
            let decided = queues[1].decide(waiting.id, allow.clone()).await;
            assert!(decided.is_some(), "it waited on the other replica");
            assert!(queues[1].decide(waiting.id, allow).await.is_none(), "it is decided once");
        };
        tokio::join!(calling, deciding).0
    };
    assert_eq!(decided, "allowed");
    let mut shown = queues[1].watch();
    let emptied = timeout(TEST_TIMEOUT, shown.wait_for(|it| it.is_empty())).await;
    emptied.expect("in time").expect("it is open");
    for task in tasks.into_iter().rev() {
        task.abort();
        let _aborted = task.await;
    }
    drop(queues);
    for fixture in fixtures {
        fixture.stop().await;
    }
}

#[tokio::test]
async fn without_sessions_any_gateway_serves_older_clients() {
    let matrix = Arc::new(ServerMatrix::start());
    let options =
        FixtureOptions { sessions: SessionPolicy::NoClients, ..FixtureOptions::shared_processes() };
    let mut fixture = matrix.gateway(&["ls"], options).await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    assert_eq!(test_client.http.session, None);
    assert_eq!(echo(&mut test_client, "no session").await, "no session");
    test_client.request("ping", json!({})).await.result();
    let request = call(&mut test_client, "slow", json!({"ms": 400, "steps": 2}));
    let stream = test_client.http.post(&request).await;
    assert!(stream.is_stream());
    let events = stream.remaining_events().await;
    assert!(events.iter().any(|it| it.message["method"] == "notifications/progress"), "{events:?}");
    assert_eq!(events.last().map(|it| &it.message["id"]), Some(&request["id"]));
    let asked = test_client
        .request(
            "tools/call",
            json!({"name": "mcp__ls__ask", "arguments": {"kind": "elicitation"}}),
        )
        .await;
    assert!(
        asked.outcome.is_err() || !asked.result().to_string().contains("ada"),
        "nothing is asked"
    );
    assert_eq!(test_client.http.open_stream(None).await.status, 405);
    fixture.stop().await;
}

#[tokio::test]
async fn a_replica_with_another_key_neither_serves_nor_ends_the_sessions_of_the_others() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let mut test_client = replicas.client(ClientKind::LegacyHttp).await;
    let folder = tempfile::tempdir().expect("a temp folder");
    let keys = write_key(folder.path());
    std::fs::write(&keys, KEY.replace("00", "11")).expect("written");
    let store = StoreChoice::Memory(replicas.store.clone());
    let while_away = SessionsWhileAway::Refused;
    let replica = Some(ReplicaFixture { keys, store, while_away });
    let matrix = ServerMatrix::start();
    let stranger = matrix.gateway(&["ls"], FixtureOptions { replica, ..options() }).await;
    wait_for_metric(&stranger, "switchboard_store_connected 1").await;
    let home = test_client.http.address;
    test_client.http.address = stranger.address;
    for method in ["ping", "tools/list"] {
        let request = test_client.build_request(method, json!({}));
        assert_eq!(test_client.http.post(&request).await.status, 503, "{method}");
    }
    assert_eq!(test_client.http.delete().await.status, 503);
    test_client.http.address = home;
    assert_eq!(echo(&mut test_client, "unharmed").await, "unharmed");
    stranger.stop().await;
    replicas.stop().await;
}

#[tokio::test]
async fn only_replicas_with_the_same_key_are_listened_to() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let address = replicas.first.replica_address.clone().expect("a replica");
    let client =
        RawClient { address: address.parse().expect("an address"), token: None, session: None };
    let request = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 40\r\n\r\n{}",
            "x".repeat(40)
        )
    };
    assert_eq!(client.send(request("/replica").as_bytes()).await.status, 403);
    assert_eq!(client.send(request("/mcp").as_bytes()).await.status, 404);
    let get = format!("GET /replica HTTP/1.1\r\nHost: {address}\r\n\r\n");
    assert_eq!(client.send(get.as_bytes()).await.status, 404);
    let mut test_client = replicas.client(ClientKind::LegacyHttp).await;
    assert_eq!(echo(&mut test_client, "on").await, "on");
    replicas.stop().await;
}

#[tokio::test]
async fn a_quota_is_used_up_on_all_replicas_together() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let quota = CallQuota {
        principal: None,
        calls: None,
        per_minute: None,
        per_day: Some(3),
        concurrent: None,
    };
    for fixture in [&replicas.first, &replicas.second] {
        fixture.gateway.set_quotas(vec![quota.clone()]);
    }
    let mut test_client = replicas.client(ClientKind::ModernHttp).await;
    let addresses = [replicas.first.address, replicas.second.address];
    for number in 0..3 {
        test_client.http.address = addresses[number % 2];
        assert_eq!(echo(&mut test_client, &number.to_string()).await, number.to_string());
    }
    for address in addresses {
        test_client.http.address = address;
        let request = call(&mut test_client, "echo", json!({"text": "one more"}));
        assert_eq!(test_client.http.post(&request).await.status, 429);
    }
    for fixture in [&replicas.first, &replicas.second] {
        let principals = fixture.gateway.principals().await;
        assert_eq!(principals[0].quotas[0].used.day, 3, "every replica shows all calls");
    }
    replicas.stop().await;
}

fn options_with_data_flow_rules() -> FixtureOptions {
    let mode = PermissionMode::DontAsk;
    FixtureOptions { rules: data_flow::rules(), mode, ..FixtureOptions::default() }
}

#[tokio::test]
async fn what_a_principal_has_seen_on_one_replica_holds_on_the_other_and_without_the_store_nothing_is_sent()
 {
    let while_away = SessionsWhileAway::Refused;
    let mut replicas =
        Replicas::with_options(&["lh", "mh"], while_away, options_with_data_flow_rules).await;
    let (first, second) = (replicas.first.address, replicas.second.address);
    let mut client = replicas.client(ClientKind::ModernHttp).await;
    for address in [first, second] {
        client.http.address = address;
        assert_eq!(data_flow::denied(&mut client).await, None, "nothing was seen yet");
    }
    replicas.store.set_away(true);
    let params = json!({"name": "mcp__lh__echo", "arguments": {"text": "secret"}});
    let request = client.build_request("tools/call", params);
    assert_eq!(client.http.post(&request).await.status, 503, "the other replica cannot be told");
    replicas.store.set_away(false);
    assert_eq!(data_flow::denied(&mut client).await, None, "that call was not made");
    client.call("mcp__lh__echo", json!({"text": "secret"}), "").await.result();
    client.http.address = first;
    let reason = data_flow::denied(&mut client).await.expect("it is denied");
    assert!(reason.contains("the deny rule `mcp__mh` after results of `mcp__lh`"), "{reason}");
    replicas.stop().await;
}

#[tokio::test]
async fn what_a_session_has_read_holds_on_the_replica_that_takes_it_over() {
    let while_away = SessionsWhileAway::Refused;
    let mut replicas =
        Replicas::with_options(&["lh", "mh"], while_away, options_with_data_flow_rules).await;
    let mut reader = replicas.client(ClientKind::LegacyHttp).await;
    let mut other = replicas.client(ClientKind::LegacyHttp).await;
    let listed = reader.request("resources/list", json!({})).await;
    let uri = listed.result()["resources"][0]["uri"].clone();
    reader.request("resources/read", json!({"uri": uri})).await.result();
    let second = replicas.second.address;
    let Replicas { first, second: left, store, servers, _folder } = replicas;
    first.stop().await;
    reader.http.address = second;
    other.http.address = second;
    assert_eq!(data_flow::denied(&mut other).await, None, "another session of the same principal");
    assert!(data_flow::denied(&mut reader).await.is_some(), "it was read on the first replica");
    drop((reader, other));
    left.stop().await;
    drop((store, servers, _folder));
}

/// Waits until a replica responds to a ping of this client with a status.
async fn wait_for_status(client: &mut TestClient, address: SocketAddr, status: u16) {
    client.http.address = address;
    let ping = client.build_request("tools/list", json!({}));
    let mut poll = tokio::time::interval(Duration::from_millis(20));
    let waiting = async {
        while client.http.post(&ping).await.status != status {
            poll.tick().await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("not {status}"));
}

#[tokio::test]
async fn what_one_replica_revokes_all_refuse_also_when_the_store_has_lost_it() {
    let mut replicas = Replicas::start(&["ls"]).await;
    let (first, second) = (replicas.first.address, replicas.second.address);
    let mut client = replicas.client(ClientKind::ModernHttp).await;
    let mut other = TestClient::connect(&mut replicas.first, ClientKind::ModernHttp, 1).await;
    let subject = RevokedSubject::Principal("c0".to_owned());
    replicas.first.gateway.revoke(subject.clone()).await.expect("the store is there");
    wait_for_status(&mut client, first, 401).await;
    wait_for_status(&mut client, second, 401).await;
    wait_for_status(&mut other, second, 200).await;
    // The replicas write it again. One that starts later reads it.
    replicas.store.clear();
    let sealed = async {
        let mut poll = tokio::time::interval(Duration::from_millis(20));
        while replicas.store.list_len() == 0 {
            poll.tick().await;
        }
    };
    timeout(TEST_TIMEOUT, sealed).await.expect("it is written again");
    for address in [first, second] {
        wait_for_status(&mut client, address, 401).await;
    }
    // Without the store, it holds on the replica that was told, until the other can be told.
    replicas.store.set_away(true);
    let token = RevokedSubject::Token("1".to_owned());
    let away = replicas.second.gateway.revoke(token.clone()).await;
    assert_eq!(away, Err(RevokeError::StoreAway));
    assert!(replicas.second.gateway.is_revoked(&token));
    replicas.store.set_away(false);
    let told = async {
        let mut poll = tokio::time::interval(Duration::from_millis(20));
        while !replicas.first.gateway.is_revoked(&token) {
            poll.tick().await;
        }
    };
    timeout(TEST_TIMEOUT * 2, told).await.expect("the other replica is told");
    assert_eq!(replicas.second.gateway.restore(&subject).await, Ok(true));
    for address in [second, first] {
        wait_for_status(&mut client, address, 200).await;
    }
    replicas.stop().await;
}

#[tokio::test]
async fn lists_that_change_on_one_replica_are_fetched_again_on_the_other() {
    let mut replicas = Replicas::start(&["mh"]).await;
    let fetches = |matrix: &ServerMatrix| {
        matrix.received("mh").iter().filter(|it| it["method"] == "tools/list").count()
    };
    let before = fetches(&replicas.servers[1]);
    let mut client = replicas.client(ClientKind::ModernHttp).await;
    client.call("mcp__mh__change_tools", json!({}), "").await.result();
    let mut poll = tokio::time::interval(Duration::from_millis(20));
    let fetched = async {
        while fetches(&replicas.servers[1]) == before {
            poll.tick().await;
        }
    };
    timeout(TEST_TIMEOUT, fetched).await.expect("the other replica fetches them");
    replicas.stop().await;
}
