//! A bounded cache of access tokens that passed verification, keyed by their digest.

use std::collections::HashMap;
use std::sync::Arc;

use super::principal::Principal;
use crate::crypto::digest::Sha256Digest;

/// How many tokens are remembered, in each of two halves.
const MAX_GENERATION: usize = 8192;

/// A token that was good.
pub(super) struct VerifiedToken {
    pub(super) principal: Principal,
    pub(super) jkt: Option<Arc<str>>,
    pub(super) expires_at: u64,
    pub(super) revision: u64,
}

/// Tokens that were good, bounded: where the younger half is full, the older one is forgotten.
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
    fn only_so_many_tokens_are_remembered_and_the_youngest_stay() {
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
