//! Conversations on disk: one file per conversation, one line per message, readable by the owner only. An incomplete
//! line is skipped, and a conversation that was cut off is repaired when it is read.

mod repair;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::json;
use switchboard::config::entry::server::sha256;
use switchboard::sources::{Paths, atomic_file};
use switchboard::utc_timestamp;
use thiserror::Error;

use crate::message::{ContentBlock, Message};
use repair::repaired;

/// How many transcripts of one project are kept.
const MAX_TRANSCRIPTS: usize = 200;
/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;
/// The largest first line.
const MAX_HEAD_BYTES: u64 = 64 * 1024;
/// The length of a preview, in characters.
const PREVIEW_CHARS: usize = 120;
const EXTENSION: &str = "jsonl";

/// The transcripts of one project.
#[derive(Debug, Clone)]
pub struct TranscriptStore {
    folder: PathBuf,
    project: PathBuf,
}

/// A transcript in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptSummary {
    /// Its id.
    pub id: String,
    /// When the last message was written.
    pub modified: SystemTime,
    /// The start of the user's first message.
    pub preview: String,
    /// The number of messages.
    pub messages: usize,
}

/// Why a conversation cannot be continued.
#[derive(Debug, Error)]
pub enum TranscriptError {
    /// There is none with this id.
    #[error("there is no conversation `{0}` in this project")]
    NotFound(String),
    /// The id is none.
    #[error("`{0}` cannot be the id of a conversation")]
    InvalidId(String),
    /// There is one with this id already.
    #[error("there is already a conversation `{0}` in this project")]
    Exists(String),
    /// A copy cannot be written.
    #[error("the copy of the conversation cannot be written")]
    NotWritten(#[from] io::Error),
    /// There is none at all.
    #[error("there is no conversation in this project yet")]
    Empty,
    /// It cannot be read.
    #[error("the conversation `{id}` cannot be read")]
    Unreadable {
        /// Its id.
        id: String,
        /// The error.
        #[source]
        error: io::Error,
    },
}

impl TranscriptStore {
    /// The transcripts of the project at `root`.
    pub fn for_project(paths: &Paths, root: &Path) -> TranscriptStore {
        TranscriptStore { folder: paths.conversations(root), project: root.to_owned() }
    }

    /// All transcripts, the last used first. Unreadable ones are left out.
    pub fn list(&self) -> io::Result<Vec<TranscriptSummary>> {
        let mut all: Vec<TranscriptSummary> =
            self.files()?.into_iter().filter_map(summary).collect();
        all.sort_by(|a, b| (b.modified, &b.id).cmp(&(a.modified, &a.id)));
        Ok(all)
    }

    /// A new transcript. Its file is created with the first message.
    pub fn create(&self) -> Transcript {
        self.new_transcript(new_id(), Persistence::Saved)
    }

    /// A new transcript with this id, which must be unused.
    pub fn create_with_id(&self, id: &str) -> Result<Transcript, TranscriptError> {
        if !is_id(id) {
            return Err(TranscriptError::InvalidId(id.chars().take(80).collect()));
        }
        if self.path(id).symlink_metadata().is_ok() {
            return Err(TranscriptError::Exists(id.to_owned()));
        }
        Ok(self.new_transcript(id.to_owned(), Persistence::Saved))
    }

    /// A transcript that is never written to disk.
    pub fn create_unsaved(&self) -> Transcript {
        self.new_transcript(new_id(), Persistence::Unsaved)
    }

    fn new_transcript(&self, id: String, persistence: Persistence) -> Transcript {
        Transcript { store: self.clone(), id, persistence, file: None }
    }

    /// All transcripts of all projects with the folder of each, the last used first. Unreadable ones are left out.
    pub fn list_all(paths: &Paths) -> io::Result<Vec<(PathBuf, TranscriptSummary)>> {
        let folder = paths.all_conversations();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::new();
        for folder in entries.filter_map(|it| Some(it.ok()?.path())) {
            let store = TranscriptStore { folder, project: PathBuf::new() };
            // A folder that disappears meanwhile has no transcripts.
            for path in store.files().unwrap_or_default() {
                if let Some(project) = project_of(&path)
                    && let Some(summary) = summary(path)
                {
                    all.push((project, summary));
                }
            }
        }
        all.sort_by(|(_, a), (_, b)| (b.modified, &b.id).cmp(&(a.modified, &a.id)));
        Ok(all)
    }

    /// Opens the last used transcript and reads its messages.
    pub fn resume_last(&self) -> Result<(Transcript, Vec<Message>), TranscriptError> {
        let files = self.files().unwrap_or_default();
        let when = |path: &PathBuf| path.metadata().and_then(|it| it.modified()).ok();
        let last = files.into_iter().max_by_key(|path| (when(path), path.clone()));
        let id = last.and_then(|path| id_of(&path)).ok_or(TranscriptError::Empty)?;
        self.resume(&id)
    }

    /// Opens the transcript of this id and reads its messages.
    pub fn resume(&self, id: &str) -> Result<(Transcript, Vec<Message>), TranscriptError> {
        let not_found = || TranscriptError::NotFound(id.chars().take(80).collect());
        if !is_id(id) {
            return Err(not_found());
        }
        let path = self.path(id);
        let unreadable = |error| TranscriptError::Unreadable { id: id.to_owned(), error };
        let messages = match read(&path) {
            Ok(messages) => messages,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_found()),
            Err(error) => return Err(unreadable(error)),
        };
        let file = open_for_append(&path).map_err(unreadable)?;
        let transcript = Transcript {
            file: Some(file),
            ..self.new_transcript(id.to_owned(), Persistence::Saved)
        };
        Ok((transcript, repaired(messages)))
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(id).with_extension(EXTENSION)
    }

    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let paths = entries.filter_map(|it| Some(it.ok()?.path()));
        Ok(paths.filter(|path| id_of(path).is_some()).collect())
    }

    /// Deletes the oldest transcripts beyond the limit.
    fn prune(&self) {
        let mut files = self.files().unwrap_or_default();
        let when = |path: &PathBuf| path.metadata().and_then(|it| it.modified()).ok();
        files.sort_by_key(when);
        let surplus = files.len().saturating_sub(MAX_TRANSCRIPTS);
        for old in &files[..surplus] {
            let _gone_already = fs::remove_file(old);
        }
    }
}

/// A transcript that messages are appended to.
#[derive(Debug)]
pub struct Transcript {
    store: TranscriptStore,
    /// Its id, also while there is no message.
    id: String,
    persistence: Persistence,
    /// Its file, once there is a message.
    file: Option<File>,
}

/// Whether a transcript is written to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Persistence {
    Saved,
    Unsaved,
}

impl Transcript {
    /// The id under which it can be continued, once there is a message.
    pub fn id(&self) -> Option<&str> {
        self.file.as_ref().map(|_| self.id.as_str())
    }

    /// Its id, also while there is no message, and where it is not saved.
    pub fn session_id(&self) -> &str {
        &self.id
    }

    /// The path of its file, also while there is none.
    pub fn path(&self) -> PathBuf {
        self.store.path(&self.id)
    }

    /// An empty transcript of the same project.
    pub fn restarted(self) -> Transcript {
        self.store.new_transcript(new_id(), self.persistence)
    }

    /// The transcript with these messages, as the copy of another one. Blocks.
    pub fn with_messages(mut self, messages: &[Message]) -> Result<Transcript, TranscriptError> {
        for message in messages {
            self.append(message)?;
        }
        Ok(self)
    }

    /// Appends a message. Blocks.
    pub fn append(&mut self, message: &Message) -> io::Result<()> {
        match (self.persistence, &self.file) {
            (Persistence::Unsaved, _) => return Ok(()),
            (Persistence::Saved, Some(_)) => {}
            (Persistence::Saved, None) => {
                self.file = Some(self.create_file()?);
                self.store.prune();
            }
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let line =
            TranscriptLine { at: utc_timestamp(SystemTime::now()), message: message.clone() };
        write_line(file, &serde_json::to_string(&line)?)
    }

    fn create_file(&self) -> io::Result<File> {
        let mut file = atomic_file::open_append(&self.store.path(&self.id))?;
        let began = utc_timestamp(SystemTime::now());
        let head = json!({"conversation": 1, "began": began, "folder": self.store.project});
        write_line(&mut file, &head.to_string())?;
        Ok(file)
    }
}

#[derive(Serialize, Deserialize)]
struct TranscriptLine {
    at: String,
    #[serde(flatten)]
    message: Message,
}

/// Writes a line with one call, so that lines of two processes do not mix.
fn write_line(file: &mut File, line: &str) -> io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())
}

/// A new id: the time, and a hash that differs between processes.
fn new_id() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now();
    let when: String = utc_timestamp(now).chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let seed = format!("{now:?} {} {count}", std::process::id());
    format!("{when}-{}", &sha256(seed.as_bytes())[..8])
}

fn is_id(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !text.is_empty() && text.len() <= 64 && text.chars().all(plain)
}

fn id_of(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    (path.extension()? == EXTENSION && is_id(stem)).then(|| stem.to_owned())
}

/// Opens a file for appending. Ends an incomplete last line first.
fn open_for_append(path: &Path) -> io::Result<File> {
    let mut reading = File::open(path)?;
    let length = reading.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        reading.seek(SeekFrom::End(-1))?;
        reading.read_exact(&mut last)?;
    }
    let mut file = atomic_file::open_append(path)?;
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

fn read(path: &Path) -> io::Result<Vec<Message>> {
    let file = File::open(path)?;
    if file.metadata()?.len() > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    let mut messages = Vec::new();
    for line in BufReader::new(file.take(MAX_FILE_BYTES)).split(b'\n') {
        // Incomplete and foreign lines are skipped.
        if let Ok(line) = serde_json::from_slice::<TranscriptLine>(&line?) {
            messages.push(line.message);
        }
    }
    Ok(messages)
}

/// The project that a transcript names in its first line.
fn project_of(path: &Path) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Head {
        folder: PathBuf,
    }
    let mut line = Vec::new();
    let mut reader = BufReader::new(File::open(path).ok()?.take(MAX_HEAD_BYTES));
    reader.read_until(b'\n', &mut line).ok()?;
    Some(serde_json::from_slice::<Head>(&line).ok()?.folder)
}

fn summary(path: PathBuf) -> Option<TranscriptSummary> {
    let id = id_of(&path)?;
    let file = File::open(&path).ok()?;
    let when = file.metadata().ok()?.modified().ok()?;
    let (mut messages, mut preview) = (0, String::new());
    for line in BufReader::new(file.take(MAX_FILE_BYTES)).split(b'\n') {
        let line = line.ok()?;
        if preview.is_empty() {
            let Ok(line) = serde_json::from_slice::<TranscriptLine>(&line) else { continue };
            preview = first_text(&line.message);
            messages += 1;
        } else if !line.is_empty() {
            messages += 1;
        }
    }
    Some(TranscriptSummary { id, modified: when, preview, messages })
}

fn first_text(message: &Message) -> String {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => Some(text.clone()),
        ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolUse(_)
        | ContentBlock::ToolResult(_) => None,
    };
    let text = message.content.iter().find_map(text).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(PREVIEW_CHARS).collect()
}
