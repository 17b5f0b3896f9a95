//! Request rates that all replicas together keep. A replica takes tokens from the store in small portions and hands them
//! out itself, so that few requests wait for the store. While it is away, each replica hands out its share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::shared::Shared;
use tokio::time::Instant;

use super::key_digest::digest;
use super::store::{StateStore, TokenGrant, TokenRequest};

/// The largest portion is this part of what a second allows.
const PORTIONS_PER_SECOND: u32 = 20;
/// Tokens that are not used within this time are given up, because another replica may have use for them.
const PORTION_TTL: Duration = Duration::from_millis(250);
/// The number of accounts from which on unused ones are removed.
const PRUNE_AT: usize = 10_000;

/// The portions of all accounts.
#[derive(Debug, Default)]
pub(crate) struct RatePortions {
    /// Shared state: each request takes a token before it goes on.
    portions: Shared<HashMap<Arc<str>, Portion>>,
}

/// Tokens of one account.
#[derive(Debug, Clone, Copy)]
struct Portion {
    tokens: u32,
    /// How many were taken together.
    size: u32,
    expires_at: Instant,
    /// When the account's share is full again, while the store is away.
    full_at: Instant,
}

impl RatePortions {
    /// Takes tokens, or returns when there will be some. `replicas` share the rate while the store is away.
    pub(crate) async fn take(
        &self,
        store: &dyn StateStore,
        account: &Arc<str>,
        (per_second, count): (u32, u32),
        replicas: usize,
    ) -> Result<(), Duration> {
        if self.take_local(account, count) {
            return Ok(());
        }
        let portion = self.next_size(account).min(per_second / PORTIONS_PER_SECOND).max(count);
        let request = TokenRequest { per_second, at_least: count, at_most: portion };
        match store.take_tokens(&digest(account), request).await {
            Ok(TokenGrant::Granted(granted)) => {
                self.add(account, (granted.saturating_sub(count), portion));
                Ok(())
            }
            Ok(TokenGrant::RetryAfter(wait)) => Err(wait),
            Err(_) => {
                let share = per_second / u32::try_from(replicas.max(1)).unwrap_or(u32::MAX);
                self.take_share(account, (share.max(1), count))
            }
        }
    }

    fn take_local(&self, account: &Arc<str>, count: u32) -> bool {
        self.portions.update(|portions| match portions.get_mut(account) {
            Some(portion) if portion.tokens >= count && portion.expires_at > Instant::now() => {
                portion.tokens -= count;
                true
            }
            Some(_) | None => false,
        })
    }

    /// The size of the next portion: twice that of one that was used up in time, so that it grows with the demand. Tokens
    /// that a replica does not use are lost for the others.
    fn next_size(&self, account: &Arc<str>) -> u32 {
        self.portions.read(|portions| match portions.get(account) {
            Some(portion) if portion.expires_at > Instant::now() => portion.size.saturating_mul(2),
            Some(_) | None => 1,
        })
    }

    fn add(&self, account: &Arc<str>, (tokens, size): (u32, u32)) {
        self.portions.update(|portions| {
            let now = Instant::now();
            if portions.len() >= PRUNE_AT {
                portions.retain(|_, it| it.expires_at > now || it.full_at > now);
            }
            let portion = portions.entry(account.clone()).or_insert(Portion::empty(now));
            if portion.expires_at <= now {
                portion.tokens = 0;
            }
            portion.tokens += tokens;
            portion.size = size;
            portion.expires_at = now + PORTION_TTL;
        });
    }

    /// Takes tokens of this replica's share of a rate.
    fn take_share(
        &self,
        account: &Arc<str>,
        (per_second, count): (u32, u32),
    ) -> Result<(), Duration> {
        self.portions.update(|portions| {
            let now = Instant::now();
            let portion = portions.entry(account.clone()).or_insert(Portion::empty(now));
            let next = portion.full_at.max(now) + Duration::from_secs(1) / per_second * count;
            let burst_end = now + Duration::from_secs(1);
            match next <= burst_end {
                true => {
                    portion.full_at = next;
                    Ok(())
                }
                false => Err(next - burst_end),
            }
        })
    }
}

impl Portion {
    fn empty(now: Instant) -> Portion {
        Portion { tokens: 0, size: 0, expires_at: now, full_at: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::memory::MemoryStore;

    /// How many of these requests two replicas let through, in turn.
    async fn passed(store: &MemoryStore, replicas: &[RatePortions], requests: usize) -> usize {
        let account: Arc<str> = "ada".into();
        let mut passed = 0;
        for number in 0..requests {
            let replica = &replicas[number % replicas.len()];
            let taken = replica.take(store, &account, (40, 1), replicas.len()).await;
            passed += usize::from(taken.is_ok());
        }
        passed
    }

    #[tokio::test(start_paused = true)]
    async fn replicas_together_keep_the_rate_and_each_its_share_while_the_store_is_away() {
        let store = MemoryStore::default();
        let replicas = [RatePortions::default(), RatePortions::default()];
        assert_eq!(passed(&store, &replicas, 100).await, 40, "a burst of one second");
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(passed(&store, &replicas, 100).await, 20);
        tokio::time::advance(Duration::from_secs(2)).await;
        store.set_away(true);
        assert_eq!(passed(&store, &replicas, 100).await, 40, "half of the rate each");
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(passed(&store, &replicas[..1], 100).await, 20, "a replica without others");
    }

    #[tokio::test(start_paused = true)]
    async fn many_replicas_with_few_requests_each_waste_no_tokens() {
        let store = MemoryStore::default();
        let replicas: Vec<RatePortions> = (0..8).map(|_| RatePortions::default()).collect();
        let account: Arc<str> = "ada".into();
        for round in 0..12 {
            for replica in &replicas {
                let taken = replica.take(&store, &account, (100, 1), replicas.len()).await;
                assert_eq!(taken, Ok(()), "round {round}: 27 of 100 per second");
            }
            tokio::time::advance(Duration::from_millis(300)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_with_many_requests_takes_larger_portions() {
        let portions = RatePortions::default();
        let (store, account): (MemoryStore, Arc<str>) = (MemoryStore::default(), "ada".into());
        let mut sizes = Vec::new();
        for _ in 0..60 {
            assert_eq!(portions.take(&store, &account, (1000, 1), 1).await, Ok(()));
            let size = portions.portions.read(|it| it["ada"].size);
            if sizes.last() != Some(&size) {
                sizes.push(size);
            }
        }
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32]);
    }
}
