//! One client's session: open calls, requests to the client, and subscriptions. `dispatch` handles its messages;
//! transports carry the bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::client_channel::ClientChannel;
use super::protocol::{Handshake, META_SUBSCRIPTION_ID, RequestEra};
use super::server_state::{NotificationSink, ServerState};

/// A request of the client.
#[derive(Debug, Clone)]
pub struct ClientRequest {
    pub id: Value,
    pub method: String,
    pub params: Value,
    pub era: RequestEra,
    /// The channel for the response.
    pub channel: ClientChannel,
    /// The channel for progress and for requests to the client.
    pub notifications: ClientChannel,
    /// The request's HTTP headers.
    pub headers: Value,
}

/// One client's session.
#[derive(Debug)]
pub struct ClientSession {
    pub server: Arc<ServerState>,
    /// The channel for messages that belong to no request.
    standalone: ClientChannel,
    state: Mutex<SessionState>,
}

#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) initialized: Handshake,
    /// The params of `initialize`; null before.
    pub(super) client: Value,
    pub(super) calls: HashMap<String, CallInProgress>,
    pub(super) server_requests: HashMap<String, oneshot::Sender<Value>>,
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) subscribed_resources: Vec<String>,
}

/// A call that has not ended.
#[derive(Debug)]
pub(super) struct CallInProgress {
    pub(super) serial: usize,
    /// The name under which a cancellation is recorded.
    pub(super) label: String,
    pub(super) cancel: oneshot::Sender<CallCancellation>,
}

#[derive(Debug)]
pub(super) struct Subscription {
    /// The serial number of its call. Request ids are not unique: clients without sessions share a session.
    pub(super) serial: usize,
    pub(super) id: Value,
    pub(super) filter: Value,
    pub(super) channel: ClientChannel,
    pub(super) end: Option<oneshot::Sender<()>>,
}

/// The call was cancelled and gets no response.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallCancellation;

impl ClientSession {
    pub fn new(
        server: &Arc<ServerState>,
        standalone: ClientChannel,
        initialized: Handshake,
    ) -> Arc<ClientSession> {
        let state = SessionState {
            initialized,
            client: Value::Null,
            calls: HashMap::new(),
            server_requests: HashMap::new(),
            subscriptions: Vec::new(),
            subscribed_resources: Vec::new(),
        };
        let session = ClientSession { server: Arc::clone(server), standalone, state: state.into() };
        let session = Arc::new(session);
        let sink: Weak<dyn NotificationSink> = Arc::<ClientSession>::downgrade(&session);
        server.add_session(sink);
        session
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().expect("no holder of the lock panics")
    }

    pub fn initialized(&self) -> Handshake {
        self.state().initialized
    }

    /// The params of `initialize`.
    pub fn initialize_params(&self) -> Value {
        self.state().client.clone()
    }

    pub fn standalone(&self) -> &ClientChannel {
        &self.standalone
    }

    /// Sends a legacy request to the client and waits for the response.
    pub async fn send_request(
        &self,
        notifications: &ClientChannel,
        method: &str,
        params: &Value,
    ) -> Option<Value> {
        const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
        let (_, response) = self.begin_request(notifications, method, params);
        tokio::time::timeout(CLIENT_TIMEOUT, response).await.ok()?.ok()
    }

    /// Sends a legacy request without waiting; returns its id and the pending response.
    pub fn begin_request(
        &self,
        notifications: &ClientChannel,
        method: &str,
        params: &Value,
    ) -> (Value, oneshot::Receiver<Value>) {
        let id = json!(format!("question-{}", self.server.next_id()));
        let (response_sender, response) = oneshot::channel();
        self.state().server_requests.insert(id.to_string(), response_sender);
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            request["params"] = params.clone();
        }
        notifications.send_message(&request);
        (id, response)
    }
}

impl NotificationSink for ClientSession {
    fn notify(&self, method: &str, params: &Value) {
        let state = self.state();
        for subscription in
            state.subscriptions.iter().filter(|it| filter_matches(&it.filter, method, params))
        {
            let mut params = params.clone();
            params["_meta"][META_SUBSCRIPTION_ID] = subscription.id.clone();
            subscription
                .channel
                .send_message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        let is_subscribed = match params["uri"].as_str() {
            Some(uri) => state.subscribed_resources.iter().any(|it| it == uri),
            None => true,
        };
        // Clients that sent `initialize` get everything; others get only what they subscribed to.
        if !state.client.is_null() && is_subscribed {
            self.standalone
                .send_message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    }

    fn end_subscriptions(&self) {
        for subscription in &mut self.state().subscriptions {
            if let Some(end) = subscription.end.take() {
                let _client_left = end.send(());
            }
        }
    }
}

fn filter_matches(filter: &Value, method: &str, params: &Value) -> bool {
    let key = match method {
        "notifications/tools/list_changed" => "toolsListChanged",
        "notifications/prompts/list_changed" => "promptsListChanged",
        "notifications/resources/list_changed" => "resourcesListChanged",
        _ => {
            let uris = filter["resourceSubscriptions"].as_array();
            return uris.is_some_and(|it| it.contains(&params["uri"]));
        }
    };
    filter[key] == true
}
