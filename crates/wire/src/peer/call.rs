//! One call: its request, its timeout, and its cancellation.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use tokio::sync::mpsc::error::{SendError, TrySendError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep};
use tracing::{debug, trace};

use super::attribution::CallOwner;
use super::error::{CallError, Delivery};
use super::pending::{CallEnding, CallOutcome, PendingCall, Progress};
use super::{Cancellation, Command, Peer};
use crate::jsonrpc::message::{Message, Payload, RequestId, log_method};
use crate::transport::{FastPathOutcome, OutgoingMessage};

/// Progress beyond this is dropped: the next notification supersedes it.
const PROGRESS_QUEUE: usize = 16;

/// A call that has not been sent yet. Await it to send it; dropping the future cancels the call.
#[derive(Debug)]
#[must_use = "a call does nothing until it is awaited"]
pub struct Call {
    peer: Peer,
    number: u64,
    method: Cow<'static, str>,
    params: Option<Payload>,
    headers: Option<Box<HeaderMap>>,
    timeout: CallTimeout,
    progress_sender: Option<mpsc::Sender<Progress>>,
    owner: Option<Arc<dyn CallOwner>>,
}

/// The timeout of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallTimeout {
    /// Until the connection closes.
    None,
    /// From the start of the call.
    Total(Duration),
    /// From the last progress notification.
    Progress(Duration),
    /// From the start of the call, not counting the time in which the peer waits for a response of ours.
    Server(Duration),
}

impl Call {
    pub(super) fn new(peer: Peer, number: u64, method: Cow<'static, str>) -> Call {
        let timeout = CallTimeout::None;
        let (params, headers, progress_sender, owner) = (None, None, None, None);
        Call { peer, number, method, params, headers, timeout, progress_sender, owner }
    }

    /// The number of the call, which is also its progress token.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Sets the parameters.
    pub fn params(mut self, params: Payload) -> Call {
        self.params = Some(params);
        self
    }

    /// Sets headers, for transports that have them.
    pub fn headers(mut self, headers: HeaderMap) -> Call {
        self.headers = Some(Box::new(headers));
        self
    }

    /// Fails the call after this time.
    pub fn timeout(mut self, timeout: Duration) -> Call {
        self.timeout = CallTimeout::Total(timeout);
        self
    }

    /// Fails the call when no progress arrived for this time. It does not fail while the peer waits for a
    /// response of ours.
    pub fn progress_timeout(mut self, timeout: Duration) -> Call {
        self.timeout = CallTimeout::Progress(timeout);
        self
    }

    /// Fails the call after this time, but not while the peer waits for a response of ours.
    pub fn server_timeout(mut self, timeout: Duration) -> Call {
        self.timeout = CallTimeout::Server(timeout);
        self
    }

    /// Sets any kind of timeout.
    pub(crate) fn timeout_policy(mut self, timeout: CallTimeout) -> Call {
        self.timeout = timeout;
        self
    }

    /// Sets the owner, which receives the notifications and answers the requests that belong to the call.
    pub fn owner(mut self, owner: Arc<dyn CallOwner>) -> Call {
        self.owner = Some(owner);
        self
    }

    /// Sends progress notifications to a channel.
    pub fn progress_sender(mut self, progress_sender: mpsc::Sender<Progress>) -> Call {
        self.progress_sender = Some(progress_sender);
        self
    }
}

impl IntoFuture for Call {
    type Output = Result<Payload, CallError>;
    type IntoFuture = CallFuture;

    fn into_future(self) -> CallFuture {
        let Call { peer, number, method, params, headers, timeout, progress_sender, owner } = self;
        let (response_sender, response) = oneshot::channel();
        let has_progress = progress_sender.is_some() || matches!(timeout, CallTimeout::Progress(_));
        let (progress, progress_updates) = match has_progress {
            true => {
                let (sender, receiver) = mpsc::channel(PROGRESS_QUEUE);
                (Some(sender), Some(receiver))
            }
            false => (None, None),
        };
        let message = Message::Request { id: RequestId::Number(number), method, params };
        let pending = PendingCall { response: response_sender, progress, owner };
        let stage = Stage::New(OutgoingMessage { message, headers }, pending);
        CallFuture {
            peer,
            number,
            stage,
            response,
            timeout,
            deadline: None,
            progress_updates,
            progress_sender,
        }
    }
}

/// A call in progress. Dropping it cancels the call.
///
/// Written by hand instead of as a boxed `async` block, because most calls only wait for their response.
#[derive(Debug)]
#[must_use = "a call does nothing until it is awaited"]
pub struct CallFuture {
    peer: Peer,
    number: u64,
    stage: Stage,
    response: oneshot::Receiver<CallOutcome>,
    timeout: CallTimeout,
    /// When the call times out. Set at the first poll if there is a timeout.
    deadline: Option<Pin<Box<Sleep>>>,
    progress_updates: Option<mpsc::Receiver<Progress>>,
    progress_sender: Option<mpsc::Sender<Progress>>,
}

/// The progress of a call.
enum Stage {
    /// Not sent.
    New(OutgoingMessage, PendingCall),
    /// Sent past the task; this future sends the request and reads the response.
    FastPath(BoxFuture<'static, FastPathOutcome>),
    /// Waits for room in the queue of the task.
    Queued(Pin<Box<dyn Future<Output = Result<(), SendError<Command>>> + Send>>),
    /// Handed to the task.
    Sent,
    /// Completed.
    Done,
}

impl Future for CallFuture {
    type Output = Result<Payload, CallError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let call = &mut *self;
        loop {
            match &mut call.stage {
                Stage::New(..) => call.start()?,
                Stage::FastPath(attempt) => match attempt.as_mut().poll(task) {
                    Poll::Ready(FastPathOutcome::HandedOff) => call.stage = Stage::Sent,
                    Poll::Ready(FastPathOutcome::Response(outcome)) => {
                        call.finish();
                        return Poll::Ready(outcome.map_err(CallError::from));
                    }
                    Poll::Ready(FastPathOutcome::Failed(error)) => {
                        call.finish();
                        let (kind, status) = (error.log_label(), error.status());
                        debug!(error = kind, status, "message not delivered");
                        return Poll::Ready(Err(CallError::Transport(error)));
                    }
                    // The connection may close in the meantime.
                    Poll::Pending => return call.poll_response(task),
                },
                Stage::Queued(sending) => match sending.as_mut().poll(task) {
                    Poll::Ready(Ok(())) => call.stage = Stage::Sent,
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(call.not_sent())),
                    Poll::Pending => return call.poll_deadline(task),
                },
                Stage::Sent => return call.poll_response(task),
                Stage::Done => panic!("a call that has ended was polled again"),
            }
        }
    }
}

impl CallFuture {
    fn start(&mut self) -> Result<(), CallError> {
        let Stage::New(outgoing, pending) = mem::replace(&mut self.stage, Stage::Sent) else {
            return Ok(());
        };
        self.deadline = self.timeout.duration().map(|limit| Box::pin(sleep(limit)));
        if let Message::Request { method, .. } = &outgoing.message {
            trace!(number = self.number, method = log_method(method), "request sent");
        }
        let shared = &self.peer.0;
        let number = self.number;
        let attempt = match &shared.fast_path {
            Some(fast_path) => fast_path.clone().try_send(outgoing),
            None => Err(outgoing),
        };
        let outgoing = match attempt {
            Ok(attempt) => {
                shared.pending_calls.insert(number, pending);
                self.stage = Stage::FastPath(attempt);
                // The task closes this channel before it fails the pending calls.
                if shared.commands.is_closed() {
                    self.finish();
                    return Err(self.not_sent());
                }
                return Ok(());
            }
            Err(outgoing) => outgoing,
        };
        match shared.commands.try_send(Command::Call { number, outgoing, pending }) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(command)) => {
                let commands = self.peer.0.commands.clone();
                let sending = async move { commands.send(command).await };
                self.stage = Stage::Queued(Box::pin(sending));
                Ok(())
            }
            Err(TrySendError::Closed(_)) => Err(self.not_sent()),
        }
    }

    /// Completes a call whose response did not pass through the task.
    fn finish(&mut self) {
        self.stage = Stage::Done;
        let _ours = self.peer.0.pending_calls.remove(self.number, CallEnding::Answered);
    }

    fn poll_response(&mut self, task: &mut Context<'_>) -> Poll<Result<Payload, CallError>> {
        if let Poll::Ready(response) = Pin::new(&mut self.response).poll(task) {
            // Progress may have arrived together with the response.
            self.forward_progress(task);
            self.stage = Stage::Done;
            return Poll::Ready(self.outcome(response.ok()));
        }
        self.forward_progress(task);
        self.poll_deadline(task)
    }

    fn not_sent(&mut self) -> CallError {
        self.stage = Stage::Done;
        CallError::Closed { reason: self.peer.close_reason(), delivery: Delivery::NotSent }
    }

    fn outcome(&self, response: Option<CallOutcome>) -> Result<Payload, CallError> {
        match response {
            Some(CallOutcome::Response(outcome)) => outcome.map_err(CallError::from),
            Some(CallOutcome::Transport(error)) => Err(CallError::Transport(error)),
            Some(CallOutcome::Closed(reason)) => {
                Err(CallError::Closed { reason, delivery: Delivery::Unknown })
            }
            None => Err(CallError::Closed {
                reason: self.peer.close_reason(),
                delivery: Delivery::Unknown,
            }),
        }
    }

    /// Forwards progress, and restarts a progress timeout.
    fn forward_progress(&mut self, task: &mut Context<'_>) {
        while let Some(progress_updates) = &mut self.progress_updates
            && let Poll::Ready(update) = progress_updates.poll_recv(task)
        {
            let Some(update) = update else {
                self.progress_updates = None;
                return;
            };
            if let (CallTimeout::Progress(limit), Some(deadline)) =
                (self.timeout, &mut self.deadline)
            {
                deadline.as_mut().reset(Instant::now() + limit);
            }
            if let Some(progress_sender) = &self.progress_sender {
                let _full_or_closed = progress_sender.try_send(update);
            }
        }
    }

    fn poll_deadline(&mut self, task: &mut Context<'_>) -> Poll<Result<Payload, CallError>> {
        let (Some(deadline), Some(limit)) = (&mut self.deadline, self.timeout.duration()) else {
            return Poll::Pending;
        };
        while deadline.as_mut().poll(task).is_ready() {
            // The peer waits for a response of ours, which may take a user any time.
            if matches!(self.timeout, CallTimeout::Total(_)) || !self.peer.has_open_requests() {
                return self.time_out(limit);
            }
            deadline.as_mut().reset(Instant::now() + limit);
        }
        Poll::Pending
    }

    fn time_out(&mut self, limit: Duration) -> Poll<Result<Payload, CallError>> {
        debug!(number = self.number, "request timed out");
        self.cancel("the request timed out");
        Poll::Ready(Err(CallError::Timeout(limit)))
    }

    /// Tells the task that the caller does not wait any more. The response channel closes first, so that a request
    /// which the task has not taken yet is never sent.
    fn cancel(&mut self, reason: &'static str) {
        if let Stage::Sent | Stage::FastPath(_) = mem::replace(&mut self.stage, Stage::Done) {
            self.response.close();
            let cancellation = Cancellation::Call { number: self.number, reason };
            let _connection_closed = self.peer.0.cancellations.send(cancellation);
        }
    }
}

impl Drop for CallFuture {
    fn drop(&mut self) {
        self.cancel("the caller cancelled the request");
    }
}

/// Omits the parameters.
impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::New(..) => "New",
            Stage::FastPath(_) => "FastPath",
            Stage::Queued(_) => "Queued",
            Stage::Sent => "Sent",
            Stage::Done => "Done",
        })
    }
}

impl CallTimeout {
    fn duration(self) -> Option<Duration> {
        match self {
            CallTimeout::None => None,
            CallTimeout::Total(limit)
            | CallTimeout::Progress(limit)
            | CallTimeout::Server(limit) => Some(limit),
        }
    }
}
