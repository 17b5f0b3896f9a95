//! The keys of one issuer: found by its metadata, kept, fetched anew when a token names one that is not there, and not
//! lost in an outage. One fetch at a time, and it outlives who waits for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use url::Url;

use super::jws_check::{Jws, KeySet};
use crate::discovery::server_candidates;
use crate::discovery::server_metadata::is_same_issuer;
use crate::fetch::{Fetch, FetchError, Request};
use crate::origin_guard::{OriginGuard, Unsafe};

/// How long a fetch may take, all of it.
const PATIENCE: Duration = Duration::from_secs(15);
/// How soon keys are fetched again: after a fetch that went well, and after one that did not.
const AFTER_GOOD: Duration = Duration::from_secs(60);
const AFTER_BAD: Duration = Duration::from_secs(5);
/// When keys are fetched again though nobody misses one: what the issuer took back must go.
const STALE: Duration = Duration::from_secs(3600);

/// What was fetched.
#[derive(Debug)]
pub(super) struct Keys {
    /// The issuer's name for itself, to the letter.
    pub issuer: String,
    /// Which state of them. Every change is one more.
    pub revision: u64,
    pub set: KeySet,
    fetched: Instant,
}

/// The keys of an issuer.
pub(super) struct KeyRing {
    inner: Arc<Inner>,
    /// At most one at a time. Ends with us.
    tasks: Mutex<JoinSet<()>>,
}

struct Inner {
    source: Source,
    keys: RwLock<Option<Arc<Keys>>>,
    flight: Mutex<Flight>,
    /// Counts the fetches that ended.
    landed: watch::Sender<u64>,
}

struct Source {
    issuer: String,
    url: Url,
    fetch: Arc<dyn Fetch>,
    guard: OriginGuard,
}

/// How it stands with fetching.
enum Flight {
    Never,
    UnderWay,
    Landed {
        /// When there may be another.
        next: Instant,
        fault: Option<IssuerFault>,
    },
}

enum Begun {
    UnderWay,
    NotYet,
}

/// Why an issuer's keys are not there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IssuerFault {
    /// Nobody answered.
    #[error("the issuer could not be asked")]
    Fetch(#[from] FetchError),
    /// Nothing is where its metadata should be.
    #[error("the issuer has no metadata, or no metadata with a place for its keys")]
    NoMetadata,
    /// Somebody else is there.
    #[error("the issuer's metadata is that of another")]
    WrongIssuer,
    /// Its keys are where we do not go.
    #[error("the place of the issuer's keys is refused")]
    Place(#[from] Unsafe),
    /// There are no keys there.
    #[error("what is at the place of the issuer's keys is no set of keys")]
    NoSet,
    /// It took too long.
    #[error("the issuer took too long")]
    Late,
}

impl KeyRing {
    /// The keys of this issuer, whose name a person typed. Nothing is fetched yet.
    pub fn new(issuer: &str, url: Url, fetch: Arc<dyn Fetch>, proxies: &[String]) -> KeyRing {
        let guard = OriginGuard::new(&url, &[]).with_proxies(proxies);
        let source = Source { issuer: issuer.to_owned(), url, fetch, guard };
        let inner = Inner {
            source,
            keys: RwLock::default(),
            flight: Mutex::new(Flight::Never),
            landed: watch::Sender::new(0),
        };
        KeyRing { inner: Arc::new(inner), tasks: Mutex::default() }
    }

    /// What is there. Where it is old, it is fetched anew meanwhile.
    pub fn current(&self) -> Option<Arc<Keys>> {
        let keys = self.inner.keys();
        if keys.as_ref().is_some_and(|keys| keys.fetched.elapsed() >= STALE) {
            self.begin();
        }
        keys
    }

    /// The keys, with the one that may have signed this if the issuer has it. Waits for the issuer where it is not
    /// there and the issuer may be asked. An outage is not an answer: while there is one, nothing is said of a key
    /// that is not there.
    pub async fn keys_for(&self, statement: &Jws<'_>) -> Result<Arc<Keys>, IssuerFault> {
        let has = |keys: &Arc<Keys>| keys.set.has(statement);
        if let Some(keys) = self.current().filter(has) {
            return Ok(keys);
        }
        let mut landed = self.inner.landed.subscribe();
        match self.begin() {
            // The fetch has a deadline of its own.
            Begun::UnderWay => drop(timeout(PATIENCE * 2, landed.changed()).await),
            Begun::NotYet => {}
        }
        let keys = self.inner.keys();
        match (&*self.inner.flight(), keys) {
            (Flight::Landed { fault: Some(fault), .. }, keys) => {
                keys.filter(has).ok_or_else(|| fault.clone())
            }
            (Flight::Landed { fault: None, .. } | Flight::Never | Flight::UnderWay, keys) => {
                keys.ok_or(IssuerFault::Late)
            }
        }
    }

    /// Begins to fetch, where nobody does and it is time.
    fn begin(&self) -> Begun {
        let mut flight = self.inner.flight();
        match &*flight {
            Flight::UnderWay => return Begun::UnderWay,
            Flight::Landed { next, .. } if Instant::now() < *next => return Begun::NotYet,
            Flight::Landed { .. } | Flight::Never => *flight = Flight::UnderWay,
        }
        drop(flight);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        let inner = self.inner.clone();
        tasks.spawn(async move { inner.renew().await });
        Begun::UnderWay
    }

    /// Waits for what is under way.
    pub async fn close(&self) {
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }
}

impl Inner {
    fn keys(&self) -> Option<Arc<Keys>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn renew(&self) {
        let found = match timeout(PATIENCE, self.source.find()).await {
            Ok(found) => found,
            Err(_) => Err(IssuerFault::Late),
        };
        let (pause, fault) = match found {
            Ok((issuer, set)) => {
                self.keep(issuer, set);
                (AFTER_GOOD, None)
            }
            // What there was stays.
            Err(fault) => (AFTER_BAD, Some(fault)),
        };
        *self.flight() = Flight::Landed { next: Instant::now() + pause, fault };
        self.landed.send_modify(|count| *count += 1);
    }

    fn keep(&self, issuer: String, set: KeySet) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let revision = match keys.as_deref() {
            Some(old) if old.set == set && old.issuer == issuer => old.revision,
            Some(old) => old.revision + 1,
            None => 0,
        };
        *keys = Some(Arc::new(Keys { issuer, revision, set, fetched: Instant::now() }));
    }
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

impl Source {
    async fn find(&self) -> Result<(String, KeySet), IssuerFault> {
        let metadata = self.metadata().await?;
        let at = self.guard.check(&metadata.jwks_uri)?;
        let answer = self.fetch.fetch(Request::get(at)).await?;
        let set = Some(&answer).filter(|it| it.is_success()).and_then(|it| KeySet::parse(&it.body));
        Ok((metadata.issuer, set.ok_or(IssuerFault::NoSet)?))
    }

    /// The issuer's metadata: the first that there is.
    async fn metadata(&self) -> Result<Metadata, IssuerFault> {
        let mut why = IssuerFault::NoMetadata;
        for place in server_candidates(&self.url) {
            let answer = self.fetch.fetch(Request::get(self.guard.check_url(place)?)).await;
            let answer = match answer {
                Ok(answer) if answer.is_success() => answer,
                Ok(_) => continue,
                Err(error) => {
                    why = error.into();
                    continue;
                }
            };
            match serde_json::from_slice::<Metadata>(&answer.body) {
                Ok(found) if is_same_issuer(&self.issuer, &found.issuer) => return Ok(found),
                Ok(_) => why = IssuerFault::WrongIssuer,
                Err(_) => {}
            }
        }
        Err(why)
    }
}
