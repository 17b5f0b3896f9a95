//! What changes while the server runs, and everybody who wants to hear of it, whatever connection they came by.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::ErrorData;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// How many changes may wait for a slow listener; it misses the oldest then.
const BACKLOG: usize = 64;

/// The resource whose changes are told.
pub const WATCHED_RESOURCE: &str = "test://watched-resource";

/// Something is not as it was.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The watched resource.
    WatchedResource,
}

/// Keeps what changes, and tells.
#[derive(Debug)]
pub struct ChangeNotifier {
    changes: broadcast::Sender<Change>,
    has_tool: AtomicBool,
    has_prompt: AtomicBool,
}

impl ChangeNotifier {
    /// Nothing has changed yet.
    pub fn new() -> ChangeNotifier {
        ChangeNotifier {
            changes: broadcast::Sender::new(BACKLOG),
            has_tool: AtomicBool::new(false),
            has_prompt: AtomicBool::new(false),
        }
    }

    /// Is the tool listed that comes and goes?
    pub fn has_tool(&self) -> bool {
        self.has_tool.load(Ordering::SeqCst)
    }

    /// Is the prompt listed that comes and goes?
    pub fn has_prompt(&self) -> bool {
        self.has_prompt.load(Ordering::SeqCst)
    }

    /// Makes the change, and tells everybody.
    pub fn publish(&self, change: Change) {
        match change {
            Change::Tools => drop(self.has_tool.fetch_xor(true, Ordering::SeqCst)),
            Change::Prompts => drop(self.has_prompt.fetch_xor(true, Ordering::SeqCst)),
            Change::WatchedResource => {}
        }
        let _nobody_listens = self.changes.send(change);
    }

    /// Hears every change from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}

/// Tells a newer client what it subscribed to, until it leaves.
pub async fn notify_subscriber(
    subscription: &SubscriptionContext,
    mut changes: broadcast::Receiver<Change>,
) -> Result<(), ErrorData> {
    let sink = subscription.sink();
    loop {
        let change = tokio::select! {
            () = subscription.cancelled() => return Ok(()),
            change = changes.recv() => change,
        };
        // The sink keeps to itself what the client did not ask for.
        let _not_wanted = match change {
            Ok(Change::Tools) => sink.notify_tool_list_changed().await,
            Ok(Change::Prompts) => sink.notify_prompt_list_changed().await,
            Ok(Change::WatchedResource) => sink.notify_resource_updated(WATCHED_RESOURCE).await,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return Ok(()),
        };
    }
}

/// The resources that an older client subscribed to.
#[derive(Debug, Default)]
pub struct SubscribedResources {
    uris: Mutex<Vec<String>>,
}

impl SubscribedResources {
    /// The client wants to hear of it.
    pub fn add(&self, uri: String) {
        self.uris.lock().expect("nobody panics with it").push(uri);
    }

    /// The client does not want to hear of it any more.
    pub fn remove(&self, uri: &str) {
        self.uris.lock().expect("nobody panics with it").retain(|it| it != uri);
    }

    fn has(&self, uri: &str) -> bool {
        self.uris.lock().expect("nobody panics with it").iter().any(|it| it == uri)
    }
}

/// Tells an older client what changes, until a message does not reach it.
pub async fn notify_session(
    peer: Peer<RoleServer>,
    subscribed: &SubscribedResources,
    mut changes: broadcast::Receiver<Change>,
) {
    loop {
        let delivered = match changes.recv().await {
            Ok(Change::Tools) => peer.notify_tool_list_changed().await,
            Ok(Change::Prompts) => peer.notify_prompt_list_changed().await,
            Ok(Change::WatchedResource) if subscribed.has(WATCHED_RESOURCE) => {
                peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(
                    WATCHED_RESOURCE,
                ))
                .await
            }
            Ok(Change::WatchedResource) | Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        if delivered.is_err() {
            return;
        }
    }
}
