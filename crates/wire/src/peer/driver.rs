//! The task of a peer: owns the transport and completes pending calls.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::{Span, debug, info, trace};

use super::attribution::{Attribution, Propagation};
use super::incoming::{IncomingRequest, OpenRequestGuard};
use super::pending::{CallEnding, CallOutcome, MessageKind, PendingCalls, Progress};
use super::{Cancellation, Command, PeerEvent, Statistics};
use crate::jsonrpc::message::{Message, Payload, RequestId, RpcError, log_method};
use crate::transport::{CloseReason, Transport, TransportEvent};
use crate::transport_error::TransportError;

/// While more bytes than this are queued, callers wait.
const HIGH_WATER: usize = 1024 * 1024;

/// While more bytes than this are queued, automatic responses are dropped.
const RESPONSE_LIMIT: usize = 2 * HIGH_WATER;
/// How long the last messages may take to be sent.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The channels that the task reads.
pub(super) struct DriverInputs {
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) responses: mpsc::Receiver<Message>,
    pub(super) cancellations: mpsc::UnboundedReceiver<Cancellation>,
}

/// The channels that the task writes to.
pub(super) struct DriverOutputs {
    pub(super) events: mpsc::Sender<PeerEvent>,
    /// Responses to received requests.
    pub(super) responses: mpsc::Sender<Message>,
    /// How many received requests have no response yet.
    pub(super) open_requests: Arc<AtomicUsize>,
    pub(super) close_reason: watch::Sender<Option<CloseReason>>,
    /// The start of the first input that was not a message.
    pub(super) first_malformed: Arc<OnceLock<String>>,
    /// Notifications that did not fit into the event queue, while the connection lasts.
    pub(super) dropped_notifications: Arc<AtomicU64>,
}

pub(super) struct Driver<L> {
    transport: L,
    pending_calls: Arc<PendingCalls>,
    outputs: DriverOutputs,
    statistics: Statistics,
    /// The span in which the connection was opened, for all events of the task.
    span: Span,
}

impl<L: Transport> Driver<L> {
    pub(super) fn new(
        transport: L,
        pending_calls: Arc<PendingCalls>,
        outputs: DriverOutputs,
    ) -> Driver<L> {
        let statistics = Statistics::default();
        Driver { transport, pending_calls, outputs, statistics, span: Span::current() }
    }

    pub(super) async fn run(mut self, inputs: DriverInputs) -> Statistics {
        let DriverInputs { mut commands, mut responses, mut cancellations } = inputs;
        let reason = loop {
            let has_room = self.transport.queued_bytes() < HIGH_WATER;
            // A call of the peer may wait for our response, so responses do not wait behind calls.
            let has_room_for_responses = self.transport.queued_bytes() < RESPONSE_LIMIT;
            tokio::select! {
                command = commands.recv(), if has_room => match command {
                    Some(command) => {
                        self.execute(command);
                        self.execute_queued(&mut commands);
                    }
                    // All handles were dropped.
                    None => break self.shutdown().await,
                },
                Some(response) = responses.recv(), if has_room_for_responses => {
                    self.transport.push(response.into());
                }
                Some(cancellation) = cancellations.recv() => match cancellation {
                    Cancellation::Call { number, reason } => self.cancel(number, reason),
                    Cancellation::Connection => {
                        self.execute_queued(&mut commands);
                        while let Ok(response) = responses.try_recv() {
                            self.transport.push(response.into());
                        }
                        break self.shutdown().await;
                    }
                },
                arrival = self.transport.next() => match arrival {
                    Ok(TransportEvent::Message(message)) => self.receive(message, None),
                    Ok(TransportEvent::RelatedMessage { request_id, message }) => self.receive(message, Some(&request_id)),
                    Ok(TransportEvent::DeliveryFailed { id, error }) => self.on_delivery_failed(id, error),
                    Ok(TransportEvent::Malformed(malformed)) => {
                        debug!(parent: &self.span, error = %malformed.error, "malformed message ignored");
                        self.statistics.malformed_messages += 1;
                        if !malformed.excerpt.is_empty() {
                            let _not_the_first = self.outputs.first_malformed.set(malformed.excerpt);
                        }
                    }
                    Err(reason) => break reason,
                },
            }
        };
        info!(parent: &self.span, reason = reason.log_label(), "connection closed");
        self.outputs.close_reason.send_replace(Some(reason.clone()));
        commands.close();
        for pending in self.pending_calls.drain() {
            let _caller_left = pending.response.send(CallOutcome::Closed(reason.clone()));
        }
        self.statistics
    }

    /// Sends the queued messages.
    async fn shutdown(&mut self) -> CloseReason {
        let _timed_out = timeout(SHUTDOWN_TIMEOUT, self.transport.shutdown()).await;
        CloseReason::Closed
    }

    /// Takes all queued commands, so that many messages leave in one write.
    fn execute_queued(&mut self, commands: &mut mpsc::Receiver<Command>) {
        while self.transport.queued_bytes() < HIGH_WATER {
            match commands.try_recv() {
                Ok(command) => self.execute(command),
                Err(_) => return,
            }
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Call { number, outgoing, pending } => {
                if pending.response.is_closed() {
                    return;
                }
                self.pending_calls.insert(number, pending);
                self.transport.push(outgoing);
            }
            Command::Send(message) => {
                if let Message::Notification { method, .. } = &message {
                    trace!(parent: &self.span, method = log_method(method), "notification sent");
                }
                self.transport.push(message.into());
            }
        }
    }

    /// Cancels a call that is still pending. Its response may have arrived in the meantime.
    fn cancel(&mut self, number: u64, reason: &str) {
        if self.pending_calls.remove(number, CallEnding::Cancelled).is_none() {
            return;
        }
        let params = json!({"requestId": number, "reason": reason});
        let params = Payload::from_json(params.to_string().into());
        let method = Cow::Borrowed("notifications/cancelled");
        self.transport.push(Message::Notification { method, params: Some(params) }.into());
    }

    fn receive(&mut self, message: Message, related_to: Option<&RequestId>) {
        match message {
            Message::Response { id, outcome } => self.complete(id, CallOutcome::Response(outcome)),
            Message::Notification { method, params } => {
                trace!(parent: &self.span, method = log_method(&method), "notification received");
                self.on_notification(method, params, related_to)
            }
            Message::Request { id, method, params } => {
                trace!(parent: &self.span, method = log_method(&method), "request received");
                let attribution = self.pending_calls.attribute(related_to, MessageKind::Request);
                self.on_request(id, method, params, attribution);
            }
        }
    }

    fn on_delivery_failed(&mut self, id: Option<RequestId>, error: TransportError) {
        let status = error.status();
        debug!(parent: &self.span, error = error.log_label(), status, "message not delivered");
        self.complete(id, CallOutcome::Transport(error));
    }

    fn complete(&mut self, id: Option<RequestId>, call_outcome: CallOutcome) {
        let pending = match id {
            Some(RequestId::Number(number)) => {
                self.pending_calls.remove(number, CallEnding::Answered)
            }
            Some(RequestId::Other(_)) | None => None,
        };
        match (pending, call_outcome) {
            (Some(pending), call_outcome) => {
                let _caller_left = pending.response.send(call_outcome);
            }
            (None, CallOutcome::Transport(_)) => self.statistics.undelivered += 1,
            (None, CallOutcome::Response(_) | CallOutcome::Closed(_)) => {
                self.statistics.unmatched_responses += 1
            }
        }
    }

    fn on_notification(
        &mut self,
        method: Cow<'static, str>,
        params: Option<Payload>,
        related_to: Option<&RequestId>,
    ) {
        if method == "notifications/progress"
            && let Some(params) = &params
            && let Some(number) = progress_token(params)
            && let Some(progress_sender) = self.pending_calls.peek(number, |it| it.progress.clone())
        {
            if let Some(progress) = progress_sender {
                let _no_room = progress.try_send(Progress(params.clone()));
            }
            return;
        }
        if let Attribution::Owner(owner) =
            self.pending_calls.attribute(related_to, MessageKind::Notification)
            && owner.on_notification(&method, params.as_ref()) == Propagation::Stop
        {
            return;
        }
        if self.outputs.events.try_send(PeerEvent::Notification { method, params }).is_err() {
            self.statistics.dropped_notifications += 1;
            self.outputs.dropped_notifications.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn on_request(
        &mut self,
        id: RequestId,
        method: Cow<'static, str>,
        params: Option<Payload>,
        attribution: Attribution,
    ) {
        if method == "ping" {
            let outcome = Ok(Payload::from_json(bytes::Bytes::from_static(b"{}")));
            self.respond(id, outcome);
            return;
        }
        let request = IncomingRequest {
            id,
            method,
            params,
            attribution,
            responses: Some(self.outputs.responses.clone()),
            _open_guard: OpenRequestGuard::new(&self.outputs.open_requests),
        };
        let Err(error) = self.outputs.events.try_send(PeerEvent::Request(request)) else { return };
        self.statistics.rejected_requests += 1;
        let message = match &error {
            TrySendError::Full(_) => "too many requests are pending",
            TrySendError::Closed(_) => "this client does not accept requests",
        };
        if let PeerEvent::Request(mut request) = error.into_inner() {
            request.responses = None;
            let error = RpcError { code: -32603, message: message.to_owned(), data: None };
            self.respond(request.id.clone(), Err(error));
        }
    }

    /// Sends an automatic response. The peer gets none while it does not read: callers can be made to wait, a
    /// flood of requests cannot.
    fn respond(&mut self, id: RequestId, outcome: Result<Payload, RpcError>) {
        if self.transport.queued_bytes() < RESPONSE_LIMIT {
            self.transport.push(Message::Response { id: Some(id), outcome }.into());
        } else {
            self.statistics.dropped_responses += 1;
        }
    }
}

/// The number of the call that progress belongs to. Some servers return the token as a string.
fn progress_token(params: &Payload) -> Option<u64> {
    #[derive(Deserialize)]
    struct Token<'a> {
        #[serde(borrow, rename = "progressToken")]
        token: &'a RawValue,
    }
    let parsed: Token<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
    parsed.token.get().trim_matches('"').parse().ok()
}
