//! Streamable HTTP in both eras: sessions, resumed streams, error responses and cancelled calls.

mod authorization;
mod cancellation;
mod errors;
mod limits;
mod redirects;
mod session;
mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use switchboard_wire::http::client::{
    Authorize, HeadersFuture, OutboundRequest, ResponseHead, RetryDecision, RetryFuture, Target,
};
use switchboard_wire::jsonrpc::message::{Message, RequestId};
use switchboard_wire::peer::{CallError, Peer};
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use switchboard_wire::transport::{Transport, TransportEvent};
use switchboard_wire::transport_error::{HttpErrorResponse, TransportError, UnreachableReason};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, mpsc, oneshot};
use tokio::time::timeout;
use url::Url;

use crate::test_server::*;

fn transport_to(server: &TestServer) -> StreamableHttpTransport {
    StreamableHttpTransport::new(http_client(), server.target())
}

/// The outcome of one request to a server with this response to every request.
async fn send_to(play: fn(ReceivedRequest) -> Response) -> Result<Value, TransportError> {
    let server = TestServer::start(move |received| async move { play(received) }).await;
    send_to_target(server.target()).await
}

async fn send_to_target(target: Target) -> Result<Value, TransportError> {
    let mut transport = StreamableHttpTransport::new(http_client(), target);
    transport.push(request(7, "tools/call"));
    outcome(&mut transport).await
}

async fn outcome(transport: &mut StreamableHttpTransport) -> Result<Value, TransportError> {
    let outcome = match next(transport).await {
        Ok(TransportEvent::Message(message) | TransportEvent::RelatedMessage { message, .. }) => {
            let mut text = Vec::new();
            message.write_to(&mut text);
            Ok(serde_json::from_slice(&text).expect("JSON"))
        }
        Ok(TransportEvent::DeliveryFailed { id: Some(RequestId::Number(7)), error: fault }) => {
            Err(fault)
        }
        other => panic!("an answer or its loss was expected: {other:?}"),
    };
    assert_eq!(transport.queued_bytes(), 0, "nothing is left behind");
    outcome
}

/// The responses of a server with a session; the test handles the other requests.
fn session_response(received: &ReceivedRequest) -> Option<Response> {
    match received.rpc_method() {
        "initialize" => {
            let mut response =
                json_response(&result(received, json!({"protocolVersion": "2025-11-25"})));
            response.headers_mut().insert("mcp-session-id", "s-1".parse().expect("a value"));
            Some(response)
        }
        "notifications/initialized" => Some(accepted()),
        _ => None,
    }
}

/// Starts a session, and takes the requests of the handshake.
async fn initialize(
    transport: &mut StreamableHttpTransport,
    server: &mut TestServer,
) -> [ReceivedRequest; 2] {
    transport.push(request(1, "initialize"));
    assert_eq!(next_message(transport).await["id"], 1);
    transport.push(notification("notifications/initialized", &json!({})));
    let both = async { [server.next().await, server.next().await] };
    drive_until(transport, both).await
}

fn target_at(address: std::net::SocketAddr) -> Target {
    Target::new(Url::parse(&format!("http://{address}/mcp")).expect("a URL"))
}
