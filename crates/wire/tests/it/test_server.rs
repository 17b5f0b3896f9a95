//! Servers on loopback ports that respond as a test tells them, and record their requests.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use axum::serve::Listener;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use switchboard_wire::http::client::{HttpClient, HttpSettings, ProxySettings, Target};
use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId};
use switchboard_wire::transport::{CloseReason, OutgoingMessage, Transport, TransportEvent};
use switchboard_wire::transport_error::{HttpErrorResponse, TransportError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

/// Nothing in these tests takes this long unless it is broken.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A request as the server received it.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    pub method: Method,
    pub uri: String,
    pub headers: HeaderMap,
    /// Null if there was none.
    pub body: Value,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    pub fn rpc_method(&self) -> &str {
        self.body["method"].as_str().unwrap_or("")
    }
}

/// A server that runs until it is dropped.
pub struct TestServer {
    pub address: SocketAddr,
    pub requests: mpsc::UnboundedReceiver<ReceivedRequest>,
    task: JoinHandle<()>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestServer {
    /// A server that responds to every request with this function.
    pub async fn start<F, Fut>(respond: F) -> TestServer
    where
        F: Fn(ReceivedRequest) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        TestServer::with_listener(listener, address, respond)
    }

    /// The same with a listener of the test.
    pub fn with_listener<L, F, Fut>(listener: L, address: SocketAddr, respond: F) -> TestServer
    where
        L: Listener<Addr: std::fmt::Debug>,
        F: Fn(ReceivedRequest) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response> + Send + 'static,
    {
        let (sender, requests) = mpsc::unbounded_channel();
        let respond = move |request: Request| {
            let (respond, sender) = (respond.clone(), sender.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (method, uri) = (parts.method, parts.uri.to_string());
                let received = ReceivedRequest { method, uri, headers: parts.headers, body };
                let _test_over = sender.send(received.clone());
                respond(received).await
            }
        };
        let router = Router::new().fallback(respond);
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves until it is aborted");
        });
        TestServer { address, requests, task }
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).expect("a URL")
    }

    pub fn target(&self) -> Target {
        Target::new(self.url("/mcp"))
    }

    /// The next request.
    pub async fn next(&mut self) -> ReceivedRequest {
        timeout(TEST_TIMEOUT, self.requests.recv())
            .await
            .expect("a request comes")
            .expect("it runs")
    }
}

/// A server that reads a request on each connection, sends these bytes and closes it.
pub async fn raw_server(answers: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        for answer in answers {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            read_request(&mut socket).await;
            socket.write_all(answer.as_bytes()).await.expect("it is read");
        }
    });
    address
}

/// Reads a request with its body.
pub async fn read_request(socket: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let count = socket.read_buf(&mut request).await.expect("a request");
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(count > 0, "the request was cut short");
            continue;
        };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().expect("a number")) {
            return text;
        }
    }
}

pub fn settings() -> HttpSettings {
    HttpSettings {
        user_agent: "stage/1".to_owned(),
        proxies: ProxySettings::default(),
        extra_ca: Vec::new(),
        identity: None,
        connect_timeout: Duration::from_secs(5),
    }
}

pub fn http_client() -> HttpClient {
    HttpClient::new(&settings()).expect("the settings are good")
}

/// A response with a status, a content type and a body.
pub fn reply(status: u16, content_type: &str, body: impl Into<Body>) -> Response {
    let builder = Response::builder().status(status);
    let builder = match content_type {
        "" => builder,
        _ => builder.header("content-type", content_type),
    };
    builder.body(body.into()).expect("a response")
}

pub fn json_response(value: &Value) -> Response {
    reply(200, "application/json", value.to_string())
}

pub fn accepted() -> Response {
    reply(202, "", Body::empty())
}

/// The response to a request.
pub fn result(received: &ReceivedRequest, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": received.body["id"], "result": result})
}

/// An event stream with this content that ends.
pub fn event_stream(text: impl Into<String>) -> Response {
    reply(200, "text/event-stream", Body::from(text.into()))
}

/// An event stream with this content that breaks.
pub fn broken_event_stream(text: impl Into<String>) -> Response {
    let parts = stream::unfold(Some(Bytes::from(text.into())), |text| async {
        // The content is sent only if there is a pause before the break.
        tokio::task::yield_now().await;
        match text {
            Some(text) => Some((Ok(text), None)),
            None => Some((Err(std::io::Error::other("broken")), None)),
        }
    });
    reply(200, "text/event-stream", Body::from_stream(parts))
}

/// An event stream that stays open as long as the sender exists.
pub fn open_event_stream() -> (mpsc::UnboundedSender<String>, Response) {
    let (sender, receiver) = mpsc::unbounded_channel::<String>();
    let parts = stream::unfold(receiver, |mut receiver| async {
        let text = receiver.recv().await?;
        Some((Ok::<_, std::io::Error>(Bytes::from(text)), receiver))
    });
    (sender, reply(200, "text/event-stream", Body::from_stream(parts)))
}

pub fn event(value: &Value) -> String {
    format!("event: message\ndata: {value}\n\n")
}

pub fn payload(value: &Value) -> Payload {
    Payload::encode(value).expect("JSON")
}

pub fn request(id: u64, method: &'static str) -> OutgoingMessage {
    let params = Some(payload(&json!({})));
    Message::Request { id: RequestId::Number(id), method: method.into(), params }.into()
}

/// A request of the modern era.
pub fn modern_request(id: u64, method: &'static str) -> OutgoingMessage {
    let mut headers = HeaderMap::new();
    headers.insert("mcp-protocol-version", "2026-07-28".parse().expect("a value"));
    headers.insert("mcp-method", method.parse().expect("a value"));
    OutgoingMessage { headers: Some(Box::new(headers)), ..request(id, method) }
}

pub fn notification(method: &'static str, params: &Value) -> OutgoingMessage {
    Message::Notification { method: method.into(), params: Some(payload(params)) }.into()
}

/// The next event.
pub async fn next(transport: &mut impl Transport) -> Result<TransportEvent, CloseReason> {
    timeout(TEST_TIMEOUT, transport.next()).await.expect("something arrives")
}

/// The next message, as JSON.
pub async fn next_message(transport: &mut impl Transport) -> Value {
    match next(transport).await {
        Ok(TransportEvent::Message(message) | TransportEvent::RelatedMessage { message, .. }) => {
            let mut text = Vec::new();
            message.write_to(&mut text);
            serde_json::from_slice(&text).expect("JSON")
        }
        other => panic!("a message was expected: {other:?}"),
    }
}

/// The error that closed a transport.
pub fn transport_error(end: &CloseReason) -> &TransportError {
    let CloseReason::Transport(fault) = end else { panic!("a fault was expected: {end:?}") };
    fault
}

/// The HTTP error response.
pub fn error_response(fault: &TransportError) -> HttpErrorResponse {
    let TransportError::Status(answer) = fault else { panic!("a status was expected: {fault:?}") };
    (**answer).clone()
}

/// The content type of a response that is not MCP.
pub fn not_mcp_content_type(fault: &TransportError) -> &str {
    let TransportError::NotMcp { content_type, .. } = fault else {
        panic!("a stranger: {fault:?}")
    };
    content_type
}

/// Drives the transport until the other future completes.
pub async fn drive_until<T>(transport: &mut impl Transport, other: impl Future<Output = T>) -> T {
    tokio::select! {
        arrival = transport.next() => panic!("nothing should arrive: {arrival:?}"),
        it = timeout(TEST_TIMEOUT, other) => it.expect("it happens"),
    }
}
