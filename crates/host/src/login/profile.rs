//! The OAuth settings of one server, read from its entry with all secrets fetched, and the login plans made from them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use switchboard_auth::challenge::AuthChallenge;
use switchboard_auth::crypto::dpop::DpopKey;
use switchboard_auth::crypto::signing_key::SigningKey;
use switchboard_auth::flow::{IdentityProviderLogin, LoginGrant, LoginPlan};
use switchboard_auth::registration::{ClientConfig, ClientCredential, ConfiguredClient};
use switchboard_auth::scopes::Scopes;
use switchboard_auth::secret::Secret;
use switchboard_auth::token_provider::refresher::{RefreshReason, Refresher, TrustSettings};
use switchboard_auth::token_store::LoginRecord;
use switchboard_config::entry::server::{OAuthGrant, ServerSpec};
use switchboard_config::template::{ExpandedText, Template};
use url::Url;

use crate::failure::{ConnectionFailure, FailureKind};
use crate::login::context::{LoginContext, LoginServices};
use crate::login::method::login_remote;

/// The client name that authorization servers show to users.
pub(super) const CLIENT_NAME: &str = "Switchboard";

/// Everything of an entry that a login depends on.
pub(super) struct OAuthProfile {
    pub(super) name: String,
    pub(super) server: Url,
    pub(super) client_id: Option<String>,
    pub(super) credential: ClientCredential,
    pub(super) metadata_url: Option<Url>,
    pub(super) scopes: Option<Scopes>,
    pub(super) grant: OAuthGrant,
    pub(super) callback_port: Option<u16>,
    pub(super) workload_token: Option<Secret>,
    pub(super) identity_provider: Option<IdentityProviderProfile>,
    pub(super) client_metadata_url: Option<Url>,
    pub(super) proxies: Vec<String>,
    /// The client under which the login is stored, where that is not the configured one.
    pub(super) stored_as: Option<&'static str>,
}

/// The identity provider of the settings, and the identity token of the user where there is one.
pub(super) struct IdentityProviderProfile {
    pub(super) issuer: Url,
    token_endpoint: Option<Url>,
    pub(super) client: ConfiguredClient,
    identity_token: Option<Secret>,
}

impl OAuthProfile {
    /// Reads an entry and fetches the secrets that it names.
    pub(super) async fn load(
        spec: &ServerSpec,
        context: &Arc<LoginContext>,
    ) -> Result<OAuthProfile, ConnectionFailure> {
        let services = context.services().await?;
        let (spec, shared) = (spec.clone(), context.clone());
        let reading = tokio::task::spawn_blocking(move || OAuthProfile::read(&spec, &shared)).await;
        let mut profile =
            reading.unwrap_or_else(|_| Err(ConnectionFailure::new(FailureKind::InvalidConfig)))?;
        profile.proxies.clone_from(&services.proxies);
        if let Some(provider) =
            profile.identity_provider.as_mut().filter(|it| it.identity_token.is_none())
        {
            provider.identity_token = provider.stored_identity_token(&services).await;
        }
        Ok(profile)
    }

    /// Blocks while secrets are fetched.
    fn read(spec: &ServerSpec, context: &LoginContext) -> Result<OAuthProfile, ConnectionFailure> {
        let env = &context.env;
        let invalid = |detail: String| ConnectionFailure::invalid_config(detail);
        let remote = login_remote(spec).map_err(|why| invalid(why.to_owned()))?;
        let oauth = remote.oauth.as_ref();
        let text = |it: Option<&ExpandedText>| it.map(|it| env.reveal(it)).transpose();
        let url = |member: &str, text: &str| {
            Url::parse(text).map_err(|error| invalid(format!("`{member}` is no URL: {error}")))
        };
        let secret = text(oauth.and_then(|it| it.client_secret.as_ref()))?;
        let key = text(oauth.and_then(|it| it.private_key.as_ref()))?;
        let key = key.map(|pem| SigningKey::from_pem(&pem)).transpose();
        let key = key.map_err(|error| invalid(format!("`oauth.privateKey`: {error}")))?;
        let metadata = text(oauth.and_then(|it| it.auth_server_metadata_url.as_ref()))?;
        let document = text(oauth.and_then(|it| it.client_metadata_url.as_ref()))?;
        let document = document.map(|it| url("oauth.clientMetadataUrl", &it)).transpose()?;
        let workload = text(oauth.and_then(|it| it.workload_token.as_ref()))?;
        if workload.is_none() && oauth.is_some_and(|it| it.grant == OAuthGrant::JwtBearer) {
            let detail = "`oauth.grant` is `jwt_bearer`, and there is no `oauth.workloadToken`";
            return Err(invalid(detail.to_owned()));
        }
        let identity_provider = match oauth.is_some_and(|it| it.xaa) {
            false => None,
            true => Some(IdentityProviderProfile::from_settings(context)?),
        };
        Ok(OAuthProfile {
            name: spec.name.as_str().to_owned(),
            server: url("url", &env.reveal(&remote.url)?)?,
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
            identity_provider,
            client_metadata_url: document.or_else(|| context.options.client_metadata_url.clone()),
            proxies: Vec::new(),
            stored_as: None,
        })
    }

    /// The client under which the login is stored.
    pub(super) fn client_key(&self) -> &str {
        self.stored_as.or(self.client_id.as_deref()).unwrap_or_default()
    }

    pub(super) fn trust(&self) -> TrustSettings {
        let mut trusted_urls: Vec<Url> = self.metadata_url.iter().cloned().collect();
        trusted_urls.extend(self.identity_provider.iter().map(|it| it.issuer.clone()));
        trusted_urls
            .extend(self.identity_provider.iter().filter_map(|it| it.token_endpoint.clone()));
        TrustSettings {
            server: self.server.clone(),
            trusted_urls,
            proxies: self.proxies.clone(),
            signing_key: self.credential.signing_key().cloned(),
        }
    }

    /// Whether a login may be possible without the user.
    pub(super) fn supports_unattended(&self) -> bool {
        self.grant != OAuthGrant::AuthorizationCode || self.identity_provider.is_some()
    }

    /// The plan of a login with this grant.
    pub(super) fn plan(
        &self,
        challenge: AuthChallenge,
        record: Option<&LoginRecord>,
        granted_scopes: Option<Scopes>,
        grant: LoginGrant,
    ) -> LoginPlan {
        let TrustSettings { server, trusted_urls, proxies, .. } = self.trust();
        let configured = self.client_id.as_ref().map(|id| ConfiguredClient {
            id: id.clone(),
            credential: self.credential.clone(),
            // The client's secret goes only to the issuer of its last login.
            issuer: record.map(|it| it.key.issuer.clone()),
        });
        // The document describes a public client, which can only log in with a user.
        let metadata_document = match &grant {
            LoginGrant::Browser { .. } | LoginGrant::Device => self.client_metadata_url.clone(),
            LoginGrant::ClientCredentials
            | LoginGrant::WorkloadIdentity(_)
            | LoginGrant::IdentityProvider(_) => None,
        };
        LoginPlan {
            challenge,
            trusted_urls,
            proxies,
            metadata_url: self.metadata_url.clone(),
            client_config: ClientConfig { configured, metadata_document },
            previous_client: record.and_then(|it| it.reusable_client().cloned()),
            scopes: self.scopes.clone(),
            granted_scopes,
            dpop_key: Some(DpopKey::generate()),
            ..LoginPlan::new(server, grant, CLIENT_NAME)
        }
    }

    fn unattended_grant(&self) -> Option<LoginGrant> {
        if let Some(provider) = &self.identity_provider
            && let Some(id_token) = &provider.identity_token
        {
            return Some(LoginGrant::IdentityProvider(IdentityProviderLogin {
                issuer: provider.issuer.clone(),
                token_endpoint: provider.token_endpoint.clone(),
                client: provider.client.clone(),
                id_token: id_token.clone(),
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

/// The plan of a login without the user. Reads the entry again, because the platform may have replaced the workload
/// token, or the user may have signed in at the identity provider meanwhile.
pub(super) async fn unattended_plan(
    spec: ServerSpec,
    context: Arc<LoginContext>,
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

impl IdentityProviderProfile {
    /// Reads the identity provider of the settings. Blocks while secrets are fetched.
    pub(super) fn from_settings(
        context: &LoginContext,
    ) -> Result<IdentityProviderProfile, ConnectionFailure> {
        let missing = || {
            ConnectionFailure::invalid_config(
                "`oauth.xaa` needs `identityProvider` in your settings",
            )
        };
        let provider = context.options.identity_provider.as_ref().ok_or_else(missing)?;
        let env = &context.env;
        let text = |template: &Template| {
            let mut unset = BTreeSet::new();
            let text = template.expand(&env.variables.clone().into_iter().collect(), &mut unset);
            match unset.first() {
                None => env.reveal(&text),
                Some(name) => Err(ConnectionFailure::invalid_config(format!(
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

    /// The identity token of the stored login at the provider, refreshed where it has expired.
    async fn stored_identity_token(&self, services: &LoginServices) -> Option<Secret> {
        let record =
            services.token_store.find(self.issuer.as_str(), &self.client.id).await.ok()??;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        if !record.tokens.is_expired(now.map_or(0, |it| it.as_secs())) {
            return record.tokens.id_token;
        }
        let trust = TrustSettings {
            server: self.issuer.clone(),
            trusted_urls: vec![self.issuer.clone()],
            proxies: services.proxies.clone(),
            signing_key: self.client.credential.signing_key().cloned(),
        };
        let refresher = Refresher::new(services.token_store.clone(), services.fetch.clone(), trust);
        let refreshed = refresher.refresh(&record, RefreshReason::Expiring).await;
        refresher.close().await;
        refreshed.ok()?.tokens.id_token
    }
}
