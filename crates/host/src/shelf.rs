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

use crate::ask::{AskError, Question};
use crate::connection::Live;
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
pub(crate) struct News(Arc<AtomicU64>);

impl News {
    /// Something changed.
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn edition(&self) -> Edition {
        Edition { news: self.clone(), number: self.0.load(Ordering::Acquire) }
    }

    fn is_of(&self, other: &News) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A moment in the life of a connection, between one change and the next.
#[derive(Debug, Clone)]
struct Edition {
    news: News,
    number: u64,
}

impl PartialEq for Edition {
    fn eq(&self, other: &Edition) -> bool {
        self.number == other.number && self.news.is_of(&other.news)
    }
}

type Key = (String, String);

#[derive(Debug)]
enum Order {
    Find { key: Key, edition: Edition, found: oneshot::Sender<Option<Payload>> },
    Put { key: Key, edition: Edition, answer: Payload, until: Instant },
}

/// For whoever reads resources.
#[derive(Debug, Clone)]
pub(crate) struct ShelfHandle(mpsc::Sender<Order>);

/// Makes a shelf, and the work that has to be done for it. That work ends with the last handle.
pub(crate) fn new(
    snapshots: watch::Receiver<Arc<Snapshot>>,
) -> (ShelfHandle, impl Future<Output = ()> + Send + 'static) {
    let (orders, from_readers) = mpsc::channel(WAITING);
    (ShelfHandle(orders), run(snapshots, from_readers))
}

async fn run(mut snapshots: watch::Receiver<Arc<Snapshot>>, mut orders: mpsc::Receiver<Order>) {
    let mut shelf = Shelf::default();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Find { key, edition, found }) => {
                    let _reader_left = found.send(shelf.find(&key, &edition, Instant::now()));
                }
                Some(Order::Put { key, edition, answer, until }) => {
                    shelf.put(key, Kept { edition, answer, until, used: 0 });
                }
                None => return,
            },
            Ok(()) = snapshots.changed() => {
                let snapshot = snapshots.borrow_and_update().clone();
                shelf.retain(|server| {
                    let view = snapshot.servers.get(server)?;
                    view.live.as_ref().map(|live| live.news.clone())
                });
            }
        }
    }
}

#[derive(Debug)]
struct Kept {
    edition: Edition,
    answer: Payload,
    until: Instant,
    used: u64,
}

#[derive(Debug, Default)]
struct Shelf {
    kept: HashMap<Key, Kept>,
    bytes: usize,
    uses: u64,
}

impl Shelf {
    fn find(&mut self, key: &Key, edition: &Edition, now: Instant) -> Option<Payload> {
        self.uses += 1;
        let kept = self.kept.get_mut(key)?;
        if kept.edition != *edition || kept.until <= now {
            self.remove(key);
            return None;
        }
        kept.used = self.uses;
        Some(kept.answer.clone())
    }

    /// Keeps an answer, unless it alone would take most of the room.
    fn put(&mut self, key: Key, mut kept: Kept) {
        let size = size(&key, &kept);
        self.remove(&key);
        if size > MOST_BYTES / 4 {
            return;
        }
        self.uses += 1;
        kept.used = self.uses;
        self.bytes += size;
        self.kept.insert(key, kept);
        while self.kept.len() > MOST || self.bytes > MOST_BYTES {
            let least = self.kept.iter().min_by_key(|(_, it)| it.used).map(|(key, _)| key.clone());
            let Some(least) = least else { return };
            self.remove(&least);
        }
    }

    /// Keeps only what came over a connection that still stands.
    fn retain(&mut self, standing: impl Fn(&str) -> Option<News>) {
        let is_over = |key: &Key, it: &Kept| {
            standing(&key.0).is_none_or(|news| !news.is_of(&it.edition.news))
        };
        let over = self.kept.iter().filter(|(key, it)| is_over(key, it));
        let over: Vec<Key> = over.map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: &Key) {
        if let Some(kept) = self.kept.remove(key) {
            self.bytes -= size(key, &kept);
        }
    }
}

fn size(key: &Key, kept: &Kept) -> usize {
    key.0.len() + key.1.len() + kept.answer.as_bytes().len()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Freshness {
    #[serde(default)]
    ttl_ms: Option<u64>,
}

/// How long an answer holds, where it says so.
fn fresh_for(answer: &Payload) -> Option<Duration> {
    let said: Freshness = answer.decode().ok()?;
    said.ttl_ms.filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms).min(LONGEST))
}

impl Host {
    /// Reads a resource, or remembers what it held where its server said that it still holds.
    pub async fn read(
        &self,
        server: &str,
        uri: &str,
        patience: Duration,
    ) -> Result<Payload, AskError> {
        let live = self.live(server).await?;
        let key = (server.to_owned(), uri.to_owned());
        let edition = live.news.edition();
        let (found, kept) = oneshot::channel();
        let order = Order::Find { key: key.clone(), edition: edition.clone(), found };
        // A shelf that is gone keeps nothing.
        if self.shelf().0.send(order).await.is_ok()
            && let Ok(Some(answer)) = kept.await
        {
            return Ok(answer);
        }
        let params = json!({"uri": uri}).to_string();
        let mut question = Question::harmless("resources/read", patience);
        question.params = Some(Payload::from_json(params.into()));
        let asked = Instant::now();
        let answer = self.ask(server, question).await?;
        if let Some(fresh) = fresh_for(&answer) {
            let order = Order::Put { key, edition, answer: answer.clone(), until: asked + fresh };
            let _shelf_gone = self.shelf().0.send(order).await;
        }
        Ok(answer)
    }

    /// Does a server have resources? Connects to it first, where it is not connected.
    pub async fn has_resources(&self, server: &str) -> Result<bool, AskError> {
        let live = self.live(server).await?;
        Ok(live.client.introduction().capabilities.resources.is_some())
    }

    async fn live(&self, server: &str) -> Result<Live, AskError> {
        let handle = self.handle(server).ok_or_else(|| AskError::NoServer(server.to_owned()))?;
        handle.live(None).await.map_err(AskError::NotConnected)
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

    fn kept(news: &News, size: usize) -> Kept {
        let answer = Payload::from_json(vec![b' '; size].into());
        Kept { edition: news.edition(), answer, until: Instant::now() + SOON, used: 0 }
    }

    fn has(shelf: &mut Shelf, key: &Key, news: &News) -> bool {
        shelf.find(key, &news.edition(), Instant::now()).is_some()
    }

    #[test]
    fn an_answer_is_good_until_the_server_says_that_something_changed() {
        let (mut shelf, news) = (Shelf::default(), News::default());
        shelf.put(key("s", "a"), kept(&news, 10));
        assert!(has(&mut shelf, &key("s", "a"), &news));
        news.note();
        assert!(!has(&mut shelf, &key("s", "a"), &news));
        assert_eq!((shelf.kept.len(), shelf.bytes), (0, 0));
    }

    #[test]
    fn an_answer_that_was_asked_for_before_a_change_is_not_good_after_it() {
        let (mut shelf, news) = (Shelf::default(), News::default());
        let late = kept(&news, 10);
        news.note();
        shelf.put(key("s", "a"), late);
        assert!(!has(&mut shelf, &key("s", "a"), &news));
    }

    #[test]
    fn an_answer_is_good_on_its_connection_alone_and_for_its_time() {
        let (mut shelf, news) = (Shelf::default(), News::default());
        shelf.put(key("s", "a"), kept(&news, 10));
        shelf.put(key("t", "a"), kept(&news, 10));
        assert!(!has(&mut shelf, &key("s", "a"), &News::default()));
        shelf.put(key("s", "a"), kept(&news, 10));
        let later = Instant::now() + SOON * 2;
        assert!(shelf.find(&key("s", "a"), &news.edition(), later).is_none());
        shelf.put(key("s", "a"), kept(&news, 10));
        shelf.retain(|server| (server == "s").then(|| news.clone()));
        assert_eq!(shelf.kept.keys().collect::<Vec<_>>(), [&key("s", "a")]);
    }

    #[test]
    fn the_least_used_leaves_first() {
        let (mut shelf, news) = (Shelf::default(), News::default());
        for number in 0..MOST {
            shelf.put(key("s", &number.to_string()), kept(&news, 1));
        }
        assert!(has(&mut shelf, &key("s", "0"), &news));
        shelf.put(key("s", "one more"), kept(&news, 1));
        assert!(has(&mut shelf, &key("s", "0"), &news));
        assert!(!has(&mut shelf, &key("s", "1"), &news));
    }

    #[test]
    fn only_an_answer_that_says_how_long_it_holds_is_kept() {
        let fresh = |text: &'static str| fresh_for(&Payload::from_json(text.into()));
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
            let (mut shelf, news) = (Shelf::default(), News::default());
            for (name, size) in puts {
                shelf.put(key("s", &name.to_string()), kept(&news, size));
                let bytes: usize = shelf.kept.iter().map(|(key, it)| super::size(key, it)).sum();
                prop_assert_eq!(bytes, shelf.bytes);
                prop_assert!(bytes <= MOST_BYTES && shelf.kept.len() <= MOST);
            }
        }
    }
}
