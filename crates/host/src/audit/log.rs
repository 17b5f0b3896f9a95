//! Who asked which tool for what, what was decided and how it ended: one line a call, appended and never changed.
//! Arguments are there as a digest, not as they are.

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

/// A file that is larger than this is put aside.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// How many files that were put aside are kept.
const MAX_ROTATED_FILES: usize = 8;
/// How many records may wait for the disk before callers wait too: nothing is left out here.
const QUEUE_CAPACITY: usize = 1024;
/// Records that come this close together are written together, where they are not too many for that.
const BATCH_DELAY: Duration = Duration::from_millis(10);
/// The shortest such time.
const MIN_BATCH_DELAY: Duration = Duration::from_micros(500);

/// One call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// When it began, in UTC.
    pub time: String,
    /// Who asked: `cli`, or a client's name.
    pub caller: String,
    /// The server.
    pub server: String,
    /// The tool, by the server's own name.
    pub tool: String,
    /// The name that the caller used.
    pub exposed: String,
    /// SHA-256 over the arguments in a form that does not depend on order or spacing.
    pub arguments: String,
    /// `allow` or `deny`.
    pub decision: String,
    /// What the rules said before anybody was asked: `allow`, `ask` or `deny`; empty where it did not come to that,
    /// and in records of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verdict: String,
    /// What decided: a rule, a person, a mode.
    pub because: String,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// `ok`, `tool-error`, `denied`, `invalid`, `failed`, `timeout`, `cancelled`.
    pub outcome: String,
    /// Where a client's call came from. Nothing of it in records of older versions.
    #[serde(flatten)]
    pub origin: RequestOrigin,
}

/// Where a client's call came from, as far as that is known. Each is empty where it is not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOrigin {
    /// The session: not its name, which lets people in, but something made of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The request, as the client calls it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// The trace that it belongs to, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace: String,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// Well.
    Succeeded,
    /// The tool ran and says that it failed.
    ToolError,
    /// It was not permitted.
    Denied,
    /// It made no sense.
    Invalid,
    /// The server did not do it.
    Failed,
    /// The server took too long.
    Timeout,
    /// Nobody waited for it any more.
    Cancelled,
}

impl CallOutcome {
    /// Every way, in the order of declaration.
    pub const ALL: [CallOutcome; 7] = [
        CallOutcome::Succeeded,
        CallOutcome::ToolError,
        CallOutcome::Denied,
        CallOutcome::Invalid,
        CallOutcome::Failed,
        CallOutcome::Timeout,
        CallOutcome::Cancelled,
    ];

    /// The word for it in records.
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
    /// A record that begins now.
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

    /// The same, so long after it began.
    pub fn with_duration(mut self, duration: Duration) -> AuditRecord {
        self.duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self
    }
}

/// A digest of arguments: the same for the same values, however they are written.
pub fn digest(arguments: &Json) -> String {
    let mut text = Vec::with_capacity(128);
    canonical(arguments, &mut text);
    let mut digest = String::with_capacity(80);
    digest.push_str("sha256:");
    digest.push_str(&sha256(&text));
    digest
}

/// JSON with its members in order and nothing between its tokens.
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

/// Where records go. Clones share the thread that writes.
#[derive(Debug, Clone)]
pub struct AuditLog {
    to_disk: blocking::SyncSender<AuditCommand>,
    writer: thread::Thread,
    lost: watch::Receiver<LostRecords>,
}

/// Records that the disk did not take.
#[derive(Debug, Clone, Default)]
pub struct LostRecords {
    /// How many.
    pub count: u64,
    /// What it said to the last one.
    pub error: Option<Arc<io::Error>>,
}

#[derive(Debug)]
enum AuditCommand {
    Append(Box<AuditRecord>),
    Flush(oneshot::Sender<()>),
}

impl AuditLog {
    /// Keeps records in a file, which is made with the first.
    pub fn open(path: &Path) -> io::Result<AuditLog> {
        let (to_disk, commands) = blocking::sync_channel(QUEUE_CAPACITY);
        let (say, refused) = watch::channel(LostRecords::default());
        let writer = Writer { path: path.to_owned(), max_bytes: MAX_FILE_BYTES };
        // Ends when the last handle is dropped; `settle` waits for what is under way.
        let begun = thread::Builder::new().name("audit".to_owned());
        let begun = begun.spawn(move || writer.run(&commands, &say))?;
        Ok(AuditLog { to_disk, writer: begun.thread().clone(), lost: refused })
    }

    /// Adds a record. Nobody waits: where the disk is very slow, a thread of its own does.
    pub fn record(&self, record: AuditRecord) {
        if let Err(blocking::TrySendError::Full(command)) =
            self.to_disk.try_send(AuditCommand::Append(Box::new(record)))
        {
            let to_disk = self.to_disk.clone();
            thread::spawn(move || to_disk.send(command));
        }
    }

    /// The records that are lost because the disk did not take them, so far. Somebody should hear of it.
    pub fn lost_records(&self) -> LostRecords {
        self.lost.borrow().clone()
    }

    /// Comes back when everything so far is on disk, or refused.
    pub async fn flush(&self) {
        let (done, settled) = oneshot::channel();
        let AuditLog { to_disk, writer, .. } = self.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let is_asked = to_disk.send(AuditCommand::Flush(done)).is_ok();
            writer.unpark();
            is_asked
        });
        if asked.await.unwrap_or(false) {
            let _writer_gone = settled.await;
        }
    }
}

/// A record as it is written. One that cannot be written as JSON does not exist.
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
    fn run(
        self,
        commands: &blocking::Receiver<AuditCommand>,
        refused: &watch::Sender<LostRecords>,
    ) {
        let (mut file, mut pause) = (None, BATCH_DELAY);
        while let Ok(first) = commands.recv() {
            let (mut lines, mut count) = (Vec::new(), 0);
            let mut waiting = Vec::new();
            for command in std::iter::once(first).chain(commands.try_iter().take(QUEUE_CAPACITY)) {
                match command {
                    AuditCommand::Append(record) => {
                        lines.extend(to_json_line(&record));
                        count += 1;
                    }
                    AuditCommand::Flush(done) => waiting.push(done),
                }
            }
            if !lines.is_empty() {
                // A disk that is full must not stop the work; the next records try anew.
                file = match self.append(file, &lines) {
                    Ok(file) => Some(file),
                    Err(error) => {
                        refused.send_modify(|it| {
                            it.count += count;
                            it.error = Some(Arc::new(error));
                        });
                        None
                    }
                };
            }
            if waiting.is_empty() {
                // Being woken for each of many records costs their callers more than all the rest.
                pause = next_batch_delay(pause, count);
                thread::park_timeout(pause);
            }
            for done in waiting {
                let _nobody_waits = done.send(());
            }
        }
    }

    /// Whole lines in one write, so that several processes can append to one file.
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

/// How long to gather records after so many came: shorter before there is no room for more, as callers wait then.
fn next_batch_delay(pause: Duration, count: u64) -> Duration {
    let room = QUEUE_CAPACITY as u64;
    match count {
        _ if count > room / 2 => (pause / 2).max(MIN_BATCH_DELAY),
        _ if count < room / 8 => (pause * 2).min(BATCH_DELAY),
        _ => pause,
    }
}

fn rotated_path(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Every record that is kept, the oldest first. A line that is none is passed over. Blocks.
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
    fn arguments_have_one_digest_however_they_are_written() {
        let one: Json =
            serde_json::from_str(r#"{"b": [1, {"y": 2, "x": "é"}], "a": null}"#).expect("JSON");
        let other = json!({"a": null, "b": [1, {"x": "é", "y": 2}]});
        assert_eq!(digest(&one), digest(&other));
        assert_ne!(digest(&one), digest(&json!({"a": null, "b": [{"x": "é", "y": 2}, 1]})));
    }

    #[test]
    fn there_is_room_for_more_before_callers_have_to_wait() {
        // As many come as go through without waiting, and more than fit into one pause.
        let a_second = 200_000;
        let mut pause = BATCH_DELAY;
        let came = |pause: Duration| pause.as_micros() as u64 * a_second / 1_000_000;
        for _ in 0..10 {
            pause = next_batch_delay(pause, came(pause).min(QUEUE_CAPACITY as u64 + 1));
        }
        assert!(came(pause) < QUEUE_CAPACITY as u64, "{pause:?}");
        for _ in 0..10 {
            pause = next_batch_delay(pause, 1);
        }
        assert_eq!(pause, BATCH_DELAY);
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
    async fn records_that_the_disk_refuses_are_counted() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        fs::create_dir(&path).expect("a folder where the file should be");
        let audit = AuditLog::open(&path).expect("a thread can be started");
        assert_eq!(audit.lost_records().count, 0);
        audit.record(record("a"));
        audit.record(record("b"));
        audit.flush().await;
        let refused = audit.lost_records();
        assert_eq!(refused.count, 2);
        assert!(refused.error.is_some());
        fs::remove_dir(&path).expect("it is empty");
        audit.record(record("c"));
        audit.flush().await;
        assert_eq!((audit.lost_records().count, read(&path).expect("read").len()), (2, 1));
    }

    #[test]
    fn old_files_are_put_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        let writer = Writer { path: path.clone(), max_bytes: 1000 };
        let mut file = None;
        for number in 0..200 {
            let line = to_json_line(&record(&number.to_string()));
            file = Some(writer.append(file, &line).expect("written"));
        }
        let kept = read(&path).expect("read");
        assert_eq!(kept.last().map(|it| it.tool.as_str()), Some("199"));
        assert!(
            kept.len() < 100 && !rotated_path(&path, MAX_ROTATED_FILES + 1).exists(),
            "{}",
            kept.len()
        );
        let numbers: Vec<usize> =
            kept.iter().map(|it| it.tool.parse().expect("a number")).collect();
        assert!(numbers.is_sorted());
    }

    #[test]
    fn a_record_says_where_it_came_from_only_where_that_is_known() {
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
    fn a_line_that_is_no_record_hides_no_other() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        let good = serde_json::to_string(&record("a")).expect("JSON");
        fs::write(&path, format!("nonsense\n{good}\n{{\"half\":")).expect("written");
        assert_eq!(read(&path).expect("read").len(), 1);
    }
}
