//! An in-process server: its task belongs to the connection and ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use switchboard_wire::client::handshake::EraHint;
use switchboard_wire::connect::{Address, ConnectOptions, Fallback, connect};
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{Peer, PeerEvent, SpawnedPeer};
use switchboard_wire::process::child::{DescendantSearch, ProcessOptions};
use switchboard_wire::protocol::capabilities::ClientDescription;
use switchboard_wire::server::{ServerIdentity, ServerSession};
use switchboard_wire::transport::in_memory::InMemoryTransport;
use tokio::sync::Notify;

/// Records that it was dropped.
struct DropFlag(Arc<AtomicBool>, Arc<Notify>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.notify_one();
    }
}

/// Describes itself, sends progress before each response, and does not stop when the connection closes.
async fn serve_forever(transport: InMemoryTransport, _drop_flag: DropFlag) {
    let SpawnedPeer { peer: _peer, mut events, task: _task } = Peer::spawn(transport);
    let identity = ServerIdentity {
        name: "in-process".to_owned(),
        title: None,
        version: "1".to_owned(),
        instructions: None,
        capabilities: serde_json::Map::new(),
    };
    let session = ServerSession::new(identity);
    while let Some(event) = events.recv().await {
        if let PeerEvent::Request(request) = event {
            let notifier = request.notifier();
            let params = json!({"progressToken": request.id.to_json(), "progress": 1});
            notifier.notify("notifications/progress", Payload::encode(&params).ok()).await;
            let result = session.discover();
            let era = switchboard_wire::protocol::era::Era::Modern;
            request.respond(session.encode_result(era, "server/discover", result)).await;
        }
    }
    std::future::pending().await
}

fn in_process_address(is_dropped: &Arc<AtomicBool>, dropped: &Arc<Notify>) -> Address {
    let (is_dropped, dropped) = (is_dropped.clone(), dropped.clone());
    Address::InProcess(Arc::new(move |transport| {
        Box::pin(serve_forever(transport, DropFlag(is_dropped.clone(), dropped.clone())))
    }))
}

fn connect_options() -> ConnectOptions {
    ConnectOptions {
        client: ClientDescription {
            legacy_capabilities: None,
            name: "test".to_owned(),
            title: "Test".to_owned(),
            version: "1".to_owned(),
            capabilities: Vec::new(),
        },
        era_hint: EraHint::Unknown,
        timeout: Duration::from_secs(5),
        process_options: ProcessOptions::default(),
        http_client: None,
    }
}

#[tokio::test(start_paused = true)]
async fn an_in_process_server_that_does_not_stop_is_aborted_on_close() {
    let (is_dropped, dropped) = (Arc::default(), Arc::default());
    let connection = connect(&in_process_address(&is_dropped, &dropped), &connect_options())
        .await
        .expect("it answers");
    assert_eq!(connection.client.server().name, "in-process");
    let (progress_sender, mut progress_updates) = tokio::sync::mpsc::channel(4);
    connection
        .client
        .request("tools/list")
        .progress_sender(progress_sender)
        .send()
        .await
        .expect("an answer");
    assert!(progress_updates.try_recv().is_ok(), "progress arrives before the response");
    assert!(!is_dropped.load(Ordering::SeqCst));
    connection.close(DescendantSearch::Deferred).await;
    assert!(is_dropped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_connection_aborts_its_in_process_server() {
    let (is_dropped, dropped): (Arc<AtomicBool>, Arc<Notify>) = (Arc::default(), Arc::default());
    let connection = connect(&in_process_address(&is_dropped, &dropped), &connect_options())
        .await
        .expect("it answers");
    drop(connection);
    dropped.notified().await;
    assert!(is_dropped.load(Ordering::SeqCst));
}

/// Closes the first connection after a while, as a server does that exits on an unknown method, and answers
/// `initialize` on the second one after a while.
fn slow_legacy_address() -> Address {
    const WHILE: Duration = Duration::from_millis(800);
    let is_first = Arc::new(AtomicBool::new(true));
    Address::InProcess(Arc::new(move |transport| {
        let is_first = is_first.swap(false, Ordering::SeqCst);
        Box::pin(async move {
            // The clock is paused.
            let _elapsed = tokio::time::timeout(WHILE, std::future::pending::<()>()).await;
            if is_first {
                // Without a peer, which responds with an error to requests that are dropped.
                return drop(transport);
            }
            let SpawnedPeer { peer: _peer, mut events, task: _task } = Peer::spawn(transport);
            while let Some(event) = events.recv().await {
                if let PeerEvent::Request(request) = event {
                    let server = json!({"name": "slow", "version": "1"});
                    let result = json!({
                        "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": server
                    });
                    request.respond(Payload::encode(&result).expect("it is JSON")).await;
                }
            }
        })
    }))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_restarted_without_the_probe_gets_the_whole_timeout_again() {
    let options = ConnectOptions { timeout: Duration::from_secs(1), ..connect_options() };
    let connection = connect(&slow_legacy_address(), &options).await.expect("it answers");
    assert_eq!(connection.fallback, Some(Fallback::Restarted));
}
