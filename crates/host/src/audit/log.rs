//! The audit log: caller, tool, decision and outcome of each call, one JSON line per call, append-only. Arguments are
//! stored only as a digest. Decides what happens to calls whose record cannot be written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub use switchboard_config::settings::audit::AuditChain;
use switchboard_config::settings::audit::AuditSettings;
pub use switchboard_config::settings::audit::UnrecordedCalls;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::audit::chain::{self, Chain, ChainKey};
use crate::audit::feed;
pub use crate::audit::feed::{AuditFeed, FedRecord};
pub use crate::audit::files::read;
use crate::audit::files::{AuditFiles, FileLimits};
pub use crate::audit::record::{AuditRecord, CallOutcome, RequestOrigin, STARTED, digest};
pub use crate::audit::tail::AuditTail;
pub use crate::audit::writer::AuditStatus;
use crate::audit::writer::{AuditCommand, QUEUE_CAPACITY, StatusSender, Writer};
use crate::sources::atomic_file;

/// The size at which the current file is rotated.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// How long a call waits for the disk.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);

/// How the log is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditOptions {
    /// The policy for calls whose record cannot be written.
    pub unrecorded_calls: UnrecordedCalls,
    /// The minimum age of records that may be removed.
    pub keep: Duration,
    /// The maximum size of all files together.
    pub max_bytes: u64,
    /// How records are linked.
    pub chain: AuditChain,
    /// The key that signs the chain, where it is not beside the log.
    pub key_file: Option<PathBuf>,
}

impl Default for AuditOptions {
    fn default() -> AuditOptions {
        AuditOptions::from(&AuditSettings::default())
    }
}

impl From<&AuditSettings> for AuditOptions {
    fn from(settings: &AuditSettings) -> AuditOptions {
        AuditOptions {
            unrecorded_calls: settings.unrecorded_calls(),
            keep: Duration::from_secs(settings.keep_days().saturating_mul(24 * 3600)),
            max_bytes: settings.max_megabytes().saturating_mul(1024 * 1024),
            chain: settings.chain(),
            key_file: settings.key_file().map(PathBuf::from),
        }
    }
}

/// A handle to the audit log. Clones share the writer thread, which ends with [`AuditLog::close`] or with the last of
/// them.
#[derive(Debug, Clone)]
pub struct AuditLog {
    commands: mpsc::Sender<AuditCommand>,
    status: watch::Receiver<AuditStatus>,
    status_sender: StatusSender,
    writer: Arc<WriterThread>,
    unrecorded_calls: UnrecordedCalls,
}

/// The writer thread. Dropping it joins the thread, unless the thread still waits for commands or for the disk.
#[derive(Debug)]
struct WriterThread {
    thread: Option<thread::JoinHandle<()>>,
    /// Closed when the thread ends.
    ended: watch::Receiver<()>,
}

impl WriterThread {
    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Waits for the end of the thread. Returns whether it came in time.
    async fn has_ended(&self) -> bool {
        let mut ended = self.ended.clone();
        timeout(DISK_TIMEOUT, async move { while ended.changed().await.is_ok() {} }).await.is_ok()
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        if self.ended.has_changed().is_err()
            && let Some(thread) = self.thread.take()
        {
            let _panicked = thread.join();
        }
    }
}

/// Room in the queue for one record.
#[derive(Debug)]
pub(crate) struct QueueSlot {
    permit: mpsc::OwnedPermit<AuditCommand>,
    status_sender: StatusSender,
}

impl QueueSlot {
    pub(crate) fn record(self, record: AuditRecord) {
        self.status_sender.add_unwritten(1);
        self.permit.send(AuditCommand::Append(Box::new(record)));
    }
}

impl AuditLog {
    /// Writes records to a file, which is created with the first record, with the default options.
    pub fn open(path: &Path) -> io::Result<AuditLog> {
        AuditLog::open_with(path, AuditOptions::default())
    }

    /// Writes records to a file, which is created with the first record.
    pub fn open_with(path: &Path, options: AuditOptions) -> io::Result<AuditLog> {
        let chain = match options.chain {
            AuditChain::Off => None,
            AuditChain::Hash => Some(Chain { key: None }),
            AuditChain::Signed => {
                let key_path = options.key_file.unwrap_or_else(|| chain::default_key_path(path));
                if let Some(folder) = key_path.parent() {
                    atomic_file::make_private_folder(folder)?;
                }
                Some(Chain { key: Some(ChainKey::open_or_create(&key_path)?) })
            }
        };
        let (commands, command_receiver) = mpsc::channel(QUEUE_CAPACITY);
        let (status_sender, status) = StatusSender::new();
        let (end_sender, ended) = watch::channel(());
        let limits = FileLimits {
            file_bytes: MAX_FILE_BYTES.min(options.max_bytes),
            total_bytes: options.max_bytes,
            keep: options.keep,
        };
        let writer = Writer {
            files: AuditFiles::new(path, limits, chain),
            commands: command_receiver,
            status: status_sender.clone(),
            feeds: Vec::new(),
        };
        let builder = thread::Builder::new().name("audit".to_owned());
        let thread = builder.spawn(move || {
            writer.run();
            drop(end_sender);
        })?;
        Ok(AuditLog {
            commands,
            status,
            status_sender,
            writer: Arc::new(WriterThread { thread: Some(thread), ended }),
            unrecorded_calls: options.unrecorded_calls,
        })
    }

    /// Sends copies of all later records to the returned feed, which has room for this many that were not read yet.
    pub async fn feed(&self, capacity: usize) -> AuditFeed {
        let (sender, feed) = feed::feed(capacity);
        let _log_closed = self.commands.send(AuditCommand::AddFeed(sender)).await;
        feed
    }

    /// Queues a record without waiting. If the queue is full, the record is lost, which the status says.
    pub fn record(&self, record: AuditRecord) {
        self.status_sender.add_unwritten(1);
        match self.commands.try_send(AuditCommand::Append(Box::new(record))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.lose_one("the disk does not keep up with the calls"),
            Err(TrySendError::Closed(_)) => self.lose_one("the log is closed"),
        }
    }

    fn lose_one(&self, reason: &'static str) {
        self.status_sender.remove_unwritten(1);
        self.status_sender.publish(1, Some(Arc::new(io::Error::other(reason))));
    }

    /// Waits while the queue is full, but not longer than a call waits for the disk. `None` where there is room, or where
    /// the disk took too long.
    pub(crate) async fn slot_if_full(&self) -> Option<QueueSlot> {
        if self.commands.capacity() > 0 {
            return None;
        }
        let permit = timeout(DISK_TIMEOUT, self.commands.clone().reserve_owned()).await;
        let status_sender = self.status_sender.clone();
        Some(QueueSlot { permit: permit.ok()?.ok()?, status_sender })
    }

    /// Records the start of a call where calls without a record are refused. The call may run only if this succeeds.
    pub(crate) async fn record_start(
        &self,
        record: &mut AuditRecord,
    ) -> Result<(), Arc<io::Error>> {
        if self.unrecorded_calls == UnrecordedCalls::Allow {
            return Ok(());
        }
        let (reply, written) = oneshot::channel();
        let command = AuditCommand::AppendNow(Box::new(record.start()), reply);
        let writing = async {
            self.commands.send(command).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.writer.wake();
            written.await.map_err(|_| io::ErrorKind::BrokenPipe)
        };
        match timeout(DISK_TIMEOUT, writing).await {
            Ok(Ok(result)) => result,
            Ok(Err(kind)) => Err(Arc::new(kind.into())),
            Err(_) => {
                let stalled = stalled_disk();
                self.status_sender.publish(0, Some(stalled.clone()));
                Err(stalled)
            }
        }
    }

    /// The policy for calls whose record cannot be written.
    pub fn unrecorded_calls(&self) -> UnrecordedCalls {
        self.unrecorded_calls
    }

    /// Whether records can be written, and how many were lost. Callers should report both.
    pub fn status(&self) -> AuditStatus {
        self.status.borrow().clone()
    }

    /// The status and its changes.
    pub fn watch_status(&self) -> watch::Receiver<AuditStatus> {
        self.status.clone()
    }

    /// Waits until all records so far are written or lost. What a stalled disk does not accept in time counts as lost.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let flushing = async {
            if self.commands.send(AuditCommand::Flush(done)).await.is_ok() {
                self.writer.wake();
                let _writer_gone = flushed.await;
            }
        };
        if timeout(DISK_TIMEOUT, flushing).await.is_err() {
            self.status_sender.give_up_unwritten(stalled_disk());
        }
    }

    /// Writes all records so far and ends the writer, as far as the disk accepts them in time. Later records are lost.
    pub async fn close(&self) {
        let closing = async {
            if self.commands.send(AuditCommand::Close).await.is_ok() {
                self.writer.wake();
            }
        };
        let is_queued = timeout(DISK_TIMEOUT, closing).await.is_ok();
        if !is_queued || !self.writer.has_ended().await {
            self.status_sender.give_up_unwritten(stalled_disk());
        }
    }
}

fn stalled_disk() -> Arc<io::Error> {
    let text = format!("the disk did not accept the record within {} s", DISK_TIMEOUT.as_secs());
    Arc::new(io::Error::new(io::ErrorKind::TimedOut, text))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn record(tool: &str) -> AuditRecord {
        AuditRecord { tool: tool.to_owned(), ..AuditRecord::begin("cli", "mcp__s__t") }
    }

    fn refusing() -> AuditOptions {
        AuditOptions { unrecorded_calls: UnrecordedCalls::Refuse, ..AuditOptions::default() }
    }

    #[tokio::test]
    async fn records_are_appended_in_order_and_read_back() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("state/audit.jsonl");
        assert_eq!(read(&path).expect("nothing is no error"), []);
        let audit = AuditLog::open(&path).expect("a thread can be started");
        for tool in ["a", "b"] {
            audit.record(record(tool));
        }
        audit.flush().await;
        let tools: Vec<String> = read(&path).expect("read").into_iter().map(|it| it.tool).collect();
        assert_eq!(tools, ["a", "b"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = path.metadata().expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[tokio::test]
    async fn records_that_cannot_be_written_are_counted_and_the_failure_ends_with_the_next_write() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        fs::create_dir(&path).expect("a folder where the file should be");
        let audit = AuditLog::open(&path).expect("a thread can be started");
        assert_eq!(audit.status().lost, 0);
        audit.record(record("a"));
        audit.record(record("b"));
        audit.flush().await;
        let status = audit.status();
        assert_eq!(status.lost, 2);
        assert!(status.failure.is_some());
        fs::remove_dir(&path).expect("it is empty");
        audit.record(record("c"));
        audit.flush().await;
        let status = audit.status();
        assert_eq!((status.lost, read(&path).expect("read").len()), (2, 1));
        assert!(status.failure.is_none());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_start_of_a_call_is_on_the_disk_before_it_runs_or_the_call_is_refused() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        std::os::unix::fs::symlink("/dev/full", &path).expect("a link to a full disk");
        let audit = AuditLog::open_with(&path, refusing()).expect("a thread can be started");
        let refused = audit.record_start(&mut record("a")).await.expect_err("the disk is full");
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert!(audit.status().failure.is_some());
        fs::remove_file(&path).expect("only the link");
        let mut call = record("b");
        audit.record_start(&mut call).await.expect("the disk has room");
        let records = read(&path).expect("read");
        assert_eq!((records[0].tool.as_str(), records[0].outcome.as_str()), ("b", STARTED));
        assert!(audit.status().failure.is_none());
    }

    #[tokio::test]
    async fn the_start_of_a_call_is_not_recorded_where_calls_go_on_without_a_record() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        let audit = AuditLog::open(&path).expect("a thread can be started");
        let mut call = record("a");
        audit.record_start(&mut call).await.expect("nothing is written");
        audit.record(call);
        audit.flush().await;
        assert_eq!(fs::read_to_string(&path).expect("a file").lines().count(), 1);
    }

    /// Blocks the writer until the pipe is read.
    #[cfg(target_os = "linux")]
    fn stalled_log(folder: &Path) -> (AuditLog, std::path::PathBuf) {
        let path = folder.join("audit.jsonl");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo is there").success());
        (AuditLog::open(&path).expect("a thread can be started"), path)
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_stalled_disk_makes_callers_wait_and_starts_no_threads() {
        let threads = || fs::read_dir("/proc/self/task").expect("the threads").count();
        let folder = tempfile::tempdir().expect("a temp folder");
        let (audit, path) = stalled_log(folder.path());
        audit.record(record("a"));
        while audit.commands.capacity() < QUEUE_CAPACITY {
            thread::yield_now(); // until the writer has taken the first record; it may take more before it waits
        }
        let before = threads();
        let mut recorded = 1;
        while audit.commands.capacity() > 0 {
            audit.record(record("a"));
            recorded += 1;
        }
        // Waits for room, unless the writer has taken more before it waits for the disk.
        let waiting = tokio::spawn({
            let audit = audit.clone();
            async move {
                match audit.slot_if_full().await {
                    Some(slot) => slot.record(record("b")),
                    None => audit.record(record("b")),
                }
            }
        });
        tokio::task::yield_now().await;
        for _ in 0..QUEUE_CAPACITY {
            audit.record(record("a"));
            recorded += 1;
        }
        assert!(threads() <= before + 1, "{} threads before, {} now", before, threads());
        let status = audit.status();
        // The writer holds one batch, and the queue is as long as a batch.
        assert!(status.lost > 0, "{recorded} were recorded");
        // The other task runs only while this one awaits.
        let recorded = recorded + u64::from(waiting.is_finished());
        assert_eq!(status.lost + audit.status_sender.unwritten(), recorded);
        assert!(status.failure.is_some(), "lost records are a failure");
        let reader = thread::spawn(move || fs::read_to_string(path).expect("text"));
        waiting.await.expect("it got room");
        audit.flush().await;
        drop(audit);
        let written = reader.join().expect("the writer ended");
        assert!(written.lines().any(|it| it.contains("\"b\"")), "{written}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn neither_a_flush_nor_a_close_waits_for_ever_for_a_stalled_disk() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let (audit, path) = stalled_log(folder.path());
        audit.record(record("a"));
        audit.record(record("b"));
        audit.flush().await;
        let status = audit.status();
        assert_eq!(status.lost, 2);
        let kind = status.failure.map(|it| it.kind());
        assert_eq!(kind, Some(io::ErrorKind::TimedOut));
        audit.record(record("c"));
        audit.close().await;
        assert_eq!(audit.status().lost, 3);
        // The thread still waits for the disk; reading lets it end.
        let reader = thread::spawn(move || fs::read_to_string(path).expect("text"));
        let mut ended = audit.writer.ended.clone();
        while ended.changed().await.is_ok() {}
        drop(audit);
        reader.join().expect("the writer ended");
    }

    #[tokio::test]
    async fn a_closed_log_has_written_everything_and_ended_its_thread() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        let audit = AuditLog::open(&path).expect("a thread can be started");
        audit.record(record("a"));
        audit.close().await;
        assert_eq!(read(&path).expect("read").len(), 1);
        assert!(audit.writer.ended.has_changed().is_err(), "the thread has ended");
        audit.record(record("late"));
        let status = audit.status();
        assert_eq!((status.lost, status.failure.is_some()), (1, true));
        audit.close().await;
        audit.flush().await;
    }
}
