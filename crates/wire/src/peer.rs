//! One side of a connection: asks, answers, and matches answers to questions.
//! One task owns the link. A call goes through it, or past it where the link has a shortcut.

mod attribution;
mod call;
mod driver;
mod error;
mod incoming;
mod pending;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::jsonrpc::message::{Message, Payload};
use crate::transport::{CloseReason, FastPath, OutgoingMessage, Transport};

pub use attribution::{Attribution, CallOwner, Propagation, RequestHandler};
pub(crate) use call::CallTimeout;
pub use call::{Call, CallFuture};
pub use error::{CallError, Delivery};
pub use incoming::{IncomingRequest, RequestNotifier};
pub use pending::Progress;
use pending::{PendingCall, PendingCalls};

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

/// What callers ask of the task.
#[derive(Debug)]
enum Command {
    Call { number: u64, outgoing: OutgoingMessage, pending: PendingCall },
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
