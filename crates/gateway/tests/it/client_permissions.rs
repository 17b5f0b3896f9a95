//! What the rules of the operator mean for clients: who is asked, methods of extensions, and what a refusal says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use switchboard::config::permission::{PermissionMode, PermissionRules};
use switchboard::config::scope::Scope;
use switchboard::config::settings::Settings;
use switchboard::config::source::{Authority, Source};
use switchboard::connection::InProcessServer;
use switchboard_wire::jsonrpc::message;
use switchboard_wire::jsonrpc::message::Messages;
use switchboard_wire::transport::in_memory::InMemoryTransport;
use switchboard_wire::transport::{Transport, TransportEvent};

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, ServerMatrix, wait_until};
use crate::test_client::{ALL_KINDS, ClientKind, TestClient};

/// The folder of the operator's settings, which no client may learn.
const OPERATORS_FILE: &str = "/srv/operator/private/settings.json";

fn rules(authority: Authority, permissions: &Json) -> PermissionRules {
    let scope = match authority {
        Authority::Administrator => Scope::Enterprise,
        Authority::User => Scope::User,
    };
    let text = json!({"permissions": permissions}).to_string();
    let settings = Settings::read(&Source::file(scope, OPERATORS_FILE), &text, authority);
    assert!(settings.layer.problems.is_empty(), "{:?}", settings.layer.problems);
    settings.permissions
}

/// Declares an extension and answers its method.
async fn serve(mut transport: InMemoryTransport, charges: Arc<AtomicUsize>) {
    while let Ok(TransportEvent::Message(message)) = transport.next().await {
        let mut text = Vec::new();
        message.write_to(&mut text);
        let read: Json = serde_json::from_slice(&text).expect("JSON");
        let result = match read["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "shop", "version": "1"},
                "capabilities": {"extensions": {"example.com/pay": {}}, "tasks": {}, "tools": {}},
            }),
            Some("pay/charge") => {
                let count = charges.fetch_add(1, Ordering::Relaxed) + 1;
                json!({"charged": read["params"]["amount"], "count": count, "taskId": "t"})
            }
            Some("tools/list") => json!({"tools": []}),
            _ => json!({}),
        };
        let answer = match read["method"].as_str() {
            Some("server/discover") => {
                json!({"jsonrpc": "2.0", "id": read["id"], "error": {"code": -32601, "message": "no"}})
            }
            _ => json!({"jsonrpc": "2.0", "id": read["id"], "result": result}),
        };
        if !read["id"].is_null() {
            let bytes = Bytes::from(answer.to_string());
            let Ok(Messages::One(message)) = message::parse(&bytes) else { panic!("no message") };
            transport.push(message.into());
        }
    }
}

async fn shop(rules: PermissionRules) -> (GatewayFixture, Arc<AtomicUsize>) {
    let charges: Arc<AtomicUsize> = Arc::default();
    let counter = charges.clone();
    let server = InProcessServer::new(move |transport| serve(transport, counter.clone()));
    let in_process = BTreeMap::from([("shop".to_owned(), server)]);
    let entry = json!({"type": "sdk", "name": "shop"}).to_string();
    let options = FixtureOptions { in_process, rules, ..FixtureOptions::default() };
    (GatewayFixture::open(&[("shop", entry)], options).await, charges)
}

/// The audit records of a gateway, without those that are not written yet.
fn audit(fixture: &GatewayFixture) -> String {
    let mut text = String::new();
    let mut folders = vec![fixture.folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains("audit") {
                text.push_str(&std::fs::read_to_string(path).unwrap_or_default());
            }
        }
    }
    text
}

#[tokio::test]
async fn a_method_of_an_extension_is_a_call_to_the_rules_and_to_the_audit_log() {
    let deny = json!({"deny": ["mcp__shop__method:pay/*(amount=5)"]});
    let (mut fixture, charges) = shop(rules(Authority::User, &deny)).await;
    for kind in ALL_KINDS {
        let mut client = TestClient::connect(&mut fixture, kind, 0).await;
        let before = charges.load(Ordering::Relaxed);
        let refused = client.request("pay/charge", json!({"amount": "5"})).await;
        let text = refused.error()["message"].as_str().unwrap_or_default().to_owned();
        assert!(text.contains("mcp__shop__method:pay/*(amount=5)"), "{kind:?}: {text}");
        assert!(!text.contains("operator"), "{kind:?}: {text}");
        assert_eq!(charges.load(Ordering::Relaxed), before, "{kind:?}");
        let charged = client.request("pay/charge", json!({"amount": "7"})).await;
        assert_eq!(charged.result()["charged"], "7", "{kind:?}");
        assert_eq!(charges.load(Ordering::Relaxed), before + 1, "{kind:?}");
    }
    wait_until("all calls are recorded", || {
        let text = audit(&fixture);
        let count = |outcome: &str| {
            let is_method = |line: &&str| {
                line.contains("\"mcp__shop__method:pay/charge\"")
                    && line.contains(&format!("\"outcome\":\"{outcome}\""))
            };
            text.lines().filter(is_method).count()
        };
        (count("denied"), count("ok")) == (ALL_KINDS.len(), ALL_KINDS.len())
    })
    .await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_change_of_a_task_is_a_call_to_the_rules_and_to_the_audit_log() {
    let deny = json!({"deny": ["mcp__shop__method:tasks/cancel(taskId=t)"]});
    let (mut fixture, _charges) = shop(rules(Authority::User, &deny)).await;
    let mut client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    client.request("pay/charge", json!({"amount": "7"})).await.result();
    let refused = client.request("tasks/cancel", json!({"taskId": "t"})).await;
    let text = refused.error()["message"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("mcp__shop__method:tasks/cancel"), "{text}");
    client.request("tasks/get", json!({"taskId": "t"})).await.result();
    wait_until("the call is recorded", || {
        audit(&fixture).lines().any(|it| {
            it.contains("\"mcp__shop__method:tasks/cancel\"")
                && it.contains("\"outcome\":\"denied\"")
        })
    })
    .await;
    fixture.stop().await;
}

/// Calls `count` and grants it from now on, where that is offered. Returns the questions.
async fn call_and_grant(client: &mut TestClient) -> Vec<String> {
    let params = json!({"name": "mcp__lh__count", "arguments": {}});
    let grant = |_: &Json| json!({"action": "accept", "content": {"decision": "session"}});
    let exchange = client.request_answering("tools/call", params, &grant).await;
    assert_ne!(exchange.result()["isError"], true, "{exchange:?}");
    exchange.server_requests
}

#[tokio::test]
async fn a_grant_from_now_on_holds_for_the_session_that_gave_it() {
    let upstreams = ServerMatrix::start();
    let options = FixtureOptions { mode: PermissionMode::Default, ..FixtureOptions::default() };
    let mut fixture = upstreams.gateway(&["lh"], options).await;
    let mut first = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let mut second = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    assert_eq!(call_and_grant(&mut first).await.len(), 1);
    assert_eq!(call_and_grant(&mut first).await.len(), 0);
    assert_eq!(call_and_grant(&mut second).await.len(), 1, "another program with the same token");
    // Modern clients over HTTP have no session.
    let mut modern = TestClient::connect(&mut fixture, ClientKind::ModernHttp, 0).await;
    for _ in 0..2 {
        assert_eq!(call_and_grant(&mut modern).await.len(), 1);
    }
    drop((first, second, modern));
    fixture.stop().await;
}

#[tokio::test]
async fn a_hidden_method_does_not_exist() {
    let deny = json!({"deny": ["mcp__shop__method:*"]});
    let (mut fixture, charges) = shop(rules(Authority::User, &deny)).await;
    let mut client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let refused = client.request("pay/charge", json!({"amount": "5"})).await;
    assert_eq!(refused.error()["code"], -32601, "{refused:?}");
    assert_eq!(charges.load(Ordering::Relaxed), 0);
    fixture.stop().await;
}

/// Calls `count` of a server, and returns the result. The client accepts every question.
async fn call(permissions: &Json, kind: ClientKind) -> (Json, Vec<String>) {
    let upstreams = ServerMatrix::start();
    let rules = rules(Authority::Administrator, permissions);
    let options = FixtureOptions { rules, ..FixtureOptions::default() };
    let mut fixture = upstreams.gateway(&["lh"], options).await;
    let mut client = TestClient::connect(&mut fixture, kind, 0).await;
    let params = json!({"name": "mcp__lh__count", "arguments": {}});
    let accept = |_: &Json| json!({"action": "accept", "content": {"decision": "once"}});
    let exchange = client.request_answering("tools/call", params, &accept).await;
    let result = exchange.result().clone();
    drop(client);
    fixture.stop().await;
    (result, exchange.server_requests)
}

#[tokio::test]
async fn a_client_does_not_answer_an_administrators_question() {
    for kind in [ClientKind::LegacyHttp, ClientKind::ModernHttp, ClientKind::LegacyInMemory] {
        // The fixture has no operator, so that the call is denied.
        let (result, asked) = call(&json!({"ask": ["mcp__lh"]}), kind).await;
        assert_eq!((result["isError"].clone(), asked.len()), (true.into(), 0), "{result}");
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains("the ask rule `mcp__lh` (enterprise settings)"), "{text}");
        assert!(!text.contains("operator/private"), "the client learns no path: {text}");
        let client = json!({"ask": [{"rule": "mcp__lh", "approver": "client"}]});
        let (result, asked) = call(&client, kind).await;
        assert_eq!((result["isError"] == true, asked.len()), (false, 1), "{result}");
        let both = json!({"ask": ["mcp__lh"], "approver": "both"});
        let (result, asked) = call(&both, kind).await;
        assert_eq!((result["isError"] == true, asked.len()), (true, 1), "{result}");
    }
}

#[tokio::test]
async fn a_client_does_not_learn_where_a_servers_program_is() {
    let entry = json!({"command": "/srv/operator/private/server"}).to_string();
    let upstreams = ServerMatrix::start();
    let (name, other) = upstreams.entry("lh");
    let mut fixture =
        GatewayFixture::open(&[("gone", entry), (&name, other)], FixtureOptions::default()).await;
    let mut client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    for (method, params) in [
        ("tools/call", json!({"name": "mcp__gone__x", "arguments": {}})),
        ("resources/read", json!({"uri": "gone://x"})),
    ] {
        let exchange = client.request(method, params).await;
        let text = format!("{:?}", exchange.outcome);
        assert!(!text.contains("operator"), "{method}: {text}");
    }
    drop(client);
    fixture.stop().await;
}
