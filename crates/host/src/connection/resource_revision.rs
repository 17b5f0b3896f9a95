//! Counts a server's announcements of changed resources, so that a cached resource can be checked for validity.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of announcements on one connection. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResourceRevision(Arc<AtomicU64>);

impl ResourceRevision {
    /// Counts one announcement.
    pub(crate) fn bump(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// The current moment: equal to a later mark as long as no resource changed and the connection is the same.
    pub(crate) fn mark(&self) -> RevisionMark {
        RevisionMark { revision: self.clone(), number: self.0.load(Ordering::Acquire) }
    }

    /// Whether both belong to the same connection.
    pub(crate) fn is_same_connection(&self, other: &ResourceRevision) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A moment on one connection, between two announcements.
#[derive(Debug, Clone)]
pub(crate) struct RevisionMark {
    pub(crate) revision: ResourceRevision,
    number: u64,
}

impl PartialEq for RevisionMark {
    fn eq(&self, other: &RevisionMark) -> bool {
        self.number == other.number && self.revision.is_same_connection(&other.revision)
    }
}
