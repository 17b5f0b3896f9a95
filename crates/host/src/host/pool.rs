//! The pool of all tools.

use std::sync::Arc;

use tokio::sync::watch;

use super::Host;
use crate::pool::Pool;
use crate::pool::updater::PoolWatch;

impl Host {
    /// All tools that are known now.
    pub fn pool(&self) -> Arc<Pool> {
        self.pools.current()
    }

    /// The current and all later pools.
    pub fn watch_pool(&self) -> watch::Receiver<Arc<Pool>> {
        self.pools.watch()
    }

    /// The changes of the pool from now on.
    pub fn watch_pool_changes(&self) -> PoolWatch {
        self.pools.changes()
    }

    /// The pool, once it contains the tools of the current [`Host::snapshot`].
    pub async fn settled_pool(&self) -> Arc<Pool> {
        self.pools.settled(self.snapshot().revision).await
    }
}
