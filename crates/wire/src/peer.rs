//! One side of a JSON-RPC connection: sends requests, receives requests, and matches responses to calls.
//! One task owns the transport. A call goes through that task, or past it if the transport has a fast path.

mod attribution;
mod call;
mod driver;
mod error;
mod incoming;
mod pending;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::jsonrpc::message::{Message, Payload};
use crate::transport::{CloseReason, FastPath, OutgoingMessage, Transport};
use pending::{PendingCall, PendingCalls};

pub use attribution::{Attribution, CallOwner, Propagation, RequestHandler};
pub(crate) use call::CallTimeout;
pub use call::{Call, CallFuture};
pub use error::{CallError, Delivery};
pub use incoming::{IncomingRequest, RequestNotifier};
pub use pending::Progress;

/// How many calls and notifications may wait for the task.
const COMMAND_QUEUE: usize = 256;
/// How many of our responses may wait for the task.
const RESPONSE_QUEUE: usize = 256;
/// How many received requests and notifications may wait for their receiver.
const EVENT_QUEUE: usize = 256;

/// A handle to a connection. Clones share it; the connection closes when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Peer(Arc<PeerState>);

/// The state that clones share: one reference count per call instead of one per field.
#[derive(Debug)]
struct PeerState {
    commands: mpsc::Sender<Command>,
    // Bounded by the pending calls, each of which sends at most one, and by the calls of `close`.
    cancellations: mpsc::UnboundedSender<Cancellation>,
    next_number: AtomicU64,
    /// How many received requests have no response yet.
    open_requests: Arc<AtomicUsize>,
    close_reason: watch::Receiver<Option<CloseReason>>,
    first_malformed: Arc<OnceLock<String>>,
    /// How many received notifications were dropped so far.
    dropped_notifications: Arc<AtomicU64>,
    carries_headers: bool,
    pending_calls: Arc<PendingCalls>,
    fast_path: Option<Arc<dyn FastPath>>,
}

/// A connection that was just opened.
#[derive(Debug)]
pub struct SpawnedPeer {
    /// Sends requests and notifications.
    pub peer: Peer,
    /// Received requests and notifications. If the queue is full, requests are rejected and notifications dropped;
    /// both are counted.
    pub events: mpsc::Receiver<PeerEvent>,
    /// The task that owns the transport; it ends with the connection. Await it.
    pub task: JoinHandle<Statistics>,
}

/// A request or notification from the peer.
#[derive(Debug)]
pub enum PeerEvent {
    /// A request.
    Request(IncomingRequest),
    /// A notification.
    Notification {
        /// The method.
        method: Cow<'static, str>,
        /// Its parameters.
        params: Option<Payload>,
    },
}

/// Counts of protocol violations and losses on one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Messages that could not be parsed.
    pub malformed_messages: u64,
    /// Responses that match no pending call: late, duplicate, or with an unknown id.
    pub unmatched_responses: u64,
    /// Notifications and responses of ours that could not be delivered.
    pub undelivered: u64,
    /// Notifications dropped because the event queue was full.
    pub dropped_notifications: u64,
    /// Requests rejected because the event queue was full.
    pub rejected_requests: u64,
    /// Responses to pings, and rejections, dropped because the peer does not read.
    pub dropped_responses: u64,
}

/// Work that callers hand to the task.
#[derive(Debug)]
enum Command {
    Call { number: u64, outgoing: OutgoingMessage, pending: PendingCall },
    Send(Message),
}

/// Something that ends early.
#[derive(Debug)]
enum Cancellation {
    /// A call that timed out or whose caller dropped it.
    Call { number: u64, reason: &'static str },
    /// The whole connection.
    Connection,
}

impl Peer {
    /// Spawns the task that owns the transport. Must be called inside a runtime.
    pub fn spawn<L: Transport>(transport: L) -> SpawnedPeer {
        let (commands, from_callers) = mpsc::channel(COMMAND_QUEUE);
        let (cancellations, from_cancellations) = mpsc::unbounded_channel();
        let (event_sender, events) = mpsc::channel(EVENT_QUEUE);
        let (closed_sender, close_reason) = watch::channel(None);
        let (responses, from_responses) = mpsc::channel(RESPONSE_QUEUE);
        let open_requests: Arc<AtomicUsize> = Arc::default();
        let first_malformed: Arc<OnceLock<String>> = Arc::default();
        let dropped_notifications: Arc<AtomicU64> = Arc::default();
        let outputs = driver::DriverOutputs {
            events: event_sender,
            responses,
            open_requests: open_requests.clone(),
            close_reason: closed_sender,
            first_malformed: first_malformed.clone(),
            dropped_notifications: dropped_notifications.clone(),
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
        let shared = PeerState {
            commands,
            cancellations,
            next_number,
            open_requests,
            close_reason,
            first_malformed,
            dropped_notifications,
            carries_headers,
            pending_calls,
            fast_path,
        };
        SpawnedPeer { peer: Peer(Arc::new(shared)), events, task }
    }

    /// Builds a call: `peer.call("tools/list").params(p).timeout(d).await`.
    pub fn call(&self, method: impl Into<Cow<'static, str>>) -> Call {
        let number = self.0.next_number.fetch_add(1, Ordering::Relaxed);
        Call::new(self.clone(), number, method.into())
    }

    /// Sends a notification. Waits only while the queue is full.
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

    /// Closes the connection for all clones. Queued messages are still sent; pending calls fail.
    pub fn close(&self) {
        let _closed_already = self.0.cancellations.send(Cancellation::Connection);
    }

    /// Whether the transport sends headers to the peer.
    pub fn carries_headers(&self) -> bool {
        self.0.carries_headers
    }

    /// Waits until the connection is closed.
    pub async fn closed(&self) -> CloseReason {
        let mut close_reason = self.0.close_reason.clone();
        match close_reason.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or(CloseReason::Closed),
            Err(_) => CloseReason::Closed,
        }
    }

    /// Whether the peer waits for a response of ours.
    fn has_open_requests(&self) -> bool {
        self.0.open_requests.load(Ordering::Relaxed) > 0
    }

    /// The start of the first input that was not a message: at most 200 bytes, as the other side sent them.
    pub fn first_malformed(&self) -> Option<&str> {
        self.0.first_malformed.get().map(String::as_str)
    }

    /// How many received notifications were dropped so far, because they came faster than they were taken.
    pub fn dropped_notifications(&self) -> u64 {
        self.0.dropped_notifications.load(Ordering::Relaxed)
    }

    fn close_reason(&self) -> CloseReason {
        self.0.close_reason.borrow().clone().unwrap_or(CloseReason::Closed)
    }
}
