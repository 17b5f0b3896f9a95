//! The URLs and keys that the user configured for one server, and the origin guard made from them.

use url::Url;

use crate::crypto::signing_key::SigningKey;
use crate::fetch::origin_guard::OriginGuard;

/// The issuers and URLs that are trusted for one server, in addition to those that the server names.
#[derive(Debug, Clone)]
pub struct TrustSettings {
    /// The URL of the server.
    pub server: Url,
    /// Other URLs that the user configured.
    pub trusted_urls: Vec<Url>,
    /// The hosts of our proxies.
    pub proxies: Vec<String>,
    /// The key for client assertions.
    pub signing_key: Option<SigningKey>,
}

impl TrustSettings {
    /// The guard for URLs that this server and its authorization server name.
    pub fn origin_guard(&self) -> OriginGuard {
        OriginGuard::new(&self.server, &self.trusted_urls).with_proxies(&self.proxies)
    }
}
