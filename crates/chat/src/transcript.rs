//! Conversations on disk: a file each, a line an utterance, added as it is said. Only the owner can read them. A line
//! that was not finished costs that line alone, and a conversation that was cut off is mended when it is read.

mod repair;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::json;
use switchboard::config::entry::server::sha256;
use switchboard::sources::atomic_file;
use switchboard::sources::paths::Paths;
use switchboard::storage::stderr_log::utc_timestamp;
use thiserror::Error;

use crate::message::{ContentBlock, Message};
use repair::repaired;

/// How many conversations of one project are kept.
const MAX_TRANSCRIPTS: usize = 200;
/// The largest record that is read.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;
/// How much of the first words is listed, in characters.
const PREVIEW_CHARS: usize = 120;
const EXTENSION: &str = "jsonl";

/// The conversations of one project.
#[derive(Debug, Clone)]
pub struct TranscriptStore {
    folder: PathBuf,
    project: PathBuf,
}

/// A conversation that was had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptSummary {
    /// What it is called.
    pub id: String,
    /// When something was last said.
    pub modified: SystemTime,
    /// What the person said first.
    pub preview: String,
    /// How many utterances it has.
    pub messages: usize,
}

/// Why a conversation cannot be gone on with.
#[derive(Debug, Error)]
pub enum TranscriptError {
    /// There is none of that name.
    #[error("there is no conversation `{0}` in this project")]
    NotFound(String),
    /// There is none at all.
    #[error("there is no conversation in this project yet")]
    Empty,
    /// It cannot be read.
    #[error("the conversation `{id}` cannot be read")]
    Unreadable {
        /// Which.
        id: String,
        /// Why.
        #[source]
        error: io::Error,
    },
}

impl TranscriptStore {
    /// Those of the project at `root`.
    pub fn for_project(paths: &Paths, root: &Path) -> TranscriptStore {
        TranscriptStore { folder: paths.conversations(root), project: root.to_owned() }
    }

    /// All of them, the one that was last spoken in first. What cannot be read is left out.
    pub fn list(&self) -> io::Result<Vec<TranscriptSummary>> {
        let mut all: Vec<TranscriptSummary> =
            self.files()?.into_iter().filter_map(summary).collect();
        all.sort_by(|a, b| (b.modified, &b.id).cmp(&(a.modified, &a.id)));
        Ok(all)
    }

    /// A new one. Its file is made when something is said.
    pub fn create(&self) -> Transcript {
        Transcript { store: self.clone(), file: None }
    }

    /// The one that was last spoken in, to go on with.
    pub fn resume_last(&self) -> Result<(Transcript, Vec<Message>), TranscriptError> {
        let files = self.files().unwrap_or_default();
        let when = |path: &PathBuf| path.metadata().and_then(|it| it.modified()).ok();
        let last = files.into_iter().max_by_key(|path| (when(path), path.clone()));
        let id = last.and_then(|path| id_of(&path)).ok_or(TranscriptError::Empty)?;
        self.resume(&id)
    }

    /// One by its name, to go on with.
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
        let transcript = Transcript { store: self.clone(), file: Some((id.to_owned(), file)) };
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

    /// The oldest go when there are too many. Names begin with the time.
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

/// A conversation as it is written down.
#[derive(Debug)]
pub struct Transcript {
    store: TranscriptStore,
    /// There once something was said.
    file: Option<(String, File)>,
}

impl Transcript {
    /// What it is called, once something was said.
    pub fn id(&self) -> Option<&str> {
        self.file.as_ref().map(|(id, _)| id.as_str())
    }

    /// Another one of the same project, in which nothing is said yet.
    pub fn restarted(self) -> Transcript {
        Transcript { file: None, ..self }
    }

    /// Writes down what was said. Waits for the disk.
    pub fn append(&mut self, message: &Message) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(self.create_file()?);
            self.store.prune();
        }
        let Some((_, file)) = &mut self.file else { return Ok(()) };
        let line =
            TranscriptLine { at: utc_timestamp(SystemTime::now()), message: message.clone() };
        write_line(file, &serde_json::to_string(&line)?)
    }

    fn create_file(&self) -> io::Result<(String, File)> {
        let id = new_id();
        let mut file = atomic_file::open_append(&self.store.path(&id))?;
        let began = utc_timestamp(SystemTime::now());
        let head = json!({"conversation": 1, "began": began, "folder": self.store.project});
        write_line(&mut file, &head.to_string())?;
        Ok((id, file))
    }
}

#[derive(Serialize, Deserialize)]
struct TranscriptLine {
    at: String,
    #[serde(flatten)]
    message: Message,
}

/// In one piece, so that two processes do not write into each other's lines.
fn write_line(file: &mut File, line: &str) -> io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())
}

/// The time, and something that two processes of the same second do not share.
fn new_id() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now();
    let when: String = utc_timestamp(now).chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let made = MADE.fetch_add(1, Ordering::Relaxed);
    let seed = format!("{now:?} {} {made}", std::process::id());
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

/// Opens a record to add to it. What was not finished gets an end, so that the next line is one.
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
        // What was not finished, and what somebody else wrote, is no utterance.
        if let Ok(line) = serde_json::from_slice::<TranscriptLine>(&line?) {
            messages.push(line.message);
        }
    }
    Ok(messages)
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
    let text = |part: &ContentBlock| match part {
        ContentBlock::Text { text } => Some(text.clone()),
        ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolUse(_)
        | ContentBlock::ToolResult(_) => None,
    };
    let text = message.content.iter().find_map(text).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(PREVIEW_CHARS).collect()
}
