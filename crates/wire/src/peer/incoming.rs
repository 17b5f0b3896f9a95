//! Requests from the peer: answered once, counted while they are open.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::attribution::Attribution;
use crate::jsonrpc::message::{Message, Payload, RequestId, RpcError};

/// A request from the peer. Dropping it without a response sends an error.
#[derive(Debug)]
pub struct IncomingRequest {
    /// The id, as a cancellation names it.
    pub id: RequestId,
    /// The method.
    pub method: Cow<'static, str>,
    /// Its parameters.
    pub params: Option<Payload>,
    /// The call that the request belongs to, as far as that is known.
    pub attribution: Attribution,
    pub(super) responses: Option<mpsc::Sender<Message>>,
    pub(super) _open_guard: OpenRequestGuard,
}

/// Counts a request as open until it is dropped.
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

/// Sends notifications that belong to a request, in order and before its response.
#[derive(Debug, Clone)]
pub struct RequestNotifier(Option<mpsc::Sender<Message>>);

impl IncomingRequest {
    /// Responds with a result.
    pub async fn respond(mut self, result: Payload) {
        self.send_response(Ok(result)).await;
    }

    /// Responds with an error.
    pub async fn reject(mut self, error: RpcError) {
        self.send_response(Err(error)).await;
    }

    /// A sender of notifications that belong to the request. They are sent before the response.
    pub fn notifier(&self) -> RequestNotifier {
        RequestNotifier(self.responses.clone())
    }

    /// Drops the request without a response, because the peer cancelled it.
    pub fn discard(mut self) {
        self.responses = None;
    }

    async fn send_response(&mut self, outcome: Result<Payload, RpcError>) {
        if let Some(sender) = self.responses.take() {
            let message = Message::Response { id: Some(self.id.clone()), outcome };
            let _connection_closed = sender.send(message).await;
        }
    }
}

impl RequestNotifier {
    /// Sends a notification. Waits only while the queue is full.
    pub async fn notify(&self, method: impl Into<Cow<'static, str>>, params: Option<Payload>) {
        if let Some(responses) = &self.0 {
            let message = Message::Notification { method: method.into(), params };
            let _connection_closed = responses.send(message).await;
        }
    }
}

impl Drop for IncomingRequest {
    fn drop(&mut self) {
        if let Some(sender) = self.responses.take() {
            let error = RpcError {
                code: -32603,
                message: "the request was dropped without a response".to_owned(),
                data: None,
            };
            let message = Message::Response { id: Some(self.id.clone()), outcome: Err(error) };
            let _full_or_closed = sender.try_send(message);
        }
    }
}
