//! The client's side of a conversation, the same in both eras: asks in the way that the server wants to be asked.
//! What answers mean is left to whoever asked.

pub mod handshake;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::jsonrpc::message::{LazyFinder, Payload, RpcError};
use crate::jsonrpc::params;
use crate::peer::{Call, CallError, CallOwner, Peer, Progress};
use crate::protocol::capabilities::{ClientDescription, ServerCapabilities, ServerDescription};
use crate::protocol::era::{Era, key};
use crate::protocol::param_headers::encode_header_value;
use crate::transport::CloseReason;

/// How often a server may ask back before its answer comes.
const MAX_ROUND_TRIPS: usize = 16;
/// How many questions it may ask at once.
const MAX_INPUT_REQUESTS: usize = 64;

pub(crate) const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) const PROTOCOL_VERSION_HEADER: HeaderName =
    HeaderName::from_static("mcp-protocol-version");

/// A conversation with a server. Clones share it; it ends when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Client {
    peer: Peer,
    negotiation: Arc<Negotiation>,
}

/// How this server is spoken to.
#[derive(Debug)]
struct Negotiation {
    server: ServerDescription,
    /// What every request carries in `_meta`; nothing in the legacy era.
    meta: Option<ModernMeta>,
}

/// What a modern request carries: members of `_meta`, and the version for the header.
#[derive(Debug)]
struct ModernMeta {
    /// The members, without the braces around them.
    members: String,
    /// What we can do, as JSON.
    capabilities: String,
    version: HeaderValue,
}

/// Answers what a server asks while it works for us.
pub trait RequestHandler: Send + Sync {
    /// Answers one question. Takes as long as people take.
    fn respond<'a>(
        &'a self,
        method: &'a str,
        params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>>;
}

impl Client {
    pub(crate) fn new_legacy(peer: &Peer, server: ServerDescription) -> Client {
        Client { peer: peer.clone(), negotiation: Arc::new(Negotiation { server, meta: None }) }
    }

    /// A client that has yet to be introduced.
    pub(crate) fn new_modern(
        peer: &Peer,
        offer: &ClientDescription,
        version: &'static str,
    ) -> Client {
        let meta = json!({
            key::VERSION: version,
            key::CLIENT_INFO: offer.client_info(),
        });
        let capabilities = offer.capabilities_json(Era::Modern).to_string();
        let whole = meta.to_string();
        let inner = whole.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let members = inner.unwrap_or_default().to_owned();
        let server = ServerDescription {
            era: Era::Modern,
            protocol_version: version.to_owned(),
            name: String::new(),
            title: None,
            server_version: String::new(),
            capabilities: ServerCapabilities::default(),
            instructions: None,
            raw: Payload::from_json(Bytes::from_static(b"{}")),
        };
        let meta =
            Some(ModernMeta { members, capabilities, version: HeaderValue::from_static(version) });
        Client { peer: peer.clone(), negotiation: Arc::new(Negotiation { server, meta }) }
    }

    pub(crate) fn with_server(self, server: ServerDescription) -> Client {
        let Client { peer, negotiation } = self;
        let meta = match Arc::try_unwrap(negotiation) {
            Ok(negotiation) => negotiation.meta,
            Err(shared) => shared.meta.as_ref().map(|modern_meta| ModernMeta {
                members: modern_meta.members.clone(),
                capabilities: modern_meta.capabilities.clone(),
                version: modern_meta.version.clone(),
            }),
        };
        Client { peer, negotiation: Arc::new(Negotiation { server, meta }) }
    }

    /// What the server said of itself.
    pub fn server(&self) -> &ServerDescription {
        &self.negotiation.server
    }

    /// A request to be made: `client.request("tools/list").params(p).within(d).send().await`.
    pub fn request(&self, method: impl Into<Cow<'static, str>>) -> RequestBuilder {
        RequestBuilder {
            client: self.clone(),
            method: method.into(),
            params: None,
            timeout: RequestTimeout::None,
            progress: None,
            param_headers: None,
            input_handler: None,
            owner: None,
            client_meta: None,
        }
    }

    /// Says something that wants no answer.
    pub async fn notify(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: Option<Payload>,
    ) -> Result<(), CallError> {
        self.peer.notify(method, params).await
    }

    /// Asks the server whether it is there, and how long that takes it.
    pub async fn ping(&self, timeout: Duration) -> Result<Duration, CallError> {
        let started = Instant::now();
        let method = match self.negotiation.server.era {
            Era::Legacy => "ping",
            // There is no ping any more; this is what every server of this era must answer.
            Era::Modern => "server/discover",
        };
        match self.request(method).timeout(timeout).send().await {
            // A server that does not know the question has answered it.
            Ok(_) | Err(CallError::Remote(_)) => Ok(started.elapsed()),
            Err(
                error
                @ (CallError::Timeout(_) | CallError::Transport(_) | CallError::Closed { .. }),
            ) => Err(error),
        }
    }

    /// Do headers reach the server?
    pub fn carries_headers(&self) -> bool {
        self.peer.carries_headers()
    }

    /// Ends the conversation for everybody who holds it; calls under way fail.
    pub fn close(&self) {
        self.peer.close();
    }

    /// Waits until the conversation has ended.
    pub async fn closed(&self) -> CloseReason {
        self.peer.closed().await
    }
}

/// A request to be made.
#[must_use = "a request does nothing until it is sent"]
pub struct RequestBuilder {
    client: Client,
    method: Cow<'static, str>,
    params: Option<Payload>,
    timeout: RequestTimeout,
    progress: Option<mpsc::Sender<Progress>>,
    param_headers: Option<HeaderMap>,
    input_handler: Option<Arc<dyn RequestHandler>>,
    owner: Option<Arc<dyn CallOwner>>,
    client_meta: Option<ClientMeta>,
}

/// What a request carries where it is made for somebody else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientMeta {
    /// What that one can do for a server, as JSON. Matters in the modern era only.
    pub capabilities: Option<Arc<str>>,
    /// More members of `_meta`, as JSON without the braces around them.
    pub members: Option<String>,
}

impl fmt::Debug for RequestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({})", self.method)
    }
}

#[derive(Debug, Clone, Copy)]
enum RequestTimeout {
    None,
    Total(Duration),
    Progress(Duration),
    Server(Duration),
}

impl RequestBuilder {
    /// The parameters.
    pub fn params(mut self, params: Payload) -> RequestBuilder {
        self.params = Some(params);
        self
    }

    /// Gives up after this long.
    pub fn timeout(mut self, timeout: Duration) -> RequestBuilder {
        self.timeout = RequestTimeout::Total(timeout);
        self
    }

    /// Gives up when nothing was heard for this long; every sign of progress begins the wait anew.
    pub fn progress_timeout(mut self, timeout: Duration) -> RequestBuilder {
        self.timeout = RequestTimeout::Progress(timeout);
        self
    }

    /// Gives up after this long, but not while the server waits for an answer of ours.
    pub fn server_timeout(mut self, timeout: Duration) -> RequestBuilder {
        self.timeout = RequestTimeout::Server(timeout);
        self
    }

    /// Hands signs of progress to somebody.
    pub fn progress_sender(mut self, listener: mpsc::Sender<Progress>) -> RequestBuilder {
        self.progress = Some(listener);
        self
    }

    /// Arguments that are repeated in headers, where there are any.
    pub fn param_headers(mut self, headers: HeaderMap) -> RequestBuilder {
        self.param_headers = Some(headers);
        self
    }

    /// Who answers when the server asks back instead of answering. Without one, its question is the result.
    pub fn input_handler(mut self, input_handler: Arc<dyn RequestHandler>) -> RequestBuilder {
        self.input_handler = Some(input_handler);
        self
    }

    /// Who hears what the server says, and answers what it asks, while it works on this.
    pub fn owner(mut self, owner: Arc<dyn CallOwner>) -> RequestBuilder {
        self.owner = Some(owner);
        self
    }

    /// Asks for somebody else.
    pub fn client_meta(mut self, client_meta: ClientMeta) -> RequestBuilder {
        self.client_meta = Some(client_meta);
        self
    }

    /// Asks. Dropping the future unfinished tells the server to stop.
    pub async fn send(self) -> Result<Payload, CallError> {
        let first = self.send_round(&[]).await?;
        let (Some(input_handler), Some(mut input_required)) =
            (&self.input_handler, parse_input_required(&first))
        else {
            return Ok(first);
        };
        for _ in 0..MAX_ROUND_TRIPS {
            let responses = answer_input_requests(input_handler.as_ref(), &input_required).await;
            let mut members: Vec<(&str, &[u8])> = vec![("inputResponses", responses.as_bytes())];
            if let Some(state) = &input_required.request_state {
                members.push(("requestState", state.get().as_bytes()));
            }
            let result = self.send_round(&members).await?;
            match parse_input_required(&result) {
                Some(again) => input_required = again,
                None => return Ok(result),
            }
        }
        let message = format!("the server asked back {MAX_ROUND_TRIPS} times and never answered");
        Err(CallError::Remote(RpcError { code: -32603, message, data: None }))
    }

    /// One round: one call with a number of its own.
    async fn send_round(&self, members: &[(&str, &[u8])]) -> Result<Payload, CallError> {
        let call = self.client.peer.call(self.method.clone());
        let has_progress =
            self.progress.is_some() || matches!(self.timeout, RequestTimeout::Progress(_));
        let meta = self.meta_json(has_progress.then(|| call.number()));
        let mut all: Vec<(&str, &[u8])> = Vec::with_capacity(members.len() + 1);
        if let Some(meta) = &meta {
            all.push(("_meta", meta.as_bytes()));
        }
        all.extend_from_slice(members);
        let mut call = self.with_headers(call);
        if let Some(params) = params::with_members(self.params.as_ref(), &all) {
            call = call.params(params);
        }
        call = match self.timeout {
            RequestTimeout::None => call,
            RequestTimeout::Total(limit) => call.timeout(limit),
            RequestTimeout::Progress(limit) => call.progress_timeout(limit),
            RequestTimeout::Server(limit) => call.server_timeout(limit),
        };
        if let Some(listener) = &self.progress {
            call = call.progress_sender(listener.clone());
        }
        if let Some(owner) = &self.owner {
            call = call.owner(owner.clone());
        }
        call.await
    }

    fn meta_json(&self, progress_token: Option<u64>) -> Option<String> {
        let modern_meta = self.client.negotiation.meta.as_ref();
        let client_meta = self.client_meta.as_ref();
        let own = client_meta.and_then(|it| it.capabilities.as_deref());
        let modern_meta = modern_meta
            .map(|modern_meta| (&modern_meta.members, own.unwrap_or(&modern_meta.capabilities)));
        let more = client_meta.and_then(|it| it.members.as_deref());
        if modern_meta.is_none() && more.is_none() && progress_token.is_none() {
            return None;
        }
        let mut text =
            String::with_capacity(modern_meta.map_or(64, |it| it.0.len() + it.1.len() + 128));
        text.push('{');
        if let Some(token) = progress_token {
            text.push_str("\"progressToken\":");
            text.push_str(&token.to_string());
        }
        let mut append = |members: &[&str]| {
            if text.len() > 1 {
                text.push(',');
            }
            members.iter().for_each(|it| text.push_str(it));
        };
        if let Some((members, capabilities)) = modern_meta {
            append(&[members, ",\"", key::CAPABILITIES, "\":", capabilities]);
        }
        if let Some(more) = more {
            append(&[more]);
        }
        text.push('}');
        Some(text)
    }

    /// Says beside the call what it is, where that is read.
    fn with_headers(&self, call: Call) -> Call {
        let Some(modern_meta) = &self.client.negotiation.meta else { return call };
        if !self.client.peer.carries_headers() {
            return call;
        }
        let mut headers = self.param_headers.clone().unwrap_or_default();
        headers.insert(PROTOCOL_VERSION_HEADER, modern_meta.version.clone());
        headers.insert(METHOD_HEADER, encode_header_value(&self.method));
        if let (Some(member), Some(params)) = (name_param(&self.method), &self.params)
            && let Some(name) = params::string_member(params, member)
        {
            headers.insert(NAME_HEADER, encode_header_value(&name));
        }
        call.headers(headers)
    }
}

/// Which of a method's parameters says what it is about.
pub(crate) fn name_param(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// What a server asks back.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    result_type: String,
    #[serde(default)]
    input_requests: BTreeMap<String, InputRequest>,
    #[serde(default)]
    request_state: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct InputRequest {
    method: String,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

/// The server's question, where a result is one. Looking for the word first keeps large results unread.
fn parse_input_required(result: &Payload) -> Option<InputRequired> {
    const RESULT_TYPE: &str = "input_required";
    static FINDER: LazyFinder = LazyFinder::new(|| Finder::new(RESULT_TYPE));
    if !result.contains(&FINDER) {
        return None;
    }
    let input_required: InputRequired = result.decode().ok()?;
    (input_required.result_type == RESULT_TYPE).then_some(input_required)
}

/// Answers every question, one after the other: a person can only be asked one thing at a time.
async fn answer_input_requests(
    input_handler: &dyn RequestHandler,
    input_required: &InputRequired,
) -> String {
    let mut responses = serde_json::Map::new();
    for (name, request) in input_required.input_requests.iter().take(MAX_INPUT_REQUESTS) {
        let params = request.params.as_ref();
        let params = params.map(|raw| Payload::from_json(raw.get().to_owned().into()));
        let answer = match input_handler.respond(&request.method, params).await {
            Ok(answer) => answer.decode().unwrap_or_default(),
            Err(_) => json!({"action": "decline"}),
        };
        responses.insert(name.clone(), answer);
    }
    serde_json::Value::Object(responses).to_string()
}
