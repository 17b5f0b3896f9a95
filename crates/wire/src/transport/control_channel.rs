//! Servers that another program hosts and reaches us through its control channel: one JSON-RPC message at a time goes
//! out, and the response comes back as the answer to it. How the channel frames messages is left to its owner.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::jsonrpc::message;
use crate::jsonrpc::message::{Message, Messages, RequestId, RpcError};
use crate::transport::in_memory::InMemoryTransport;
use crate::transport::{Transport, TransportEvent};

/// The JSON-RPC code of a message that could not be delivered.
const INTERNAL_ERROR: i64 = -32603;
const CANCELLED: &str = "notifications/cancelled";

/// Carries messages to one server.
pub trait ControlChannel: Send + Sync + 'static {
    /// Delivers a message, and returns the JSON-RPC message that came back. Dropping the future withdraws the message.
    fn deliver(&self, message: Bytes) -> BoxFuture<'static, Result<Bytes, ChannelError>>;
}

/// Why a message was not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The other program refused it, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The channel is closed.
    #[error("the control channel is closed")]
    Closed,
}

/// The parameters of a cancellation.
#[derive(Deserialize)]
struct CancelledParams {
    #[serde(rename = "requestId")]
    request_id: serde_json::Value,
}

/// A delivered message: the request it was, and what came back.
type Delivery = (Option<RequestId>, Option<Result<Bytes, ChannelError>>);

/// Relays the messages of a client to the channel and back until either end closes. Calls overlap. `incoming` are the
/// messages that the server sends by itself.
pub async fn relay(
    mut transport: InMemoryTransport,
    channel: Arc<dyn ControlChannel>,
    mut incoming: mpsc::Receiver<Bytes>,
) {
    let mut deliveries: FuturesUnordered<BoxFuture<'static, Delivery>> = FuturesUnordered::new();
    let mut requests: HashMap<RequestId, AbortHandle> = HashMap::new();
    let mut is_listening = true;
    loop {
        tokio::select! {
            event = transport.next() => match event {
                Ok(TransportEvent::Message(message)) => {
                    abort_cancelled(&message, &mut requests);
                    let id = request_id(&message);
                    let (handle, registration) = AbortHandle::new_pair();
                    if let Some(id) = &id {
                        requests.insert(id.clone(), handle);
                    }
                    let mut line = Vec::new();
                    message.write_to(&mut line);
                    let delivering = Abortable::new(channel.deliver(line.into()), registration);
                    deliveries.push(delivering.map(|outcome| (id, outcome.ok())).boxed());
                }
                // An in-memory transport has no other events.
                Ok(TransportEvent::RelatedMessage { .. }
                    | TransportEvent::DeliveryFailed { .. }
                    | TransportEvent::Malformed(_)) => {}
                Err(_closed) => return,
            },
            Some((id, outcome)) = deliveries.next() => {
                if let Some(id) = &id {
                    requests.remove(id);
                }
                if outcome == Some(Err(ChannelError::Closed)) {
                    return;
                }
                if let (Some(id), Some(outcome)) = (id, outcome) {
                    transport.push(response(id, outcome).into());
                }
            }
            message = incoming.recv(), if is_listening => match message {
                Some(message) => push_all(&mut transport, &message),
                None => is_listening = false,
            },
        }
    }
}

/// Stops waiting for the response to a request that the client cancelled.
fn abort_cancelled(message: &Message, requests: &mut HashMap<RequestId, AbortHandle>) {
    let Message::Notification { method, params: Some(params) } = message else { return };
    if method == CANCELLED
        && let Ok(cancelled) = params.decode::<CancelledParams>()
        && let Some(handle) = requests.remove(&RequestId::from_json(&cancelled.request_id))
    {
        handle.abort();
    }
}

fn request_id(message: &Message) -> Option<RequestId> {
    match message {
        Message::Request { id, .. } => Some(id.clone()),
        Message::Notification { .. } | Message::Response { .. } => None,
    }
}

/// The response to a request. The channel says which request it answers, so an id inside it does not count.
fn response(id: RequestId, outcome: Result<Bytes, ChannelError>) -> Message {
    let error = |message: String| RpcError { code: INTERNAL_ERROR, message, data: None };
    let outcome = match outcome {
        Ok(bytes) => match message::parse(&bytes) {
            Ok(Messages::One(Message::Response { outcome, .. })) => outcome,
            Ok(_) | Err(_) => {
                Err(error("the program that hosts the server sent no response".to_owned()))
            }
        },
        Err(failure) => Err(error(failure.to_string())),
    };
    Message::Response { id: Some(id), outcome }
}

fn push_all(transport: &mut InMemoryTransport, bytes: &Bytes) {
    match message::parse(bytes) {
        // Responses come back with their requests.
        Ok(Messages::One(Message::Response { .. }) | Messages::Batch(_)) | Err(_) => {}
        Ok(Messages::One(message)) => transport.push(message.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};
    use tokio::sync::oneshot;

    use super::*;
    use crate::jsonrpc::payload::Payload;
    use crate::peer::{CallError, Peer};
    use crate::transport::in_memory;

    /// Answers `echo` with its parameters under another id, `fail` with an error of the channel, and never answers `hang`.
    struct Echo {
        withdrawn: mpsc::Sender<()>,
    }

    struct OnDrop(mpsc::Sender<()>);

    impl Drop for OnDrop {
        fn drop(&mut self) {
            let _test_ended = self.0.try_send(());
        }
    }

    impl ControlChannel for Echo {
        fn deliver(&self, message: Bytes) -> BoxFuture<'static, Result<Bytes, ChannelError>> {
            let message: Json = serde_json::from_slice(&message).expect("JSON");
            let guard = OnDrop(self.withdrawn.clone());
            async move {
                match message["method"].as_str() {
                    Some("echo") => {
                        let reply =
                            json!({"jsonrpc": "2.0", "id": "?", "result": message["params"]});
                        std::mem::forget(guard);
                        Ok(Bytes::from(reply.to_string()))
                    }
                    Some("fail") => Err(ChannelError::Refused("no such server".to_owned())),
                    Some("hang") => {
                        let _guard = guard;
                        std::future::pending().await
                    }
                    Some(_) | None => {
                        Ok(Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"result\":{}}"))
                    }
                }
            }
            .boxed()
        }
    }

    #[tokio::test]
    async fn calls_overlap_and_each_gets_its_own_response() {
        let (withdrawn, mut withdrawals) = mpsc::channel(8);
        let (ours, theirs) = in_memory::pair();
        let (to_client, incoming) = mpsc::channel(1);
        let relaying = tokio::spawn(relay(theirs, Arc::new(Echo { withdrawn }), incoming));
        let spawned = Peer::spawn(ours);
        let hanging = {
            let peer = spawned.peer.clone();
            let (started, is_started) = oneshot::channel();
            let task = tokio::spawn(async move {
                let _test_ended = started.send(());
                peer.call("hang").await
            });
            is_started.await.expect("it starts");
            task
        };
        let params = Payload::encode(&json!({"n": 1})).expect("JSON");
        let echoed = spawned.peer.call("echo").params(params.clone()).await.expect("a response");
        assert_eq!(echoed.decode::<Json>().expect("JSON"), json!({"n": 1}));
        let failed = spawned.peer.call("fail").await;
        assert!(
            matches!(failed, Err(CallError::Remote(error)) if error.message == "no such server")
        );
        // Dropping a call sends a cancellation, which withdraws the message from the channel.
        while withdrawals.try_recv().is_ok() {}
        hanging.abort();
        withdrawals.recv().await.expect("the message was withdrawn");
        drop((spawned, to_client));
        relaying.await.expect("the relay ends with its client");
    }
}
