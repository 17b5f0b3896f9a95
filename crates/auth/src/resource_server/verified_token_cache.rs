//! A bounded cache of access tokens that passed verification, keyed by their digest.

use std::collections::HashMap;
use std::sync::Arc;

use super::principal::Principal;
use crate::crypto::digest::Sha256Digest;

/// The capacity of each of the two generations.
const MAX_GENERATION: usize = 8192;

/// A verified token.
pub(super) struct VerifiedToken {
    pub(super) principal: Principal,
    pub(super) jkt: Option<Arc<str>>,
    pub(super) expires_at: u64,
    pub(super) revision: u64,
}

/// Two generations of verified tokens: when the recent one is full, the previous one is dropped.
#[derive(Default)]
pub(super) struct VerifiedTokenCache {
    recent: HashMap<Sha256Digest, VerifiedToken>,
    previous: HashMap<Sha256Digest, VerifiedToken>,
}

impl VerifiedTokenCache {
    pub(super) fn find(&self, digest: &Sha256Digest) -> Option<&VerifiedToken> {
        self.recent.get(digest).or_else(|| self.previous.get(digest))
    }

    pub(super) fn insert(&mut self, digest: Sha256Digest, cached: VerifiedToken) {
        if self.recent.len() >= MAX_GENERATION {
            self.previous = std::mem::take(&mut self.recent);
        }
        self.recent.insert(digest, cached);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::digest::sha256;

    #[test]
    fn the_cache_is_bounded_and_keeps_the_newest() {
        let mut cache = VerifiedTokenCache::default();
        let digest = |number: usize| sha256(&number.to_be_bytes());
        for number in 0..5 * MAX_GENERATION {
            let principal = Principal::local();
            cache.insert(
                digest(number),
                VerifiedToken { principal, jkt: None, expires_at: 0, revision: 0 },
            );
            assert!(cache.recent.len() + cache.previous.len() <= 2 * MAX_GENERATION);
        }
        assert!(cache.find(&digest(5 * MAX_GENERATION - 1)).is_some());
        assert!(cache.find(&digest(4 * MAX_GENERATION)).is_some());
        assert!(cache.find(&digest(0)).is_none());
    }
}
