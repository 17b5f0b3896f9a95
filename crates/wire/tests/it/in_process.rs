//! An in-process server: its task belongs to the connection and ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use switchboard_wire::client::handshake::EraHint;
use switchboard_wire::connect::{Address, ConnectOptions, connect};
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
