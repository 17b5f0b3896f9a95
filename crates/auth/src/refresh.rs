//! Renewing tokens, once on the whole machine: hold the login, read it again, and only then ask for new tokens,
//! write them down and use them. What fails on the way costs no login.

use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use url::Url;

use crate::assertion::SigningKey;
use crate::discovery::server_metadata::ServerError;
use crate::dpop::ProofKey;
use crate::fetch::{Fetch, FetchError};
use crate::grant::Grant;
use crate::origin_guard::OriginGuard;
use crate::pkce::at_present;
use crate::registration::Method;
use crate::runner::now;
use crate::token::{Complaint, TokenError, Tokens};
use crate::token_request::{Reply, TokenRequest};
use crate::vault::{Held, Record, Standing, Swapped, Vault, VaultError};

/// Why tokens are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// They are about to end.
    Expiring,
    /// The server does not take them.
    Refused,
}

/// Why there are none.
#[derive(Debug, Error)]
pub enum RenewError {
    /// A person must sign in again.
    #[error("the login has ended")]
    NeedsLogin,
    /// The authorization server could not be asked, or could not answer. The login stands.
    #[error("the authorization server could not be asked")]
    Fetch(#[source] FetchError),
    /// It answered that it cannot, for now or for reasons that are not the login's. The login stands.
    #[error("the authorization server issued no token")]
    Token(#[source] TokenError),
    /// Its endpoint is not to be gone to.
    #[error("the authorization server is refused")]
    Server(#[source] ServerError),
    /// The login could not be read or written.
    #[error("the login could not be read or written")]
    Vault(#[from] VaultError),
    /// The work was stopped: we are shutting down.
    #[error("renewing was stopped")]
    Stopped,
}

/// What is trusted for one server beyond what the server says.
#[derive(Debug, Clone)]
pub struct Trust {
    /// The server.
    pub server: Url,
    /// What else a person typed.
    pub typed: Vec<Url>,
    /// The hosts of our proxies.
    pub proxies: Vec<String>,
    /// What our client signs with, where it does.
    pub key: Option<SigningKey>,
}

/// Renews the tokens of one server's logins. Clones share what is under way.
#[derive(Clone)]
pub struct Refresher {
    inner: Arc<Inner>,
}

struct Inner {
    vault: Arc<dyn Vault>,
    fetch: Arc<dyn Fetch>,
    trust: Trust,
    /// Renewals outlive who asked for them: a token that was issued must be written down. Finished ones are
    /// taken out whenever one is added.
    under_way: Mutex<JoinSet<()>>,
    /// What was issued and could not be written down: nobody else has it, and what is written down is spent.
    unwritten: Mutex<Option<Record>>,
}

impl Refresher {
    /// Renews with this vault over this port.
    pub fn new(vault: Arc<dyn Vault>, fetch: Arc<dyn Fetch>, trust: Trust) -> Refresher {
        let under_way = Mutex::new(JoinSet::new());
        let unwritten = Mutex::default();
        Refresher { inner: Arc::new(Inner { vault, fetch, trust, under_way, unwritten }) }
    }

    /// The vault.
    pub fn vault(&self) -> &Arc<dyn Vault> {
        &self.inner.vault
    }

    /// The port.
    pub fn fetch(&self) -> &Arc<dyn Fetch> {
        &self.inner.fetch
    }

    /// What is trusted.
    pub fn trust(&self) -> &Trust {
        &self.inner.trust
    }

    /// A login that is newer than the one that the caller holds, or as good as new. Who stops waiting stops
    /// nothing: the renewal goes on.
    pub async fn renew(&self, held: &Record, need: Need) -> Result<Record, RenewError> {
        let (reply, renewed) = oneshot::channel();
        let (inner, held) = (self.inner.clone(), held.clone());
        self.spawn(async move {
            let _caller_left = reply.send(inner.renew(&held, need).await);
        });
        renewed.await.unwrap_or(Err(RenewError::Stopped))
    }

    /// Begins a renewal that nobody waits for, unless one is under way.
    pub fn renew_ahead(&self, held: &Record) {
        if !self.is_idle() {
            return;
        }
        let (inner, held) = (self.inner.clone(), held.clone());
        self.spawn(async move {
            // Whoever needs the token will ask again and hear why.
            let _nobody_waits = inner.renew(&held, Need::Expiring).await;
        });
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut under_way = self.under_way();
        while under_way.try_join_next().is_some() {}
        under_way.spawn(work);
    }

    fn is_idle(&self) -> bool {
        let mut under_way = self.under_way();
        while under_way.try_join_next().is_some() {}
        under_way.is_empty()
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.inner.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for what is under way. Each has its own deadline.
    pub async fn close(&self) {
        let mut under_way = std::mem::take(&mut *self.under_way());
        while under_way.join_next().await.is_some() {}
    }
}

impl Inner {
    async fn renew(&self, held: &Record, need: Need) -> Result<Record, RenewError> {
        let _held = self.vault.hold(&held.key).await?;
        let Some(current) = self.vault.read(&held.key).await? else {
            return Err(RenewError::NeedsLogin);
        };
        if current.standing != Standing::Good {
            return Err(RenewError::NeedsLogin);
        }
        let current = self.newest(current).await;
        let is_newer = current.version > held.version && !current.held.is_expired(now());
        let is_fresh = need == Need::Expiring && !current.held.is_expiring(now());
        if is_newer || is_fresh {
            return Ok(current);
        }
        match self.ask(&current).await {
            Ok(tokens) => self.keep(current, tokens).await,
            Err(RenewError::Token(error)) => Err(self.refused(current, error).await?),
            Err(error) => Err(error),
        }
    }

    fn unwritten(&self) -> std::sync::MutexGuard<'_, Option<Record>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is written down, unless something was issued after it that could not be: that is written down now, if there
    /// is room again.
    async fn newest(&self, written: Record) -> Record {
        let ours = self.unwritten().take();
        let is_later = |it: &Record| it.key == written.key && it.version > written.version;
        let Some(ours) = ours.filter(is_later) else { return written };
        let ours = Record { version: written.version, ..ours };
        match self.vault.swap(&ours).await {
            Ok(Swapped::Written(version)) => Record { version, ..ours },
            // Somebody signed in or out meanwhile.
            Ok(Swapped::Stale(_)) => written,
            Err(_) => {
                let later = Record { version: ours.version + 1, ..ours.clone() };
                *self.unwritten() = Some(later);
                ours
            }
        }
    }

    async fn ask(&self, current: &Record) -> Result<Tokens, RenewError> {
        let Some(refresh) = &current.held.refresh else { return Err(RenewError::NeedsLogin) };
        let Trust { server, typed, proxies, key } = &self.trust;
        let guard = OriginGuard::new(server, typed).with_proxies(proxies);
        let endpoint = current.metadata.token_endpoint(&guard).map_err(RenewError::Server)?;
        let client = current.client.clone();
        let proof = current.proof.as_ref().and_then(ProofKey::restore);
        let mut asked = TokenRequest {
            key: key.clone().filter(|_| client.method == Method::PrivateKeyJwt),
            proof,
            resource: current.resource.clone(),
            ..TokenRequest::new(endpoint, Grant::Refresh(refresh.clone()), client)
        };
        let mut request = at_present(now(), |moment| asked.request(moment));
        loop {
            let answer = self.fetch.fetch(request).await.map_err(RenewError::Fetch)?;
            match at_present(now(), |moment| asked.on(&answer, moment)) {
                // The question counts how often.
                Reply::Again(again) => request = again,
                Reply::Tokens(tokens) => return Ok(*tokens),
                Reply::Refused(error) => return Err(RenewError::Token(error)),
            }
        }
    }

    /// Writes new tokens down before anybody uses them.
    async fn keep(&self, current: Record, tokens: Tokens) -> Result<Record, RenewError> {
        const TRIES: u32 = 3;
        let scopes = tokens.scopes.clone().or_else(|| current.scopes.clone());
        let held = Held::of(tokens, Some(&current.held), now());
        let mut renewed = Record { held, scopes, ..current };
        for _ in 0..TRIES {
            match self.vault.swap(&renewed).await {
                Ok(Swapped::Written(version)) => {
                    renewed.version = version;
                    return Ok(renewed);
                }
                // Somebody signed in or out meanwhile. That is newer than what we have.
                Ok(Swapped::Stale(Some(there))) => return Ok(*there),
                Ok(Swapped::Stale(None)) => return Err(RenewError::NeedsLogin),
                Err(_) => {}
            }
        }
        // The old refresh token may be gone. To throw the new one away as well would make it worse, whether or not
        // somebody waits for it.
        renewed.version += 1;
        *self.unwritten() = Some(renewed.clone());
        Ok(renewed)
    }

    /// Marks a login as ended only where the authorization server says so, and only if it is still the same.
    async fn refused(&self, current: Record, error: TokenError) -> Result<RenewError, RenewError> {
        let standing = match error.complaint() {
            Some(Complaint::InvalidGrant) => Standing::NeedsLogin,
            Some(Complaint::InvalidClient | Complaint::UnauthorizedClient) => {
                Standing::NeedsRegistration
            }
            Some(
                Complaint::InvalidScope
                | Complaint::InvalidTarget
                | Complaint::UnsupportedGrant
                | Complaint::UseDpopNonce
                | Complaint::AuthorizationPending
                | Complaint::SlowDown
                | Complaint::AccessDenied
                | Complaint::ExpiredCode
                | Complaint::Temporary
                | Complaint::Other,
            )
            | None => return Ok(RenewError::Token(error)),
        };
        let ended = Record { standing, ..current };
        match self.vault.swap(&ended).await? {
            Swapped::Written(_) | Swapped::Stale(None) => Ok(RenewError::NeedsLogin),
            Swapped::Stale(Some(there)) if there.standing == Standing::Good => {
                // A newer login is there; whoever asks again gets it.
                Ok(RenewError::Token(error))
            }
            Swapped::Stale(Some(_)) => Ok(RenewError::NeedsLogin),
        }
    }
}
