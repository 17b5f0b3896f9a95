//! The channel to a legacy client: messages go to the event stream of the request, responses come through the session.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId};
use switchboard_wire::server;
use tokio::sync::mpsc;

use super::Session;
use crate::downstream::channel::{ClientChannel, ClientResponse, NotifyOutcome};

/// The channel to the client of a session during one request, or outside of requests.
#[derive(Debug)]
pub(crate) struct SessionChannel {
    session: Weak<Session>,
    messages: mpsc::Sender<Message>,
}

impl SessionChannel {
    pub(crate) fn new(session: &Arc<Session>, messages: mpsc::Sender<Message>) -> SessionChannel {
        SessionChannel { session: Arc::downgrade(session), messages }
    }
}

impl ClientChannel for SessionChannel {
    fn notify(&self, method: Cow<'static, str>, params: Option<Payload>) -> NotifyOutcome {
        NotifyOutcome::from_send(self.messages.try_send(Message::Notification { method, params }))
    }

    fn request<'a>(&'a self, method: &'a str, params: Option<Payload>) -> ClientResponse<'a> {
        Box::pin(async move {
            let gone = || server::internal_error("the client has disconnected");
            let session = self.session.upgrade().ok_or_else(gone)?;
            let (number, response) = session.expect_response().await.ok_or_else(gone)?;
            drop(session);
            let method = Cow::Owned(method.to_owned());
            let message = Message::Request { id: RequestId::Number(number), method, params };
            self.messages.send(message).await.map_err(|_| gone())?;
            let mut cancel = CancelOnDrop { messages: &self.messages, request_id: Some(number) };
            let response = response.await;
            cancel.request_id = None;
            response.map_err(|_| gone())?
        })
    }
}

/// Cancels a request to the client if it is dropped before the response arrived.
struct CancelOnDrop<'a> {
    messages: &'a mpsc::Sender<Message>,
    request_id: Option<u64>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.request_id {
            let params = Payload::from_json(format!("{{\"requestId\":{number}}}").into());
            let method = Cow::Borrowed("notifications/cancelled");
            let message = Message::Notification { method, params: Some(params) };
            let _full_or_closed = self.messages.try_send(message);
        }
    }
}
