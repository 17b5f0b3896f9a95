//! Sends copies of audit records to other systems: syslog, a webhook, a collector of OpenTelemetry. Each target has a
//! queue and a task of its own, repeats what was not accepted, and counts what it had to drop. Calls never wait for it.

mod otlp_logs;
mod syslog;
mod webhook;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use switchboard::audit::log::{AuditFeed, AuditLog, FedRecord};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{info, warn};

pub use otlp_logs::{LogExport, LogExportOptions};
pub use syslog::SyslogTarget;
pub use webhook::WebhookTarget;

/// How many records may wait for a target.
const QUEUE_CAPACITY: usize = 4096;
/// The most records that are sent together, and how long to collect them.
const MAX_BATCH: usize = 100;
const BATCH_DELAY: Duration = Duration::from_millis(200);
/// The delay before records are sent again. It doubles up to the maximum.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// How long one attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the last records may take when the program ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Where copies of audit records go.
#[derive(Debug)]
pub enum AuditTarget {
    /// A syslog service.
    Syslog(SyslogTarget),
    /// A URL.
    Webhook(WebhookTarget),
    /// A collector.
    Otlp(Box<LogExport>),
}

/// The state of one target.
#[derive(Debug)]
pub(crate) struct ExportCounters {
    /// Its kind: `syslog`, `webhook` or `otlp`.
    pub(crate) target: &'static str,
    pub(crate) delivered: AtomicU64,
    /// Records that the target refused, or that were not delivered before the end.
    pub(crate) refused: AtomicU64,
    /// Records that did not fit in the queue.
    pub(crate) overflowed: Arc<AtomicU64>,
    pub(crate) is_failing: AtomicBool,
}

impl ExportCounters {
    /// All records that the target did not get.
    pub(crate) fn dropped(&self) -> u64 {
        self.refused.load(Ordering::Relaxed) + self.overflowed.load(Ordering::Relaxed)
    }
}

/// The tasks that send records. Records are sent until the audit log is closed.
#[derive(Debug)]
pub struct AuditExporter {
    tasks: JoinSet<()>,
    is_ending: watch::Sender<bool>,
    pub(crate) counters: Arc<[Arc<ExportCounters>]>,
}

/// Why records were not accepted.
#[derive(Debug)]
enum DeliveryError {
    /// They may be accepted later, not before this time.
    Later { reason: String, wait: Option<Duration> },
    /// They never will be.
    Never { reason: String },
}

impl DeliveryError {
    fn later(reason: impl fmt::Display) -> DeliveryError {
        DeliveryError::Later { reason: reason.to_string(), wait: None }
    }
}

type DeliveryFuture<'a> = Pin<Box<dyn Future<Output = Result<(), DeliveryError>> + Send + 'a>>;

/// Sends records to one target.
trait Delivery: Send {
    fn deliver<'a>(&'a mut self, batch: &'a [Arc<FedRecord>]) -> DeliveryFuture<'a>;
}

impl AuditExporter {
    /// Starts to send the records of a log. Must be called inside a runtime.
    pub async fn start(audit: &AuditLog, targets: Vec<AuditTarget>) -> AuditExporter {
        let (is_ending, ending) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let mut counters = Vec::new();
        for target in targets {
            let (name, delivery): (_, Box<dyn Delivery>) = match target {
                AuditTarget::Syslog(target) => ("syslog", Box::new(target.delivery())),
                AuditTarget::Webhook(target) => ("webhook", Box::new(target)),
                AuditTarget::Otlp(export) => ("otlp", Box::new(export.delivery())),
            };
            let feed = audit.feed(QUEUE_CAPACITY).await;
            let of_target = Arc::new(ExportCounters {
                target: name,
                delivered: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                overflowed: feed.dropped(),
                is_failing: AtomicBool::new(false),
            });
            counters.push(of_target.clone());
            tasks.spawn(run(feed, delivery, of_target, ending.clone()));
        }
        AuditExporter { tasks, is_ending, counters: counters.into() }
    }

    /// Waits until the records that were written are sent, with a timeout. The log must be closed first.
    pub async fn finish(mut self) {
        let _no_tasks = self.is_ending.send(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _some_are_slow = timeout(SHUTDOWN_TIMEOUT, ended).await;
        self.tasks.shutdown().await;
    }
}

async fn run(
    mut feed: AuditFeed,
    mut delivery: Box<dyn Delivery>,
    counters: Arc<ExportCounters>,
    ending: watch::Receiver<bool>,
) {
    while let Some(first) = feed.next().await {
        let mut batch = vec![first];
        let deadline = Instant::now() + BATCH_DELAY;
        while batch.len() < MAX_BATCH {
            match timeout_at(deadline, feed.next()).await {
                Ok(Some(record)) => batch.push(record),
                Ok(None) | Err(_) => break,
            }
        }
        // Counts as refused unless it is delivered, also if this task is aborted.
        let mut pending = PendingBatch { counters: &counters, records: batch.len() as u64 };
        if send(&mut *delivery, &batch, &counters, ending.clone()).await
            == DeliveryOutcome::Delivered
        {
            counters.delivered.fetch_add(batch.len() as u64, Ordering::Relaxed);
            pending.records = 0;
        }
    }
}

struct PendingBatch<'a> {
    counters: &'a ExportCounters,
    records: u64,
}

impl Drop for PendingBatch<'_> {
    fn drop(&mut self) {
        self.counters.refused.fetch_add(self.records, Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeliveryOutcome {
    Delivered,
    Refused,
}

/// Sends a batch until it is accepted or refused for good.
async fn send(
    delivery: &mut dyn Delivery,
    batch: &[Arc<FedRecord>],
    counters: &ExportCounters,
    mut ending: watch::Receiver<bool>,
) -> DeliveryOutcome {
    let target = counters.target;
    let mut delay = RETRY_DELAY;
    loop {
        let attempt = match timeout(ATTEMPT_TIMEOUT, delivery.deliver(batch)).await {
            Ok(result) => result,
            Err(_) => Err(DeliveryError::later("it does not respond")),
        };
        match attempt {
            Ok(()) => {
                if counters.is_failing.swap(false, Ordering::Relaxed) {
                    info!(target, "audit records are accepted again");
                }
                return DeliveryOutcome::Delivered;
            }
            Err(DeliveryError::Never { reason }) => {
                warn!(target, reason, records = batch.len(), "audit records were refused");
                return DeliveryOutcome::Refused;
            }
            Err(DeliveryError::Later { reason, wait }) => {
                if !counters.is_failing.swap(true, Ordering::Relaxed) {
                    warn!(target, reason, "audit records could not be sent");
                }
                if *ending.borrow() {
                    return DeliveryOutcome::Refused;
                }
                let wait = wait.unwrap_or(delay).min(MAX_RETRY_DELAY);
                delay = (delay * 2).min(MAX_RETRY_DELAY);
                tokio::select! {
                    () = sleep(wait) => {}
                    // One last attempt.
                    _ = ending.changed() => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard::audit::log::AuditRecord;
    use tokio::sync::mpsc;

    use super::*;

    /// What a target does with each attempt, in turn; afterwards it accepts.
    struct Scripted {
        outcomes: Vec<Option<DeliveryError>>,
        batches: mpsc::UnboundedSender<Vec<String>>, // as many as a test makes
    }

    impl Delivery for Scripted {
        fn deliver<'a>(&'a mut self, batch: &'a [Arc<FedRecord>]) -> DeliveryFuture<'a> {
            let tools = batch.iter().map(|it| it.record.tool.clone()).collect();
            let _test_over = self.batches.send(tools);
            let outcome = if self.outcomes.is_empty() { None } else { self.outcomes.remove(0) };
            Box::pin(async move { outcome.map_or(Ok(()), Err) })
        }
    }

    async fn exported(
        outcomes: Vec<Option<DeliveryError>>,
    ) -> (Vec<Vec<String>>, u64, u64, Duration) {
        let folder = tempfile::tempdir().expect("a temp folder");
        let audit = AuditLog::open(&folder.path().join("audit.jsonl")).expect("a log");
        let feed = audit.feed(10).await;
        for tool in ["a", "b"] {
            let mut record = AuditRecord::begin("cli", "t");
            record.tool = tool.to_owned();
            audit.record(record);
        }
        audit.close().await;
        let (batches, mut received) = mpsc::unbounded_channel();
        let counters = Arc::new(ExportCounters {
            target: "test",
            delivered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            overflowed: feed.dropped(),
            is_failing: AtomicBool::new(false),
        });
        let (_ending_sender, ending) = watch::channel(false);
        let started = Instant::now();
        tokio::time::pause();
        run(feed, Box::new(Scripted { outcomes, batches }), counters.clone(), ending).await;
        let mut all = Vec::new();
        while let Some(batch) = received.recv().await {
            all.push(batch);
        }
        (all, counters.delivered.load(Ordering::Relaxed), counters.dropped(), started.elapsed())
    }

    #[tokio::test]
    async fn records_are_sent_together() {
        let (batches, delivered, dropped, _) = exported(vec![]).await;
        let both = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!((batches, delivered, dropped), (vec![both], 2, 0));
    }

    #[tokio::test]
    async fn records_are_sent_again_after_growing_delays_until_they_are_accepted() {
        let later = || Some(DeliveryError::later("away"));
        let (batches, delivered, dropped, waited) = exported(vec![later(), later()]).await;
        assert_eq!((batches.len(), delivered, dropped), (3, 2, 0));
        assert!(waited >= RETRY_DELAY * 3, "{waited:?}");
    }

    #[tokio::test]
    async fn records_that_are_refused_for_good_are_dropped_and_counted() {
        let refused = Some(DeliveryError::Never { reason: "no".to_owned() });
        let (batches, delivered, dropped, _) = exported(vec![refused]).await;
        assert_eq!((batches.len(), delivered, dropped), (1, 0, 2));
    }

    #[tokio::test]
    async fn a_target_that_is_away_loses_records_only_when_its_queue_is_full_and_delays_no_one() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let audit = AuditLog::open(&folder.path().join("audit.jsonl")).expect("a log");
        let mut feed = audit.feed(3).await;
        for _ in 0..5 {
            audit.record(AuditRecord::begin("cli", "t"));
        }
        audit.flush().await;
        assert_eq!(feed.dropped().load(Ordering::Relaxed), 2);
        assert_eq!(audit.status().lost, 0, "the log has them");
        let first = feed.try_next().expect("a record");
        assert!(first.line.starts_with("{\"time\":"), "{}", first.line);
    }

    #[tokio::test]
    async fn at_the_end_a_target_that_is_away_gets_one_last_attempt() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let audit = AuditLog::open(&folder.path().join("audit.jsonl")).expect("a log");
        // Nothing listens at a path that is not there.
        let nowhere = folder.path().join("none").display().to_string();
        let target = SyslogTarget::unix(&nowhere, "host");
        let exporter = AuditExporter::start(&audit, vec![AuditTarget::Syslog(target)]).await;
        audit.record(AuditRecord::begin("cli", "t"));
        audit.close().await;
        let counters = exporter.counters.clone();
        exporter.finish().await;
        assert_eq!((counters[0].dropped(), counters[0].target), (1, "syslog"));
    }
}
