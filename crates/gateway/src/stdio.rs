//! One client at the other end of a link: usually the program that started us, over standard input and output.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use serde_json::json;
use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId, RpcError};
use switchboard_wire::peer::{
    CallError, IncomingRequest, Peer, PeerEvent, RequestNotifier, SpawnedPeer,
};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta::{RawObject, RequestMeta};
use switchboard_wire::server;
use switchboard_wire::server::{ServerSession, input_required};
use switchboard_wire::transport::Transport;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::downstream::client::Client;
use crate::downstream::drain::forward_until_done;
use crate::downstream::request_context::{
    ClientChannel, ClientResponse, NotifyOutcome, RequestContext,
};
use crate::gateway::Gateway;
use crate::multi_round_trip::modern_request;
use crate::multi_round_trip::modern_request::ModernRequest;
use crate::multi_round_trip::pending::{Outcome, Step};
use crate::relay::{InboundRequest, TraceOrigin, payload};
use crate::subscriptions::{
    ListChanges, ListenStream, ResourceSubscriptions, list_changed, resource_updated,
};

/// How many of a client's questions are answered at once.
const MAX_CONCURRENT_REQUESTS: usize = 1024;
/// How many notifications of one question may wait.
const NOTIFICATION_CAPACITY: usize = 256;

impl Gateway {
    /// Serves the only client there is, until its link ends or somebody wants it to end. What servers ask outside of
    /// any call is this client's to answer.
    pub async fn serve_exclusive(
        &self,
        transport: impl Transport,
        principal: &str,
        stop: impl Future<Output = ()>,
    ) {
        self.serve_client(transport, (principal, Exclusivity::Exclusive), stop).await;
        self.relay.host.set_default_handler(None).await;
    }

    /// Serves one of several clients until its link ends or somebody wants it to end.
    pub async fn serve_transport(
        &self,
        transport: impl Transport,
        principal: &str,
        stop: impl Future<Output = ()>,
    ) {
        self.serve_client(transport, (principal, Exclusivity::Shared), stop).await;
    }

    async fn serve_client(
        &self,
        transport: impl Transport,
        (principal, exclusivity): (&str, Exclusivity),
        stop: impl Future<Output = ()>,
    ) {
        let mut stop = pin!(stop);
        let SpawnedPeer { peer, mut events, task } = Peer::spawn(transport);
        let mut connection = ClientConnection {
            gateway: self.clone(),
            peer,
            principal: principal.into(),
            client: None,
            is_exclusive: exclusivity == Exclusivity::Exclusive,
            session_context: None,
            tasks: JoinSet::new(),
            cancel_by_id: HashMap::new(),
            list_changes: ListChanges::new(&self.relay),
            subscriptions: ResourceSubscriptions::default(),
            session_messages: mpsc::channel(1).1,
        };
        loop {
            tokio::select! {
                () = &mut stop => break,
                event = events.recv() => match event {
                    Some(PeerEvent::Request(request)) => connection.receive_request(request).await,
                    Some(PeerEvent::Notification { method, params }) => connection.receive_notification(&method, params.as_ref()).await,
                    None => break,
                },
                Some(changed) = connection.list_changes.next() => connection.notify_list_changes(&changed).await,
                uri = connection.subscriptions.next_updated() => connection.notify(resource_updated(&uri)).await,
                Some(message) = connection.session_messages.recv() => connection.notify(message).await,
                Some(over) = connection.tasks.join_next() => {
                    if let Ok(id) = over {
                        connection.cancel_by_id.remove(&id);
                    }
                }
            }
        }
        connection.tasks.shutdown().await;
        if let Some(client) = &connection.client {
            connection.gateway.relay.client_disconnected(client).await;
        }
        connection.peer.close();
        drop(connection);
        let _statistics = task.await;
    }
}

/// Is it the only client there is?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exclusivity {
    Exclusive,
    Shared,
}

struct ClientConnection {
    gateway: Gateway,
    peer: Peer,
    principal: Arc<str>,
    /// The client, once it has come in the legacy way.
    client: Option<Arc<Client>>,
    is_exclusive: bool,
    /// Answers for it outside of its requests.
    session_context: Option<Arc<RequestContext>>,
    tasks: JoinSet<RequestId>,
    /// For calling them off.
    cancel_by_id: HashMap<RequestId, oneshot::Sender<()>>,
    list_changes: ListChanges,
    subscriptions: ResourceSubscriptions,
    /// What is said outside of requests.
    session_messages: mpsc::Receiver<Message>,
}

impl ClientConnection {
    async fn receive_request(&mut self, request: IncomingRequest) {
        let Some(mut params) = RawObject::parse(request.params.as_ref()) else {
            return request.reject(server::invalid_params("the parameters are no object")).await;
        };
        let Some(meta) = RequestMeta::take_from(&mut params) else {
            return request.reject(server::invalid_params("`_meta` is no object")).await;
        };
        let is_modern = meta.protocol_version.is_some() || request.method == "server/discover";
        let immediate = match is_modern {
            true => self.modern_request(request, params, meta).await,
            false => self.legacy_request(request, params, meta).await,
        };
        if let Some((request, outcome)) = immediate {
            match outcome {
                Ok(result) => request.respond(result).await,
                Err(error) => request.reject(error).await,
            }
        }
    }

    /// What can be said at once is said at once; the rest goes on beside.
    async fn legacy_request(
        &mut self,
        request: IncomingRequest,
        params: RawObject,
        meta: RequestMeta,
    ) -> Option<(IncomingRequest, Outcome)> {
        if request.method == "initialize" {
            let client =
                Client::new(self.principal.clone(), Era::Legacy, params.get("capabilities"));
            self.set_client(Arc::new(client)).await;
            let mut reception = ServerSession::new(
                self.gateway.relay.server_identity(Era::Legacy, &self.principal),
            );
            let params = params.to_payload().decode().unwrap_or_default();
            return Some((request, Ok(payload(&reception.initialize(&params)))));
        }
        let Some(client) = self.client.clone() else {
            let error = RpcError {
                code: -32600,
                message: "`initialize` comes first".to_owned(),
                data: None,
            };
            return Some((request, Err(error)));
        };
        let uri =
            || params.get_string("uri").ok_or_else(|| server::invalid_params("`uri` is missing"));
        match &*request.method {
            "resources/subscribe" => {
                let outcome = match uri() {
                    Ok(uri) => {
                        self.subscriptions.subscribe(&self.gateway.relay, &client, &uri).await
                    }
                    Err(error) => Err(error),
                };
                Some((request, outcome.map(|()| payload(&json!({})))))
            }
            "resources/unsubscribe" => {
                let outcome = uri().map(|uri| self.subscriptions.unsubscribe(&uri));
                Some((request, outcome.map(|()| payload(&json!({})))))
            }
            _ => {
                let origin = TraceOrigin::new(request.id.clone());
                let inbound = |method: Cow<'static, str>, channel: Arc<dyn ClientChannel>| {
                    InboundRequest { client, method, params, meta, channel, origin }
                };
                self.start_legacy(request, inbound)
            }
        }
    }

    /// The client has come in. Where it is the only one, it answers for everything that servers ask.
    async fn set_client(&mut self, client: Arc<Client>) {
        let (sender, session_messages) = mpsc::channel(NOTIFICATION_CAPACITY);
        self.session_messages = session_messages;
        let channel = Arc::new(TransportChannel { messages: sender, peer: self.peer.clone() });
        let context = Arc::new(RequestContext::new(client.clone(), channel));
        client.set_session_context(&context);
        if self.is_exclusive {
            self.gateway.relay.host.set_default_handler(Some(context.clone())).await;
        }
        self.client = Some(client);
        self.session_context = Some(context);
    }

    fn start_legacy(
        &mut self,
        request: IncomingRequest,
        inbound: impl FnOnce(Cow<'static, str>, Arc<dyn ClientChannel>) -> InboundRequest,
    ) -> Option<(IncomingRequest, Outcome)> {
        if let Some(error) = self.over_limit(&request) {
            return Some((request, Err(error)));
        }
        let (sender, notifications) = mpsc::channel(NOTIFICATION_CAPACITY);
        let channel = Arc::new(TransportChannel { messages: sender, peer: self.peer.clone() });
        let inbound = inbound(request.method.clone(), channel);
        let relay = self.gateway.relay.clone();
        let aside = request.notifier();
        self.start(request, async move {
            forward_until_done(relay.respond(inbound), notifications, |notification| {
                send_notification(&aside, notification)
            })
            .await
        });
        None
    }

    async fn modern_request(
        &mut self,
        request: IncomingRequest,
        params: RawObject,
        meta: RequestMeta,
    ) -> Option<(IncomingRequest, Outcome)> {
        if let Err(error) = meta.validate_modern() {
            return Some((request, Err(error)));
        }
        if let Some(error) = self.over_limit(&request) {
            return Some((request, Err(error)));
        }
        let client = modern_request::client_from_meta(self.principal.clone(), &meta);
        let gateway = self.gateway.clone();
        let (id, aside) = (request.id.clone(), request.notifier());
        let method = request.method.clone();
        let modern = ModernRequest { client, method, params, meta, id: id.clone() };
        self.start(request, async move { listen_or_respond(&gateway, modern, &id, &aside).await });
        None
    }

    /// Works beside until there is an answer. What is called off has none.
    fn start(
        &mut self,
        request: IncomingRequest,
        work: impl Future<Output = Outcome> + Send + 'static,
    ) {
        let (cancel, cancelled) = oneshot::channel();
        self.cancel_by_id.insert(request.id.clone(), cancel);
        self.tasks.spawn(async move {
            let id = request.id.clone();
            let outcome = tokio::select! {
                outcome = work => Some(outcome),
                Ok(()) = cancelled => None,
            };
            match outcome {
                Some(Ok(result)) => request.respond(result).await,
                Some(Err(error)) => request.reject(error).await,
                None => request.discard(),
            }
            id
        });
    }

    fn over_limit(&self, request: &IncomingRequest) -> Option<RpcError> {
        let is_over_limit = self.cancel_by_id.len() >= MAX_CONCURRENT_REQUESTS
            || self.cancel_by_id.contains_key(&request.id);
        is_over_limit.then(|| server::internal_error("too many questions at once, or one id twice"))
    }

    async fn receive_notification(&mut self, method: &str, params: Option<&Payload>) {
        if method == "notifications/roots/list_changed"
            && let Some(client) = &self.client
        {
            let dedicated = self.gateway.relay.catalogue().own_connection_key(client);
            if dedicated.is_some() || self.is_exclusive {
                self.gateway.relay.host.notify_roots_changed(dedicated.as_deref()).await;
            }
        }
        if method != "notifications/cancelled" {
            return;
        }
        let params = RawObject::parse(params).unwrap_or_default();
        let id = params.get("requestId").and_then(|it| it.decode().ok());
        let id = id.map(|it| RequestId::from_json(&it));
        if let Some(cancel) = id.and_then(|id| self.cancel_by_id.remove(&id)) {
            let _answered_meanwhile = cancel.send(());
        }
    }

    /// Lists changed. Modern clients hear of it where they listen.
    async fn notify_list_changes(&self, changed: &[&'static str]) {
        if self.client.is_some() {
            for method in changed {
                self.notify(list_changed(method)).await;
            }
        }
    }

    async fn notify(&self, message: Message) {
        if let Message::Notification { method, params } = message {
            let _disconnected = self.peer.notify(method, params).await;
        }
    }
}

async fn send_notification(aside: &RequestNotifier, notification: Message) {
    if let Message::Notification { method, params } = notification {
        aside.notify(method, params).await;
    }
}

async fn listen_or_respond(
    gateway: &Gateway,
    modern: ModernRequest,
    id: &RequestId,
    aside: &RequestNotifier,
) -> Outcome {
    if modern.method == "subscriptions/listen" {
        let (mut stream, first) =
            ListenStream::open(&gateway.relay, &modern.client, id, &modern.params).await?;
        send_notification(aside, first).await;
        while let Some(messages) = stream.next().await {
            for message in messages {
                send_notification(aside, message).await;
            }
        }
        return stream.final_result();
    }
    let mut pending = gateway.start_or_resume(modern).await?;
    let principal = pending.principal.clone();
    loop {
        match pending.next().await {
            Step::Notification(notification) => send_notification(aside, notification).await,
            Step::InputRequired(requests) => {
                let state = gateway.suspend(pending, principal).await?;
                return Ok(payload(&input_required(&requests, &state)));
            }
            Step::Complete(outcome) => return outcome,
        }
    }
}

/// The way to a client that can be asked at any time.
#[derive(Debug)]
struct TransportChannel {
    messages: mpsc::Sender<Message>,
    peer: Peer,
}

impl ClientChannel for TransportChannel {
    fn notify(&self, method: Cow<'static, str>, params: Option<Payload>) -> NotifyOutcome {
        NotifyOutcome::from_send(self.messages.try_send(Message::Notification { method, params }))
    }

    fn request<'a>(&'a self, method: &'a str, params: Option<Payload>) -> ClientResponse<'a> {
        Box::pin(async move {
            let mut call = self.peer.call(method.to_owned());
            if let Some(params) = params {
                call = call.params(params);
            }
            match call.await {
                Ok(answer) => Ok(answer),
                Err(CallError::Remote(error)) => Err(error),
                Err(CallError::Timeout(_) | CallError::Transport(_) | CallError::Closed { .. }) => {
                    Err(server::internal_error("the client is gone"))
                }
            }
        })
    }
}
