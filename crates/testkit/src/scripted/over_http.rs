//! Streamable HTTP: sessions, standing streams and replay in the legacy era, checked headers in the modern one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::actor::AfterMessage;
use super::carried::{
    HttpRequest, HttpState, empty_response, event_stream_response, json_response, with_header,
};
use super::conversation::{ClientRequest, ClientSession};
use super::eras::{self, Initialized, RequestEra, RpcError};
use super::event_stream::{self, Source};
use super::mischief;
use super::outlet::{ClientChannel, ReplayBuffer};
use crate::quirk::Quirk;
use crate::script::{Era, ResponseFormat, SessionMode, is_modern};

mod header_rules;

const SESSION_HEADER: &str = "mcp-session-id";

/// A session of the legacy era.
#[derive(Debug)]
pub struct HttpSession {
    pub session: Arc<ClientSession>,
    /// Streams by name, for those who missed something.
    streams: Mutex<HashMap<String, Arc<ReplayBuffer>>>,
    requests: AtomicUsize,
}

/// Answers a request.
pub async fn handle(house: &Arc<HttpState>, arrived: HttpRequest) -> Response {
    if arrived.parts.uri.path() != "/mcp" {
        return empty_response(StatusCode::NOT_FOUND);
    }
    match arrived.parts.method.as_str() {
        "POST" => post(house, arrived).await,
        "GET" => open_get_stream(house, &arrived),
        "DELETE" => end_session(house, &arrived),
        _ => empty_response(StatusCode::METHOD_NOT_ALLOWED),
    }
}

async fn post(house: &Arc<HttpState>, arrived: HttpRequest) -> Response {
    let accepts = arrived.header("accept").unwrap_or_default();
    if !(accepts.contains("application/json") && accepts.contains("text/event-stream")) {
        return empty_response(StatusCode::NOT_ACCEPTABLE);
    }
    if !arrived.header("content-type").is_some_and(|it| it.starts_with("application/json")) {
        return empty_response(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let message = match &arrived.body {
        Some(message) if message.is_object() => message.clone(),
        Some(_) => {
            return error_response(
                400,
                &RpcError::new(-32600, "one message at a time"),
                &Value::Null,
            );
        }
        None => {
            return error_response(400, &RpcError::new(-32700, "this is no JSON"), &Value::Null);
        }
    };
    if house.server.receive(&message) == AfterMessage::Disconnect {
        return event_stream_response(event_stream::broken_body());
    }
    match is_modern_request(house, &arrived, &message) {
        true => post_modern(house, &arrived, &message).await,
        false => post_legacy(house, &arrived, &message).await,
    }
}

fn is_modern_request(house: &HttpState, arrived: &HttpRequest, message: &Value) -> bool {
    match house.server.script.era {
        Era::Legacy => false,
        Era::Modern => true,
        Era::Both => {
            message["method"] == "server/discover"
                || arrived.header("mcp-protocol-version").is_some_and(is_modern)
                || eras::request_version(&message["params"]).is_some()
        }
    }
}

async fn post_modern(house: &Arc<HttpState>, arrived: &HttpRequest, message: &Value) -> Response {
    let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
        house.shared_session.receive_notification(message);
        return empty_response(StatusCode::ACCEPTED);
    };
    let params = &message["params"];
    let checked = match method {
        "initialize" => Ok(()),
        _ => header_rules::check(arrived, method, params),
    };
    let admitted = checked
        .and_then(|()| eras::check_request(&house.server.script, Initialized::Yes, method, params));
    if let Err(trouble) = admitted {
        mischief::delay(&house.server.script, method).await;
        return error_response(trouble.status, &trouble, id);
    }
    let (sender, frames) = mpsc::unbounded_channel();
    let outlet = ClientChannel::Direct(sender);
    let is_stream = house.server.script.response_format == ResponseFormat::Sse
        || method == "subscriptions/listen";
    let aside = if is_stream { outlet.clone() } else { ClientChannel::discard() };
    let asked = client_request(arrived, message, RequestEra::Modern, (outlet, aside));
    house.shared_session.start_request(asked);
    stream_response(
        house,
        frames,
        if is_stream { ResponseFormat::Sse } else { ResponseFormat::Json },
    )
    .await
}

fn client_request(
    arrived: &HttpRequest,
    message: &Value,
    dialect: RequestEra,
    (outlet, aside): (ClientChannel, ClientChannel),
) -> ClientRequest {
    ClientRequest {
        id: message["id"].clone(),
        method: message["method"].as_str().unwrap_or_default().to_owned(),
        params: message["params"].clone(),
        era: dialect,
        channel: outlet,
        notifications: aside,
        headers: arrived.headers.clone(),
    }
}

async fn stream_response(
    house: &HttpState,
    frames: mpsc::UnboundedReceiver<super::outlet::Frame>,
    answers: ResponseFormat,
) -> Response {
    let script = &house.server.script;
    match answers {
        ResponseFormat::Sse => event_stream_response(event_stream::event_stream_body(
            script,
            Vec::new(),
            Source::Direct(frames),
        )),
        ResponseFormat::Json => {
            json_response(StatusCode::OK, event_stream::json_body(script, frames).await)
        }
    }
}

async fn post_legacy(house: &Arc<HttpState>, arrived: &HttpRequest, message: &Value) -> Response {
    let id = message.get("id").cloned().unwrap_or(Value::Null);
    if let Some(version) = arrived.header("mcp-protocol-version")
        && !house.server.script.legacy_versions().contains(&version)
    {
        mischief::delay(&house.server.script, arrived.rpc_method()).await;
        let message = format!("Bad Request: unsupported protocol version `{version}`");
        return error_response(400, &RpcError::new(-32000, message), &id);
    }
    if house.server.script.sessions == SessionMode::None {
        return post_stateless(house, arrived, message).await;
    }
    let (name, session) = if message["method"] == "initialize" {
        open_session(house)
    } else {
        match find_session(house, arrived) {
            Ok(found) => found,
            Err((status, trouble)) => {
                mischief::delay(&house.server.script, arrived.rpc_method()).await;
                return error_response(status, &trouble, &id);
            }
        }
    };
    let (Some(method), false) = (message["method"].as_str(), id.is_null()) else {
        session.session.receive_notification(message);
        return empty_response(StatusCode::ACCEPTED);
    };
    let opened = session.session.initialized();
    let response =
        match eras::check_request(&house.server.script, opened, method, &message["params"]) {
            Ok(dialect) => respond_in_session(house, &session, (arrived, message), dialect).await,
            Err(trouble) => {
                mischief::delay(&house.server.script, method).await;
                error_response(trouble.status, &trouble, &id)
            }
        };
    match method {
        "initialize" => with_header(response, SESSION_HEADER, &name),
        _ => response,
    }
}

/// Everybody shares one conversation, which was open before anybody came.
async fn post_stateless(
    house: &Arc<HttpState>,
    arrived: &HttpRequest,
    message: &Value,
) -> Response {
    let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
        house.shared_session.receive_notification(message);
        return empty_response(StatusCode::ACCEPTED);
    };
    match eras::check_request(&house.server.script, Initialized::Yes, method, &message["params"]) {
        Ok(dialect) => {
            let (sender, frames) = mpsc::unbounded_channel();
            let outlet = ClientChannel::Direct(sender);
            let aside = match house.server.script.response_format {
                ResponseFormat::Sse => outlet.clone(),
                ResponseFormat::Json => ClientChannel::discard(),
            };
            house.shared_session.start_request(client_request(
                arrived,
                message,
                dialect,
                (outlet, aside),
            ));
            stream_response(house, frames, house.server.script.response_format).await
        }
        Err(trouble) => {
            mischief::delay(&house.server.script, method).await;
            error_response(trouble.status, &trouble, id)
        }
    }
}

async fn respond_in_session(
    house: &HttpState,
    session: &HttpSession,
    (arrived, message): (&HttpRequest, &Value),
    dialect: RequestEra,
) -> Response {
    let script = &house.server.script;
    let standing = session.session.standalone().clone();
    match script.response_format {
        ResponseFormat::Json => {
            let (sender, frames) = mpsc::unbounded_channel();
            let outlet = ClientChannel::Direct(sender);
            let asked = client_request(arrived, message, dialect, (outlet, standing));
            session.session.start_request(asked);
            stream_response(house, frames, ResponseFormat::Json).await
        }
        ResponseFormat::Sse => {
            let mailbox = ReplayBuffer::new(format!("answer-{}", house.server.next_id()));
            let mut streams = session.streams.lock().expect("nobody panics with it");
            streams.insert(mailbox.name.clone(), Arc::clone(&mailbox));
            drop(streams);
            let outlet = ClientChannel::Replayable(Arc::clone(&mailbox));
            let asked = client_request(arrived, message, dialect, (outlet.clone(), outlet));
            let priming = priming_event(arrived, &mailbox.name);
            session.session.start_request(asked);
            event_stream_response(event_stream::event_stream_body(
                script,
                priming,
                Source::Replayed(mailbox.read_new()),
            ))
        }
    }
}

/// From 2025-11-25 on, a stream starts with an event that has an id and nothing else, so that it can be resumed.
fn priming_event(arrived: &HttpRequest, stream: &str) -> Vec<u8> {
    match arrived.header("mcp-protocol-version") {
        Some(version) if version >= "2025-11-25" => {
            format!("id: {stream}/0\nretry: 10\ndata:\n\n").into_bytes()
        }
        Some(_) | None => Vec::new(),
    }
}

fn open_session(house: &Arc<HttpState>) -> (String, Arc<HttpSession>) {
    let name = format!("session-{}-{}", std::process::id(), house.server.next_id());
    let mailbox = ReplayBuffer::new("standing".to_owned());
    let standing = ClientChannel::Replayable(Arc::clone(&mailbox));
    let session = Arc::new(HttpSession {
        session: ClientSession::new(&house.server, standing, Initialized::NotYet),
        streams: Mutex::new(HashMap::from([(mailbox.name.clone(), mailbox)])),
        requests: AtomicUsize::new(0),
    });
    let mut sessions = house.sessions.lock().expect("nobody panics with it");
    sessions.insert(name.clone(), Arc::clone(&session));
    (name, session)
}

/// The session that a request names, unless it is forgotten.
fn find_session(
    house: &HttpState,
    arrived: &HttpRequest,
) -> Result<(String, Arc<HttpSession>), (u16, RpcError)> {
    let Some(name) = arrived.header(SESSION_HEADER) else {
        let message = "Bad Request: Mcp-Session-Id header is required";
        return Err((400, RpcError::new(-32000, message)));
    };
    let mut sessions = house.sessions.lock().expect("nobody panics with it");
    let gone = || (404, RpcError::new(-32001, "Session not found"));
    let session = sessions.get(name).cloned().ok_or_else(gone)?;
    let limit = house.server.script.find_quirk(|quirk| {
        if let Quirk::DropsSession { after } = quirk { Some(*after) } else { None }
    });
    if arrived.is_method("POST")
        && limit.is_some_and(|it| session.requests.fetch_add(1, Ordering::Relaxed) >= it)
    {
        session.close_streams();
        sessions.remove(name);
        return Err(gone());
    }
    Ok((name.to_owned(), session))
}

impl HttpSession {
    /// A session whose only stream is the conversation's own.
    pub fn with_single_stream(session: Arc<ClientSession>) -> HttpSession {
        HttpSession { session, streams: Mutex::default(), requests: AtomicUsize::new(0) }
    }

    /// Ends all streams.
    fn close_streams(&self) {
        for mailbox in self.streams.lock().expect("nobody panics with it").values() {
            mailbox.close();
        }
    }
}

fn open_get_stream(house: &HttpState, arrived: &HttpRequest) -> Response {
    let script = &house.server.script;
    if script.era == Era::Modern || script.sessions == SessionMode::None {
        return empty_response(StatusCode::METHOD_NOT_ALLOWED);
    }
    if !arrived.header("accept").is_some_and(|it| it.contains("text/event-stream")) {
        return empty_response(StatusCode::NOT_ACCEPTABLE);
    }
    let session = match find_session(house, arrived) {
        Ok((_, session)) => session,
        Err((status, trouble)) => return error_response(status, &trouble, &Value::Null),
    };
    let streams = session.streams.lock().expect("nobody panics with it");
    let reader = match arrived.header("last-event-id") {
        None => streams["standing"].read_new(),
        Some(last) => {
            let place = last.rsplit_once('/').and_then(|(name, number)| {
                Some((streams.get(name)?, number.parse::<usize>().ok()?))
            });
            let Some((mailbox, number)) = place else {
                return error_response(
                    400,
                    &RpcError::new(-32000, "unknown event id"),
                    &Value::Null,
                );
            };
            mailbox.read_after(number)
        }
    };
    event_stream_response(event_stream::event_stream_body(
        script,
        b": open\n\n".to_vec(),
        Source::Replayed(reader),
    ))
}

fn end_session(house: &HttpState, arrived: &HttpRequest) -> Response {
    if house.server.script.era == Era::Modern || house.server.script.sessions == SessionMode::None {
        return empty_response(StatusCode::METHOD_NOT_ALLOWED);
    }
    match find_session(house, arrived) {
        Ok((name, session)) => {
            session.close_streams();
            house.sessions.lock().expect("nobody panics with it").remove(&name);
            empty_response(StatusCode::OK)
        }
        Err((status, trouble)) => error_response(status, &trouble, &Value::Null),
    }
}

/// A request that was not let in.
fn error_response(status: u16, trouble: &RpcError, id: &Value) -> Response {
    let code = StatusCode::from_u16(status).expect("these are real statuses");
    let answer = match trouble.code {
        -32001 => json!({"jsonrpc": "2.0", "id": null, "error": trouble.to_response(id)["error"]}),
        _ => trouble.to_response(id),
    };
    json_response(code, Body::from(answer.to_string()))
}
