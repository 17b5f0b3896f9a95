//! Notes in a private file: read for each operation, replaced atomically, written by one process at a time.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::kit::change_notifier::{ChangeNotifier, ServerChange};
use crate::kit::handler_error::HandlerError;

/// The maximum number of notes.
pub(crate) const MAX_NOTES: usize = 1000;
/// The maximum length of a note, in characters.
pub(crate) const MAX_NOTE_LENGTH: usize = 10_000;
/// The maximum size of the file.
const MAX_FILE_SIZE: u64 = 64 * 1024 * 1024;
/// The timeout of the lock between processes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) id: u64,
    pub(crate) text: String,
}

impl Note {
    pub(crate) fn uri(&self) -> String {
        format!("note://{}", self.id)
    }

    /// The first line, shortened.
    pub(crate) fn heading(&self) -> String {
        const MAX_HEADING_LENGTH: usize = 60;
        let line = self.text.lines().next().unwrap_or_default();
        match line.char_indices().nth(MAX_HEADING_LENGTH) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        }
    }
}

/// The content of the file. IDs are never reused.
#[derive(Debug, Default, Serialize, Deserialize)]
struct NoteFile {
    last: u64,
    notes: Vec<Note>,
}

/// The notes, and the notifier of their changes.
#[derive(Debug)]
pub(crate) struct NoteStore {
    path: PathBuf,
    changes: ChangeNotifier,
}

impl NoteStore {
    pub(crate) fn new(path: PathBuf, changes: ChangeNotifier) -> NoteStore {
        NoteStore { path, changes }
    }

    pub(crate) async fn all(&self) -> Result<Vec<Note>, HandlerError> {
        let file = self.path.clone();
        run_blocking(move || read_file(&file).map(|notes_file| notes_file.notes)).await
    }

    pub(crate) async fn add(&self, text: String) -> Result<Note, HandlerError> {
        if text.trim().is_empty() || text.chars().count() > MAX_NOTE_LENGTH {
            return Err(HandlerError::failed(format!(
                "a note has from 1 to {MAX_NOTE_LENGTH} characters"
            )));
        }
        let file = self.path.clone();
        let added = run_blocking(move || {
            edit_file(&file, |notes_file| {
                if notes_file.notes.len() >= MAX_NOTES {
                    return None;
                }
                notes_file.last += 1;
                let note = Note { id: notes_file.last, text };
                notes_file.notes.push(note.clone());
                Some(note)
            })
        });
        let note = added.await?;
        let note = note
            .ok_or_else(|| HandlerError::failed(format!("there are {MAX_NOTES} notes already")))?;
        self.changes.notify(ServerChange::ResourceListChanged);
        Ok(note)
    }

    /// Deletes a note, if it exists.
    pub(crate) async fn delete(&self, id: u64) -> Result<Option<Note>, HandlerError> {
        let file = self.path.clone();
        let deleted = run_blocking(move || {
            edit_file(&file, |notes_file| {
                let at = notes_file.notes.iter().position(|it| it.id == id)?;
                Some(notes_file.notes.remove(at))
            })
        });
        let note = deleted.await?;
        if let Some(note) = &note {
            self.changes.notify(ServerChange::ResourceUpdated { uri: note.uri() });
            self.changes.notify(ServerChange::ResourceListChanged);
        }
        Ok(note)
    }

    /// Replaces the text of a note, if it exists.
    pub(crate) async fn update(&self, id: u64, text: String) -> Result<Option<Note>, HandlerError> {
        if text.trim().is_empty() || text.chars().count() > MAX_NOTE_LENGTH {
            return Err(HandlerError::failed(format!(
                "a note has from 1 to {MAX_NOTE_LENGTH} characters"
            )));
        }
        let file = self.path.clone();
        let changed = run_blocking(move || {
            edit_file(&file, |notes_file| {
                let note = notes_file.notes.iter_mut().find(|it| it.id == id)?;
                note.text = text;
                Some(note.clone())
            })
        });
        let note = changed.await?;
        if let Some(note) = &note {
            self.changes.notify(ServerChange::ResourceUpdated { uri: note.uri() });
            self.changes.notify(ServerChange::ResourceListChanged);
        }
        Ok(note)
    }
}

/// Runs blocking work on a thread.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, HandlerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            Err(HandlerError::failed(format!("the notes cannot be read or written: {error}")))
        }
        Err(_) => Err(HandlerError::failed("the notes cannot be read or written")),
    }
}

fn read_file(file: &Path) -> io::Result<NoteFile> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(NoteFile::default()),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    opened.take(MAX_FILE_SIZE).read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(|_| {
        let why = format!("{} holds something else; take it away", file.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// Reads, changes and writes the file under the lock. Writes nothing if `change` returns `None`.
fn edit_file<T>(
    file: &Path,
    edit: impl FnOnce(&mut NoteFile) -> Option<T>,
) -> io::Result<Option<T>> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let _held = lock_folder(folder)?;
    let mut notes_file = read_file(file)?;
    let Some(done) = edit(&mut notes_file) else { return Ok(None) };
    // Temporary files are private from the start.
    let mut draft = tempfile::Builder::new().prefix(".notes-").tempfile_in(folder)?;
    draft.write_all(&serde_json::to_vec_pretty(&notes_file)?)?;
    draft.as_file().sync_all()?;
    draft.persist(file)?;
    Ok(Some(done))
}

/// Locks the folder between processes until the file is dropped.
fn lock_folder(folder: &Path) -> io::Result<File> {
    let lock = File::open(folder)?;
    let start = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(LOCK_POLL_INTERVAL);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process has them"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
