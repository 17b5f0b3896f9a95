//! The inputs of a login: the server, the client, the scopes, and the grant.

use url::Url;

use crate::challenge::AuthChallenge;
use crate::crypto::dpop::DpopKey;
use crate::fetch::origin_guard::OriginGuard;
use crate::registration::{ClientConfig, ConfiguredClient, OAuthClient};
use crate::scopes::Scopes;
use crate::secret::Secret;

/// The input of a login.
#[derive(Debug)]
pub struct LoginPlan {
    /// The URL of the server.
    pub server: Url,
    /// The challenge of the server.
    pub challenge: AuthChallenge,
    /// Other URLs that the user configured. Their origins are trusted.
    pub trusted_urls: Vec<Url>,
    /// The hosts of our proxies.
    pub proxies: Vec<String>,
    /// The URL of the authorization server's metadata, if configured.
    pub metadata_url: Option<Url>,
    /// The client settings.
    pub client_config: ClientConfig,
    /// The client of the previous login.
    pub previous_client: Option<OAuthClient>,
    /// The configured scopes.
    pub scopes: Option<Scopes>,
    /// The scopes that were granted before, in a step-up login.
    pub granted_scopes: Option<Scopes>,
    /// The grant to use.
    pub method: LoginGrant,
    /// A key to bind tokens to, if the server requires or supports DPoP.
    pub dpop_key: Option<DpopKey>,
    /// The display name of our client.
    pub client_name: String,
}

impl LoginPlan {
    /// A plan with defaults for all optional fields.
    pub fn new(server: Url, method: LoginGrant, name: &str) -> LoginPlan {
        LoginPlan {
            server,
            challenge: AuthChallenge::default(),
            trusted_urls: Vec::new(),
            proxies: Vec::new(),
            metadata_url: None,
            client_config: ClientConfig::default(),
            previous_client: None,
            scopes: None,
            granted_scopes: None,
            method,
            dpop_key: None,
            client_name: name.to_owned(),
        }
    }
}

/// How a login gets its tokens.
#[derive(Debug, Clone)]
pub enum LoginGrant {
    /// The user logs in with a browser.
    Browser {
        /// The redirect URI.
        redirect_uri: Url,
    },
    /// The user logs in on another device.
    Device,
    /// The client authenticates as itself.
    ClientCredentials,
    /// A platform token identifies the workload.
    WorkloadIdentity(Secret),
    /// An identity provider vouches for a user who logged in there.
    IdentityProvider(IdentityProviderLogin),
}

/// A login through an identity provider.
#[derive(Debug, Clone)]
pub struct IdentityProviderLogin {
    /// The issuer of the identity provider. The user or an administrator configured it.
    pub issuer: Url,
    /// Its token endpoint, if known.
    pub token_endpoint: Option<Url>,
    /// Our client at the identity provider.
    pub client: ConfiguredClient,
    /// The ID token of the user.
    pub id_token: Secret,
}

pub(super) fn origin_guard_for(plan: &LoginPlan) -> OriginGuard {
    let mut typed = plan.trusted_urls.clone();
    typed.extend(plan.metadata_url.clone());
    if let LoginGrant::IdentityProvider(provider) = &plan.method {
        typed.push(provider.issuer.clone());
        typed.extend(provider.token_endpoint.clone());
    }
    OriginGuard::new(&plan.server, &typed).with_proxies(&plan.proxies)
}
