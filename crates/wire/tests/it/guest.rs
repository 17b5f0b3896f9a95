//! A server in this process: its task belongs to the line, and ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use switchboard_wire::dial::{Address, Terms, dial};
use switchboard_wire::handshake::Hint;
use switchboard_wire::introduction::Offer;
use switchboard_wire::memory::MemoryLink;
use switchboard_wire::message::Payload;
use switchboard_wire::peer::{Connection, Event, Peer};
use switchboard_wire::process::{Keeping, Search};
use switchboard_wire::reception::{Identity, Reception};
use tokio::sync::Notify;

/// Says when it is dropped.
struct Mark(Arc<AtomicBool>, Arc<Notify>);

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.notify_one();
    }
}

/// Introduces itself, says something before an answer, and does not go when it is left.
async fn stay(link: MemoryLink, _mark: Mark) {
    let Connection { peer: _peer, mut events, task: _task } = Peer::start(link);
    let identity = Identity {
        name: "guest".to_owned(),
        title: None,
        version: "1".to_owned(),
        instructions: None,
        capabilities: serde_json::Map::new(),
    };
    let reception = Reception::new(identity);
    while let Some(event) = events.recv().await {
        if let Event::Request(request) = event {
            let aside = request.aside();
            let params = json!({"progressToken": request.id.as_json(), "progress": 1});
            aside.say("notifications/progress", Payload::of(&params).ok()).await;
            let result = reception.discover();
            let era = switchboard_wire::era::Era::Modern;
            request.answer(reception.finished(era, "server/discover", result)).await;
        }
    }
    std::future::pending().await
}

fn address(is_gone: &Arc<AtomicBool>, gone: &Arc<Notify>) -> Address {
    let (is_gone, gone) = (is_gone.clone(), gone.clone());
    Address::Linked(Arc::new(move |link| Box::pin(stay(link, Mark(is_gone.clone(), gone.clone())))))
}

fn terms() -> Terms {
    Terms {
        offer: Offer {
            name: "test".to_owned(),
            title: "Test".to_owned(),
            version: "1".to_owned(),
            abilities: Vec::new(),
        },
        hint: Hint::Unknown,
        within: Duration::from_secs(5),
        keeping: Keeping::default(),
        network: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_go_is_gone_after_hanging_up() {
    let (is_gone, gone) = (Arc::default(), Arc::default());
    let line = dial(&address(&is_gone, &gone), &terms()).await.expect("it answers");
    assert_eq!(line.client.introduction().name, "guest");
    let (signs, mut heard) = tokio::sync::mpsc::channel(4);
    line.client.request("tools/list").progress_to(signs).send().await.expect("an answer");
    assert!(heard.try_recv().is_ok(), "what is said aside comes before the answer");
    assert!(!is_gone.load(Ordering::SeqCst));
    line.hang_up(Search::Later).await;
    assert!(is_gone.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_dropped_takes_its_guest_along() {
    let (is_gone, gone): (Arc<AtomicBool>, Arc<Notify>) = (Arc::default(), Arc::default());
    let line = dial(&address(&is_gone, &gone), &terms()).await.expect("it answers");
    drop(line);
    gone.notified().await;
    assert!(is_gone.load(Ordering::SeqCst));
}
