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
use switchboard_wire::jsonrpc::message::Payload;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::connection::ActiveConnection;
use crate::host::{Host, Snapshot};
use crate::request::send::{RequestError, ServerRequest};

/// The most answers that are kept.
const MAX_ENTRIES: usize = 256;
/// The most bytes that are kept, all answers together.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The longest that an answer is kept, whatever its server says.
const MAX_TTL: Duration = Duration::from_secs(60 * 60);
/// How many orders may wait.
const QUEUE_CAPACITY: usize = 64;

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
    Get { key: Key, mark: RevisionMark, found: oneshot::Sender<Option<Payload>> },
    Put { key: Key, mark: RevisionMark, response: Payload, expires_at: Instant },
}

/// For whoever reads resources.
#[derive(Debug, Clone)]
pub(crate) struct ResourceCacheHandle(mpsc::Sender<CacheCommand>);

/// Makes a shelf, and the work that has to be done for it. That work ends with the last handle.
pub(crate) fn new(
    snapshots: watch::Receiver<Arc<Snapshot>>,
) -> (ResourceCacheHandle, impl Future<Output = ()> + Send + 'static) {
    let (commands, from_readers) = mpsc::channel(QUEUE_CAPACITY);
    (ResourceCacheHandle(commands), run(snapshots, from_readers))
}

async fn run(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    mut commands: mpsc::Receiver<CacheCommand>,
) {
    let mut cache = ResourceCache::default();
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(CacheCommand::Get { key, mark, found }) => {
                    let _reader_left = found.send(cache.get(&key, &mark, Instant::now()));
                }
                Some(CacheCommand::Put { key, mark, response, expires_at }) => {
                    cache.insert(key, CachedResponse { mark, response, expires_at, last_used: 0 });
                }
                None => return,
            },
            Ok(()) = snapshots.changed() => {
                let snapshot = snapshots.borrow_and_update().clone();
                cache.retain(|server| {
                    let view = snapshot.servers.get(server)?;
                    view.active.as_ref().map(|active| active.resource_revision.clone())
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
    fn get(&mut self, key: &Key, mark: &RevisionMark, now: Instant) -> Option<Payload> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        if entry.mark != *mark || entry.expires_at <= now {
            self.remove(key);
            return None;
        }
        entry.last_used = self.uses;
        Some(entry.response.clone())
    }

    /// Keeps an answer, unless it alone would take most of the room.
    fn insert(&mut self, key: Key, mut entry: CachedResponse) {
        let size = entry_bytes(&key, &entry);
        self.remove(&key);
        if size > MAX_BYTES / 4 {
            return;
        }
        self.uses += 1;
        entry.last_used = self.uses;
        self.bytes += size;
        self.entries.insert(key, entry);
        while self.entries.len() > MAX_ENTRIES || self.bytes > MAX_BYTES {
            let least =
                self.entries.iter().min_by_key(|(_, it)| it.last_used).map(|(key, _)| key.clone());
            let Some(least) = least else { return };
            self.remove(&least);
        }
    }

    /// Keeps only what came over a connection that still stands.
    fn retain(&mut self, active_revision: impl Fn(&str) -> Option<ResourceRevision>) {
        let is_expired = |key: &Key, it: &CachedResponse| {
            active_revision(&key.0)
                .is_none_or(|revision| !revision.is_same_connection(&it.mark.revision))
        };
        let expired = self.entries.iter().filter(|(key, it)| is_expired(key, it));
        let expired: Vec<Key> = expired.map(|(key, _)| key.clone()).collect();
        expired.iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry_bytes(key, &entry);
        }
    }
}

fn entry_bytes(key: &Key, entry: &CachedResponse) -> usize {
    key.0.len() + key.1.len() + entry.response.as_bytes().len()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseTtl {
    #[serde(default)]
    ttl_ms: Option<u64>,
}

/// How long an answer holds, where it says so.
fn ttl(response: &Payload) -> Option<Duration> {
    let said: ResponseTtl = response.decode().ok()?;
    said.ttl_ms.filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms).min(MAX_TTL))
}

impl Host {
    /// Reads a resource, or remembers what it held where its server said that it still holds.
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        timeout: Duration,
    ) -> Result<Payload, RequestError> {
        let active = self.active_connection(server).await?;
        let key = (server.to_owned(), uri.to_owned());
        let mark = active.resource_revision.mark();
        let (found, entry) = oneshot::channel();
        let command = CacheCommand::Get { key: key.clone(), mark: mark.clone(), found };
        // A shelf that is gone keeps nothing.
        if self.resource_cache().0.send(command).await.is_ok()
            && let Ok(Some(response)) = entry.await
        {
            return Ok(response);
        }
        let params = json!({"uri": uri}).to_string();
        let mut request = ServerRequest::idempotent("resources/read", timeout);
        request.params = Some(Payload::from_json(params.into()));
        let requested_at = Instant::now();
        let response = self.request(server, request).await?;
        if let Some(ttl_left) = ttl(&response) {
            let command = CacheCommand::Put {
                key,
                mark,
                response: response.clone(),
                expires_at: requested_at + ttl_left,
            };
            let _shelf_gone = self.resource_cache().0.send(command).await;
        }
        Ok(response)
    }

    /// Does a server have resources? Connects to it first, where it is not connected.
    pub async fn has_resources(&self, server: &str) -> Result<bool, RequestError> {
        let active = self.active_connection(server).await?;
        Ok(active.client.server().capabilities.resources.is_some())
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

    fn entry(revision: &ResourceRevision, size: usize) -> CachedResponse {
        let response = Payload::from_json(vec![b' '; size].into());
        CachedResponse {
            mark: revision.mark(),
            response,
            expires_at: Instant::now() + SOON,
            last_used: 0,
        }
    }

    fn has(cache: &mut ResourceCache, key: &Key, revision: &ResourceRevision) -> bool {
        cache.get(key, &revision.mark(), Instant::now()).is_some()
    }

    #[test]
    fn an_answer_is_good_until_the_server_says_that_something_changed() {
        let (mut cache, revision) = (ResourceCache::default(), ResourceRevision::default());
        cache.insert(key("s", "a"), entry(&revision, 10));
        assert!(has(&mut cache, &key("s", "a"), &revision));
        revision.bump();
        assert!(!has(&mut cache, &key("s", "a"), &revision));
        assert_eq!((cache.entries.len(), cache.bytes), (0, 0));
    }

    #[test]
    fn an_answer_that_was_asked_for_before_a_change_is_not_good_after_it() {
        let (mut cache, revision) = (ResourceCache::default(), ResourceRevision::default());
        let late = entry(&revision, 10);
        revision.bump();
        cache.insert(key("s", "a"), late);
        assert!(!has(&mut cache, &key("s", "a"), &revision));
    }

    #[test]
    fn an_answer_is_good_on_its_connection_alone_and_for_its_time() {
        let (mut cache, revision) = (ResourceCache::default(), ResourceRevision::default());
        cache.insert(key("s", "a"), entry(&revision, 10));
        cache.insert(key("t", "a"), entry(&revision, 10));
        assert!(!has(&mut cache, &key("s", "a"), &ResourceRevision::default()));
        cache.insert(key("s", "a"), entry(&revision, 10));
        let later = Instant::now() + SOON * 2;
        assert!(cache.get(&key("s", "a"), &revision.mark(), later).is_none());
        cache.insert(key("s", "a"), entry(&revision, 10));
        cache.retain(|server| (server == "s").then(|| revision.clone()));
        assert_eq!(cache.entries.keys().collect::<Vec<_>>(), [&key("s", "a")]);
    }

    #[test]
    fn the_least_used_leaves_first() {
        let (mut cache, revision) = (ResourceCache::default(), ResourceRevision::default());
        for number in 0..MAX_ENTRIES {
            cache.insert(key("s", &number.to_string()), entry(&revision, 1));
        }
        assert!(has(&mut cache, &key("s", "0"), &revision));
        cache.insert(key("s", "one more"), entry(&revision, 1));
        assert!(has(&mut cache, &key("s", "0"), &revision));
        assert!(!has(&mut cache, &key("s", "1"), &revision));
    }

    #[test]
    fn only_an_answer_that_says_how_long_it_holds_is_kept() {
        let ttl_left = |text: &'static str| ttl(&Payload::from_json(text.into()));
        assert_eq!(ttl_left(r#"{"contents":[],"ttlMs":5000}"#), Some(Duration::from_secs(5)));
        assert_eq!(ttl_left(r#"{"contents":[],"ttlMs":99999999999}"#), Some(MAX_TTL));
        for text in
            [r#"{"contents":[]}"#, r#"{"ttlMs":0}"#, r#"{"ttlMs":"5"}"#, r#"{"ttlMs":-5}"#, "[]"]
        {
            assert_eq!(ttl_left(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_never_holds_too_much_and_knows_how_much_it_holds(
            puts in prop::collection::vec((0u8..40, 0usize..(5 << 20)), 0..80),
        ) {
            let (mut cache, revision) = (ResourceCache::default(), ResourceRevision::default());
            for (name, size) in puts {
                cache.insert(key("s", &name.to_string()), entry(&revision, size));
                let bytes: usize = cache.entries.iter().map(|(key, it)| super::entry_bytes(key, it)).sum();
                prop_assert_eq!(bytes, cache.bytes);
                prop_assert!(bytes <= MAX_BYTES && cache.entries.len() <= MAX_ENTRIES);
            }
        }
    }
}
