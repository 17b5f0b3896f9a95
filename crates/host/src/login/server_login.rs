//! Signing in to servers at URLs: from an entry's `oauth` to a keeper that shows tokens, and from a server's no to a
//! login. What a login is, and where tokens are kept, is `auth`'s part; nothing here sees one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use switchboard_auth::browser::browser_flow::{BrowserFlow, LoginPrompt};
use switchboard_auth::browser::loopback_listener::{
    CallbackPort, ListenError, LoopbackHost, ResultPage,
};
use switchboard_auth::challenge::AuthChallenge;
use switchboard_auth::crypto::dpop::DpopKey;
use switchboard_auth::crypto::signing_key::SigningKey;
use switchboard_auth::fetch::{Fetch, HttpFetcher};
use switchboard_auth::flow::{IdentityProviderLogin, LoginGrant, LoginPlan};
use switchboard_auth::registration::{ClientConfig, ClientCredential, ConfiguredClient};
use switchboard_auth::scopes::Scopes;
use switchboard_auth::secret::Secret;
use switchboard_auth::token_provider::refresher::{RefreshReason, Refresher, TrustSettings};
use switchboard_auth::token_provider::revocation;
use switchboard_auth::token_provider::revocation::RevokeError;
use switchboard_auth::token_provider::{LoginError, RequiredAction, TokenFailure, TokenProvider};
use switchboard_auth::token_store::file_store::{
    FileTokenStore, StorageBackend, StoragePreference as Keeping,
};
use switchboard_auth::token_store::keychain::SystemKeychain;
use switchboard_auth::token_store::{
    LoginRecord, LoginStatus, TokenStore, TokenStoreError, WriteOutcome,
};
use switchboard_config::entry::server::{OAuthGrant, RemoteConfig, ServerSpec, TransportConfig};
use switchboard_config::scope::Scope;
use switchboard_config::settings::connector_account::ConnectorAccount;
use switchboard_config::settings::identity_provider::IdentityProvider;
use switchboard_config::template::{ExpandedText, Template};
use thiserror::Error;
use tokio::sync::OnceCell;
use url::Url;

use crate::connection::resolve::HostEnv;
use crate::connection::{ConnectionHandle, DesiredServer};
use crate::failure::{ConnectionFailure, Evidence, FailureKind};
use crate::host::{ConnectionContext, Host};
use crate::sources::secrets;

/// The name by which people will know us.
const CLIENT_NAME: &str = "Switchboard";
/// The name under which the keychain keeps our key.
const KEYCHAIN_SERVICE: &str = "switchboard";

/// What a caller decides about signing in.
#[derive(Clone, Default)]
pub struct LoginOptions {
    /// Where tokens are kept.
    pub token_storage: Keeping,
    /// Who is taken along when a server wants a login while it is connected to. Without anybody, it waits for one.
    pub guide: Option<Arc<dyn LoginPrompt>>,
    /// The address of a document that describes us, where there is one.
    pub client_metadata_url: Option<Url>,
    /// Who vouches for people.
    pub identity_provider: Option<IdentityProvider>,
    /// The account whose connectors are used.
    pub account: Option<ConnectorAccount>,
}

impl fmt::Debug for LoginOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningOptions")
            .field("keeping", &self.token_storage)
            .finish_non_exhaustive()
    }
}

/// What every login shares.
pub(crate) struct LoginServices {
    token_store: Arc<dyn TokenStore>,
    storage_place: StorageBackend,
    fetch: Arc<dyn Fetch>,
    proxies: Vec<String>,
}

/// One server's keeper, made when it is first needed: secrets are fetched then.
#[derive(Clone, Default)]
pub(crate) struct LoginSlot(Arc<OnceCell<Option<Arc<ServerLogin>>>>);

impl fmt::Debug for LoginSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signatory")
    }
}

/// Signs in at one server.
pub(crate) struct ServerLogin {
    pub(crate) token_provider: Arc<TokenProvider>,
    profile: Arc<OAuthProfile>,
    services: Arc<LoginServices>,
}

/// All of an entry that signing in depends on.
struct OAuthProfile {
    name: String,
    server: Url,
    client_id: Option<String>,
    credential: ClientCredential,
    metadata_url: Option<Url>,
    scopes: Option<Scopes>,
    grant: OAuthGrant,
    callback_port: Option<u16>,
    workload_token: Option<Secret>,
    identity_provider: Option<IdentityProviderProfile>,
    client_metadata_url: Option<Url>,
    proxies: Vec<String>,
}

/// An identity provider that somebody signed in at, as far as it is known.
struct IdentityProviderProfile {
    issuer: Url,
    token_endpoint: Option<Url>,
    client: ConfiguredClient,
    identity_token: Option<Secret>,
}

/// Why nobody is signed in.
#[derive(Debug, Error)]
pub enum ServerLoginError {
    /// There is no such server.
    #[error("there is no server `{0}`")]
    UnknownServer(String),
    /// It is none that one signs in to.
    #[error("`{0}` is not a server that one signs in to: {1}")]
    Unsupported(String, &'static str),
    /// What it depends on cannot be had.
    #[error("{0}")]
    Unavailable(Arc<ConnectionFailure>),
    /// No browser can come back.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// It did not work.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The login could not be read or removed.
    #[error(transparent)]
    TokenStore(#[from] TokenStoreError),
}

/// How somebody wants to sign in.
#[derive(Debug, Clone, Default)]
pub struct LoginRequest {
    /// The port that a browser comes back to, where it is not any.
    pub port: Option<u16>,
    /// Scopes instead of those that the entry or the server names.
    pub scopes: Vec<String>,
    /// With a code on another device instead of a browser here.
    pub use_device_code: bool,
}

/// A login, for people to read. No token is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginView {
    /// The server's URL.
    pub server: String,
    /// The client that was configured for it, where one was.
    pub client: Option<String>,
    /// Who signed us in.
    pub issuer: String,
    /// Who signed in, where that is known.
    pub identity: Option<String>,
    /// What we may do.
    pub scopes: Vec<String>,
    /// When the token ends, in seconds since 1970.
    pub expires_at: Option<u64>,
    /// Is it renewed by itself?
    pub is_renewable: bool,
    /// Can it still be used, as far as we know?
    pub is_valid: bool,
}

/// What became of a login that somebody wanted to be rid of.
#[derive(Debug)]
pub enum LogoutOutcome {
    /// There was none.
    NotLoggedIn,
    /// It was given back and forgotten.
    Revoked,
    /// It was forgotten; the authorization server could not be told.
    RemovedLocally(RevokeError),
}

impl LoginView {
    fn from_record(record: &LoginRecord) -> LoginView {
        LoginView {
            server: record.key.server.clone(),
            client: Some(record.key.client.clone()).filter(|it| !it.is_empty()),
            issuer: record.key.issuer.clone(),
            identity: record.account.clone(),
            scopes: record.scopes.iter().flat_map(|it| it.iter().map(str::to_owned)).collect(),
            expires_at: record.tokens.expires_at,
            is_renewable: record.tokens.refresh_token.is_some(),
            is_valid: record.status == LoginStatus::Good,
        }
    }
}

impl LoginServices {
    pub(crate) async fn open(
        context: &ConnectionContext,
    ) -> Result<LoginServices, ConnectionFailure> {
        let keychain = SystemKeychain::new(KEYCHAIN_SERVICE);
        let opened = FileTokenStore::open(
            &context.logins_folder,
            context.login_options.token_storage,
            Some(&keychain),
        )
        .await;
        let (vault, place) = opened.map_err(|error| {
            invalid_config(format!("the place where logins are kept cannot be used: {error}"))
        })?;
        let network = context.network(None)?;
        let proxies = network.proxy_hosts().to_vec();
        Ok(LoginServices {
            token_store: Arc::new(vault),
            storage_place: place,
            fetch: Arc::new(HttpFetcher::new(network)),
            proxies,
        })
    }
}

impl LoginServices {
    pub(crate) fn token_store(&self) -> &Arc<dyn TokenStore> {
        &self.token_store
    }

    pub(crate) fn fetch(&self) -> &Arc<dyn Fetch> {
        &self.fetch
    }

    pub(crate) fn proxies(&self) -> &[String] {
        &self.proxies
    }
}

fn invalid_config(detail: String) -> ConnectionFailure {
    ConnectionFailure::new(FailureKind::InvalidConfig).with_evidence(Evidence::Detail(detail))
}

/// The part of an entry that one could sign in with. Whoever writes an `Authorization` needs no login.
fn login_remote(spec: &ServerSpec) -> Result<&RemoteConfig<ExpandedText>, &'static str> {
    let remote = match &spec.transport {
        TransportConfig::Http(remote)
        | TransportConfig::Sse(remote)
        | TransportConfig::Ws(remote) => remote,
        TransportConfig::ConnectorProxy(_) => return Err("it belongs to your connector account"),
        TransportConfig::Stdio(_) => return Err("it is a program on this machine"),
        TransportConfig::SseIde(_) | TransportConfig::WsIde(_) => {
            return Err("it is inside an IDE");
        }
        TransportConfig::Sdk { .. } => return Err("it is inside this program"),
    };
    let is_authorization =
        |(name, _): &(String, ExpandedText)| name.eq_ignore_ascii_case("authorization");
    match remote.headers.iter().any(is_authorization) || remote.headers_helper.is_some() {
        true => Err("its entry says what to show it"),
        false => Ok(remote),
    }
}

/// What mends it when a server wants a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginMethod {
    /// Somebody signs in to it.
    OAuth,
    /// It belongs to a connector account, whose token is the person's affair.
    ConnectorAccount,
}

impl LoginMethod {
    /// That of a server; none where its entry says what to show it, or where no person signs in.
    pub(crate) fn for_server(desired: &DesiredServer) -> Option<LoginMethod> {
        if desired.scope == Scope::Connectors {
            return Some(LoginMethod::ConnectorAccount);
        }
        match &desired.spec.transport {
            TransportConfig::ConnectorProxy(_) => Some(LoginMethod::ConnectorAccount),
            TransportConfig::Http(_)
            | TransportConfig::Sse(_)
            | TransportConfig::Ws(_)
            | TransportConfig::Stdio(_)
            | TransportConfig::SseIde(_)
            | TransportConfig::WsIde(_)
            | TransportConfig::Sdk { .. } => {
                let oauth = login_remote(&desired.spec).ok()?.oauth.as_ref();
                let is_interactive =
                    oauth.is_none_or(|it| it.grant == OAuthGrant::AuthorizationCode);
                is_interactive.then_some(LoginMethod::OAuth)
            }
        }
    }
}

impl LoginSlot {
    /// The server's signer; none where one does not sign in there.
    pub(crate) async fn login(
        &self,
        desired: &DesiredServer,
        context: &Arc<ConnectionContext>,
    ) -> Result<Option<Arc<ServerLogin>>, ConnectionFailure> {
        let made = self.0.get_or_try_init(|| ServerLogin::new(desired, context)).await;
        made.cloned()
    }

    /// Waits until what was issued is written down.
    pub(crate) async fn flush(&self) {
        if let Some(Some(login)) = self.0.get() {
            login.token_provider.close().await;
        }
    }

    /// Signs in where the server says what it wants and somebody is there for it.
    pub(crate) async fn sign_in_if_required(
        &self,
        desired: &DesiredServer,
        context: &Arc<ConnectionContext>,
    ) -> bool {
        let Some(guide) = context.login_options.guide.as_deref() else { return false };
        let Ok(Some(login)) = self.login(desired, context).await else { return false };
        login.token_provider.required_action().is_some()
            && login.sign_in(guide, &LoginRequest::default()).await.is_ok()
    }
}

impl ServerLogin {
    async fn new(
        desired: &DesiredServer,
        context: &Arc<ConnectionContext>,
    ) -> Result<Option<Arc<ServerLogin>>, ConnectionFailure> {
        if login_remote(&desired.spec).is_err() {
            return Ok(None);
        }
        let services = context.login_services().await?;
        let profile = Arc::new(OAuthProfile::load(&desired.spec, context).await?);
        let refresher =
            Refresher::new(services.token_store.clone(), services.fetch.clone(), profile.trust());
        let mut token_provider =
            TokenProvider::new(refresher, profile.client_id.as_deref().unwrap_or_default());
        if profile.supports_unattended() {
            let (spec, context) = (desired.spec.clone(), context.clone());
            token_provider = token_provider.with_non_interactive_login(move |challenge, record| {
                Box::pin(unattended_plan(spec.clone(), context.clone(), challenge, record))
            });
        }
        Ok(Some(Arc::new(ServerLogin {
            token_provider: Arc::new(token_provider),
            profile,
            services,
        })))
    }

    /// Is a login kept that may be good? Then what was said of a wall a while ago says nothing.
    pub(crate) async fn has_login(&self) -> bool {
        let is_good = self.stored_record().await.is_some_and(|it| it.status == LoginStatus::Good);
        is_good || self.profile.supports_unattended()
    }

    /// What stands in the way besides the person, in words.
    pub(crate) fn last_error(&self) -> Option<String> {
        let trouble = self.token_provider.last_failure()?;
        Some(match &*trouble {
            TokenFailure::Store(error) => error_chain(error),
            TokenFailure::Refresh(error) => error_chain(error),
            TokenFailure::SignIn(error) => error_chain(error),
        })
    }

    /// Is there a login that only an outage kept from being renewed?
    pub(crate) fn may_refresh_later(&self) -> bool {
        let needs_no_login = self.token_provider.required_action().is_none();
        needs_no_login
            && self
                .token_provider
                .last_failure()
                .is_some_and(|it| matches!(&*it, TokenFailure::Refresh(_)))
    }

    /// Signs in with somebody's help.
    pub(crate) async fn sign_in(
        &self,
        guide: &dyn LoginPrompt,
        request: &LoginRequest,
    ) -> Result<LoginRecord, ServerLoginError> {
        let (challenge, held) = match self.token_provider.required_action() {
            Some(RequiredAction::SignIn { challenge }) => (challenge, None),
            Some(RequiredAction::GrantMoreScopes { challenge, granted: held }) => (challenge, held),
            None => (AuthChallenge::default(), None),
        };
        let port = match request.port.or(self.profile.callback_port) {
            Some(port) => CallbackPort::Fixed(port),
            None => CallbackPort::Any,
        };
        let named = if request.port.or(self.profile.callback_port).is_some() {
            LoopbackHost::Localhost
        } else {
            LoopbackHost::Ipv4
        };
        let escort = BrowserFlow::bind(port, named, guide).await?;
        let grant = match request.use_device_code {
            true => LoginGrant::Device,
            false => LoginGrant::Browser { redirect_uri: escort.redirect_uri().clone() },
        };
        let known = self.stored_record().await;
        let mut plan = self.profile.plan(challenge, known.as_ref(), held, grant);
        if !request.scopes.is_empty() {
            plan.scopes = Some(Scopes::new(&request.scopes));
        }
        let outcome = self.token_provider.sign_in(plan, &escort).await;
        let page = match &outcome {
            Ok(_) => ResultPage::SignedIn { server: self.profile.name.clone() },
            Err(error) => ResultPage::Failed { why: error_chain(error) },
        };
        let obstacle = escort.take_listen_error();
        escort.finish(page).await;
        match obstacle {
            Some(error) => Err(error.into()),
            None => Ok(outcome?),
        }
    }

    async fn stored_record(&self) -> Option<LoginRecord> {
        let (server, client) = (self.profile.server.as_str(), &self.profile.client_id);
        self.services
            .token_store
            .find(server, client.as_deref().unwrap_or_default())
            .await
            .ok()
            .flatten()
    }

    /// Gives a login back and forgets it.
    async fn sign_out(&self) -> Result<LogoutOutcome, ServerLoginError> {
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
        Ok(match revoked {
            Ok(()) => LogoutOutcome::Revoked,
            Err(error) => LogoutOutcome::RemovedLocally(error),
        })
    }
}

/// An error with everything behind it, in one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The plan of a login that needs nobody, with what vouches for us at this moment: a platform's token may have been
/// replaced, and somebody may have signed in at the identity provider.
async fn unattended_plan(
    spec: ServerSpec,
    context: Arc<ConnectionContext>,
    challenge: AuthChallenge,
    record: Option<Arc<LoginRecord>>,
) -> Option<LoginPlan> {
    let profile = match OAuthProfile::load(&spec, &context).await {
        Ok(profile) => profile,
        Err(cause) => {
            context.stderr_log.note(spec.name.as_str(), &cause.to_string());
            return None;
        }
    };
    let grant = profile.unattended_grant()?;
    Some(profile.plan(challenge, record.as_deref(), None, grant))
}

/// The identity that a provider gave to somebody who signed in there, renewed where it has ended.
async fn identity_token(
    provider_profile: &IdentityProviderProfile,
    services: &LoginServices,
) -> Option<Secret> {
    let found = services
        .token_store
        .find(provider_profile.issuer.as_str(), &provider_profile.client.id)
        .await
        .ok()??;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    if !found.tokens.is_expired(now.map_or(0, |it| it.as_secs())) {
        return found.tokens.id_token;
    }
    let trust = TrustSettings {
        server: provider_profile.issuer.clone(),
        trusted_urls: vec![provider_profile.issuer.clone()],
        proxies: services.proxies.clone(),
        signing_key: provider_profile.client.credential.signing_key().cloned(),
    };
    let refresher = Refresher::new(services.token_store.clone(), services.fetch.clone(), trust);
    let renewed = refresher.refresh(&found, RefreshReason::Expiring).await;
    refresher.close().await;
    renewed.ok()?.tokens.id_token
}

impl OAuthProfile {
    /// What an entry comes to at this moment.
    async fn load(
        spec: &ServerSpec,
        context: &Arc<ConnectionContext>,
    ) -> Result<OAuthProfile, ConnectionFailure> {
        let services = context.login_services().await?;
        let (spec, shared) = (spec.clone(), context.clone());
        let revealing =
            tokio::task::spawn_blocking(move || OAuthProfile::read(&spec, &shared)).await;
        let mut profile = revealing
            .unwrap_or_else(|_| Err(ConnectionFailure::new(FailureKind::InvalidConfig)))?;
        profile.proxies.clone_from(&services.proxies);
        if let Some(provider_profile) =
            profile.identity_provider.as_mut().filter(|it| it.identity_token.is_none())
        {
            provider_profile.identity_token = identity_token(provider_profile, &services).await;
        }
        Ok(profile)
    }

    /// Reads an entry. Fetches the secrets that it names, and blocks meanwhile.
    fn read(
        spec: &ServerSpec,
        context: &ConnectionContext,
    ) -> Result<OAuthProfile, ConnectionFailure> {
        let env = &context.env;
        let remote = login_remote(spec).map_err(|why| invalid_config(why.to_owned()))?;
        let oauth = remote.oauth.as_ref();
        let text = |it: Option<&ExpandedText>| it.map(|it| reveal_text(it, env)).transpose();
        let url = |what: &str, text: &str| {
            Url::parse(text).map_err(|error| invalid_config(format!("`{what}` is no URL: {error}")))
        };
        let secret = text(oauth.and_then(|it| it.client_secret.as_ref()))?;
        let key = text(oauth.and_then(|it| it.private_key.as_ref()))?;
        let key = key.map(|pem| SigningKey::from_pem(&pem)).transpose();
        let key = key.map_err(|error| invalid_config(format!("`oauth.privateKey`: {error}")))?;
        let metadata = text(oauth.and_then(|it| it.auth_server_metadata_url.as_ref()))?;
        let workload = text(oauth.and_then(|it| it.workload_token.as_ref()))?;
        if workload.is_none() && oauth.is_some_and(|it| it.grant == OAuthGrant::JwtBearer) {
            let detail = "`oauth.grant` is `jwt_bearer`, and there is no `oauth.workloadToken`";
            return Err(invalid_config(detail.to_owned()));
        }
        let provider_profile = match oauth.is_some_and(|it| it.xaa) {
            false => None,
            true => Some(IdentityProviderProfile::from_settings(context)?),
        };
        Ok(OAuthProfile {
            name: spec.name.as_str().to_owned(),
            server: url("url", &reveal_text(&remote.url, env)?)?,
            client_id: text(oauth.and_then(|it| it.client_id.as_ref()))?,
            credential: match (key, secret) {
                (Some(key), _) => ClientCredential::PrivateKey(key),
                (None, Some(secret)) => ClientCredential::Secret(Secret::new(secret)),
                (None, None) => ClientCredential::None,
            },
            metadata_url: metadata.map(|it| url("oauth.authServerMetadataUrl", &it)).transpose()?,
            scopes: oauth.map(|it| Scopes::new(&it.scopes)).filter(|it| !it.is_empty()),
            grant: oauth.map(|it| it.grant).unwrap_or_default(),
            callback_port: oauth.and_then(|it| it.callback_port),
            workload_token: workload.map(Secret::new),
            identity_provider: provider_profile,
            client_metadata_url: context.login_options.client_metadata_url.clone(),
            proxies: Vec::new(),
        })
    }

    fn trust(&self) -> TrustSettings {
        let mut typed: Vec<Url> = self.metadata_url.iter().cloned().collect();
        typed.extend(self.identity_provider.iter().map(|it| it.issuer.clone()));
        typed.extend(self.identity_provider.iter().filter_map(|it| it.token_endpoint.clone()));
        TrustSettings {
            server: self.server.clone(),
            trusted_urls: typed,
            proxies: self.proxies.clone(),
            signing_key: self.credential.signing_key().cloned(),
        }
    }

    /// Is there a way to sign in that may need nobody?
    fn supports_unattended(&self) -> bool {
        self.grant != OAuthGrant::AuthorizationCode || self.identity_provider.is_some()
    }

    /// How to sign in.
    fn plan(
        &self,
        challenge: AuthChallenge,
        record: Option<&LoginRecord>,
        held: Option<Scopes>,
        grant: LoginGrant,
    ) -> LoginPlan {
        let TrustSettings { server, trusted_urls: typed, proxies, .. } = self.trust();
        let configured = self.client_id.as_ref().map(|id| ConfiguredClient {
            id: id.clone(),
            credential: self.credential.clone(),
            // Nobody but who knew this client the last time is shown its secret.
            issuer: record.map(|it| it.key.issuer.clone()),
        });
        LoginPlan {
            challenge,
            trusted_urls: typed,
            proxies,
            metadata_url: self.metadata_url.clone(),
            client_config: ClientConfig {
                configured,
                metadata_document: self.client_metadata_url.clone(),
            },
            previous_client: record.and_then(|it| it.reusable_client().cloned()),
            scopes: self.scopes.clone(),
            granted_scopes: held,
            dpop_key: Some(DpopKey::generate()),
            ..LoginPlan::new(server, grant, CLIENT_NAME)
        }
    }

    fn unattended_grant(&self) -> Option<LoginGrant> {
        if let Some(provider_profile) = &self.identity_provider
            && let Some(identity) = &provider_profile.identity_token
        {
            let IdentityProviderProfile { issuer, token_endpoint, client, .. } = provider_profile;
            return Some(LoginGrant::IdentityProvider(IdentityProviderLogin {
                issuer: issuer.clone(),
                token_endpoint: token_endpoint.clone(),
                client: client.clone(),
                id_token: identity.clone(),
            }));
        }
        match (self.grant, &self.workload_token) {
            (OAuthGrant::ClientCredentials, _) => Some(LoginGrant::ClientCredentials),
            (OAuthGrant::JwtBearer, Some(token)) => {
                Some(LoginGrant::WorkloadIdentity(token.clone()))
            }
            (OAuthGrant::JwtBearer, None) | (OAuthGrant::AuthorizationCode, _) => None,
        }
    }
}

impl IdentityProviderProfile {
    fn from_settings(
        context: &ConnectionContext,
    ) -> Result<IdentityProviderProfile, ConnectionFailure> {
        let missing =
            || invalid_config("`oauth.xaa` needs `identityProvider` in your settings".to_owned());
        let provider = context.login_options.identity_provider.as_ref().ok_or_else(missing)?;
        let env = &context.env;
        let text = |template: &Template| {
            let mut unset = BTreeSet::new();
            let text = template.expand(&env.variables.clone().into_iter().collect(), &mut unset);
            match unset.first() {
                None => reveal_text(&text, env),
                Some(name) => Err(invalid_config(format!(
                    "`identityProvider` names {name}, which is not set"
                ))),
            }
        };
        let secret = provider.client_secret.as_ref().map(&text).transpose()?;
        Ok(IdentityProviderProfile {
            issuer: Url::parse(&provider.issuer).map_err(|_| missing())?,
            client: ConfiguredClient {
                id: text(&provider.client_id)?,
                credential: match secret {
                    Some(secret) => ClientCredential::Secret(Secret::new(secret)),
                    None => ClientCredential::None,
                },
                issuer: Some(provider.issuer.clone()),
            },
            token_endpoint: provider.token_endpoint.as_deref().and_then(|it| Url::parse(it).ok()),
            identity_token: provider
                .identity_token
                .as_ref()
                .map(&text)
                .transpose()?
                .map(Secret::new),
        })
    }
}

fn reveal_text(text: &ExpandedText, env: &HostEnv) -> Result<String, ConnectionFailure> {
    let revealed = secrets::reveal_text(text, &env.home).map_err(|error| {
        let detail = format!("{error}: {}", error.kind);
        ConnectionFailure::new(FailureKind::SecretUnavailable)
            .with_evidence(Evidence::Detail(detail))
    })?;
    Ok(revealed.reveal().to_owned())
}

impl Host {
    async fn server_login(&self, server: &str) -> Result<Arc<ServerLogin>, ServerLoginError> {
        let missing = || ServerLoginError::UnknownServer(server.to_owned());
        let handle = self.connection(server).ok_or_else(missing)?;
        let desired = handle.desired();
        if let Err(why) = login_remote(&desired.spec) {
            return Err(ServerLoginError::Unsupported(server.to_owned(), why));
        }
        let login = handle.login_slot().login(desired, self.shared_context()).await;
        let login = login.map_err(|cause| ServerLoginError::Unavailable(Arc::new(cause)))?;
        login.ok_or_else(missing)
    }

    /// Signs in for a call that was turned away, where the server says what it wants and somebody is there for it.
    pub(crate) async fn sign_in_for(&self, handle: &ConnectionHandle) -> bool {
        handle.login_slot().sign_in_if_required(handle.desired(), self.shared_context()).await
    }

    /// Signs somebody in to a server, and has it connected to anew.
    pub async fn login(
        &self,
        server: &str,
        guide: &dyn LoginPrompt,
        request: &LoginRequest,
    ) -> Result<LoginView, ServerLoginError> {
        let login = self.server_login(server).await?;
        let record = login.sign_in(guide, request).await?;
        self.reconnect(server).await;
        Ok(LoginView::from_record(&record))
    }

    /// Gives a server's login back and forgets it. The connection is made anew, and will want a login.
    pub async fn logout(&self, server: &str) -> Result<LogoutOutcome, ServerLoginError> {
        let outcome = self.server_login(server).await?.sign_out().await?;
        self.reconnect(server).await;
        Ok(outcome)
    }

    /// The login at a server, where there is one.
    pub async fn stored_login(&self, server: &str) -> Result<Option<LoginView>, ServerLoginError> {
        Ok(self
            .server_login(server)
            .await?
            .stored_record()
            .await
            .as_ref()
            .map(LoginView::from_record))
    }

    /// The scopes that a server turned us away for the last time, and those that we have; `None` where it did not.
    pub async fn required_scopes(&self, server: &str) -> Option<Vec<String>> {
        match self.server_login(server).await.ok()?.token_provider.required_action()? {
            RequiredAction::SignIn { .. } => None,
            RequiredAction::GrantMoreScopes { challenge, granted: held } => {
                let all = held.unwrap_or_default().union(&challenge.scopes.unwrap_or_default());
                Some(all.iter().map(str::to_owned).collect())
            }
        }
    }

    /// Every login that is kept, and how they are kept.
    pub async fn logins(&self) -> Result<(Vec<LoginView>, String), ServerLoginError> {
        let services = self.shared_context().login_services().await;
        let services = services.map_err(|cause| ServerLoginError::Unavailable(Arc::new(cause)))?;
        let place = match &services.storage_place {
            StorageBackend::Keychain => "sealed; the key is in the system's keychain".to_owned(),
            StorageBackend::File { keychain_error: None } => {
                "in files that only you can read".to_owned()
            }
            StorageBackend::File { keychain_error: Some(error) } => {
                format!("in files that only you can read ({error})")
            }
        };
        let all = services.token_store.all().await?;
        Ok((all.iter().map(LoginView::from_record).collect(), place))
    }

    /// Gives the login of a server back and forgets it, without connecting to the server.
    pub async fn forget_login(
        &self,
        desired: &DesiredServer,
    ) -> Result<LogoutOutcome, ServerLoginError> {
        let name = desired.name().to_owned();
        if let Err(why) = login_remote(&desired.spec) {
            return Err(ServerLoginError::Unsupported(name, why));
        }
        let login = ServerLogin::new(desired, self.shared_context()).await;
        let login = login.map_err(|cause| ServerLoginError::Unavailable(Arc::new(cause)))?;
        login.ok_or(ServerLoginError::UnknownServer(name))?.sign_out().await
    }

    /// Signs somebody in at the identity provider, which then vouches at every server with `oauth.xaa`.
    pub async fn login_to_identity_provider(
        &self,
        guide: &dyn LoginPrompt,
        request: &LoginRequest,
    ) -> Result<LoginView, ServerLoginError> {
        let record = self.identity_provider_session().await?.sign_in(guide, request).await?;
        Ok(LoginView::from_record(&record))
    }

    /// The login at the identity provider, where there is one.
    pub async fn identity_provider_login(&self) -> Result<Option<LoginView>, ServerLoginError> {
        Ok(self
            .identity_provider_session()
            .await?
            .stored_record()
            .await
            .as_ref()
            .map(LoginView::from_record))
    }

    /// Gives the login at the identity provider back and forgets it.
    pub async fn logout_from_identity_provider(&self) -> Result<LogoutOutcome, ServerLoginError> {
        self.identity_provider_session().await?.sign_out().await
    }

    async fn identity_provider_session(&self) -> Result<ServerLogin, ServerLoginError> {
        let context = self.shared_context();
        let unusable = |cause| ServerLoginError::Unavailable(Arc::new(cause));
        let services = context.login_services().await.map_err(unusable)?;
        let shared = context.clone();
        let provider_profile =
            tokio::task::spawn_blocking(move || IdentityProviderProfile::from_settings(&shared))
                .await;
        let provider_profile = provider_profile
            .unwrap_or_else(|_| Err(ConnectionFailure::new(FailureKind::InvalidConfig)));
        let IdentityProviderProfile { issuer, client, .. } = provider_profile.map_err(unusable)?;
        let port = context.login_options.identity_provider.as_ref().and_then(|it| it.callback_port);
        let profile = Arc::new(OAuthProfile {
            name: issuer.host_str().unwrap_or_default().to_owned(),
            server: issuer.clone(),
            client_id: Some(client.id.clone()),
            credential: client.credential.clone(),
            metadata_url: None,
            scopes: Some(Scopes::new(["openid", "profile", "email", "offline_access"])),
            grant: OAuthGrant::AuthorizationCode,
            callback_port: port,
            workload_token: None,
            identity_provider: None,
            client_metadata_url: None,
            proxies: services.proxies.clone(),
        });
        let trust = TrustSettings { trusted_urls: vec![issuer], ..profile.trust() };
        let refresher = Refresher::new(services.token_store.clone(), services.fetch.clone(), trust);
        let token_provider = Arc::new(TokenProvider::new(refresher, &client.id));
        Ok(ServerLogin { token_provider, profile, services })
    }
}
