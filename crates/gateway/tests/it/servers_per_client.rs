//! Servers in this process that keep what belongs to one client, such as a browser with its logins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use switchboard::connection::InProcessServer;
use switchboard_wire::jsonrpc::message;
use switchboard_wire::jsonrpc::message::Messages;
use switchboard_wire::transport::in_memory::InMemoryTransport;
use switchboard_wire::transport::{Transport, TransportEvent};

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, wait_until};
use crate::test_client::{ALL_KINDS, ClientKind, TestClient};

/// Remembers what a client has told it, for as long as the connection lasts.
async fn serve(mut transport: InMemoryTransport, open: Arc<AtomicUsize>) {
    open.fetch_add(1, Ordering::Relaxed);
    let mut told = Vec::new();
    while let Ok(TransportEvent::Message(message)) = transport.next().await {
        let mut text = Vec::new();
        message.write_to(&mut text);
        let read: Json = serde_json::from_slice(&text).expect("JSON");
        let mut answer = json!({"jsonrpc": "2.0", "id": read["id"]});
        match read["method"].as_str() {
            Some("server/discover") => {
                answer["error"] = json!({"code": -32601, "message": "no"});
            }
            Some("initialize") => {
                answer["result"] = json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "diary", "version": "1"},
                });
            }
            Some("tools/list") => {
                let tool = json!({"name": "tell", "inputSchema": {"type": "object"}});
                answer["result"] = json!({"tools": [tool]});
            }
            Some("tools/call") => {
                told.extend(read["params"]["arguments"]["text"].as_str().map(str::to_owned));
                answer["result"] = json!({"content": [{"type": "text", "text": told.join(",")}]});
            }
            _ => answer["result"] = json!({}),
        }
        if !read["id"].is_null() {
            let bytes = Bytes::from(answer.to_string());
            let Ok(Messages::One(message)) = message::parse(&bytes) else { panic!("no message") };
            transport.push(message.into());
        }
    }
    open.fetch_sub(1, Ordering::Relaxed);
}

async fn tell(client: &mut TestClient, text: &str) -> String {
    let params = json!({"name": "mcp__diary__tell", "arguments": {"text": text}});
    let answer = client.request("tools/call", params).await;
    answer.result()["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn clients_do_not_see_what_others_left_in_a_server_that_keeps_it_for_one_of_them() {
    let open: Arc<AtomicUsize> = Arc::default();
    let counter = open.clone();
    let server = InProcessServer::new(move |it| serve(it, counter.clone())).per_client();
    let in_process = BTreeMap::from([("diary".to_owned(), server)]);
    let entry = json!({"type": "sdk", "name": "diary"}).to_string();
    // Even where an operator lets all clients share processes.
    let options = FixtureOptions { in_process, ..FixtureOptions::shared_processes() };
    let mut fixture = GatewayFixture::open(&[("diary", entry)], options).await;
    for kind in ALL_KINDS {
        let mut ada = TestClient::connect(&mut fixture, kind, 0).await;
        let mut bob = TestClient::connect(&mut fixture, kind, 1).await;
        let secret = format!("{kind:?}");
        let before = tell(&mut ada, &secret).await;
        assert!(before.ends_with(&secret), "{before}");
        let others = tell(&mut bob, "hello").await;
        assert!(!others.contains(&secret), "{kind:?}: {others}");
        let after = tell(&mut ada, "again").await;
        assert_eq!(after, format!("{before},again"), "{kind:?}: its own connection");
    }
    // The connections of sessions end with them; those of requests without a session stay for a while.
    let mut carol = TestClient::connect(&mut fixture, ClientKind::LegacyInMemory, 2).await;
    tell(&mut carol, "x").await;
    let count = open.load(Ordering::Relaxed);
    drop(carol);
    wait_until("it is closed", || open.load(Ordering::Relaxed) < count).await;
    fixture.stop().await;
}
