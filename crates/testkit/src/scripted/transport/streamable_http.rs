//! Streamable HTTP: sessions, GET streams and replay in the legacy era, header checks in the modern one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::http_body;
use super::http_body::Source;
use super::http_session::HttpSession;
use super::http_state::{HttpRequest, HttpState};
use crate::http::response::{empty_response, event_stream_response, json_response, with_header};
use crate::scripted::client_channel::{ClientChannel, ReplayBuffer};
use crate::scripted::client_session::{ClientRequest, ClientSession};
use crate::scripted::protocol;
use crate::scripted::protocol::{Handshake, RequestEra, RpcError};
use crate::scripted::quirk::Quirk;
use crate::scripted::response_quirks;
use crate::scripted::script::{Era, ResponseFormat, SessionMode, is_modern};
use crate::scripted::server_state::AfterMessage;

mod header_check;

const SESSION_HEADER: &str = "mcp-session-id";

/// Handles a request.
pub async fn handle(state: &Arc<HttpState>, http_request: HttpRequest) -> Response {
    if http_request.parts.uri.path() != "/mcp" {
        return empty_response(StatusCode::NOT_FOUND);
    }
    match http_request.parts.method.as_str() {
        "POST" => post(state, http_request).await,
        "GET" => open_get_stream(state, &http_request),
        "DELETE" => end_session(state, &http_request),
        _ => empty_response(StatusCode::METHOD_NOT_ALLOWED),
    }
}

async fn post(state: &Arc<HttpState>, http_request: HttpRequest) -> Response {
    let accepts = http_request.header("accept").unwrap_or_default();
    if !(accepts.contains("application/json") && accepts.contains("text/event-stream")) {
        return empty_response(StatusCode::NOT_ACCEPTABLE);
    }
    if !http_request.header("content-type").is_some_and(|it| it.starts_with("application/json")) {
        return empty_response(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let message = match &http_request.body {
        Some(message) if message.is_object() => message.clone(),
        Some(_) => {
            return error_response(
                400,
                &RpcError::new(-32600, "one message at a time"),
                &Value::Null,
            );
        }
        None => {
            return error_response(400, &RpcError::new(-32700, "this is not JSON"), &Value::Null);
        }
    };
    if state.server.receive(&message) == AfterMessage::Disconnect {
        return event_stream_response(http_body::broken_body());
    }
    match is_modern_request(state, &http_request, &message) {
        true => post_modern(state, &http_request, &message).await,
        false => post_legacy(state, &http_request, &message).await,
    }
}

fn is_modern_request(state: &HttpState, http_request: &HttpRequest, message: &Value) -> bool {
    match state.server.script.era {
        Era::Legacy => false,
        Era::Modern => true,
        Era::Both => {
            message["method"] == "server/discover"
                || http_request.header("mcp-protocol-version").is_some_and(is_modern)
                || protocol::request_version(&message["params"]).is_some()
        }
    }
}

async fn post_modern(
    state: &Arc<HttpState>,
    http_request: &HttpRequest,
    message: &Value,
) -> Response {
    let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
        state.shared_session.receive_notification(message);
        return empty_response(StatusCode::ACCEPTED);
    };
    let params = &message["params"];
    let checked = match method {
        "initialize" => Ok(()),
        _ => header_check::check(http_request, method, params),
    };
    let admitted = checked.and_then(|()| {
        protocol::check_request(&state.server.script, Handshake::Complete, method, params)
    });
    if let Err(rpc_error) = admitted {
        response_quirks::delay(&state.server.script, method).await;
        return error_response(rpc_error.status, &rpc_error, id);
    }
    let (sender, frames) = mpsc::unbounded_channel();
    let channel = ClientChannel::Direct(sender);
    let is_stream = state.server.script.response_format == ResponseFormat::Sse
        || method == "subscriptions/listen";
    let notifications = if is_stream { channel.clone() } else { ClientChannel::discard() };
    let request =
        client_request(http_request, message, RequestEra::Modern, (channel, notifications));
    state.shared_session.start_request(request);
    stream_response(
        state,
        frames,
        if is_stream { ResponseFormat::Sse } else { ResponseFormat::Json },
    )
    .await
}

fn client_request(
    http_request: &HttpRequest,
    message: &Value,
    request_era: RequestEra,
    (channel, notifications): (ClientChannel, ClientChannel),
) -> ClientRequest {
    ClientRequest {
        id: message["id"].clone(),
        method: message["method"].as_str().unwrap_or_default().to_owned(),
        params: message["params"].clone(),
        era: request_era,
        channel,
        notifications,
        headers: http_request.headers.clone(),
    }
}

async fn stream_response(
    state: &HttpState,
    frames: mpsc::UnboundedReceiver<crate::scripted::client_channel::Frame>,
    format: ResponseFormat,
) -> Response {
    let script = &state.server.script;
    match format {
        ResponseFormat::Sse => event_stream_response(http_body::event_stream_body(
            script,
            Vec::new(),
            Source::Direct(frames),
        )),
        ResponseFormat::Json => {
            json_response(StatusCode::OK, http_body::json_body(script, frames).await)
        }
    }
}

async fn post_legacy(
    state: &Arc<HttpState>,
    http_request: &HttpRequest,
    message: &Value,
) -> Response {
    let id = message.get("id").cloned().unwrap_or(Value::Null);
    if let Some(version) = http_request.header("mcp-protocol-version")
        && !state.server.script.legacy_versions().contains(&version)
    {
        response_quirks::delay(&state.server.script, http_request.rpc_method()).await;
        let message = format!("Bad Request: unsupported protocol version `{version}`");
        return error_response(400, &RpcError::new(-32000, message), &id);
    }
    if state.server.script.sessions == SessionMode::None {
        return post_stateless(state, http_request, message).await;
    }
    let (name, session) = if message["method"] == "initialize" {
        open_session(state)
    } else {
        match find_session(state, http_request) {
            Ok(found) => found,
            Err((status, rpc_error)) => {
                response_quirks::delay(&state.server.script, http_request.rpc_method()).await;
                return error_response(status, &rpc_error, &id);
            }
        }
    };
    let (Some(method), false) = (message["method"].as_str(), id.is_null()) else {
        session.session.receive_notification(message);
        return empty_response(StatusCode::ACCEPTED);
    };
    let initialized = session.session.initialized();
    let response = match protocol::check_request(
        &state.server.script,
        initialized,
        method,
        &message["params"],
    ) {
        Ok(request_era) => {
            respond_in_session(state, &session, (http_request, message), request_era).await
        }
        Err(rpc_error) => {
            response_quirks::delay(&state.server.script, method).await;
            error_response(rpc_error.status, &rpc_error, &id)
        }
    };
    match method {
        "initialize" => with_header(response, SESSION_HEADER, &name),
        _ => response,
    }
}

/// All clients share one session that is always initialized.
async fn post_stateless(
    state: &Arc<HttpState>,
    http_request: &HttpRequest,
    message: &Value,
) -> Response {
    let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
        state.shared_session.receive_notification(message);
        return empty_response(StatusCode::ACCEPTED);
    };
    match protocol::check_request(
        &state.server.script,
        Handshake::Complete,
        method,
        &message["params"],
    ) {
        Ok(request_era) => {
            let (sender, frames) = mpsc::unbounded_channel();
            let channel = ClientChannel::Direct(sender);
            let notifications = match state.server.script.response_format {
                ResponseFormat::Sse => channel.clone(),
                ResponseFormat::Json => ClientChannel::discard(),
            };
            state.shared_session.start_request(client_request(
                http_request,
                message,
                request_era,
                (channel, notifications),
            ));
            stream_response(state, frames, state.server.script.response_format).await
        }
        Err(rpc_error) => {
            response_quirks::delay(&state.server.script, method).await;
            error_response(rpc_error.status, &rpc_error, id)
        }
    }
}

async fn respond_in_session(
    state: &HttpState,
    session: &HttpSession,
    (http_request, message): (&HttpRequest, &Value),
    request_era: RequestEra,
) -> Response {
    let script = &state.server.script;
    let standalone = session.session.standalone().clone();
    match script.response_format {
        ResponseFormat::Json => {
            let (sender, frames) = mpsc::unbounded_channel();
            let channel = ClientChannel::Direct(sender);
            let request = client_request(http_request, message, request_era, (channel, standalone));
            session.session.start_request(request);
            stream_response(state, frames, ResponseFormat::Json).await
        }
        ResponseFormat::Sse => {
            let replay_buffer = ReplayBuffer::new(format!("answer-{}", state.server.next_id()));
            let mut streams = session.streams.lock().expect("no holder of the lock panics");
            streams.insert(replay_buffer.name.clone(), Arc::clone(&replay_buffer));
            drop(streams);
            let channel = ClientChannel::Replayable(Arc::clone(&replay_buffer));
            let request =
                client_request(http_request, message, request_era, (channel.clone(), channel));
            let priming = priming_event(http_request, &replay_buffer.name);
            session.session.start_request(request);
            event_stream_response(http_body::event_stream_body(
                script,
                priming,
                Source::Replayed(replay_buffer.read_new()),
            ))
        }
    }
}

/// From 2025-11-25 on, a stream starts with an event that has only an id, so that it can be resumed.
fn priming_event(http_request: &HttpRequest, stream: &str) -> Vec<u8> {
    match http_request.header("mcp-protocol-version") {
        Some(version) if version >= "2025-11-25" => {
            format!("id: {stream}/0\nretry: 10\ndata:\n\n").into_bytes()
        }
        Some(_) | None => Vec::new(),
    }
}

fn open_session(state: &Arc<HttpState>) -> (String, Arc<HttpSession>) {
    let name = format!("session-{}-{}", std::process::id(), state.server.next_id());
    let replay_buffer = ReplayBuffer::new("standing".to_owned());
    let standalone = ClientChannel::Replayable(Arc::clone(&replay_buffer));
    let session = Arc::new(HttpSession {
        session: ClientSession::new(&state.server, standalone, Handshake::Pending),
        streams: Mutex::new(HashMap::from([(replay_buffer.name.clone(), replay_buffer)])),
        requests: AtomicUsize::new(0),
    });
    let mut sessions = state.sessions.lock().expect("no holder of the lock panics");
    sessions.insert(name.clone(), Arc::clone(&session));
    (name, session)
}

/// The session that a request names, unless it was dropped.
fn find_session(
    state: &HttpState,
    http_request: &HttpRequest,
) -> Result<(String, Arc<HttpSession>), (u16, RpcError)> {
    let Some(name) = http_request.header(SESSION_HEADER) else {
        let message = "Bad Request: Mcp-Session-Id header is required";
        return Err((400, RpcError::new(-32000, message)));
    };
    let mut sessions = state.sessions.lock().expect("no holder of the lock panics");
    let gone = || (404, RpcError::new(-32001, "Session not found"));
    let session = sessions.get(name).cloned().ok_or_else(gone)?;
    let limit = state.server.script.find_quirk(|quirk| {
        if let Quirk::DropsSession { after } = quirk { Some(*after) } else { None }
    });
    if http_request.is_method("POST")
        && limit.is_some_and(|it| session.requests.fetch_add(1, Ordering::Relaxed) >= it)
    {
        session.close_streams();
        sessions.remove(name);
        return Err(gone());
    }
    Ok((name.to_owned(), session))
}

fn open_get_stream(state: &HttpState, http_request: &HttpRequest) -> Response {
    let script = &state.server.script;
    if script.era == Era::Modern || script.sessions == SessionMode::None {
        return empty_response(StatusCode::METHOD_NOT_ALLOWED);
    }
    if !http_request.header("accept").is_some_and(|it| it.contains("text/event-stream")) {
        return empty_response(StatusCode::NOT_ACCEPTABLE);
    }
    let session = match find_session(state, http_request) {
        Ok((_, session)) => session,
        Err((status, rpc_error)) => return error_response(status, &rpc_error, &Value::Null),
    };
    let streams = session.streams.lock().expect("no holder of the lock panics");
    let reader = match http_request.header("last-event-id") {
        None => streams["standing"].read_new(),
        Some(last) => {
            let position = last.rsplit_once('/').and_then(|(name, number)| {
                Some((streams.get(name)?, number.parse::<usize>().ok()?))
            });
            let Some((replay_buffer, number)) = position else {
                return error_response(
                    400,
                    &RpcError::new(-32000, "unknown event id"),
                    &Value::Null,
                );
            };
            replay_buffer.read_after(number)
        }
    };
    event_stream_response(http_body::event_stream_body(
        script,
        b": open\n\n".to_vec(),
        Source::Replayed(reader),
    ))
}

fn end_session(state: &HttpState, http_request: &HttpRequest) -> Response {
    if state.server.script.era == Era::Modern || state.server.script.sessions == SessionMode::None {
        return empty_response(StatusCode::METHOD_NOT_ALLOWED);
    }
    match find_session(state, http_request) {
        Ok((name, session)) => {
            session.close_streams();
            state.sessions.lock().expect("no holder of the lock panics").remove(&name);
            empty_response(StatusCode::OK)
        }
        Err((status, rpc_error)) => error_response(status, &rpc_error, &Value::Null),
    }
}

/// The response to a rejected request.
fn error_response(status: u16, rpc_error: &RpcError, id: &Value) -> Response {
    let code = StatusCode::from_u16(status).expect("these statuses are valid");
    let body = match rpc_error.code {
        -32001 => {
            json!({"jsonrpc": "2.0", "id": null, "error": rpc_error.to_response(id)["error"]})
        }
        _ => rpc_error.to_response(id),
    };
    json_response(code, Body::from(body.to_string()))
}
