//! The WebSocket transport: frames, handshake, keep-alive and close.

use std::time::Duration;

use axum::Router;
use axum::extract::ws::{CloseFrame, Message as Frame, WebSocket, WebSocketUpgrade};
use axum::routing::any;
use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;
use switchboard_wire::http::client::Target;
use switchboard_wire::peer::Peer;
use switchboard_wire::transport::websocket::{KeepAlive, WebSocketTransport};
use switchboard_wire::transport::{CloseReason, Transport, TransportEvent};
use switchboard_wire::transport_error::{TransportError, UnreachableReason};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use url::Url;

use crate::test_server::{
    TEST_TIMEOUT, TestServer, error_response, http_client, json_response, next, next_message,
    not_mcp_content_type, payload, raw_server, read_request, reply, request, transport_error,
};

/// A server that runs this function for every connection.
async fn serve<F, Fut>(
    subprotocol: &'static str,
    on_socket: F,
) -> (Target, mpsc::UnboundedReceiver<HeaderMap>)
where
    F: Fn(WebSocket) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (sender, handshakes) = mpsc::unbounded_channel();
    let upgrade = move |headers: HeaderMap, upgrade: WebSocketUpgrade| {
        let (on_socket, sender) = (on_socket.clone(), sender.clone());
        async move {
            let _test_over = sender.send(headers);
            upgrade.protocols([subprotocol]).on_upgrade(on_socket)
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().route("/mcp", any(upgrade));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (target(&format!("ws://{address}/mcp")), handshakes)
}

fn target(url: &str) -> Target {
    Target::new(Url::parse(url).expect("a URL"))
}

/// Responds to every request with its own parameters.
async fn echo(mut socket: WebSocket) {
    while let Some(Ok(frame)) = socket.recv().await {
        let Frame::Text(text) = frame else { continue };
        let message: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": message["params"]});
        let answer = Frame::Text(answer.to_string().into());
        socket.send(answer).await.expect("it is read");
    }
}

#[tokio::test]
async fn requests_and_responses_are_frames() {
    let (target, mut handshakes) = serve("mcp", echo).await;
    let mut headers = HeaderMap::new();
    headers.insert("x-key", "secret".parse().expect("a value"));
    let connection = Peer::spawn(WebSocketTransport::new(http_client(), target.headers(headers)));
    for size in [1, 100_000, 10] {
        let params = payload(&json!({"text": "é".repeat(size)}));
        let call = connection.peer.call("echo").params(params.clone());
        assert_eq!(call.timeout(TEST_TIMEOUT).await, Ok(params));
    }
    let headers = handshakes.recv().await.expect("a handshake");
    assert_eq!(headers["x-key"], "secret");
    assert_eq!(headers["sec-websocket-protocol"], "mcp");
    assert_eq!(headers["user-agent"], "stage/1");
    drop(connection.peer);
    connection.task.await.expect("it ends");
}

#[tokio::test]
async fn binary_frames_and_batches_are_understood() {
    let (target, _) = serve("mcp", |mut socket: WebSocket| async move {
        let frames = [
            Frame::Binary(Bytes::from_static(b"{\"method\":\"a\"}")),
            Frame::Text("[{\"method\":\"b\"},{\"method\":\"c\"}]".into()),
            Frame::Text("hello".into()),
        ];
        for frame in frames {
            socket.send(frame).await.expect("it is read");
        }
        while let Some(Ok(_)) = socket.recv().await {}
    })
    .await;
    let mut transport = WebSocketTransport::new(http_client(), target);
    for method in ["a", "b", "c"] {
        assert_eq!(next_message(&mut transport).await["method"], method);
    }
    assert!(matches!(next(&mut transport).await, Ok(TransportEvent::Malformed(_))));
}

/// How a transport to this target closes.
async fn end_of(target: Target) -> CloseReason {
    let mut transport = WebSocketTransport::new(http_client(), target);
    transport.push(request(1, "ping"));
    next(&mut transport).await.expect_err("it ends")
}

#[tokio::test]
async fn a_server_that_closes_closes_the_transport() {
    let (target, _) = serve("mcp", |mut socket: WebSocket| async move {
        let frame = CloseFrame { code: 1001, reason: "going away".into() };
        let _gone = socket.send(Frame::Close(Some(frame))).await;
    })
    .await;
    assert_eq!(end_of(target).await, CloseReason::Closed);
    let (target, _) = serve("mcp", |socket: WebSocket| async move { drop(socket) }).await;
    assert_eq!(end_of(target).await, CloseReason::Transport(TransportError::IncompleteResponse));
}

#[tokio::test]
async fn shutdown_sends_a_close_frame_last() {
    let (sender, mut frames) = mpsc::unbounded_channel();
    let (target, _) = serve("mcp", move |mut socket: WebSocket| {
        let sender = sender.clone();
        async move {
            while let Some(Ok(frame)) = socket.recv().await {
                let kind = match &frame {
                    Frame::Text(text) => text.to_string(),
                    Frame::Close(_) => "close".to_owned(),
                    Frame::Binary(_) | Frame::Ping(_) | Frame::Pong(_) => "other".to_owned(),
                };
                let _test_over = sender.send(kind);
                if let Frame::Text(_) = frame {
                    socket
                        .send(Frame::Text("{\"method\":\"got\"}".into()))
                        .await
                        .expect("it is read");
                }
            }
        }
    })
    .await;
    let mut transport = WebSocketTransport::new(http_client(), target);
    transport.push(request(1, "a"));
    assert_eq!(next_message(&mut transport).await["method"], "got");
    transport.push(request(2, "b"));
    timeout(TEST_TIMEOUT, transport.shutdown()).await.expect("it leaves");
    let mut next =
        async || timeout(TEST_TIMEOUT, frames.recv()).await.expect("a frame").expect("it runs");
    assert!(next().await.contains("\"a\""));
    assert!(next().await.contains("\"b\""));
    assert_eq!(next().await, "close");
}

#[tokio::test]
async fn messages_are_accepted_up_to_the_limit() {
    let (target, _) = serve("mcp", |mut socket: WebSocket| async move {
        let _refused = socket.send(Frame::Text("x".repeat(2000).into())).await;
        while let Some(Ok(_)) = socket.recv().await {}
    })
    .await;
    assert_eq!(end_of(target.max_message_size(1000)).await, CloseReason::TooLarge { limit: 1000 });
}

#[tokio::test]
async fn another_subprotocol_is_an_error_and_none_is_accepted() {
    const WITH: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                        sec-websocket-protocol: graphql\r\n";
    let address = upgrading_server(WITH).await;
    let content_type = "graphql".to_owned();
    let expected = TransportError::NotMcp { content_type, body_prefix: String::new() };
    assert_eq!(end_of(target(&format!("ws://{address}/"))).await, CloseReason::Transport(expected));
    const WITHOUT: &str =
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: WebSocket\r\n";
    let address = upgrading_server(WITHOUT).await;
    let mut transport = WebSocketTransport::new(http_client(), target(&format!("ws://{address}/")));
    assert_eq!(next_message(&mut transport).await["method"], "a");
}

/// A server that accepts the handshake with these headers, and sends a message.
async fn upgrading_server(head: &'static str) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let request = read_request(&mut socket).await;
        let key = request.lines().find_map(|line| line.strip_prefix("sec-websocket-key: "));
        let key = key.expect("a key");
        let accept = derive_accept_key(key.as_bytes());
        let answer = format!("{head}sec-websocket-accept: {accept}\r\n\r\n");
        socket.write_all(answer.as_bytes()).await.expect("it is read");
        let frame = b"\x81\x0e{\"method\":\"a\"}";
        socket.write_all(frame).await.expect("it is read");
        std::future::pending::<()>().await;
    });
    address
}

#[tokio::test]
async fn an_invalid_handshake_is_an_error() {
    let wrong_key = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                     sec-websocket-accept: AAAA\r\n\r\n";
    let address = raw_server(Box::leak(Box::new([wrong_key]))).await;
    let end = end_of(target(&format!("ws://{address}/"))).await;
    assert!(
        matches!(
            transport_error(&end),
            TransportError::Unreachable { reason: UnreachableReason::Other, .. }
        ),
        "the handshake failed: {end:?}"
    );
    let server = TestServer::start(|_| async { reply(401, "", "") }).await;
    let end = end_of(target(&format!("ws://{}/", server.address))).await;
    assert_eq!(error_response(transport_error(&end)).status, 401);
    let server = TestServer::start(|_| async { json_response(&json!({})) }).await;
    let end = end_of(target(&format!("ws://{}/", server.address))).await;
    assert_eq!(not_mcp_content_type(transport_error(&end)), "application/json");
}

fn frequent_pings(limit: Duration) -> KeepAlive {
    KeepAlive { ping_interval: Duration::from_millis(20), timeout: limit }
}

#[tokio::test]
async fn pings_keep_an_idle_connection_open() {
    let (sender, mut pings) = mpsc::unbounded_channel();
    let (target, _) = serve("mcp", move |mut socket: WebSocket| {
        let sender = sender.clone();
        async move {
            // The library sends pongs while it is read.
            while let Some(Ok(frame)) = socket.recv().await {
                if let Frame::Ping(_) = frame {
                    let _test_over = sender.send(());
                }
            }
        }
    })
    .await;
    let mut transport =
        WebSocketTransport::new(http_client(), target).keep_alive(frequent_pings(TEST_TIMEOUT));
    let ten = async {
        for _ in 0..10 {
            pings.recv().await.expect("it runs");
        }
    };
    crate::test_server::drive_until(&mut transport, ten).await;
}

#[tokio::test]
async fn a_server_that_answers_no_ping_times_out() {
    let (target, _) = serve("mcp", |socket: WebSocket| async move {
        let _never_read = socket;
        std::future::pending::<()>().await;
    })
    .await;
    let limit = Duration::from_millis(100);
    let mut transport =
        WebSocketTransport::new(http_client(), target).keep_alive(frequent_pings(limit));
    let end = next(&mut transport).await;
    assert_eq!(end, Err(CloseReason::Transport(TransportError::Timeout(limit))));
}
