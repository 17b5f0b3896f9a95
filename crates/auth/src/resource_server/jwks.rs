//! The keys of one issuer (JWKS): discovered through its metadata, cached, fetched again when a token names an
//! unknown key, and kept during an outage. One fetch runs at a time and outlives its waiters.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};
use url::Url;

use super::jws::{Jwks, Jws};
use crate::discovery::auth_server_metadata::is_same_issuer;
use crate::discovery::auth_server_metadata_urls;
use crate::fetch::origin_guard::{OriginGuard, UrlError};
use crate::fetch::{Fetch, FetchError, FetchRequest};

/// The timeout of a fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(15);
/// The minimum time between fetches: after a success, and after a failure.
const REFETCH_AFTER_SUCCESS: Duration = Duration::from_secs(60);
const REFETCH_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// The maximum age of cached keys, so that removed keys expire.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// The cached keys.
#[derive(Debug)]
pub(crate) struct CachedJwks {
    /// The issuer identifier as the metadata names it.
    pub issuer: String,
    /// The revision. Each change increments it.
    pub revision: u64,
    pub jwks: Jwks,
    fetched_at: Instant,
}

/// Caches the keys of an issuer.
pub(crate) struct JwksCache {
    inner: Arc<Inner>,
    /// The running fetch, at most one. Dropping the cache cancels it.
    tasks: Mutex<JoinSet<()>>,
}

struct Inner {
    source: JwksSource,
    keys: RwLock<Option<Arc<CachedJwks>>>,
    fetch_state: Mutex<FetchState>,
    /// The number of finished fetches.
    finished_fetches: watch::Sender<u64>,
}

struct JwksSource {
    issuer: String,
    url: Url,
    fetch: Arc<dyn Fetch>,
    guard: OriginGuard,
}

/// The state of fetching.
enum FetchState {
    Never,
    InFlight,
    Finished {
        /// The earliest time of the next fetch.
        refetch_at: Instant,
        error: Option<IssuerError>,
    },
}

enum FetchStart {
    InFlight,
    TooEarly,
}

/// Why an issuer's keys are not available.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IssuerError {
    /// The issuer is unreachable.
    #[error("the issuer could not be reached")]
    Fetch(#[from] FetchError),
    /// The issuer has no metadata, or its metadata has no `jwks_uri`.
    #[error("the issuer has no metadata, or its metadata has no jwks_uri")]
    NoMetadata,
    /// The metadata belongs to another issuer.
    #[error("the metadata belongs to another issuer")]
    WrongIssuer,
    /// The `jwks_uri` is refused.
    #[error("the issuer's jwks_uri is refused")]
    UnsafeJwksUri(#[from] UrlError),
    /// The document is not a JWKS.
    #[error("the issuer's jwks_uri does not return a key set")]
    InvalidJwks,
    /// The fetch timed out.
    #[error("the issuer did not respond in time")]
    TimedOut,
}

impl JwksCache {
    /// A cache for the keys of a configured issuer. Nothing is fetched yet.
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

    /// The cached keys. Starts a fetch in the background when they are too old.
    pub fn current(&self) -> Option<Arc<CachedJwks>> {
        let keys = self.inner.keys();
        if keys.as_ref().is_some_and(|keys| keys.fetched_at.elapsed() >= MAX_AGE) {
            self.start_fetch();
        }
        keys
    }

    /// The keys, with one that may have signed this token, if the issuer has it. Fetches where there is none
    /// and the last fetch is not too recent. During an outage a missing key is an error of the issuer, not of
    /// the token.
    pub async fn keys_for(&self, jws: &Jws<'_>) -> Result<Arc<CachedJwks>, IssuerError> {
        let has = |keys: &Arc<CachedJwks>| keys.jwks.has_candidate(jws);
        if let Some(keys) = self.current().filter(has) {
            return Ok(keys);
        }
        let mut finished_fetches = self.inner.finished_fetches.subscribe();
        match self.start_fetch() {
            // The fetch has its own timeout.
            FetchStart::InFlight => {
                drop(timeout(FETCH_TIMEOUT * 2, finished_fetches.changed()).await)
            }
            FetchStart::TooEarly => {}
        }
        let keys = self.inner.keys();
        match (&*self.inner.fetch_state(), keys) {
            (FetchState::Finished { error: Some(error), .. }, keys) => {
                keys.filter(has).ok_or_else(|| error.clone())
            }
            (
                FetchState::Finished { error: None, .. } | FetchState::Never | FetchState::InFlight,
                keys,
            ) => keys.ok_or(IssuerError::TimedOut),
        }
    }

    /// Starts a fetch, unless one is running or the last is too recent.
    fn start_fetch(&self) -> FetchStart {
        let mut fetch_state = self.inner.fetch_state();
        match &*fetch_state {
            FetchState::InFlight => return FetchStart::InFlight,
            FetchState::Finished { refetch_at, .. } if Instant::now() < *refetch_at => {
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

    /// Waits for the running fetch.
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
        let (pause, error) = match found {
            Ok((issuer, set)) => {
                debug!("keys of the issuer fetched");
                self.store(issuer, set);
                (REFETCH_AFTER_SUCCESS, None)
            }
            // Keep the cached keys.
            Err(error) => {
                // The text names no more than the kind of error.
                warn!(cause = %error, "the keys of the issuer could not be fetched");
                (REFETCH_AFTER_FAILURE, Some(error))
            }
        };
        *self.fetch_state() = FetchState::Finished { refetch_at: Instant::now() + pause, error };
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
        let response = self.fetch.fetch(FetchRequest::get(at)).await?;
        let set = Some(&response).filter(|it| it.is_success()).and_then(|it| Jwks::parse(&it.body));
        Ok((metadata.issuer, set.ok_or(IssuerError::InvalidJwks)?))
    }

    /// Fetches the issuer's metadata: the first document found.
    async fn fetch_metadata(&self) -> Result<IssuerMetadata, IssuerError> {
        let mut last_error = IssuerError::NoMetadata;
        for url in auth_server_metadata_urls(&self.url) {
            let response = self.fetch.fetch(FetchRequest::get(self.guard.check_url(url)?)).await;
            let response = match response {
                Ok(response) if response.is_success() => response,
                Ok(_) => continue,
                Err(error) => {
                    last_error = error.into();
                    continue;
                }
            };
            match serde_json::from_slice::<IssuerMetadata>(&response.body) {
                Ok(found) if is_same_issuer(&self.issuer, &found.issuer) => return Ok(found),
                Ok(_) => last_error = IssuerError::WrongIssuer,
                Err(_) => {}
            }
        }
        Err(last_error)
    }
}
