//! One client's connection to a server: reads its requests, sends notifications, and ends with its transport.
//! One task owns the connection; each handler runs in its own task, which is dropped when the client cancels.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::{Payload, RequestId, RpcError};
use switchboard_wire::peer::{IncomingRequest, Peer, PeerEvent, SpawnedPeer};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::log_level::LogLevel;
use switchboard_wire::server;
use switchboard_wire::server::{ClientContext, ServerSession, with_subscription_id};
use switchboard_wire::transport::Transport;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::kit::change_notifier::ServerChange;
use crate::kit::context::{ContextParts, HandlerContext};
use crate::kit::dispatch;
use crate::kit::request_state::MethodCall;
use crate::kit::server::Server;

/// The maximum size of a request's parameters, in bytes.
const MAX_PARAMS_SIZE: usize = 4 * 1024 * 1024;
/// How many handlers may run at once.
const MAX_CONCURRENT_CALLS: usize = 64;
/// Limits for the resources that a client subscribes to, and for its subscriptions.
const MAX_SUBSCRIBED_RESOURCES: usize = 256;
const MAX_SUBSCRIPTIONS: usize = 16;

impl Server {
    /// Serves one client until its transport ends. Dropping the future ends the connection and all running
    /// calls.
    pub async fn serve(self: Arc<Server>, transport: impl Transport) {
        serve(self, transport, std::future::pending()).await;
    }

    /// The same, until `stop` completes. Requests that are still open are answered with an error.
    pub async fn serve_until(
        self: Arc<Server>,
        transport: impl Transport,
        stop: impl Future<Output = ()>,
    ) {
        serve(self, transport, stop).await;
    }
}

/// Serves one client until its transport ends or `stop` completes. Running calls are dropped, and their client
/// gets an error.
async fn serve<T: Transport>(server: Arc<Server>, transport: T, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let mut change = server.changes().subscribe();
    let SpawnedPeer { peer, mut events, task } = Peer::spawn(transport);
    let mut connection = ClientConnection {
        session: ServerSession::new(server.identity()),
        server,
        peer,
        min_log_level: Arc::new(AtomicU8::new(LogLevel::Info.rank())),
        roots_revision: Arc::default(),
        calls: JoinSet::new(),
        cancel_senders: HashMap::new(),
        subscribed_uris: BTreeSet::new(),
        subscriptions: Vec::new(),
    };
    loop {
        tokio::select! {
            () = &mut stop => break,
            event = events.recv() => match event {
                Some(PeerEvent::Request(request)) => connection.on_request(request).await,
                Some(PeerEvent::Notification { method, params }) => {
                    connection.on_notification(&method, params.as_ref());
                }
                None => break,
            },
            change = change.recv() => match change {
                Ok(change) => connection.notify_changed(&change).await,
                Err(RecvError::Lagged(_)) => connection.notify_all_changed().await,
                // Unreachable: the server holds a sender.
                Err(RecvError::Closed) => break,
            },
            Some(done) = connection.calls.join_next() => {
                if let Ok(id) = done {
                    connection.cancel_senders.remove(&id);
                } else {
                    connection.cancel_senders.retain(|_, cancel| !cancel.is_closed());
                }
            }
        }
    }
    connection.calls.shutdown().await;
    // Blocking threads of handlers may still hold the peer.
    connection.peer.close();
    drop(connection);
    let _statistics = task.await;
}

struct ClientConnection {
    server: Arc<Server>,
    session: ServerSession,
    peer: Peer,
    /// The minimum log level of a legacy client, by rank.
    min_log_level: Arc<AtomicU8>,
    /// How many times the client announced that its roots changed.
    roots_revision: Arc<AtomicU64>,
    calls: JoinSet<RequestId>,
    cancel_senders: HashMap<RequestId, oneshot::Sender<()>>,
    /// The resources that a legacy client subscribed to.
    subscribed_uris: BTreeSet<String>,
    /// The subscriptions of a modern client.
    subscriptions: Vec<Subscription>,
}

/// A subscription: a request that is answered when it ends.
struct Subscription {
    request: IncomingRequest,
    filter: Json,
}

impl ClientConnection {
    async fn on_request(&mut self, request: IncomingRequest) {
        let params = match read_params(request.params.as_ref()) {
            Ok(params) => params,
            Err(error) => return request.reject(error).await,
        };
        let client = match self.session.admit(&request.method, &params) {
            Ok(client) => client,
            Err(error) => return request.reject(error).await,
        };
        let result = match request.method.as_ref() {
            "initialize" => Ok(self.session.initialize(&params)),
            "server/discover" => Ok(self.session.discover()),
            "logging/setLevel" => self.set_log_level(&params),
            "resources/subscribe" => self.subscribe_resource(&params),
            "resources/unsubscribe" => {
                self.subscribed_uris.remove(params["uri"].as_str().unwrap_or_default());
                Ok(json!({}))
            }
            "subscriptions/listen" => return self.open_subscription(request, params).await,
            _ => return self.spawn_handler(request, client, params).await,
        };
        match result {
            Ok(result) => {
                let result = self.session.encode_result(client.era, &request.method, result);
                request.respond(result).await;
            }
            Err(error) => request.reject(error).await,
        }
    }

    fn set_log_level(&self, params: &Json) -> Result<Json, RpcError> {
        let level = params["level"].as_str().and_then(LogLevel::parse);
        let level = level.ok_or_else(|| server::invalid_params("unknown log level"))?;
        self.min_log_level.store(level.rank(), Ordering::Relaxed);
        Ok(json!({}))
    }

    fn subscribe_resource(&mut self, params: &Json) -> Result<Json, RpcError> {
        let uri = params["uri"].as_str();
        let uri = uri.ok_or_else(|| server::invalid_params("`uri` is missing"))?;
        if self.subscribed_uris.len() >= MAX_SUBSCRIBED_RESOURCES {
            return Err(server::internal_error("too many resource subscriptions"));
        }
        self.subscribed_uris.insert(uri.to_owned());
        Ok(json!({}))
    }

    /// Acknowledges a subscription and starts it.
    async fn open_subscription(&mut self, request: IncomingRequest, params: Json) {
        let filter = params["notifications"].clone();
        let uris = filter["resourceSubscriptions"].as_array().map_or(0, Vec::len);
        if !filter.is_object() {
            let error = server::invalid_params("`notifications` is missing");
            return request.reject(error).await;
        }
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS || uris > MAX_SUBSCRIBED_RESOURCES {
            return request.reject(server::internal_error("too many subscriptions")).await;
        }
        let acknowledged = with_subscription_id(json!({"notifications": filter}), &request.id);
        let method = "notifications/subscriptions/acknowledged";
        request.notifier().notify(method, Some(payload(&acknowledged))).await;
        self.subscriptions.push(Subscription { request, filter });
    }

    /// Runs the handler in a task. A cancelled request gets no response.
    async fn spawn_handler(
        &mut self,
        request: IncomingRequest,
        client: ClientContext,
        params: Json,
    ) {
        let method = request.method.clone();
        let call = MethodCall { method: &method, params: &params };
        let input_responses = match client.era {
            Era::Legacy => Ok(serde_json::Map::new()),
            Era::Modern => self.server.request_states.verify(&call),
        };
        let input_responses = match input_responses {
            Ok(input_responses) => input_responses,
            Err(error) => return request.reject(error.into_remote_error(client.era)).await,
        };
        if self.calls.len() >= MAX_CONCURRENT_CALLS || self.cancel_senders.contains_key(&request.id)
        {
            return request.reject(server::internal_error("too many requests at once")).await;
        }
        let (cancel, cancelled) = oneshot::channel();
        self.cancel_senders.insert(request.id.clone(), cancel);
        let context = HandlerContext::new(ContextParts {
            client,
            notifier: request.notifier(),
            peer: self.peer.clone(),
            input_responses,
            min_log_level: self.min_log_level.clone(),
            roots_revision: self.roots_revision.clone(),
        });
        let (server, session) = (self.server.clone(), self.session.clone());
        self.calls.spawn(async move {
            let id = request.id.clone();
            let cancel_on_drop = CancelOnDrop(context.clone());
            let call = MethodCall { method: &method, params: &params };
            tokio::select! {
                biased;
                Ok(()) = cancelled => request.discard(),
                result = dispatch::dispatch(&server, &context, call) => match result {
                    Ok(result) => {
                        let era = context.client().era;
                        request.respond(session.encode_result(era, &method, result)).await;
                    }
                    Err(error) => request.reject(error).await,
                },
            }
            drop(cancel_on_drop);
            id
        });
    }

    fn on_notification(&mut self, method: &str, params: Option<&Payload>) {
        match method {
            "notifications/cancelled" => {}
            "notifications/roots/list_changed" => {
                self.roots_revision.fetch_add(1, Ordering::Relaxed);
                return;
            }
            _ => return,
        }
        let params: Json = params.and_then(|it| it.decode().ok()).unwrap_or_default();
        let id = RequestId::from_json(&params["requestId"]);
        if let Some(cancel) = self.cancel_senders.remove(&id) {
            let _done_already = cancel.send(());
        }
        if let Some(at) = self.subscriptions.iter().position(|it| it.request.id == id) {
            self.subscriptions.swap_remove(at).request.discard();
        }
    }

    /// Tells a client that missed changes that everything may have changed.
    async fn notify_all_changed(&mut self) {
        self.notify_changed(&ServerChange::ToolListChanged).await;
        self.notify_changed(&ServerChange::ResourceListChanged).await;
        let listed = self
            .subscriptions
            .iter()
            .flat_map(|it| it.filter["resourceSubscriptions"].as_array().into_iter().flatten());
        let mut uris: BTreeSet<String> =
            listed.filter_map(Json::as_str).map(str::to_owned).collect();
        uris.extend(self.subscribed_uris.iter().cloned());
        for uri in uris {
            self.notify_changed(&ServerChange::ResourceUpdated { uri }).await;
        }
    }

    /// Notifies the client. An initialized (legacy) client hears of every list; a modern client of what its
    /// subscriptions name.
    async fn notify_changed(&mut self, change: &ServerChange) {
        let (method, params) = match change {
            ServerChange::ToolListChanged => ("notifications/tools/list_changed", json!({})),
            ServerChange::ResourceListChanged => {
                ("notifications/resources/list_changed", json!({}))
            }
            ServerChange::ResourceUpdated { uri } => {
                ("notifications/resources/updated", json!({"uri": uri}))
            }
        };
        let filter = |filter: &Json| match change {
            ServerChange::ToolListChanged => filter["toolsListChanged"] == true,
            ServerChange::ResourceListChanged => filter["resourcesListChanged"] == true,
            ServerChange::ResourceUpdated { uri } => filter["resourceSubscriptions"]
                .as_array()
                .is_some_and(|it| it.iter().any(|it| it == uri.as_str())),
        };
        for subscription in self.subscriptions.iter().filter(|it| filter(&it.filter)) {
            let tagged = with_subscription_id(params.clone(), &subscription.request.id);
            subscription.request.notifier().notify(method, Some(payload(&tagged))).await;
        }
        let is_subscribed = match change {
            ServerChange::ToolListChanged | ServerChange::ResourceListChanged => true,
            ServerChange::ResourceUpdated { uri } => self.subscribed_uris.contains(uri),
        };
        if self.session.is_initialized() && is_subscribed {
            let _connection_over = self.peer.notify(method, Some(payload(&params))).await;
        }
    }
}

/// Marks the call as cancelled when its task ends for any reason.
struct CancelOnDrop(HandlerContext);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn payload(json: &Json) -> Payload {
    Payload::from_json(json.to_string().into())
}

fn read_params(params: Option<&Payload>) -> Result<Json, RpcError> {
    let Some(params) = params else { return Ok(json!({})) };
    if params.as_bytes().len() > MAX_PARAMS_SIZE {
        return Err(server::invalid_params("the parameters are too large"));
    }
    match params.decode::<Json>() {
        Ok(params @ Json::Object(_)) => Ok(params),
        Ok(_) | Err(_) => Err(server::invalid_params("the parameters are not an object")),
    }
}
