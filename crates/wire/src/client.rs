//! The client's side of a conversation, the same in both eras: asks in the way that the server wants to be asked.
//! What answers mean is left to whoever asked.

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

use crate::era::{Era, key};
use crate::introduction::{Capabilities, Introduction, Offer};
use crate::link::LinkEnd;
use crate::message::{Payload, RemoteError, Word};
use crate::mirror::header_value;
use crate::params;
use crate::peer::{Attend, Call, CallError, Peer, Progress};

/// How often a server may ask back before its answer comes.
const ROUNDS: usize = 16;
/// How many questions it may ask at once.
const QUESTIONS: usize = 64;

pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// A conversation with a server. Clones share it; it ends when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Client {
    peer: Peer,
    manner: Arc<Manner>,
}

/// How this server is spoken to.
#[derive(Debug)]
struct Manner {
    introduction: Introduction,
    /// What every request carries in `_meta`; nothing in the legacy era.
    meta: Option<Stamp>,
}

/// What a modern request carries: members of `_meta`, and the version for the header.
#[derive(Debug)]
struct Stamp {
    /// The members, without the braces around them.
    members: String,
    /// What we can do, as JSON.
    capabilities: String,
    version: HeaderValue,
}

/// Answers what a server asks while it works for us.
pub trait Respond: Send + Sync {
    /// Answers one question. Takes as long as people take.
    fn respond<'a>(
        &'a self,
        method: &'a str,
        params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RemoteError>> + Send + 'a>>;
}

impl Client {
    pub(crate) fn legacy(peer: &Peer, introduction: Introduction) -> Client {
        Client { peer: peer.clone(), manner: Arc::new(Manner { introduction, meta: None }) }
    }

    /// A client that has yet to be introduced.
    pub(crate) fn modern(peer: &Peer, offer: &Offer, version: &'static str) -> Client {
        let meta = json!({
            key::VERSION: version,
            key::CLIENT: offer.client_info(),
        });
        let capabilities = offer.capabilities(Era::Modern).to_string();
        let whole = meta.to_string();
        let inner = whole.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let members = inner.unwrap_or_default().to_owned();
        let introduction = Introduction {
            era: Era::Modern,
            version: version.to_owned(),
            name: String::new(),
            title: None,
            server_version: String::new(),
            capabilities: Capabilities::default(),
            instructions: None,
            raw: Payload::from_json(Bytes::from_static(b"{}")),
        };
        let meta =
            Some(Stamp { members, capabilities, version: HeaderValue::from_static(version) });
        Client { peer: peer.clone(), manner: Arc::new(Manner { introduction, meta }) }
    }

    pub(crate) fn introduced(self, introduction: Introduction) -> Client {
        let Client { peer, manner } = self;
        let meta = match Arc::try_unwrap(manner) {
            Ok(manner) => manner.meta,
            Err(shared) => shared.meta.as_ref().map(|stamp| Stamp {
                members: stamp.members.clone(),
                capabilities: stamp.capabilities.clone(),
                version: stamp.version.clone(),
            }),
        };
        Client { peer, manner: Arc::new(Manner { introduction, meta }) }
    }

    /// What the server said of itself.
    pub fn introduction(&self) -> &Introduction {
        &self.manner.introduction
    }

    /// A request to be made: `client.request("tools/list").params(p).within(d).send().await`.
    pub fn request(&self, method: impl Into<Cow<'static, str>>) -> Request {
        Request {
            client: self.clone(),
            method: method.into(),
            params: None,
            patience: Patience::Endless,
            progress: None,
            mirrored: None,
            responder: None,
            attendant: None,
            guise: None,
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
    pub async fn ping(&self, patience: Duration) -> Result<Duration, CallError> {
        let began = Instant::now();
        let method = match self.manner.introduction.era {
            Era::Legacy => "ping",
            // There is no ping any more; this is what every server of this era must answer.
            Era::Modern => "server/discover",
        };
        match self.request(method).within(patience).send().await {
            // A server that does not know the question has answered it.
            Ok(_) | Err(CallError::Remote(_)) => Ok(began.elapsed()),
            Err(error @ (CallError::Timeout(_) | CallError::Lost(_) | CallError::Ended { .. })) => {
                Err(error)
            }
        }
    }

    /// Do headers reach the server?
    pub fn carries_headers(&self) -> bool {
        self.peer.carries_headers()
    }

    /// Ends the conversation for everybody who holds it; calls under way fail.
    pub fn hang_up(&self) {
        self.peer.hang_up();
    }

    /// Waits until the conversation has ended.
    pub async fn ended(&self) -> LinkEnd {
        self.peer.ended().await
    }
}

/// A request to be made.
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    client: Client,
    method: Cow<'static, str>,
    params: Option<Payload>,
    patience: Patience,
    progress: Option<mpsc::Sender<Progress>>,
    mirrored: Option<HeaderMap>,
    responder: Option<Arc<dyn Respond>>,
    attendant: Option<Arc<dyn Attend>>,
    guise: Option<Guise>,
}

/// What a request carries where it is made for somebody else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guise {
    /// What that one can do for a server, as JSON. Matters in the modern era only.
    pub capabilities: Option<Arc<str>>,
    /// More members of `_meta`, as JSON without the braces around them.
    pub members: Option<String>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({})", self.method)
    }
}

#[derive(Debug, Clone, Copy)]
enum Patience {
    Endless,
    Within(Duration),
    SinceProgress(Duration),
    OfItsOwn(Duration),
}

impl Request {
    /// The parameters.
    pub fn params(mut self, params: Payload) -> Request {
        self.params = Some(params);
        self
    }

    /// Gives up after this long.
    pub fn within(mut self, patience: Duration) -> Request {
        self.patience = Patience::Within(patience);
        self
    }

    /// Gives up when nothing was heard for this long; every sign of progress begins the wait anew.
    pub fn within_of_progress(mut self, patience: Duration) -> Request {
        self.patience = Patience::SinceProgress(patience);
        self
    }

    /// Gives up after this long, but not while the server waits for an answer of ours.
    pub fn within_of_its_own(mut self, patience: Duration) -> Request {
        self.patience = Patience::OfItsOwn(patience);
        self
    }

    /// Hands signs of progress to somebody.
    pub fn progress_to(mut self, listener: mpsc::Sender<Progress>) -> Request {
        self.progress = Some(listener);
        self
    }

    /// Arguments that are repeated in headers, where there are any.
    pub fn mirrored(mut self, headers: HeaderMap) -> Request {
        self.mirrored = Some(headers);
        self
    }

    /// Who answers when the server asks back instead of answering. Without one, its question is the result.
    pub fn answered_by(mut self, responder: Arc<dyn Respond>) -> Request {
        self.responder = Some(responder);
        self
    }

    /// Who hears what the server says, and answers what it asks, while it works on this.
    pub fn attended_by(mut self, attendant: Arc<dyn Attend>) -> Request {
        self.attendant = Some(attendant);
        self
    }

    /// Asks for somebody else.
    pub fn in_guise(mut self, guise: Guise) -> Request {
        self.guise = Some(guise);
        self
    }

    /// Asks. Dropping the future unfinished tells the server to stop.
    pub async fn send(self) -> Result<Payload, CallError> {
        let first = self.once(&[]).await?;
        let (Some(responder), Some(mut asked)) = (&self.responder, question(&first)) else {
            return Ok(first);
        };
        for _ in 0..ROUNDS {
            let answers = answer(responder.as_ref(), &asked).await;
            let mut members: Vec<(&str, &[u8])> = vec![("inputResponses", answers.as_bytes())];
            if let Some(state) = &asked.request_state {
                members.push(("requestState", state.get().as_bytes()));
            }
            let result = self.once(&members).await?;
            match question(&result) {
                Some(again) => asked = again,
                None => return Ok(result),
            }
        }
        let message = format!("the server asked back {ROUNDS} times and never answered");
        Err(CallError::Remote(RemoteError { code: -32603, message, data: None }))
    }

    /// One round: one call with a number of its own.
    async fn once(&self, members: &[(&str, &[u8])]) -> Result<Payload, CallError> {
        let call = self.client.peer.call(self.method.clone());
        let wants_progress =
            self.progress.is_some() || matches!(self.patience, Patience::SinceProgress(_));
        let meta = self.meta(wants_progress.then(|| call.number()));
        let mut all: Vec<(&str, &[u8])> = Vec::with_capacity(members.len() + 1);
        if let Some(meta) = &meta {
            all.push(("_meta", meta.as_bytes()));
        }
        all.extend_from_slice(members);
        let mut call = self.addressed(call);
        if let Some(params) = params::with(self.params.as_ref(), &all) {
            call = call.params(params);
        }
        call = match self.patience {
            Patience::Endless => call,
            Patience::Within(limit) => call.within(limit),
            Patience::SinceProgress(limit) => call.within_of_progress(limit),
            Patience::OfItsOwn(limit) => call.within_of_its_own(limit),
        };
        if let Some(listener) = &self.progress {
            call = call.progress_to(listener.clone());
        }
        if let Some(attendant) = &self.attendant {
            call = call.attended_by(attendant.clone());
        }
        call.await
    }

    fn meta(&self, progress_token: Option<u64>) -> Option<String> {
        let stamp = self.client.manner.meta.as_ref();
        let guise = self.guise.as_ref();
        let own = guise.and_then(|it| it.capabilities.as_deref());
        let stamp = stamp.map(|stamp| (&stamp.members, own.unwrap_or(&stamp.capabilities)));
        let more = guise.and_then(|it| it.members.as_deref());
        if stamp.is_none() && more.is_none() && progress_token.is_none() {
            return None;
        }
        let mut text = String::with_capacity(stamp.map_or(64, |it| it.0.len() + it.1.len() + 128));
        text.push('{');
        if let Some(token) = progress_token {
            text.push_str("\"progressToken\":");
            text.push_str(&token.to_string());
        }
        let mut put = |members: &[&str]| {
            if text.len() > 1 {
                text.push(',');
            }
            members.iter().for_each(|it| text.push_str(it));
        };
        if let Some((members, capabilities)) = stamp {
            put(&[members, ",\"", key::CAPABILITIES, "\":", capabilities]);
        }
        if let Some(more) = more {
            put(&[more]);
        }
        text.push('}');
        Some(text)
    }

    /// Says beside the call what it is, where that is read.
    fn addressed(&self, call: Call) -> Call {
        let Some(stamp) = &self.client.manner.meta else { return call };
        if !self.client.peer.carries_headers() {
            return call;
        }
        let mut headers = self.mirrored.clone().unwrap_or_default();
        headers.insert(VERSION, stamp.version.clone());
        headers.insert(METHOD, header_value(&self.method));
        if let (Some(member), Some(params)) = (name_member(&self.method), &self.params)
            && let Some(name) = params::text_member(params, member)
        {
            headers.insert(NAME, header_value(&name));
        }
        call.headers(headers)
    }
}

/// Which of a method's parameters says what it is about.
pub(crate) fn name_member(method: &str) -> Option<&'static str> {
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
fn question(result: &Payload) -> Option<InputRequired> {
    const WORD: &str = "input_required";
    static MENTIONED: Word = Word::new(|| Finder::new(WORD));
    if !result.mentions(&MENTIONED) {
        return None;
    }
    let asked: InputRequired = result.decode().ok()?;
    (asked.result_type == WORD).then_some(asked)
}

/// Answers every question, one after the other: a person can only be asked one thing at a time.
async fn answer(responder: &dyn Respond, asked: &InputRequired) -> String {
    let mut answers = serde_json::Map::new();
    for (name, request) in asked.input_requests.iter().take(QUESTIONS) {
        let params = request.params.as_ref();
        let params = params.map(|raw| Payload::from_json(raw.get().to_owned().into()));
        let answer = match responder.respond(&request.method, params).await {
            Ok(answer) => answer.decode().unwrap_or_default(),
            Err(_) => json!({"action": "decline"}),
        };
        answers.insert(name.clone(), answer);
    }
    serde_json::Value::Object(answers).to_string()
}
