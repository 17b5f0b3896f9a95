//! Requests on the fast path of the streamable HTTP transport: answered in the caller's task, handed to the transport if
//! more than a response comes back, and cancelled or failed like any other.

use std::future::IntoFuture;
use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use switchboard_wire::peer::{CallError, Delivery, Peer, Progress, SpawnedPeer};
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use switchboard_wire::transport::{
    CloseReason, FastPath, FastPathOutcome, OutgoingMessage, Transport,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::test_server::*;

/// The era of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

/// A server that responds to everything at once, except `tools/call`, whose event stream the test controls.
struct StreamingServer {
    server: TestServer,
    streams: mpsc::UnboundedReceiver<mpsc::UnboundedSender<String>>,
}

impl StreamingServer {
    async fn start() -> StreamingServer {
        let (open, streams) = mpsc::unbounded_channel();
        let server = TestServer::start(move |received| {
            let open = open.clone();
            async move { respond_to(&received, &open).await }
        });
        StreamingServer { server: server.await, streams }
    }

    /// The event stream of the next call, with the call's number.
    async fn next_call(&mut self) -> (mpsc::UnboundedSender<String>, Value) {
        loop {
            let received = self.server.next().await;
            if received.rpc_method() == "tools/call" {
                let stream =
                    timeout(TEST_TIMEOUT, self.streams.recv()).await.expect("it is answered");
                return (stream.expect("it runs"), received.body["id"].clone());
            }
        }
    }

    /// The next request, except for those of the handshake.
    async fn next_post(&mut self) -> ReceivedRequest {
        loop {
            let received = self.server.next().await;
            if received.method == Method::POST {
                return received;
            }
        }
    }
}

async fn respond_to(
    received: &ReceivedRequest,
    open: &mpsc::UnboundedSender<mpsc::UnboundedSender<String>>,
) -> Response {
    match received.rpc_method() {
        _ if received.method == Method::GET => reply(405, "", ""),
        "initialize" => json_response(&result(received, json!({"protocolVersion": "2025-11-25"}))),
        "tools/call" => {
            let (stream, response) = open_event_stream();
            let _test_over = open.send(stream);
            response
        }
        "silence" => std::future::pending().await,
        method if method.starts_with("notifications/") => accepted(),
        _ => json_response(&result(received, json!("at once"))),
    }
}

/// A client whose fast path is open.
struct FastPathClient {
    era: Era,
    connection: SpawnedPeer,
    fast_path: Arc<dyn FastPath>,
}

impl FastPathClient {
    async fn connect(era: Era, server: &TestServer) -> FastPathClient {
        let transport = StreamableHttpTransport::new(http_client(), server.target());
        let fast_path = transport.fast_path().expect("there is one");
        let fast_path_client =
            FastPathClient { era, connection: Peer::spawn(transport), fast_path };
        if era == Era::Legacy {
            fast_path_client.connection.peer.call("initialize").await.expect("an answer");
            let notified =
                fast_path_client.connection.peer.notify("notifications/initialized", None);
            notified.await.expect("it is taken");
        }
        // This request goes through the transport; after it the fast path is open.
        fast_path_client.peer_call("ping").await.expect("an answer");
        fast_path_client
    }

    fn peer_call(&self, method: &'static str) -> switchboard_wire::peer::Call {
        let call = self.connection.peer.call(method);
        match self.era {
            Era::Legacy => call,
            Era::Modern => call.headers(modern_headers(method)),
        }
    }

    /// A call in a task of its own, and its progress.
    fn start_call(&self) -> (JoinHandle<Result<Value, CallError>>, mpsc::Receiver<Progress>) {
        let (progress_sender, progress) = mpsc::channel(16);
        let call = self.peer_call("tools/call").progress_sender(progress_sender).into_future();
        let call = tokio::spawn(async move { call.await.map(|it| it.decode().expect("JSON")) });
        (call, progress)
    }

    /// How many requests are in flight on the fast path.
    fn in_flight(&self) -> String {
        format!("{:?}", self.fast_path)
    }
}

fn modern_headers(method: &'static str) -> HeaderMap {
    *modern_request(0, method).headers.expect("headers")
}

fn progress_event(number: &Value, at: u64) -> String {
    let params = json!({"progressToken": number, "progress": at});
    event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
}

fn final_event(number: &Value) -> String {
    event(&json!({"jsonrpc": "2.0", "id": number, "result": "in the end"}))
}

async fn next_progress(progress: &mut mpsc::Receiver<Progress>) -> Value {
    let update = timeout(TEST_TIMEOUT, progress.recv())
        .await
        .expect("progress arrives")
        .expect("it goes on");
    update.0.decode::<Value>().expect("JSON")["progress"].clone()
}

/// Sends a request on the fast path, which must be open.
fn try_fast_path(
    transport: &StreamableHttpTransport,
    outgoing: OutgoingMessage,
) -> impl Future<Output = FastPathOutcome> + use<> {
    let fast_path = transport.fast_path().expect("there is one");
    fast_path.try_send(outgoing).unwrap_or_else(|_| panic!("the way is open"))
}

#[tokio::test]
async fn a_streamed_response_is_handed_off_and_arrives_in_order() {
    let mut streaming_server = StreamingServer::start().await;
    let mut transport =
        StreamableHttpTransport::new(http_client(), streaming_server.server.target());
    let fast_path = transport.fast_path().expect("there is one");
    assert!(fast_path.try_send(modern_request(1, "ping")).is_err(), "the era is unknown");
    transport.push(modern_request(1, "ping"));
    assert_eq!(next_message(&mut transport).await["result"], "at once");
    let at_once = try_fast_path(&transport, modern_request(2, "ping")).await;
    let FastPathOutcome::Response(Ok(answered)) = at_once else { panic!("an answer: {at_once:?}") };
    assert_eq!(answered, payload(&json!("at once")));
    let asked = try_fast_path(&transport, modern_request(3, "tools/call"));
    let (asked, (stream, number)) = tokio::join!(asked, streaming_server.next_call());
    assert!(matches!(asked, FastPathOutcome::HandedOff), "{asked:?}");
    for text in [progress_event(&number, 1), progress_event(&number, 2), final_event(&number)] {
        stream.send(text).expect("it is read");
    }
    assert_eq!(next_message(&mut transport).await["params"]["progress"], 1);
    assert_eq!(next_message(&mut transport).await["params"]["progress"], 2);
    assert_eq!(next_message(&mut transport).await["result"], "in the end");
}

#[tokio::test]
async fn a_handed_off_call_gets_progress_and_then_its_response() {
    for era in [Era::Legacy, Era::Modern] {
        let mut streaming_server = StreamingServer::start().await;
        let fast_path_client = FastPathClient::connect(era, &streaming_server.server).await;
        let (call, mut progress) = fast_path_client.start_call();
        let (stream, number) = streaming_server.next_call().await;
        for at in 1..4 {
            stream.send(progress_event(&number, at)).expect("it is read");
            assert_eq!(next_progress(&mut progress).await, at, "{era:?}");
        }
        assert_eq!(fast_path_client.in_flight(), "HttpFastPath(0 in flight)");
        stream.send(final_event(&number)).expect("it is read");
        assert_eq!(call.await.expect("no panic"), Ok(json!("in the end")), "{era:?}");
    }
}

#[tokio::test]
async fn a_call_dropped_after_handoff_is_cancelled() {
    for era in [Era::Legacy, Era::Modern] {
        let mut streaming_server = StreamingServer::start().await;
        let fast_path_client = FastPathClient::connect(era, &streaming_server.server).await;
        let (call, mut progress) = fast_path_client.start_call();
        let (stream, number) = streaming_server.next_call().await;
        stream.send(progress_event(&number, 1)).expect("it is read");
        next_progress(&mut progress).await;
        call.abort();
        if era == Era::Legacy {
            let cancelled = streaming_server.next_post().await;
            assert_eq!(cancelled.rpc_method(), "notifications/cancelled");
            assert_eq!(cancelled.body["params"]["requestId"], number);
        }
        timeout(TEST_TIMEOUT, stream.closed()).await.expect("the stream is left");
        fast_path_client.peer_call("ping").await.expect("the connection lives on");
        assert_eq!(
            streaming_server.next_post().await.rpc_method(),
            "ping",
            "{era:?}: no other request was sent"
        );
    }
}

#[tokio::test]
async fn a_call_dropped_before_a_response_is_cancelled() {
    for era in [Era::Legacy, Era::Modern] {
        let mut streaming_server = StreamingServer::start().await;
        let fast_path_client = FastPathClient::connect(era, &streaming_server.server).await;
        let call = fast_path_client.peer_call("silence");
        let number = call.number();
        let call = tokio::spawn(call.into_future());
        while streaming_server.next_post().await.rpc_method() != "silence" {}
        assert_eq!(fast_path_client.in_flight(), "HttpFastPath(1 in flight)");
        call.abort();
        if era == Era::Legacy {
            let cancelled = streaming_server.next_post().await;
            assert_eq!(cancelled.rpc_method(), "notifications/cancelled");
            assert_eq!(cancelled.body["params"]["requestId"], number);
        }
        fast_path_client.peer_call("ping").await.expect("the connection lives on");
        assert_eq!(
            streaming_server.next_post().await.rpc_method(),
            "ping",
            "{era:?}: no other request was sent"
        );
        assert_eq!(fast_path_client.in_flight(), "HttpFastPath(0 in flight)");
    }
}

#[tokio::test]
async fn closing_the_transport_fails_fast_path_calls() {
    for era in [Era::Legacy, Era::Modern] {
        let mut streaming_server = StreamingServer::start().await;
        let fast_path_client = FastPathClient::connect(era, &streaming_server.server).await;
        let (handed_off, mut progress) = fast_path_client.start_call();
        let (stream, number) = streaming_server.next_call().await;
        stream.send(progress_event(&number, 1)).expect("it is read");
        next_progress(&mut progress).await;
        let in_flight_call = tokio::spawn(fast_path_client.peer_call("silence").into_future());
        while streaming_server.next_post().await.rpc_method() != "silence" {}
        assert_eq!(fast_path_client.in_flight(), "HttpFastPath(1 in flight)");
        fast_path_client.connection.peer.close();
        let ended = |sent| CallError::Closed { reason: CloseReason::Closed, delivery: sent };
        let over = timeout(TEST_TIMEOUT, handed_off).await.expect("it ends").expect("no panic");
        assert_eq!(over, Err(ended(Delivery::Unknown)), "{era:?}");
        let over = timeout(TEST_TIMEOUT, in_flight_call).await.expect("it ends").expect("no panic");
        assert_eq!(over, Err(ended(Delivery::Unknown)), "{era:?}");
        timeout(TEST_TIMEOUT, stream.closed()).await.expect("the stream is left");
        let late = timeout(TEST_TIMEOUT, fast_path_client.peer_call("ping").into_future())
            .await
            .expect("it ends");
        assert_eq!(late, Err(ended(Delivery::NotSent)), "{era:?}");
        assert_eq!(fast_path_client.in_flight(), "HttpFastPath(0 in flight)");
    }
}
