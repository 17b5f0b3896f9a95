//! A model that follows a script, over HTTP: Anthropic's messages and OpenAI's chat completions and responses, each at
//! its own path. It minds what it is sent as the real ones do, and remembers it. It shares no code with our clients.

mod anthropic_messages;
mod chat_completions;
mod openai_responses;
mod request_check;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::http::loopback::{LoopbackListener, ServerThread};
use crate::http::recorded_request::{RecordedRequest, recorded_headers};

/// How long a test waits for a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The only key that is good.
pub const API_KEY: &str = "sk-canary-0123456789";

/// What is said in an answer, in order.
#[derive(Debug, Clone)]
pub enum ReplyPart {
    /// Words, in one piece each.
    Text(String),
    /// A thought, with something that has to come back.
    Thinking(String),
    /// A call.
    ToolCall {
        /// Its name.
        id: String,
        /// The tool.
        tool: String,
        /// The arguments, as text: they may be no JSON.
        arguments: String,
    },
    /// Nothing more, until [`ModelService::release`] is called.
    Stall,
    /// The connection breaks.
    Disconnect,
    /// The service says in the stream that it is overloaded.
    Overloaded,
}

impl ReplyPart {
    /// Words.
    pub fn text(text: &str) -> ReplyPart {
        ReplyPart::Text(text.to_owned())
    }

    /// A thought.
    pub fn thinking(text: &str) -> ReplyPart {
        ReplyPart::Thinking(text.to_owned())
    }

    /// A call.
    pub fn tool_call(id: &str, tool: &str, arguments: &Value) -> ReplyPart {
        let arguments = arguments.to_string();
        ReplyPart::ToolCall { id: id.to_owned(), tool: tool.to_owned(), arguments }
    }
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEnd {
    /// It is over; with calls in it, they are wanted.
    EndTurn,
    /// It was too long.
    MaxTokens,
    /// It was refused.
    Refusal,
    /// The stream ends without a word about it.
    Missing,
}

/// What becomes of one request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// An answer.
    Message(Vec<ReplyPart>, ReplyEnd),
    /// A status, headers and a body instead.
    Error {
        /// The status.
        status: u16,
        /// Headers.
        headers: Vec<(&'static str, String)>,
        /// The body.
        body: String,
    },
    /// These bytes as a stream of events.
    Raw(String),
}

impl Reply {
    /// An answer that ends well.
    pub fn message(reply_parts: impl IntoIterator<Item = ReplyPart>) -> Reply {
        Reply::Message(reply_parts.into_iter().collect(), ReplyEnd::EndTurn)
    }

    /// An answer of words.
    pub fn text(text: &str) -> Reply {
        Reply::message([ReplyPart::text(text)])
    }

    /// A refusal in the shape that the services have.
    pub fn error(status: u16, kind: &str, message: &str) -> Reply {
        let body =
            json!({"type": "error", "error": {"type": kind, "code": kind, "message": message}});
        Reply::Error { status, headers: Vec::new(), body: body.to_string() }
    }

    /// The same with a header.
    pub fn with_header(mut self, name: &'static str, value: &str) -> Reply {
        if let Reply::Error { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

/// Which of the services is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelApi {
    Messages,
    Completions,
    Responses,
}

/// The service, on a thread of its own. Dropping it ends it and every connection to it.
#[derive(Debug)]
pub struct ModelService {
    origin: String,
    state: Arc<ServiceState>,
    /// Ends with us.
    _thread: ServerThread,
}

#[derive(Debug)]
struct ServiceState {
    replies: Mutex<VecDeque<Reply>>,
    recorded: Mutex<Vec<RecordedRequest>>,
    request_arrived: Condvar,
    /// How many answers nobody heard to their end.
    aborted_replies: Mutex<usize>,
    client_left: Condvar,
    stall_permits: Semaphore,
}

impl ModelService {
    /// Starts one that answers so, request by request.
    pub fn start(replies: impl IntoIterator<Item = Reply>) -> io::Result<ModelService> {
        let port = LoopbackListener::bind()?;
        let origin = port.origin.clone();
        let state = Arc::new(ServiceState {
            replies: Mutex::new(replies.into_iter().collect()),
            recorded: Mutex::default(),
            request_arrived: Condvar::new(),
            aborted_replies: Mutex::default(),
            client_left: Condvar::new(),
            stall_permits: Semaphore::new(0),
        });
        let answer = |api: ModelApi| {
            post(move |State(state): State<Arc<ServiceState>>, request: Request| async move {
                state.respond(api, request).await
            })
        };
        let routes = Router::new()
            .route("/v1/messages", answer(ModelApi::Messages))
            .route("/v1/chat/completions", answer(ModelApi::Completions))
            .route("/v1/responses", answer(ModelApi::Responses))
            .with_state(Arc::clone(&state));
        let thread = ServerThread::spawn("model", vec![(port, routes)])?;
        Ok(ModelService { origin, state, _thread: thread })
    }

    /// Where it is, without a path.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Where it is, as OpenAI's clients are told.
    pub fn openai_base_url(&self) -> String {
        format!("{}/v1", self.origin)
    }

    /// Adds to the script.
    pub fn add_reply(&self, reply: Reply) {
        self.state.replies().push_back(reply);
    }

    /// Lets one answer that stalls go on.
    pub fn resume_stalled(&self) {
        self.state.stall_permits.add_permits(1);
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.recorded().clone()
    }

    /// The body of a request, from nought.
    pub fn request_body(&self, at: usize) -> Value {
        let requests = self.requests();
        let body = requests.get(at).and_then(|it| it.body.clone());
        body.unwrap_or_else(|| panic!("there are {} requests", requests.len()))
    }

    /// Waits until somebody has left in the middle of an answer. Blocks.
    pub fn wait_for_disconnect(&self) {
        let unheard = self.state.aborted_replies.lock().expect("nobody panics with it");
        let waited =
            self.state.client_left.wait_timeout_while(unheard, REQUEST_TIMEOUT, |it| *it == 0);
        let (_unheard, timeout) = waited.expect("nobody panics with it");
        assert!(!timeout.timed_out(), "nobody left");
    }

    /// Waits until so many requests came. Blocks.
    pub fn wait_for_requests(&self, count: usize) {
        let recorded = self.state.recorded();
        let is_less = |it: &mut Vec<RecordedRequest>| it.len() < count;
        let waited =
            self.state.request_arrived.wait_timeout_while(recorded, REQUEST_TIMEOUT, is_less);
        let (recorded, timeout) = waited.expect("nobody panics with it");
        assert!(!timeout.timed_out(), "only {} requests came", recorded.len());
    }
}

impl ServiceState {
    fn replies(&self) -> MutexGuard<'_, VecDeque<Reply>> {
        self.replies.lock().expect("nobody panics with it")
    }

    fn recorded(&self) -> MutexGuard<'_, Vec<RecordedRequest>> {
        self.recorded.lock().expect("nobody panics with it")
    }

    async fn respond(self: Arc<ServiceState>, api: ModelApi, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
        let body: Option<Value> = serde_json::from_slice(&bytes).ok();
        let recorded = RecordedRequest {
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            headers: recorded_headers(&parts.headers),
            body: body.clone(),
        };
        self.recorded().push(recorded);
        self.request_arrived.notify_all();
        let reply = self.replies().pop_front();
        let rejection = request_check::rejection(api, &parts.headers, body.as_ref());
        let reply = match (rejection, reply) {
            (Some((status, message)), _) => Reply::error(status, "invalid_request_error", &message),
            (None, Some(reply)) => reply,
            (None, None) => Reply::error(500, "api_error", "the script is over")
                .with_header("x-should-retry", "false"),
        };
        match reply {
            Reply::Error { status, headers, body } => error_response(status, &headers, body),
            Reply::Raw(text) => {
                event_stream_response(stream::iter([Ok::<_, io::Error>(Bytes::from(text))]))
            }
            Reply::Message(reply_parts, stop_reason) => {
                let stream_events = match api {
                    ModelApi::Messages => anthropic_messages::encode(&reply_parts, stop_reason),
                    ModelApi::Completions => chat_completions::encode(&reply_parts, stop_reason),
                    ModelApi::Responses => openai_responses::encode(&reply_parts, stop_reason),
                };
                self.stream_events(stream_events)
            }
        }
    }

    /// Sends frames one by one, each in two pieces: nobody may count on whole ones.
    fn stream_events(self: Arc<ServiceState>, stream_events: Vec<StreamEvent>) -> Response {
        let halves = stream_events.into_iter().flat_map(|frame| match frame {
            StreamEvent::Event(text) => {
                let mut bytes = Bytes::from(text);
                let rest = bytes.split_off(bytes.len() / 2);
                vec![StreamChunk::Bytes(bytes), StreamChunk::Bytes(rest)]
            }
            StreamEvent::Stall => vec![StreamChunk::Stall],
            StreamEvent::Disconnect => vec![StreamChunk::Disconnect],
        });
        let halves: VecDeque<StreamChunk> = halves.collect();
        let reply_stream = ReplyStream { state: self, chunks: halves };
        let flow = stream::unfold(reply_stream, |mut reply_stream| async move {
            loop {
                match reply_stream.chunks.pop_front()? {
                    StreamChunk::Bytes(bytes) => {
                        // Each piece leaves by itself.
                        tokio::task::yield_now().await;
                        return Some((Ok(bytes), reply_stream));
                    }
                    StreamChunk::Stall => {
                        // While it is waited for, there is more to say.
                        reply_stream.chunks.push_front(StreamChunk::Stall);
                        let permit = reply_stream.state.stall_permits.acquire().await;
                        permit.expect("it is never closed").forget();
                        reply_stream.chunks.pop_front();
                    }
                    StreamChunk::Disconnect => {
                        reply_stream.chunks.clear();
                        // What was sent before is to arrive.
                        for _ in 0..100 {
                            tokio::task::yield_now().await;
                        }
                        return Some((Err(io::Error::other("as the script says")), reply_stream));
                    }
                }
            }
        });
        event_stream_response(flow)
    }
}

/// An answer that is being given.
struct ReplyStream {
    state: Arc<ServiceState>,
    chunks: VecDeque<StreamChunk>,
}

impl Drop for ReplyStream {
    fn drop(&mut self) {
        if !self.chunks.is_empty() {
            *self.state.aborted_replies.lock().expect("nobody panics with it") += 1;
            self.state.client_left.notify_all();
        }
    }
}

enum StreamChunk {
    Bytes(Bytes),
    Stall,
    Disconnect,
}

/// What goes over the wire.
enum StreamEvent {
    Event(String),
    Stall,
    Disconnect,
}

fn event_stream_response(
    flow: impl futures_util::Stream<Item = Result<Bytes, io::Error>> + Send + 'static,
) -> Response {
    Response::builder()
        .header("content-type", "text/event-stream; charset=utf-8")
        .body(Body::from_stream(flow))
        .expect("the parts are good")
}

fn error_response(status: u16, headers: &[(&'static str, String)], body: String) -> Response {
    let status = StatusCode::from_u16(status).expect("a status");
    let is_json = serde_json::from_str::<Value>(&body).is_ok();
    let kind = if is_json { "application/json" } else { "text/html" };
    let mut response = Response::builder().status(status).header("content-type", kind);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(body)).expect("the parts are good")
}

/// A text in two parts, on a character boundary.
fn halves(text: &str) -> [&str; 2] {
    let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (first, second) = text.split_at(middle);
    [first, second]
}

fn has_tool_calls(reply_parts: &[ReplyPart]) -> bool {
    reply_parts.iter().any(|it| matches!(it, ReplyPart::ToolCall { .. }))
}
