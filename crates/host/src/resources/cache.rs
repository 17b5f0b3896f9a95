//! Caches the content of resources. One task owns the cache and evicts the least recently used entry.
//!
//! Only a response with a `ttlMs` is cached: most servers announce no changes, and those that do announce them only to
//! subscribers. An entry is valid on its own connection, until its TTL ends or the server announces a change of any of
//! its resources (`resources/updated` or `resources/list_changed`). That removes too much rather than too little.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard_wire::jsonrpc::message::Payload;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::connection::resource_revision::{ResourceRevision, RevisionMark};
use crate::engine::snapshot::Snapshot;
use crate::request::error::RequestError;
use crate::request::send::{Authority, RequestSender};
use crate::request::server_request::ServerRequest;

/// The maximum number of entries.
const MAX_ENTRIES: usize = 256;
/// The maximum size of all entries together.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The maximum TTL.
const MAX_TTL: Duration = Duration::from_secs(60 * 60);
/// The capacity of the command queue.
const QUEUE_CAPACITY: usize = 64;

/// In place of a reader, for responses that are the same for all. No principal has this name.
const EVERY_READER: &str = "";

type Key = (String, String);

#[derive(Debug)]
enum CacheCommand {
    Get { key: Key, mark: RevisionMark, found: oneshot::Sender<Option<Payload>> },
    Put { key: Key, mark: RevisionMark, response: Payload, expires_at: Instant },
}

/// A handle of the cache. A cache that has ended holds nothing.
#[derive(Debug, Clone)]
pub(crate) struct ResourceCacheHandle(mpsc::Sender<CacheCommand>);

impl ResourceCacheHandle {
    async fn get(&self, key: Key, mark: RevisionMark) -> Option<Payload> {
        let (found, response) = oneshot::channel();
        self.0.send(CacheCommand::Get { key, mark, found }).await.ok()?;
        response.await.ok().flatten()
    }

    async fn put(&self, command: CacheCommand) {
        let _cache_gone = self.0.send(command).await;
    }
}

/// Makes a cache and its task, which ends with the last handle.
pub(crate) fn new(
    snapshots: watch::Receiver<Arc<Snapshot>>,
) -> (ResourceCacheHandle, impl Future<Output = ()> + Send + 'static) {
    let (commands, command_receiver) = mpsc::channel(QUEUE_CAPACITY);
    (ResourceCacheHandle(commands), run(snapshots, command_receiver))
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
                    let _reader_gone = found.send(cache.get(&key, &mark, Instant::now()));
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

    /// Adds an entry, unless it alone would take more than a quarter of the cache.
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

    /// Removes the entries of connections that are closed.
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
    #[serde(default)]
    cache_scope: Option<String>,
    #[serde(default)]
    result_type: Option<String>,
}

/// Is a response the same for every reader?
fn is_public(response: &Payload) -> bool {
    response.decode::<ResponseTtl>().is_ok_and(|it| it.cache_scope.as_deref() == Some("public"))
}

/// How long a response is valid, where it says so. One that asks for input is no content.
fn ttl(response: &Payload) -> Option<Duration> {
    let response: ResponseTtl = response.decode().ok()?;
    if response.result_type.as_deref().is_some_and(|it| it != "complete") {
        return None;
    }
    response.ttl_ms.filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms).min(MAX_TTL))
}

/// Reads resources, from the cache where they are still valid.
#[derive(Debug, Clone)]
pub(crate) struct ResourceReader {
    requests: RequestSender,
    cache: ResourceCacheHandle,
}

impl ResourceReader {
    pub(crate) fn new(requests: RequestSender, cache: ResourceCacheHandle) -> ResourceReader {
        ResourceReader { requests, cache }
    }

    pub(crate) fn requests(&self) -> &RequestSender {
        &self.requests
    }

    /// Reads a resource.
    pub(crate) async fn read(
        &self,
        server: &str,
        uri: &str,
        timeout: Duration,
    ) -> Result<Payload, RequestError> {
        let active = self.requests.active_connection(server).await?;
        let key = (server.to_owned(), uri.to_owned());
        let mark = active.resource_revision.mark();
        if let Some(response) = self.cache.get(key.clone(), mark.clone()).await {
            return Ok(response);
        }
        let params = Payload::from_json(json!({"uri": uri}).to_string().into());
        let request = ServerRequest::idempotent("resources/read", timeout).params(params);
        let requested_at = Instant::now();
        let response = self.requests.send(server, &request, Authority::Request).await?;
        if let Some(ttl) = ttl(&response) {
            let (response, expires_at) = (response.clone(), requested_at + ttl);
            self.cache.put(CacheCommand::Put { key, mark, response, expires_at }).await;
        }
        Ok(response)
    }

    /// Reads a resource for a reader other than the host itself, with this request. A response is kept for this reader, or
    /// for every reader where the server says that it is the same for all.
    pub(crate) async fn read_for(
        &self,
        server: &str,
        (reader, uri): (&str, &str),
        request: &ServerRequest,
    ) -> Result<Payload, RequestError> {
        let active = self.requests.active_connection(server).await?;
        let mark = active.resource_revision.mark();
        // No URI contains the separator.
        let key = |reader: &str| (server.to_owned(), format!("{reader}\0{uri}"));
        for reader in [EVERY_READER, reader] {
            if let Some(response) = self.cache.get(key(reader), mark.clone()).await {
                return Ok(response);
            }
        }
        let requested_at = Instant::now();
        let response = self.requests.send(server, request, Authority::Request).await?;
        if let Some(ttl) = ttl(&response) {
            let key = match is_public(&response) {
                true => key(EVERY_READER),
                false => key(reader),
            };
            let (response, expires_at) = (response.clone(), requested_at + ttl);
            self.cache.put(CacheCommand::Put { key, mark, response, expires_at }).await;
        }
        Ok(response)
    }

    /// Whether a server has resources. Connects to it where it is not connected.
    pub(crate) async fn has_resources(&self, server: &str) -> Result<bool, RequestError> {
        let active = self.requests.active_connection(server).await?;
        Ok(active.client.server().capabilities.resources.is_some())
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
    fn an_entry_is_valid_until_the_server_announces_a_change() {
        let (mut cache, revision) = (ResourceCache::default(), ResourceRevision::default());
        cache.insert(key("s", "a"), entry(&revision, 10));
        assert!(has(&mut cache, &key("s", "a"), &revision));
        revision.bump();
        assert!(!has(&mut cache, &key("s", "a"), &revision));
        assert_eq!((cache.entries.len(), cache.bytes), (0, 0));
    }

    #[test]
    fn a_response_that_was_requested_before_a_change_is_not_valid_after_it() {
        let (mut cache, revision) = (ResourceCache::default(), ResourceRevision::default());
        let late = entry(&revision, 10);
        revision.bump();
        cache.insert(key("s", "a"), late);
        assert!(!has(&mut cache, &key("s", "a"), &revision));
    }

    #[test]
    fn an_entry_is_valid_on_its_connection_only_and_until_its_ttl_ends() {
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
    fn the_least_recently_used_entry_is_evicted_first() {
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
    fn only_a_response_with_a_ttl_is_cached() {
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
        fn the_size_is_bounded_and_counted_correctly(
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
