//! Notes in a file of the person's own: read anew every time, written whole or not at all, one process at a time.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::news::{Herald, News};
use crate::refusal::Stop;

/// How many notes there may be.
pub(super) const MOST: usize = 1000;
/// The longest note, in characters.
pub(super) const LONGEST: usize = 10_000;
/// The largest file that is read.
const LARGEST: u64 = 64 * 1024 * 1024;
/// How long to wait for another process.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// A note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) id: u64,
    pub(super) text: String,
}

impl Note {
    pub(super) fn uri(&self) -> String {
        format!("note://{}", self.id)
    }

    /// Its beginning, in a line.
    pub(super) fn heading(&self) -> String {
        const SHOWN: usize = 60;
        let line = self.text.lines().next().unwrap_or_default();
        match line.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        }
    }
}

/// What the file holds. Numbers are not used twice.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Pages {
    last: u64,
    notes: Vec<Note>,
}

/// The notes, and who is told when they change.
#[derive(Debug)]
pub(super) struct Notebook {
    file: PathBuf,
    herald: Herald,
}

impl Notebook {
    pub(super) fn new(file: PathBuf, herald: Herald) -> Notebook {
        Notebook { file, herald }
    }

    pub(super) async fn all(&self) -> Result<Vec<Note>, Stop> {
        let file = self.file.clone();
        apart(move || read(&file).map(|pages| pages.notes)).await
    }

    pub(super) async fn add(&self, text: String) -> Result<Note, Stop> {
        if text.trim().is_empty() || text.chars().count() > LONGEST {
            return Err(Stop::failed(format!("a note has from 1 to {LONGEST} characters")));
        }
        let file = self.file.clone();
        let added = apart(move || {
            change(&file, |pages| {
                if pages.notes.len() >= MOST {
                    return None;
                }
                pages.last += 1;
                let note = Note { id: pages.last, text };
                pages.notes.push(note.clone());
                Some(note)
            })
        });
        let note = added.await?;
        let note = note.ok_or_else(|| Stop::failed(format!("there are {MOST} notes already")))?;
        self.herald.tell(News::Resources);
        Ok(note)
    }

    /// Takes a note out, where it is there.
    pub(super) async fn delete(&self, id: u64) -> Result<Option<Note>, Stop> {
        let file = self.file.clone();
        let deleted = apart(move || {
            change(&file, |pages| {
                let at = pages.notes.iter().position(|it| it.id == id)?;
                Some(pages.notes.remove(at))
            })
        });
        let note = deleted.await?;
        if let Some(note) = &note {
            self.herald.tell(News::Updated { uri: note.uri() });
            self.herald.tell(News::Resources);
        }
        Ok(note)
    }

    /// Replaces a note's text, where it is there.
    pub(super) async fn rewrite(&self, id: u64, text: String) -> Result<Option<Note>, Stop> {
        if text.trim().is_empty() || text.chars().count() > LONGEST {
            return Err(Stop::failed(format!("a note has from 1 to {LONGEST} characters")));
        }
        let file = self.file.clone();
        let changed = apart(move || {
            change(&file, |pages| {
                let note = pages.notes.iter_mut().find(|it| it.id == id)?;
                note.text = text;
                Some(note.clone())
            })
        });
        let note = changed.await?;
        if let Some(note) = &note {
            self.herald.tell(News::Updated { uri: note.uri() });
            self.herald.tell(News::Resources);
        }
        Ok(note)
    }
}

/// Does what blocks on a thread for it.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Stop> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Stop::failed(format!("the notes cannot be had: {error}"))),
        Err(_) => Err(Stop::failed("the notes cannot be had")),
    }
}

fn read(file: &Path) -> io::Result<Pages> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Pages::default()),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    opened.take(LARGEST).read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(|_| {
        let why = format!("{} holds something else; take it away", file.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// Reads, changes and writes while nobody else does. Where nothing came of it, nothing is written.
fn change<T>(file: &Path, edit: impl FnOnce(&mut Pages) -> Option<T>) -> io::Result<Option<T>> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let _held = lock(folder)?;
    let mut pages = read(file)?;
    let Some(done) = edit(&mut pages) else { return Ok(None) };
    // Such files are their owner's alone from the first.
    let mut draft = tempfile::Builder::new().prefix(".notes-").tempfile_in(folder)?;
    draft.write_all(&serde_json::to_vec_pretty(&pages)?)?;
    draft.as_file().sync_all()?;
    draft.persist(file)?;
    Ok(Some(done))
}

/// Holds the folder against other processes until dropped.
fn lock(folder: &Path) -> io::Result<File> {
    let held = File::open(folder)?;
    let start = Instant::now();
    loop {
        match held.try_lock() {
            Ok(()) => return Ok(held),
            Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process has them"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
