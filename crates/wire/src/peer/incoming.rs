//! Requests that the other side sends: answered once, counted while they are open.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::attribution::Attribution;
use crate::jsonrpc::message::{Message, Payload, RequestId, RpcError};

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
    pub(super) responses: Option<mpsc::Sender<Message>>,
    pub(super) _open_guard: OpenRequestGuard,
}

/// Counts a question for as long as it waits.
#[derive(Debug)]
pub(super) struct OpenRequestGuard(Arc<AtomicUsize>);

impl OpenRequestGuard {
    pub(super) fn new(open: &Arc<AtomicUsize>) -> OpenRequestGuard {
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
