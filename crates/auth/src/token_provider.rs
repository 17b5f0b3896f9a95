//! Adds the access token of one server's login to every request: refreshes it when needed, and signs a DPoP
//! proof for a bound token. Where only the user can help, it reports the required action and does not wait.

mod current_login;
mod failure;
pub mod refresher;
pub mod revocation;
mod trust_settings;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use switchboard_wire::http::client::{
    Authorize, HeadersFuture, OutboundRequest, ResponseHead, RetryDecision, RetryFuture,
};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::challenge::{AuthChallenge, ChallengeErrorCode};
use crate::crypto::dpop::ProofTarget;
use crate::flow::LoginPlan;
use crate::flow::runner::{NonInteractive, UserInteraction, sign_in};
use crate::time_and_random::unix_now;
use crate::time_and_random::with_system_random;
use crate::token::response::TokenType;
use crate::token_provider::refresher::{RefreshError, RefreshReason, Refresher};
use crate::token_store;
use crate::token_store::{LoginKey, LoginRecord, LoginStatus, StoreLock, TokenStoreError};
use current_login::{Acceptance, CurrentLogin};

pub use failure::{LoginError, RequiredAction, TokenFailure};
pub use trust_settings::TrustSettings;

const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: &str = "dpop-nonce";
/// Limits for the challenges and the nonce of a response.
const MAX_CHALLENGE_HEADERS: usize = 16;
const MAX_CHALLENGE_LENGTH: usize = 8 * 1024;
const MAX_NONCE_LENGTH: usize = 1024;
/// How long a missing login is cached, while the server accepts requests without one. After a `401` the store
/// is read at once.
const MISSING_LOGIN_TTL: Duration = Duration::from_secs(1);

/// The plan of a login without a user; `None` if it needs one.
pub type PlanFuture = Pin<Box<dyn Future<Output = Option<LoginPlan>> + Send>>;
/// Makes a plan for each login from the challenge and the previous record, because the credentials may have
/// changed.
pub type NonInteractivePlanner =
    dyn Fn(AuthChallenge, Option<Arc<LoginRecord>>) -> PlanFuture + Send + Sync;

/// Provides the tokens of one server's login.
pub struct TokenProvider {
    refresher: Refresher,
    server: String,
    client: String,
    non_interactive_planner: Option<Box<NonInteractivePlanner>>,
    state: Mutex<ProviderState>,
}

#[derive(Default)]
struct ProviderState {
    current: Option<CurrentLogin>,
    /// When the store had no record.
    missing_since: Option<Instant>,
    /// The nonce that the server demands in proofs.
    nonce: Option<String>,
    required_action: Option<RequiredAction>,
    last_failure: Option<Arc<TokenFailure>>,
}

/// The result of a refresh.
enum RefreshOutcome {
    Refreshed(CurrentLogin),
    /// The login has ended.
    LoginEnded,
    /// A retry may succeed.
    RetryLater,
}

impl TokenProvider {
    /// Provides the tokens of this client at the refresher's server.
    pub fn new(refresher: Refresher, client: &str) -> TokenProvider {
        let server = refresher.trust().server.to_string();
        let client = client.to_owned();
        TokenProvider {
            refresher,
            server,
            client,
            non_interactive_planner: None,
            state: Mutex::default(),
        }
    }

    /// Logs in without a user when needed.
    pub fn with_non_interactive_login(
        mut self,
        plan: impl Fn(AuthChallenge, Option<Arc<LoginRecord>>) -> PlanFuture + Send + Sync + 'static,
    ) -> TokenProvider {
        self.non_interactive_planner = Some(Box::new(plan));
        self
    }

    /// The required user action after the last refused request.
    pub fn required_action(&self) -> Option<RequiredAction> {
        self.state().required_action.clone()
    }

    /// Waits until running refreshes are stored.
    pub async fn close(&self) {
        self.refresher.close().await;
    }

    /// The last failure that logging in does not fix.
    pub fn last_failure(&self) -> Option<Arc<TokenFailure>> {
        self.state().last_failure.clone()
    }

    /// Takes over a completed login.
    pub fn set_login(&self, record: LoginRecord) {
        let mut state = self.state();
        state.current = Some(CurrentLogin::new(record));
        state.required_action = None;
        state.last_failure = None;
    }

    fn state(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Option<CurrentLogin> {
        self.state().current.clone()
    }

    fn set_current(&self, record: LoginRecord, acceptance: Acceptance) -> CurrentLogin {
        let current = CurrentLogin { acceptance, ..CurrentLogin::new(record) };
        self.state().current = Some(current.clone());
        current
    }

    fn record_failure(&self, failure: TokenFailure) {
        self.state().last_failure = Some(Arc::new(failure));
    }

    /// Loads the stored record if it is newer than the current one.
    async fn load_newer(&self) -> Option<CurrentLogin> {
        let found = match self.refresher.store().find(&self.server, &self.client).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.state().missing_since = Some(Instant::now());
                return None;
            }
            Err(error) => {
                warn!("the stored login could not be read");
                self.record_failure(TokenFailure::Store(error));
                return None;
            }
        };
        if found.status != LoginStatus::Good {
            return None;
        }
        let is_known = self.current().is_some_and(|current| {
            current.record.key == found.key && current.record.version >= found.version
        });
        (!is_known).then(|| self.set_current(found, Acceptance::Presumed))
    }

    fn was_missing_recently(&self) -> bool {
        self.state().missing_since.is_some_and(|when| when.elapsed() < MISSING_LOGIN_TTL)
    }

    /// The login to use for a request.
    async fn usable_login(&self) -> Option<CurrentLogin> {
        let current = match self.current() {
            Some(current) => current,
            // Most servers need no login, and the store is on disk.
            None if self.was_missing_recently() => return None,
            // Another request may have loaded it meanwhile; then nothing in the store is newer.
            None => match self.load_newer().await {
                Some(loaded) => loaded,
                None => self.current()?,
            },
        };
        let tokens = &current.record.tokens;
        if tokens.is_expired(unix_now()) {
            // Another process may have refreshed it.
            if let Some(newer) = self.load_newer().await
                && !newer.record.tokens.is_expired(unix_now())
            {
                return Some(newer);
            }
            return match self.refresh(&current, RefreshReason::Expiring).await {
                RefreshOutcome::Refreshed(refreshed) => Some(refreshed),
                // Send the expired token: the server decides.
                RefreshOutcome::LoginEnded | RefreshOutcome::RetryLater => Some(current),
            };
        }
        if tokens.is_expiring(unix_now()) && tokens.refresh_token.is_some() {
            match self.load_newer().await {
                Some(newer) => return Some(newer),
                None => self.refresher.refresh_in_background(&current.record),
            }
        }
        Some(current)
    }

    async fn refresh(&self, current: &CurrentLogin, reason: RefreshReason) -> RefreshOutcome {
        match self.refresher.refresh(&current.record, reason).await {
            Ok(record) => {
                let acceptance = match reason {
                    RefreshReason::Rejected => Acceptance::Unproven,
                    RefreshReason::Expiring => Acceptance::Presumed,
                };
                RefreshOutcome::Refreshed(self.set_current(record, acceptance))
            }
            Err(RefreshError::NeedsLogin) => RefreshOutcome::LoginEnded,
            Err(error) => {
                self.record_failure(TokenFailure::Refresh(error));
                RefreshOutcome::RetryLater
            }
        }
    }

    fn auth_headers(&self, current: &CurrentLogin, outbound: OutboundRequest<'_>) -> HeaderMap {
        let tokens = &current.record.tokens;
        let scheme = match tokens.token_type {
            TokenType::Bearer => "Bearer",
            TokenType::Dpop => "DPoP",
        };
        let mut headers = HeaderMap::new();
        let Ok(value) =
            HeaderValue::from_str(&format!("{scheme} {}", tokens.access_token.reveal()))
        else {
            return headers;
        };
        headers.insert(header::AUTHORIZATION, value);
        if let (TokenType::Dpop, Some(proof)) = (tokens.token_type, &current.dpop_key) {
            let nonce = self.state().nonce.clone();
            let target = ProofTarget {
                method: outbound.method.as_str(),
                url: outbound.url,
                nonce: nonce.as_deref(),
                token: Some(&tokens.access_token),
            };
            let proof = with_system_random(unix_now(), |inputs| proof.sign_proof(target, inputs));
            if let Ok(value) = HeaderValue::from_str(proof.reveal()) {
                headers.insert(DPOP, value);
            }
        }
        headers
    }

    /// Stores the server's nonce; `true` if it is new.
    fn store_nonce(&self, headers: &HeaderMap) -> bool {
        let nonce = headers.get(DPOP_NONCE).and_then(|value| value.to_str().ok());
        let Some(nonce) = nonce.filter(|nonce| (1..=MAX_NONCE_LENGTH).contains(&nonce.len()))
        else {
            return false;
        };
        let mut state = self.state();
        if state.nonce.as_deref() == Some(nonce) {
            return false;
        }
        state.nonce = Some(nonce.to_owned());
        true
    }

    async fn on_rejection(&self, response: ResponseHead<'_>) -> RetryDecision {
        let challenge = challenge_from_headers(response.headers);
        let has_new_nonce = self.store_nonce(response.headers);
        debug!(status = response.status, error = ?challenge.error, "credentials rejected");
        match response.status {
            401 if challenge.error == Some(ChallengeErrorCode::UseDpopNonce) && has_new_nonce => {
                RetryDecision::Retry
            }
            401 => self.on_unauthorized(challenge, response.authorization).await,
            _ => {
                if challenge.error == Some(ChallengeErrorCode::InsufficientScope) {
                    let granted = self.current().and_then(|it| it.record.scopes.clone());
                    self.state().required_action =
                        Some(RequiredAction::GrantMoreScopes { challenge, granted });
                }
                RetryDecision::GiveUp
            }
        }
    }

    async fn on_unauthorized(
        &self,
        challenge: AuthChallenge,
        header: Option<&HeaderValue>,
    ) -> RetryDecision {
        // This or another process has a newer token.
        if let Some(current) = self.current()
            && !current.matches_header(header)
        {
            return RetryDecision::Retry;
        }
        if let Some(newer) = self.load_newer().await
            && !newer.matches_header(header)
        {
            return RetryDecision::Retry;
        }
        let current = self.current();
        // The response to another request may have led to a refresh while the store was read.
        if current.as_ref().is_some_and(|current| !current.matches_header(header)) {
            return RetryDecision::Retry;
        }
        if let Some(current) = current.as_ref().filter(|current| !current.is_unproven()) {
            match self.refresh(current, RefreshReason::Rejected).await {
                RefreshOutcome::Refreshed(refreshed) if !refreshed.matches_header(header) => {
                    return RetryDecision::Retry;
                }
                RefreshOutcome::Refreshed(_) | RefreshOutcome::LoginEnded => {}
                // A temporary failure does not end the login.
                RefreshOutcome::RetryLater => return RetryDecision::GiveUp,
            }
        }
        if self.non_interactive_planner.is_some()
            && self.sign_in_non_interactively(&challenge, current.as_ref()).await
        {
            return RetryDecision::Retry;
        }
        self.state().required_action = Some(RequiredAction::SignIn { challenge });
        RetryDecision::GiveUp
    }

    /// Logs in without a user.
    async fn sign_in_non_interactively(
        &self,
        challenge: &AuthChallenge,
        refused: Option<&CurrentLogin>,
    ) -> bool {
        let Some(planner) = &self.non_interactive_planner else { return false };
        // A token that was just issued and is refused would be refused again.
        if refused.is_some_and(CurrentLogin::is_unproven) {
            return false;
        }
        let plan = planner(challenge.clone(), refused.map(|current| current.record.clone()));
        let Some(plan) = plan.await else { return false };
        match self.sign_in_exclusively(plan, &NonInteractive).await {
            Ok(record) => {
                info!("login without a user completed");
                self.set_current(record, Acceptance::Unproven);
                true
            }
            Err(LoginError::Store(error)) => {
                warn!("login without a user not stored");
                self.record_failure(TokenFailure::Store(error));
                false
            }
            Err(LoginError::SignIn(error)) => {
                warn!("login without a user failed; `swb doctor` shows the cause");
                self.record_failure(TokenFailure::SignIn(error));
                false
            }
        }
    }

    /// Logs in with the user, stores the record and uses it. Only one process at a time logs in; the others
    /// wait for it and use its record.
    pub async fn sign_in(
        &self,
        plan: LoginPlan,
        user: &dyn UserInteraction,
    ) -> Result<LoginRecord, LoginError> {
        // Without a refused request the user wants to replace the stored login, so load it first. After a
        // refused request only a newer record counts: another process has just logged in.
        if self.required_action().is_none() {
            self.load_newer().await;
        }
        let record = self.sign_in_exclusively(plan, user).await?;
        self.set_login(record.clone());
        Ok(record)
    }

    /// Waits for the login lock, as long as a user may need in another process.
    async fn lock_login(&self, key: &LoginKey) -> Result<StoreLock, TokenStoreError> {
        const MAX_ATTEMPTS: u32 = 16;
        let store = self.refresher.store();
        for _ in 1..MAX_ATTEMPTS {
            match store.lock(key).await {
                Err(TokenStoreError::LockTimeout(_)) => {}
                Ok(lock) => return Ok(lock),
                Err(error) => return Err(error),
            }
        }
        store.lock(key).await
    }

    async fn sign_in_exclusively(
        &self,
        plan: LoginPlan,
        user: &dyn UserInteraction,
    ) -> Result<LoginRecord, LoginError> {
        let store = self.refresher.store();
        let key = LoginKey {
            server: self.server.clone(),
            issuer: String::new(),
            client: self.client.clone(),
        };
        let _lock = self.lock_login(&key).await?;
        if let Some(newer) = self.load_newer().await
            && newer.satisfies(&plan)
        {
            return Ok(LoginRecord::clone(&newer.record));
        }
        let login = sign_in(plan, &**self.refresher.fetch(), user).await?;
        let record = LoginRecord::new(login, &self.server, &self.client, unix_now());
        Ok(token_store::overwrite(&**store, record).await?)
    }
}

fn challenge_from_headers(headers: &HeaderMap) -> AuthChallenge {
    let challenges = headers.get_all(header::WWW_AUTHENTICATE).iter().take(MAX_CHALLENGE_HEADERS);
    let texts = challenges.filter_map(|value| value.to_str().ok());
    AuthChallenge::from_headers(texts.filter(|text| text.len() <= MAX_CHALLENGE_LENGTH))
}

impl Authorize for TokenProvider {
    fn headers<'a>(&'a self, outbound: OutboundRequest<'a>) -> HeadersFuture<'a> {
        Box::pin(async move {
            match self.usable_login().await {
                Some(current) => self.auth_headers(&current, outbound),
                None => HeaderMap::new(),
            }
        })
    }

    fn on_unauthorized<'a>(&'a self, response: ResponseHead<'a>) -> RetryFuture<'a> {
        Box::pin(self.on_rejection(response))
    }

    fn on_response(&self, response: ResponseHead<'_>) {
        self.store_nonce(response.headers);
        // A response to a request with another token, or with none, says nothing about this login.
        let is_success = (200..300).contains(&response.status);
        let mut state = self.state();
        let Some(current) = &mut state.current else { return };
        if !is_success || !current.matches_header(response.authorization) {
            return;
        }
        current.acceptance = Acceptance::Presumed;
        state.last_failure = None;
        // A success does not mean that the request for more scopes is settled.
        if let Some(RequiredAction::SignIn { .. }) = state.required_action {
            state.required_action = None;
        }
    }
}

/// Prints no token.
impl fmt::Debug for TokenProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenProvider")
            .field("server", &self.server)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
