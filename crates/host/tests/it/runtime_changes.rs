//! Changes while a host runs: a server's tools, its requests, and the configured servers.

use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::connection::ServerView;
use testkit::{Quirk, Script, ScriptedProgram, ScriptedServer, processes};

use crate::support::{TIMEOUT, TestHost, is_connected, remote, tools, with_member};

fn has(view: &ServerView, tool: &str) -> bool {
    is_connected(view) && tools(view).contains(&tool)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_added_tool_appears_over_every_transport() {
    let server = [
        ("http-legacy", "http", ScriptedServer::http(Script::legacy())),
        ("http-modern", "http", ScriptedServer::http(Script::modern())),
        ("sse", "sse", ScriptedServer::sse(Script::legacy())),
        ("ws-legacy", "ws", ScriptedServer::ws(Script::legacy())),
        ("ws-modern", "ws", ScriptedServer::ws(Script::modern())),
    ];
    let test_host = TestHost::new();
    let mut servers = vec![
        ("stdio-legacy", ScriptedProgram::config_entry(&Script::legacy())),
        ("stdio-modern", ScriptedProgram::config_entry(&Script::modern())),
    ];
    servers.extend(server.iter().map(|(name, kind, it)| (*name, remote(kind, it.url()))));
    test_host.apply(&servers).await;
    let before = test_host.settled().await;
    assert!(before.servers.values().all(|it| is_connected(it)), "{before:#?}");
    assert!(!before.servers.values().any(|it| has(it, "added_0")));
    // Streams must be open before the change.
    server[0].2.wait_for(|requests| requests.iter().any(|it| it.method == "GET"));
    server[1].2.wait_for(|it| it.iter().any(|it| it.rpc_method() == Some("subscriptions/listen")));
    server[4].2.wait_for(|it| it.iter().any(|it| it.rpc_method() == Some("subscriptions/listen")));
    for (name, _) in &servers {
        test_host.call(name, "change_tools", json!({})).await.expect("it changes");
    }
    let after = test_host.until(|it| it.servers.values().all(|it| has(it, "added_0"))).await;
    assert!(after.revision > before.revision);
    test_host.stop().await;
}

#[tokio::test]
async fn many_changes_cause_few_fetches() {
    let storm = Quirk::ListChangedStorm { n: 3000 };
    let legacy = ScriptedServer::http(Script::legacy().quirk(storm.clone()));
    let modern = ScriptedServer::ws(Script::modern().quirk(storm));
    let test_host = TestHost::new();
    test_host
        .apply(&[("legacy", remote("http", legacy.url())), ("modern", remote("ws", modern.url()))])
        .await;
    test_host.settled().await;
    for (name, server) in [("legacy", legacy), ("modern", modern)] {
        let added = server.change_tools();
        test_host.view_when(name, |it| has(it, &added)).await;
        let fetches = server.counts()["methods"]["tools/list"].as_u64().expect("a number");
        assert!((2..=8).contains(&fetches), "{name}: {fetches}");
    }
    test_host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_ended_change_stream_is_reopened() {
    let server = ScriptedServer::http(Script::modern());
    let test_host = TestHost::new();
    test_host.apply(&[("s", remote("http", server.url()))]).await;
    test_host.view("s").await;
    processes::wait_until(TIMEOUT, "it is listened to again", || {
        server.end_subscriptions();
        let requests = server.requests();
        let listens = requests.iter().filter(|it| it.rpc_method() == Some("subscriptions/listen"));
        (listens.count() >= 2).then_some(())
    });
    // Whether the notification arrives or was missed, the tool appears.
    let added = server.change_tools();
    test_host.view_when("s", |it| has(it, &added)).await;
    test_host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tools_stay_while_a_list_request_times_out_and_is_retried() {
    let server = ScriptedServer::http(Script::modern());
    let test_host = TestHost::with(|options| options.connect_timeout = Duration::from_secs(2));
    test_host.apply(&[("s", remote("http", server.url()))]).await;
    let before = test_host.view("s").await;
    assert!(has(&before, "echo"), "{before:#?}");
    server.wait_for(|it| it.iter().any(|it| it.rpc_method() == Some("subscriptions/listen")));
    // The stream ends with the restart, so that everything is fetched again.
    let unresponsive = Script::modern().quirk(Quirk::NeverAnswers).quirks_on("tools/list");
    let server = server.restart(unresponsive);
    let issues =
        |it: &ServerView| it.catalogue.issues().map(ToString::to_string).collect::<Vec<_>>();
    let is_noted =
        |it: &ServerView| issues(it).iter().any(|it| it.starts_with("tools could not be"));
    let unsure = test_host.view_when("s", is_noted).await;
    assert!(has(&unsure, "echo"), "{unsure:#?}");
    let server = server.restart(Script::modern());
    let sure = test_host.view_when("s", |it| !is_noted(it)).await;
    assert!(has(&sure, "echo"), "{sure:#?}");
    drop(server);
    test_host.stop().await;
}

#[tokio::test]
async fn server_requests_get_the_roots_and_no_invented_answers() {
    let legacy = ScriptedServer::http(Script::legacy());
    let modern = ScriptedServer::http(Script::modern());
    let test_host = TestHost::new();
    test_host
        .apply(&[
            ("stdio-legacy", ScriptedProgram::config_entry(&Script::legacy())),
            ("stdio-modern", ScriptedProgram::config_entry(&Script::modern())),
            ("http-legacy", remote("http", legacy.url())),
            ("http-modern", remote("http", modern.url())),
        ])
        .await;
    let snapshot = test_host.settled().await;
    let folder = test_host.folder.path().canonicalize().expect("it is there");
    let uri = format!("file://{}", folder.display());
    for name in snapshot.servers.keys() {
        let ask = |kind: &'static str| test_host.call(name, "ask", json!({"kind": kind}));
        let roots = ask("roots").await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(roots["rounds"][0]["roots"]["roots"][0]["uri"], json!(uri), "{name}: {roots}");
        let declined = ask("elicitation").await.expect("answered");
        assert_eq!(declined["rounds"][0]["elicitation"]["action"], "decline", "{name}: {declined}");
        // The modern era cannot reject a single input request, and some servers do not ask for features that were not
        // declared.
        match ask("sampling").await {
            Ok(refused) => {
                assert_eq!(refused["rounds"][0]["sampling"]["model"], Json::Null, "{refused}");
            }
            Err(error) => assert!(name.ends_with("modern"), "{name}: {error:?}"),
        }
    }
    test_host.stop().await;
}

#[tokio::test]
async fn only_servers_with_changed_entries_are_restarted() {
    let test_host = TestHost::new();
    let entry = |name: &str| ScriptedProgram::config_entry(&Script::legacy().name(name));
    let first = [("a", entry("a")), ("b", entry("b")), ("c", entry("c"))];
    test_host.apply(&first).await;
    let before = test_host.settled().await;
    let number = |snapshot: &switchboard::Snapshot, name: &str| {
        snapshot.servers[name].pid.expect("a program")
    };
    let changed = with_member(&first[1].1, "env", json!({"X": "1"}));
    test_host.apply(&[("a", entry("a")), ("b", changed), ("d", entry("d"))]).await;
    // All servers stay in the snapshot meanwhile, and it settles only when all are connected.
    let names: Vec<String> = test_host.host.snapshot().servers.keys().cloned().collect();
    assert_eq!(names, ["a", "b", "d"]);
    let after = test_host.settled().await;
    assert!(after.servers.values().all(|it| is_connected(it)), "{after:#?}");
    assert_eq!(number(&after, "a"), number(&before, "a"));
    assert_ne!(number(&after, "b"), number(&before, "b"));
    processes::wait_until_exited(number(&before, "b"), TIMEOUT);
    processes::wait_until_exited(number(&before, "c"), TIMEOUT);
    let gone = test_host.call("c", "echo", json!({})).await.expect_err("it is gone");
    assert_eq!(gone.to_string(), "there is no server `c`");
    test_host.stop().await;
    assert!(!processes::is_alive(number(&after, "a")));
}

#[tokio::test]
async fn a_replaced_server_starts_after_the_old_one_has_exited() {
    let test_host = TestHost::new();
    let stubborn = Script::legacy().quirk(Quirk::IgnoresSigterm).quirk(Quirk::IgnoresStdinClose);
    let entry = ScriptedProgram::config_entry(&stubborn);
    test_host.apply(&[("s", entry.clone())]).await;
    let first = test_host.view("s").await.pid.expect("a program");
    // Changed twice in a row: the intermediate one need not run.
    test_host.apply(&[("s", with_member(&entry, "env", json!({"X": "1"})))]).await;
    test_host.apply(&[("s", with_member(&entry, "env", json!({"X": "2"})))]).await;
    let view = test_host.view_when("s", is_connected).await;
    assert_ne!(view.pid, Some(first));
    assert!(!processes::is_alive(first));
    test_host.stop().await;
}

#[tokio::test]
async fn stopping_one_host_does_not_affect_the_servers_of_another() {
    let (one, other) = (TestHost::new(), TestHost::new());
    one.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    other.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    one.view("s").await;
    let running = other.view("s").await.pid.expect("a program");
    one.stop().await;
    other.call_idempotent("s", "echo", json!({"text": "x"})).await.expect("it is still there");
    assert_eq!(other.view("s").await.pid, Some(running));
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_remote_server_that_is_gone_is_shown_as_lost_while_it_is_watched() {
    let server = ScriptedServer::http(Script::modern());
    let test_host = TestHost::new();
    test_host.apply(&[("far", remote("http", server.url()))]).await;
    test_host.view_when("far", is_connected).await;
    let _watched = test_host.host.watch_servers();
    drop(server);
    test_host.view_when("far", |view| !is_connected(view)).await;
    test_host.stop().await;
}
