//! A scripted model service over HTTP: the Anthropic messages API and OpenAI's chat completions and responses, each
//! at its own path. It validates requests like the real services and records them. It shares no code with
//! Switchboard's clients.

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

/// The timeout for expected requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The only valid API key.
pub const API_KEY: &str = "sk-canary-0123456789";

/// A part of a reply, in order.
#[derive(Debug, Clone)]
pub enum ReplyPart {
    /// Text, sent in one piece.
    Text(String),
    /// Thinking, with a signature that must be returned.
    Thinking(String),
    /// A tool call.
    ToolCall {
        /// The call id.
        id: String,
        /// The tool's name.
        tool: String,
        /// The arguments as text, which may be invalid JSON.
        arguments: String,
    },
    /// Stops the reply until [`ModelService::resume_stalled`] is called.
    Stall,
    /// Breaks the connection.
    Disconnect,
    /// Reports an overload in the stream.
    Overloaded,
}

impl ReplyPart {
    /// Text.
    pub fn text(text: &str) -> ReplyPart {
        ReplyPart::Text(text.to_owned())
    }

    /// Thinking.
    pub fn thinking(text: &str) -> ReplyPart {
        ReplyPart::Thinking(text.to_owned())
    }

    /// A tool call.
    pub fn tool_call(id: &str, tool: &str, arguments: &Value) -> ReplyPart {
        let arguments = arguments.to_string();
        ReplyPart::ToolCall { id: id.to_owned(), tool: tool.to_owned(), arguments }
    }
}

/// The stop reason of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEnd {
    /// The turn ends; tool calls in it are to be run.
    EndTurn,
    /// The token limit was reached.
    MaxTokens,
    /// The model refused.
    Refusal,
    /// The stream ends without a stop reason.
    Missing,
}

/// The response to one request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A reply.
    Message(Vec<ReplyPart>, ReplyEnd),
    /// An HTTP error.
    Error {
        /// The status.
        status: u16,
        /// The headers.
        headers: Vec<(&'static str, String)>,
        /// The body.
        body: String,
    },
    /// These bytes as an event stream.
    Raw(String),
}

impl Reply {
    /// A complete reply.
    pub fn message(reply_parts: impl IntoIterator<Item = ReplyPart>) -> Reply {
        Reply::Message(reply_parts.into_iter().collect(), ReplyEnd::EndTurn)
    }

    /// A reply of text.
    pub fn text(text: &str) -> Reply {
        Reply::message([ReplyPart::text(text)])
    }

    /// An error in the services' format.
    pub fn error(status: u16, kind: &str, message: &str) -> Reply {
        let body =
            json!({"type": "error", "error": {"type": kind, "code": kind, "message": message}});
        Reply::Error { status, headers: Vec::new(), body: body.to_string() }
    }

    /// Adds a header to an error.
    pub fn with_header(mut self, name: &'static str, value: &str) -> Reply {
        if let Reply::Error { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

/// The API of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelApi {
    Messages,
    Completions,
    Responses,
}

/// The service on its own thread. Dropping it ends the service and every connection to it.
#[derive(Debug)]
pub struct ModelService {
    origin: String,
    state: Arc<ServiceState>,
    /// Ends the servers when dropped.
    _thread: ServerThread,
}

#[derive(Debug)]
struct ServiceState {
    replies: Mutex<VecDeque<Reply>>,
    recorded: Mutex<Vec<RecordedRequest>>,
    request_arrived: Condvar,
    /// The number of replies that clients did not read to the end.
    aborted_replies: Mutex<usize>,
    client_left: Condvar,
    stall_permits: Semaphore,
}

impl ModelService {
    /// Starts a service with these replies, one per request.
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
        let handler = |api: ModelApi| {
            post(move |State(state): State<Arc<ServiceState>>, request: Request| async move {
                state.respond(api, request).await
            })
        };
        let routes = Router::new()
            .route("/v1/messages", handler(ModelApi::Messages))
            .route("/v1/chat/completions", handler(ModelApi::Completions))
            .route("/v1/responses", handler(ModelApi::Responses))
            .with_state(Arc::clone(&state));
        let thread = ServerThread::spawn("model", vec![(port, routes)])?;
        Ok(ModelService { origin, state, _thread: thread })
    }

    /// The origin, without a path.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The base URL for OpenAI clients.
    pub fn openai_base_url(&self) -> String {
        format!("{}/v1", self.origin)
    }

    /// Adds a reply to the script.
    pub fn add_reply(&self, reply: Reply) {
        self.state.replies().push_back(reply);
    }

    /// Continues one stalled reply.
    pub fn resume_stalled(&self) {
        self.state.stall_permits.add_permits(1);
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.recorded().clone()
    }

    /// The body of a request, by zero-based index.
    pub fn request_body(&self, index: usize) -> Value {
        let requests = self.requests();
        let body = requests.get(index).and_then(|it| it.body.clone());
        body.unwrap_or_else(|| panic!("there are {} requests", requests.len()))
    }

    /// Waits until a client disconnects during a reply. Blocks.
    pub fn wait_for_disconnect(&self) {
        let aborted = self.state.aborted_replies.lock().expect("no holder of the lock panics");
        let waited =
            self.state.client_left.wait_timeout_while(aborted, REQUEST_TIMEOUT, |it| *it == 0);
        let (_aborted, timeout) = waited.expect("no holder of the lock panics");
        assert!(!timeout.timed_out(), "no client disconnected");
    }

    /// Waits for a number of requests. Blocks.
    pub fn wait_for_requests(&self, count: usize) {
        let recorded = self.state.recorded();
        let is_less = |it: &mut Vec<RecordedRequest>| it.len() < count;
        let waited =
            self.state.request_arrived.wait_timeout_while(recorded, REQUEST_TIMEOUT, is_less);
        let (recorded, timeout) = waited.expect("no holder of the lock panics");
        assert!(!timeout.timed_out(), "only {} requests came", recorded.len());
    }
}

impl ServiceState {
    fn replies(&self) -> MutexGuard<'_, VecDeque<Reply>> {
        self.replies.lock().expect("no holder of the lock panics")
    }

    fn recorded(&self) -> MutexGuard<'_, Vec<RecordedRequest>> {
        self.recorded.lock().expect("no holder of the lock panics")
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

    /// Sends events in two chunks each, so that clients cannot rely on whole events.
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
                        // Send each chunk on its own.
                        tokio::task::yield_now().await;
                        return Some((Ok(bytes), reply_stream));
                    }
                    StreamChunk::Stall => {
                        // The stall stays first while the reply waits.
                        reply_stream.chunks.push_front(StreamChunk::Stall);
                        let permit = reply_stream.state.stall_permits.acquire().await;
                        permit.expect("it is never closed").forget();
                        reply_stream.chunks.pop_front();
                    }
                    StreamChunk::Disconnect => {
                        reply_stream.chunks.clear();
                        // Let the previous chunks arrive first.
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

/// A reply in progress.
struct ReplyStream {
    state: Arc<ServiceState>,
    chunks: VecDeque<StreamChunk>,
}

impl Drop for ReplyStream {
    fn drop(&mut self) {
        if !self.chunks.is_empty() {
            *self.state.aborted_replies.lock().expect("no holder of the lock panics") += 1;
            self.state.client_left.notify_all();
        }
    }
}

enum StreamChunk {
    Bytes(Bytes),
    Stall,
    Disconnect,
}

/// An event of a stream.
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

/// A text in two parts, split on a character boundary.
fn halves(text: &str) -> [&str; 2] {
    let middle =
        (0..=text.len() / 2).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0);
    let (first, second) = text.split_at(middle);
    [first, second]
}

fn has_tool_calls(reply_parts: &[ReplyPart]) -> bool {
    reply_parts.iter().any(|it| matches!(it, ReplyPart::ToolCall { .. }))
}
