//! The login at the connector account, or the token that the settings name for it. Its token is sent to the account's own
//! sites and nowhere else. The list of connectors is left to `connectors`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use switchboard_auth::discovery::auth_server_metadata::AuthServerMetadata;
use switchboard_auth::registration::{
    ClientAuthMethod, ClientCredential, ClientProvenance, OAuthClient,
};
use switchboard_auth::secret::Secret;
use switchboard_auth::token::response::TokenType;
use switchboard_auth::token_store;
use switchboard_auth::token_store::{LoginKey, LoginRecord, LoginStatus, StoredTokens};
use switchboard_config::entry::server::OAuthGrant;
use switchboard_config::settings::connector_account::ConnectorAccount;
use switchboard_config::template::Template;
use switchboard_wire::http::client::Authorize;
use switchboard_wire::shared::Shared;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use url::Url;

use crate::failure::{ConnectionFailure, RefusedSession};
use crate::login::bearer::template_header;
use crate::login::context::LoginContext;
use crate::login::dynamic_headers::{DynamicHeaders, HeaderSource, HeadersFuture, OriginBound};
use crate::login::profile::OAuthProfile;
use crate::login::server_login::{ServerLogin, ServerLoginError};
use crate::sources::connector_cache::{AccountSites, ListFailureKind, unix_now};
use crate::sources::host_env::HostEnv;

/// The client id under which the account's login is stored. No entry of a server can name it.
const CLIENT_ID: &str = "connector account";
/// How long a token of the settings is used before it is read again.
const TOKEN_TTL: Duration = Duration::from_secs(5 * 60);
/// How long the account's word on its session counts: many connectors are refused at once.
const SESSION_TTL: Duration = Duration::from_secs(5);
pub(super) const NO_ACCOUNT: &str =
    "no connector account is set up: `connectorAccount` in your settings names one";
pub(super) const TOKEN_REFUSED: &str = "the token of your connector account is refused";

/// What the account says about its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// It is accepted.
    Accepted,
    /// It is not, for this reason.
    Refused(ListFailureKind, String),
    /// The token cannot be refreshed now; the login is kept.
    NotRefreshed(String),
}

/// The account's token.
pub(crate) struct AccountToken {
    sites: AccountSites,
    manage_url: Option<String>,
    authorizer: Arc<OriginBound>,
    source: TokenSource,
    /// Shared state: the connection of every connector that is refused reads it, and the one that asked the account
    /// replaces it.
    session: Shared<Option<(Instant, SessionState)>>,
    /// One task asks the account at a time; the others use its answer.
    session_slot: Semaphore,
}

/// Where the token comes from.
enum TokenSource {
    /// A stored login.
    Login(Arc<ServerLogin>),
    /// The settings.
    Settings(Arc<DynamicHeaders>),
}

impl fmt::Debug for AccountToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountToken(…)")
    }
}

impl AccountToken {
    /// The token of the settings' account: the one that the settings name, else the stored one. `None` without an
    /// account.
    pub(crate) async fn open(
        context: &LoginContext,
    ) -> Result<Option<Arc<AccountToken>>, ConnectionFailure> {
        let Some(account) = &context.options.account else { return Ok(None) };
        let Some(sites) = AccountSites::of(account) else { return Ok(None) };
        let source = match &account.token {
            Some(token) => {
                let source = BearerSource { token: token.clone(), env: context.env.clone() };
                TokenSource::Settings(Arc::new(DynamicHeaders::new(source, TOKEN_TTL)))
            }
            None => TokenSource::Login(Arc::new(open_login(context, account, &sites).await?)),
        };
        let origins = sites.origins().clone();
        let authorizer = Arc::new(OriginBound { origins, inner: source.authorize() });
        let manage_url = account.manage_url.clone();
        let (session, session_slot) = (Shared::new(None), Semaphore::new(1));
        Ok(Some(Arc::new(AccountToken {
            sites,
            manage_url,
            authorizer,
            source,
            session,
            session_slot,
        })))
    }

    /// The URL of the list.
    pub(super) fn url(&self) -> &Url {
        self.sites.api()
    }

    /// The sites of the account.
    pub(super) fn sites(&self) -> &AccountSites {
        &self.sites
    }

    /// The page where the user manages the connectors.
    pub(crate) fn manage_url(&self) -> Option<&str> {
        self.manage_url.as_deref()
    }

    /// Authorizes the requests to connectors.
    pub(crate) fn authorize(&self) -> Arc<dyn Authorize> {
        self.authorizer.clone()
    }

    /// Authorizes the requests to the account's API. A refusal says how to sign in.
    pub(super) fn authorize_api(&self) -> Arc<dyn Authorize> {
        self.source.authorize()
    }

    /// Whether the token is sent to this URL.
    pub(crate) fn is_for(&self, url: &Url) -> bool {
        self.authorizer.is_for(url)
    }

    /// The login, unless the settings name the token.
    pub(crate) fn login(&self) -> Option<&Arc<ServerLogin>> {
        match &self.source {
            TokenSource::Login(login) => Some(login),
            TokenSource::Settings(_) => None,
        }
    }

    /// The session that is refused where the account refuses its token.
    pub(crate) fn session_kind(&self) -> RefusedSession {
        match &self.source {
            TokenSource::Login(_) => RefusedSession::AccountLogin,
            TokenSource::Settings(_) => RefusedSession::AccountToken,
        }
    }

    /// Why there is no token, where the settings name one that cannot be read, or a refresh fails for now.
    pub(super) fn last_error(&self) -> Option<String> {
        match &self.source {
            TokenSource::Settings(headers) => headers.last_error(),
            TokenSource::Login(login) if login.may_refresh_later() => login.last_error(),
            TokenSource::Login(_) => None,
        }
    }

    /// What the account says about its session: its last word if that is recent, else that of `ask`.
    pub(super) async fn session_state(
        &self,
        ask: impl Future<Output = SessionState>,
    ) -> SessionState {
        let recent = || {
            let last = self.session.get();
            last.filter(|(at, _)| at.elapsed() < SESSION_TTL).map(|(_, state)| state)
        };
        let _slot = self.session_slot.acquire().await;
        if let Some(state) = recent() {
            return state;
        }
        let state = ask.await;
        self.session.update(|last| *last = Some((Instant::now(), state.clone())));
        state
    }

    /// Waits until issued tokens are stored.
    pub(crate) async fn close(&self) {
        if let TokenSource::Login(login) = &self.source {
            login.close().await;
        }
    }
}

impl TokenSource {
    fn authorize(&self) -> Arc<dyn Authorize> {
        match self {
            TokenSource::Login(login) => login.authorize(),
            TokenSource::Settings(headers) => headers.clone(),
        }
    }
}

/// The login at the account's API.
async fn open_login(
    context: &LoginContext,
    account: &ConnectorAccount,
    sites: &AccountSites,
) -> Result<ServerLogin, ConnectionFailure> {
    let services = context.services().await?;
    let metadata_url = account.login.metadata_url.as_deref().and_then(|it| Url::parse(it).ok());
    let profile = OAuthProfile {
        name: "your connector account".to_owned(),
        server: sites.api().clone(),
        client_id: account.login.client_id.clone(),
        credential: ClientCredential::None,
        metadata_url,
        scopes: None,
        grant: OAuthGrant::AuthorizationCode,
        callback_port: account.login.callback_port,
        workload_token: None,
        identity_provider: None,
        client_metadata_url: context.options.client_metadata_url.clone(),
        proxies: services.proxies.clone(),
        stored_as: Some(CLIENT_ID),
    };
    let trust = profile.trust();
    Ok(ServerLogin::interactive(profile, services, trust))
}

/// A token that the settings name.
struct BearerSource {
    token: Template,
    env: HostEnv,
}

impl HeaderSource for BearerSource {
    fn produce(&self) -> HeadersFuture<'_> {
        Box::pin(async move {
            let (token, env) = (self.token.clone(), self.env.clone());
            let reading = tokio::task::spawn_blocking(move || {
                template_header("connectorAccount.token", &token, &env)
            });
            reading.await.unwrap_or_else(|_| Err("the token could not be read".to_owned()))
        })
    }
}

/// Stores a token for the account and replaces the one before.
pub(crate) async fn store_token(
    context: &LoginContext,
    token: Secret,
    ttl: Option<Duration>,
) -> Result<(), ServerLoginError> {
    let account = context.options.account.as_ref().ok_or_else(no_account)?;
    let services = context.services().await.map_err(ServerLoginError::unavailable)?;
    token_store::overwrite(&*services.token_store, token_record(account, token, ttl)).await?;
    Ok(())
}

/// The error of a login without an account.
pub(crate) fn no_account() -> ServerLoginError {
    ServerLoginError::unavailable(ConnectionFailure::invalid_config(NO_ACCOUNT))
}

/// The record under which a token is stored.
fn token_record(account: &ConnectorAccount, token: Secret, ttl: Option<Duration>) -> LoginRecord {
    let issuer = account.api_url.clone();
    let server =
        AccountSites::of(account).map_or_else(|| issuer.clone(), |it| it.api().to_string());
    let at = unix_now();
    LoginRecord {
        key: LoginKey { server, issuer: issuer.clone(), client: CLIENT_ID.to_owned() },
        version: 0,
        status: LoginStatus::Good,
        tokens: StoredTokens {
            access_token: token,
            token_type: TokenType::Bearer,
            refresh_token: None,
            id_token: None,
            issued_at: at,
            expires_at: ttl.map(|it| at.saturating_add(it.as_secs())),
        },
        client: OAuthClient {
            id: CLIENT_ID.to_owned(),
            secret: None,
            method: ClientAuthMethod::None,
            issuer: issuer.clone(),
            redirect: None,
            provenance: ClientProvenance::Configured,
        },
        metadata: AuthServerMetadata {
            token_endpoint: issuer.clone(),
            issuer,
            authorization_endpoint: None,
            registration_endpoint: None,
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            scopes_supported: None,
            token_endpoint_auth_methods_supported: None,
            client_id_metadata_document_supported: false,
            authorization_response_iss_parameter_supported: false,
            dpop_signing_alg_values_supported: None,
            code_challenge_methods_supported: None,
            grant_types_supported: None,
        },
        resource: None,
        scopes: None,
        dpop_key: None,
        account: None,
        signed_in_at: at,
    }
}
