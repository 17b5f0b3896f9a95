//! Streamable HTTP: sessions, standing streams and replay in the legacy era, checked headers in the modern one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::actor::Alive;
use super::carried::{Arrived, House, document, status, stream, with_header};
use super::conversation::{Asked, Conversation};
use super::eras::{self, Dialect, Opened, Trouble};
use super::event_stream::{self, Source};
use super::mischief;
use super::outlet::{Mailbox, Outlet};
use crate::quirk::Quirk;
use crate::script::{Answers, Era, Sessions, is_modern};

mod header_rules;

const SESSION: &str = "mcp-session-id";

/// A session of the legacy era.
#[derive(Debug)]
pub struct Session {
    pub conversation: Arc<Conversation>,
    /// Streams by name, for those who missed something.
    streams: Mutex<HashMap<String, Arc<Mailbox>>>,
    requests: AtomicUsize,
}

/// Answers a request.
pub async fn answer(house: &Arc<House>, arrived: Arrived) -> Response {
    if arrived.parts.uri.path() != "/mcp" {
        return status(StatusCode::NOT_FOUND);
    }
    match arrived.parts.method.as_str() {
        "POST" => post(house, arrived).await,
        "GET" => get(house, &arrived),
        "DELETE" => delete(house, &arrived),
        _ => status(StatusCode::METHOD_NOT_ALLOWED),
    }
}

async fn post(house: &Arc<House>, arrived: Arrived) -> Response {
    let accepts = arrived.header("accept").unwrap_or_default();
    if !(accepts.contains("application/json") && accepts.contains("text/event-stream")) {
        return status(StatusCode::NOT_ACCEPTABLE);
    }
    if !arrived.header("content-type").is_some_and(|it| it.starts_with("application/json")) {
        return status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let message = match &arrived.body {
        Some(message) if message.is_object() => message.clone(),
        Some(_) => {
            return refusal(400, &Trouble::new(-32600, "one message at a time"), &Value::Null);
        }
        None => return refusal(400, &Trouble::new(-32700, "this is no JSON"), &Value::Null),
    };
    if house.actor.hear(&message) == Alive::No {
        return stream(event_stream::broken());
    }
    match is_in_modern_way(house, &arrived, &message) {
        true => post_modern(house, &arrived, &message).await,
        false => post_legacy(house, &arrived, &message).await,
    }
}

fn is_in_modern_way(house: &House, arrived: &Arrived, message: &Value) -> bool {
    match house.actor.script.era {
        Era::Legacy => false,
        Era::Modern => true,
        Era::Both => {
            message["method"] == "server/discover"
                || arrived.header("mcp-protocol-version").is_some_and(is_modern)
                || eras::version_in(&message["params"]).is_some()
        }
    }
}

async fn post_modern(house: &Arc<House>, arrived: &Arrived, message: &Value) -> Response {
    let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
        house.shared.note(message);
        return status(StatusCode::ACCEPTED);
    };
    let params = &message["params"];
    let checked = match method {
        "initialize" => Ok(()),
        _ => header_rules::check(arrived, method, params),
    };
    let admitted =
        checked.and_then(|()| eras::admit(&house.actor.script, Opened::Yes, method, params));
    if let Err(trouble) = admitted {
        mischief::hesitate(&house.actor.script, method).await;
        return refusal(trouble.status, &trouble, id);
    }
    let (sender, frames) = mpsc::unbounded_channel();
    let outlet = Outlet::Direct(sender);
    let is_stream = house.actor.script.answers == Answers::Sse || method == "subscriptions/listen";
    let aside = if is_stream { outlet.clone() } else { Outlet::nowhere() };
    let asked = asked(arrived, message, Dialect::Modern, (outlet, aside));
    house.shared.start(asked);
    respond(house, frames, if is_stream { Answers::Sse } else { Answers::Json }).await
}

fn asked(
    arrived: &Arrived,
    message: &Value,
    dialect: Dialect,
    (outlet, aside): (Outlet, Outlet),
) -> Asked {
    Asked {
        id: message["id"].clone(),
        method: message["method"].as_str().unwrap_or_default().to_owned(),
        params: message["params"].clone(),
        dialect,
        outlet,
        aside,
        headers: arrived.headers.clone(),
    }
}

async fn respond(
    house: &House,
    frames: mpsc::UnboundedReceiver<super::outlet::Frame>,
    answers: Answers,
) -> Response {
    let script = &house.actor.script;
    match answers {
        Answers::Sse => stream(event_stream::events(script, Vec::new(), Source::Direct(frames))),
        Answers::Json => document(StatusCode::OK, event_stream::document(script, frames).await),
    }
}

async fn post_legacy(house: &Arc<House>, arrived: &Arrived, message: &Value) -> Response {
    let id = message.get("id").cloned().unwrap_or(Value::Null);
    if let Some(version) = arrived.header("mcp-protocol-version")
        && !house.actor.script.legacy_versions().contains(&version)
    {
        mischief::hesitate(&house.actor.script, arrived.asked()).await;
        let message = format!("Bad Request: unsupported protocol version `{version}`");
        return refusal(400, &Trouble::new(-32000, message), &id);
    }
    if house.actor.script.sessions == Sessions::None {
        return post_stateless(house, arrived, message).await;
    }
    let (name, session) = if message["method"] == "initialize" {
        open(house)
    } else {
        match find(house, arrived) {
            Ok(found) => found,
            Err((status, trouble)) => {
                mischief::hesitate(&house.actor.script, arrived.asked()).await;
                return refusal(status, &trouble, &id);
            }
        }
    };
    let (Some(method), false) = (message["method"].as_str(), id.is_null()) else {
        session.conversation.note(message);
        return status(StatusCode::ACCEPTED);
    };
    let opened = session.conversation.opened();
    let response = match eras::admit(&house.actor.script, opened, method, &message["params"]) {
        Ok(dialect) => in_session(house, &session, (arrived, message), dialect).await,
        Err(trouble) => {
            mischief::hesitate(&house.actor.script, method).await;
            refusal(trouble.status, &trouble, &id)
        }
    };
    match method {
        "initialize" => with_header(response, SESSION, &name),
        _ => response,
    }
}

/// Everybody shares one conversation, which was open before anybody came.
async fn post_stateless(house: &Arc<House>, arrived: &Arrived, message: &Value) -> Response {
    let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
        house.shared.note(message);
        return status(StatusCode::ACCEPTED);
    };
    match eras::admit(&house.actor.script, Opened::Yes, method, &message["params"]) {
        Ok(dialect) => {
            let (sender, frames) = mpsc::unbounded_channel();
            let outlet = Outlet::Direct(sender);
            let aside = match house.actor.script.answers {
                Answers::Sse => outlet.clone(),
                Answers::Json => Outlet::nowhere(),
            };
            house.shared.start(asked(arrived, message, dialect, (outlet, aside)));
            respond(house, frames, house.actor.script.answers).await
        }
        Err(trouble) => {
            mischief::hesitate(&house.actor.script, method).await;
            refusal(trouble.status, &trouble, id)
        }
    }
}

async fn in_session(
    house: &House,
    session: &Session,
    (arrived, message): (&Arrived, &Value),
    dialect: Dialect,
) -> Response {
    let script = &house.actor.script;
    let standing = session.conversation.standing().clone();
    match script.answers {
        Answers::Json => {
            let (sender, frames) = mpsc::unbounded_channel();
            let outlet = Outlet::Direct(sender);
            let asked = asked(arrived, message, dialect, (outlet, standing));
            session.conversation.start(asked);
            respond(house, frames, Answers::Json).await
        }
        Answers::Sse => {
            let mailbox = Mailbox::new(format!("answer-{}", house.actor.number()));
            let mut streams = session.streams.lock().expect("nobody panics with it");
            streams.insert(mailbox.name.clone(), Arc::clone(&mailbox));
            drop(streams);
            let outlet = Outlet::Kept(Arc::clone(&mailbox));
            let asked = asked(arrived, message, dialect, (outlet.clone(), outlet));
            let priming = priming(arrived, &mailbox.name);
            session.conversation.start(asked);
            stream(event_stream::events(script, priming, Source::Kept(mailbox.unread())))
        }
    }
}

/// From 2025-11-25 on, a stream starts with an event that has an id and nothing else, so that it can be resumed.
fn priming(arrived: &Arrived, stream: &str) -> Vec<u8> {
    match arrived.header("mcp-protocol-version") {
        Some(version) if version >= "2025-11-25" => {
            format!("id: {stream}/0\nretry: 10\ndata:\n\n").into_bytes()
        }
        Some(_) | None => Vec::new(),
    }
}

fn open(house: &Arc<House>) -> (String, Arc<Session>) {
    let name = format!("session-{}-{}", std::process::id(), house.actor.number());
    let mailbox = Mailbox::new("standing".to_owned());
    let standing = Outlet::Kept(Arc::clone(&mailbox));
    let session = Arc::new(Session {
        conversation: Conversation::new(&house.actor, standing, Opened::NotYet),
        streams: Mutex::new(HashMap::from([(mailbox.name.clone(), mailbox)])),
        requests: AtomicUsize::new(0),
    });
    let mut sessions = house.sessions.lock().expect("nobody panics with it");
    sessions.insert(name.clone(), Arc::clone(&session));
    (name, session)
}

/// The session that a request names, unless it is forgotten.
fn find(house: &House, arrived: &Arrived) -> Result<(String, Arc<Session>), (u16, Trouble)> {
    let Some(name) = arrived.header(SESSION) else {
        let message = "Bad Request: Mcp-Session-Id header is required";
        return Err((400, Trouble::new(-32000, message)));
    };
    let mut sessions = house.sessions.lock().expect("nobody panics with it");
    let gone = || (404, Trouble::new(-32001, "Session not found"));
    let session = sessions.get(name).cloned().ok_or_else(gone)?;
    let limit = house.actor.script.quirk_with(|quirk| {
        if let Quirk::DropsSession { after } = quirk { Some(*after) } else { None }
    });
    if arrived.is("POST")
        && limit.is_some_and(|it| session.requests.fetch_add(1, Ordering::Relaxed) >= it)
    {
        session.forget();
        sessions.remove(name);
        return Err(gone());
    }
    Ok((name.to_owned(), session))
}

impl Session {
    /// A session whose only stream is the conversation's own.
    pub fn of(conversation: Arc<Conversation>) -> Session {
        Session { conversation, streams: Mutex::default(), requests: AtomicUsize::new(0) }
    }

    /// Ends all streams.
    fn forget(&self) {
        for mailbox in self.streams.lock().expect("nobody panics with it").values() {
            mailbox.end();
        }
    }
}

fn get(house: &House, arrived: &Arrived) -> Response {
    let script = &house.actor.script;
    if script.era == Era::Modern || script.sessions == Sessions::None {
        return status(StatusCode::METHOD_NOT_ALLOWED);
    }
    if !arrived.header("accept").is_some_and(|it| it.contains("text/event-stream")) {
        return status(StatusCode::NOT_ACCEPTABLE);
    }
    let session = match find(house, arrived) {
        Ok((_, session)) => session,
        Err((status, trouble)) => return refusal(status, &trouble, &Value::Null),
    };
    let streams = session.streams.lock().expect("nobody panics with it");
    let reader = match arrived.header("last-event-id") {
        None => streams["standing"].unread(),
        Some(last) => {
            let place = last.rsplit_once('/').and_then(|(name, number)| {
                Some((streams.get(name)?, number.parse::<usize>().ok()?))
            });
            let Some((mailbox, number)) = place else {
                return refusal(400, &Trouble::new(-32000, "unknown event id"), &Value::Null);
            };
            mailbox.after(number)
        }
    };
    stream(event_stream::events(script, b": open\n\n".to_vec(), Source::Kept(reader)))
}

fn delete(house: &House, arrived: &Arrived) -> Response {
    if house.actor.script.era == Era::Modern || house.actor.script.sessions == Sessions::None {
        return status(StatusCode::METHOD_NOT_ALLOWED);
    }
    match find(house, arrived) {
        Ok((name, session)) => {
            session.forget();
            house.sessions.lock().expect("nobody panics with it").remove(&name);
            status(StatusCode::OK)
        }
        Err((status, trouble)) => refusal(status, &trouble, &Value::Null),
    }
}

/// A request that was not let in.
fn refusal(status: u16, trouble: &Trouble, id: &Value) -> Response {
    let code = StatusCode::from_u16(status).expect("these are real statuses");
    let answer = match trouble.code {
        -32001 => json!({"jsonrpc": "2.0", "id": null, "error": trouble.answer(id)["error"]}),
        _ => trouble.answer(id),
    };
    document(code, Body::from(answer.to_string()))
}
