//! The connection to the editor: one task owns the transport, sends what is queued and matches responses to our
//! requests. Unlike `wire::peer` it answers input that is no message with a parse error and withdraws a request with
//! `$/cancel_request`, as this protocol says.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use switchboard::wire::jsonrpc::message::{Message, ParseError, Payload, RequestId, RpcError};
use switchboard::wire::transport::{Transport, TransportEvent};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{debug, info};

use crate::method::{CANCEL_REQUEST, ErrorCode, rpc_error};

/// How many messages may wait for the task; then senders wait.
const OUTGOING_QUEUE: usize = 256;
/// How many received messages may wait for the agent; then requests are refused.
const INCOMING_QUEUE: usize = 256;
/// While more bytes than this wait for the editor, senders wait.
const HIGH_WATER: usize = 1024 * 1024;
/// How long the last messages may take to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// A handle of the connection to the editor. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    outgoing: mpsc::Sender<ClientCommand>,
    /// The ids of requests that are withdrawn. Bounded by the number of requests that are open.
    withdrawals: mpsc::UnboundedSender<u64>,
    next_id: Arc<AtomicU64>,
}

/// A message from the editor.
#[derive(Debug)]
pub(crate) enum ReceivedMessage {
    Request { id: RequestId, method: Cow<'static, str>, params: Option<Payload> },
    Notification { method: Cow<'static, str>, params: Option<Payload> },
}

/// Why a request to the editor has no result.
#[derive(Debug, Error)]
pub(crate) enum ClientError {
    /// The editor answered with an error.
    #[error("the editor answered with an error: {}", .0.message)]
    Rejected(RpcError),
    /// The editor has disconnected.
    #[error("the editor has disconnected")]
    Closed,
    /// The editor's result is not what the protocol says.
    #[error("the editor's answer is not valid")]
    InvalidResult(#[source] serde_json::Error),
}

type Reply = oneshot::Sender<Result<Payload, RpcError>>;

/// A request that is ready to be sent.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    id: u64,
    reply: Reply,
}

/// The response to a request. Dropping it withdraws the request.
#[derive(Debug)]
pub(crate) struct PendingResponse {
    id: u64,
    response: oneshot::Receiver<Result<Payload, RpcError>>,
    withdrawals: mpsc::UnboundedSender<u64>,
    is_answered: bool,
}

#[derive(Debug)]
enum ClientCommand {
    Message(Message),
    Request { request: PreparedRequest, method: &'static str, params: Payload },
}

impl Client {
    /// Opens the connection. The task ends after the last handle is dropped, or when the editor is gone.
    pub(crate) fn open(
        transport: impl Transport,
    ) -> (Client, mpsc::Receiver<ReceivedMessage>, JoinHandle<()>) {
        let (outgoing, from_agent) = mpsc::channel(OUTGOING_QUEUE);
        let (to_agent, incoming) = mpsc::channel(INCOMING_QUEUE);
        let (withdrawals, withdrawn) = mpsc::unbounded_channel();
        let connection = Connection { transport, pending: HashMap::new() };
        let task = tokio::spawn(connection.run((from_agent, withdrawn), to_agent));
        let next_id = Arc::new(AtomicU64::new(1));
        (Client { outgoing, withdrawals, next_id }, incoming, task)
    }

    /// Sends a notification. Waits while the queue is full.
    pub(crate) async fn notify(&self, method: &'static str, params: &impl Serialize) {
        let Some(params) = encoded(params) else { return };
        let message = Message::Notification { method: method.into(), params: Some(params) };
        self.send(ClientCommand::Message(message)).await;
    }

    /// Responds to a request.
    pub(crate) async fn respond(&self, id: RequestId, outcome: Result<impl Serialize, RpcError>) {
        let outcome = outcome.and_then(|result| {
            encoded(&result)
                .ok_or_else(|| rpc_error(ErrorCode::Internal, "the result cannot be encoded"))
        });
        self.send(ClientCommand::Message(Message::Response { id: Some(id), outcome })).await;
    }

    /// Responds to a request with an error.
    pub(crate) async fn reject(&self, id: RequestId, error: RpcError) {
        self.respond(id, Err::<(), RpcError>(error)).await;
    }

    /// Prepares a request, so that one task can wait for the response and another one send it.
    pub(crate) fn prepare(&self) -> (PreparedRequest, PendingResponse) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, response) = oneshot::channel();
        let withdrawals = self.withdrawals.clone();
        let pending = PendingResponse { id, response, withdrawals, is_answered: false };
        (PreparedRequest { id, reply }, pending)
    }

    /// Sends a prepared request.
    pub(crate) async fn send_request(
        &self,
        request: PreparedRequest,
        method: &'static str,
        params: &impl Serialize,
    ) {
        let Some(params) = encoded(params) else { return };
        self.send(ClientCommand::Request { request, method, params }).await;
    }

    async fn send(&self, outgoing: ClientCommand) {
        let _disconnected = self.outgoing.send(outgoing).await;
    }
}

fn encoded(value: &impl Serialize) -> Option<Payload> {
    Payload::encode(value).ok()
}

impl Future for PendingResponse {
    type Output = Result<Payload, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.response).poll(context).map(|outcome| {
            self.is_answered = true;
            match outcome {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(error)) => Err(ClientError::Rejected(error)),
                Err(_) => Err(ClientError::Closed),
            }
        })
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        if !self.is_answered {
            let _disconnected = self.withdrawals.send(self.id);
        }
    }
}

/// The task of the connection.
struct Connection<T> {
    transport: T,
    /// Requests without a response. Bounded by the running calls.
    pending: HashMap<u64, Reply>,
}

impl<T: Transport> Connection<T> {
    async fn run(
        mut self,
        (mut from_agent, mut withdrawn): (
            mpsc::Receiver<ClientCommand>,
            mpsc::UnboundedReceiver<u64>,
        ),
        to_agent: mpsc::Sender<ReceivedMessage>,
    ) {
        loop {
            let has_room = self.transport.queued_bytes() < HIGH_WATER;
            tokio::select! {
                outgoing = from_agent.recv(), if has_room => match outgoing {
                    Some(outgoing) => self.execute(outgoing),
                    None => break,
                },
                Some(id) = withdrawn.recv() => self.withdraw(id),
                event = self.transport.next() => match event {
                    Ok(event) => self.receive(event, &to_agent),
                    Err(reason) => {
                        info!(%reason, "the editor has disconnected");
                        break;
                    }
                },
            }
        }
        // The agent ends its sessions now. Its last responses are still written: the editor may only have stopped
        // to send.
        drop(to_agent);
        self.pending.clear();
        while let Some(outgoing) = from_agent.recv().await {
            match outgoing {
                ClientCommand::Message(message) if self.transport.queued_bytes() < HIGH_WATER => {
                    self.transport.push(message.into());
                }
                ClientCommand::Message(_) | ClientCommand::Request { .. } => {}
            }
        }
        let _does_not_read = timeout(FLUSH_TIMEOUT, self.transport.shutdown()).await;
    }

    fn execute(&mut self, outgoing: ClientCommand) {
        match outgoing {
            ClientCommand::Message(message) => self.transport.push(message.into()),
            ClientCommand::Request { request: PreparedRequest { id, reply }, method, params } => {
                if reply.is_closed() {
                    return;
                }
                self.pending.insert(id, reply);
                let (id, method) = (RequestId::Number(id), Cow::Borrowed(method));
                let message = Message::Request { id, method, params: Some(params) };
                self.transport.push(message.into());
            }
        }
    }

    fn withdraw(&mut self, id: u64) {
        if self.pending.remove(&id).is_some() {
            let params = encoded(&json!({"requestId": id}));
            let method = Cow::Borrowed(CANCEL_REQUEST);
            self.transport.push(Message::Notification { method, params }.into());
        }
    }

    fn receive(&mut self, event: TransportEvent, to_agent: &mpsc::Sender<ReceivedMessage>) {
        let message = match event {
            TransportEvent::Message(message) | TransportEvent::RelatedMessage { message, .. } => {
                message
            }
            TransportEvent::Malformed(malformed) => {
                debug!(error = %malformed.error, "malformed message");
                let code = match malformed.error {
                    ParseError::NotJson => ErrorCode::Parse,
                    ParseError::NotJsonRpc => ErrorCode::InvalidRequest,
                };
                let error = rpc_error(code, format!("unusable line: {}", malformed.error));
                return self.push_response(None, Err(error));
            }
            TransportEvent::DeliveryFailed { .. } => return,
        };
        match message {
            Message::Request { id, method, params } => {
                let request = ReceivedMessage::Request { id: id.clone(), method, params };
                if to_agent.try_send(request).is_err() {
                    let error = rpc_error(ErrorCode::Internal, "too many requests at once");
                    self.push_response(Some(id), Err(error));
                }
            }
            Message::Notification { method, params } => {
                if to_agent.try_send(ReceivedMessage::Notification { method, params }).is_err() {
                    debug!("a notification of the editor was dropped");
                }
            }
            Message::Response { id: Some(RequestId::Number(id)), outcome } => {
                if let Some(reply) = self.pending.remove(&id) {
                    let _caller_left = reply.send(outcome);
                }
            }
            Message::Response { id: Some(RequestId::Other(_)) | None, .. } => {}
        }
    }

    fn push_response(&mut self, id: Option<RequestId>, outcome: Result<Payload, RpcError>) {
        self.transport.push(Message::Response { id, outcome }.into());
    }
}

#[cfg(test)]
mod tests {
    use switchboard::wire::transport::in_memory;

    use super::*;

    async fn next_method(editor: &mut in_memory::InMemoryTransport) -> String {
        let event = timeout(Duration::from_secs(10), editor.next()).await.expect("in time");
        let TransportEvent::Message(
            Message::Request { method, .. } | Message::Notification { method, .. },
        ) = event.expect("it is open")
        else {
            panic!("a message that is neither a request nor a notification");
        };
        method.into_owned()
    }

    #[tokio::test]
    async fn a_request_is_withdrawn_even_where_the_queue_is_full() {
        let (ours, mut editor) = in_memory::pair();
        let (client, _incoming, _connection) = Client::open(ours);
        let (request, response) = client.prepare();
        client.send_request(request, "ask", &json!({})).await;
        assert_eq!(next_method(&mut editor).await, "ask");
        let notification = || {
            let params = encoded(&json!({}));
            ClientCommand::Message(Message::Notification { method: "more".into(), params })
        };
        while client.outgoing.try_send(notification()).is_ok() {}
        drop(response);
        while next_method(&mut editor).await != CANCEL_REQUEST {}
    }
}
