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

use super::jws::{Jwks, Jws};
use crate::discovery::auth_server_metadata::is_same_issuer;
use crate::discovery::auth_server_metadata_urls;
use crate::fetch::origin_guard::{OriginGuard, UrlError};
use crate::fetch::{Fetch, FetchError, FetchRequest};

/// How long a fetch may take, all of it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(15);
/// How soon keys are fetched again: after a fetch that went well, and after one that did not.
const REFETCH_AFTER_SUCCESS: Duration = Duration::from_secs(60);
const REFETCH_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// When keys are fetched again though nobody misses one: what the issuer took back must go.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// What was fetched.
#[derive(Debug)]
pub(crate) struct CachedJwks {
    /// The issuer's name for itself, to the letter.
    pub issuer: String,
    /// Which state of them. Every change is one more.
    pub revision: u64,
    pub jwks: Jwks,
    fetched_at: Instant,
}

/// The keys of an issuer.
pub(crate) struct JwksCache {
    inner: Arc<Inner>,
    /// At most one at a time. Ends with us.
    tasks: Mutex<JoinSet<()>>,
}

struct Inner {
    source: JwksSource,
    keys: RwLock<Option<Arc<CachedJwks>>>,
    fetch_state: Mutex<FetchState>,
    /// Counts the fetches that ended.
    finished_fetches: watch::Sender<u64>,
}

struct JwksSource {
    issuer: String,
    url: Url,
    fetch: Arc<dyn Fetch>,
    guard: OriginGuard,
}

/// How it stands with fetching.
enum FetchState {
    Never,
    InFlight,
    Finished {
        /// When there may be another.
        refetch_at: Instant,
        error: Option<IssuerError>,
    },
}

enum FetchStart {
    InFlight,
    TooEarly,
}

/// Why an issuer's keys are not there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IssuerError {
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
    UnsafeJwksUri(#[from] UrlError),
    /// There are no keys there.
    #[error("what is at the place of the issuer's keys is no set of keys")]
    InvalidJwks,
    /// It took too long.
    #[error("the issuer took too long")]
    TimedOut,
}

impl JwksCache {
    /// The keys of this issuer, whose name a person typed. Nothing is fetched yet.
    pub fn new(issuer: &str, url: Url, fetch: Arc<dyn Fetch>, proxies: &[String]) -> JwksCache {
        let guard = OriginGuard::new(&url, &[]).with_proxies(proxies);
        let source = JwksSource { issuer: issuer.to_owned(), url, fetch, guard };
        let inner = Inner {
            source,
            keys: RwLock::default(),
            fetch_state: Mutex::new(FetchState::Never),
            finished_fetches: watch::Sender::new(0),
        };
        JwksCache { inner: Arc::new(inner), tasks: Mutex::default() }
    }

    /// What is there. Where it is old, it is fetched anew meanwhile.
    pub fn current(&self) -> Option<Arc<CachedJwks>> {
        let keys = self.inner.keys();
        if keys.as_ref().is_some_and(|keys| keys.fetched_at.elapsed() >= MAX_AGE) {
            self.start_fetch();
        }
        keys
    }

    /// The keys, with the one that may have signed this if the issuer has it. Waits for the issuer where it is not
    /// there and the issuer may be asked. An outage is not an answer: while there is one, nothing is said of a key
    /// that is not there.
    pub async fn keys_for(&self, jws: &Jws<'_>) -> Result<Arc<CachedJwks>, IssuerError> {
        let has = |keys: &Arc<CachedJwks>| keys.jwks.has_candidate(jws);
        if let Some(keys) = self.current().filter(has) {
            return Ok(keys);
        }
        let mut finished_fetches = self.inner.finished_fetches.subscribe();
        match self.start_fetch() {
            // The fetch has a deadline of its own.
            FetchStart::InFlight => {
                drop(timeout(FETCH_TIMEOUT * 2, finished_fetches.changed()).await)
            }
            FetchStart::TooEarly => {}
        }
        let keys = self.inner.keys();
        match (&*self.inner.fetch_state(), keys) {
            (FetchState::Finished { error: Some(fault), .. }, keys) => {
                keys.filter(has).ok_or_else(|| fault.clone())
            }
            (
                FetchState::Finished { error: None, .. } | FetchState::Never | FetchState::InFlight,
                keys,
            ) => keys.ok_or(IssuerError::TimedOut),
        }
    }

    /// Begins to fetch, where nobody does and it is time.
    fn start_fetch(&self) -> FetchStart {
        let mut fetch_state = self.inner.fetch_state();
        match &*fetch_state {
            FetchState::InFlight => return FetchStart::InFlight,
            FetchState::Finished { refetch_at: next, .. } if Instant::now() < *next => {
                return FetchStart::TooEarly;
            }
            FetchState::Finished { .. } | FetchState::Never => *fetch_state = FetchState::InFlight,
        }
        drop(fetch_state);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        let inner = self.inner.clone();
        tasks.spawn(async move { inner.refetch().await });
        FetchStart::InFlight
    }

    /// Waits for what is under way.
    pub async fn close(&self) {
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }
}

impl Inner {
    fn keys(&self) -> Option<Arc<CachedJwks>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fetch_state(&self) -> MutexGuard<'_, FetchState> {
        self.fetch_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn refetch(&self) {
        let found = match timeout(FETCH_TIMEOUT, self.source.fetch_jwks()).await {
            Ok(found) => found,
            Err(_) => Err(IssuerError::TimedOut),
        };
        let (pause, fault) = match found {
            Ok((issuer, set)) => {
                self.store(issuer, set);
                (REFETCH_AFTER_SUCCESS, None)
            }
            // What there was stays.
            Err(fault) => (REFETCH_AFTER_FAILURE, Some(fault)),
        };
        *self.fetch_state() =
            FetchState::Finished { refetch_at: Instant::now() + pause, error: fault };
        self.finished_fetches.send_modify(|count| *count += 1);
    }

    fn store(&self, issuer: String, set: Jwks) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let revision = match keys.as_deref() {
            Some(old) if old.jwks == set && old.issuer == issuer => old.revision,
            Some(old) => old.revision + 1,
            None => 0,
        };
        *keys =
            Some(Arc::new(CachedJwks { issuer, revision, jwks: set, fetched_at: Instant::now() }));
    }
}

#[derive(Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: String,
}

impl JwksSource {
    async fn fetch_jwks(&self) -> Result<(String, Jwks), IssuerError> {
        let metadata = self.fetch_metadata().await?;
        let at = self.guard.check(&metadata.jwks_uri)?;
        let answer = self.fetch.fetch(FetchRequest::get(at)).await?;
        let set = Some(&answer).filter(|it| it.is_success()).and_then(|it| Jwks::parse(&it.body));
        Ok((metadata.issuer, set.ok_or(IssuerError::InvalidJwks)?))
    }

    /// The issuer's metadata: the first that there is.
    async fn fetch_metadata(&self) -> Result<IssuerMetadata, IssuerError> {
        let mut last_error = IssuerError::NoMetadata;
        for url in auth_server_metadata_urls(&self.url) {
            let answer = self.fetch.fetch(FetchRequest::get(self.guard.check_url(url)?)).await;
            let answer = match answer {
                Ok(answer) if answer.is_success() => answer,
                Ok(_) => continue,
                Err(error) => {
                    last_error = error.into();
                    continue;
                }
            };
            match serde_json::from_slice::<IssuerMetadata>(&answer.body) {
                Ok(found) if is_same_issuer(&self.issuer, &found.issuer) => return Ok(found),
                Ok(_) => last_error = IssuerError::WrongIssuer,
                Err(_) => {}
            }
        }
        Err(last_error)
    }
}
