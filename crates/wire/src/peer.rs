//! One side of a connection: asks, answers, and matches answers to questions.
//! One task owns the link. A call goes through it, or past it where the link has a shortcut.

mod attribution;
mod call;
mod driver;
mod pending;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::jsonrpc::message::{Message, Payload, RequestId, RpcError};
use crate::transport::{CloseReason, FastPath, OutgoingMessage, Transport};
use crate::transport_error::TransportError;

pub use attribution::{Attribution, CallOwner, Propagation};
pub use call::{Call, CallFuture, Progress};
use pending::PendingCalls;

/// How many questions may wait for the task to take them.
const COMMAND_QUEUE: usize = 256;
/// How many of our answers may wait for the task to take them.
const RESPONSE_QUEUE: usize = 256;
/// How many things the other side said may wait for somebody to hear them.
const EVENT_QUEUE: usize = 256;

/// A handle on a connection. Clones share it; the connection ends when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Peer(Arc<Shared>);

/// What clones of a handle share: one count to keep for each call instead of one for each part.
#[derive(Debug)]
struct Shared {
    commands: mpsc::Sender<Command>,
    // Bounded by the calls under way, each of which sends at most one, and by those who hang up.
    cancellations: mpsc::UnboundedSender<Cancellation>,
    next_number: AtomicU64,
    /// How many questions of the other side wait for somebody here.
    open_requests: Arc<AtomicUsize>,
    close_reason: watch::Receiver<Option<CloseReason>>,
    carries_headers: bool,
    pending_calls: Arc<PendingCalls>,
    fast_path: Option<Arc<dyn FastPath>>,
}

/// A connection that has just begun.
#[derive(Debug)]
pub struct SpawnedPeer {
    /// For asking and saying.
    pub peer: Peer,
    /// What the other side asks and says. Somebody must listen: what finds no room is refused or dropped,
    /// and counted.
    pub events: mpsc::Receiver<PeerEvent>,
    /// The task that owns the link; it ends with the connection. Await it.
    pub task: JoinHandle<Statistics>,
}

/// What the other side wants.
#[derive(Debug)]
pub enum PeerEvent {
    /// It asks something.
    Request(IncomingRequest),
    /// It says something.
    Notification {
        /// The method.
        method: Cow<'static, str>,
        /// Its parameters.
        params: Option<Payload>,
    },
}

/// A question of the other side. Dropped without an answer, it is answered with an error.
#[derive(Debug)]
pub struct IncomingRequest {
    /// The question's id, as a cancellation would name it.
    pub id: RequestId,
    /// The method.
    pub method: Cow<'static, str>,
    /// Its parameters.
    pub params: Option<Payload>,
    /// On whose account it is asked, as far as one can tell.
    pub attribution: Attribution,
    responses: Option<mpsc::Sender<Message>>,
    _open_guard: OpenRequestGuard,
}

/// Counts a question for as long as it waits.
#[derive(Debug)]
struct OpenRequestGuard(Arc<AtomicUsize>);

impl OpenRequestGuard {
    fn new(open: &Arc<AtomicUsize>) -> OpenRequestGuard {
        open.fetch_add(1, Ordering::Relaxed);
        OpenRequestGuard(open.clone())
    }
}

impl Drop for OpenRequestGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Says things about a question before its answer, in order.
#[derive(Debug, Clone)]
pub struct RequestNotifier(Option<mpsc::Sender<Message>>);

/// What was odd about a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Lines that were no message.
    pub malformed_messages: u64,
    /// Answers that nobody waited for: late, double, or with an id that was never used.
    pub unmatched_responses: u64,
    /// Notifications and answers of ours that could not be delivered.
    pub undelivered: u64,
    /// Notifications that found no room.
    pub dropped_notifications: u64,
    /// Questions that found no room and were refused.
    pub rejected_requests: u64,
    /// Answers to pings and refusals that were dropped because the other side does not read.
    pub dropped_responses: u64,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// The other side answered with an error.
    #[error(transparent)]
    Remote(#[from] RpcError),
    /// No answer came in time; the other side was told to stop.
    #[error("no answer came within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The question was not delivered, or its answer can no longer come; the connection lives on.
    #[error("the question got no answer")]
    Transport(#[source] TransportError),
    /// The connection ended first. `sent` says whether the question may have reached the other side.
    #[error("the connection ended before the answer came")]
    Closed {
        /// How it ended.
        #[source]
        reason: CloseReason,
        /// Had the question left us?
        delivery: Delivery,
    },
}

/// Whether a question may have reached the other side: what never left can be asked again safely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It never left.
    NotSent,
    /// It may have.
    Unknown,
}

/// What callers ask of the task.
#[derive(Debug)]
enum Command {
    Call { number: u64, outgoing: OutgoingMessage, pending: call::PendingCall },
    Send(Message),
}

/// Who does not wait any more.
#[derive(Debug)]
enum Cancellation {
    /// A call whose caller is gone.
    Call { number: u64, reason: &'static str },
    /// Everybody: the connection is to end.
    Connection,
}

impl Peer {
    /// Begins to talk over a link. Must be called inside a runtime.
    pub fn spawn<L: Transport>(transport: L) -> SpawnedPeer {
        let (commands, from_callers) = mpsc::channel(COMMAND_QUEUE);
        let (cancellations, from_cancellations) = mpsc::unbounded_channel();
        let (to_listener, events) = mpsc::channel(EVENT_QUEUE);
        let (closed_sender, end) = watch::channel(None);
        let (responses, from_responses) = mpsc::channel(RESPONSE_QUEUE);
        let open: Arc<AtomicUsize> = Arc::default();
        let outputs = driver::DriverOutputs {
            events: to_listener,
            responses,
            open_requests: open.clone(),
            close_reason: closed_sender,
        };
        let pending_calls: Arc<PendingCalls> = Arc::default();
        let fast_path = transport.fast_path();
        let driver = driver::Driver::new(transport, pending_calls.clone(), outputs);
        let inputs = driver::DriverInputs {
            commands: from_callers,
            responses: from_responses,
            cancellations: from_cancellations,
        };
        let task = tokio::spawn(driver.run(inputs));
        let next_number = AtomicU64::new(1);
        let carries_headers = L::CARRIES_HEADERS;
        let shared = Shared {
            commands,
            cancellations,
            next_number,
            open_requests: open,
            close_reason: end,
            carries_headers,
            pending_calls,
            fast_path,
        };
        SpawnedPeer { peer: Peer(Arc::new(shared)), events, task }
    }

    /// A call to be made: `peer.call("tools/list").params(p).within(d).await`.
    pub fn call(&self, method: impl Into<Cow<'static, str>>) -> Call {
        let number = self.0.next_number.fetch_add(1, Ordering::Relaxed);
        Call::new(self.clone(), number, method.into())
    }

    /// Says something that wants no answer. Waits only while the queue is full.
    pub async fn notify(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: Option<Payload>,
    ) -> Result<(), CallError> {
        let message = Message::Notification { method: method.into(), params };
        let sent = self.0.commands.send(Command::Send(message)).await;
        sent.map_err(|_| CallError::Closed {
            reason: self.close_reason(),
            delivery: Delivery::NotSent,
        })
    }

    /// Ends the connection for everybody who holds it; what waits to be sent still leaves, calls under way fail.
    pub fn close(&self) {
        let _ended_already = self.0.cancellations.send(Cancellation::Connection);
    }

    /// Do headers beside a call reach the other side?
    pub fn carries_headers(&self) -> bool {
        self.0.carries_headers
    }

    /// Waits until the connection has ended.
    pub async fn closed(&self) -> CloseReason {
        let mut end = self.0.close_reason.clone();
        match end.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or(CloseReason::Closed),
            Err(_) => CloseReason::Closed,
        }
    }

    /// Does the other side wait for an answer of ours?
    fn has_open_requests(&self) -> bool {
        self.0.open_requests.load(Ordering::Relaxed) > 0
    }

    fn close_reason(&self) -> CloseReason {
        self.0.close_reason.borrow().clone().unwrap_or(CloseReason::Closed)
    }
}

impl IncomingRequest {
    /// Answers with a result.
    pub async fn respond(mut self, result: Payload) {
        self.send_response(Ok(result)).await;
    }

    /// Answers with an error.
    pub async fn reject(mut self, error: RpcError) {
        self.send_response(Err(error)).await;
    }

    /// A way to say things about the question. What is said goes out before the answer does.
    pub fn notifier(&self) -> RequestNotifier {
        RequestNotifier(self.responses.clone())
    }

    /// Leaves the question without any answer: the other side took it back.
    pub fn discard(mut self) {
        self.responses = None;
    }

    async fn send_response(&mut self, outcome: Result<Payload, RpcError>) {
        if let Some(sender) = self.responses.take() {
            let message = Message::Response { id: Some(self.id.clone()), outcome };
            let _connection_over = sender.send(message).await;
        }
    }
}

impl RequestNotifier {
    /// Says something that wants no answer. Waits only while the queue is full.
    pub async fn notify(&self, method: impl Into<Cow<'static, str>>, params: Option<Payload>) {
        if let Some(responses) = &self.0 {
            let message = Message::Notification { method: method.into(), params };
            let _connection_over = responses.send(message).await;
        }
    }
}

impl Drop for IncomingRequest {
    fn drop(&mut self) {
        if let Some(sender) = self.responses.take() {
            let error = RpcError {
                code: -32603,
                message: "the question was dropped without an answer".to_owned(),
                data: None,
            };
            let message = Message::Response { id: Some(self.id.clone()), outcome: Err(error) };
            let _queue_full_or_over = sender.try_send(message);
        }
    }
}
