//! The token of the connector account, sent to the origin of the account's API and nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, header};
use switchboard_auth::discovery::auth_server_metadata::AuthServerMetadata;
use switchboard_auth::registration::{ClientAuthMethod, ClientProvenance, OAuthClient};
use switchboard_auth::secret::Secret;
use switchboard_auth::token::response::TokenType;
use switchboard_auth::token_provider::TokenProvider;
use switchboard_auth::token_provider::refresher::{Refresher, TrustSettings};
use switchboard_auth::token_store;
use switchboard_auth::token_store::{LoginKey, LoginRecord, LoginStatus, StoredTokens};
use switchboard_config::settings::connector_account::ConnectorAccount;
use switchboard_config::template::Template;
use switchboard_wire::http::client::{Authorize, OutboundRequest};
use url::Url;

use crate::failure::{ConnectionFailure, error_chain};
use crate::login::context::LoginContext;
use crate::login::dynamic_headers::{DynamicHeaders, HeaderSource, HeadersFuture, OriginBound};
use crate::login::server_login::ServerLoginError;
use crate::sources::connector_cache::unix_now;
use crate::sources::host_env::HostEnv;
use crate::sources::secrets;

/// The client id under which the account's token is stored. No entry of a server can name it.
const CLIENT_ID: &str = "connector account";
/// How long a token of the settings is used before it is read again.
const TOKEN_TTL: Duration = Duration::from_secs(5 * 60);
pub(super) const NO_ACCOUNT: &str =
    "no connector account is set up: `connectorAccount` in your settings names one";
pub(super) const TOKEN_REFUSED: &str = "the token of your connector account is refused";

/// The account's token.
pub(crate) struct AccountToken {
    url: Url,
    authorizer: Arc<OriginBound>,
    stored: Option<Arc<TokenProvider>>,
    configured: Option<Arc<DynamicHeaders>>,
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
        let Ok(url) = Url::parse(&account.api_url) else { return Ok(None) };
        let origin = url.origin();
        if let Some(token) = &account.token {
            let source = ConfiguredToken { token: token.clone(), env: context.env.clone() };
            let configured = Arc::new(DynamicHeaders::new(source, TOKEN_TTL));
            let authorizer = Arc::new(OriginBound { origin, inner: configured.clone() });
            let configured = Some(configured);
            return Ok(Some(Arc::new(AccountToken { url, authorizer, stored: None, configured })));
        }
        let services = context.services().await?;
        let trust = TrustSettings {
            server: url.clone(),
            trusted_urls: Vec::new(),
            proxies: services.proxies.clone(),
            signing_key: None,
        };
        let refresher = Refresher::new(services.token_store.clone(), services.fetch.clone(), trust);
        let stored = Arc::new(TokenProvider::new(refresher, CLIENT_ID));
        let authorizer = Arc::new(OriginBound { origin, inner: stored.clone() });
        let stored = Some(stored);
        Ok(Some(Arc::new(AccountToken { url, authorizer, stored, configured: None })))
    }

    /// The URL of the account's API.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Authorizes the requests to connectors.
    pub(crate) fn authorize(&self) -> Arc<dyn Authorize> {
        self.authorizer.clone()
    }

    /// Why a connector at this URL requires a login.
    pub(crate) async fn refusal_reason(&self, url: &Url) -> String {
        if !self.authorizer.is_for(url) {
            return "it is not at your connector account's own address, so no token is sent to it"
                .into();
        }
        if let Some(error) = self.configured.as_ref().and_then(|it| it.last_error()) {
            return error;
        }
        let outbound = OutboundRequest { method: &Method::GET, url };
        let is_missing = self.stored.as_ref().is_some_and(|it| it.required_action().is_some());
        match is_missing && self.authorizer.headers(outbound).await.is_empty() {
            true => "no token of your connector account is stored".to_owned(),
            false => TOKEN_REFUSED.to_owned(),
        }
    }
}

/// A token that the settings name.
struct ConfiguredToken {
    token: Template,
    env: HostEnv,
}

impl HeaderSource for ConfiguredToken {
    fn produce(&self) -> HeadersFuture<'_> {
        Box::pin(async move {
            let (token, env) = (self.token.clone(), self.env.clone());
            let reading = tokio::task::spawn_blocking(move || bearer_header(&token, &env)).await;
            reading.unwrap_or_else(|_| Err("the token could not be read".to_owned()))
        })
    }
}

/// Blocks while a secret is fetched.
fn bearer_header(token: &Template, env: &HostEnv) -> Result<HeaderMap, String> {
    let mut unset = BTreeSet::new();
    let variables: BTreeMap<String, String> = env.variables.clone();
    let text = token.expand(&variables.into_iter().collect(), &mut unset);
    if let Some(name) = unset.first() {
        return Err(format!("`connectorAccount.token` names {name}, which is not set"));
    }
    let token = secrets::reveal_text(&text, &env.home)
        .map_err(|error| format!("`connectorAccount.token`: {}", error_chain(&error)))?;
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| "`connectorAccount.token` cannot be sent as a header".to_owned())?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
}

/// Stores a token for the account and replaces the one before.
pub(crate) async fn store_token(
    context: &LoginContext,
    token: Secret,
    ttl: Option<Duration>,
) -> Result<(), ServerLoginError> {
    let account = context.options.account.as_ref().ok_or_else(|| {
        ServerLoginError::unavailable(ConnectionFailure::invalid_config(NO_ACCOUNT))
    })?;
    let services = context.services().await.map_err(ServerLoginError::unavailable)?;
    token_store::overwrite(&*services.token_store, token_record(account, token, ttl)).await?;
    Ok(())
}

/// The record under which a token is stored.
fn token_record(account: &ConnectorAccount, token: Secret, ttl: Option<Duration>) -> LoginRecord {
    let issuer = account.api_url.clone();
    let server = Url::parse(&account.api_url).map_or_else(|_| issuer.clone(), String::from);
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
