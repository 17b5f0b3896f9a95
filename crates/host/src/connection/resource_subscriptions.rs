//! Which resources a connection hears of: asked for once however many want to know, and again after every
//! reconnect. Legacy servers take a request for each; modern ones a stream for all, replaced when they change.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::CallError;
use switchboard_wire::protocol::era::Era;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::actor::{ConnectionActor, LISTEN_INITIAL_BACKOFF, LISTEN_MAX_BACKOFF, ListenFuture};
use crate::resources::subscription::ResourceActivity;

/// What a server says when a resource changed.
pub(crate) const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// The most resources that one connection hears of.
const MAX_SUBSCRIPTIONS: usize = 1000;
/// The longest URI that is passed on.
const MAX_URI_BYTES: usize = 8192;
/// How long a server may take to be told.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What a line has of subscriptions.
#[derive(Default)]
pub(crate) struct ResourceWatch {
    /// The stream that tells of changes, where the era has one.
    pub(crate) stream: Option<ListenFuture>,
    /// When it is opened again.
    pub(crate) retry_at: Option<Instant>,
    /// Requests to legacy servers that are under way. At most two for each resource.
    pub(crate) legacy_requests: JoinSet<SubscribeResult>,
    /// Streams that have a successor; they go on until the server hears the successor.
    superseded: Vec<ListenFuture>,
    /// What each stream that nobody has acknowledged yet asks for, the oldest first.
    unacknowledged: VecDeque<Vec<String>>,
    /// What the server confirmed on this line.
    confirmed: BTreeSet<String>,
    /// The wait before the stream is opened again, and since when it is open.
    backoff: Option<(Duration, Instant)>,
}

/// A resource, and what a legacy server said to our subscription; nothing where we took one back.
pub(crate) type SubscribeResult = Option<(String, Result<Payload, CallError>)>;

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
struct ResourceUpdated {
    uri: String,
}

impl ConnectionActor {
    /// The pulse of a resource; the first who wants it has the server told.
    pub(crate) fn subscribe_resource(
        &mut self,
        uri: String,
    ) -> Option<watch::Receiver<ResourceActivity>> {
        if let Some(activity) = self.subscriptions.get(&uri) {
            return Some(activity.subscribe());
        }
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS || uri.len() > MAX_URI_BYTES {
            return None;
        }
        let (activity, receiver) = watch::channel(ResourceActivity::default());
        self.subscriptions.insert(uri.clone(), activity);
        match self.era() {
            Some(Era::Legacy) => self.send_subscribe(&uri),
            Some(Era::Modern) => self.open_resource_stream(),
            None => {}
        }
        Some(receiver)
    }

    /// On a new line, everything is asked for again.
    pub(crate) fn resubscribe_all(&mut self) {
        match self.era() {
            Some(Era::Legacy) => {
                let uris: Vec<String> = self.subscriptions.keys().cloned().collect();
                uris.iter().for_each(|uri| self.send_subscribe(uri));
            }
            Some(Era::Modern) => self.open_resource_stream(),
            None => {}
        }
    }

    fn era(&self) -> Option<Era> {
        self.open_connection.as_ref().map(|open| open.connection.client.server().era)
    }

    fn send_subscribe(&mut self, uri: &str) {
        let Some(open) = &mut self.open_connection else { return };
        let params = Payload::from_json(json!({"uri": uri}).to_string().into());
        let request = open.connection.client.request("resources/subscribe").params(params);
        let (request, uri) = (request.timeout(REQUEST_TIMEOUT), uri.to_owned());
        open.resource_watch.legacy_requests.spawn(async move { Some((uri, request.send().await)) });
    }

    /// A legacy server answered.
    pub(crate) fn subscribe_finished(&mut self, outcome: SubscribeResult) {
        let Some((uri, answer)) = outcome else { return };
        let Some(activity) = self.subscriptions.get(&uri) else { return };
        match answer {
            Ok(_) => activity.send_modify(|it| it.subscribed += 1),
            // The line is over; its successor asks again.
            Err(CallError::Closed { .. }) => {}
            Err(error) => mark_refused(activity, &error.to_string()),
        }
    }

    /// Opens the stream for everything that is wanted now. The old one goes on until the new one is heard, so that
    /// no change falls between the two.
    pub(crate) fn open_resource_stream(&mut self) {
        let uris: Vec<String> = self.subscriptions.keys().cloned().collect();
        let Some(open) = &mut self.open_connection else { return };
        let resource_watch = &mut open.resource_watch;
        resource_watch.retry_at = None;
        if uris.is_empty() {
            resource_watch.stream = None;
            resource_watch.superseded.clear();
            return;
        }
        let params = json!({"notifications": {"resourceSubscriptions": uris}}).to_string();
        let params = Payload::from_json(params.into());
        let request = open.connection.client.request("subscriptions/listen").params(params);
        resource_watch.superseded.extend(resource_watch.stream.replace(Box::pin(request.send())));
        resource_watch.unacknowledged.push_back(uris);
        let pause = resource_watch.backoff.map_or(LISTEN_INITIAL_BACKOFF, |(pause, _)| pause);
        resource_watch.backoff = Some((pause, Instant::now()));
    }

    /// Is it our stream of resources that a server begins to serve, and not the one of lists?
    pub(crate) fn is_resource_acknowledgement(&self, params: Option<&Payload>) -> bool {
        let Some(open) = &self.open_connection else { return false };
        let filter = parse_acknowledgement(params);
        let of_lists =
            [filter.tools_list_changed, filter.resources_list_changed, filter.prompts_list_changed];
        filter.resource_subscriptions.is_some()
            || (!open.resource_watch.unacknowledged.is_empty()
                && of_lists.iter().all(Option::is_none))
    }

    /// The server began to tell of changes; what it leaves out of what was asked, it does not tell of.
    pub(crate) fn resource_stream_acknowledged(&mut self, params: Option<&Payload>) {
        let served = parse_acknowledgement(params).resource_subscriptions.unwrap_or_default();
        let Some(open) = &mut self.open_connection else { return };
        let asked = open.resource_watch.unacknowledged.pop_front().unwrap_or_default();
        if open.resource_watch.unacknowledged.is_empty() {
            open.resource_watch.superseded.clear();
        }
        for uri in &asked {
            let Some(activity) = self.subscriptions.get(uri) else { continue };
            if !served.contains(uri) {
                mark_refused(activity, "the server does not tell of this resource");
            } else if open.resource_watch.confirmed.insert(uri.clone()) {
                activity.send_modify(|it| it.subscribed += 1);
            }
        }
    }

    /// The stream ended. It is opened again, less and less often; a server that refuses it has none.
    pub(crate) fn resource_stream_ended(&mut self, result: &Result<Payload, CallError>) {
        let Some(open) = &mut self.open_connection else { return };
        let resource_watch = &mut open.resource_watch;
        resource_watch.unacknowledged.clear();
        resource_watch.confirmed.clear();
        match result {
            Err(error @ CallError::Remote(_)) => {
                let text = error.to_string();
                self.subscriptions.values().for_each(|activity| mark_refused(activity, &text));
            }
            Ok(_)
            | Err(CallError::Timeout(_) | CallError::Transport(_) | CallError::Closed { .. }) => {
                let now = Instant::now();
                let (pause, since) =
                    resource_watch.backoff.unwrap_or((LISTEN_INITIAL_BACKOFF, now));
                let lasted = since.elapsed() >= LISTEN_MAX_BACKOFF;
                let pause = if lasted { LISTEN_INITIAL_BACKOFF } else { pause };
                resource_watch.retry_at = Some(now + pause);
                resource_watch.backoff =
                    Some((pause.saturating_mul(2).min(LISTEN_MAX_BACKOFF), since));
            }
        }
    }

    /// A resource changed. It may be a part of one that was subscribed to.
    pub(crate) fn resource_updated(&mut self, params: Option<&Payload>) {
        let Some(updated) = params.and_then(|it| it.decode::<ResourceUpdated>().ok()) else {
            return;
        };
        if updated.uri.len() > MAX_URI_BYTES {
            return;
        }
        let changed: Arc<str> = updated.uri.into();
        let matching = self.subscriptions.iter().filter(|(uri, _)| is_within(uri, &changed));
        for (_, activity) in matching {
            activity.send_modify(|it| {
                it.updates += 1;
                it.last_changed = Some(changed.clone());
            });
        }
    }

    /// Takes back what nobody hears any more.
    pub(crate) fn drop_unused_subscriptions(&mut self, done: Option<oneshot::Sender<()>>) {
        let unused: Vec<String> = self
            .subscriptions
            .iter()
            .filter(|(_, activity)| activity.receiver_count() == 0)
            .map(|(uri, _)| uri.clone())
            .collect();
        self.subscriptions.retain(|_, activity| activity.receiver_count() > 0);
        if unused.is_empty() {
            return;
        }
        match self.era() {
            Some(Era::Legacy) => self.send_unsubscribe(unused, done),
            Some(Era::Modern) => {
                if let Some(open) = &mut self.open_connection {
                    open.resource_watch.confirmed.retain(|uri| !unused.contains(uri));
                }
                self.open_resource_stream();
            }
            None => {}
        }
    }

    fn send_unsubscribe(&mut self, uris: Vec<String>, done: Option<oneshot::Sender<()>>) {
        let Some(open) = &mut self.open_connection else { return };
        let client = open.connection.client.clone();
        open.resource_watch.legacy_requests.spawn(async move {
            for uri in uris {
                let params = Payload::from_json(json!({"uri": uri}).to_string().into());
                let request = client.request("resources/unsubscribe").params(params);
                let _as_good_as_done = request.timeout(REQUEST_TIMEOUT).send().await;
            }
            drop(done);
            None
        });
    }
}

fn mark_refused(activity: &watch::Sender<ResourceActivity>, why: &str) {
    activity.send_modify(|it| {
        it.refusals += 1;
        it.refusal_reason = Some(why.into());
    });
}

fn parse_acknowledgement(params: Option<&Payload>) -> SubscriptionFilter {
    let params_read = params.and_then(|it| it.decode::<Acknowledgement>().ok());
    params_read.map(|it| it.notifications).unwrap_or_default()
}

/// Is a URI the one that was subscribed to, or below it?
fn is_within(uri: &str, changed: &str) -> bool {
    let Some(rest) = changed.strip_prefix(uri) else { return false };
    rest.is_empty() || uri.ends_with('/') || rest.starts_with(['/', '#', '?'])
}
