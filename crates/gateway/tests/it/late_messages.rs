//! A shared server whose messages do not name their call: messages that come after a call was cancelled or has ended do
//! not reach the client of the next call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use switchboard::connection::InProcessServer;
use switchboard_wire::jsonrpc::message;
use switchboard_wire::jsonrpc::message::{Message, Messages};
use switchboard_wire::transport::in_memory::InMemoryTransport;
use switchboard_wire::transport::{Transport, TransportEvent};

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, wait_until};
use crate::test_client::{ClientKind, TestClient};

const CANARY: &str = "canary-of-bob";

fn push(transport: &mut InMemoryTransport, message: &Json) {
    let bytes = Bytes::from(message.to_string());
    let Ok(Messages::One(message)) = message::parse(&bytes) else { panic!("no message") };
    transport.push(message.into());
}

fn respond(transport: &mut InMemoryTransport, id: &Json, result: &Json) {
    push(transport, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

/// Sends messages that belong to a call which has ended.
fn notify_late(transport: &mut InMemoryTransport) {
    let log = json!({"level": "error", "data": CANARY});
    push(transport, &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": log}));
    let progress = json!({"progressToken": 0, "progress": 1, "message": CANARY});
    push(
        transport,
        &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}),
    );
}

fn request_late(transport: &mut InMemoryTransport) {
    let question =
        json!({"message": CANARY, "requestedSchema": {"type": "object", "properties": {}}});
    push(
        transport,
        &json!({"jsonrpc": "2.0", "id": "late", "method": "elicitation/create", "params": question}),
    );
}

/// Has `wait`, which completes after the late messages; `late_request`, which ends when it is cancelled; and
/// `after_request`, which completes before its last messages.
async fn serve(mut transport: InMemoryTransport, calls: Arc<AtomicUsize>) {
    let mut waiting = Json::Null;
    while let Ok(TransportEvent::Message(message)) = transport.next().await {
        let mut text = Vec::new();
        message.write_to(&mut text);
        let read: Json = serde_json::from_slice(&text).expect("JSON");
        let (id, params) = (&read["id"], &read["params"]);
        if read["method"] == "tools/call" {
            calls.fetch_add(1, Ordering::Relaxed);
        }
        let done = json!({"content": [{"type": "text", "text": "done"}]});
        match (&message, read["method"].as_str(), params["name"].as_str()) {
            (Message::Response { .. }, ..) => {
                // The late request got its response, so that nothing more is late.
                respond(&mut transport, &waiting, &done);
            }
            (_, Some("initialize"), _) => {
                let capabilities = json!({"tools": {}, "logging": {}});
                let hello = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                                   "serverInfo": {"name": "late", "version": "1"}});
                respond(&mut transport, id, &hello);
            }
            (_, Some("tools/list"), _) => {
                let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
                respond(
                    &mut transport,
                    id,
                    &json!({"tools": [tool("wait"), tool("late"), tool("after")]}),
                );
            }
            (_, Some("tools/call"), Some("wait")) => waiting = id.clone(),
            (_, Some("tools/call"), Some("after")) => {
                respond(&mut transport, id, &done);
                notify_late(&mut transport);
                let waiting = std::mem::take(&mut waiting);
                respond(&mut transport, &waiting, &done);
            }
            (_, Some("notifications/cancelled"), _) => {
                notify_late(&mut transport);
                request_late(&mut transport);
            }
            (_, Some("server/discover"), _) => {
                let error = json!({"code": -32601, "message": "no"});
                push(&mut transport, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            (_, Some(_), _) if !id.is_null() && params["name"].is_null() => {
                respond(&mut transport, id, &json!({}));
            }
            (..) => {}
        }
    }
}

/// A gateway with that server, and the number of calls that reached it.
async fn fixture() -> (GatewayFixture, Arc<AtomicUsize>) {
    let calls: Arc<AtomicUsize> = Arc::default();
    let heard = calls.clone();
    let server = InProcessServer::new(move |transport| serve(transport, heard.clone()));
    let in_process = BTreeMap::from([("late".to_owned(), server)]);
    let entry = json!({"type": "sdk", "name": "late"}).to_string();
    let plan = FixtureOptions { in_process, ..FixtureOptions::shared_processes() };
    (GatewayFixture::open(&[("late", entry)], plan).await, calls)
}

/// All messages that a waiting client gets before its response.
async fn heard(test_client: &mut TestClient, id: &Json) -> Vec<Json> {
    let mut all = Vec::new();
    loop {
        let message = test_client.receive().await;
        let is_over = message["id"] == *id && message.get("method").is_none();
        all.push(message);
        if is_over {
            return all;
        }
    }
}

/// Fails unless the response came without messages of the other call.
#[track_caller]
fn check(all: &[Json]) {
    let last = all.last().expect("an answer");
    assert_eq!(last["result"]["content"][0]["text"], "done", "{last}");
    assert!(!json!(all).to_string().contains(CANARY), "{all:?}");
}

fn call_request(test_client: &mut TestClient, tool: &str) -> Json {
    test_client
        .build_request("tools/call", json!({"name": format!("mcp__late__{tool}"), "arguments": {}}))
}

#[tokio::test]
async fn late_messages_of_a_cancelled_call_reach_no_other_client() {
    let (mut fixture, calls) = fixture().await;
    let mut ada = TestClient::connect(&mut fixture, ClientKind::LegacyInMemory, 0).await;
    let mut bob = TestClient::connect(&mut fixture, ClientKind::LegacyInMemory, 1).await;
    let wait_request = call_request(&mut ada, "wait");
    ada.send(&wait_request);
    let late_request = call_request(&mut bob, "late");
    bob.send(&late_request);
    wait_until("both are worked on", || calls.load(Ordering::Relaxed) == 2).await;
    bob.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                     "params": {"requestId": late_request["id"]}}));
    let all = heard(&mut ada, &wait_request["id"]).await;
    check(&all);
    drop((ada, bob));
    fixture.stop().await;
}

#[tokio::test]
async fn late_messages_of_a_finished_call_reach_no_other_client() {
    let (mut fixture, calls) = fixture().await;
    let mut ada = TestClient::connect(&mut fixture, ClientKind::LegacyInMemory, 0).await;
    let mut bob = TestClient::connect(&mut fixture, ClientKind::LegacyInMemory, 1).await;
    let wait_request = call_request(&mut ada, "wait");
    ada.send(&wait_request);
    wait_until("it is worked on", || calls.load(Ordering::Relaxed) == 1).await;
    let after_request = call_request(&mut bob, "after");
    bob.send(&after_request);
    let all = heard(&mut ada, &wait_request["id"]).await;
    check(&all);
    drop((ada, bob));
    fixture.stop().await;
}
