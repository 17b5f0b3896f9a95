//! Changes, told to whoever wants to hear of them: lists that changed, and resources that somebody follows. The same
//! for clients that subscribe and for those that listen, whatever their servers do.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use switchboard::catalogue::List;
use switchboard::subscription::{News, SubscribeError, Subscription};
use switchboard_wire::asked::Members;
use switchboard_wire::message::{Id, Message, RemoteError};
use switchboard_wire::reception::{self, tagged};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::directory::Directory;
use crate::guest::Guest;
use crate::relay::{Relay, object};
use crate::turn::Outcome;

/// How many resources one client may follow.
const MOST: usize = 1000;
/// How many changes may wait for a client.
const WAITING: usize = 64;

/// Tells which lists changed.
#[derive(Debug)]
pub(crate) struct ListWatch {
    directory: watch::Receiver<Arc<Directory>>,
    seen: BTreeMap<List, u64>,
}

impl ListWatch {
    pub(crate) fn new(relay: &Relay) -> ListWatch {
        let mut directory = relay.directory.clone();
        let seen = revisions(&directory.borrow_and_update());
        ListWatch { directory, seen }
    }

    /// The notifications for what changed next; none when there is nothing any more. May be dropped and asked again.
    pub(crate) async fn next(&mut self) -> Option<Vec<&'static str>> {
        loop {
            self.directory.changed().await.ok()?;
            let now = revisions(&self.directory.borrow_and_update());
            let changed = changed(&self.seen, &now);
            self.seen = now;
            if !changed.is_empty() {
                return Some(changed);
            }
        }
    }
}

fn revisions(directory: &Directory) -> BTreeMap<List, u64> {
    directory.lists.iter().map(|(list, pages)| (*list, pages.revision())).collect()
}

fn changed(seen: &BTreeMap<List, u64>, now: &BTreeMap<List, u64>) -> Vec<&'static str> {
    let is_new = |list: List| seen.get(&list) != now.get(&list);
    let mut methods = Vec::new();
    if is_new(List::Tools) {
        methods.push(TOOLS);
    }
    if is_new(List::Resources) || is_new(List::Templates) {
        methods.push(RESOURCES);
    }
    if is_new(List::Prompts) {
        methods.push(PROMPTS);
    }
    methods
}

const TOOLS: &str = "notifications/tools/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const UPDATED: &str = "notifications/resources/updated";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The resources that a client follows. Dropping it ends them all.
#[derive(Debug)]
pub(crate) struct Followed {
    following: JoinSet<()>,
    by_uri: BTreeMap<String, AbortHandle>,
    tell: mpsc::Sender<String>,
    told: mpsc::Receiver<String>,
}

impl Default for Followed {
    fn default() -> Followed {
        let (tell, told) = mpsc::channel(WAITING);
        Followed { following: JoinSet::new(), by_uri: BTreeMap::new(), tell, told }
    }
}

impl Followed {
    /// Follows one more, from now on.
    pub(crate) async fn follow(
        &mut self,
        relay: &Relay,
        guest: &Guest,
        uri: &str,
    ) -> Result<(), RemoteError> {
        if self.by_uri.contains_key(uri) {
            return Ok(());
        }
        if self.by_uri.len() >= MOST {
            return Err(reception::failed("too many resources are followed"));
        }
        let directory = relay.served();
        let server = directory.server_of(uri).cloned();
        let server = server.filter(|it| relay.shows_server(&guest.principal, it));
        let server = server.ok_or_else(|| reception::invalid("there is no such resource"))?;
        let lane = directory.lane(guest, &server);
        let subscription = relay.host.subscribe_on(&server, uri, lane.as_ref()).await;
        let subscription = subscription.map_err(|it| refused(&it))?;
        self.add(uri, subscription);
        Ok(())
    }

    fn add(&mut self, uri: &str, mut subscription: Subscription) {
        let tell = self.tell.clone();
        let task = self.following.spawn(async move {
            while let Some(news) = subscription.next().await {
                let changed = match news {
                    News::Updated { uri } => uri,
                    // What changed in between was missed, so that it may have changed.
                    News::Again => subscription.uri().to_owned(),
                    News::Subscribed | News::Refused(_) => continue,
                };
                if tell.send(changed).await.is_err() {
                    return;
                }
            }
        });
        self.by_uri.insert(uri.to_owned(), task);
    }

    pub(crate) fn forget(&mut self, uri: &str) {
        if let Some(task) = self.by_uri.remove(uri) {
            task.abort();
        }
        while self.following.try_join_next().is_some() {}
    }

    /// The next one that changed. May be dropped and asked again.
    pub(crate) async fn next(&mut self) -> String {
        match self.told.recv().await {
            Some(uri) => uri,
            None => std::future::pending().await,
        }
    }
}

/// The notification for a resource that changed.
pub(crate) fn updated(uri: &str) -> Message {
    notification(UPDATED, json!({"uri": uri}))
}

/// A notification that says nothing more.
pub(crate) fn bare(method: &'static str) -> Message {
    Message::Notification { method: method.into(), params: None }
}

fn notification(method: &'static str, params: Json) -> Message {
    let params = Some(object(&params));
    Message::Notification { method: method.into(), params }
}

fn refused(error: &SubscribeError) -> RemoteError {
    match error {
        SubscribeError::Unable(_) => {
            RemoteError { code: -32601, message: error.to_string(), data: None }
        }
        SubscribeError::NoServer(_)
        | SubscribeError::NotConnected(_)
        | SubscribeError::TooMany(_) => reception::failed(&error.to_string()),
    }
}

/// What a modern client wants to hear of.
#[derive(Debug)]
pub(crate) struct Listening {
    id: Id,
    wants: Map<String, Json>,
    lists: ListWatch,
    followed: Followed,
}

impl Listening {
    /// Begins to listen. The first message to be sent says what is listened to.
    pub(crate) async fn begin(
        relay: &Relay,
        guest: &Guest,
        id: &Id,
        params: &Members,
    ) -> Result<(Listening, Message), RemoteError> {
        let wants = params.get("notifications").and_then(|it| it.decode::<Map<_, _>>().ok());
        let mut wants: Map<String, Json> =
            wants.ok_or_else(|| reception::invalid("`notifications` says what to listen to"))?;
        let directory = relay.served();
        let able = directory.capabilities(guest.era);
        wants.retain(|name, value| {
            let (capability, is_wish) = match name.as_str() {
                "toolsListChanged" => ("tools", *value == true),
                "promptsListChanged" => ("prompts", *value == true),
                "resourcesListChanged" => ("resources", *value == true),
                "resourceSubscriptions" => ("resources", value.is_array()),
                _ => return false,
            };
            is_wish && able.contains_key(capability)
        });
        let lists = ListWatch::new(relay);
        let mut followed = Followed::default();
        let uris = wants.get("resourceSubscriptions").and_then(Json::as_array).cloned();
        let mut heard = Vec::new();
        for uri in uris.iter().flatten().filter_map(Json::as_str) {
            // One that cannot be followed is left out of what is acknowledged.
            if followed.follow(relay, guest, uri).await.is_ok() {
                heard.push(Json::from(uri));
            }
        }
        if uris.is_some() {
            wants.insert("resourceSubscriptions".to_owned(), heard.into());
        }
        let acknowledged = tagged(json!({"notifications": wants}), id);
        let listening = Listening { id: id.clone(), wants, lists, followed };
        Ok((listening, notification(ACKNOWLEDGED, acknowledged)))
    }

    /// The next things to tell; none when there is nothing any more. May be dropped and asked again.
    pub(crate) async fn next(&mut self) -> Option<Vec<Message>> {
        loop {
            tokio::select! {
                changed = self.lists.next() => {
                    let told: Vec<Message> = changed?
                        .into_iter()
                        .filter(|it| self.wants.contains_key(wish(it)))
                        .map(|it| notification(it, tagged(json!({}), &self.id)))
                        .collect();
                    if !told.is_empty() {
                        return Some(told);
                    }
                }
                uri = self.followed.next() => {
                    let params = tagged(json!({"uri": uri}), &self.id);
                    return Some(vec![notification(UPDATED, params)]);
                }
            }
        }
    }

    /// The answer to the question that began it, when it is over.
    pub(crate) fn over(&self) -> Outcome {
        let result = tagged(json!({"resultType": "complete"}), &self.id);
        Ok(object(&result))
    }
}

fn wish(method: &str) -> &'static str {
    match method {
        TOOLS => "toolsListChanged",
        PROMPTS => "promptsListChanged",
        _ => "resourcesListChanged",
    }
}
