//! Resource subscriptions over every transport and in both eras.

use std::time::Duration;

use serde_json::json;
use switchboard::{ResourceEvent, SubscribeError, Subscription};
use testkit::{Script, ScriptedProgram, ScriptedServer, processes};
use tokio::time::timeout;

use crate::support::{TIMEOUT, TestHost, is_connected, remote, tools};

const URI: &str = "scripted://resource/0";

async fn next(subscription: &mut Subscription) -> ResourceEvent {
    let event = timeout(TIMEOUT, subscription.next()).await.expect("something comes");
    event.expect("the server is still configured")
}

/// How often the server received a method.
fn received_count(server: &ScriptedServer, method: &str) -> u64 {
    server.counts()["methods"][method].as_u64().unwrap_or(0)
}

fn updated() -> ResourceEvent {
    ResourceEvent::Updated { uri: URI.to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_change_is_reported_over_every_transport() {
    let server = [
        ("http-legacy", "http", ScriptedServer::http(Script::legacy().resources(2))),
        ("http-modern", "http", ScriptedServer::http(Script::modern().resources(2))),
        ("sse", "sse", ScriptedServer::sse(Script::legacy().resources(2))),
        ("ws-legacy", "ws", ScriptedServer::ws(Script::legacy().resources(2))),
        ("ws-modern", "ws", ScriptedServer::ws(Script::modern().resources(2))),
    ];
    let test_host = TestHost::new();
    let mut servers = vec![
        ("stdio-legacy", ScriptedProgram::config_entry(&Script::legacy().resources(2))),
        ("stdio-modern", ScriptedProgram::config_entry(&Script::modern().resources(2))),
    ];
    servers.extend(server.iter().map(|(name, kind, it)| (*name, remote(kind, it.url()))));
    test_host.apply(&servers).await;
    test_host.settled().await;
    // Streams must be open before the change.
    server[0].2.wait_for(|requests| requests.iter().any(|it| it.method == "GET"));
    for (name, _) in &servers {
        let mut subscription = test_host.host.subscribe(name, URI).await.expect("it can");
        assert_eq!(next(&mut subscription).await, ResourceEvent::Subscribed, "{name}");
        let other = json!({"uri": "scripted://resource/1"});
        test_host.call(name, "touch", other).await.expect("it touches");
        test_host.call(name, "touch", json!({"uri": URI})).await.expect("it touches");
        assert_eq!(next(&mut subscription).await, updated(), "{name}");
        subscription.unsubscribe().await;
    }
    test_host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn subscribers_share_one_subscription_until_the_last_one_is_dropped() {
    let server = ScriptedServer::ws(Script::legacy().resources(1));
    let test_host = TestHost::new();
    test_host.apply(&[("s", remote("ws", server.url()))]).await;
    let mut one = test_host.host.subscribe("s", URI).await.expect("it can");
    let mut other = test_host.host.subscribe("s", URI).await.expect("it can");
    assert_eq!(next(&mut one).await, ResourceEvent::Subscribed);
    assert_eq!(next(&mut other).await, ResourceEvent::Subscribed);
    server.notify_resource_updated(URI);
    assert_eq!((next(&mut one).await, next(&mut other).await), (updated(), updated()));
    assert_eq!(received_count(&server, "resources/subscribe"), 1);
    drop(one);
    server.notify_resource_updated(URI);
    assert_eq!(next(&mut other).await, updated());
    assert_eq!(received_count(&server, "resources/unsubscribe"), 0);
    drop(other);
    let is_unsubscribed = || (received_count(&server, "resources/unsubscribe") == 1).then_some(());
    processes::wait_until(TIMEOUT, "the server gets the unsubscribe", is_unsubscribed);
    test_host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_slow_subscriber_gets_many_changes_as_one() {
    let test_host = TestHost::new();
    test_host.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy().resources(1)))]).await;
    let mut subscription = test_host.host.subscribe("s", URI).await.expect("it can");
    assert_eq!(next(&mut subscription).await, ResourceEvent::Subscribed);
    for _ in 0..50 {
        test_host.call("s", "touch", json!({"uri": URI})).await.expect("it touches");
    }
    // The change of the tools comes after all of them, so when it arrives the others have arrived.
    test_host.call("s", "change_tools", json!({})).await.expect("it changes");
    test_host.view_when("s", |it| tools(it).contains(&"added_0")).await;
    assert_eq!(next(&mut subscription).await, updated());
    let nothing = timeout(Duration::ZERO, subscription.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    test_host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_reconnect_renews_the_subscription_and_reports_it() {
    for script in [Script::legacy(), Script::modern()] {
        let test_host = TestHost::new();
        test_host.apply(&[("s", ScriptedProgram::config_entry(&script.resources(1)))]).await;
        let mut subscription = test_host.host.subscribe("s", URI).await.expect("it can");
        assert_eq!(next(&mut subscription).await, ResourceEvent::Subscribed);
        let first = test_host.view("s").await.pid;
        test_host.host.reconnect("s").await.expect("it is there");
        assert_eq!(next(&mut subscription).await, ResourceEvent::Resubscribed);
        let again = test_host.view_when("s", |it| is_connected(it) && it.pid != first).await;
        assert!(again.pid.is_some());
        test_host.call("s", "touch", json!({"uri": URI})).await.expect("it touches");
        assert_eq!(next(&mut subscription).await, updated());
        test_host.stop().await;
        assert_eq!(timeout(TIMEOUT, subscription.next()).await.expect("it ends"), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_modern_stream_is_reopened_and_another_resource_joins_it() {
    let server = ScriptedServer::ws(Script::modern().resources(2));
    let test_host = TestHost::new();
    test_host.apply(&[("s", remote("ws", server.url()))]).await;
    let mut one = test_host.host.subscribe("s", URI).await.expect("it can");
    assert_eq!(next(&mut one).await, ResourceEvent::Subscribed);
    let mut two = test_host.host.subscribe("s", "scripted://resource/1").await.expect("it can");
    assert_eq!(next(&mut two).await, ResourceEvent::Subscribed);
    server.notify_resource_updated(URI);
    // No change is lost during the handover; both streams may report it.
    assert_eq!(next(&mut one).await, updated());
    server.end_subscriptions();
    let mut event = next(&mut one).await;
    if event == updated() {
        event = next(&mut one).await;
    }
    assert_eq!(event, ResourceEvent::Resubscribed);
    assert_eq!(next(&mut two).await, ResourceEvent::Resubscribed);
    server.notify_resource_updated(URI);
    assert_eq!(next(&mut one).await, updated());
    test_host.stop().await;
}

#[tokio::test]
async fn servers_without_subscriptions_are_not_asked() {
    let test_host = TestHost::new();
    test_host.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    let error = test_host.host.subscribe("s", URI).await.expect_err("it has no resources");
    assert!(matches!(error, SubscribeError::Unsupported(_)), "{error:?}");
    let error = test_host.host.subscribe("unknown", URI).await.expect_err("there is none");
    assert!(matches!(error, SubscribeError::UnknownServer(_)), "{error:?}");
    test_host.stop().await;
}
