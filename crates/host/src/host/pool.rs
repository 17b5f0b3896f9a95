//! The pool of all tools.

use std::sync::Arc;

use switchboard_config::permission::PermissionRules;
use tokio::sync::watch;

use super::{Host, built_in_tools};
use crate::catalogue::lists::Catalogue;
use crate::pool::Pool;
use crate::pool::updater;
use crate::pool::updater::PoolWatch;
use crate::sources::desired_server::DesiredServer;

/// The pool of servers with these catalogues and the built-in tools, without a host. For catalogues that are remembered.
pub fn pool_from_catalogues(
    servers: &[(DesiredServer, Arc<Catalogue>)],
    rules: &PermissionRules,
) -> Pool {
    updater::build_from_catalogues(servers, rules, built_in_tools())
}

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
