//! Conversations on disk: a file each, a line an utterance, added as it is said. Only the owner can read them. A line
//! that was not finished costs that line alone, and a conversation that was cut off is mended when it is read.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::json;
use switchboard::config::entry::sha256;
use switchboard::logbook::stamp;
use switchboard::places::Places;
use switchboard::store;
use thiserror::Error;

use crate::utterance::{CallResult, Part, Speaker, Utterance};

/// How many conversations of one project are kept.
const KEPT: usize = 200;
/// The largest record that is read.
const LARGEST: u64 = 256 * 1024 * 1024;
/// How much of the first words is listed, in characters.
const FIRST_WORDS: usize = 120;
const EXTENSION: &str = "jsonl";
/// What a model is told of a call whose result was never written down.
const LOST: &str = "the program ended before the result came";

/// The conversations of one project.
#[derive(Debug, Clone)]
pub struct Chronicles {
    folder: PathBuf,
    project: PathBuf,
}

/// A conversation that was had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// What it is called.
    pub id: String,
    /// When something was last said.
    pub when: SystemTime,
    /// What the person said first.
    pub first_words: String,
    /// How many utterances it has.
    pub utterances: usize,
}

/// Why a conversation cannot be gone on with.
#[derive(Debug, Error)]
pub enum ChronicleError {
    /// There is none of that name.
    #[error("there is no conversation `{0}` in this project")]
    NoSuch(String),
    /// There is none at all.
    #[error("there is no conversation in this project yet")]
    NoneYet,
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

impl Chronicles {
    /// Those of the project at `root`.
    pub fn of(places: &Places, root: &Path) -> Chronicles {
        Chronicles { folder: places.conversations(root), project: root.to_owned() }
    }

    /// All of them, the one that was last spoken in first. What cannot be read is left out.
    pub fn list(&self) -> io::Result<Vec<Past>> {
        let mut all: Vec<Past> = self.files()?.into_iter().filter_map(past).collect();
        all.sort_by(|a, b| (b.when, &b.id).cmp(&(a.when, &a.id)));
        Ok(all)
    }

    /// A new one. Its file is made when something is said.
    pub fn begin(&self) -> Chronicle {
        Chronicle { of: self.clone(), open: None }
    }

    /// The one that was last spoken in, to go on with.
    pub fn last(&self) -> Result<(Chronicle, Vec<Utterance>), ChronicleError> {
        let files = self.files().unwrap_or_default();
        let when = |path: &PathBuf| path.metadata().and_then(|it| it.modified()).ok();
        let last = files.into_iter().max_by_key(|path| (when(path), path.clone()));
        let id = last.and_then(|path| id_of(&path)).ok_or(ChronicleError::NoneYet)?;
        self.resume(&id)
    }

    /// One by its name, to go on with.
    pub fn resume(&self, id: &str) -> Result<(Chronicle, Vec<Utterance>), ChronicleError> {
        let no_such = || ChronicleError::NoSuch(id.chars().take(80).collect());
        if !is_id(id) {
            return Err(no_such());
        }
        let path = self.path(id);
        let unreadable = |error| ChronicleError::Unreadable { id: id.to_owned(), error };
        let said = match read(&path) {
            Ok(said) => said,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(no_such()),
            Err(error) => return Err(unreadable(error)),
        };
        let file = whole_lines(&path).map_err(unreadable)?;
        let chronicle = Chronicle { of: self.clone(), open: Some((id.to_owned(), file)) };
        Ok((chronicle, mended(said)))
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
        let surplus = files.len().saturating_sub(KEPT);
        for old in &files[..surplus] {
            let _gone_already = fs::remove_file(old);
        }
    }
}

/// A conversation as it is written down.
#[derive(Debug)]
pub struct Chronicle {
    of: Chronicles,
    /// There once something was said.
    open: Option<(String, File)>,
}

impl Chronicle {
    /// What it is called, once something was said.
    pub fn id(&self) -> Option<&str> {
        self.open.as_ref().map(|(id, _)| id.as_str())
    }

    /// Another one of the same project, in which nothing is said yet.
    pub fn another(self) -> Chronicle {
        Chronicle { open: None, ..self }
    }

    /// Writes down what was said. Waits for the disk.
    pub fn append(&mut self, utterance: &Utterance) -> io::Result<()> {
        if self.open.is_none() {
            self.open = Some(self.make()?);
            self.of.prune();
        }
        let Some((_, file)) = &mut self.open else { return Ok(()) };
        let line = Line { at: stamp(SystemTime::now()), utterance: utterance.clone() };
        write_line(file, &serde_json::to_string(&line)?)
    }

    fn make(&self) -> io::Result<(String, File)> {
        let id = fresh_id();
        let mut file = store::append(&self.of.path(&id))?;
        let began = stamp(SystemTime::now());
        let head = json!({"conversation": 1, "began": began, "folder": self.of.project});
        write_line(&mut file, &head.to_string())?;
        Ok((id, file))
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    at: String,
    #[serde(flatten)]
    utterance: Utterance,
}

/// In one piece, so that two processes do not write into each other's lines.
fn write_line(file: &mut File, line: &str) -> io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())
}

/// The time, and something that two processes of the same second do not share.
fn fresh_id() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now();
    let when: String = stamp(now).chars().filter(|c| c.is_ascii_alphanumeric()).collect();
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
fn whole_lines(path: &Path) -> io::Result<File> {
    let mut reading = File::open(path)?;
    let length = reading.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        reading.seek(SeekFrom::End(-1))?;
        reading.read_exact(&mut last)?;
    }
    let mut file = store::append(path)?;
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

fn read(path: &Path) -> io::Result<Vec<Utterance>> {
    let file = File::open(path)?;
    if file.metadata()?.len() > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    let mut said = Vec::new();
    for line in BufReader::new(file.take(LARGEST)).split(b'\n') {
        // What was not finished, and what somebody else wrote, is no utterance.
        if let Ok(line) = serde_json::from_slice::<Line>(&line?) {
            said.push(line.utterance);
        }
    }
    Ok(said)
}

fn past(path: PathBuf) -> Option<Past> {
    let id = id_of(&path)?;
    let file = File::open(&path).ok()?;
    let when = file.metadata().ok()?.modified().ok()?;
    let (mut utterances, mut first_words) = (0, String::new());
    for line in BufReader::new(file.take(LARGEST)).split(b'\n') {
        let line = line.ok()?;
        if first_words.is_empty() {
            let Ok(line) = serde_json::from_slice::<Line>(&line) else { continue };
            first_words = words_of(&line.utterance);
            utterances += 1;
        } else if !line.is_empty() {
            utterances += 1;
        }
    }
    Some(Past { id, when, first_words, utterances })
}

fn words_of(utterance: &Utterance) -> String {
    let text = |part: &Part| match part {
        Part::Text { text } => Some(text.clone()),
        Part::Picture { .. } | Part::Thought { .. } | Part::Call(_) | Part::Result(_) => None,
    };
    let text = utterance.parts.iter().find_map(text).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(FIRST_WORDS).collect()
}

/// Models refuse a conversation in which a call has no result, or a result no call.
fn mended(said: Vec<Utterance>) -> Vec<Utterance> {
    let mut whole: Vec<Utterance> = Vec::with_capacity(said.len() + 1);
    let mut open: Vec<String> = Vec::new();
    for mut utterance in said {
        if utterance.speaker == Speaker::User {
            utterance.parts.retain(|part| match part {
                Part::Result(result) => {
                    let known = open.iter().position(|id| *id == result.id);
                    known.map(|at| open.remove(at)).is_some()
                }
                Part::Text { .. } | Part::Picture { .. } | Part::Thought { .. } | Part::Call(_) => {
                    true
                }
            });
            let lost = open.drain(..).map(lost);
            utterance.parts.splice(..0, lost);
        } else {
            if !open.is_empty() {
                let parts = open.drain(..).map(lost).collect();
                whole.push(Utterance { speaker: Speaker::User, parts });
            }
            open.extend(utterance.parts.iter().filter_map(|part| match part {
                Part::Call(call) => Some(call.id.clone()),
                Part::Text { .. }
                | Part::Picture { .. }
                | Part::Thought { .. }
                | Part::Result(_) => None,
            }));
        }
        if !utterance.parts.is_empty() {
            whole.push(utterance);
        }
    }
    if !open.is_empty() {
        let parts = open.drain(..).map(lost).collect();
        whole.push(Utterance { speaker: Speaker::User, parts });
    }
    whole
}

fn lost(id: String) -> Part {
    let parts = vec![Part::Text { text: LOST.to_owned() }];
    Part::Result(CallResult { id, parts, is_error: true })
}
