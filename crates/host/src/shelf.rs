//! Keeps what resources held for as long as their servers say that it holds. One task owns it; the least used leaves.
//!
//! Only an answer with a `ttlMs` is kept. Without one, nothing promises that the next answer would be the same: most
//! servers tell of no changes, and those that do tell only subscribers. An answer is good on its own connection, for
//! as long as it says, and until the server says anything about its resources: `resources/updated` and `list_changed`
//! of any of them count for all. That forgets too much rather than too little.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard_wire::message::Payload;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::ask::{RequestError, ServerRequest};
use crate::connection::ActiveConnection;
use crate::engine::{Host, Snapshot};

/// The most answers that are kept.
const MOST: usize = 256;
/// The most bytes that are kept, all answers together.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// The longest that an answer is kept, whatever its server says.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How many orders may wait.
const WAITING: usize = 64;

/// Counts what a server said about changes of its resources, on one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResourceRevision(Arc<AtomicU64>);

impl ResourceRevision {
    /// Something changed.
    pub(crate) fn bump(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn mark(&self) -> RevisionMark {
        RevisionMark { revision: self.clone(), number: self.0.load(Ordering::Acquire) }
    }

    fn is_same_connection(&self, other: &ResourceRevision) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A moment in the life of a connection, between one change and the next.
#[derive(Debug, Clone)]
struct RevisionMark {
    revision: ResourceRevision,
    number: u64,
}

impl PartialEq for RevisionMark {
    fn eq(&self, other: &RevisionMark) -> bool {
        self.number == other.number && self.revision.is_same_connection(&other.revision)
    }
}

type Key = (String, String);

#[derive(Debug)]
enum CacheCommand {
    Get { key: Key, edition: RevisionMark, found: oneshot::Sender<Option<Payload>> },
    Put { key: Key, edition: RevisionMark, answer: Payload, until: Instant },
}

/// For whoever reads resources.
#[derive(Debug, Clone)]
pub(crate) struct ResourceCacheHandle(mpsc::Sender<CacheCommand>);

/// Makes a shelf, and the work that has to be done for it. That work ends with the last handle.
pub(crate) fn new(
    snapshots: watch::Receiver<Arc<Snapshot>>,
) -> (ResourceCacheHandle, impl Future<Output = ()> + Send + 'static) {
    let (orders, from_readers) = mpsc::channel(WAITING);
    (ResourceCacheHandle(orders), run(snapshots, from_readers))
}

async fn run(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    mut orders: mpsc::Receiver<CacheCommand>,
) {
    let mut shelf = ResourceCache::default();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(CacheCommand::Get { key, edition, found }) => {
                    let _reader_left = found.send(shelf.get(&key, &edition, Instant::now()));
                }
                Some(CacheCommand::Put { key, edition, answer, until }) => {
                    shelf.insert(key, CachedResponse { mark: edition, response: answer, expires_at: until, last_used: 0 });
                }
                None => return,
            },
            Ok(()) = snapshots.changed() => {
                let snapshot = snapshots.borrow_and_update().clone();
                shelf.retain(|server| {
                    let view = snapshot.servers.get(server)?;
                    view.active.as_ref().map(|live| live.resource_revision.clone())
                });
            }
        }
    }
}

#[derive(Debug)]
struct CachedResponse {
    mark: RevisionMark,
    response: Payload,
    expires_at: Instant,
    last_used: u64,
}

#[derive(Debug, Default)]
struct ResourceCache {
    entries: HashMap<Key, CachedResponse>,
    bytes: usize,
    uses: u64,
}

impl ResourceCache {
    fn get(&mut self, key: &Key, edition: &RevisionMark, now: Instant) -> Option<Payload> {
        self.uses += 1;
        let kept = self.entries.get_mut(key)?;
        if kept.mark != *edition || kept.expires_at <= now {
            self.remove(key);
            return None;
        }
        kept.last_used = self.uses;
        Some(kept.response.clone())
    }

    /// Keeps an answer, unless it alone would take most of the room.
    fn insert(&mut self, key: Key, mut kept: CachedResponse) {
        let size = entry_bytes(&key, &kept);
        self.remove(&key);
        if size > MOST_BYTES / 4 {
            return;
        }
        self.uses += 1;
        kept.last_used = self.uses;
        self.bytes += size;
        self.entries.insert(key, kept);
        while self.entries.len() > MOST || self.bytes > MOST_BYTES {
            let least =
                self.entries.iter().min_by_key(|(_, it)| it.last_used).map(|(key, _)| key.clone());
            let Some(least) = least else { return };
            self.remove(&least);
        }
    }

    /// Keeps only what came over a connection that still stands.
    fn retain(&mut self, standing: impl Fn(&str) -> Option<ResourceRevision>) {
        let is_over = |key: &Key, it: &CachedResponse| {
            standing(&key.0).is_none_or(|news| !news.is_same_connection(&it.mark.revision))
        };
        let over = self.entries.iter().filter(|(key, it)| is_over(key, it));
        let over: Vec<Key> = over.map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: &Key) {
        if let Some(kept) = self.entries.remove(key) {
            self.bytes -= entry_bytes(key, &kept);
        }
    }
}

fn entry_bytes(key: &Key, kept: &CachedResponse) -> usize {
    key.0.len() + key.1.len() + kept.response.as_bytes().len()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseTtl {
    #[serde(default)]
    ttl_ms: Option<u64>,
}

/// How long an answer holds, where it says so.
fn ttl(answer: &Payload) -> Option<Duration> {
    let said: ResponseTtl = answer.decode().ok()?;
    said.ttl_ms.filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms).min(LONGEST))
}

impl Host {
    /// Reads a resource, or remembers what it held where its server said that it still holds.
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        patience: Duration,
    ) -> Result<Payload, RequestError> {
        let live = self.active_connection(server).await?;
        let key = (server.to_owned(), uri.to_owned());
        let edition = live.resource_revision.mark();
        let (found, kept) = oneshot::channel();
        let order = CacheCommand::Get { key: key.clone(), edition: edition.clone(), found };
        // A shelf that is gone keeps nothing.
        if self.resource_cache().0.send(order).await.is_ok()
            && let Ok(Some(answer)) = kept.await
        {
            return Ok(answer);
        }
        let params = json!({"uri": uri}).to_string();
        let mut question = ServerRequest::idempotent("resources/read", patience);
        question.params = Some(Payload::from_json(params.into()));
        let asked = Instant::now();
        let answer = self.request(server, question).await?;
        if let Some(fresh) = ttl(&answer) {
            let order =
                CacheCommand::Put { key, edition, answer: answer.clone(), until: asked + fresh };
            let _shelf_gone = self.resource_cache().0.send(order).await;
        }
        Ok(answer)
    }

    /// Does a server have resources? Connects to it first, where it is not connected.
    pub async fn has_resources(&self, server: &str) -> Result<bool, RequestError> {
        let live = self.active_connection(server).await?;
        Ok(live.client.server().capabilities.resources.is_some())
    }

    async fn active_connection(&self, server: &str) -> Result<ActiveConnection, RequestError> {
        let handle = self
            .connection(server)
            .ok_or_else(|| RequestError::UnknownServer(server.to_owned()))?;
        handle.ensure_active(None).await.map_err(RequestError::NotConnected)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn key(server: &str, uri: &str) -> Key {
        (server.to_owned(), uri.to_owned())
    }

    fn kept(news: &ResourceRevision, size: usize) -> CachedResponse {
        let answer = Payload::from_json(vec![b' '; size].into());
        CachedResponse {
            mark: news.mark(),
            response: answer,
            expires_at: Instant::now() + SOON,
            last_used: 0,
        }
    }

    fn has(shelf: &mut ResourceCache, key: &Key, news: &ResourceRevision) -> bool {
        shelf.get(key, &news.mark(), Instant::now()).is_some()
    }

    #[test]
    fn an_answer_is_good_until_the_server_says_that_something_changed() {
        let (mut shelf, news) = (ResourceCache::default(), ResourceRevision::default());
        shelf.insert(key("s", "a"), kept(&news, 10));
        assert!(has(&mut shelf, &key("s", "a"), &news));
        news.bump();
        assert!(!has(&mut shelf, &key("s", "a"), &news));
        assert_eq!((shelf.entries.len(), shelf.bytes), (0, 0));
    }

    #[test]
    fn an_answer_that_was_asked_for_before_a_change_is_not_good_after_it() {
        let (mut shelf, news) = (ResourceCache::default(), ResourceRevision::default());
        let late = kept(&news, 10);
        news.bump();
        shelf.insert(key("s", "a"), late);
        assert!(!has(&mut shelf, &key("s", "a"), &news));
    }

    #[test]
    fn an_answer_is_good_on_its_connection_alone_and_for_its_time() {
        let (mut shelf, news) = (ResourceCache::default(), ResourceRevision::default());
        shelf.insert(key("s", "a"), kept(&news, 10));
        shelf.insert(key("t", "a"), kept(&news, 10));
        assert!(!has(&mut shelf, &key("s", "a"), &ResourceRevision::default()));
        shelf.insert(key("s", "a"), kept(&news, 10));
        let later = Instant::now() + SOON * 2;
        assert!(shelf.get(&key("s", "a"), &news.mark(), later).is_none());
        shelf.insert(key("s", "a"), kept(&news, 10));
        shelf.retain(|server| (server == "s").then(|| news.clone()));
        assert_eq!(shelf.entries.keys().collect::<Vec<_>>(), [&key("s", "a")]);
    }

    #[test]
    fn the_least_used_leaves_first() {
        let (mut shelf, news) = (ResourceCache::default(), ResourceRevision::default());
        for number in 0..MOST {
            shelf.insert(key("s", &number.to_string()), kept(&news, 1));
        }
        assert!(has(&mut shelf, &key("s", "0"), &news));
        shelf.insert(key("s", "one more"), kept(&news, 1));
        assert!(has(&mut shelf, &key("s", "0"), &news));
        assert!(!has(&mut shelf, &key("s", "1"), &news));
    }

    #[test]
    fn only_an_answer_that_says_how_long_it_holds_is_kept() {
        let fresh = |text: &'static str| ttl(&Payload::from_json(text.into()));
        assert_eq!(fresh(r#"{"contents":[],"ttlMs":5000}"#), Some(Duration::from_secs(5)));
        assert_eq!(fresh(r#"{"contents":[],"ttlMs":99999999999}"#), Some(LONGEST));
        for text in
            [r#"{"contents":[]}"#, r#"{"ttlMs":0}"#, r#"{"ttlMs":"5"}"#, r#"{"ttlMs":-5}"#, "[]"]
        {
            assert_eq!(fresh(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_never_holds_too_much_and_knows_how_much_it_holds(
            puts in prop::collection::vec((0u8..40, 0usize..(5 << 20)), 0..80),
        ) {
            let (mut shelf, news) = (ResourceCache::default(), ResourceRevision::default());
            for (name, size) in puts {
                shelf.insert(key("s", &name.to_string()), kept(&news, size));
                let bytes: usize = shelf.entries.iter().map(|(key, it)| super::entry_bytes(key, it)).sum();
                prop_assert_eq!(bytes, shelf.bytes);
                prop_assert!(bytes <= MOST_BYTES && shelf.entries.len() <= MOST);
            }
        }
    }
}
