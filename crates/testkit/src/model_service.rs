//! A model that follows a script, over HTTP: Anthropic's messages and OpenAI's chat completions and responses, each at
//! its own path. It minds what it is sent as the real ones do, and remembers it. It shares no code with our clients.

mod completion_chunks;
mod message_events;
mod objection;
mod response_events;

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

use crate::loopback::{Keeper, Port};
use crate::scripted::recorded_headers;
use crate::served::Recorded;

/// How long a test waits for a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// The only key that is good.
pub const KEY: &str = "sk-canary-0123456789";

/// What is said in an answer, in order.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Words, in one piece each.
    Say(String),
    /// A thought, with something that has to come back.
    Think(String),
    /// A call.
    Call {
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
    BreakOff,
    /// The service says in the stream that it is overloaded.
    Overloaded,
}

impl Piece {
    /// Words.
    pub fn say(text: &str) -> Piece {
        Piece::Say(text.to_owned())
    }

    /// A thought.
    pub fn think(text: &str) -> Piece {
        Piece::Think(text.to_owned())
    }

    /// A call.
    pub fn call(id: &str, tool: &str, arguments: &Value) -> Piece {
        let arguments = arguments.to_string();
        Piece::Call { id: id.to_owned(), tool: tool.to_owned(), arguments }
    }
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is over; with calls in it, they are wanted.
    Done,
    /// It was too long.
    Length,
    /// It was refused.
    Refusal,
    /// The stream ends without a word about it.
    Silence,
}

/// What becomes of one request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// An answer.
    Answer(Vec<Piece>, Ending),
    /// A status, headers and a body instead.
    Refuse {
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
    pub fn answer(pieces: impl IntoIterator<Item = Piece>) -> Reply {
        Reply::Answer(pieces.into_iter().collect(), Ending::Done)
    }

    /// An answer of words.
    pub fn say(text: &str) -> Reply {
        Reply::answer([Piece::say(text)])
    }

    /// A refusal in the shape that the services have.
    pub fn refuse(status: u16, kind: &str, message: &str) -> Reply {
        let body =
            json!({"type": "error", "error": {"type": kind, "code": kind, "message": message}});
        Reply::Refuse { status, headers: Vec::new(), body: body.to_string() }
    }

    /// The same with a header.
    pub fn with(mut self, name: &'static str, value: &str) -> Reply {
        if let Reply::Refuse { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

/// Which of the services is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Messages,
    Completions,
    Responses,
}

/// The service, on a thread of its own. Dropping it ends it and every connection to it.
#[derive(Debug)]
pub struct ModelService {
    origin: String,
    lectern: Arc<Lectern>,
    /// Ends with us.
    _keeper: Keeper,
}

#[derive(Debug)]
struct Lectern {
    replies: Mutex<VecDeque<Reply>>,
    recorded: Mutex<Vec<Recorded>>,
    came: Condvar,
    /// How many answers nobody heard to their end.
    unheard: Mutex<usize>,
    left: Condvar,
    released: Semaphore,
}

impl ModelService {
    /// Starts one that answers so, request by request.
    pub fn start(replies: impl IntoIterator<Item = Reply>) -> io::Result<ModelService> {
        let port = Port::open()?;
        let origin = port.origin.clone();
        let lectern = Arc::new(Lectern {
            replies: Mutex::new(replies.into_iter().collect()),
            recorded: Mutex::default(),
            came: Condvar::new(),
            unheard: Mutex::default(),
            left: Condvar::new(),
            released: Semaphore::new(0),
        });
        let answer = |shape: Shape| {
            post(move |State(lectern): State<Arc<Lectern>>, request: Request| async move {
                lectern.answer(shape, request).await
            })
        };
        let front = Router::new()
            .route("/v1/messages", answer(Shape::Messages))
            .route("/v1/chat/completions", answer(Shape::Completions))
            .route("/v1/responses", answer(Shape::Responses))
            .with_state(Arc::clone(&lectern));
        let keeper = Keeper::serve("model", vec![(port, front)])?;
        Ok(ModelService { origin, lectern, _keeper: keeper })
    }

    /// Where it is, without a path.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Where it is, as OpenAI's clients are told.
    pub fn versioned(&self) -> String {
        format!("{}/v1", self.origin)
    }

    /// Adds to the script.
    pub fn then(&self, reply: Reply) {
        self.lectern.replies().push_back(reply);
    }

    /// Lets one answer that stalls go on.
    pub fn release(&self) {
        self.lectern.released.add_permits(1);
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<Recorded> {
        self.lectern.recorded().clone()
    }

    /// The body of a request, from nought.
    pub fn body(&self, at: usize) -> Value {
        let requests = self.requests();
        let body = requests.get(at).and_then(|it| it.body.clone());
        body.unwrap_or_else(|| panic!("there are {} requests", requests.len()))
    }

    /// Waits until somebody has left in the middle of an answer. Blocks.
    pub fn wait_for_leaving(&self) {
        let unheard = self.lectern.unheard.lock().expect("nobody panics with it");
        let waited = self.lectern.left.wait_timeout_while(unheard, PATIENCE, |it| *it == 0);
        let (_unheard, timeout) = waited.expect("nobody panics with it");
        assert!(!timeout.timed_out(), "nobody left");
    }

    /// Waits until so many requests came. Blocks.
    pub fn wait_for(&self, count: usize) {
        let recorded = self.lectern.recorded();
        let is_less = |it: &mut Vec<Recorded>| it.len() < count;
        let waited = self.lectern.came.wait_timeout_while(recorded, PATIENCE, is_less);
        let (recorded, timeout) = waited.expect("nobody panics with it");
        assert!(!timeout.timed_out(), "only {} requests came", recorded.len());
    }
}

impl Lectern {
    fn replies(&self) -> MutexGuard<'_, VecDeque<Reply>> {
        self.replies.lock().expect("nobody panics with it")
    }

    fn recorded(&self) -> MutexGuard<'_, Vec<Recorded>> {
        self.recorded.lock().expect("nobody panics with it")
    }

    async fn answer(self: Arc<Lectern>, shape: Shape, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
        let body: Option<Value> = serde_json::from_slice(&bytes).ok();
        let recorded = Recorded {
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            headers: recorded_headers(&parts.headers),
            body: body.clone(),
        };
        self.recorded().push(recorded);
        self.came.notify_all();
        let reply = self.replies().pop_front();
        let objection = objection::to(shape, &parts.headers, body.as_ref());
        let reply = match (objection, reply) {
            (Some((status, message)), _) => {
                Reply::refuse(status, "invalid_request_error", &message)
            }
            (None, Some(reply)) => reply,
            (None, None) => Reply::refuse(500, "api_error", "the script is over")
                .with("x-should-retry", "false"),
        };
        match reply {
            Reply::Refuse { status, headers, body } => refusal(status, &headers, body),
            Reply::Raw(text) => events(stream::iter([Ok::<_, io::Error>(Bytes::from(text))])),
            Reply::Answer(pieces, ending) => {
                let frames = match shape {
                    Shape::Messages => message_events::frames(&pieces, ending),
                    Shape::Completions => completion_chunks::frames(&pieces, ending),
                    Shape::Responses => response_events::frames(&pieces, ending),
                };
                self.stream(frames)
            }
        }
    }

    /// Sends frames one by one, each in two pieces: nobody may count on whole ones.
    fn stream(self: Arc<Lectern>, frames: Vec<Frame>) -> Response {
        let halves = frames.into_iter().flat_map(|frame| match frame {
            Frame::Event(text) => {
                let mut bytes = Bytes::from(text);
                let rest = bytes.split_off(bytes.len() / 2);
                vec![Sent::Bytes(bytes), Sent::Bytes(rest)]
            }
            Frame::Stall => vec![Sent::Stall],
            Frame::BreakOff => vec![Sent::BreakOff],
        });
        let halves: VecDeque<Sent> = halves.collect();
        let speech = Speech { lectern: self, halves };
        let flow = stream::unfold(speech, |mut speech| async move {
            loop {
                match speech.halves.pop_front()? {
                    Sent::Bytes(bytes) => {
                        // Each piece leaves by itself.
                        tokio::task::yield_now().await;
                        return Some((Ok(bytes), speech));
                    }
                    Sent::Stall => {
                        // While it is waited for, there is more to say.
                        speech.halves.push_front(Sent::Stall);
                        let permit = speech.lectern.released.acquire().await;
                        permit.expect("it is never closed").forget();
                        speech.halves.pop_front();
                    }
                    Sent::BreakOff => {
                        speech.halves.clear();
                        // What was sent before is to arrive.
                        for _ in 0..100 {
                            tokio::task::yield_now().await;
                        }
                        return Some((Err(io::Error::other("as the script says")), speech));
                    }
                }
            }
        });
        events(flow)
    }
}

/// An answer that is being given.
struct Speech {
    lectern: Arc<Lectern>,
    halves: VecDeque<Sent>,
}

impl Drop for Speech {
    fn drop(&mut self) {
        if !self.halves.is_empty() {
            *self.lectern.unheard.lock().expect("nobody panics with it") += 1;
            self.lectern.left.notify_all();
        }
    }
}

enum Sent {
    Bytes(Bytes),
    Stall,
    BreakOff,
}

/// What goes over the wire.
enum Frame {
    Event(String),
    Stall,
    BreakOff,
}

fn events(
    flow: impl futures_util::Stream<Item = Result<Bytes, io::Error>> + Send + 'static,
) -> Response {
    Response::builder()
        .header("content-type", "text/event-stream; charset=utf-8")
        .body(Body::from_stream(flow))
        .expect("the parts are good")
}

fn refusal(status: u16, headers: &[(&'static str, String)], body: String) -> Response {
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

fn has_calls(pieces: &[Piece]) -> bool {
    pieces.iter().any(|it| matches!(it, Piece::Call { .. }))
}
