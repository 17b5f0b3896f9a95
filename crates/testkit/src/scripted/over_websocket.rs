//! WebSocket with the subprotocol `mcp`: one message a frame.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::sync::mpsc;

use super::actor::Recorded;
use super::carried::{Arrived, House, status};
use super::conversation::Conversation;
use super::eras::Opened;
use super::outlet::{Frame, Outlet};

const PROTOCOL: &str = "mcp";
const LARGEST: usize = 256 * 1024 * 1024;

/// Answers a request, which has to be one for a WebSocket.
pub async fn answer(house: &Arc<House>, mut arrived: Arrived) -> Response {
    if arrived.parts.uri.path() != "/mcp" {
        return status(StatusCode::NOT_FOUND);
    }
    let offered = arrived.header("sec-websocket-protocol").unwrap_or_default();
    if !offered.split(',').any(|it| it.trim() == PROTOCOL) {
        return status(StatusCode::BAD_REQUEST);
    }
    let headers = arrived.headers.clone();
    let house = Arc::clone(house);
    match WebSocketUpgrade::from_request_parts(&mut arrived.parts, &()).await {
        Ok(upgrade) => upgrade
            .protocols([PROTOCOL])
            .max_message_size(LARGEST)
            .max_frame_size(LARGEST)
            .on_upgrade(move |socket| converse(house, socket, headers)),
        Err(rejection) => rejection.into_response(),
    }
}

async fn converse(house: Arc<House>, socket: WebSocket, headers: Value) {
    let (sender, mut frames) = mpsc::unbounded_channel();
    let conversation = Conversation::new(&house.actor, Outlet::Direct(sender), Opened::NotYet);
    let (mut writer, mut reader) = socket.split();
    loop {
        tokio::select! {
            frame = frames.recv() => {
                let sent = match frame {
                    Some(Frame::Message(bytes)) => writer.send(message(bytes)).await,
                    Some(Frame::Half(mut bytes)) => {
                        bytes.truncate(bytes.len() / 2);
                        writer.send(message(bytes)).await
                    }
                    Some(Frame::Stop) => {
                        let _client_left = writer.close().await;
                        return;
                    }
                    // Dropping the socket without a closing frame is what a crash looks like.
                    Some(Frame::Cut) | None => return,
                };
                if sent.is_err() {
                    return;
                }
            }
            arrived = reader.next() => match arrived {
                Some(Ok(Message::Text(text))) => {
                    house.actor.record(Recorded {
                        method: "MESSAGE".to_owned(),
                        path: "/mcp".to_owned(),
                        headers: Vec::new(),
                        body: serde_json::from_str(&text).ok(),
                    });
                    conversation.take_text(text.as_bytes(), &headers);
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
        }
    }
}

/// Text where it is text.
fn message(bytes: Vec<u8>) -> Message {
    match String::from_utf8(bytes) {
        Ok(text) => Message::Text(text.into()),
        Err(error) => Message::Binary(error.into_bytes().into()),
    }
}
