//! Changes while the server runs, and their subscribers on all connections.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::ErrorData;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// How many changes a slow subscriber may lag behind before it misses the oldest.
const BACKLOG: usize = 64;

/// The resource with change notifications.
pub const WATCHED_RESOURCE: &str = "test://watched-resource";

/// A change.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The watched resource.
    WatchedResource,
}

/// Makes changes and notifies subscribers.
#[derive(Debug)]
pub struct ChangeNotifier {
    changes: broadcast::Sender<Change>,
    has_tool: AtomicBool,
    has_prompt: AtomicBool,
}

impl ChangeNotifier {
    /// The initial state.
    pub fn new() -> ChangeNotifier {
        ChangeNotifier {
            changes: broadcast::Sender::new(BACKLOG),
            has_tool: AtomicBool::new(false),
            has_prompt: AtomicBool::new(false),
        }
    }

    /// Whether the changing tool is listed.
    pub fn has_tool(&self) -> bool {
        self.has_tool.load(Ordering::SeqCst)
    }

    /// Whether the changing prompt is listed.
    pub fn has_prompt(&self) -> bool {
        self.has_prompt.load(Ordering::SeqCst)
    }

    /// Makes a change and notifies all subscribers.
    pub fn publish(&self, change: Change) {
        match change {
            Change::Tools => drop(self.has_tool.fetch_xor(true, Ordering::SeqCst)),
            Change::Prompts => drop(self.has_prompt.fetch_xor(true, Ordering::SeqCst)),
            Change::WatchedResource => {}
        }
        let _no_subscribers = self.changes.send(change);
    }

    /// Subscribes to all future changes.
    pub fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}

/// Notifies a modern client of its subscriptions, until it leaves.
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
        // The sink drops notifications that the client did not subscribe to.
        let _not_subscribed = match change {
            Ok(Change::Tools) => sink.notify_tool_list_changed().await,
            Ok(Change::Prompts) => sink.notify_prompt_list_changed().await,
            Ok(Change::WatchedResource) => sink.notify_resource_updated(WATCHED_RESOURCE).await,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return Ok(()),
        };
    }
}

/// The resources that a legacy client subscribed to.
#[derive(Debug, Default)]
pub struct SubscribedResources {
    uris: Mutex<Vec<String>>,
}

impl SubscribedResources {
    /// Adds a subscription.
    pub fn add(&self, uri: String) {
        self.uris.lock().expect("no holder of the lock panics").push(uri);
    }

    /// Removes a subscription.
    pub fn remove(&self, uri: &str) {
        self.uris.lock().expect("no holder of the lock panics").retain(|it| it != uri);
    }

    fn has(&self, uri: &str) -> bool {
        self.uris.lock().expect("no holder of the lock panics").iter().any(|it| it == uri)
    }
}

/// Notifies a legacy client, until a message cannot be sent.
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
