//! The HTTP/1.1 client: which connection a request uses, and whether it is reused afterwards.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::serve::ListenerExt;
use serde_json::json;
use switchboard_wire::http::client::Target;
use switchboard_wire::jsonrpc::message::{Message, RequestId};
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use switchboard_wire::transport::{OutgoingMessage, Transport, TransportEvent};
use switchboard_wire::transport_error::{TransportError, UnreachableReason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::time::timeout;
use url::Url;

use crate::test_server::*;

/// A listener where the test itself plays the server.
struct ManualServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl ManualServer {
    async fn bind() -> ManualServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        ManualServer { listener, address }
    }

    fn transport(&self) -> StreamableHttpTransport {
        let url = Url::parse(&format!("http://{}/mcp", self.address)).expect("a URL");
        StreamableHttpTransport::new(http_client(), Target::new(url))
    }

    /// The next connection, after its first request.
    async fn next_request(&self) -> TcpStream {
        let accepted = timeout(TEST_TIMEOUT, self.listener.accept()).await.expect("a connection");
        let mut socket = accepted.expect("a connection").0;
        read_request(&mut socket).await;
        socket
    }

    /// Checks that no further connection was opened.
    async fn check_no_new_connection(&self) {
        let mut waits = std::pin::pin!(self.listener.accept());
        // The runtime polls the listener while this task yields.
        for _ in 0..20 {
            let poll_once =
                |task: &mut Context<'_>| Poll::Ready(waits.as_mut().poll(task).is_ready());
            let is_there = poll_fn(poll_once).await;
            assert!(!is_there, "one connection is enough");
            tokio::task::yield_now().await;
        }
    }
}

/// Responds to the request with this number, and leaves the connection open.
async fn send_response(socket: &mut TcpStream, number: u64) {
    let body = json!({"jsonrpc": "2.0", "id": number, "result": number}).to_string();
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
    let text = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
    socket.write_all(text.as_bytes()).await.expect("it is read");
}

/// Waits until the other side has closed a connection.
async fn wait_until_closed(socket: &mut TcpStream) {
    let mut rest = [0; 64];
    let read = timeout(TEST_TIMEOUT, socket.read(&mut rest)).await.expect("it is closed");
    assert_eq!(read.unwrap_or(0), 0, "nothing more is sent on it");
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_is_not_reused() {
    let server = ManualServer::bind().await;
    let mut transport = server.transport();
    transport.push(request(1, "ping"));
    let mut first = drive_until(&mut transport, server.next_request()).await;
    send_response(&mut first, 1).await;
    assert_eq!(next_message(&mut transport).await["result"], 1);
    drop(first);
    // The close has arrived, but has not been read.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    transport.push(request(2, "ping"));
    let mut second = drive_until(&mut transport, server.next_request()).await;
    send_response(&mut second, 2).await;
    assert_eq!(next_message(&mut transport).await["result"], 2);
}

#[tokio::test]
async fn a_request_that_may_have_been_delivered_is_not_repeated() {
    let server = ManualServer::bind().await;
    let mut transport = server.transport();
    transport.push(request(1, "ping"));
    let mut socket = drive_until(&mut transport, server.next_request()).await;
    send_response(&mut socket, 1).await;
    assert_eq!(next_message(&mut transport).await["result"], 1);
    transport.push(request(2, "tools/call"));
    drive_until(&mut transport, read_request(&mut socket)).await;
    drop(socket);
    match next(&mut transport).await {
        Ok(TransportEvent::DeliveryFailed { id: Some(RequestId::Number(2)), error }) => {
            let TransportError::Unreachable { reason, .. } = &error else {
                panic!("it broke: {error:?}")
            };
            assert_eq!(*reason, UnreachableReason::Reset);
            assert!(!error.is_before_delivery());
        }
        other => panic!("it is lost: {other:?}"),
    }
    server.check_no_new_connection().await;
}

#[tokio::test]
async fn a_partly_read_response_closes_its_connection() {
    let server = ManualServer::bind().await;
    let mut transport = server.transport();
    transport.push(modern_request(1, "tools/call"));
    let mut socket = drive_until(&mut transport, server.next_request()).await;
    let response_text = event(&json!({"jsonrpc": "2.0", "method": "notifications/progress"}));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000";
    let begun = format!("{head}\r\n\r\n{response_text}data: {{");
    socket.write_all(begun.as_bytes()).await.expect("it is read");
    assert_eq!(next_message(&mut transport).await["method"], "notifications/progress");
    transport.push(notification("notifications/cancelled", &json!({"requestId": 1})));
    drive_until(&mut transport, wait_until_closed(&mut socket)).await;
    transport.push(modern_request(2, "ping"));
    let mut socket = drive_until(&mut transport, server.next_request()).await;
    send_response(&mut socket, 2).await;
    assert_eq!(next_message(&mut transport).await["result"], 2);
}

#[tokio::test]
async fn concurrent_requests_open_connections_and_later_ones_reuse_them() {
    const CALLS: usize = 70;
    const KEPT: usize = 64;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let accepted = Arc::new(AtomicUsize::new(0));
    let counting = accepted.clone();
    let listener = listener.tap_io(move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
    });
    // No request is answered before all have arrived.
    let all_received = Arc::new(Barrier::new(CALLS));
    let server = TestServer::with_listener(listener, address, move |received| {
        let all_received = all_received.clone();
        async move {
            all_received.wait().await;
            json_response(&result(&received, received.body["id"].clone()))
        }
    });
    let mut transport = StreamableHttpTransport::new(http_client(), server.target());
    let mut number = 0;
    for expected in [CALLS, CALLS + (CALLS - KEPT)] {
        for _ in 0..CALLS {
            number += 1;
            transport.push(request(number, "ping"));
        }
        for _ in 0..CALLS {
            let answer = next_message(&mut transport).await;
            assert_eq!(answer["result"], answer["id"]);
        }
        assert_eq!(accepted.load(Ordering::SeqCst), expected);
    }
}

/// A request that is larger than the socket buffers.
fn large_request(number: u64) -> OutgoingMessage {
    let params = Some(payload(&json!({"text": "x".repeat(16 * 1024 * 1024)})));
    Message::Request { id: RequestId::Number(number), method: "tools/call".into(), params }.into()
}

#[tokio::test]
async fn a_response_may_arrive_before_the_request_is_fully_sent() {
    let server = ManualServer::bind().await;
    let mut transport = server.transport();
    transport.push(large_request(1));
    let refused = async {
        let accepted = timeout(TEST_TIMEOUT, server.listener.accept()).await.expect("a connection");
        let mut socket = accepted.expect("a connection").0;
        socket.read_exact(&mut [0; 1000]).await.expect("a request starts");
        // The connection stays open, and the server does not read on.
        let text = "HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge";
        socket.write_all(text.as_bytes()).await.expect("it is read");
        socket
    };
    let (arrived, mut socket) = tokio::join!(next(&mut transport), refused);
    let Ok(TransportEvent::DeliveryFailed { id: Some(RequestId::Number(1)), error }) = arrived
    else {
        panic!("it is lost: {arrived:?}");
    };
    let refused_response = error_response(&error);
    assert_eq!((refused_response.status, &*refused_response.body), (413, "large"));
    // The rest of the request would be taken for the next one, so the connection is not reused.
    let drained = async { while socket.read(&mut [0; 65536]).await.is_ok_and(|it| it > 0) {} };
    timeout(TEST_TIMEOUT, drained).await.expect("it is closed");
    transport.push(request(2, "ping"));
    let mut socket = drive_until(&mut transport, server.next_request()).await;
    send_response(&mut socket, 2).await;
    assert_eq!(next_message(&mut transport).await["result"], 2);
}

#[tokio::test]
async fn a_chunked_response_leaves_its_connection_reusable() {
    let server = ManualServer::bind().await;
    let mut transport = server.transport();
    transport.push(request(1, "ping"));
    let mut socket = drive_until(&mut transport, server.next_request()).await;
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let (first, second) = (r#"{"jsonrpc":"2.0","#, r#""id":1,"result":7}"#);
    let text = format!(
        "{head}{:x}\r\n{first}\r\n{:X};note=1\r\n{second}\r\n0\r\nx: y\r\n\r\n",
        first.len(),
        second.len()
    );
    socket.write_all(text.as_bytes()).await.expect("it is read");
    assert_eq!(next_message(&mut transport).await["result"], 7);
    transport.push(request(2, "ping"));
    drive_until(&mut transport, read_request(&mut socket)).await;
    send_response(&mut socket, 2).await;
    assert_eq!(next_message(&mut transport).await["result"], 2);
    server.check_no_new_connection().await;
}

#[tokio::test]
async fn a_response_that_ends_with_its_connection_is_complete() {
    let server = ManualServer::bind().await;
    let mut transport = server.transport();
    transport.push(request(1, "ping"));
    let mut socket = drive_until(&mut transport, server.next_request()).await;
    let body = r#"{"jsonrpc":"2.0","id":1,"result":7}"#;
    let text = format!("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{body}");
    socket.write_all(text.as_bytes()).await.expect("it is read");
    drop(socket);
    assert_eq!(next_message(&mut transport).await["result"], 7);
}

#[tokio::test]
async fn unsolicited_bytes_after_a_response_close_the_connection() {
    let server = ManualServer::bind().await;
    let mut transport = server.transport();
    transport.push(request(1, "ping"));
    let mut socket = drive_until(&mut transport, server.next_request()).await;
    let body = r#"{"jsonrpc":"2.0","id":1,"result":7}"#;
    let forged = r#"{"jsonrpc":"2.0","id":2,"result":"forged"}"#;
    let response_text = |body: &str| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
        format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let text = format!("{}{}", response_text(body), response_text(forged));
    socket.write_all(text.as_bytes()).await.expect("it is read");
    assert_eq!(next_message(&mut transport).await["result"], 7);
    transport.push(request(2, "ping"));
    let mut another = drive_until(&mut transport, server.next_request()).await;
    send_response(&mut another, 2).await;
    assert_eq!(next_message(&mut transport).await["result"], 2);
}

#[tokio::test]
async fn endless_interim_responses_are_an_error() {
    let server = ManualServer::bind().await;
    let mut transport = server.transport();
    transport.push(request(1, "ping"));
    let mut socket = drive_until(&mut transport, server.next_request()).await;
    let flood = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(64);
    socket.write_all(flood.as_bytes()).await.expect("there is room");
    match next(&mut transport).await {
        Ok(TransportEvent::DeliveryFailed { id: Some(RequestId::Number(1)), error }) => {
            let TransportError::Unreachable { detail, .. } = &error else {
                panic!("it broke: {error:?}")
            };
            assert_eq!(detail, "too many interim responses");
            assert!(!error.is_before_delivery());
        }
        other => panic!("it is refused: {other:?}"),
    }
    wait_until_closed(&mut socket).await;
}

#[tokio::test]
async fn a_few_interim_responses_are_skipped() {
    let server = ManualServer::bind().await;
    let mut transport = server.transport();
    transport.push(request(1, "ping"));
    let mut socket = drive_until(&mut transport, server.next_request()).await;
    let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(3);
    socket.write_all(interim.as_bytes()).await.expect("it is read");
    send_response(&mut socket, 1).await;
    assert_eq!(next_message(&mut transport).await["result"], 1);
}
