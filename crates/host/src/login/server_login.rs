//! The login at one server: signs in, signs out, and gives the connection its token provider.
//! Tokens stay inside the `auth` crate.

use std::fmt;
use std::sync::Arc;

use switchboard_auth::browser::browser_flow::{BrowserFlow, LoginPrompt};
use switchboard_auth::browser::loopback_listener::{
    CallbackPort, ListenError, LoopbackHost, ResultPage,
};
use switchboard_auth::challenge::AuthChallenge;
use switchboard_auth::flow::LoginGrant;
use switchboard_auth::scopes::Scopes;
use switchboard_auth::token_provider::refresher::{Refresher, TrustSettings};
use switchboard_auth::token_provider::revocation;
use switchboard_auth::token_provider::{LoginError, RequiredAction, TokenFailure, TokenProvider};
use switchboard_auth::token_store::{LoginRecord, LoginStatus, TokenStoreError, WriteOutcome};
use switchboard_wire::http::client::Authorize;
use thiserror::Error;
use tokio::sync::OnceCell;
use tracing::{info, warn};

use crate::failure::{ConnectionFailure, error_chain};
use crate::login::context::{LoginContext, LoginServices};
use crate::login::method::login_remote;
use crate::login::profile::{OAuthProfile, unattended_plan};
use crate::sources::desired_server::DesiredServer;

pub(crate) use crate::login::options::LoginRequest;
pub(crate) use crate::login::summary::LogoutOutcome;

/// Why a login or logout failed.
#[derive(Debug, Error)]
pub enum ServerLoginError {
    /// There is no such server.
    #[error("there is no server `{0}`")]
    UnknownServer(String),
    /// The server has no login of its own, for this reason.
    #[error("`{0}` is not a server that one signs in to: {1}")]
    Unsupported(String, &'static str),
    /// The entry, its secrets or the token store cannot be read.
    #[error("{0}")]
    Unavailable(Arc<ConnectionFailure>),
    /// The listener for the browser's redirect could not be started.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The login flow failed.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The stored login could not be read or removed.
    #[error(transparent)]
    TokenStore(#[from] TokenStoreError),
}

impl ServerLoginError {
    pub(crate) fn unavailable(cause: ConnectionFailure) -> ServerLoginError {
        ServerLoginError::Unavailable(Arc::new(cause))
    }
}

/// One server's login, made on first use, because its secrets are fetched then. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct LoginSlot(Arc<OnceCell<Option<Arc<ServerLogin>>>>);

impl fmt::Debug for LoginSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginSlot")
    }
}

impl LoginSlot {
    /// The server's login; `None` where the server has no login of its own.
    pub(crate) async fn login(
        &self,
        desired: &DesiredServer,
        context: &Arc<LoginContext>,
    ) -> Result<Option<Arc<ServerLogin>>, ConnectionFailure> {
        let made = self.0.get_or_try_init(|| ServerLogin::open(desired, context)).await;
        made.cloned()
    }

    /// Waits until issued tokens are stored.
    pub(crate) async fn flush(&self) {
        if let Some(Some(login)) = self.0.get() {
            login.token_provider.close().await;
        }
    }

    /// Signs in, where the server has said what it requires and there is a guide. Returns whether that worked.
    pub(crate) async fn sign_in_if_required(
        &self,
        desired: &DesiredServer,
        context: &Arc<LoginContext>,
    ) -> bool {
        let Some(guide) = context.options.guide.as_deref() else { return false };
        let Ok(Some(login)) = self.login(desired, context).await else { return false };
        login.required_action().is_some()
            && login.sign_in(guide, &LoginRequest::default()).await.is_ok()
    }
}

/// The login at one server.
pub(crate) struct ServerLogin {
    token_provider: Arc<TokenProvider>,
    profile: Arc<OAuthProfile>,
    services: Arc<LoginServices>,
}

impl ServerLogin {
    /// The login that a server's entry describes; `None` where the server has no login of its own.
    pub(crate) async fn open(
        desired: &DesiredServer,
        context: &Arc<LoginContext>,
    ) -> Result<Option<Arc<ServerLogin>>, ConnectionFailure> {
        if login_remote(&desired.spec).is_err() {
            return Ok(None);
        }
        let services = context.services().await?;
        let profile = Arc::new(OAuthProfile::load(&desired.spec, context).await?);
        let mut token_provider = token_provider(&profile, &services, profile.trust());
        if profile.supports_unattended() {
            let (spec, context) = (desired.spec.clone(), context.clone());
            token_provider = token_provider.with_non_interactive_login(move |challenge, record| {
                Box::pin(unattended_plan(spec.clone(), context.clone(), challenge, record))
            });
        }
        let token_provider = Arc::new(token_provider);
        Ok(Some(Arc::new(ServerLogin { token_provider, profile, services })))
    }

    /// A login with this profile, which trusts these URLs besides the server.
    pub(super) fn interactive(
        profile: OAuthProfile,
        services: Arc<LoginServices>,
        trust: TrustSettings,
    ) -> ServerLogin {
        let token_provider = Arc::new(token_provider(&profile, &services, trust));
        ServerLogin { token_provider, profile: Arc::new(profile), services }
    }

    /// Authorizes the requests to the server.
    pub(crate) fn authorize(&self) -> Arc<dyn Authorize> {
        self.token_provider.clone()
    }

    /// The required user action, according to the last request that the server rejected.
    pub(crate) fn required_action(&self) -> Option<RequiredAction> {
        self.token_provider.required_action()
    }

    /// Whether there is a login that may be valid. A cached `needs-auth` says nothing then.
    pub(crate) async fn has_login(&self) -> bool {
        let is_good = self.stored_record().await.is_some_and(|it| it.status == LoginStatus::Good);
        is_good || self.profile.supports_unattended()
    }

    /// Why the last token could not be had.
    pub(crate) fn last_error(&self) -> Option<String> {
        let failure = self.token_provider.last_failure()?;
        Some(match &*failure {
            TokenFailure::Store(error) => error_chain(error),
            TokenFailure::Refresh(error) => error_chain(error),
            TokenFailure::SignIn(error) => error_chain(error),
        })
    }

    /// Whether a login exists whose refresh failed for a reason that may pass.
    pub(crate) fn may_refresh_later(&self) -> bool {
        let needs_no_login = self.token_provider.required_action().is_none();
        needs_no_login
            && self
                .token_provider
                .last_failure()
                .is_some_and(|it| matches!(&*it, TokenFailure::Refresh(_)))
    }

    /// Signs in; `guide` takes the user through it.
    pub(crate) async fn sign_in(
        &self,
        guide: &dyn LoginPrompt,
        request: &LoginRequest,
    ) -> Result<LoginRecord, ServerLoginError> {
        let (challenge, granted) = match self.token_provider.required_action() {
            Some(RequiredAction::SignIn { challenge }) => (challenge, None),
            Some(RequiredAction::GrantMoreScopes { challenge, granted }) => (challenge, granted),
            None => (AuthChallenge::default(), None),
        };
        let (port, host) = match request.port.or(self.profile.callback_port) {
            Some(port) => (CallbackPort::Fixed(port), LoopbackHost::Localhost),
            None => (CallbackPort::Any, LoopbackHost::Ipv4),
        };
        let flow = BrowserFlow::bind(port, host, guide).await?;
        let grant = match request.use_device_code {
            true => LoginGrant::Device,
            false => LoginGrant::Browser { redirect_uri: flow.redirect_uri().clone() },
        };
        let stored = self.stored_record().await;
        let mut plan = self.profile.plan(challenge, stored.as_ref(), granted, grant);
        if !request.scopes.is_empty() {
            plan.scopes = Some(Scopes::new(&request.scopes));
        }
        info!(server = self.profile.name, "login started");
        let outcome = self.token_provider.sign_in(plan, &flow).await;
        match &outcome {
            Ok(_) => info!(server = self.profile.name, "login completed"),
            Err(error) => {
                warn!(server = self.profile.name, error = error.log_label(), "login failed");
            }
        }
        let page = match &outcome {
            Ok(_) => ResultPage::SignedIn { server: self.profile.name.clone() },
            Err(error) => ResultPage::Failed { why: error_chain(error) },
        };
        let listen_error = flow.take_listen_error();
        flow.finish(page).await;
        match listen_error {
            Some(error) => Err(error.into()),
            None => Ok(outcome?),
        }
    }

    /// Waits until issued tokens are stored.
    pub(super) async fn close(&self) {
        self.token_provider.close().await;
    }

    /// The stored login, where there is one.
    pub(crate) async fn stored_record(&self) -> Option<LoginRecord> {
        let (server, client) = (self.profile.server.as_str(), self.profile.client_key());
        self.services.token_store.find(server, client).await.ok().flatten()
    }

    /// Revokes and removes the stored login.
    pub(crate) async fn sign_out(&self) -> Result<LogoutOutcome, ServerLoginError> {
        let Some(mut record) = self.stored_record().await else {
            return Ok(LogoutOutcome::NotLoggedIn);
        };
        let revoked =
            revocation::revoke(&record, &*self.services.fetch, &self.profile.trust()).await;
        while let WriteOutcome::Conflict(Some(newer)) =
            self.services.token_store.remove(&record.key, record.version).await?
        {
            record = *newer;
        }
        let is_revoked = revoked.is_ok();
        info!(server = self.profile.name, is_revoked, "login removed");
        Ok(match revoked {
            Ok(()) => LogoutOutcome::Revoked,
            Err(error) => LogoutOutcome::RemovedLocally(error),
        })
    }
}

fn token_provider(
    profile: &OAuthProfile,
    services: &LoginServices,
    trust: TrustSettings,
) -> TokenProvider {
    let refresher = Refresher::new(services.token_store.clone(), services.fetch.clone(), trust);
    TokenProvider::new(refresher, profile.client_key())
}
