//! The connections of an IDE: the handshake with its token, and the messages of clients. The tools are in `tools`.

use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, to_bytes};
use axum::extract::FromRequestParts;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt, StreamExt, stream};
use serde_json::{Value, json};

use crate::http::response::{empty_response, event_stream_response};
use crate::ide::ide_state::{IdeState, IdeTransport};
use crate::ide::tools;

const TOKEN_HEADER: &str = "x-claude-code-ide-authorization";
const MAX_BODY: usize = 64 * 1024 * 1024;

pub(super) fn lock(state: &Mutex<IdeState>) -> MutexGuard<'_, IdeState> {
    state.lock().expect("no test panics while it holds the state")
}

/// Handles a message of a client, and answers it unless the answer comes later.
fn receive(state: &mut IdeState, message: Value) {
    state.messages.push(message.clone());
    let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else {
        if message["method"] == "notifications/initialized" {
            state.notify_idle_selection();
        }
        return;
    };
    if state.is_silent {
        return;
    }
    let response = match method {
        "initialize" => Ok(json!({
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "logging": {}},
            "serverInfo": {"name": "test-ide", "version": "1"},
        })),
        "tools/list" => Ok(json!({"tools": tools::definitions()})),
        "prompts/list" => Ok(json!({"prompts": []})),
        "tools/call" => match tools::call(state, id, &message["params"]) {
            Some(outcome) => outcome,
            None => return,
        },
        _ => Err(json!({"code": -32601, "message": format!("Method not found: {method}")})),
    };
    state.send_all(&match response {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    });
}

/// Handles a request.
pub(super) async fn serve(state: Arc<Mutex<IdeState>>, request: Request<Body>) -> Response {
    let (transport, token) = {
        let state = lock(&state);
        (state.transport, state.token.clone())
    };
    let sent = request.headers().get(TOKEN_HEADER).and_then(|it| it.to_str().ok());
    if token.is_some() && sent != token.as_deref() {
        let reason = match sent {
            None => "Missing authentication header",
            Some(_) => "Invalid authentication token",
        };
        lock(&state).refusals.push(reason.to_owned());
        return (StatusCode::BAD_REQUEST, reason).into_response();
    }
    match (transport, request.method().as_str(), request.uri().path()) {
        (IdeTransport::WebSocket, "GET", "/") => open_socket(state, request).await,
        (IdeTransport::Sse, "GET", "/sse") => open_stream(&state),
        (IdeTransport::Sse, "POST", "/message") => receive_post(&state, request).await,
        (_, _, _) => empty_response(StatusCode::NOT_FOUND),
    }
}

async fn open_socket(state: Arc<Mutex<IdeState>>, request: Request<Body>) -> Response {
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade
            .protocols(["mcp"])
            .max_message_size(MAX_BODY)
            .on_upgrade(move |socket| run_socket(state, socket)),
        Err(rejection) => rejection.into_response(),
    }
}

async fn run_socket(state: Arc<Mutex<IdeState>>, socket: WebSocket) {
    let mut frames = lock(&state).add_client();
    let (mut writer, mut reader) = socket.split();
    loop {
        tokio::select! {
            frame = frames.recv() => {
                let Some(frame) = frame else { return };
                if writer.send(Message::Text(frame.to_string().into())).await.is_err() {
                    return;
                }
            }
            incoming = reader.next() => match incoming {
                Some(Ok(Message::Text(text))) => {
                    if let Ok(message) = serde_json::from_str(&text) {
                        receive(&mut lock(&state), message);
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
        }
    }
}

fn open_stream(state: &Mutex<IdeState>) -> Response {
    let frames = lock(state).add_client();
    let endpoint = "event: endpoint\ndata: /message\n\n".to_owned();
    let messages = stream::unfold(frames, async |mut frames| {
        let frame = frames.recv().await?;
        Some((format!("event: message\ndata: {frame}\n\n"), frames))
    });
    let events = stream::once(async { endpoint }).chain(messages);
    event_stream_response(Body::from_stream(events.map(Ok::<_, std::io::Error>)))
}

async fn receive_post(state: &Mutex<IdeState>, request: Request<Body>) -> Response {
    let Ok(body) = to_bytes(request.into_body(), MAX_BODY).await else {
        return empty_response(StatusCode::BAD_REQUEST);
    };
    match serde_json::from_slice(&body) {
        Ok(message) => {
            receive(&mut lock(state), message);
            empty_response(StatusCode::ACCEPTED)
        }
        Err(_) => empty_response(StatusCode::BAD_REQUEST),
    }
}
