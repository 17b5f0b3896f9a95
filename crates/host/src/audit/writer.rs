//! The thread that writes the audit log. It collects records for a few milliseconds and writes them together; callers
//! never touch the disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info};

use crate::audit::feed::{FedRecord, FeedSender};
use crate::audit::files::AuditFiles;
use crate::audit::record::{AuditRecord, to_json_line};

/// How many records may wait for the disk.
pub(super) const QUEUE_CAPACITY: usize = 1024;
/// The maximum time to collect records before they are written together.
const BATCH_DELAY: Duration = Duration::from_millis(10);
/// The minimum time to collect records.
const MIN_BATCH_DELAY: Duration = Duration::from_micros(500);

/// Whether records can be written, and how many were lost.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AuditStatus {
    /// How many records were lost since the log was opened.
    pub lost: u64,
    /// Why the last record could not be written; `None` when it was written.
    pub failure: Option<Arc<io::Error>>,
}

/// The result of a write.
pub(super) type WriteResult = Result<(), Arc<io::Error>>;

#[derive(Debug)]
pub(super) enum AuditCommand {
    Append(Box<AuditRecord>),
    /// Appends at once, and reports the result.
    AppendNow(Box<AuditRecord>, oneshot::Sender<WriteResult>),
    /// Sends copies of all later records.
    AddFeed(FeedSender),
    Flush(oneshot::Sender<()>),
    /// Ends the writer after all records so far.
    Close,
}

/// Writes what it receives until the last sender is dropped.
pub(super) struct Writer {
    pub(super) files: AuditFiles,
    pub(super) commands: mpsc::Receiver<AuditCommand>,
    pub(super) status: StatusSender,
    pub(super) feeds: Vec<FeedSender>,
}

/// The status of the log, which both the writer and those who wait for it change: a writer that waits for the disk says
/// nothing.
#[derive(Debug, Clone)]
pub(super) struct StatusSender {
    sender: Arc<watch::Sender<AuditStatus>>,
    /// Records in the queue and in the batch that is being written, without those that a call waits for.
    unwritten: Arc<AtomicU64>,
}

impl StatusSender {
    pub(super) fn new() -> (StatusSender, watch::Receiver<AuditStatus>) {
        let (sender, receiver) = watch::channel(AuditStatus::default());
        (StatusSender { sender: Arc::new(sender), unwritten: Arc::default() }, receiver)
    }

    /// Counts records that were queued.
    pub(super) fn add_unwritten(&self, count: u64) {
        self.unwritten.fetch_add(count, Ordering::Relaxed);
    }

    /// How many records wait for the disk.
    #[cfg(test)]
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    pub(super) fn remove_unwritten(&self, count: u64) {
        let less = |unwritten: u64| Some(unwritten.saturating_sub(count));
        let _always_updated =
            self.unwritten.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Counts the records that wait for the disk as lost.
    pub(super) fn give_up_unwritten(&self, failure: Arc<io::Error>) {
        let lost = self.unwritten.swap(0, Ordering::Relaxed);
        self.publish(lost, Some(failure));
    }

    /// Publishes the status where it changed, and logs when writing begins to fail and when it works again.
    pub(super) fn publish(&self, lost: u64, failure: Option<Arc<io::Error>>) {
        self.sender.send_if_modified(|status| {
            let had_failed = status.failure.is_some();
            status.lost += lost;
            match (&failure, had_failed) {
                (Some(reason), false) => error!(%reason, "the audit log cannot be written"),
                (None, true) => info!(lost = status.lost, "the audit log can be written again"),
                (Some(_), true) | (None, false) => {}
            }
            let is_modified = lost > 0 || failure.is_some() || had_failed;
            status.failure = failure;
            is_modified
        });
    }
}

/// Records that are written together, and the callers that wait for the result.
#[derive(Default)]
struct Batch {
    lines: Vec<u8>,
    records: Vec<AuditRecord>,
    count: usize,
    /// By the index of the record in the batch.
    waiting: Vec<(usize, oneshot::Sender<WriteResult>)>,
    flush_replies: Vec<oneshot::Sender<()>>,
    new_feeds: Vec<FeedSender>,
    is_last: bool,
}

impl Batch {
    fn add(&mut self, command: AuditCommand) {
        let record = match command {
            AuditCommand::Append(record) => record,
            AuditCommand::AppendNow(record, reply) => {
                self.waiting.push((self.count, reply));
                record
            }
            AuditCommand::AddFeed(feed) => return self.new_feeds.push(feed),
            AuditCommand::Flush(done) => return self.flush_replies.push(done),
            AuditCommand::Close => {
                self.is_last = true;
                return;
            }
        };
        self.lines.extend(to_json_line(&record));
        self.records.push(*record);
        self.count += 1;
    }

    fn is_awaited(&self) -> bool {
        !self.waiting.is_empty() || !self.flush_replies.is_empty()
    }
}

impl Writer {
    pub(super) fn run(mut self) {
        let mut delay = BATCH_DELAY;
        while let Some(first) = self.commands.blocking_recv() {
            let mut batch = Batch::default();
            batch.add(first);
            while batch.count < QUEUE_CAPACITY
                && !batch.is_last
                && let Ok(command) = self.commands.try_recv()
            {
                batch.add(command);
            }
            let (is_awaited, count) = (batch.is_awaited(), batch.count);
            let is_last = batch.is_last;
            self.write(batch);
            if is_last {
                return;
            }
            if !is_awaited {
                // Waking the writer for each record would cost callers more than the write itself.
                delay = next_batch_delay(delay, count as u64);
                thread::park_timeout(delay);
            }
        }
    }

    fn write(&mut self, mut batch: Batch) {
        self.feeds.append(&mut batch.new_feeds);
        let (mut appended, mut failure) = (batch.count, None);
        if batch.count > 0 {
            match self.files.append(&batch.lines, SystemTime::now()) {
                Ok(lines) => batch.lines = lines,
                Err(refused) => {
                    (appended, failure) = (refused.appended, Some(Arc::new(refused.error)));
                }
            }
            self.feed(std::mem::take(&mut batch.records), &batch.lines);
        }
        // A caller that waits for the result decides itself; its call does not run without a record.
        let reported = batch.waiting.iter().filter(|(index, _)| *index >= appended).count();
        if batch.count > 0 {
            self.status.remove_unwritten((batch.count - batch.waiting.len()) as u64);
            self.status.publish((batch.count - appended - reported) as u64, failure.clone());
        }
        for (index, reply) in batch.waiting {
            let result = match &failure {
                Some(error) if index >= appended => Err(error.clone()),
                Some(_) | None => Ok(()),
            };
            let _caller_gone = reply.send(result);
        }
        for done in batch.flush_replies {
            let _receiver_dropped = done.send(());
        }
    }
}

impl Writer {
    /// Sends copies of records, also of those that could not be written here.
    fn feed(&mut self, records: Vec<AuditRecord>, lines: &[u8]) {
        if self.feeds.is_empty() {
            return;
        }
        for (record, line) in records.into_iter().zip(lines.split(|byte| *byte == b'\n')) {
            let line = String::from_utf8_lossy(line).into_owned();
            let fed = Arc::new(FedRecord { record, line });
            self.feeds.retain(|feed| feed.send(&fed));
        }
    }
}

/// The next collection delay: shorter when the queue fills up, because callers would wait for room.
fn next_batch_delay(delay: Duration, count: u64) -> Duration {
    let capacity = QUEUE_CAPACITY as u64;
    match count {
        _ if count > capacity / 2 => (delay / 2).max(MIN_BATCH_DELAY),
        _ if count < capacity / 8 => (delay * 2).min(BATCH_DELAY),
        _ => delay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_shrinks_before_the_queue_is_full() {
        // Faster than the writer at its longest delay, slower than at its shortest.
        let records_per_second = 200_000;
        let mut delay = BATCH_DELAY;
        let record_count =
            |delay: Duration| delay.as_micros() as u64 * records_per_second / 1_000_000;
        for _ in 0..10 {
            delay = next_batch_delay(delay, record_count(delay).min(QUEUE_CAPACITY as u64 + 1));
        }
        assert!(record_count(delay) < QUEUE_CAPACITY as u64, "{delay:?}");
        for _ in 0..10 {
            delay = next_batch_delay(delay, 1);
        }
        assert_eq!(delay, BATCH_DELAY);
        assert_eq!(next_batch_delay(MIN_BATCH_DELAY, u64::MAX), MIN_BATCH_DELAY);
    }
}
