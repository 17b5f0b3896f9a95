//! State that all requests of one authorization server share: its origins, its signing key and the grant store.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;

use super::config::{AuthorizationConfig, IssuerOrigin};
use super::grant_store::GrantStore;
use super::jwt::SigningKey;
use super::observed_request::Site;

/// The key id in signed tokens.
pub(crate) const KEY_ID: &str = "identity-1";

/// The origins, without a trailing slash.
#[derive(Debug, Clone)]
pub(crate) struct Origins {
    pub resource: String,
    pub issuer: String,
    pub identity: String,
    pub attacker: String,
}

/// State that all requests share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub origins: Origins,
    pub identity_key: SigningKey,
    /// The published client metadata document.
    pub client_document: Mutex<Option<Value>>,
    /// Documents of other sites, by URL.
    pub hosted_documents: Mutex<BTreeMap<String, Value>>,
    store: Mutex<GrantStore>,
}

impl SharedState {
    pub fn new(origins: Origins, config: AuthorizationConfig) -> SharedState {
        SharedState {
            origins,
            identity_key: SigningKey::new(),
            client_document: Mutex::default(),
            hosted_documents: Mutex::default(),
            store: Mutex::new(GrantStore::new(config)),
        }
    }

    pub fn store(&self) -> MutexGuard<'_, GrantStore> {
        self.store.lock().expect("no holder of the lock panics")
    }

    pub fn config(&self) -> AuthorizationConfig {
        self.store().config.clone()
    }

    /// The URL of the protected resource.
    pub fn resource_url(&self) -> String {
        format!("{}/mcp", self.origins.resource)
    }

    /// The issuer URL of a site.
    pub fn issuer_url(&self, config: &AuthorizationConfig, site: Site) -> String {
        match (site, config.issuer_origin) {
            (Site::Identity, _) => self.origins.identity.clone(),
            (Site::Resource | Site::Issuer | Site::Attacker, IssuerOrigin::Separate) => {
                format!("{}{}", self.origins.issuer, config.issuer_path)
            }
            (Site::Resource | Site::Issuer | Site::Attacker, IssuerOrigin::SameAsResource) => {
                format!("{}{}", self.origins.resource, config.issuer_path)
            }
        }
    }
}
