//! Which resources a connection hears of: asked for once however many want to know, and again after every
//! reconnect. Legacy servers take a request for each; modern ones a stream for all, replaced when they change.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard_wire::era::Era;
use switchboard_wire::message::Payload;
use switchboard_wire::peer::CallError;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{LISTEN_AGAIN, LISTEN_AT_LEAST, Listening, Task};
use crate::subscription::Pulse;

/// What a server says when a resource changed.
pub(super) const UPDATED: &str = "notifications/resources/updated";
/// The most resources that one connection hears of.
const MOST: usize = 1000;
/// The longest URI that is passed on.
const LONGEST: usize = 8192;
/// How long a server may take to be told.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a line has of subscriptions.
#[derive(Default)]
pub(super) struct Watching {
    /// The stream that tells of changes, where the era has one.
    pub(super) stream: Option<Listening>,
    /// When it is opened again.
    pub(super) again_at: Option<Instant>,
    /// Requests to legacy servers that are under way. At most two for each resource.
    pub(super) told: JoinSet<Told>,
    /// Streams that have a successor; they go on until the server hears the successor.
    retiring: Vec<Listening>,
    /// What each stream that nobody has acknowledged yet asks for, the oldest first.
    awaited: VecDeque<Vec<String>>,
    /// What the server confirmed on this line.
    confirmed: BTreeSet<String>,
    /// The wait before the stream is opened again, and since when it is open.
    pause: Option<(Duration, Instant)>,
}

/// A resource, and what a legacy server said to our subscription; nothing where we took one back.
pub(super) type Told = Option<(String, Result<Payload, CallError>)>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Acknowledged {
    #[serde(default)]
    notifications: Filter,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    resource_subscriptions: Option<Vec<String>>,
    tools_list_changed: Option<bool>,
    resources_list_changed: Option<bool>,
    prompts_list_changed: Option<bool>,
}

#[derive(Deserialize)]
struct Updated {
    uri: String,
}

impl Task {
    /// The pulse of a resource; the first who wants it has the server told.
    pub(super) fn subscribe_to(&mut self, uri: String) -> Option<watch::Receiver<Pulse>> {
        if let Some(pulse) = self.subscribed.get(&uri) {
            return Some(pulse.subscribe());
        }
        if self.subscribed.len() >= MOST || uri.len() > LONGEST {
            return None;
        }
        let (pulse, receiver) = watch::channel(Pulse::default());
        self.subscribed.insert(uri.clone(), pulse);
        match self.era() {
            Some(Era::Legacy) => self.tell(&uri),
            Some(Era::Modern) => self.watch(),
            None => {}
        }
        Some(receiver)
    }

    /// On a new line, everything is asked for again.
    pub(super) fn subscribe_to_all(&mut self) {
        match self.era() {
            Some(Era::Legacy) => {
                let uris: Vec<String> = self.subscribed.keys().cloned().collect();
                uris.iter().for_each(|uri| self.tell(uri));
            }
            Some(Era::Modern) => self.watch(),
            None => {}
        }
    }

    fn era(&self) -> Option<Era> {
        self.held.as_ref().map(|held| held.line.client.introduction().era)
    }

    fn tell(&mut self, uri: &str) {
        let Some(held) = &mut self.held else { return };
        let params = Payload::from_json(json!({"uri": uri}).to_string().into());
        let request = held.line.client.request("resources/subscribe").params(params);
        let (request, uri) = (request.within(PATIENCE), uri.to_owned());
        held.watching.told.spawn(async move { Some((uri, request.send().await)) });
    }

    /// A legacy server answered.
    pub(super) fn subscribed_to(&mut self, told: Told) {
        let Some((uri, answer)) = told else { return };
        let Some(pulse) = self.subscribed.get(&uri) else { return };
        match answer {
            Ok(_) => pulse.send_modify(|it| it.subscribed += 1),
            // The line is over; its successor asks again.
            Err(CallError::Ended { .. }) => {}
            Err(error) => refuse(pulse, &error.to_string()),
        }
    }

    /// Opens the stream for everything that is wanted now. The old one goes on until the new one is heard, so that
    /// no change falls between the two.
    pub(super) fn watch(&mut self) {
        let uris: Vec<String> = self.subscribed.keys().cloned().collect();
        let Some(held) = &mut self.held else { return };
        let watching = &mut held.watching;
        watching.again_at = None;
        if uris.is_empty() {
            watching.stream = None;
            watching.retiring.clear();
            return;
        }
        let params = json!({"notifications": {"resourceSubscriptions": uris}}).to_string();
        let params = Payload::from_json(params.into());
        let request = held.line.client.request("subscriptions/listen").params(params);
        watching.retiring.extend(watching.stream.replace(Box::pin(request.send())));
        watching.awaited.push_back(uris);
        let pause = watching.pause.map_or(LISTEN_AGAIN, |(pause, _)| pause);
        watching.pause = Some((pause, Instant::now()));
    }

    /// Is it our stream of resources that a server begins to serve, and not the one of lists?
    pub(super) fn is_about_resources(&self, params: Option<&Payload>) -> bool {
        let Some(held) = &self.held else { return false };
        let filter = acknowledged(params);
        let of_lists =
            [filter.tools_list_changed, filter.resources_list_changed, filter.prompts_list_changed];
        filter.resource_subscriptions.is_some()
            || (!held.watching.awaited.is_empty() && of_lists.iter().all(Option::is_none))
    }

    /// The server began to tell of changes; what it leaves out of what was asked, it does not tell of.
    pub(super) fn watched(&mut self, params: Option<&Payload>) {
        let served = acknowledged(params).resource_subscriptions.unwrap_or_default();
        let Some(held) = &mut self.held else { return };
        let asked = held.watching.awaited.pop_front().unwrap_or_default();
        if held.watching.awaited.is_empty() {
            held.watching.retiring.clear();
        }
        for uri in &asked {
            let Some(pulse) = self.subscribed.get(uri) else { continue };
            if !served.contains(uri) {
                refuse(pulse, "the server does not tell of this resource");
            } else if held.watching.confirmed.insert(uri.clone()) {
                pulse.send_modify(|it| it.subscribed += 1);
            }
        }
    }

    /// The stream ended. It is opened again, less and less often; a server that refuses it has none.
    pub(super) fn watch_ended(&mut self, how: &Result<Payload, CallError>) {
        let Some(held) = &mut self.held else { return };
        let watching = &mut held.watching;
        watching.awaited.clear();
        watching.confirmed.clear();
        match how {
            Err(error @ CallError::Remote(_)) => {
                let text = error.to_string();
                self.subscribed.values().for_each(|pulse| refuse(pulse, &text));
            }
            Ok(_) | Err(CallError::Timeout(_) | CallError::Lost(_) | CallError::Ended { .. }) => {
                let now = Instant::now();
                let (pause, since) = watching.pause.unwrap_or((LISTEN_AGAIN, now));
                let lasted = since.elapsed() >= LISTEN_AT_LEAST;
                let pause = if lasted { LISTEN_AGAIN } else { pause };
                watching.again_at = Some(now + pause);
                watching.pause = Some((pause.saturating_mul(2).min(LISTEN_AT_LEAST), since));
            }
        }
    }

    /// A resource changed. It may be a part of one that was subscribed to.
    pub(super) fn updated(&mut self, params: Option<&Payload>) {
        let Some(updated) = params.and_then(|it| it.decode::<Updated>().ok()) else { return };
        if updated.uri.len() > LONGEST {
            return;
        }
        let changed: Arc<str> = updated.uri.into();
        let hearing = self.subscribed.iter().filter(|(uri, _)| is_part(uri, &changed));
        for (_, pulse) in hearing {
            pulse.send_modify(|it| {
                it.updates += 1;
                it.changed = Some(changed.clone());
            });
        }
    }

    /// Takes back what nobody hears any more.
    pub(super) fn forget_unheard(&mut self, done: Option<oneshot::Sender<()>>) {
        let unheard: Vec<String> = self
            .subscribed
            .iter()
            .filter(|(_, pulse)| pulse.receiver_count() == 0)
            .map(|(uri, _)| uri.clone())
            .collect();
        self.subscribed.retain(|_, pulse| pulse.receiver_count() > 0);
        if unheard.is_empty() {
            return;
        }
        match self.era() {
            Some(Era::Legacy) => self.take_back(unheard, done),
            Some(Era::Modern) => {
                if let Some(held) = &mut self.held {
                    held.watching.confirmed.retain(|uri| !unheard.contains(uri));
                }
                self.watch();
            }
            None => {}
        }
    }

    fn take_back(&mut self, uris: Vec<String>, done: Option<oneshot::Sender<()>>) {
        let Some(held) = &mut self.held else { return };
        let client = held.line.client.clone();
        held.watching.told.spawn(async move {
            for uri in uris {
                let params = Payload::from_json(json!({"uri": uri}).to_string().into());
                let request = client.request("resources/unsubscribe").params(params);
                let _as_good_as_done = request.within(PATIENCE).send().await;
            }
            drop(done);
            None
        });
    }
}

fn refuse(pulse: &watch::Sender<Pulse>, why: &str) {
    pulse.send_modify(|it| {
        it.refusals += 1;
        it.refused = Some(why.into());
    });
}

fn acknowledged(params: Option<&Payload>) -> Filter {
    let said = params.and_then(|it| it.decode::<Acknowledged>().ok());
    said.map(|it| it.notifications).unwrap_or_default()
}

/// Is a URI the one that was subscribed to, or below it?
fn is_part(uri: &str, changed: &str) -> bool {
    let Some(rest) = changed.strip_prefix(uri) else { return false };
    rest.is_empty() || uri.ends_with('/') || rest.starts_with(['/', '#', '?'])
}
