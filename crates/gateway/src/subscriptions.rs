//! Notifications of changes: lists that changed, and resources that a client subscribes to. Serves legacy
//! subscriptions and `subscriptions/listen` alike, whatever era the servers have.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use switchboard::catalogue::ListKind;
use switchboard::{ResourceEvent, SubscribeError, Subscription};
use switchboard_wire::jsonrpc::message::{Message, RequestId, RpcError};
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;
use switchboard_wire::server::with_subscription_id;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::downstream::client::Client;
use crate::downstream::request::Outcome;
use crate::exposed::catalogue::ExposedCatalogue;
use crate::exposed::first_lists::FirstLists;
use crate::json::payload;
use crate::relay::Relay;

/// The largest number of resources that one client may subscribe to.
const MAX_RESOURCES: usize = 1000;
/// The capacity of the queue of updates of one client.
const UPDATE_CAPACITY: usize = 64;

const RESOURCE_UPDATED: &str = "notifications/resources/updated";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// A list that changed. Resources and resource templates share one notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListChange {
    Tools,
    Resources,
    Prompts,
}

impl ListChange {
    fn method(self) -> &'static str {
        match self {
            ListChange::Tools => "notifications/tools/list_changed",
            ListChange::Resources => "notifications/resources/list_changed",
            ListChange::Prompts => "notifications/prompts/list_changed",
        }
    }

    /// The member of a `subscriptions/listen` filter that requests it.
    fn filter_key(self) -> &'static str {
        match self {
            ListChange::Tools => "toolsListChanged",
            ListChange::Resources => "resourcesListChanged",
            ListChange::Prompts => "promptsListChanged",
        }
    }

    /// The notification for a legacy client.
    pub(crate) fn notification(self) -> Message {
        Message::Notification { method: self.method().into(), params: None }
    }
}

/// Watches the catalogue for lists that change.
#[derive(Debug)]
pub(crate) struct ListChanges {
    catalogues: watch::Receiver<Arc<ExposedCatalogue>>,
    seen: BTreeMap<ListKind, u64>,
    /// The lists before which no change is announced, until they are there.
    first_lists: Option<FirstLists>,
}

impl ListChanges {
    pub(crate) fn new(relay: &Relay) -> ListChanges {
        let mut catalogues = relay.catalogues.clone();
        let seen = revisions(&catalogues.borrow_and_update());
        let first_lists = Some(&relay.first_lists).filter(|it| !it.is_over()).cloned();
        ListChanges { catalogues, seen, first_lists }
    }

    /// The next lists that changed; None when the gateway has ended. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Vec<ListChange>> {
        if let Some(first_lists) = &self.first_lists {
            first_lists.wait().await;
            self.first_lists = None;
            self.seen = revisions(&self.catalogues.borrow_and_update());
        }
        loop {
            self.catalogues.changed().await.ok()?;
            let now = revisions(&self.catalogues.borrow_and_update());
            let changed = changed(&self.seen, &now);
            self.seen = now;
            if !changed.is_empty() {
                return Some(changed);
            }
        }
    }
}

fn revisions(catalogue: &ExposedCatalogue) -> BTreeMap<ListKind, u64> {
    catalogue.lists.iter().map(|(list, pages)| (*list, pages.revision())).collect()
}

fn changed(seen: &BTreeMap<ListKind, u64>, now: &BTreeMap<ListKind, u64>) -> Vec<ListChange> {
    let is_new = |list: ListKind| seen.get(&list) != now.get(&list);
    let mut changes = Vec::new();
    if is_new(ListKind::Tools) {
        changes.push(ListChange::Tools);
    }
    if is_new(ListKind::Resources) || is_new(ListKind::ResourceTemplates) {
        changes.push(ListChange::Resources);
    }
    if is_new(ListKind::Prompts) {
        changes.push(ListChange::Prompts);
    }
    changes
}

/// The resource subscriptions of one client. Dropping it ends them all.
#[derive(Debug)]
pub(crate) struct ResourceSubscriptions {
    tasks: JoinSet<()>,
    by_uri: BTreeMap<String, AbortHandle>,
    sender: mpsc::Sender<String>,
    updates: mpsc::Receiver<String>,
}

impl Default for ResourceSubscriptions {
    fn default() -> ResourceSubscriptions {
        let (sender, messages) = mpsc::channel(UPDATE_CAPACITY);
        ResourceSubscriptions {
            tasks: JoinSet::new(),
            by_uri: BTreeMap::new(),
            sender,
            updates: messages,
        }
    }
}

impl ResourceSubscriptions {
    /// Subscribes to a resource.
    pub(crate) async fn subscribe(
        &mut self,
        relay: &Relay,
        client: &Client,
        uri: &str,
    ) -> Result<(), RpcError> {
        if self.by_uri.contains_key(uri) {
            return Ok(());
        }
        if self.by_uri.len() >= MAX_RESOURCES {
            return Err(server::internal_error("too many resource subscriptions"));
        }
        let subscription = ResourceSubscriptions::open(relay, client, uri).await?;
        self.add(uri, subscription);
        Ok(())
    }

    /// Subscribes to a resource. The subscription ends unless it is added.
    pub(crate) async fn open(
        relay: &Relay,
        client: &Client,
        uri: &str,
    ) -> Result<Subscription, RpcError> {
        let catalogue = relay.first_catalogue().await;
        let server = catalogue.server_for_uri(uri).cloned();
        let server = server.filter(|it| relay.shows_server(&client.principal, it));
        let server = server.ok_or_else(|| server::invalid_params("the resource does not exist"))?;
        let dedicated = catalogue.dedicated_connection(client, &server, None);
        let subscription = relay.host.subscribe_dedicated(&server, uri, dedicated.as_ref()).await;
        subscription.map_err(|it| subscribe_error(&it))
    }

    /// The resources.
    pub(crate) fn uris(&self) -> impl Iterator<Item = &str> {
        self.by_uri.keys().map(String::as_str)
    }

    /// Adds a subscription that was opened.
    pub(crate) fn add(&mut self, uri: &str, mut subscription: Subscription) {
        let sender = self.sender.clone();
        let task = self.tasks.spawn(async move {
            while let Some(event) = subscription.next().await {
                let changed = match event {
                    ResourceEvent::Updated { uri } => uri,
                    // Updates in between were missed, so that the resource may have changed.
                    ResourceEvent::Resubscribed => subscription.uri().to_owned(),
                    ResourceEvent::Subscribed | ResourceEvent::Refused(_) => continue,
                };
                if sender.send(changed).await.is_err() {
                    return;
                }
            }
        });
        self.by_uri.insert(uri.to_owned(), task);
    }

    pub(crate) fn unsubscribe(&mut self, uri: &str) {
        if let Some(task) = self.by_uri.remove(uri) {
            task.abort();
        }
        while self.tasks.try_join_next().is_some() {}
    }

    /// The URI of the next resource that changed. Cancel-safe.
    pub(crate) async fn next_updated(&mut self) -> String {
        match self.updates.recv().await {
            Some(uri) => uri,
            None => std::future::pending().await,
        }
    }
}

/// The notification of a resource that changed.
pub(crate) fn resource_updated(uri: &str) -> Message {
    notification(RESOURCE_UPDATED, json!({"uri": uri}))
}

fn notification(method: &'static str, params: Json) -> Message {
    let params = Some(payload(&params));
    Message::Notification { method: method.into(), params }
}

fn subscribe_error(error: &SubscribeError) -> RpcError {
    match error {
        SubscribeError::Unsupported(_) => {
            RpcError { code: -32601, message: error.to_string(), data: None }
        }
        SubscribeError::UnknownServer(_)
        | SubscribeError::NotConnected(_)
        | SubscribeError::TooMany(_) => server::internal_error(&error.to_string()),
    }
}

/// A `subscriptions/listen` request of a modern client.
#[derive(Debug)]
pub(crate) struct ListenStream {
    id: RequestId,
    filter: Map<String, Json>,
    list_changes: ListChanges,
    resources: ResourceSubscriptions,
}

impl ListenStream {
    /// Opens the stream. The message acknowledges the subscriptions; it must be sent first.
    pub(crate) async fn open(
        relay: &Relay,
        client: &Client,
        id: &RequestId,
        params: &RawObject,
    ) -> Result<(ListenStream, Message), RpcError> {
        let filter = params.get("notifications").and_then(|it| it.decode::<Map<_, _>>().ok());
        let mut filter: Map<String, Json> = filter.ok_or_else(|| {
            server::invalid_params("`notifications` is missing or is not an object")
        })?;
        let catalogue = relay.catalogue();
        let capabilities = catalogue.capabilities(client.era);
        filter.retain(|name, value| {
            let (capability, is_requested) = match name.as_str() {
                "toolsListChanged" => ("tools", *value == true),
                "promptsListChanged" => ("prompts", *value == true),
                "resourcesListChanged" => ("resources", *value == true),
                "resourceSubscriptions" => ("resources", value.is_array()),
                _ => return false,
            };
            is_requested && capabilities.contains_key(capability)
        });
        let lists = ListChanges::new(relay);
        let mut resources = ResourceSubscriptions::default();
        let uris = filter.get("resourceSubscriptions").and_then(Json::as_array).cloned();
        let mut subscribed = Vec::new();
        for uri in uris.iter().flatten().filter_map(Json::as_str) {
            // A resource that cannot be subscribed to is left out of the acknowledgement.
            if resources.subscribe(relay, client, uri).await.is_ok() {
                subscribed.push(Json::from(uri));
            }
        }
        if uris.is_some() {
            filter.insert("resourceSubscriptions".to_owned(), subscribed.into());
        }
        let acknowledged = with_subscription_id(json!({"notifications": filter}), id);
        let stream = ListenStream { id: id.clone(), filter, list_changes: lists, resources };
        Ok((stream, notification(ACKNOWLEDGED, acknowledged)))
    }

    /// The next notifications; None when the gateway has ended. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Vec<Message>> {
        loop {
            tokio::select! {
                changed = self.list_changes.next() => {
                    let messages: Vec<Message> = changed?
                        .into_iter()
                        .filter(|it| self.filter.contains_key(it.filter_key()))
                        .map(|it| notification(it.method(), with_subscription_id(json!({}), &self.id)))
                        .collect();
                    if !messages.is_empty() {
                        return Some(messages);
                    }
                }
                uri = self.resources.next_updated() => {
                    let params = with_subscription_id(json!({"uri": uri}), &self.id);
                    return Some(vec![notification(RESOURCE_UPDATED, params)]);
                }
            }
        }
    }

    /// The result of the request, when the stream ends.
    pub(crate) fn final_result(&self) -> Outcome {
        let result = with_subscription_id(json!({"resultType": "complete"}), &self.id);
        Ok(payload(&result))
    }
}
