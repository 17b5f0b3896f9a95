//! The newest records of the audit log. A task reads the log when a page asks for it, and only what was added; pages that
//! no page shows cost nothing.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use switchboard::audit::log::{AuditRecord, AuditTail, STARTED};
use switchboard_config::entry::server::sha256;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::usage_report::{Period, UsageReport};

/// How much of the log the first read covers.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// How many records are kept.
const MAX_RECORDS: usize = 10_000;
/// The least time between two reads.
const READ_INTERVAL: Duration = Duration::from_millis(200);
/// How much of the log a usage report covers, and how long one is shown.
const MAX_USAGE_BYTES: u64 = 64 * 1024 * 1024;
const USAGE_TTL: Duration = Duration::from_secs(15);
/// The capacity of the command queue.
const COMMAND_CAPACITY: usize = 64;
/// The length of a call's id.
const ID_CHARS: usize = 20;

/// A call of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedCall {
    /// Identifies the call in links: a digest of the record.
    pub(crate) id: String,
    pub(crate) record: AuditRecord,
}

/// The newest calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallList {
    /// Oldest first.
    pub(crate) calls: VecDeque<Arc<RecordedCall>>,
    /// Whether the log has older calls.
    pub(crate) is_partial: bool,
    /// Why the log could not be read.
    pub(crate) failure: Option<String>,
}

/// The records. Clones share the task that reads them.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    commands: mpsc::Sender<Command>,
}

#[derive(Debug)]
enum Command {
    Calls(oneshot::Sender<Arc<CallList>>),
    Usage(Period, oneshot::Sender<Arc<UsageReport>>),
}

impl Records {
    /// The records of a log, and the task that reads it. It ends when the last clone is dropped.
    pub(crate) fn new(path: &Path) -> (Records, impl Future<Output = ()> + Send + use<>) {
        let (commands, receiver) = mpsc::channel(COMMAND_CAPACITY);
        let reader = Reader {
            path: path.to_owned(),
            tail: Some(AuditTail::new(path, MAX_BYTES)),
            read_at: None,
            calls: Arc::default(),
            usage: None,
        };
        (Records { commands }, reader.run(receiver))
    }

    /// The newest calls.
    pub(crate) async fn calls(&self) -> Arc<CallList> {
        let (reply, calls) = oneshot::channel();
        match self.commands.send(Command::Calls(reply)).await {
            Ok(()) => calls.await.unwrap_or_default(),
            Err(_) => Arc::default(),
        }
    }

    /// What was used in a period.
    pub(crate) async fn usage(&self, period: Period) -> Arc<UsageReport> {
        let (reply, report) = oneshot::channel();
        match self.commands.send(Command::Usage(period, reply)).await {
            Ok(()) => report.await.unwrap_or_default(),
            Err(_) => Arc::default(),
        }
    }
}

struct Reader {
    path: PathBuf,
    /// None while a thread reads.
    tail: Option<AuditTail>,
    read_at: Option<Instant>,
    calls: Arc<CallList>,
    usage: Option<(Period, Instant, Arc<UsageReport>)>,
}

impl Reader {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        while let Some(command) = commands.recv().await {
            match command {
                Command::Calls(reply) => {
                    self.read_new().await;
                    let _reader_gone = reply.send(self.calls.clone());
                }
                Command::Usage(period, reply) => {
                    let _reader_gone = reply.send(self.usage(period).await);
                }
            }
        }
    }

    async fn read_new(&mut self) {
        if self.read_at.is_some_and(|it| it.elapsed() < READ_INTERVAL) {
            return;
        }
        let path = self.path.clone();
        let mut tail = self.tail.take().unwrap_or_else(|| AuditTail::new(&path, MAX_BYTES));
        let reading = tokio::task::spawn_blocking(move || {
            let read = tail.read_new();
            (read, tail)
        });
        let Ok((read, tail)) = reading.await else { return };
        let is_partial = tail.is_partial();
        self.tail = Some(tail);
        self.read_at = Some(Instant::now());
        match read {
            Ok(records) if records.is_empty() && self.calls.failure.is_none() => {}
            Ok(records) => {
                let mut list = CallList::clone(&self.calls);
                list.failure = None;
                list.add(records);
                list.is_partial |= is_partial;
                self.calls = Arc::new(list);
            }
            Err(error) => {
                let list = CallList::clone(&self.calls);
                self.calls = Arc::new(CallList { failure: Some(error.to_string()), ..list });
            }
        }
    }

    async fn usage(&mut self, period: Period) -> Arc<UsageReport> {
        if let Some((of, at, report)) = &self.usage
            && *of == period
            && at.elapsed() < USAGE_TTL
        {
            return report.clone();
        }
        let path = self.path.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let mut tail = AuditTail::new(&path, MAX_USAGE_BYTES);
            match tail.read_new() {
                Ok(records) => UsageReport::of(&records, period, tail.is_partial()),
                Err(error) => UsageReport::failed(error.to_string()),
            }
        });
        let report = Arc::new(reading.await.unwrap_or_default());
        self.usage = Some((period, Instant::now(), report.clone()));
        report
    }
}

impl CallList {
    /// Adds records. The record of a call's end replaces that of its start.
    fn add(&mut self, records: Vec<AuditRecord>) {
        for record in records {
            if !record.id.is_empty() && record.outcome != STARTED {
                let is_start = |it: &Arc<RecordedCall>| {
                    it.record.outcome == STARTED && it.record.id == record.id
                };
                if let Some(at) = self.calls.iter().rposition(is_start) {
                    self.calls.remove(at);
                }
            }
            self.calls.push_back(Arc::new(RecordedCall { id: call_id(&record), record }));
        }
        while self.calls.len() > MAX_RECORDS {
            self.calls.pop_front();
            self.is_partial = true;
        }
    }

    /// The call with this id.
    pub(crate) fn find(&self, id: &str) -> Option<&Arc<RecordedCall>> {
        self.calls.iter().rev().find(|it| it.id == id)
    }
}

fn call_id(record: &AuditRecord) -> String {
    let json = serde_json::to_vec(record).unwrap_or_default();
    let digest = sha256(&json).to_string();
    digest.trim_start_matches("sha256:").chars().take(ID_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tool: &str, id: &str, outcome: &str) -> AuditRecord {
        let mut record = AuditRecord::begin("ada", "mcp__s__t");
        (record.tool, record.id, record.outcome) =
            (tool.to_owned(), id.to_owned(), outcome.to_owned());
        record
    }

    #[test]
    fn the_end_of_a_call_replaces_its_start_and_the_list_is_bounded() {
        let mut list = CallList::default();
        list.add(vec![record("a", "1", STARTED), record("b", "", "ok")]);
        list.add(vec![record("a", "1", "ok"), record("c", "2", STARTED)]);
        let shown: Vec<_> =
            list.calls.iter().map(|it| (&*it.record.tool, &*it.record.outcome)).collect();
        assert_eq!(shown, [("b", "ok"), ("a", "ok"), ("c", STARTED)]);
        let found = list.find(&list.calls[1].id).expect("it is there");
        assert_eq!(found.record.tool, "a");
        assert!(!list.is_partial);
        list.add((0..MAX_RECORDS).map(|it| record(&it.to_string(), "", "ok")).collect());
        assert_eq!(list.calls.len(), MAX_RECORDS);
        assert!(list.is_partial);
    }
}
