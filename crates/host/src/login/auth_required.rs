//! The cache of servers that required a login: such a server is not connected to again for a while.

use std::time::Duration;

use switchboard_config::entry::server::Fingerprint;

use crate::sources::paths::Paths;
use crate::storage::ttl_cache::TtlCache;

/// The key of a server in the caches of connection attempts.
pub(crate) fn cache_key(server: &str, fingerprint: &Fingerprint) -> String {
    format!("{server}/{fingerprint}")
}

/// Removes the cached state "needs login" of a server, so that the next attempt connects to it. Blocks.
pub fn forget_auth_required(paths: &Paths, server: &str, fingerprint: &Fingerprint) {
    TtlCache::new(&paths.auth_required_cache(), Duration::MAX)
        .remove(&cache_key(server, fingerprint));
}
