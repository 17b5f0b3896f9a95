//! Carries the messages of several clients over one connection to a server: gives requests ids of their own, returns
//! responses to the client that asked, and sends what the server says to the session whose call caused it.
//! Pure: the caller moves the messages. What cannot be attributed to one session is refused or dropped.

mod attribution;
mod handshake;
mod interests;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId, RpcError};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::errors::internal_error;
use switchboard_wire::protocol::forwarding;
use switchboard_wire::protocol::log_level::LogLevel;

use attribution::{Attribution, RecentCalls};
use handshake::{Handshake, HandshakeStep};
use interests::{Interests, SubscriptionStep};

/// The error with which a server requires that the user opens URLs first.
const URL_ELICITATION_REQUIRED: i64 = -32042;
/// How many URL elicitations are remembered, so that their completion reaches the right session.
const MAX_ELICITATIONS: usize = 256;

/// A client of the shared server, for as long as it is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) u64);

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Delivery {
    ToServer(Message),
    ToClient(SessionId, Message),
}

/// Why a server cannot be shared: it showed that it belongs to one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionBound {
    /// It asks for the roots of its client.
    Roots,
    /// It sends requests outside of calls.
    RequestsOutsideCalls,
    /// It keeps tasks, which every client of its connection can see.
    Tasks,
}

impl SessionBound {
    /// The reason for users.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SessionBound::Roots => "it asks for the roots of its client",
            SessionBound::RequestsOutsideCalls => "it sends requests outside of calls",
            SessionBound::Tasks => "it keeps tasks for its client",
        }
    }
}

/// A request of a client that the server has not answered.
#[derive(Debug)]
struct ForwardedRequest {
    /// The client; absent for a request of our own, and once the client has left.
    session: Option<SessionId>,
    /// The id that the client gave it.
    id: RequestId,
    /// The progress token that the client gave it.
    token: Option<Payload>,
    purpose: Purpose,
}

/// What the multiplexer has to know about a request.
#[derive(Debug, PartialEq, Eq)]
enum Purpose {
    Initialize,
    /// Stays open for notifications.
    Listen,
    /// The server cannot have questions about it.
    Ping,
    /// Fetches a list, about which a server has no questions either.
    List,
    SetLevel,
    Subscribe {
        uri: String,
    },
    Call,
}

/// A request of the server that a client has not answered.
#[derive(Debug)]
struct ServerRequest {
    session: SessionId,
    /// The id that the server gave it.
    id: RequestId,
}

/// The state of one shared connection.
#[derive(Debug, Default)]
pub(crate) struct Multiplexer {
    sessions: BTreeSet<SessionId>,
    next_id: u64,
    forwarded: HashMap<u64, ForwardedRequest>,
    server_requests: HashMap<u64, ServerRequest>,
    handshake: Handshake,
    recent_calls: RecentCalls,
    interests: Interests,
    /// The sessions of URL elicitations, the newest last.
    elicitations: VecDeque<(String, SessionId)>,
    session_bound: Option<SessionBound>,
    calls: u64,
}

type Params = Option<Payload>;
type Method = Cow<'static, str>;

impl Multiplexer {
    /// Adds a client.
    pub(crate) fn join(&mut self, session: SessionId) {
        self.sessions.insert(session);
    }

    /// The era of the server, once a client has agreed on it.
    pub(crate) fn era(&self) -> Option<Era> {
        self.handshake.era()
    }

    /// Why no other client may join, if so.
    pub(crate) fn session_bound(&self) -> Option<SessionBound> {
        self.session_bound
    }

    /// How many tools were called.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// Removes a client: cancels its requests, refuses the server's requests to it and ends its subscriptions.
    pub(crate) fn leave(&mut self, session: SessionId, now: Instant) -> Vec<Delivery> {
        self.sessions.remove(&session);
        let mut deliveries = Vec::new();
        let mut cancelled: Vec<u64> = Vec::new();
        for (number, request) in &mut self.forwarded {
            if request.session == Some(session) {
                request.session = None;
                match request.purpose {
                    // Other clients need its result.
                    Purpose::Initialize => {}
                    Purpose::Listen
                    | Purpose::Ping
                    | Purpose::List
                    | Purpose::SetLevel
                    | Purpose::Subscribe { .. }
                    | Purpose::Call => cancelled.push(*number),
                }
            }
        }
        cancelled.sort_unstable();
        for number in cancelled {
            self.recent_calls.cancelled(session, now);
            deliveries.push(cancellation(number, "the client left"));
        }
        let open = self.server_requests.extract_if(|_, it| it.session == session);
        let open: Vec<RequestId> = open.map(|(_, request)| request.id).collect();
        for id in open {
            let outcome = Err(internal_error("the client left"));
            deliveries.push(Delivery::ToServer(Message::Response { id: Some(id), outcome }));
        }
        self.elicitations.retain(|it| it.1 != session);
        let ended = self.interests.leave(session);
        for uri in ended.unsubscribed {
            let params = Some(encode(&json!({"uri": uri})));
            deliveries.push(self.own_request("resources/unsubscribe", params));
        }
        if let Some(level) = ended.level {
            let params = Some(encode(&json!({"level": level.as_str()})));
            deliveries.push(self.own_request("logging/setLevel", params));
        }
        deliveries
    }

    /// Handles a message of a client.
    pub(crate) fn on_client(
        &mut self,
        session: SessionId,
        message: Message,
        now: Instant,
    ) -> Vec<Delivery> {
        match message {
            Message::Request { id, method, params } => {
                self.on_client_request(session, id, method, params)
            }
            Message::Response { id, outcome } => self.on_client_response(session, id, outcome),
            Message::Notification { method, params } => {
                self.on_client_notification(session, method, params, now)
            }
        }
    }

    /// Handles a message of the server.
    pub(crate) fn on_server(&mut self, message: Message, now: Instant) -> Vec<Delivery> {
        match message {
            Message::Response { id: Some(RequestId::Number(number)), outcome } => {
                self.on_server_response(number, outcome, now)
            }
            // Every id that we send is a number.
            Message::Response { .. } => Vec::new(),
            Message::Request { id, method, params } => {
                self.on_server_request(id, method, params, now)
            }
            Message::Notification { method, params } => {
                self.on_server_notification(method, params, now)
            }
        }
    }

    fn on_client_request(
        &mut self,
        session: SessionId,
        id: RequestId,
        method: Method,
        params: Params,
    ) -> Vec<Delivery> {
        let purpose = match &*method {
            "initialize" => match self.handshake.on_initialize(session, &id) {
                HandshakeStep::Forward => Purpose::Initialize,
                HandshakeStep::Wait => return Vec::new(),
                HandshakeStep::Respond(result) => return vec![response(session, id, Ok(result))],
            },
            "subscriptions/listen" => Purpose::Listen,
            "ping" | "server/discover" => Purpose::Ping,
            "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
                Purpose::List
            }
            "logging/setLevel" => {
                let level = string_member(params.as_ref(), "level");
                let Some(level) = level.as_deref().and_then(LogLevel::parse) else {
                    return vec![self.forward(session, id, (method, params), Purpose::Call)];
                };
                return match self.interests.set_level(session, level) {
                    // The server already sends this much.
                    None => vec![response(session, id, Ok(empty_object()))],
                    Some(level) => {
                        let params = Some(encode(&json!({"level": level.as_str()})));
                        vec![self.forward(session, id, (method, params), Purpose::SetLevel)]
                    }
                };
            }
            "resources/subscribe" | "resources/unsubscribe" => {
                let Some(uri) = string_member(params.as_ref(), "uri") else {
                    return vec![self.forward(session, id, (method, params), Purpose::Call)];
                };
                let step = match method == "resources/subscribe" {
                    true => self.interests.subscribe(session, &uri),
                    false => self.interests.unsubscribe(session, &uri),
                };
                match step {
                    SubscriptionStep::Respond => {
                        return vec![response(session, id, Ok(empty_object()))];
                    }
                    SubscriptionStep::Forward if method == "resources/subscribe" => {
                        Purpose::Subscribe { uri }
                    }
                    SubscriptionStep::Forward => Purpose::Call,
                }
            }
            _ => Purpose::Call,
        };
        match purpose {
            Purpose::Initialize | Purpose::Ping => {}
            Purpose::Listen
            | Purpose::List
            | Purpose::SetLevel
            | Purpose::Subscribe { .. }
            | Purpose::Call => {
                self.handshake.on_request();
            }
        }
        if method == "tools/call" {
            self.calls += 1;
        }
        vec![self.forward(session, id, (method, params), purpose)]
    }

    fn forward(
        &mut self,
        session: SessionId,
        id: RequestId,
        (method, mut params): (Method, Params),
        purpose: Purpose,
    ) -> Delivery {
        let number = self.next_number();
        let mut token = None;
        if let Some(given) = &params
            && let Some((replaced, old)) = forwarding::replace_progress_token(given, number)
        {
            (params, token) = (Some(replaced), Some(old));
        }
        let request = ForwardedRequest { session: Some(session), id, token, purpose };
        self.forwarded.insert(number, request);
        Delivery::ToServer(Message::Request { id: RequestId::Number(number), method, params })
    }

    /// A request that no client waits for.
    fn own_request(&mut self, method: &'static str, params: Params) -> Delivery {
        let number = self.next_number();
        let id = RequestId::Number(number);
        let purpose = Purpose::Ping;
        let request = ForwardedRequest { session: None, id: id.clone(), token: None, purpose };
        self.forwarded.insert(number, request);
        Delivery::ToServer(Message::Request { id, method: method.into(), params })
    }

    fn next_number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn on_client_response(
        &mut self,
        session: SessionId,
        id: Option<RequestId>,
        outcome: Result<Payload, RpcError>,
    ) -> Vec<Delivery> {
        let Some(RequestId::Number(number)) = id else { return Vec::new() };
        // A client answers its own requests only.
        let is_own = |it: &ServerRequest| it.session == session;
        if !self.server_requests.get(&number).is_some_and(is_own) {
            return Vec::new();
        }
        let request = self.server_requests.remove(&number);
        let answer = |it: ServerRequest| Message::Response { id: Some(it.id), outcome };
        request.map(|it| Delivery::ToServer(answer(it))).into_iter().collect()
    }

    fn on_client_notification(
        &mut self,
        session: SessionId,
        method: Method,
        params: Params,
        now: Instant,
    ) -> Vec<Delivery> {
        match &*method {
            "notifications/cancelled" => self.cancel(session, params.as_ref(), now),
            "notifications/initialized" => match self.handshake.on_initialized() {
                true => vec![Delivery::ToServer(Message::Notification { method, params })],
                false => Vec::new(),
            },
            // The roots of one session are not those of the others.
            "notifications/roots/list_changed" if self.sessions.len() > 1 => Vec::new(),
            _ => vec![Delivery::ToServer(Message::Notification { method, params })],
        }
    }

    /// Cancels a request of a client. The response of the server is dropped.
    fn cancel(
        &mut self,
        session: SessionId,
        params: Option<&Payload>,
        now: Instant,
    ) -> Vec<Delivery> {
        let Some((id, reason)) = params.and_then(cancelled_request) else { return Vec::new() };
        let found = self.forwarded.iter_mut().find(|(_, request)| {
            request.session == Some(session)
                && request.id == id
                && request.purpose != Purpose::Initialize
        });
        let Some((number, request)) = found else { return Vec::new() };
        request.session = None;
        self.recent_calls.cancelled(session, now);
        vec![cancellation(*number, &reason)]
    }

    fn on_server_response(
        &mut self,
        number: u64,
        outcome: Result<Payload, RpcError>,
        now: Instant,
    ) -> Vec<Delivery> {
        let Some(request) = self.forwarded.remove(&number) else { return Vec::new() };
        let ForwardedRequest { session, id, purpose, .. } = request;
        let mut deliveries = Vec::new();
        match &purpose {
            Purpose::Initialize => {
                if outcome.as_ref().is_ok_and(has_tasks) {
                    self.session_bound = Some(SessionBound::Tasks);
                }
                for (session, id) in self.handshake.on_initialize_response(&outcome) {
                    deliveries.push(response(session, id, outcome.clone()));
                }
            }
            Purpose::Subscribe { uri } if outcome.is_err() => {
                if let Some(session) = session {
                    self.interests.unsubscribe(session, uri);
                }
            }
            Purpose::Call => {
                if let Some(session) = session {
                    self.recent_calls.answered(session, now);
                    self.note_required_elicitations(session, &outcome);
                }
            }
            Purpose::Listen
            | Purpose::Ping
            | Purpose::List
            | Purpose::SetLevel
            | Purpose::Subscribe { .. } => {}
        }
        let outcome = match purpose {
            Purpose::Listen => outcome.map(|it| forwarding::with_subscription_id(&it, &id)),
            Purpose::Initialize
            | Purpose::Ping
            | Purpose::List
            | Purpose::SetLevel
            | Purpose::Subscribe { .. }
            | Purpose::Call => outcome,
        };
        deliveries.extend(session.map(|session| response(session, id, outcome)));
        deliveries
    }

    fn on_server_request(
        &mut self,
        id: RequestId,
        method: Method,
        params: Params,
        now: Instant,
    ) -> Vec<Delivery> {
        if method == "ping" {
            let outcome = Ok(empty_object());
            return vec![Delivery::ToServer(Message::Response { id: Some(id), outcome })];
        }
        let session = match (&*method, self.attribute(now)) {
            // The answer would apply to the calls of every session.
            ("roots/list", _) => {
                self.session_bound = Some(SessionBound::Roots);
                self.only_session()
            }
            (_, Attribution::Session(session)) => Some(session),
            (_, Attribution::NoCall) => {
                self.session_bound.get_or_insert(SessionBound::RequestsOutsideCalls);
                self.only_session()
            }
            (_, Attribution::Ambiguous) => None,
        };
        let Some(session) = session else {
            let reason = "several sessions share this server, and the request says not which of \
                          their calls it belongs to";
            let outcome = Err(internal_error(reason));
            return vec![Delivery::ToServer(Message::Response { id: Some(id), outcome })];
        };
        if let Some(elicitation) = string_member(params.as_ref(), "elicitationId") {
            self.note_elicitation(elicitation, session);
        }
        let number = self.next_number();
        self.server_requests.insert(number, ServerRequest { session, id });
        let request = Message::Request { id: RequestId::Number(number), method, params };
        vec![Delivery::ToClient(session, request)]
    }

    fn on_server_notification(
        &mut self,
        method: Method,
        params: Params,
        now: Instant,
    ) -> Vec<Delivery> {
        let subscription = params.as_ref().and_then(forwarding::subscription_id);
        if let (Some(id), Some(given)) = (subscription, &params) {
            let RequestId::Number(number) = id else { return Vec::new() };
            let Some(request) = self.forwarded.get(&number) else { return Vec::new() };
            let params = Some(forwarding::with_subscription_id(given, &request.id));
            return notify(request.session, method, params);
        }
        match &*method {
            "notifications/progress" => self.forward_progress(method, params),
            "notifications/cancelled" => self.withdraw(method, params.as_ref()),
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => {
                let to =
                    |session: &SessionId| notify(Some(*session), method.clone(), params.clone());
                self.sessions.iter().flat_map(to).collect()
            }
            "notifications/resources/updated" => {
                let uri = string_member(params.as_ref(), "uri").unwrap_or_default();
                let to = |session| notify(Some(session), method.clone(), params.clone());
                self.interests.subscribers(&uri).into_iter().flat_map(to).collect()
            }
            "notifications/elicitation/complete" => {
                let id = string_member(params.as_ref(), "elicitationId").unwrap_or_default();
                let owner = self.elicitations.iter().find(|it| it.0 == id).map(|it| it.1);
                notify(owner, method, params)
            }
            "notifications/message" => {
                let level = string_member(params.as_ref(), "level");
                let level = level.as_deref().and_then(LogLevel::parse);
                let session = self.notified_session(now);
                notify(session.filter(|it| self.interests.wants(*it, level)), method, params)
            }
            _ => notify(self.notified_session(now), method, params),
        }
    }

    /// Forwards progress with the token of the client. It belongs to a request that is still open.
    fn forward_progress(&self, method: Method, params: Params) -> Vec<Delivery> {
        let Some(given) = &params else { return Vec::new() };
        let number = forwarding::progress_token(given);
        let Some(request) = number.and_then(|it| self.forwarded.get(&it)) else {
            return Vec::new();
        };
        let Some(token) = request.token.clone() else { return Vec::new() };
        notify(request.session, method, forwarding::with_progress_token(given, token))
    }

    /// Withdraws a request that the server cancels.
    fn withdraw(&mut self, method: Method, params: Option<&Payload>) -> Vec<Delivery> {
        let Some((id, reason)) = params.and_then(cancelled_request) else { return Vec::new() };
        let number = self.server_requests.iter().find(|(_, it)| it.id == id).map(|it| *it.0);
        let Some(number) = number else { return Vec::new() };
        let Some(request) = self.server_requests.remove(&number) else { return Vec::new() };
        let params = Some(encode(&json!({"requestId": number, "reason": reason})));
        notify(Some(request.session), method, params)
    }

    /// The session whose calls a request of the server may belong to.
    fn attribute(&self, now: Instant) -> Attribution {
        let calls = self.forwarded.values().filter(|it| it.purpose == Purpose::Call);
        let calling: BTreeSet<SessionId> = calls.filter_map(|it| it.session).collect();
        self.recent_calls.attribute_request(&calling, now)
    }

    /// The session that gets a notification which names no request.
    fn notified_session(&self, now: Instant) -> Option<SessionId> {
        let calls = self.forwarded.values().filter(|it| it.purpose == Purpose::Call);
        let calling: BTreeSet<SessionId> = calls.filter_map(|it| it.session).collect();
        match self.recent_calls.attribute_notification(&calling, now) {
            Attribution::Session(session) => Some(session),
            Attribution::NoCall => self.only_session(),
            Attribution::Ambiguous => None,
        }
    }

    /// The attached session, if there is exactly one.
    fn only_session(&self) -> Option<SessionId> {
        let mut sessions = self.sessions.iter();
        let first = sessions.next().copied();
        first.filter(|_| sessions.next().is_none())
    }

    fn note_elicitation(&mut self, id: String, session: SessionId) {
        if self.elicitations.len() >= MAX_ELICITATIONS {
            self.elicitations.pop_front();
        }
        self.elicitations.push_back((id, session));
    }

    /// Remembers the URL elicitations that a refused call requires.
    fn note_required_elicitations(
        &mut self,
        session: SessionId,
        outcome: &Result<Payload, RpcError>,
    ) {
        #[derive(Deserialize)]
        struct ElicitationList {
            elicitations: Vec<Elicitation>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Elicitation {
            elicitation_id: String,
        }
        let Err(RpcError { code: URL_ELICITATION_REQUIRED, data: Some(data), .. }) = outcome else {
            return;
        };
        let required: Option<ElicitationList> = data.decode().ok();
        for it in required.into_iter().flat_map(|it| it.elicitations).take(MAX_ELICITATIONS) {
            self.note_elicitation(it.elicitation_id, session);
        }
    }
}

/// Whether the result of `initialize` declares tasks.
fn has_tasks(result: &Payload) -> bool {
    #[derive(Deserialize)]
    struct InitializeResult {
        #[serde(default)]
        capabilities: serde_json::Map<String, serde_json::Value>,
    }
    let result: Option<InitializeResult> = result.decode().ok();
    result.is_some_and(|it| it.capabilities.contains_key("tasks"))
}

fn response(session: SessionId, id: RequestId, outcome: Result<Payload, RpcError>) -> Delivery {
    Delivery::ToClient(session, Message::Response { id: Some(id), outcome })
}

fn notify(session: Option<SessionId>, method: Method, params: Params) -> Vec<Delivery> {
    let notification = Message::Notification { method, params };
    session.map(|it| Delivery::ToClient(it, notification)).into_iter().collect()
}

fn cancellation(number: u64, reason: &str) -> Delivery {
    let params = Some(encode(&json!({"requestId": number, "reason": reason})));
    Delivery::ToServer(Message::Notification { method: "notifications/cancelled".into(), params })
}

/// The request and the reason of a cancellation.
fn cancelled_request(params: &Payload) -> Option<(RequestId, String)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancellation {
        request_id: serde_json::Value,
        #[serde(default)]
        reason: Option<String>,
    }
    let cancelled: Cancellation = params.decode().ok()?;
    let reason = cancelled.reason.unwrap_or_else(|| "cancelled".to_owned());
    Some((RequestId::from_json(&cancelled.request_id), reason))
}

fn string_member(params: Option<&Payload>, name: &str) -> Option<String> {
    let members = switchboard_wire::jsonrpc::raw_object::RawObject::parse(params)?;
    members.get_string(name)
}

fn empty_object() -> Payload {
    Payload::from_json(Bytes::from_static(b"{}"))
}

fn encode(json: &serde_json::Value) -> Payload {
    Payload::from_json(Bytes::from(json.to_string()))
}
