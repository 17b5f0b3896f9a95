//! One request that speaks the protocol, in either era: what may come in, how it is answered, and when an answer
//! becomes a stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{future, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use switchboard_wire::asked::{self, Members, Meta};
use switchboard_wire::era::Era;
use switchboard_wire::message::{self, Id, Message, Messages, Payload, RemoteError};
use switchboard_wire::reception::{self, Reception, input_required};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::body::Body;
use super::legacy_session::{Session, SessionOutlet, Work};
use super::pulse::Pulse;
use super::responses::{
    accepted, answer, breath, error_to, event, events, json as json_response, refused, written,
};
use super::{HttpFront, told as said};
use crate::gateway::Gateway;
use crate::guest::Guest;
use crate::hearing::Listening;
use crate::relay::{Asked, Origin, object};
use crate::trace_context;
use crate::turn::{Outcome, Step, Turn};
use crate::visiting::{self, Visit};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How long the body of a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(60);
/// How often a stream on which nothing happens is kept open.
const BREATH: Duration = Duration::from_secs(25);
/// How many messages may wait to be sent.
const NOTES: usize = 256;
/// How many messages a batch may have.
const BATCH: usize = 100;

/// A question as it came.
struct Question {
    id: Id,
    method: std::borrow::Cow<'static, str>,
    params: Option<Payload>,
}

impl HttpFront {
    pub(super) async fn posted(
        &self,
        request: Request<Incoming>,
        principal: Arc<str>,
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        if let Err(response) = acceptable(&head.headers) {
            return *response;
        }
        let bytes = match arrived(body, self.door.largest_request).await {
            Ok(bytes) => bytes,
            Err(response) => return *response,
        };
        let session = match self.session(&head.headers, &principal) {
            Ok(session) => session,
            Err(response) => return *response,
        };
        match (message::parse(&bytes), session) {
            (Ok(Messages::One(message)), Some(session)) => {
                self.of_session(session, message, &head.headers).await
            }
            (Ok(Messages::One(message)), None) => {
                self.of_nobody(message, &head.headers, principal).await
            }
            (Ok(Messages::Batch(parts)), Some(session)) if asked::has_batches(&session.version) => {
                Box::pin(self.batched(&session, parts)).await
            }
            (Ok(Messages::Batch(_)), _) => {
                refused(StatusCode::BAD_REQUEST, "batches are not spoken in this version")
            }
            (Err(malformed), _) => {
                let error =
                    RemoteError { code: -32700, message: malformed.to_string(), data: None };
                error_to(None, error, StatusCode::BAD_REQUEST)
            }
        }
    }

    /// The session that a request names; none where it names none.
    fn session(
        &self,
        headers: &HeaderMap,
        principal: &str,
    ) -> Result<Option<Arc<Session>>, Box<Response<Body>>> {
        let Some(id) = headers.get(SESSION) else { return Ok(None) };
        let session = id.to_str().ok().and_then(|id| self.lobby.find(id, principal));
        let Some(session) = session else {
            let text = "there is no such session; begin anew with `initialize`";
            return Err(Box::new(refused(StatusCode::NOT_FOUND, text)));
        };
        let version = headers.get(VERSION).map(|it| it.to_str().unwrap_or_default());
        if version.is_some_and(|it| !asked::is_legacy_version(it)) {
            let text = "MCP-Protocol-Version: this version is not spoken in a session";
            return Err(Box::new(refused(StatusCode::BAD_REQUEST, text)));
        }
        session.touch();
        Ok(Some(session))
    }

    async fn of_session(
        &self,
        session: Arc<Session>,
        message: Message,
        headers: &HeaderMap,
    ) -> Response<Body> {
        let question = match message {
            Message::Request { id, method, params } => Question { id, method, params },
            Message::Notification { method, params } => {
                Box::pin(self.hear(&session, &method, params.as_ref())).await;
                return accepted();
            }
            Message::Answer { id, outcome } => {
                if let Some(id) = id {
                    session.answered(id, outcome).await;
                }
                return accepted();
            }
        };
        self.asked_in_session(session, question, headers).await
    }

    async fn asked_in_session(
        &self,
        session: Arc<Session>,
        question: Question,
        headers: &HeaderMap,
    ) -> Response<Body> {
        let Question { id, method, params } = question;
        let (params, mut meta) = match read(params.as_ref()) {
            Ok(read) => read,
            Err(error) => return error_to(Some(id), error, StatusCode::BAD_REQUEST),
        };
        trace_context::adopt(&mut meta, headers);
        match of_the_session_itself(&session, &method, &params).await {
            Some(outcome) => answer(id, outcome, StatusCode::OK),
            None => {
                let (say, notes) = mpsc::channel(NOTES);
                let outlet = Arc::new(SessionOutlet { session: Arc::downgrade(&session), say });
                let (guest, origin) = (session.guest.clone(), Origin::of(id.clone()));
                let asked = Asked { guest, method, params, meta, outlet, origin };
                let relay = self.gateway.relay.clone();
                let work: Work = Box::pin(async move { relay.answer(asked).await });
                worked(&session, &self.pulse, (id, work), notes).await
            }
        }
    }

    /// A request without a session: the beginning of one, or a modern one.
    async fn of_nobody(
        &self,
        message: Message,
        headers: &HeaderMap,
        principal: Arc<str>,
    ) -> Response<Body> {
        let question = match message {
            Message::Request { id, method, params } => Question { id, method, params },
            // Without a session there is nobody that it could be said to.
            Message::Notification { .. } | Message::Answer { .. } => return accepted(),
        };
        let (params, mut meta) = match read(question.params.as_ref()) {
            Ok(read) => read,
            Err(error) => return error_to(Some(question.id), error, StatusCode::BAD_REQUEST),
        };
        trace_context::adopt(&mut meta, headers);
        let is_modern = meta.version.is_some()
            || asked::names_modern(headers)
            || question.method == "server/discover";
        match (is_modern, &*question.method) {
            (true, _) => self.visited(question, (params, meta), headers, principal).await,
            (false, "initialize") => self.initialized(question.id, &params, principal).await,
            (false, _) => {
                let error = reception::invalid("a session is missing: `initialize` comes first");
                error_to(Some(question.id), error, StatusCode::BAD_REQUEST)
            }
        }
    }

    async fn initialized(&self, id: Id, params: &Members, principal: Arc<str>) -> Response<Body> {
        let guest = Guest::new(principal, Era::Legacy, params.get("capabilities"));
        let identity = self.gateway.relay.identity(Era::Legacy, &guest.principal);
        let mut reception = Reception::new(identity);
        let said = reception.initialize(&params.written().decode().unwrap_or_default());
        let version = said["protocolVersion"].as_str().unwrap_or_default().to_owned();
        let Some(session) = self.lobby.open(Arc::new(guest), &version).await else {
            return refused(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions");
        };
        let outcome = Ok(object(&said));
        let mut response = answer(id, outcome, StatusCode::OK);
        if let Ok(value) = HeaderValue::from_str(&session.id) {
            response.headers_mut().insert(SESSION, value);
        }
        response
    }

    async fn visited(
        &self,
        question: Question,
        (params, meta): (Members, Meta),
        headers: &HeaderMap,
        principal: Arc<str>,
    ) -> Response<Body> {
        let Question { id, method, .. } = question;
        let admitted = asked::check_version(headers, &meta)
            .and_then(|()| meta.admit_modern())
            .and_then(|()| asked::check_headers(headers, &method, &params))
            .and_then(|()| self.check_mirrored(&method, &params, headers));
        if let Err(error) = admitted {
            return error_to(Some(id), error, StatusCode::BAD_REQUEST);
        }
        let guest = visiting::guest(principal, &meta);
        let visit = Visit { guest, method, params, meta, id: id.clone() };
        match &*visit.method {
            "subscriptions/listen" => self.listening(visit, id).await,
            _ => match self.gateway.visit(visit).await {
                Ok(turn) => self.turned(turn, id).await,
                Err(error) => modern_answer(id, Err(error)),
            },
        }
    }

    /// Arguments that a tool wants repeated in headers must be there, and the same.
    fn check_mirrored(
        &self,
        method: &str,
        params: &Members,
        headers: &HeaderMap,
    ) -> Result<(), RemoteError> {
        if method != "tools/call" {
            return Ok(());
        }
        let directory = self.gateway.relay.served();
        let tool = params.text("name").and_then(|it| directory.tools.get(&it).cloned());
        let Some(tool) = tool.filter(|it| !it.mirror.is_empty()) else { return Ok(()) };
        let none = Payload::from_json(Bytes::from_static(b"{}"));
        tool.mirror.check(params.get("arguments").unwrap_or(&none), headers)
    }

    async fn turned(&self, mut turn: Turn, id: Id) -> Response<Body> {
        let first = tokio::select! {
            biased;
            step = turn.next() => match step {
                Step::Told(message) => Some(message),
                Step::Asked(requests) => {
                    let outcome = parked(&self.gateway, turn, &requests).await;
                    return modern_answer(id, outcome);
                }
                Step::Done(outcome) => return modern_answer(id, outcome),
            },
            // The client is to see that somebody is there.
            () = self.pulse.a_while() => None,
        };
        let telling = Telling { gateway: self.gateway.clone(), turn: Some(turn), id, first };
        let made = stream::unfold(telling, |mut telling| async move {
            let bytes = telling.next().await?;
            Some((bytes, telling))
        });
        events(Body::Made(Box::pin(made)))
    }

    async fn listening(&self, visit: Visit, id: Id) -> Response<Body> {
        let begun = Listening::begin(&self.gateway.relay, &visit.guest, &id, &visit.params).await;
        let (listening, first) = match begun {
            Ok(begun) => begun,
            Err(error) => return modern_answer(id, Err(error)),
        };
        let ending = self.ending.clone();
        let told = VecDeque::from([event(None, &first)]);
        let made = stream::unfold(
            (listening, told, Some(id)),
            move |(mut listening, mut told, mut id)| {
                let mut ending = ending.clone();
                async move {
                    if told.is_empty() {
                        let question = id.clone()?;
                        tokio::select! {
                            more = listening.next() => match more {
                                Some(more) => told.extend(more.iter().map(|it| event(None, it))),
                                None => id = None,
                            },
                            () = said(&mut ending) => id = None,
                            () = sleep(BREATH) => told.push_back(breath()),
                        }
                        if id.is_none() {
                            let last =
                                Message::Answer { id: Some(question), outcome: listening.over() };
                            told.push_back(event(None, &last));
                        }
                    }
                    let bytes = told.pop_front()?;
                    Some((bytes, (listening, told, id)))
                }
            },
        );
        events(Body::Made(Box::pin(made)))
    }

    pub(super) async fn opened_stream(
        &self,
        request: &Request<Incoming>,
        principal: &Arc<str>,
    ) -> Response<Body> {
        let headers = request.headers();
        if !accepts(headers, "text/event-stream") {
            return refused(StatusCode::NOT_ACCEPTABLE, "Accept: text/event-stream is missing");
        }
        let session = match self.session(headers, principal) {
            Ok(Some(session)) => session,
            Ok(None) => {
                // Modern clients have no such stream, and others begin with `initialize`.
                return refused(StatusCode::METHOD_NOT_ALLOWED, "a stream belongs to a session");
            }
            Err(response) => return *response,
        };
        let last = headers.get(LAST_EVENT).and_then(|it| it.to_str().ok());
        let stream = match last {
            Some(last) => session.resume(last.to_owned()).await,
            None => session.stand().await,
        };
        match stream {
            Some(stream) => events(Body::Sent(stream)),
            None => refused(StatusCode::NOT_FOUND, "there is no such event any more"),
        }
    }

    pub(super) async fn ended_session(
        &self,
        request: &Request<Incoming>,
        principal: &Arc<str>,
    ) -> Response<Body> {
        match self.session(request.headers(), principal) {
            Ok(Some(session)) => {
                self.lobby.close(&session);
                json_response(StatusCode::OK, Bytes::from_static(b"{}"))
            }
            Ok(None) => refused(StatusCode::BAD_REQUEST, "Mcp-Session-Id is missing"),
            Err(response) => *response,
        }
    }

    async fn hear(&self, session: &Session, method: &str, params: Option<&Payload>) {
        match method {
            "notifications/cancelled" => {
                let params = Members::read(params).unwrap_or_default();
                if let Some(id) = params.get("requestId").and_then(|it| it.decode().ok()) {
                    session.cancel(Id::from_json(&id)).await;
                }
            }
            "notifications/roots/list_changed" => {
                if let Some(lane) = self.gateway.relay.served().own_lane(&session.guest) {
                    self.gateway.relay.host.roots_changed(Some(&lane)).await;
                }
            }
            _ => {}
        }
    }

    /// Questions of a batch are answered side by side, and together. Nothing can be asked or said meanwhile.
    async fn batched(
        &self,
        session: &Arc<Session>,
        parts: Vec<Result<Message, message::Malformed>>,
    ) -> Response<Body> {
        if parts.len() > BATCH {
            return refused(StatusCode::BAD_REQUEST, "the batch is too large");
        }
        let mut questions = Vec::new();
        for part in parts {
            match part {
                Ok(Message::Request { id, method, params }) => {
                    questions.push(self.answered_alone(session, Question { id, method, params }));
                }
                Ok(Message::Notification { method, params }) => {
                    self.hear(session, &method, params.as_ref()).await;
                }
                Ok(Message::Answer { id, outcome }) => {
                    if let Some(id) = id {
                        session.answered(id, outcome).await;
                    }
                }
                Err(_) => return refused(StatusCode::BAD_REQUEST, "the batch holds no message"),
            }
        }
        if questions.is_empty() {
            return accepted();
        }
        let answers = future::join_all(questions).await;
        let mut text = b"[".to_vec();
        for (at, answer) in answers.iter().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            text.extend_from_slice(&written(answer));
        }
        text.push(b']');
        json_response(StatusCode::OK, text.into())
    }

    async fn answered_alone(&self, session: &Arc<Session>, question: Question) -> Message {
        let Question { id, method, params } = question;
        let outcome = match read(params.as_ref()) {
            Err(error) => Err(error),
            Ok((params, meta)) => {
                let itself = of_the_session_itself(session, &method, &params).await;
                match itself {
                    Some(outcome) => outcome,
                    None => {
                        let (say, _nobody_reads) = mpsc::channel(1);
                        let outlet =
                            Arc::new(SessionOutlet { session: Arc::downgrade(session), say });
                        let (guest, origin) = (session.guest.clone(), Origin::of(id.clone()));
                        let asked = Asked { guest, method, params, meta, outlet, origin };
                        self.gateway.relay.answer(asked).await
                    }
                }
            }
        };
        Message::Answer { id: Some(id), outcome }
    }
}

/// What a session answers itself.
async fn of_the_session_itself(
    session: &Session,
    method: &str,
    params: &Members,
) -> Option<Outcome> {
    let nothing = || Payload::from_json(Bytes::from_static(b"{}"));
    let uri = || params.text("uri").ok_or_else(|| reception::invalid("`uri` is missing"));
    match method {
        "ping" => Some(Ok(nothing())),
        "initialize" => Some(Err(reception::invalid("the session has begun already"))),
        "resources/subscribe" => Some(match uri() {
            Ok(uri) => session.follow(uri).await.map(|()| nothing()),
            Err(error) => Err(error),
        }),
        "resources/unsubscribe" => Some(match uri() {
            Ok(uri) => {
                session.forget(uri).await;
                Ok(nothing())
            }
            Err(error) => Err(error),
        }),
        _ => None,
    }
}

/// Works until the answer is there; what takes long, says or asks something goes on to a stream.
async fn worked(
    session: &Session,
    pulse: &Pulse,
    (id, mut work): (Id, Work),
    mut notes: mpsc::Receiver<Message>,
) -> Response<Body> {
    let first = tokio::select! {
        biased;
        Some(note) = notes.recv() => Some(note),
        outcome = &mut work => match notes.try_recv() {
            Err(_) => return answer(id, outcome, StatusCode::OK),
            Ok(note) => {
                work = Box::pin(async move { outcome });
                Some(note)
            }
        },
        // The client is to see that somebody is there.
        () = pulse.a_while() => None,
    };
    match session.promote(id, work, notes, first).await {
        Some(stream) => events(Body::Sent(stream)),
        None => refused(StatusCode::NOT_FOUND, "the session is over"),
    }
}

/// A modern question on its stream. Dropping it calls the question off.
struct Telling {
    gateway: Gateway,
    turn: Option<Turn>,
    id: Id,
    first: Option<Message>,
}

impl Telling {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(event(None, &first));
        }
        let turn = self.turn.as_mut()?;
        let step = tokio::select! {
            step = turn.next() => step,
            () = sleep(BREATH) => return Some(breath()),
        };
        let outcome = match step {
            Step::Told(message) => return Some(event(None, &message)),
            Step::Asked(requests) => parked(&self.gateway, self.turn.take()?, &requests).await,
            Step::Done(outcome) => {
                self.turn = None;
                outcome
            }
        };
        Some(event(None, &Message::Answer { id: Some(self.id.clone()), outcome }))
    }
}

/// The questions for the client, and the state to come back with.
async fn parked(gateway: &Gateway, turn: Turn, requests: &serde_json::Value) -> Outcome {
    let principal = turn.principal.clone();
    let state = gateway.park(turn, principal).await?;
    Ok(object(&input_required(requests, &state)))
}

fn modern_answer(id: Id, outcome: Outcome) -> Response<Body> {
    let status = match &outcome {
        Ok(_) => StatusCode::OK,
        Err(error) => StatusCode::from_u16(asked::status(error)).unwrap_or(StatusCode::OK),
    };
    answer(id, outcome, status)
}

fn read(params: Option<&Payload>) -> Result<(Members, Meta), RemoteError> {
    let params = Members::read(params);
    let mut params = params.ok_or_else(|| reception::invalid("the parameters are no object"))?;
    let meta = Meta::take(&mut params);
    Ok((params, meta.ok_or_else(|| reception::invalid("`_meta` is no object"))?))
}

/// Is the request JSON, and does its sender take both kinds of answers?
fn acceptable(headers: &HeaderMap) -> Result<(), Box<Response<Body>>> {
    // What nearly everybody says, word for word.
    const BOTH: &[u8] = b"application/json, text/event-stream";
    let says = |name, text: &[u8]| headers.get(name).is_some_and(|it| it.as_bytes() == text);
    if says(header::CONTENT_TYPE, b"application/json") && says(header::ACCEPT, BOTH) {
        return Ok(());
    }
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let text = "Content-Type: application/json is missing";
        return Err(Box::new(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)));
    }
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        let text = "Accept: application/json, text/event-stream is missing";
        return Err(Box::new(refused(StatusCode::NOT_ACCEPTABLE, text)));
    }
    Ok(())
}

fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let family = wanted.split('/').next().unwrap_or_default();
    let accepts = |kind: &str| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind == "*/*"
            || kind.eq_ignore_ascii_case(wanted)
            || kind.strip_suffix("/*").is_some_and(|it| it.eq_ignore_ascii_case(family))
    };
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    values.flat_map(|it| it.split(',')).any(accepts)
}

async fn arrived(body: Incoming, largest: usize) -> Result<Bytes, Box<Response<Body>>> {
    let refused = |status, text: &str| Box::new(refused(status, text));
    match timeout(ARRIVAL, Limited::new(body, largest).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large"))
        }
        Ok(Err(_)) => Err(refused(StatusCode::BAD_REQUEST, "the request broke off")),
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive")),
    }
}
