//! The audit log: caller, tool, decision and outcome of each call, one JSON line per call, append-only. Arguments are
//! stored only as a digest.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::thread;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use switchboard_config::entry::server::sha256;
use tokio::sync::{oneshot, watch};

use crate::sources::atomic_file;
use crate::storage::stderr_log::utc_timestamp;

/// The size at which the file is rotated.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// How many rotated files are kept.
const MAX_ROTATED_FILES: usize = 8;
/// How many records may wait for the disk before callers wait too: no record is dropped.
const QUEUE_CAPACITY: usize = 1024;
/// The maximum time to collect records before they are written together.
const BATCH_DELAY: Duration = Duration::from_millis(10);
/// The minimum time to collect records.
const MIN_BATCH_DELAY: Duration = Duration::from_micros(500);

/// The record of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// The start time in UTC.
    pub time: String,
    /// The caller: `cli`, or a client's name.
    pub caller: String,
    /// The server.
    pub server: String,
    /// The tool's name on the server.
    pub tool: String,
    /// The name that the caller used.
    pub exposed: String,
    /// The SHA-256 digest of the arguments, independent of key order and spacing.
    pub arguments: String,
    /// `allow` or `deny`.
    pub decision: String,
    /// The rules' verdict before the user is asked: `allow`, `ask` or `deny`. Empty if the call failed earlier, and
    /// in records of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verdict: String,
    /// What decided: a rule, the user or a mode.
    pub because: String,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The id of a [`CallOutcome`].
    pub outcome: String,
    /// The origin of a client's call. Empty in records of older versions.
    #[serde(flatten)]
    pub origin: RequestOrigin,
}

/// The origin of a client's call. Unknown parts are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOrigin {
    /// A value derived from the session id. The id itself is a credential.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The client's request id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// The trace id in hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace: String,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The tool returned a result.
    Succeeded,
    /// The tool ran and reported an error.
    ToolError,
    /// The call was not permitted.
    Denied,
    /// The tool does not exist or the arguments are invalid.
    Invalid,
    /// The request to the server failed.
    Failed,
    /// The server did not respond in time.
    Timeout,
    /// The caller cancelled the call.
    Cancelled,
}

impl CallOutcome {
    /// All outcomes, in the order of declaration.
    pub const ALL: [CallOutcome; 7] = [
        CallOutcome::Succeeded,
        CallOutcome::ToolError,
        CallOutcome::Denied,
        CallOutcome::Invalid,
        CallOutcome::Failed,
        CallOutcome::Timeout,
        CallOutcome::Cancelled,
    ];

    /// The identifier in records.
    pub fn id(self) -> &'static str {
        match self {
            CallOutcome::Succeeded => "ok",
            CallOutcome::ToolError => "tool-error",
            CallOutcome::Denied => "denied",
            CallOutcome::Invalid => "invalid",
            CallOutcome::Failed => "failed",
            CallOutcome::Timeout => "timeout",
            CallOutcome::Cancelled => "cancelled",
        }
    }
}

impl AuditRecord {
    /// A record of a call that starts now.
    pub fn begin(caller: &str, exposed: &str) -> AuditRecord {
        AuditRecord {
            time: utc_timestamp(SystemTime::now()),
            caller: caller.to_owned(),
            server: String::new(),
            tool: String::new(),
            exposed: exposed.to_owned(),
            arguments: String::new(),
            decision: "deny".to_owned(),
            verdict: String::new(),
            because: String::new(),
            duration_ms: 0,
            outcome: CallOutcome::Cancelled.id().to_owned(),
            origin: RequestOrigin::default(),
        }
    }

    /// Sets the duration.
    pub fn with_duration(mut self, duration: Duration) -> AuditRecord {
        self.duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self
    }
}

/// A digest of arguments, independent of key order and spacing.
pub fn digest(arguments: &Json) -> String {
    let mut text = Vec::with_capacity(128);
    canonical(arguments, &mut text);
    let mut digest = String::with_capacity(80);
    digest.push_str("sha256:");
    digest.push_str(&sha256(&text));
    digest
}

/// Writes JSON with sorted keys and without whitespace.
fn canonical(value: &Json, text: &mut Vec<u8>) {
    match value {
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            text.push(b'{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_json(name, text);
                text.push(b':');
                canonical(value, text);
            }
            text.push(b'}');
        }
        Json::Array(items) => {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                canonical(item, text);
            }
            text.push(b']');
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => write_json(value, text),
    }
}

fn write_json(value: &(impl Serialize + ?Sized), text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("a name or a value can be written to memory");
}

/// A handle to the audit log. Clones share the writer thread.
#[derive(Debug, Clone)]
pub struct AuditLog {
    to_disk: blocking::SyncSender<AuditCommand>,
    writer: thread::Thread,
    lost: watch::Receiver<LostRecords>,
}

/// Records that could not be written.
#[derive(Debug, Clone, Default)]
pub struct LostRecords {
    /// How many.
    pub count: u64,
    /// The error of the last one.
    pub error: Option<Arc<io::Error>>,
}

#[derive(Debug)]
enum AuditCommand {
    Append(Box<AuditRecord>),
    Flush(oneshot::Sender<()>),
}

impl AuditLog {
    /// Writes records to a file, which is created with the first record.
    pub fn open(path: &Path) -> io::Result<AuditLog> {
        let (to_disk, commands) = blocking::sync_channel(QUEUE_CAPACITY);
        let (lost_sender, lost) = watch::channel(LostRecords::default());
        let writer = Writer { path: path.to_owned(), max_bytes: MAX_FILE_BYTES };
        // The thread ends when the last handle is dropped; `flush` waits for pending writes.
        let builder = thread::Builder::new().name("audit".to_owned());
        let thread = builder.spawn(move || writer.run(&commands, &lost_sender))?;
        Ok(AuditLog { to_disk, writer: thread.thread().clone(), lost })
    }

    /// Queues a record without blocking. If the queue is full, a separate thread waits for room.
    pub fn record(&self, record: AuditRecord) {
        if let Err(blocking::TrySendError::Full(command)) =
            self.to_disk.try_send(AuditCommand::Append(Box::new(record)))
        {
            let to_disk = self.to_disk.clone();
            thread::spawn(move || to_disk.send(command));
        }
    }

    /// The records lost so far because of write errors. Callers should report them.
    pub fn lost_records(&self) -> LostRecords {
        self.lost.borrow().clone()
    }

    /// Waits until all records so far are written or lost.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let AuditLog { to_disk, writer, .. } = self.clone();
        let sent = tokio::task::spawn_blocking(move || {
            let is_sent = to_disk.send(AuditCommand::Flush(done)).is_ok();
            writer.unpark();
            is_sent
        });
        if sent.await.unwrap_or(false) {
            let _writer_gone = flushed.await;
        }
    }
}

/// A record as a JSON line. Serialization of a record cannot fail.
fn to_json_line(record: &AuditRecord) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).unwrap_or_default();
    line.push(b'\n');
    line
}

struct Writer {
    path: PathBuf,
    max_bytes: u64,
}

impl Writer {
    fn run(self, commands: &blocking::Receiver<AuditCommand>, lost: &watch::Sender<LostRecords>) {
        let (mut file, mut delay) = (None, BATCH_DELAY);
        while let Ok(first) = commands.recv() {
            let (mut lines, mut count) = (Vec::new(), 0);
            let mut flush_replies = Vec::new();
            for command in std::iter::once(first).chain(commands.try_iter().take(QUEUE_CAPACITY)) {
                match command {
                    AuditCommand::Append(record) => {
                        lines.extend(to_json_line(&record));
                        count += 1;
                    }
                    AuditCommand::Flush(done) => flush_replies.push(done),
                }
            }
            if !lines.is_empty() {
                // A full disk must not stop calls; the next batch tries to open the file again.
                file = match self.append(file, &lines) {
                    Ok(file) => Some(file),
                    Err(error) => {
                        lost.send_modify(|it| {
                            it.count += count;
                            it.error = Some(Arc::new(error));
                        });
                        None
                    }
                };
            }
            if flush_replies.is_empty() {
                // Waking the writer for each record would cost callers more than the write itself.
                delay = next_batch_delay(delay, count);
                thread::park_timeout(delay);
            }
            for done in flush_replies {
                let _receiver_dropped = done.send(());
            }
        }
    }

    /// Appends whole lines in one write, so that several processes can share the file.
    fn append(&self, file: Option<File>, lines: &[u8]) -> io::Result<File> {
        let mut file = match file {
            Some(file) => file,
            None => atomic_file::open_append(&self.path)?,
        };
        file.write_all(lines)?;
        match file.metadata()?.len() >= self.max_bytes {
            true => {
                drop(file);
                self.rotate()?;
                atomic_file::open_append(&self.path)
            }
            false => Ok(file),
        }
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (1..MAX_ROTATED_FILES).rev() {
            let older = rotated_path(&self.path, number);
            if older.exists() {
                fs::rename(older, rotated_path(&self.path, number + 1))?;
            }
        }
        fs::rename(&self.path, rotated_path(&self.path, 1))
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

fn rotated_path(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Reads all stored records, oldest first. Skips invalid lines. Blocks.
pub fn read(path: &Path) -> io::Result<Vec<AuditRecord>> {
    let files = (1..=MAX_ROTATED_FILES).rev().map(|number| rotated_path(path, number));
    let mut records = Vec::new();
    for file in files.chain([path.to_owned()]) {
        match File::open(&file) {
            Ok(file) => {
                for line in BufReader::new(file).lines() {
                    records.extend(serde_json::from_str::<AuditRecord>(&line?));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(tool: &str) -> AuditRecord {
        AuditRecord { tool: tool.to_owned(), ..AuditRecord::begin("cli", "mcp__s__t") }
    }

    #[test]
    fn a_digest_does_not_depend_on_key_order_or_spacing() {
        let one: Json =
            serde_json::from_str(r#"{"b": [1, {"y": 2, "x": "é"}], "a": null}"#).expect("JSON");
        let other = json!({"a": null, "b": [1, {"x": "é", "y": 2}]});
        assert_eq!(digest(&one), digest(&other));
        assert_ne!(digest(&one), digest(&json!({"a": null, "b": [{"x": "é", "y": 2}, 1]})));
    }

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
    async fn records_that_cannot_be_written_are_counted() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        fs::create_dir(&path).expect("a folder where the file should be");
        let audit = AuditLog::open(&path).expect("a thread can be started");
        assert_eq!(audit.lost_records().count, 0);
        audit.record(record("a"));
        audit.record(record("b"));
        audit.flush().await;
        let lost = audit.lost_records();
        assert_eq!(lost.count, 2);
        assert!(lost.error.is_some());
        fs::remove_dir(&path).expect("it is empty");
        audit.record(record("c"));
        audit.flush().await;
        assert_eq!((audit.lost_records().count, read(&path).expect("read").len()), (2, 1));
    }

    #[test]
    fn full_files_are_rotated_and_the_oldest_is_removed() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        let writer = Writer { path: path.clone(), max_bytes: 1000 };
        let mut file = None;
        for number in 0..200 {
            let line = to_json_line(&record(&number.to_string()));
            file = Some(writer.append(file, &line).expect("written"));
        }
        let records = read(&path).expect("read");
        assert_eq!(records.last().map(|it| it.tool.as_str()), Some("199"));
        assert!(
            records.len() < 100 && !rotated_path(&path, MAX_ROTATED_FILES + 1).exists(),
            "{}",
            records.len()
        );
        let numbers: Vec<usize> =
            records.iter().map(|it| it.tool.parse().expect("a number")).collect();
        assert!(numbers.is_sorted());
    }

    #[test]
    fn a_record_contains_only_known_parts_of_its_origin() {
        let plain = serde_json::to_string(&record("a")).expect("JSON");
        assert!(!plain.contains("session") && !plain.contains("trace"), "{plain}");
        let mut known = record("a");
        known.origin.request = "7".to_owned();
        let text = serde_json::to_string(&known).expect("JSON");
        assert!(text.contains(r#""request":"7""#), "{text}");
        assert_eq!(serde_json::from_str::<AuditRecord>(&text).expect("a record"), known);
        assert_eq!(serde_json::from_str::<AuditRecord>(&plain).expect("a record"), record("a"));
    }

    #[test]
    fn an_invalid_line_is_skipped() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        let good = serde_json::to_string(&record("a")).expect("JSON");
        fs::write(&path, format!("nonsense\n{good}\n{{\"half\":")).expect("written");
        assert_eq!(read(&path).expect("read").len(), 1);
    }
}
