//! WebSocket with the subprotocol `mcp`: one message per frame.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::sync::mpsc;

use super::http_state::{HttpRequest, HttpState};
use crate::http::recorded_request::RecordedRequest;
use crate::http::response::empty_response;
use crate::scripted::client_channel::{ClientChannel, Frame};
use crate::scripted::client_session::ClientSession;
use crate::scripted::protocol::Handshake;

const SUBPROTOCOL: &str = "mcp";
const MAX_MESSAGE_BYTES: usize = 256 * 1024 * 1024;

/// Handles a request, which must be a WebSocket upgrade.
pub async fn respond(state: &Arc<HttpState>, mut incoming: HttpRequest) -> Response {
    if incoming.parts.uri.path() != "/mcp" {
        return empty_response(StatusCode::NOT_FOUND);
    }
    let offered = incoming.header("sec-websocket-protocol").unwrap_or_default();
    if !offered.split(',').any(|it| it.trim() == SUBPROTOCOL) {
        return empty_response(StatusCode::BAD_REQUEST);
    }
    let headers = incoming.headers.clone();
    let state = Arc::clone(state);
    match WebSocketUpgrade::from_request_parts(&mut incoming.parts, &()).await {
        Ok(upgrade) => upgrade
            .protocols([SUBPROTOCOL])
            .max_message_size(MAX_MESSAGE_BYTES)
            .max_frame_size(MAX_MESSAGE_BYTES)
            .on_upgrade(move |socket| serve(state, socket, headers)),
        Err(rejection) => rejection.into_response(),
    }
}

async fn serve(state: Arc<HttpState>, socket: WebSocket, headers: Value) {
    let (sender, mut frames) = mpsc::unbounded_channel();
    let session =
        ClientSession::new(&state.server, ClientChannel::Direct(sender), Handshake::Pending);
    let (mut writer, mut reader) = socket.split();
    loop {
        tokio::select! {
            frame = frames.recv() => {
                let sent = match frame {
                    Some(Frame::Message(bytes)) => writer.send(to_message(bytes)).await,
                    Some(Frame::Truncated(mut bytes)) => {
                        bytes.truncate(bytes.len() / 2);
                        writer.send(to_message(bytes)).await
                    }
                    Some(Frame::End) => {
                        let _client_left = writer.close().await;
                        return;
                    }
                    // A crash drops the socket without a close frame.
                    Some(Frame::Disconnect) | None => return,
                };
                if sent.is_err() {
                    return;
                }
            }
            incoming = reader.next() => match incoming {
                Some(Ok(Message::Text(text))) => {
                    state.server.record(RecordedRequest {
                        method: "MESSAGE".to_owned(),
                        path: "/mcp".to_owned(),
                        headers: Vec::new(),
                        body: serde_json::from_str(&text).ok(),
                    });
                    session.receive_text(text.as_bytes(), &headers);
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
        }
    }
}

/// A text message if the bytes are UTF-8.
fn to_message(bytes: Vec<u8>) -> Message {
    match String::from_utf8(bytes) {
        Ok(text) => Message::Text(text.into()),
        Err(error) => Message::Binary(error.into_bytes().into()),
    }
}
