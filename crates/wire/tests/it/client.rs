//! The client role in both eras, against a scripted server over an in-memory pair.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value as Json, json};
use switchboard_wire::client::handshake;
use switchboard_wire::client::handshake::{
    EraHint, HandshakeError, HandshakeErrorKind, HandshakeStage,
};
use switchboard_wire::client::{Client, RequestHandler};
use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId, RpcError};
use switchboard_wire::peer::{CallError, Delivery, Peer, SpawnedPeer};
use switchboard_wire::protocol::capabilities::{ClientCapability, ClientDescription};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::transport::in_memory;
use switchboard_wire::transport::in_memory::InMemoryTransport;
use switchboard_wire::transport::{CloseReason, OutgoingMessage, Transport, TransportEvent};
use switchboard_wire::transport_error::{HttpErrorResponse, TransportError};
use tokio::sync::mpsc;

fn client_description() -> ClientDescription {
    ClientDescription {
        legacy_capabilities: None,
        name: "swb".to_owned(),
        title: "Switchboard".to_owned(),
        version: "1".to_owned(),
        capabilities: vec![ClientCapability::Elicitation],
    }
}

/// How the server handles a request.
enum Reply {
    Result(Json),
    Error(i64, Json),
    Silence,
    Exit,
}

/// Every request that the server received: method and parameters.
type ReceivedRequests = mpsc::UnboundedReceiver<(String, Json)>;

/// A server that responds with a function of method and parameters.
fn serve(
    answer: impl Fn(&str, &Json) -> Reply + Send + 'static,
) -> (InMemoryTransport, ReceivedRequests) {
    let (ours, mut theirs) = in_memory::pair();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok(TransportEvent::Message(message)) = theirs.next().await {
            let (id, method, params) = match message {
                Message::Request { id, method, params } => (Some(id), method, params),
                Message::Notification { method, params } => (None, method, params),
                Message::Response { .. } => continue,
            };
            let params = params.map_or(Json::Null, |it| it.decode().expect("JSON"));
            let _test_over = sender.send((method.to_string(), params.clone()));
            if id.is_none() {
                continue;
            }
            let outcome = match answer(&method, &params) {
                Reply::Result(result) => Ok(Payload::encode(&result).expect("JSON")),
                Reply::Error(code, data) => {
                    let data = Some(Payload::encode(&data).expect("JSON"));
                    Err(RpcError { code, message: "no".to_owned(), data })
                }
                Reply::Silence => continue,
                Reply::Exit => return,
            };
            theirs.push(Message::Response { id, outcome }.into());
        }
    });
    (ours, received)
}

fn discover_result() -> Json {
    json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": true}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "1"}},
    })
}

fn initialize_result(params: &Json) -> Json {
    assert_eq!(params["clientInfo"]["name"], "swb");
    json!({
        "protocolVersion": params["protocolVersion"], "capabilities": {},
        "serverInfo": {"name": "legacy", "version": "1"},
    })
}

async fn open(
    transport: impl Transport,
    hint: EraHint,
) -> (Result<Client, HandshakeError>, SpawnedPeer) {
    let connection = Peer::spawn(transport);
    let client = handshake::negotiate(&connection.peer, &client_description(), hint).await;
    (client, connection)
}

fn methods(received: &mut ReceivedRequests) -> Vec<String> {
    let mut methods = Vec::new();
    while let Ok((method, _)) = received.try_recv() {
        methods.push(method);
    }
    methods
}

#[tokio::test]
async fn a_modern_server_is_discovered_once_and_every_request_has_client_meta() {
    let (transport, mut received) = serve(|method, _| match method {
        "server/discover" => Reply::Result(discover_result()),
        _ => Reply::Result(json!({"resultType": "complete"})),
    });
    let (client, _connection) = open(transport, EraHint::Unknown).await;
    let client = client.expect("it is modern");
    assert_eq!(client.server().era, Era::Modern);
    assert_eq!(client.server().name, "modern");
    client.request("tools/list").send().await.expect("it answers");
    let expected = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "swb", "title": "Switchboard", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
    }});
    assert_eq!(received.recv().await, Some(("server/discover".to_owned(), expected.clone())));
    assert_eq!(received.recv().await, Some(("tools/list".to_owned(), expected)));
}

#[tokio::test]
async fn a_server_that_rejects_discover_is_initialized_on_the_same_connection() {
    let (transport, mut received) = serve(|method, params| match method {
        "initialize" => Reply::Result(initialize_result(params)),
        "tools/list" => Reply::Result(json!({})),
        _ => Reply::Error(-32601, Json::Null),
    });
    let (client, _connection) = open(transport, EraHint::Unknown).await;
    let client = client.expect("it is legacy");
    assert_eq!(
        (client.server().era, client.server().protocol_version.as_str()),
        (Era::Legacy, "2025-11-25")
    );
    client.request("tools/list").send().await.expect("it answers");
    assert_eq!(
        methods(&mut received),
        ["server/discover", "initialize", "notifications/initialized", "tools/list"]
    );
}

#[tokio::test]
async fn a_known_legacy_server_gets_no_discover_request() {
    let (transport, mut received) = serve(|_, params| Reply::Result(initialize_result(params)));
    let (client, _connection) = open(transport, EraHint::Legacy).await;
    client.expect("it is legacy");
    assert_eq!(methods(&mut received)[0], "initialize");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_discover_is_initialized_in_parallel() {
    let (transport, mut received) = serve(|method, params| match method {
        "initialize" => Reply::Result(initialize_result(params)),
        _ => Reply::Silence,
    });
    let began = tokio::time::Instant::now();
    let (client, _connection) = open(transport, EraHint::Unknown).await;
    assert_eq!(client.expect("it is legacy").server().era, Era::Legacy);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(methods(&mut received)[..2], ["server/discover", "initialize"]);
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_is_slow_to_start_is_still_seen_as_modern() {
    let (ours, mut theirs) = in_memory::pair();
    tokio::spawn(async move {
        tokio::time::advance(Duration::from_secs(5)).await;
        while let Ok(TransportEvent::Message(Message::Request { id, method, .. })) =
            theirs.next().await
        {
            let outcome = match &*method {
                "server/discover" => Ok(Payload::encode(&discover_result()).expect("JSON")),
                _ => Err(RpcError { code: -32601, message: "no".to_owned(), data: None }),
            };
            theirs.push(Message::Response { id: Some(id), outcome }.into());
        }
    });
    let (client, _connection) = open(ours, EraHint::Unknown).await;
    assert_eq!(client.expect("it is modern").server().era, Era::Modern);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_initialize_result_waits_for_the_discover_result() {
    let (ours, mut theirs) = in_memory::pair();
    tokio::spawn(async move {
        let mut first = None;
        while let Ok(TransportEvent::Message(Message::Request { id, method, .. })) =
            theirs.next().await
        {
            if &*method == "server/discover" {
                first = Some(id);
                continue;
            }
            let nonsense = Ok(Payload::encode(&json!({"resultType": "complete"})).expect("JSON"));
            theirs.push(Message::Response { id: Some(id), outcome: nonsense }.into());
            let outcome = Ok(Payload::encode(&discover_result()).expect("JSON"));
            theirs.push(Message::Response { id: first.take(), outcome }.into());
        }
    });
    let (client, _connection) = open(ours, EraHint::Unknown).await;
    assert_eq!(client.expect("it is modern").server().era, Era::Modern);
}

#[tokio::test]
async fn a_server_that_exits_on_discover_differs_from_one_that_rejects_it() {
    let (transport, _heard) = serve(|_, _| Reply::Exit);
    let (client, _connection) = open(transport, EraHint::Unknown).await;
    let error = client.expect_err("it is gone");
    let ended = CallError::Closed { reason: CloseReason::Closed, delivery: Delivery::Unknown };
    assert_eq!(
        error,
        HandshakeError { stage: HandshakeStage::Discover, kind: HandshakeErrorKind::Call(ended) }
    );
}

#[tokio::test]
async fn versions_are_negotiated_or_the_handshake_fails() {
    let was_asked = std::sync::atomic::AtomicBool::new(false);
    let (transport, _heard) =
        serve(move |_, _| match was_asked.swap(true, std::sync::atomic::Ordering::Relaxed) {
            false => Reply::Error(-32022, json!({"supported": ["2026-07-28"]})),
            true => Reply::Result(discover_result()),
        });
    let (client, _connection) = open(transport, EraHint::Unknown).await;
    assert_eq!(client.expect("asked again, it answers").server().era, Era::Modern);

    let (transport, _heard) =
        serve(|_, _| Reply::Error(-32022, json!({"supported": ["2031-01-01"]})));
    let (client, _connection) = open(transport, EraHint::Unknown).await;
    let error = client.expect_err("we have no version in common");
    assert_eq!(
        error.kind,
        HandshakeErrorKind::NoCommonVersion { server_versions: vec!["2031-01-01".to_owned()] }
    );

    let (transport, _heard) = serve(|method, params| match method {
        "initialize" => Reply::Result(initialize_result(params)),
        _ => Reply::Error(-32022, json!({"supported": ["2025-11-25"]})),
    });
    let (client, _connection) = open(transport, EraHint::Unknown).await;
    assert_eq!(client.expect("it is legacy").server().era, Era::Legacy);

    let (transport, _heard) = serve(|_, _| Reply::Result(json!({"protocolVersion": "1.0"})));
    let (client, _connection) = open(transport, EraHint::Legacy).await;
    let error = client.expect_err("no common version");
    assert_eq!(
        error.kind,
        HandshakeErrorKind::NoCommonVersion { server_versions: vec!["1.0".to_owned()] }
    );
}

#[tokio::test]
async fn the_progress_token_is_the_call_number() {
    let (transport, mut received) = serve(|method, params| match method {
        "initialize" => Reply::Result(initialize_result(params)),
        _ => Reply::Result(json!({})),
    });
    let (client, _connection) = open(transport, EraHint::Legacy).await;
    let client = client.expect("it is legacy");
    let (progress, _updates) = mpsc::channel(1);
    let params = Payload::encode(&json!({"_meta": {"mine": 1}})).expect("JSON");
    client
        .request("tools/call")
        .params(params)
        .progress_sender(progress)
        .send()
        .await
        .expect("answer");
    let asked = std::iter::from_fn(|| received.try_recv().ok()).find(|it| it.0 == "tools/call");
    let (_, params) = asked.expect("it was asked");
    assert_eq!(params, json!({"_meta": {"mine": 1, "progressToken": 2}}));
}

/// Answers every request with its own content.
struct EchoHandler;

impl RequestHandler for EchoHandler {
    fn respond<'a>(
        &'a self,
        method: &'a str,
        params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>> {
        let params: Json = params.map_or(Json::Null, |it| it.decode().expect("JSON"));
        let answer = json!({"method": method, "params": params});
        Box::pin(async move { Ok(Payload::encode(&answer).expect("JSON")) })
    }
}

#[tokio::test]
async fn input_required_is_answered_with_responses_and_the_exact_state() {
    let (transport, mut received) = serve(|method, params| {
        if method == "server/discover" {
            return Reply::Result(discover_result());
        }
        match params["requestState"].as_str() {
            None => Reply::Result(json!({
                "resultType": "input_required", "requestState": "é \"1\"",
                "inputRequests": {"a": {"method": "elicitation/create", "params": {"x": 1}}, "b": {"method": "roots/list"}},
            })),
            Some("é \"1\"") => {
                Reply::Result(json!({"resultType": "input_required", "requestState": "2"}))
            }
            Some(_) => Reply::Result(json!({"resultType": "complete", "content": []})),
        }
    });
    let (client, _connection) = open(transport, EraHint::Unknown).await;
    let client = client.expect("it is modern");
    let params = Payload::encode(&json!({"name": "t"})).expect("JSON");
    let request = client.request("tools/call").params(params).input_handler(Arc::new(EchoHandler));
    let result: Json = request.send().await.expect("it answers").decode().expect("JSON");
    assert_eq!(result["content"], json!([]));
    let calls: Vec<Json> = std::iter::from_fn(|| received.try_recv().ok())
        .filter(|it| it.0 == "tools/call")
        .map(|it| it.1)
        .collect();
    assert_eq!(calls.len(), 3);
    assert_eq!(
        (&calls[0]["requestState"], &calls[0]["inputResponses"]),
        (&Json::Null, &Json::Null)
    );
    assert_eq!(
        calls[1]["inputResponses"],
        json!({
            "a": {"method": "elicitation/create", "params": {"x": 1}},
            "b": {"method": "roots/list", "params": null},
        })
    );
    assert_eq!((&calls[2]["requestState"], &calls[2]["name"]), (&json!("2"), &json!("t")));
}

#[tokio::test]
async fn endless_input_required_results_are_an_error() {
    let (transport, _heard) = serve(|method, _| match method {
        "server/discover" => Reply::Result(discover_result()),
        _ => Reply::Result(json!({"resultType": "input_required", "requestState": "again"})),
    });
    let (client, _connection) = open(transport, EraHint::Unknown).await;
    let client = client.expect("it is modern");
    let error = client.request("tools/call").input_handler(Arc::new(EchoHandler)).send().await;
    assert!(matches!(error, Err(CallError::Remote(_))), "{error:?}");
    let plain = client.request("tools/call").send().await.expect("without anybody to answer");
    assert_eq!(plain.decode::<Json>().expect("JSON")["resultType"], "input_required");
}

/// An in-memory transport that claims to carry headers, and records them.
struct HeaderRecorder {
    transport: InMemoryTransport,
    headers: mpsc::UnboundedSender<HeaderMap>,
    failure: Option<TransportError>,
    failed_id: Option<RequestId>,
}

impl Transport for HeaderRecorder {
    const CARRIES_HEADERS: bool = true;

    fn push(&mut self, outgoing: OutgoingMessage) {
        let _test_over =
            self.headers.send(outgoing.headers.clone().map(|it| *it).unwrap_or_default());
        if let (Some(_), Message::Request { id, .. }) = (&self.failure, &outgoing.message) {
            self.failed_id = Some(id.clone());
        }
        self.transport.push(outgoing);
    }

    fn queued_bytes(&self) -> usize {
        self.transport.queued_bytes()
    }

    async fn shutdown(&mut self) {
        self.transport.shutdown().await;
    }

    async fn next(&mut self) -> Result<TransportEvent, CloseReason> {
        match (self.failed_id.take(), &self.failure) {
            (Some(id), Some(fault)) => {
                Ok(TransportEvent::DeliveryFailed { id: Some(id), error: fault.clone() })
            }
            (Some(_) | None, Some(_) | None) => self.transport.next().await,
        }
    }
}

#[tokio::test]
async fn modern_requests_have_method_and_name_headers() {
    let (transport, _heard) = serve(|method, _| match method {
        "server/discover" => Reply::Result(discover_result()),
        _ => Reply::Result(json!({})),
    });
    let (sender, mut headers) = mpsc::unbounded_channel();
    let recorder = HeaderRecorder { transport, headers: sender, failure: None, failed_id: None };
    let (client, _connection) = open(recorder, EraHint::Unknown).await;
    let client = client.expect("it is modern");
    let mut param_headers = HeaderMap::new();
    param_headers.insert("mcp-param-region", http::HeaderValue::from_static("eu"));
    let params = Payload::encode(&json!({"uri": "file:///a%20b?c=é"})).expect("JSON");
    client
        .request("resources/read")
        .params(params)
        .param_headers(param_headers)
        .send()
        .await
        .expect("answer");
    let _of_discover = headers.recv().await;
    let sent = headers.recv().await.expect("it was sent");
    let mut pairs: Vec<(&str, &str)> =
        sent.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
    pairs.sort_unstable();
    assert_eq!(
        pairs,
        [
            ("mcp-method", "resources/read"),
            ("mcp-name", "=?base64?ZmlsZTovLy9hJTIwYj9jPcOp?="),
            ("mcp-param-region", "eu"),
            ("mcp-protocol-version", "2026-07-28"),
        ]
    );
}

#[tokio::test]
async fn an_unauthorized_server_is_not_probed_further() {
    let (transport, mut received) = serve(|_, _| Reply::Silence);
    let (sender, _headers) = mpsc::unbounded_channel();
    let fault = TransportError::Status(Box::new(HttpErrorResponse {
        status: 401,
        ..HttpErrorResponse::default()
    }));
    let recorder = HeaderRecorder {
        transport,
        headers: sender,
        failure: Some(fault.clone()),
        failed_id: None,
    };
    let (client, _connection) = open(recorder, EraHint::Unknown).await;
    let error = client.expect_err("it wants a login");
    assert_eq!(error.kind, HandshakeErrorKind::Call(CallError::Transport(fault)));
    assert!(!methods(&mut received).contains(&"initialize".to_owned()));
}

#[tokio::test]
async fn a_ping_uses_the_method_of_the_era() {
    let (transport, mut received) = serve(|method, params| match method {
        "initialize" => Reply::Result(initialize_result(params)),
        _ => Reply::Error(-32601, Json::Null),
    });
    let (client, _connection) = open(transport, EraHint::Legacy).await;
    client
        .expect("it is legacy")
        .ping(Duration::from_secs(5))
        .await
        .expect("an error is an answer");
    assert!(methods(&mut received).contains(&"ping".to_owned()));
}
