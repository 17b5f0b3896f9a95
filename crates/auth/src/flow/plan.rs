//! What a login starts from: the server, the client, the scopes, and the grant.

use url::Url;

use crate::challenge::AuthChallenge;
use crate::crypto::dpop::DpopKey;
use crate::fetch::origin_guard::OriginGuard;
use crate::registration::{ClientConfig, ConfiguredClient, OAuthClient};
use crate::scopes::Scopes;
use crate::secret::Secret;

/// What is to be reached, and with what.
#[derive(Debug)]
pub struct LoginPlan {
    /// The server.
    pub server: Url,
    /// What it said when it turned us away.
    pub challenge: AuthChallenge,
    /// What else a person typed: these may be anywhere.
    pub trusted_urls: Vec<Url>,
    /// The hosts of our proxies.
    pub proxies: Vec<String>,
    /// Where the authorization server's metadata is, if a person said so.
    pub metadata_url: Option<Url>,
    /// Who we are.
    pub client_config: ClientConfig,
    /// Who we were the last time.
    pub previous_client: Option<OAuthClient>,
    /// The scopes that a person configured.
    pub scopes: Option<Scopes>,
    /// The scopes that were granted before, where more are needed.
    pub granted_scopes: Option<Scopes>,
    /// In which way.
    pub method: LoginGrant,
    /// A key that tokens can be bound to, where that is wanted.
    pub dpop_key: Option<DpopKey>,
    /// The name by which people will know us.
    pub client_name: String,
}

impl LoginPlan {
    /// A plan with nothing but what every plan has.
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

/// In which way tokens are had.
#[derive(Debug, Clone)]
pub enum LoginGrant {
    /// A person signs in with a browser and comes back to `redirect`.
    Browser {
        /// Where to.
        redirect_uri: Url,
    },
    /// A person signs in on another device.
    Device,
    /// The client is known by itself.
    ClientCredentials,
    /// A platform vouches for us with a token (workload identity).
    WorkloadIdentity(Secret),
    /// An identity provider vouches for a person who signed in there.
    IdentityProvider(IdentityProviderLogin),
}

/// An identity provider that vouches.
#[derive(Debug, Clone)]
pub struct IdentityProviderLogin {
    /// Who it is. A person or an administrator typed it.
    pub issuer: Url,
    /// Where its tokens are, if that is known.
    pub token_endpoint: Option<Url>,
    /// Who we are there.
    pub client: ConfiguredClient,
    /// Who signed in there.
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
