//! One client's conversation: what it asked and has not been answered, what it was asked, and what it listens to.
//! Which bytes carry it is up to the transports; what tools do is in `acts`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::client_channel::ClientChannel;
use super::protocol::{Initialized, META_SUBSCRIPTION_ID, RequestEra};
use super::server_state::{NotificationSink, ServerState};

/// One request on its way to an answer.
#[derive(Debug, Clone)]
pub struct ClientRequest {
    pub id: Value,
    pub method: String,
    pub params: Value,
    pub era: RequestEra,
    /// Where the answer goes.
    pub channel: ClientChannel,
    /// Where progress and questions about it go.
    pub notifications: ClientChannel,
    /// The headers it came with.
    pub headers: Value,
}

/// One client's conversation.
#[derive(Debug)]
pub struct ClientSession {
    pub server: Arc<ServerState>,
    /// Where news go that nobody asked for.
    standalone: ClientChannel,
    state: Mutex<SessionState>,
}

#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) initialized: Initialized,
    /// What `initialize` came with.
    pub(super) client: Value,
    pub(super) calls: HashMap<String, CallInProgress>,
    pub(super) server_requests: HashMap<String, oneshot::Sender<Value>>,
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) subscribed_resources: Vec<String>,
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct CallInProgress {
    pub(super) serial: usize,
    /// What is written down when it is cancelled.
    pub(super) label: String,
    pub(super) cancel: oneshot::Sender<Cancelled>,
}

#[derive(Debug)]
pub(super) struct Subscription {
    /// That of its call. Ids are no use for that: clients without sessions share a conversation.
    pub(super) serial: usize,
    pub(super) id: Value,
    pub(super) filter: Value,
    pub(super) channel: ClientChannel,
    pub(super) end: Option<oneshot::Sender<()>>,
}

/// Why a request gets no answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cancelled;

impl ClientSession {
    pub fn new(
        server: &Arc<ServerState>,
        standalone: ClientChannel,
        initialized: Initialized,
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
        self.state.lock().expect("nobody panics with it")
    }

    pub fn initialized(&self) -> Initialized {
        self.state().initialized
    }

    /// What `initialize` came with.
    pub fn initialize_params(&self) -> Value {
        self.state().client.clone()
    }

    pub fn standalone(&self) -> &ClientChannel {
        &self.standalone
    }

    /// Asks the client something, in the legacy way.
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

    /// The same without waiting: the question's id, and the answer that may come.
    pub fn begin_request(
        &self,
        notifications: &ClientChannel,
        method: &str,
        params: &Value,
    ) -> (Value, oneshot::Receiver<Value>) {
        let id = json!(format!("question-{}", self.server.next_id()));
        let (answer, response) = oneshot::channel();
        self.state().server_requests.insert(id.to_string(), answer);
        let mut message_to_client = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            message_to_client["params"] = params.clone();
        }
        notifications.send_message(&message_to_client);
        (id, response)
    }
}

impl NotificationSink for ClientSession {
    fn notify(&self, method: &str, params: &Value) {
        let state = self.state();
        for listener in
            state.subscriptions.iter().filter(|it| filter_matches(&it.filter, method, params))
        {
            let mut params = params.clone();
            params["_meta"][META_SUBSCRIPTION_ID] = listener.id.clone();
            listener
                .channel
                .send_message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        let is_wanted = match params["uri"].as_str() {
            Some(uri) => state.subscribed_resources.iter().any(|it| it == uri),
            None => true,
        };
        // Who came with `initialize` hears everything, who did not hears what it listens to.
        if !state.client.is_null() && is_wanted {
            self.standalone
                .send_message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    }

    fn end_subscriptions(&self) {
        for listener in &mut self.state().subscriptions {
            if let Some(end) = listener.end.take() {
                let _client_left = end.send(());
            }
        }
    }
}

fn filter_matches(wants: &Value, method: &str, params: &Value) -> bool {
    let key = match method {
        "notifications/tools/list_changed" => "toolsListChanged",
        "notifications/prompts/list_changed" => "promptsListChanged",
        "notifications/resources/list_changed" => "resourcesListChanged",
        _ => {
            let uris = wants["resourceSubscriptions"].as_array();
            return uris.is_some_and(|it| it.contains(&params["uri"]));
        }
    };
    wants[key] == true
}
