//! Serves one client on one transport, in either era: usually the program that started us, over standard input and
//! output.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId, RpcError};
use switchboard_wire::peer::{
    CallError, IncomingRequest, Peer, PeerEvent, RequestNotifier, SpawnedPeer,
};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta::{RawObject, RequestMeta};
use switchboard_wire::server;
use switchboard_wire::server::ServerSession;
use switchboard_wire::transport::Transport;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::downstream::channel::{ClientChannel, ClientResponse, NotifyOutcome};
use crate::downstream::client::Client;
use crate::downstream::drain::forward_until_done;
use crate::downstream::request::{InboundRequest, Outcome, split_meta};
use crate::downstream::request_context::RequestContext;
use crate::gateway::Gateway;
use crate::json::{empty_object, payload};
use crate::method::Method;
use crate::multi_round_trip::modern_request;
use crate::multi_round_trip::modern_request::MultiRoundTrip;
use crate::multi_round_trip::pending::{self, Inbox, Step};
use crate::relay::Relay;
use crate::subscriptions::{
    ListChange, ListChanges, ListenStream, ResourceSubscriptions, resource_updated,
};

/// The largest number of requests of one client that run at the same time.
const MAX_CONCURRENT_REQUESTS: usize = 1024;
/// How long the end of a client's transport may take.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);
/// The capacity of the queue of notifications of one request.
const NOTIFICATION_CAPACITY: usize = 256;

/// The parameters of a request, without and with `_meta`.
type SplitParams = (RawObject, RequestMeta);

impl Gateway {
    /// Serves the only client, until its transport closes or `stop` completes. The client also gets the requests that
    /// servers send outside of any call.
    pub async fn serve_exclusive(
        &self,
        transport: impl Transport,
        principal: &str,
        stop: impl Future<Output = ()>,
    ) {
        self.serve_client(transport, (principal, Exclusivity::Exclusive), stop).await;
        // A server that does not read delays nothing.
        let reset = self.relay.host.set_default_handler(None);
        let _server_is_slow = timeout(CLOSE_TIMEOUT, reset).await;
    }

    /// Serves one of several clients, until its transport closes or `stop` completes.
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
        info!(principal, "client connected");
        let SpawnedPeer { peer, mut events, task } = Peer::spawn(transport);
        let mut connection = ClientConnection {
            gateway: self.clone(),
            peer,
            principal: principal.into(),
            session: Client::new_session(),
            client: None,
            has_read_handshake: false,
            exclusivity,
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
                Some(changed) = connection.list_changes.next(), if connection.may_get_list_changes() => connection.notify_list_changes(&changed).await,
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
        info!(principal, "client disconnected");
        drop(connection);
        let mut task = task;
        // The client may not read the last responses.
        if timeout(CLOSE_TIMEOUT, &mut task).await.is_err() {
            task.abort();
            let _cancelled = task.await;
        }
    }
}

/// Is it the only client of the gateway?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exclusivity {
    Exclusive,
    Shared,
}

struct ClientConnection {
    gateway: Gateway,
    peer: Peer,
    principal: Arc<str>,
    /// The session of all modern requests on the transport.
    session: u64,
    /// The legacy client, after `initialize`.
    client: Option<Arc<Client>>,
    /// Whether the legacy client sent a message after `initialize`, so it has the response. A notification could
    /// overtake it.
    has_read_handshake: bool,
    exclusivity: Exclusivity,
    /// Keeps the session context of the client alive.
    session_context: Option<Arc<RequestContext>>,
    tasks: JoinSet<RequestId>,
    /// Cancels running requests.
    cancel_by_id: HashMap<RequestId, oneshot::Sender<()>>,
    list_changes: ListChanges,
    subscriptions: ResourceSubscriptions,
    /// Notifications outside of requests.
    session_messages: mpsc::Receiver<Message>,
}

impl ClientConnection {
    async fn receive_request(&mut self, request: IncomingRequest) {
        self.has_read_handshake |= self.client.is_some();
        let params = match split_meta(request.params.as_ref()) {
            Ok(params) => params,
            Err(error) => return request.reject(error).await,
        };
        let method = Method::parse(request.method.clone());
        let is_modern = params.1.protocol_version.is_some() || method == Method::Discover;
        let immediate = match is_modern {
            true => self.modern_request(request, method, params),
            false => self.legacy_request(request, method, params).await,
        };
        if let Some((request, outcome)) = immediate {
            match outcome {
                Ok(result) => request.respond(result).await,
                Err(error) => request.reject(error).await,
            }
        }
    }

    /// Returns the response if it needs no server; otherwise a task runs the request.
    async fn legacy_request(
        &mut self,
        request: IncomingRequest,
        method: Method,
        params: SplitParams,
    ) -> Option<(IncomingRequest, Outcome)> {
        if method == Method::Initialize {
            let outcome = self.initialize(&params.0).await;
            return Some((request, outcome));
        }
        let Some(client) = self.client.clone() else {
            let error = RpcError {
                code: -32600,
                message: "send `initialize` first".to_owned(),
                data: None,
            };
            return Some((request, Err(error)));
        };
        if !matches!(method, Method::ResourcesSubscribe | Method::ResourcesUnsubscribe) {
            return self.start_legacy(request, method, params, client);
        }
        let outcome = match params.0.get_string("uri") {
            None => Err(server::invalid_params("`uri` is missing")),
            Some(uri) if method == Method::ResourcesSubscribe => {
                self.subscriptions.subscribe(&self.gateway.relay, &client, &uri).await
            }
            Some(uri) => {
                self.subscriptions.unsubscribe(&uri);
                Ok(())
            }
        };
        Some((request, outcome.map(|()| empty_object())))
    }

    async fn initialize(&mut self, params: &RawObject) -> Outcome {
        let client = Client::new(self.principal.clone(), Era::Legacy, params.get("capabilities"));
        self.set_client(Arc::new(client)).await;
        let identity = self.gateway.relay.server_identity(Era::Legacy, &self.principal);
        let params = params.to_payload().decode().unwrap_or_default();
        Ok(payload(&ServerSession::new(identity).initialize(&params)))
    }

    /// Sets the legacy client. An exclusive client becomes the default handler of server requests.
    async fn set_client(&mut self, client: Arc<Client>) {
        let (sender, session_messages) = mpsc::channel(NOTIFICATION_CAPACITY);
        self.session_messages = session_messages;
        let channel = Arc::new(TransportChannel { messages: sender, peer: self.peer.clone() });
        let context = RequestContext::for_session(client.clone(), channel);
        if self.exclusivity == Exclusivity::Exclusive {
            self.gateway.relay.host.set_default_handler(Some(context.clone())).await;
        }
        self.client = Some(client);
        self.session_context = Some(context);
    }

    fn start_legacy(
        &mut self,
        request: IncomingRequest,
        method: Method,
        params: SplitParams,
        client: Arc<Client>,
    ) -> Option<(IncomingRequest, Outcome)> {
        if let Some(error) = self.over_limit(&request) {
            return Some((request, Err(error)));
        }
        let (sender, notifications) = mpsc::channel(NOTIFICATION_CAPACITY);
        let channel = Arc::new(TransportChannel { messages: sender, peer: self.peer.clone() });
        let context = Arc::new(RequestContext::new(client, channel));
        let inbound = InboundRequest::new(request.id.clone(), method, params, context);
        let relay = self.gateway.relay.clone();
        let notifier = request.notifier();
        self.start(request, async move {
            let respond = relay.respond(&inbound);
            forward_until_done(respond, notifications, |it| send_notification(&notifier, it)).await
        });
        None
    }

    fn modern_request(
        &mut self,
        request: IncomingRequest,
        method: Method,
        (params, meta): SplitParams,
    ) -> Option<(IncomingRequest, Outcome)> {
        if let Err(error) = meta.validate_modern() {
            return Some((request, Err(error)));
        }
        if let Some(error) = self.over_limit(&request) {
            return Some((request, Err(error)));
        }
        let session = Some(self.session);
        let sender = (self.principal.clone(), self.principal.clone());
        let client = modern_request::client_from_meta(sender, &meta, session);
        let gateway = &self.gateway;
        if method == Method::Discover {
            let result = gateway.relay.discover(&client.principal);
            return Some((request, Ok(result)));
        }
        let (id, notifier) = (request.id.clone(), request.notifier());
        if method == Method::SubscriptionsListen {
            let relay = gateway.relay.clone();
            self.start(
                request,
                async move { listen(&relay, &client, (&id, &params), &notifier).await },
            );
            return None;
        }
        let (channel, inbox) = pending::channel();
        let context = Arc::new(RequestContext::new(client, channel));
        let inbound = InboundRequest::new(id, method, (params, meta), context);
        let multi_round_trip = gateway.multi_round_trip.clone();
        self.start(request, async move {
            run_modern(&multi_round_trip, inbound, inbox, &notifier).await
        });
        None
    }

    /// Runs a request in a task of its own. A cancelled request gets no response.
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
        if is_over_limit {
            let limit = MAX_CONCURRENT_REQUESTS;
            warn!(limit, "request refused: too many at once, or its id is in use");
        }
        is_over_limit
            .then(|| server::internal_error("too many concurrent requests, or a duplicate id"))
    }

    async fn receive_notification(&mut self, method: &str, params: Option<&Payload>) {
        self.has_read_handshake |= self.client.is_some();
        if method == "notifications/roots/list_changed"
            && let Some(client) = &self.client
        {
            let dedicated = self.gateway.relay.catalogue().own_connection_key(client);
            if dedicated.is_some() || self.exclusivity == Exclusivity::Exclusive {
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

    /// Whether lists that changed can be announced. Those of a client in its handshake wait.
    fn may_get_list_changes(&self) -> bool {
        self.client.is_none() || self.has_read_handshake
    }

    /// Notifies a legacy client of lists that changed. Modern clients use `subscriptions/listen`.
    async fn notify_list_changes(&self, changed: &[ListChange]) {
        if self.client.is_some() {
            for change in changed {
                self.notify(change.notification()).await;
            }
        }
    }

    async fn notify(&self, message: Message) {
        if let Message::Notification { method, params } = message {
            let _disconnected = self.peer.notify(method, params).await;
        }
    }
}

async fn send_notification(notifier: &RequestNotifier, notification: Message) {
    if let Message::Notification { method, params } = notification {
        notifier.notify(method, params).await;
    }
}

/// Runs `subscriptions/listen` until the gateway ends.
async fn listen(
    relay: &Relay,
    client: &Client,
    (id, params): (&RequestId, &RawObject),
    notifier: &RequestNotifier,
) -> Outcome {
    let (mut stream, first) = ListenStream::open(relay, client, id, params).await?;
    send_notification(notifier, first).await;
    while let Some(messages) = stream.next().await {
        for message in messages {
            send_notification(notifier, message).await;
        }
    }
    stream.final_result()
}

/// Runs a modern request until it completes or needs input.
async fn run_modern(
    multi_round_trip: &MultiRoundTrip,
    request: InboundRequest,
    inbox: Inbox,
    notifier: &RequestNotifier,
) -> Outcome {
    let mut pending = multi_round_trip.start_or_resume(request, inbox).await?;
    loop {
        match pending.next().await {
            Step::Notification(notification) => send_notification(notifier, notification).await,
            Step::InputRequired(requests) => {
                return multi_round_trip.suspend(pending, &requests).await;
            }
            Step::Complete(outcome) => return outcome,
        }
    }
}

/// The channel to a client that accepts requests at any time.
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
                Ok(result) => Ok(result),
                Err(CallError::Remote(error)) => Err(error),
                Err(CallError::Timeout(_) | CallError::Transport(_) | CallError::Closed { .. }) => {
                    Err(server::internal_error("the client has disconnected"))
                }
            }
        })
    }
}
