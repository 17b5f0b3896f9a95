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
use switchboard_wire::jsonrpc::message;
use switchboard_wire::jsonrpc::message::{Message, Messages, Payload, RequestId, RpcError};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta;
use switchboard_wire::protocol::request_meta::{RawObject, RequestMeta};
use switchboard_wire::server;
use switchboard_wire::server::{ServerSession, input_required};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::body::Body;
use super::response::{
    accepted, event_stream, json as json_response, refuse, rpc_error, rpc_response, sse_event,
    sse_keepalive, to_bytes,
};
use super::server::{HttpServer, wait_until_true as said};
use super::session::{OutcomeFuture, Session, SessionChannel};
use super::stream_delay::StreamDelay;
use crate::downstream::client::Client;
use crate::gateway::Gateway;
use crate::multi_round_trip::modern_request;
use crate::multi_round_trip::modern_request::ModernRequest;
use crate::multi_round_trip::pending::{Outcome, PendingRequest, Step};
use crate::relay::{InboundRequest, TraceOrigin, payload};
use crate::subscriptions::ListenStream;
use crate::telemetry::trace_context;

const SESSION_ID_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID_HEADER: HeaderName = HeaderName::from_static("last-event-id");

/// How long the body of a request may take to arrive.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a stream on which nothing happens is kept open.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(25);
/// How many messages may wait to be sent.
const NOTIFICATION_CAPACITY: usize = 256;
/// How many messages a batch may have.
const MAX_BATCH_MESSAGES: usize = 100;

/// A question as it came.
struct RpcRequest {
    id: RequestId,
    method: std::borrow::Cow<'static, str>,
    params: Option<Payload>,
}

impl HttpServer {
    pub(crate) async fn post(
        &self,
        request: Request<Incoming>,
        principal: Arc<str>,
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        if let Err(response) = check_content_negotiation(&head.headers) {
            return *response;
        }
        let bytes = match read_body(body, self.options.max_request_bytes).await {
            Ok(bytes) => bytes,
            Err(response) => return *response,
        };
        let session = match self.find_session(&head.headers, &principal) {
            Ok(session) => session,
            Err(response) => return *response,
        };
        match (message::parse(&bytes), session) {
            (Ok(Messages::One(message)), Some(session)) => {
                self.session_message(session, message, &head.headers).await
            }
            (Ok(Messages::One(message)), None) => {
                self.sessionless_message(message, &head.headers, principal).await
            }
            (Ok(Messages::Batch(parts)), Some(session))
                if request_meta::supports_batches(&session.protocol_version) =>
            {
                Box::pin(self.respond_to_batch(&session, parts)).await
            }
            (Ok(Messages::Batch(_)), _) => {
                refuse(StatusCode::BAD_REQUEST, "batches are not spoken in this version")
            }
            (Err(malformed), _) => {
                let error = RpcError { code: -32700, message: malformed.to_string(), data: None };
                rpc_error(None, error, StatusCode::BAD_REQUEST)
            }
        }
    }

    /// The session that a request names; none where it names none.
    fn find_session(
        &self,
        headers: &HeaderMap,
        principal: &str,
    ) -> Result<Option<Arc<Session>>, Box<Response<Body>>> {
        let Some(id) = headers.get(SESSION_ID_HEADER) else { return Ok(None) };
        let session = id.to_str().ok().and_then(|id| self.sessions.get(id, principal));
        let Some(session) = session else {
            let text = "there is no such session; begin anew with `initialize`";
            return Err(Box::new(refuse(StatusCode::NOT_FOUND, text)));
        };
        let version =
            headers.get(PROTOCOL_VERSION_HEADER).map(|it| it.to_str().unwrap_or_default());
        if version.is_some_and(|it| !request_meta::is_legacy_version(it)) {
            let text = "MCP-Protocol-Version: this version is not spoken in a session";
            return Err(Box::new(refuse(StatusCode::BAD_REQUEST, text)));
        }
        session.mark_used();
        Ok(Some(session))
    }

    async fn session_message(
        &self,
        session: Arc<Session>,
        message: Message,
        headers: &HeaderMap,
    ) -> Response<Body> {
        let rpc_request = match message {
            Message::Request { id, method, params } => RpcRequest { id, method, params },
            Message::Notification { method, params } => {
                Box::pin(self.receive_notification(&session, &method, params.as_ref())).await;
                return accepted();
            }
            Message::Response { id, outcome } => {
                if let Some(id) = id {
                    session.deliver_response(id, outcome).await;
                }
                return accepted();
            }
        };
        self.session_request(session, rpc_request, headers).await
    }

    async fn session_request(
        &self,
        session: Arc<Session>,
        rpc_request: RpcRequest,
        headers: &HeaderMap,
    ) -> Response<Body> {
        let RpcRequest { id, method, params } = rpc_request;
        let (params, mut meta) = match split_meta(params.as_ref()) {
            Ok(read) => read,
            Err(error) => return rpc_error(Some(id), error, StatusCode::BAD_REQUEST),
        };
        trace_context::merge_headers(&mut meta, headers);
        match respond_from_session(&session, &method, &params).await {
            Some(outcome) => rpc_response(id, outcome, StatusCode::OK),
            None => {
                let (sender, notifications) = mpsc::channel(NOTIFICATION_CAPACITY);
                let channel = Arc::new(SessionChannel {
                    session: Arc::downgrade(&session),
                    messages: sender,
                });
                let (client, origin) = (session.client.clone(), TraceOrigin::new(id.clone()));
                let inbound = InboundRequest { client, method, params, meta, channel, origin };
                let relay = self.gateway.relay.clone();
                let work: OutcomeFuture = Box::pin(async move { relay.respond(inbound).await });
                respond_or_stream(&session, &self.stream_delay, (id, work), notifications).await
            }
        }
    }

    /// A request without a session: the beginning of one, or a modern one.
    async fn sessionless_message(
        &self,
        message: Message,
        headers: &HeaderMap,
        principal: Arc<str>,
    ) -> Response<Body> {
        let rpc_request = match message {
            Message::Request { id, method, params } => RpcRequest { id, method, params },
            // Without a session there is nobody that it could be said to.
            Message::Notification { .. } | Message::Response { .. } => return accepted(),
        };
        let (params, mut meta) = match split_meta(rpc_request.params.as_ref()) {
            Ok(read) => read,
            Err(error) => return rpc_error(Some(rpc_request.id), error, StatusCode::BAD_REQUEST),
        };
        trace_context::merge_headers(&mut meta, headers);
        let is_modern = meta.protocol_version.is_some()
            || request_meta::has_modern_version_header(headers)
            || rpc_request.method == "server/discover";
        match (is_modern, &*rpc_request.method) {
            (true, _) => self.modern_request(rpc_request, (params, meta), headers, principal).await,
            (false, "initialize") => self.initialize(rpc_request.id, &params, principal).await,
            (false, _) => {
                let error =
                    server::invalid_params("a session is missing: `initialize` comes first");
                rpc_error(Some(rpc_request.id), error, StatusCode::BAD_REQUEST)
            }
        }
    }

    async fn initialize(
        &self,
        id: RequestId,
        params: &RawObject,
        principal: Arc<str>,
    ) -> Response<Body> {
        let client = Client::new(principal, Era::Legacy, params.get("capabilities"));
        let identity = self.gateway.relay.server_identity(Era::Legacy, &client.principal);
        let mut reception = ServerSession::new(identity);
        let said = reception.initialize(&params.to_payload().decode().unwrap_or_default());
        let version = said["protocolVersion"].as_str().unwrap_or_default().to_owned();
        let Some(session) = self.sessions.open(Arc::new(client), &version).await else {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions");
        };
        let outcome = Ok(payload(&said));
        let mut response = rpc_response(id, outcome, StatusCode::OK);
        if let Ok(value) = HeaderValue::from_str(&session.id) {
            response.headers_mut().insert(SESSION_ID_HEADER, value);
        }
        response
    }

    async fn modern_request(
        &self,
        rpc_request: RpcRequest,
        (params, meta): (RawObject, RequestMeta),
        headers: &HeaderMap,
        principal: Arc<str>,
    ) -> Response<Body> {
        let RpcRequest { id, method, .. } = rpc_request;
        let checked = request_meta::check_version_header(headers, &meta)
            .and_then(|()| meta.validate_modern())
            .and_then(|()| request_meta::check_method_headers(headers, &method, &params))
            .and_then(|()| self.check_param_headers(&method, &params, headers));
        if let Err(error) = checked {
            return rpc_error(Some(id), error, StatusCode::BAD_REQUEST);
        }
        let client = modern_request::client_from_meta(principal, &meta);
        let modern = ModernRequest { client, method, params, meta, id: id.clone() };
        match &*modern.method {
            "subscriptions/listen" => self.listen(modern, id).await,
            _ => match self.gateway.start_or_resume(modern).await {
                Ok(pending) => self.respond_modern(pending, id).await,
                Err(error) => modern_response(id, Err(error)),
            },
        }
    }

    /// Arguments that a tool wants repeated in headers must be there, and the same.
    fn check_param_headers(
        &self,
        method: &str,
        params: &RawObject,
        headers: &HeaderMap,
    ) -> Result<(), RpcError> {
        if method != "tools/call" {
            return Ok(());
        }
        let catalogue = self.gateway.relay.catalogue();
        let tool = params.get_string("name").and_then(|it| catalogue.tools.get(&it).cloned());
        let Some(tool) = tool.filter(|it| !it.param_headers.is_empty()) else { return Ok(()) };
        let none = Payload::from_json(Bytes::from_static(b"{}"));
        tool.param_headers.check(params.get("arguments").unwrap_or(&none), headers)
    }

    async fn respond_modern(&self, mut pending: PendingRequest, id: RequestId) -> Response<Body> {
        let first = tokio::select! {
            biased;
            step = pending.next() => match step {
                Step::Notification(message) => Some(message),
                Step::InputRequired(requests) => {
                    let outcome = suspend(&self.gateway, pending, &requests).await;
                    return modern_response(id, outcome);
                }
                Step::Complete(outcome) => return modern_response(id, outcome),
            },
            // The client is to see that somebody is there.
            () = self.stream_delay.wait() => None,
        };
        let modern_stream =
            ModernEventStream { gateway: self.gateway.clone(), pending: Some(pending), id, first };
        let stream_body = stream::unfold(modern_stream, |mut modern_stream| async move {
            let bytes = modern_stream.next().await?;
            Some((bytes, modern_stream))
        });
        event_stream(Body::Stream(Box::pin(stream_body)))
    }

    async fn listen(&self, modern: ModernRequest, id: RequestId) -> Response<Body> {
        let opened =
            ListenStream::open(&self.gateway.relay, &modern.client, &id, &modern.params).await;
        let (listening, first) = match opened {
            Ok(opened) => opened,
            Err(error) => return modern_response(id, Err(error)),
        };
        let shutdown = self.shutdown.clone();
        let queued = VecDeque::from([sse_event(None, &first)]);
        let stream_body = stream::unfold(
            (listening, queued, Some(id)),
            move |(mut listening, mut queued, mut id)| {
                let mut shutdown = shutdown.clone();
                async move {
                    if queued.is_empty() {
                        let rpc_request = id.clone()?;
                        tokio::select! {
                            more = listening.next() => match more {
                                Some(more) => queued.extend(more.iter().map(|it| sse_event(None, it))),
                                None => id = None,
                            },
                            () = said(&mut shutdown) => id = None,
                            () = sleep(KEEPALIVE_INTERVAL) => queued.push_back(sse_keepalive()),
                        }
                        if id.is_none() {
                            let last = Message::Response {
                                id: Some(rpc_request),
                                outcome: listening.final_result(),
                            };
                            queued.push_back(sse_event(None, &last));
                        }
                    }
                    let bytes = queued.pop_front()?;
                    Some((bytes, (listening, queued, id)))
                }
            },
        );
        event_stream(Body::Stream(Box::pin(stream_body)))
    }

    pub(crate) async fn get_stream(
        &self,
        request: &Request<Incoming>,
        principal: &Arc<str>,
    ) -> Response<Body> {
        let headers = request.headers();
        if !accepts(headers, "text/event-stream") {
            return refuse(StatusCode::NOT_ACCEPTABLE, "Accept: text/event-stream is missing");
        }
        let session = match self.find_session(headers, principal) {
            Ok(Some(session)) => session,
            Ok(None) => {
                // Modern clients have no such stream, and others begin with `initialize`.
                return refuse(StatusCode::METHOD_NOT_ALLOWED, "a stream belongs to a session");
            }
            Err(response) => return *response,
        };
        let last = headers.get(LAST_EVENT_ID_HEADER).and_then(|it| it.to_str().ok());
        let stream = match last {
            Some(last) => session.resume(last.to_owned()).await,
            None => session.open_get_stream().await,
        };
        match stream {
            Some(stream) => event_stream(Body::Channel(stream)),
            None => refuse(StatusCode::NOT_FOUND, "there is no such event any more"),
        }
    }

    pub(crate) async fn delete_session(
        &self,
        request: &Request<Incoming>,
        principal: &Arc<str>,
    ) -> Response<Body> {
        match self.find_session(request.headers(), principal) {
            Ok(Some(session)) => {
                self.sessions.close(&session);
                json_response(StatusCode::OK, Bytes::from_static(b"{}"))
            }
            Ok(None) => refuse(StatusCode::BAD_REQUEST, "Mcp-Session-Id is missing"),
            Err(response) => *response,
        }
    }

    async fn receive_notification(
        &self,
        session: &Session,
        method: &str,
        params: Option<&Payload>,
    ) {
        match method {
            "notifications/cancelled" => {
                let params = RawObject::parse(params).unwrap_or_default();
                if let Some(id) = params.get("requestId").and_then(|it| it.decode().ok()) {
                    session.cancel(RequestId::from_json(&id)).await;
                }
            }
            "notifications/roots/list_changed" => {
                if let Some(dedicated) =
                    self.gateway.relay.catalogue().own_connection_key(&session.client)
                {
                    self.gateway.relay.host.notify_roots_changed(Some(&dedicated)).await;
                }
            }
            _ => {}
        }
    }

    /// Questions of a batch are answered side by side, and together. Nothing can be asked or said meanwhile.
    async fn respond_to_batch(
        &self,
        session: &Arc<Session>,
        parts: Vec<Result<Message, message::ParseError>>,
    ) -> Response<Body> {
        if parts.len() > MAX_BATCH_MESSAGES {
            return refuse(StatusCode::BAD_REQUEST, "the batch is too large");
        }
        let mut requests = Vec::new();
        for part in parts {
            match part {
                Ok(Message::Request { id, method, params }) => {
                    requests
                        .push(self.respond_in_batch(session, RpcRequest { id, method, params }));
                }
                Ok(Message::Notification { method, params }) => {
                    self.receive_notification(session, &method, params.as_ref()).await;
                }
                Ok(Message::Response { id, outcome }) => {
                    if let Some(id) = id {
                        session.deliver_response(id, outcome).await;
                    }
                }
                Err(_) => return refuse(StatusCode::BAD_REQUEST, "the batch holds no message"),
            }
        }
        if requests.is_empty() {
            return accepted();
        }
        let answers = future::join_all(requests).await;
        let mut text = b"[".to_vec();
        for (at, answer) in answers.iter().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            text.extend_from_slice(&to_bytes(answer));
        }
        text.push(b']');
        json_response(StatusCode::OK, text.into())
    }

    async fn respond_in_batch(&self, session: &Arc<Session>, rpc_request: RpcRequest) -> Message {
        let RpcRequest { id, method, params } = rpc_request;
        let outcome = match split_meta(params.as_ref()) {
            Err(error) => Err(error),
            Ok((params, meta)) => {
                let from_session = respond_from_session(session, &method, &params).await;
                match from_session {
                    Some(outcome) => outcome,
                    None => {
                        let (sender, _no_reader) = mpsc::channel(1);
                        let channel = Arc::new(SessionChannel {
                            session: Arc::downgrade(session),
                            messages: sender,
                        });
                        let (client, origin) =
                            (session.client.clone(), TraceOrigin::new(id.clone()));
                        let inbound =
                            InboundRequest { client, method, params, meta, channel, origin };
                        self.gateway.relay.respond(inbound).await
                    }
                }
            }
        };
        Message::Response { id: Some(id), outcome }
    }
}

/// What a session answers itself.
async fn respond_from_session(
    session: &Session,
    method: &str,
    params: &RawObject,
) -> Option<Outcome> {
    let empty_object = || Payload::from_json(Bytes::from_static(b"{}"));
    let uri = || params.get_string("uri").ok_or_else(|| server::invalid_params("`uri` is missing"));
    match method {
        "ping" => Some(Ok(empty_object())),
        "initialize" => Some(Err(server::invalid_params("the session has begun already"))),
        "resources/subscribe" => Some(match uri() {
            Ok(uri) => session.subscribe(uri).await.map(|()| empty_object()),
            Err(error) => Err(error),
        }),
        "resources/unsubscribe" => Some(match uri() {
            Ok(uri) => {
                session.unsubscribe(uri).await;
                Ok(empty_object())
            }
            Err(error) => Err(error),
        }),
        _ => None,
    }
}

/// Works until the answer is there; what takes long, says or asks something goes on to a stream.
async fn respond_or_stream(
    session: &Session,
    stream_delay: &StreamDelay,
    (id, mut work): (RequestId, OutcomeFuture),
    mut notifications: mpsc::Receiver<Message>,
) -> Response<Body> {
    let first = tokio::select! {
        biased;
        Some(note) = notifications.recv() => Some(note),
        outcome = &mut work => match notifications.try_recv() {
            Err(_) => return rpc_response(id, outcome, StatusCode::OK),
            Ok(note) => {
                work = Box::pin(async move { outcome });
                Some(note)
            }
        },
        // The client is to see that somebody is there.
        () = stream_delay.wait() => None,
    };
    match session.start_stream(id, work, notifications, first).await {
        Some(stream) => event_stream(Body::Channel(stream)),
        None => refuse(StatusCode::NOT_FOUND, "the session is over"),
    }
}

/// A modern question on its stream. Dropping it calls the question off.
struct ModernEventStream {
    gateway: Gateway,
    pending: Option<PendingRequest>,
    id: RequestId,
    first: Option<Message>,
}

impl ModernEventStream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(sse_event(None, &first));
        }
        let pending = self.pending.as_mut()?;
        let step = tokio::select! {
            step = pending.next() => step,
            () = sleep(KEEPALIVE_INTERVAL) => return Some(sse_keepalive()),
        };
        let outcome = match step {
            Step::Notification(message) => return Some(sse_event(None, &message)),
            Step::InputRequired(requests) => {
                suspend(&self.gateway, self.pending.take()?, &requests).await
            }
            Step::Complete(outcome) => {
                self.pending = None;
                outcome
            }
        };
        Some(sse_event(None, &Message::Response { id: Some(self.id.clone()), outcome }))
    }
}

/// The questions for the client, and the state to come back with.
async fn suspend(
    gateway: &Gateway,
    pending: PendingRequest,
    requests: &serde_json::Value,
) -> Outcome {
    let principal = pending.principal.clone();
    let state = gateway.suspend(pending, principal).await?;
    Ok(payload(&input_required(requests, &state)))
}

fn modern_response(id: RequestId, outcome: Outcome) -> Response<Body> {
    let status = match &outcome {
        Ok(_) => StatusCode::OK,
        Err(error) => {
            StatusCode::from_u16(request_meta::http_status(error)).unwrap_or(StatusCode::OK)
        }
    };
    rpc_response(id, outcome, status)
}

fn split_meta(params: Option<&Payload>) -> Result<(RawObject, RequestMeta), RpcError> {
    let params = RawObject::parse(params);
    let mut params =
        params.ok_or_else(|| server::invalid_params("the parameters are no object"))?;
    let meta = RequestMeta::take_from(&mut params);
    Ok((params, meta.ok_or_else(|| server::invalid_params("`_meta` is no object"))?))
}

/// Is the request JSON, and does its sender take both kinds of answers?
fn check_content_negotiation(headers: &HeaderMap) -> Result<(), Box<Response<Body>>> {
    // What nearly everybody says, word for word.
    const BOTH: &[u8] = b"application/json, text/event-stream";
    let header_is = |name, text: &[u8]| headers.get(name).is_some_and(|it| it.as_bytes() == text);
    if header_is(header::CONTENT_TYPE, b"application/json") && header_is(header::ACCEPT, BOTH) {
        return Ok(());
    }
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let text = "Content-Type: application/json is missing";
        return Err(Box::new(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)));
    }
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        let text = "Accept: application/json, text/event-stream is missing";
        return Err(Box::new(refuse(StatusCode::NOT_ACCEPTABLE, text)));
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

async fn read_body(body: Incoming, max_bytes: usize) -> Result<Bytes, Box<Response<Body>>> {
    let refused = |status, text: &str| Box::new(refuse(status, text));
    match timeout(BODY_READ_TIMEOUT, Limited::new(body, max_bytes).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large"))
        }
        Ok(Err(_)) => Err(refused(StatusCode::BAD_REQUEST, "the request broke off")),
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive")),
    }
}
