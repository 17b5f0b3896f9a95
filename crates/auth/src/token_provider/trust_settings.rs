//! The URLs and keys that the user configured for one server, and the origin guard made from them.

use url::Url;

use crate::crypto::signing_key::SigningKey;
use crate::fetch::origin_guard::OriginGuard;

/// What is trusted for one server beyond what the server says.
#[derive(Debug, Clone)]
pub struct TrustSettings {
    /// The server.
    pub server: Url,
    /// What else a person typed.
    pub trusted_urls: Vec<Url>,
    /// The hosts of our proxies.
    pub proxies: Vec<String>,
    /// What our client signs with, where it does.
    pub signing_key: Option<SigningKey>,
}

impl TrustSettings {
    /// The guard for URLs that this server and its authorization server name.
    pub fn origin_guard(&self) -> OriginGuard {
        OriginGuard::new(&self.server, &self.trusted_urls).with_proxies(&self.proxies)
    }
}
