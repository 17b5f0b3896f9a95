//! Calls when connections break: which are repeated, which are not, and what the server receives.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::connection::{RetryPolicy, Status};
use switchboard::request::{RequestError, ServerRequest};
use testkit::{Quirk, ResponseFormat, Script, ScriptedProgram, ScriptedServer, processes};
use tokio::sync::mpsc;

use crate::support::{CALL_TIMEOUT, TIMEOUT, TestCall, TestHost, is_connected, remote};

#[tokio::test]
async fn a_tool_cannot_be_called_without_permission() {
    let test_host = TestHost::without_retries();
    let journal = test_host.folder.path().join("journal");
    test_host
        .apply(&[("s", ScriptedProgram::config_entry(&Script::legacy().journal(&journal)))])
        .await;
    test_host.view("s").await;
    let error =
        test_host.host.request("s", ServerRequest::idempotent("tools/call", CALL_TIMEOUT)).await;
    let error = error.expect_err("that way leads past the rules");
    assert!(
        matches!(error, RequestError::PermitRequired) && error.to_string().contains("Host::call")
    );
    assert_eq!(
        testkit::scripted::read_journal(&journal)
            .iter()
            .filter(|it| it["method"] == "tools/call")
            .count(),
        0
    );
    test_host.stop().await;
}

/// How often a tool was called, from the journal of a program and its restarts.
fn calls_of(journal: &Path, tool: &str) -> usize {
    let received = testkit::scripted::read_journal(journal);
    let is_call = |it: &&Json| it["method"] == "tools/call" && it["params"]["name"] == tool;
    received.iter().filter(is_call).count()
}

#[tokio::test]
async fn a_call_that_may_have_run_is_not_repeated_and_the_next_one_succeeds() {
    for retry_policy in [RetryPolicy::NoRetry, RetryPolicy::RetryWithBackoff] {
        let test_host = TestHost::with(|options| options.retry_policy = retry_policy);
        let journal = test_host.folder.path().join("journal");
        test_host
            .apply(&[("s", ScriptedProgram::config_entry(&Script::legacy().journal(&journal)))])
            .await;
        test_host.view("s").await;
        let error = test_host.call("s", "crash", json!({})).await.expect_err("it crashes");
        assert!(matches!(&error, RequestError::Interrupted { .. }), "{error:?}");
        assert_eq!(calls_of(&journal, "crash"), 1);
        let sum = test_host.call("s", "add", json!({"a": 1, "b": 2})).await.expect("it is back");
        assert_eq!(sum["sum"], 3.0);
        assert_eq!((calls_of(&journal, "crash"), calls_of(&journal, "add")), (1, 1));
        test_host.stop().await;
    }
}

#[tokio::test]
async fn a_200_mb_result_blocks_neither_that_server_nor_another() {
    let json = ScriptedServer::http(Script::legacy().response_format(ResponseFormat::Json));
    let events = ScriptedServer::http(Script::modern().response_format(ResponseFormat::Sse));
    for entry in [
        ScriptedProgram::config_entry(&Script::legacy()),
        remote("http", json.url()),
        remote("http", events.url()),
    ] {
        let test_host = TestHost::without_retries();
        let other = ScriptedProgram::config_entry(&Script::modern());
        test_host.apply(&[("s", entry.clone()), ("other", other)]).await;
        test_host.view("s").await;
        test_host.view("other").await;
        let sum = json!({"a": 1, "b": 2});
        let (large, same, elsewhere) = tokio::join!(
            test_host.call("s", "big", json!({"bytes": 200_000_000})),
            test_host.call("s", "add", sum.clone()),
            test_host.call("other", "add", sum.clone()),
        );
        let error = large.expect_err("that is too much");
        assert!(matches!(&error, RequestError::TooLarge { .. }), "{entry}: {error:?}");
        assert_eq!(same.expect("the same server responds")["sum"], 3.0);
        assert_eq!(elsewhere.expect("another server responds")["sum"], 3.0);
        // The connection stays intact.
        let after = test_host.call("s", "count", json!({})).await.expect("it is still there");
        assert_eq!(after["tools"]["big"], 1, "{entry}: {after}");
        assert_eq!(after["tools"]["add"], 1, "{entry}: {after}");
        test_host.stop().await;
    }
}

#[tokio::test]
async fn a_crashed_program_is_restarted_automatically() {
    let test_host = TestHost::new();
    test_host.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    let first = test_host.view("s").await.pid.expect("a program");
    test_host.call("s", "crash", json!({})).await.expect_err("it crashes");
    let backing_off = test_host.view_when("s", |it| !is_connected(it)).await;
    assert!(
        matches!(backing_off.status, Status::Pending { attempt: 2, cause: Some(_), .. }),
        "{backing_off:#?}"
    );
    let second = test_host.view_when("s", is_connected).await.pid.expect("a program");
    assert_ne!(first, second);
    test_host.stop().await;
}

#[tokio::test]
async fn the_exit_of_a_program_is_noticed_while_its_children_hold_its_output_open() {
    let test_host = TestHost::without_retries();
    let script = Script::legacy().quirk(Quirk::ForksGrandchildren { n: 2 });
    test_host.apply(&[("s", ScriptedProgram::config_entry(&script))]).await;
    test_host.view("s").await;
    let error = test_host.call("s", "crash", json!({})).await.expect_err("it crashes");
    assert!(matches!(&error, RequestError::Interrupted { .. }), "{error:?}");
    test_host.stop().await;
}

#[tokio::test]
async fn an_idempotent_call_is_repeated_once_over_a_new_connection() {
    for retry_policy in [RetryPolicy::NoRetry, RetryPolicy::RetryWithBackoff] {
        let test_host = TestHost::with(|options| options.retry_policy = retry_policy);
        let journal = test_host.folder.path().join("journal");
        let script = Script::legacy().journal(&journal);
        test_host.apply(&[("s", ScriptedProgram::config_entry(&script))]).await;
        test_host.view("s").await;
        let error =
            test_host.call_idempotent("s", "crash", json!({})).await.expect_err("it crashes again");
        assert!(matches!(&error, RequestError::ConnectionLost { .. }), "{error:?}");
        assert_eq!(calls_of(&journal, "crash"), 2);
        test_host.stop().await;
    }
}

#[tokio::test]
async fn an_expired_session_is_replaced_and_no_call_runs_twice() {
    let server = ScriptedServer::http(Script::legacy().quirk(Quirk::DropsSession { after: 6 }));
    let test_host = TestHost::new();
    test_host.apply(&[("s", remote("http", server.url()))]).await;
    test_host.view("s").await;
    for number in 0..12 {
        // Calls with side effects too: a server that does not know the session has not executed them.
        let sum = test_host.call("s", "add", json!({"a": number, "b": 1})).await.expect("answered");
        assert_eq!(sum["sum"], f64::from(number + 1));
    }
    // Rejected requests are received, but not counted as accepted.
    let began = server.counts()["methods"]["initialize"].as_u64().expect("a number");
    assert!(began >= 3, "{began}");
    let sent = server.counts()["tools"]["add"].as_u64().expect("a number");
    assert!(sent > 12 && sent <= 12 + began, "{sent} calls, {began} sessions");
    test_host.stop().await;
}

/// Polls a server until it reports that one call of `slow` was cancelled.
async fn until_cancelled(test_host: &TestHost, name: &str) {
    let request = async {
        loop {
            let counts =
                test_host.call_idempotent(name, "count", json!({})).await.expect("answered");
            if counts["cancelled"] == json!(["slow"]) {
                return;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, request).await.expect("the cancellation arrives");
}

#[tokio::test]
async fn a_call_times_out_only_without_progress() {
    let test_host = TestHost::new();
    test_host
        .apply(&[
            ("legacy", ScriptedProgram::config_entry(&Script::legacy())),
            ("modern", ScriptedProgram::config_entry(&Script::modern())),
        ])
        .await;
    test_host.settled().await;
    for name in ["legacy", "modern"] {
        let (progress, mut progress_events) = mpsc::channel(16);
        let timeout = Duration::from_millis(500);
        let slow = |steps: u32| TestCall {
            timeout,
            ..TestCall::new("slow", json!({"ms": 1200, "steps": steps}))
        };
        let steady = TestCall { progress: Some(progress), ..slow(12) };
        test_host.run_call(name, steady).await.expect("it shows progress all the time");
        assert!(progress_events.try_recv().is_ok(), "{name}");
        let error = test_host.run_call(name, slow(1)).await.expect_err("it shows none");
        assert!(
            matches!(&error, RequestError::Timeout { after, .. } if *after == timeout),
            "{error:?}"
        );
        // The server got the cancellation, and the connection still works.
        until_cancelled(&test_host, name).await;
    }
    test_host.stop().await;
}

#[tokio::test]
async fn a_dropped_call_is_cancelled() {
    let test_host = TestHost::new();
    let modern = ScriptedServer::http(Script::modern());
    test_host
        .apply(&[
            ("stdio", ScriptedProgram::config_entry(&Script::legacy())),
            ("http", remote("http", modern.url())),
        ])
        .await;
    test_host.settled().await;
    for name in ["stdio", "http"] {
        let (progress, mut progress_events) = mpsc::channel(16);
        let arguments = json!({"ms": 60_000, "steps": 6000});
        let slow = TestCall { progress: Some(progress), ..TestCall::new("slow", arguments) };
        let request = test_host.run_call(name, slow);
        tokio::select! {
            answer = request => panic!("{name}: {answer:?}"),
            sign = progress_events.recv() => assert!(sign.is_some()),
        }
        until_cancelled(&test_host, name).await;
    }
    test_host.stop().await;
}

#[tokio::test]
async fn a_remote_connection_is_replaced_after_three_failed_calls() {
    // Modern, so that no GET stream detects the failure earlier.
    let server = ScriptedServer::http(Script::modern());
    let test_host = TestHost::new();
    test_host.apply(&[("s", remote("http", server.url()))]).await;
    test_host.view("s").await;
    let bad = Quirk::HttpStatus {
        status: 503,
        body: String::new(),
        headers: std::collections::BTreeMap::new(),
        after: 0,
        times: None,
    };
    let server = server.restart(Script::modern().quirk(bad).quirks_on("tools/call"));
    for _ in 0..3 {
        assert!(is_connected(&test_host.host.snapshot().servers["s"]));
        test_host.call("s", "add", json!({"a": 1, "b": 2})).await.expect_err("it is broken");
    }
    test_host.view_when("s", |it| !is_connected(it)).await;
    let server = server.restart(Script::modern());
    let sum = test_host.call("s", "add", json!({"a": 1, "b": 2})).await.expect("made anew");
    assert_eq!(sum["sum"], 3.0);
    assert_eq!(server.counts()["tools"]["add"], 1);
    test_host.stop().await;
}

#[tokio::test]
async fn a_call_to_a_failed_server_tries_once_more() {
    let test_host = TestHost::without_retries();
    let flag = test_host.folder.path().join("flag");
    let script = "test -e \"$1\" || { echo not yet >&2; exit 4; }; shift; exec \"$@\"";
    let entry = json!({
        "command": "sh",
        "args": ["-c", script, "sh", flag, testkit::scripted::program(), Script::legacy().to_json()],
    });
    test_host.apply(&[("s", entry.to_string())]).await;
    let view = test_host.view("s").await;
    assert!(matches!(view.status, Status::Failed(_)), "{view:#?}");
    let error = test_host.call("s", "add", json!({})).await.expect_err("not yet");
    assert!(matches!(error.status(), Some(Status::Failed(_))), "{error:?}");
    std::fs::write(&flag, "").expect("a file");
    let sum = test_host.call("s", "add", json!({"a": 1, "b": 2})).await.expect("now");
    assert_eq!(sum["sum"], 3.0);
    test_host.stop().await;
}

#[tokio::test]
async fn a_connection_can_be_reconnected_on_request() {
    let test_host = TestHost::new();
    test_host.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    let first = test_host.view("s").await.pid.expect("a program");
    test_host.host.reconnect("s").await.expect("there is one");
    let view = test_host
        .view_when("s", |it| is_connected(it) && it.pid.is_some_and(|now| now != first))
        .await;
    assert_ne!(view.pid, Some(first));
    processes::wait_until_exited(first, TIMEOUT);
    assert!(test_host.host.reconnect("unknown").await.is_none());
    test_host.stop().await;
}

#[tokio::test]
async fn concurrent_callers_share_one_connection() {
    let test_host = TestHost::new();
    let journal = test_host.folder.path().join("journal");
    let server = ScriptedServer::http(Script::legacy());
    test_host
        .apply(&[
            ("stdio", ScriptedProgram::config_entry(&Script::legacy().journal(&journal))),
            ("http", remote("http", server.url())),
        ])
        .await;
    let test_host = Arc::new(test_host);
    let mut request = tokio::task::JoinSet::new();
    for number in 0..50 {
        for name in ["stdio", "http"] {
            let test_host = test_host.clone();
            request.spawn(async move {
                let sum = test_host.call(name, "add", json!({"a": number, "b": 1})).await;
                assert_eq!(sum.expect("answered")["sum"], f64::from(number + 1));
            });
        }
    }
    while let Some(joined) = request.join_next().await {
        joined.expect("it was answered");
    }
    let received = testkit::scripted::read_journal(&journal);
    assert_eq!(received.iter().filter(|it| it["method"] == "initialize").count(), 1);
    assert_eq!(calls_of(&journal, "add"), 50);
    let counts = server.counts();
    assert_eq!(
        (&counts["methods"]["initialize"], &counts["tools"]["add"]),
        (&json!(1), &json!(50))
    );
    Arc::into_inner(test_host).expect("the last reference").stop().await;
}

#[tokio::test]
async fn a_restarted_server_is_reconnected_over_every_transport() {
    let server = [
        ("http-legacy", "http", ScriptedServer::http(Script::legacy())),
        ("http-modern", "http", ScriptedServer::http(Script::modern())),
        ("sse", "sse", ScriptedServer::sse(Script::legacy())),
        ("ws-legacy", "ws", ScriptedServer::ws(Script::legacy())),
        ("ws-modern", "ws", ScriptedServer::ws(Script::modern())),
    ];
    let test_host = TestHost::new();
    let servers: Vec<(&str, String)> =
        server.iter().map(|(name, kind, it)| (*name, remote(kind, it.url()))).collect();
    test_host.apply(&servers).await;
    let snapshot = test_host.settled().await;
    assert!(snapshot.servers.values().all(|it| is_connected(it)), "{snapshot:#?}");
    for (name, _, it) in server {
        let script = if name.ends_with("modern") { Script::modern() } else { Script::legacy() };
        let again = it.restart(script);
        let sum = test_host.call_idempotent(name, "add", json!({"a": 1, "b": 2})).await;
        assert_eq!(sum.unwrap_or_else(|error| panic!("{name}: {error:?}"))["sum"], 3.0);
        // A request that names a session of the old server is rejected.
        let max_calls = if name == "http-legacy" { 2 } else { 1 };
        let received = again.counts()["tools"]["add"].as_u64().expect("a number");
        assert!((1..=max_calls).contains(&received), "{name}: {received}");
    }
    test_host.stop().await;
}

#[tokio::test]
async fn a_call_is_not_repeated_when_a_remote_server_disconnects() {
    let server = [
        ("http-modern", "http", ScriptedServer::http(Script::modern())),
        ("http-legacy", "http", ScriptedServer::http(Script::legacy())),
        ("ws", "ws", ScriptedServer::ws(Script::legacy())),
        ("sse", "sse", ScriptedServer::sse(Script::legacy())),
    ];
    let test_host = TestHost::new();
    let servers: Vec<(&str, String)> =
        server.iter().map(|(name, kind, it)| (*name, remote(kind, it.url()))).collect();
    test_host.apply(&servers).await;
    test_host.settled().await;
    for (name, _, it) in &server {
        // The client waits for a resumable stream as long as the caller waits.
        let timeout = Duration::from_millis(1500);
        let crash = TestCall { timeout, ..TestCall::new("crash", json!({})) };
        let error = test_host.run_call(name, crash).await.expect_err("it breaks off");
        let is_disconnected =
            matches!(&error, RequestError::Interrupted { .. } | RequestError::Timeout { .. });
        assert!(is_disconnected, "{name}: {error:?}");
        assert_eq!(it.counts()["tools"]["crash"], 1, "{name}");
        let sum = test_host.call(name, "add", json!({"a": 1, "b": 2})).await;
        assert_eq!(sum.unwrap_or_else(|error| panic!("{name}: {error:?}"))["sum"], 3.0);
    }
    test_host.stop().await;
}
