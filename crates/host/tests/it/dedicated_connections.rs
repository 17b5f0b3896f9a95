//! Dedicated connections beside a server's shared one: opened on first use, closed after ten idle minutes.

use std::sync::Arc;
use std::time::Duration;

use switchboard::connection::DedicatedConnection;
use switchboard::request::{OnBehalfOf, OnInputRequired, ServerRequest};
use switchboard::wire::client::{ClientMeta, RequestHandler};
use switchboard::wire::jsonrpc::message::{Payload, RpcError};
use switchboard::wire::peer::{CallOwner, Propagation};
use tokio::time::{advance, pause, resume};

use crate::in_process::{SessionCount, test_host};
use crate::support::{CALL_TIMEOUT, TestHost, is_connected};

const MINUTE: Duration = Duration::from_secs(60);

/// A client that answers no requests and ignores notifications.
#[derive(Debug)]
struct SilentHandler;

impl RequestHandler for SilentHandler {
    fn respond<'a>(
        &'a self,
        method: &'a str,
        _: Option<Payload>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>> {
        panic!("unexpected request `{method}`")
    }
}

impl CallOwner for SilentHandler {
    fn session(&self) -> u64 {
        0
    }

    fn has_pending_request(&self) -> bool {
        false
    }

    fn on_notification(&self, _: &str, _: Option<&Payload>) -> Propagation {
        Propagation::Stop
    }
}

fn dedicated(key: &str) -> DedicatedConnection {
    DedicatedConnection {
        key: key.into(),
        account: key.into(),
        client_capabilities: Vec::new(),
        default_handler: None,
    }
}

/// Sends a request on a dedicated connection.
async fn send_dedicated(test_host: &TestHost, key: &str) {
    let on_behalf_of = OnBehalfOf {
        handler: Arc::new(SilentHandler),
        client_meta: ClientMeta::default(),
        on_input_required: OnInputRequired::PassThrough,
        dedicated_connection: Some(dedicated(key)),
        url_elicitor: None,
    };
    let request =
        ServerRequest::idempotent("prompts/list", CALL_TIMEOUT).on_behalf_of(on_behalf_of);
    test_host.host.request("notes", request).await.expect("an answer");
}

/// Lets minutes of paused time pass, one at a time, yielding in between so that due timers run.
async fn pass_minutes(minutes: usize) {
    pause();
    for _ in 0..minutes {
        advance(MINUTE).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    resume();
}

/// Waits until `expected` sessions are open.
async fn until(count: &SessionCount, expected: usize) {
    let waited = tokio::time::timeout(CALL_TIMEOUT, async {
        while count.now() != expected {
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "{} conversations are held, not {expected}", count.now());
}

#[tokio::test]
async fn an_idle_dedicated_connection_closes_after_ten_minutes() {
    let count = SessionCount::default();
    let test_host = test_host(&count).await;
    test_host.view_when("notes", is_connected).await;
    assert_eq!(count.now(), 1);
    send_dedicated(&test_host, "ada").await;
    send_dedicated(&test_host, "ada").await;
    send_dedicated(&test_host, "bob").await;
    assert_eq!(count.now(), 3, "each key has one, also on repeated use");
    pass_minutes(9).await;
    assert_eq!(count.now(), 3, "none has timed out");
    send_dedicated(&test_host, "ada").await;
    pass_minutes(3).await;
    until(&count, 2).await;
    pass_minutes(6).await;
    assert_eq!(count.now(), 2, "it was used nine minutes ago");
    pass_minutes(3).await;
    until(&count, 1).await;
    send_dedicated(&test_host, "ada").await;
    assert_eq!(count.now(), 2, "a later use opens a new one");
    test_host.stop().await;
    assert_eq!(count.now(), 0);
}

#[tokio::test]
async fn a_subscription_keeps_a_dedicated_connection_in_use() {
    let count = SessionCount::default();
    let test_host = test_host(&count).await;
    test_host.view_when("notes", is_connected).await;
    let following =
        test_host.host.subscribe_dedicated("notes", "note://1", Some(&dedicated("ada"))).await;
    assert_eq!(count.now(), 2);
    pass_minutes(60).await;
    assert_eq!(count.now(), 2);
    drop(following.expect("it can be followed"));
    pass_minutes(12).await;
    until(&count, 1).await;
    test_host.stop().await;
}
