//! A server in this process: its task belongs to the line, and ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use switchboard_wire::dial::{Address, ConnectOptions, connect};
use switchboard_wire::handshake::EraHint;
use switchboard_wire::introduction::ClientDescription;
use switchboard_wire::memory::InMemoryTransport;
use switchboard_wire::message::Payload;
use switchboard_wire::peer::{Peer, PeerEvent, SpawnedPeer};
use switchboard_wire::process::{DescendantSearch, ProcessOptions};
use switchboard_wire::reception::{ServerIdentity, ServerSession};
use tokio::sync::Notify;

/// Says when it is dropped.
struct DropFlag(Arc<AtomicBool>, Arc<Notify>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.notify_one();
    }
}

/// Introduces itself, says something before an answer, and does not go when it is left.
async fn serve_forever(link: InMemoryTransport, _mark: DropFlag) {
    let SpawnedPeer { peer: _peer, mut events, task: _task } = Peer::spawn(link);
    let identity = ServerIdentity {
        name: "guest".to_owned(),
        title: None,
        version: "1".to_owned(),
        instructions: None,
        capabilities: serde_json::Map::new(),
    };
    let reception = ServerSession::new(identity);
    while let Some(event) = events.recv().await {
        if let PeerEvent::Request(request) = event {
            let aside = request.notifier();
            let params = json!({"progressToken": request.id.to_json(), "progress": 1});
            aside.notify("notifications/progress", Payload::encode(&params).ok()).await;
            let result = reception.discover();
            let era = switchboard_wire::era::Era::Modern;
            request.respond(reception.encode_result(era, "server/discover", result)).await;
        }
    }
    std::future::pending().await
}

fn in_process_address(is_gone: &Arc<AtomicBool>, gone: &Arc<Notify>) -> Address {
    let (is_gone, gone) = (is_gone.clone(), gone.clone());
    Address::InProcess(Arc::new(move |link| {
        Box::pin(serve_forever(link, DropFlag(is_gone.clone(), gone.clone())))
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
async fn a_guest_that_does_not_go_is_gone_after_hanging_up() {
    let (is_gone, gone) = (Arc::default(), Arc::default());
    let line = connect(&in_process_address(&is_gone, &gone), &connect_options())
        .await
        .expect("it answers");
    assert_eq!(line.client.server().name, "guest");
    let (signs, mut heard) = tokio::sync::mpsc::channel(4);
    line.client.request("tools/list").progress_sender(signs).send().await.expect("an answer");
    assert!(heard.try_recv().is_ok(), "what is said aside comes before the answer");
    assert!(!is_gone.load(Ordering::SeqCst));
    line.close(DescendantSearch::Deferred).await;
    assert!(is_gone.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_dropped_takes_its_guest_along() {
    let (is_gone, gone): (Arc<AtomicBool>, Arc<Notify>) = (Arc::default(), Arc::default());
    let line = connect(&in_process_address(&is_gone, &gone), &connect_options())
        .await
        .expect("it answers");
    drop(line);
    gone.notified().await;
    assert!(is_gone.load(Ordering::SeqCst));
}
