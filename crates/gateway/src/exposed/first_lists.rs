//! The first lists after the start: until something is known of every server, lists wait and no change is announced.
//! Clients that ask once get complete lists that way, and no client waits for its handshake.

use std::sync::Arc;
use std::time::Duration;

use switchboard::Host;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::exposed::catalogue::ExposedCatalogue;

/// How long after the start lists wait. Clients wait for ten seconds or more.
const FIRST_LISTS_TIMEOUT: Duration = Duration::from_secs(8);

/// Waits for the first lists. Clones share the deadline.
#[derive(Debug, Clone)]
pub(crate) struct FirstLists {
    host: Host,
    catalogues: watch::Receiver<Arc<ExposedCatalogue>>,
    deadline: Instant,
}

impl FirstLists {
    /// Begins the wait now.
    pub(crate) fn new(
        host: Host,
        catalogues: watch::Receiver<Arc<ExposedCatalogue>>,
    ) -> FirstLists {
        FirstLists { host, catalogues, deadline: Instant::now() + FIRST_LISTS_TIMEOUT }
    }

    /// Whether something is known of every server, or the deadline has passed.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline || self.catalogues.borrow().first_lists_known
    }

    /// Waits until something is known of the lists of every server: the server has connected or failed, or its lists
    /// are remembered. Returns at once after the deadline.
    pub(crate) async fn wait(&self) {
        if Instant::now() >= self.deadline {
            return;
        }
        let mut catalogues = self.catalogues.clone();
        let known = async {
            if catalogues.wait_for(|it| it.first_lists_known).await.is_err() {
                return;
            }
            let pool = self.host.settled_pool().await;
            let _closed = catalogues.wait_for(|it| it.pool.revision() >= pool.revision()).await;
        };
        let _some_are_slow = timeout_at(self.deadline, known).await;
    }
}
