//! Connections beside a server's main one: made when somebody first uses them, ended when nobody has for ten minutes.

use std::sync::Arc;
use std::time::Duration;

use switchboard::ask::{OnBehalfOf, OnInputRequired, ServerRequest};
use switchboard::lane::DedicatedConnection;
use switchboard::wire::client::{ClientMeta, RequestHandler};
use switchboard::wire::message::{Payload, RpcError};
use switchboard::wire::peer::{CallOwner, Propagation};
use tokio::time::{advance, pause, resume};

use crate::in_process::{Count, bench};
use crate::support::{Bench, SOON, is_connected};

const MINUTE: Duration = Duration::from_secs(60);

/// A client that answers nothing and hears nothing.
#[derive(Debug)]
struct Mute;

impl RequestHandler for Mute {
    fn respond<'a>(
        &'a self,
        method: &'a str,
        _: Option<Payload>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>> {
        panic!("nobody asks `{method}`")
    }
}

impl CallOwner for Mute {
    fn principal(&self) -> u64 {
        0
    }

    fn has_pending_request(&self) -> bool {
        false
    }

    fn on_notification(&self, _: &str, _: Option<&Payload>) -> Propagation {
        Propagation::Stop
    }
}

fn lane(key: &str) -> DedicatedConnection {
    DedicatedConnection { key: key.into(), client_capabilities: Vec::new(), default_handler: None }
}

/// Asks something on a lane.
async fn used(bench: &Bench, key: &str) {
    let behest = OnBehalfOf {
        handler: Arc::new(Mute),
        client_meta: ClientMeta::default(),
        on_input_required: OnInputRequired::PassThrough,
        dedicated_connection: Some(lane(key)),
    };
    let question = ServerRequest::idempotent("prompts/list", SOON).on_behalf_of(behest);
    bench.host.request_on_behalf("notes", question).await.expect("an answer");
}

/// Lets so many minutes pass, one at a time, with enough in between for everybody to do what is due.
async fn pass(minutes: usize) {
    pause();
    for _ in 0..minutes {
        advance(MINUTE).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    resume();
}

/// Waits until so many conversations are held.
async fn until(count: &Count, expected: usize) {
    let waited = tokio::time::timeout(SOON, async {
        while count.now() != expected {
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "{} conversations are held, not {expected}", count.now());
}

#[tokio::test]
async fn a_lane_that_nobody_uses_for_ten_minutes_is_ended() {
    let count = Count::default();
    let bench = bench(&count).await;
    bench.view_when("notes", is_connected).await;
    assert_eq!(count.now(), 1);
    used(&bench, "ada").await;
    used(&bench, "ada").await;
    used(&bench, "bob").await;
    assert_eq!(count.now(), 3, "each has one, whoever uses it again");
    pass(9).await;
    assert_eq!(count.now(), 3, "nobody's time is over");
    used(&bench, "ada").await;
    pass(3).await;
    until(&count, 2).await;
    pass(6).await;
    assert_eq!(count.now(), 2, "it was used nine minutes ago");
    pass(3).await;
    until(&count, 1).await;
    used(&bench, "ada").await;
    assert_eq!(count.now(), 2, "who comes back has a new one");
    bench.stop().await;
    assert_eq!(count.now(), 0);
}

#[tokio::test]
async fn a_lane_on_which_somebody_follows_something_is_in_use() {
    let count = Count::default();
    let bench = bench(&count).await;
    bench.view_when("notes", is_connected).await;
    let following = bench.host.subscribe_dedicated("notes", "note://1", Some(&lane("ada"))).await;
    assert_eq!(count.now(), 2);
    pass(60).await;
    assert_eq!(count.now(), 2);
    drop(following.expect("it can be followed"));
    pass(12).await;
    until(&count, 1).await;
    bench.stop().await;
}
