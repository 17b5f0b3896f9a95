//! Refreshes tokens, once at a time on the machine: locks the login, reads it again, requests new tokens, and
//! stores them before they are used. A failure does not end the login.

use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{debug, error, info, warn};

use crate::crypto::dpop::DpopKey;
use crate::discovery::auth_server_metadata::AuthServerMetadataError;
use crate::fetch::{Fetch, FetchError};
use crate::registration::ClientAuthMethod;
use crate::time_and_random::unix_now;
use crate::time_and_random::with_system_random;
use crate::token::grant::Grant;
use crate::token::request::{TokenOutcome, TokenRequest};
use crate::token::response::{TokenError, TokenErrorCode, TokenResponse};
use crate::token_store::{
    LoginRecord, LoginStatus, StoredTokens, TokenStore, TokenStoreError, WriteOutcome,
};

pub use super::trust_settings::TrustSettings;

/// Why tokens are refreshed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshReason {
    /// They expire soon.
    Expiring,
    /// The server refused them.
    Rejected,
}

/// Why a refresh failed.
#[derive(Debug, Error)]
pub enum RefreshError {
    /// The user must log in again.
    #[error("the login has ended")]
    NeedsLogin,
    /// The authorization server is unreachable. The login stays valid.
    #[error("the authorization server could not be reached")]
    Fetch(#[source] FetchError),
    /// The authorization server issued no token, for reasons other than the login. The login stays valid.
    #[error("the authorization server issued no token")]
    Token(#[source] TokenError),
    /// The token endpoint is refused.
    #[error("the authorization server's endpoint is refused")]
    AuthServerMetadata(#[source] AuthServerMetadataError),
    /// The record could not be read or written.
    #[error("the login could not be read or written")]
    Store(#[from] TokenStoreError),
    /// The task was cancelled by shutdown.
    #[error("refreshing was cancelled")]
    Stopped,
}

/// Refreshes the tokens of one server's logins. Clones share the running refreshes.
#[derive(Clone)]
pub struct Refresher {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn TokenStore>,
    fetch: Arc<dyn Fetch>,
    trust: TrustSettings,
    /// Refreshes outlive their callers, because an issued token must be stored. Finished tasks are removed
    /// whenever one is added.
    tasks: Mutex<JoinSet<()>>,
    /// Tokens that were issued and could not be stored. The stored refresh token may be used up.
    unsaved: Mutex<Option<LoginRecord>>,
}

impl Refresher {
    /// Refreshes with this store and this fetcher.
    pub fn new(
        store: Arc<dyn TokenStore>,
        fetch: Arc<dyn Fetch>,
        trust: TrustSettings,
    ) -> Refresher {
        let tasks = Mutex::new(JoinSet::new());
        let unsaved = Mutex::default();
        Refresher { inner: Arc::new(Inner { store, fetch, trust, tasks, unsaved }) }
    }

    /// The token store.
    pub fn store(&self) -> &Arc<dyn TokenStore> {
        &self.inner.store
    }

    /// The fetcher.
    pub fn fetch(&self) -> &Arc<dyn Fetch> {
        &self.inner.fetch
    }

    /// The trust settings of the server.
    pub fn trust(&self) -> &TrustSettings {
        &self.inner.trust
    }

    /// Returns a record that is newer than `held`, or still fresh. Dropping the future does not cancel the
    /// refresh.
    pub async fn refresh(
        &self,
        held: &LoginRecord,
        reason: RefreshReason,
    ) -> Result<LoginRecord, RefreshError> {
        let (reply, refreshed) = oneshot::channel();
        let (inner, held) = (self.inner.clone(), held.clone());
        self.spawn(async move {
            let _caller_left = reply.send(inner.refresh(&held, reason).await);
        });
        refreshed.await.unwrap_or(Err(RefreshError::Stopped))
    }

    /// Starts a refresh in the background, unless one is running.
    pub fn refresh_in_background(&self, held: &LoginRecord) {
        if !self.is_idle() {
            return;
        }
        let (inner, held) = (self.inner.clone(), held.clone());
        self.spawn(async move {
            // The next caller that needs the token gets the error.
            let _result = inner.refresh(&held, RefreshReason::Expiring).await;
        });
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    fn is_idle(&self) -> bool {
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.is_empty()
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for running refreshes. Each has its own timeout.
    pub async fn close(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks());
        while tasks.join_next().await.is_some() {}
    }
}

/// The origin of a server's URL, for logs: the rest of a URL may contain secrets.
fn log_origin(server: &str) -> String {
    url::Url::parse(server).map_or_else(|_| String::new(), |it| it.origin().ascii_serialization())
}

impl Inner {
    async fn refresh(
        &self,
        held: &LoginRecord,
        reason: RefreshReason,
    ) -> Result<LoginRecord, RefreshError> {
        let _lock = self.store.lock(&held.key).await?;
        let Some(current) = self.store.read(&held.key).await? else {
            return Err(RefreshError::NeedsLogin);
        };
        if current.status != LoginStatus::Good {
            return Err(RefreshError::NeedsLogin);
        }
        let current = self.latest(current).await;
        let is_newer = current.version > held.version && !current.tokens.is_expired(unix_now());
        let is_fresh = reason == RefreshReason::Expiring && !current.tokens.is_expiring(unix_now());
        let server = log_origin(&held.key.server);
        if is_newer || is_fresh {
            debug!(server, "another process has refreshed the tokens");
            return Ok(current);
        }
        let requested = self.request_tokens(&current).await;
        match &requested {
            Ok(_) => info!(server, ?reason, "tokens refreshed"),
            Err(RefreshError::Token(error)) => {
                warn!(server, ?reason, code = ?error.code(), "no tokens issued for a refresh");
            }
            // The text names no more than the kind of error.
            Err(error) => warn!(server, ?reason, cause = %error, "tokens not refreshed"),
        }
        match requested {
            Ok(tokens) => self.save(current, tokens).await,
            Err(RefreshError::Token(error)) => Err(self.on_token_error(current, error).await?),
            Err(error) => Err(error),
        }
    }

    fn unsaved(&self) -> std::sync::MutexGuard<'_, Option<LoginRecord>> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stored record, or the unsaved one if it is newer. Tries to store the unsaved one.
    async fn latest(&self, stored: LoginRecord) -> LoginRecord {
        let unsaved = self.unsaved().take();
        let is_later = |it: &LoginRecord| it.key == stored.key && it.version > stored.version;
        let Some(unsaved) = unsaved.filter(is_later) else { return stored };
        let unsaved = LoginRecord { version: stored.version, ..unsaved };
        match self.store.compare_and_swap(&unsaved).await {
            Ok(WriteOutcome::Written(version)) => LoginRecord { version, ..unsaved },
            // Another process logged in or out meanwhile.
            Ok(WriteOutcome::Conflict(_)) => stored,
            Err(_) => {
                let later = LoginRecord { version: unsaved.version + 1, ..unsaved.clone() };
                *self.unsaved() = Some(later);
                unsaved
            }
        }
    }

    async fn request_tokens(&self, current: &LoginRecord) -> Result<TokenResponse, RefreshError> {
        let Some(refresh) = &current.tokens.refresh_token else {
            return Err(RefreshError::NeedsLogin);
        };
        let guard = self.trust.origin_guard();
        let endpoint =
            current.metadata.token_endpoint(&guard).map_err(RefreshError::AuthServerMetadata)?;
        let client = current.client.clone();
        let signing_key = self.trust.signing_key.clone();
        let proof = current.dpop_key.as_ref().and_then(DpopKey::from_stored);
        let mut token_request = TokenRequest {
            signing_key: signing_key.filter(|_| client.method == ClientAuthMethod::PrivateKeyJwt),
            dpop_key: proof,
            resource: current.resource.clone(),
            ..TokenRequest::new(endpoint, Grant::RefreshToken(refresh.clone()), client)
        };
        let mut request =
            with_system_random(unix_now(), |inputs| token_request.to_fetch_request(inputs));
        loop {
            let response = self.fetch.fetch(request).await.map_err(RefreshError::Fetch)?;
            match with_system_random(unix_now(), |inputs| token_request.on(&response, inputs)) {
                // `TokenRequest` limits the number of retries.
                TokenOutcome::Retry(again) => request = again,
                TokenOutcome::Tokens(tokens) => return Ok(*tokens),
                TokenOutcome::Refused(error) => return Err(RefreshError::Token(error)),
            }
        }
    }

    /// Stores new tokens before they are used.
    async fn save(
        &self,
        current: LoginRecord,
        tokens: TokenResponse,
    ) -> Result<LoginRecord, RefreshError> {
        const MAX_ATTEMPTS: u32 = 3;
        let scopes = tokens.scopes.clone().or_else(|| current.scopes.clone());
        let tokens = StoredTokens::from_response(tokens, Some(&current.tokens), unix_now());
        let mut refreshed = LoginRecord { tokens, scopes, ..current };
        for _ in 0..MAX_ATTEMPTS {
            match self.store.compare_and_swap(&refreshed).await {
                Ok(WriteOutcome::Written(version)) => {
                    refreshed.version = version;
                    return Ok(refreshed);
                }
                // Another process logged in or out meanwhile, which is newer.
                Ok(WriteOutcome::Conflict(Some(stored))) => return Ok(*stored),
                Ok(WriteOutcome::Conflict(None)) => return Err(RefreshError::NeedsLogin),
                Err(_) => {}
            }
        }
        let server = log_origin(&refreshed.key.server);
        error!(server, "new tokens could not be stored: they are lost when the program ends");
        // The old refresh token may be used up, so keep the new tokens in memory.
        refreshed.version += 1;
        *self.unsaved() = Some(refreshed.clone());
        Ok(refreshed)
    }

    /// Marks a login as ended, if the authorization server says so and the record is unchanged.
    async fn on_token_error(
        &self,
        current: LoginRecord,
        error: TokenError,
    ) -> Result<RefreshError, RefreshError> {
        let status = match error.code() {
            Some(TokenErrorCode::InvalidGrant) => LoginStatus::NeedsLogin,
            Some(TokenErrorCode::InvalidClient | TokenErrorCode::UnauthorizedClient) => {
                LoginStatus::NeedsRegistration
            }
            Some(
                TokenErrorCode::InvalidScope
                | TokenErrorCode::InvalidTarget
                | TokenErrorCode::UnsupportedGrantType
                | TokenErrorCode::UseDpopNonce
                | TokenErrorCode::AuthorizationPending
                | TokenErrorCode::SlowDown
                | TokenErrorCode::AccessDenied
                | TokenErrorCode::ExpiredToken
                | TokenErrorCode::TemporarilyUnavailable
                | TokenErrorCode::Other,
            )
            | None => return Ok(RefreshError::Token(error)),
        };
        let server = log_origin(&current.key.server);
        warn!(server, "the login has ended: the user must log in again");
        let ended = LoginRecord { status, ..current };
        match self.store.compare_and_swap(&ended).await? {
            WriteOutcome::Written(_) | WriteOutcome::Conflict(None) => Ok(RefreshError::NeedsLogin),
            WriteOutcome::Conflict(Some(stored)) if stored.status == LoginStatus::Good => {
                // A newer login is stored; the next attempt uses it.
                Ok(RefreshError::Token(error))
            }
            WriteOutcome::Conflict(Some(_)) => Ok(RefreshError::NeedsLogin),
        }
    }
}
