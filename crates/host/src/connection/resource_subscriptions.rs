//! The resource subscriptions of a connection. Each resource is subscribed to once, however many receivers it has, and
//! again after every reconnect. Legacy servers get one request for each resource; modern servers one stream for all,
//! which is replaced when the set changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard_wire::backoff::Backoff;
use switchboard_wire::client::Client;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::CallError;
use switchboard_wire::protocol::era::Era;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::connection::change_stream::{LISTEN_BACKOFF, ListenFuture, listen};
use crate::connection::optional_wait::{wait_for, wait_until};

/// The notification that a resource changed.
pub(crate) const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// The maximum number of subscriptions of one connection.
const MAX_SUBSCRIPTIONS: usize = 1000;
/// The maximum length of a URI.
const MAX_URI_BYTES: usize = 8192;
/// The timeout of `resources/subscribe` and `resources/unsubscribe`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Counters of a subscribed resource's updates. A slow receiver sees the sum, so nothing is queued.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResourceActivity {
    /// How often the server confirmed the subscription.
    pub(crate) subscribed: u64,
    /// How often the server said that the resource changed.
    pub(crate) updates: u64,
    /// The URI of the last update: the resource, or a part of it.
    pub(crate) last_changed: Option<Arc<str>>,
    /// How often the server refused the subscription.
    pub(crate) refusals: u64,
    /// The reason of the last refusal.
    pub(crate) refusal_reason: Option<Arc<str>>,
}

/// All subscriptions of a connection, by URI. They outlive reconnects.
#[derive(Default)]
pub(super) struct ResourceSubscriptions {
    by_uri: BTreeMap<String, watch::Sender<ResourceActivity>>,
}

/// The requests and streams of subscriptions on one open connection.
pub(super) struct ResourceWatch {
    client: Client,
    /// The current stream, on a modern server.
    stream: Option<ListenFuture>,
    /// Streams that were replaced. They stay open until the server acknowledges the new one.
    superseded: Vec<ListenFuture>,
    /// The URIs of each stream that the server has not acknowledged, the oldest first.
    unacknowledged: VecDeque<Vec<String>>,
    /// The URIs that the server confirmed on this connection.
    confirmed: BTreeSet<String>,
    /// Requests to a legacy server, at most two for each resource.
    legacy_requests: JoinSet<SubscribeResult>,
    opened_at: Instant,
    retry_at: Option<Instant>,
    backoff: Backoff,
}

/// The URI and result of a `resources/subscribe`; `None` for a `resources/unsubscribe`.
pub(super) type SubscribeResult = Option<(String, Result<Payload, CallError>)>;

/// Something that happened to a [`ResourceWatch`].
pub(super) enum WatchEvent {
    /// A legacy server answered.
    SubscribeFinished(SubscribeResult),
    /// The stream ended.
    StreamEnded(Result<Payload, CallError>),
    /// The backoff elapsed.
    RetryDue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Acknowledgement {
    #[serde(default)]
    notifications: SubscriptionFilter,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SubscriptionFilter {
    resource_subscriptions: Option<Vec<String>>,
    tools_list_changed: Option<bool>,
    resources_list_changed: Option<bool>,
    prompts_list_changed: Option<bool>,
}

#[derive(Deserialize)]
struct ResourceUpdate {
    uri: String,
}

impl ResourceWatch {
    pub(super) fn new(client: Client) -> ResourceWatch {
        ResourceWatch {
            client,
            stream: None,
            superseded: Vec::new(),
            unacknowledged: VecDeque::new(),
            confirmed: BTreeSet::new(),
            legacy_requests: JoinSet::new(),
            opened_at: Instant::now(),
            retry_at: None,
            backoff: LISTEN_BACKOFF,
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> WatchEvent {
        tokio::select! {
            biased;
            finished = self.legacy_requests.join_next(), if !self.legacy_requests.is_empty() => {
                WatchEvent::SubscribeFinished(finished.and_then(Result::ok).flatten())
            }
            result = wait_for(&mut self.stream) => {
                self.stream = None;
                WatchEvent::StreamEnded(result)
            }
            () = wait_until(self.retry_at) => {
                self.retry_at = None;
                WatchEvent::RetryDue
            }
        }
    }

    /// Whether a `subscriptions/acknowledged` belongs to a stream of resources and not to the one of lists.
    pub(super) fn is_acknowledgement(&self, params: Option<&Payload>) -> bool {
        let filter = parse_acknowledgement(params);
        let lists =
            [filter.tools_list_changed, filter.resources_list_changed, filter.prompts_list_changed];
        filter.resource_subscriptions.is_some()
            || (!self.unacknowledged.is_empty() && lists.iter().all(Option::is_none))
    }

    fn era(&self) -> Era {
        self.client.server().era
    }

    fn send_subscribe(&mut self, uri: &str) {
        let params = Payload::from_json(json!({"uri": uri}).to_string().into());
        let request = self.client.request("resources/subscribe").params(params);
        let (request, uri) = (request.timeout(REQUEST_TIMEOUT), uri.to_owned());
        self.legacy_requests.spawn(async move { Some((uri, request.send().await)) });
    }

    fn send_unsubscribe(&mut self, uris: Vec<String>, done: Option<oneshot::Sender<()>>) {
        let client = self.client.clone();
        self.legacy_requests.spawn(async move {
            for uri in uris {
                let params = Payload::from_json(json!({"uri": uri}).to_string().into());
                let request = client.request("resources/unsubscribe").params(params);
                let _ignored = request.timeout(REQUEST_TIMEOUT).send().await;
            }
            drop(done);
            None
        });
    }

    /// Opens a stream for these resources. The old stream stays open until the server acknowledges the new one, so
    /// that no change is lost between the two.
    fn open_stream(&mut self, uris: Vec<String>) {
        self.retry_at = None;
        if uris.is_empty() {
            self.stream = None;
            self.superseded.clear();
            return;
        }
        let stream = listen(&self.client, &json!({"resourceSubscriptions": uris}));
        self.superseded.extend(self.stream.replace(stream));
        self.unacknowledged.push_back(uris);
        self.opened_at = Instant::now();
    }
}

impl ResourceSubscriptions {
    /// Subscribes to a resource, and tells the server where it is the first subscription. `None` where there are too
    /// many subscriptions.
    pub(super) fn subscribe(
        &mut self,
        uri: String,
        watch: Option<&mut ResourceWatch>,
    ) -> Option<watch::Receiver<ResourceActivity>> {
        if let Some(activity) = self.by_uri.get(&uri) {
            return Some(activity.subscribe());
        }
        if self.by_uri.len() >= MAX_SUBSCRIPTIONS || uri.len() > MAX_URI_BYTES {
            return None;
        }
        let (activity, receiver) = watch::channel(ResourceActivity::default());
        self.by_uri.insert(uri.clone(), activity);
        if let Some(watch) = watch {
            match watch.era() {
                Era::Legacy => watch.send_subscribe(&uri),
                Era::Modern => self.open_stream(watch),
            }
        }
        Some(receiver)
    }

    /// Subscribes to everything again, on a new connection.
    pub(super) fn resubscribe_all(&self, watch: &mut ResourceWatch) {
        match watch.era() {
            Era::Legacy => self.by_uri.keys().for_each(|uri| watch.send_subscribe(uri)),
            Era::Modern => self.open_stream(watch),
        }
    }

    /// Drops the subscriptions without receivers. `done` is dropped when the server has been told.
    pub(super) fn drop_unused(
        &mut self,
        watch: Option<&mut ResourceWatch>,
        done: Option<oneshot::Sender<()>>,
    ) {
        let unused: Vec<String> = self
            .by_uri
            .extract_if(.., |_, activity| activity.receiver_count() == 0)
            .map(|(uri, _)| uri)
            .collect();
        let Some(watch) = watch.filter(|_| !unused.is_empty()) else { return };
        match watch.era() {
            Era::Legacy => watch.send_unsubscribe(unused, done),
            Era::Modern => {
                watch.confirmed.retain(|uri| !unused.contains(uri));
                self.open_stream(watch);
            }
        }
    }

    /// Handles an event of a [`ResourceWatch`].
    pub(super) fn on_event(&self, event: WatchEvent, watch: &mut ResourceWatch) {
        match event {
            WatchEvent::SubscribeFinished(result) => self.subscribe_finished(result),
            WatchEvent::StreamEnded(result) => self.stream_ended(&result, watch),
            WatchEvent::RetryDue => self.open_stream(watch),
        }
    }

    fn open_stream(&self, watch: &mut ResourceWatch) {
        watch.open_stream(self.by_uri.keys().cloned().collect());
    }

    fn subscribe_finished(&self, result: SubscribeResult) {
        let Some((uri, response)) = result else { return };
        let Some(activity) = self.by_uri.get(&uri) else { return };
        match response {
            Ok(_) => activity.send_modify(|it| it.subscribed += 1),
            // The connection is closed; the next one subscribes again.
            Err(CallError::Closed { .. }) => {}
            Err(error) => mark_refused(activity, &error.to_string()),
        }
    }

    /// Marks the resources of an acknowledged stream as subscribed, and those that the server left out as refused.
    pub(super) fn stream_acknowledged(&self, params: Option<&Payload>, watch: &mut ResourceWatch) {
        let served = parse_acknowledgement(params).resource_subscriptions.unwrap_or_default();
        let requested = watch.unacknowledged.pop_front().unwrap_or_default();
        if watch.unacknowledged.is_empty() {
            watch.superseded.clear();
        }
        for uri in &requested {
            let Some(activity) = self.by_uri.get(uri) else { continue };
            if !served.contains(uri) {
                mark_refused(activity, "the server does not announce changes of this resource");
            } else if watch.confirmed.insert(uri.clone()) {
                activity.send_modify(|it| it.subscribed += 1);
            }
        }
    }

    /// Plans to reopen the stream, unless the server refused it.
    fn stream_ended(&self, result: &Result<Payload, CallError>, watch: &mut ResourceWatch) {
        watch.unacknowledged.clear();
        watch.confirmed.clear();
        match result {
            Err(error @ CallError::Remote(_)) => {
                let text = error.to_string();
                self.by_uri.values().for_each(|activity| mark_refused(activity, &text));
            }
            Ok(_)
            | Err(CallError::Timeout(_) | CallError::Transport(_) | CallError::Closed { .. }) => {
                watch.backoff.reset_if_lasted(watch.opened_at.elapsed());
                watch.retry_at = Some(Instant::now() + watch.backoff.next_delay());
            }
        }
    }

    /// Counts a change for every subscription that the changed resource belongs to.
    pub(super) fn resource_updated(&self, params: Option<&Payload>) {
        let Some(updated) = params.and_then(|it| it.decode::<ResourceUpdate>().ok()) else {
            return;
        };
        if updated.uri.len() > MAX_URI_BYTES {
            return;
        }
        let changed: Arc<str> = updated.uri.into();
        let matching = self.by_uri.iter().filter(|(uri, _)| is_within(uri, &changed));
        for (_, activity) in matching {
            activity.send_modify(|it| {
                it.updates += 1;
                it.last_changed = Some(changed.clone());
            });
        }
    }
}

fn mark_refused(activity: &watch::Sender<ResourceActivity>, reason: &str) {
    activity.send_modify(|it| {
        it.refusals += 1;
        it.refusal_reason = Some(reason.into());
    });
}

fn parse_acknowledgement(params: Option<&Payload>) -> SubscriptionFilter {
    let acknowledgement = params.and_then(|it| it.decode::<Acknowledgement>().ok());
    acknowledgement.map(|it| it.notifications).unwrap_or_default()
}

/// Whether a changed URI is the subscribed one or below it.
fn is_within(uri: &str, changed: &str) -> bool {
    let Some(rest) = changed.strip_prefix(uri) else { return false };
    rest.is_empty() || uri.ends_with('/') || rest.starts_with(['/', '#', '?'])
}
