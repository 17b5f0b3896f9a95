//! Copies of the records that are written, for programs that send them elsewhere. A feed that is not read loses records
//! and counts them; it never delays the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::audit::record::AuditRecord;

/// A record, and its line in the log, without the line break.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FedRecord {
    /// The record.
    pub record: AuditRecord,
    /// The line, with its link where records are chained.
    pub line: String,
}

/// Receives every record that is written after it was opened.
#[derive(Debug)]
pub struct AuditFeed {
    records: mpsc::Receiver<Arc<FedRecord>>,
    dropped: Arc<AtomicU64>,
}

/// The other end of a feed.
#[derive(Debug)]
pub(super) struct FeedSender {
    records: mpsc::Sender<Arc<FedRecord>>,
    dropped: Arc<AtomicU64>,
}

/// A feed with room for this many records that were not read yet.
pub(super) fn feed(capacity: usize) -> (FeedSender, AuditFeed) {
    let (sender, records) = mpsc::channel(capacity);
    let dropped = Arc::new(AtomicU64::new(0));
    (FeedSender { records: sender, dropped: dropped.clone() }, AuditFeed { records, dropped })
}

impl AuditFeed {
    /// The next record; `None` after the log was closed.
    pub async fn next(&mut self) -> Option<Arc<FedRecord>> {
        self.records.recv().await
    }

    /// The next record, if there is one now.
    pub fn try_next(&mut self) -> Option<Arc<FedRecord>> {
        self.records.try_recv().ok()
    }

    /// The counter of records that were lost because the feed was full.
    pub fn dropped(&self) -> Arc<AtomicU64> {
        self.dropped.clone()
    }
}

impl FeedSender {
    /// Sends a record without waiting. Returns whether the feed is still read.
    pub(super) fn send(&self, record: &Arc<FedRecord>) -> bool {
        match self.records.try_send(record.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}
