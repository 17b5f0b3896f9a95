//! One client's place: the folders it may touch, the files it has read, the folder its shell stands in and what it
//! started. Tools do their work here, on threads for work that blocks.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use switchboard_wire::process::Program;
use tempfile::TempDir;
use url::Url;

use super::decoded::{Decoded, Encoding, decode};
use super::denial::Denial;
use super::grounds::{Access, Grounds, Spot};
use super::holding::{self, Before, Held};
use super::jobs::Jobs;
use super::known::{KnownFiles, Stamp};
use super::{ClientRoots, Settings};
use crate::context::Context;
use crate::refusal::Stop;

/// One client's place.
pub(super) struct Workplace {
    settings: Settings,
    /// Where outputs lie; absent where no folder could be made.
    outputs: Option<TempDir>,
    standing: Mutex<Standing>,
    known: Mutex<KnownFiles>,
    /// Held while a file is changed, so that two changes of one file come one after the other.
    changing: Mutex<()>,
    /// Where the shell stands.
    folder: Mutex<Option<PathBuf>>,
    pub(super) jobs: Jobs,
}

/// The folders that count, and how often the client had changed its own by then.
struct Standing {
    grounds: Arc<Grounds>,
    revision: Option<u64>,
}

impl fmt::Debug for Workplace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workplace({:?})", self.settings.roots)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workplace {
    pub(super) fn new(settings: Settings) -> Arc<Workplace> {
        let made = std::fs::create_dir_all(&settings.outputs);
        let outputs = made.and_then(|()| {
            tempfile::Builder::new().prefix("outputs-").tempdir_in(&settings.outputs)
        });
        let outputs = outputs.ok();
        let grounds = Grounds::new(&settings.roots, outputs.as_ref().map(TempDir::path));
        let standing = Standing { grounds: Arc::new(grounds), revision: None };
        Arc::new(Workplace {
            jobs: Jobs::new(settings.guard.clone(), settings.environment.clone()),
            settings,
            outputs,
            standing: Mutex::new(standing),
            known: Mutex::default(),
            changing: Mutex::default(),
            folder: Mutex::default(),
        })
    }

    /// Ends what was started here, and waits for it.
    pub(super) async fn end(&self) {
        self.jobs.end().await;
    }

    /// Where outputs lie.
    pub(super) fn outputs(&self) -> Result<&Path, Stop> {
        let outputs = self.outputs.as_ref().map(TempDir::path);
        outputs.ok_or_else(|| Stop::failed("there is no folder to keep outputs in"))
    }

    /// The folders that count for this call. The client is asked where it has a say and was not asked yet.
    pub(super) async fn grounds(&self, context: &Context) -> Result<Arc<Grounds>, Stop> {
        let revision = context.roots_revision();
        {
            let standing = locked(&self.standing);
            let is_known = standing.revision == Some(revision);
            if is_known || self.settings.client_roots == ClientRoots::Ignored {
                return Ok(standing.grounds.clone());
            }
        }
        let uris = context.roots().await?.unwrap_or_default();
        let theirs: Vec<PathBuf> = uris.iter().filter_map(|uri| path_of(uri)).collect();
        let outputs = self.outputs.as_ref().map(TempDir::path);
        let mut grounds = Grounds::new(&theirs, outputs);
        if grounds.first().is_none() {
            grounds = Grounds::new(&self.settings.roots, outputs);
        }
        let grounds = Arc::new(grounds);
        *locked(&self.standing) = Standing { grounds: grounds.clone(), revision: Some(revision) };
        Ok(grounds)
    }

    /// Does something with files, on a thread of its own.
    pub(super) async fn work<T: Send + 'static>(
        self: &Arc<Workplace>,
        context: Context,
        work: impl FnOnce(Turn) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Stop> {
        let grounds = self.grounds(&context).await?;
        let turn = Turn { place: self.clone(), grounds, context };
        match tokio::task::spawn_blocking(move || work(turn)).await {
            Ok(done) => done,
            Err(_) => Err(Stop::failed("it broke on the way; nothing was changed")),
        }
    }

    /// Where the shell stands: where the last command left it, while that is allowed.
    pub(super) fn folder(&self, grounds: &Grounds) -> Result<PathBuf, Stop> {
        let stands = locked(&self.folder).clone();
        let stands = stands.filter(|folder| is_allowed(grounds, folder));
        let first = || grounds.first().map(Path::to_owned);
        stands.or_else(first).ok_or_else(|| Denial::NoRoots.into())
    }

    /// Moves the shell where that is allowed; says whether it is.
    pub(super) fn stand(&self, grounds: &Grounds, folder: &Path) -> bool {
        let is_allowed = is_allowed(grounds, folder);
        *locked(&self.folder) = is_allowed.then(|| folder.to_owned());
        is_allowed
    }
}

fn is_allowed(grounds: &Grounds, folder: &Path) -> bool {
    let found = folder.to_str().map(|text| grounds.find(text, Access::Write));
    matches!(found, Some(Ok(spot)) if spot.is_folder().unwrap_or(false))
}

fn path_of(uri: &str) -> Option<PathBuf> {
    Url::parse(uri).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()
}

/// One call's turn at the files.
#[derive(Debug)]
pub(super) struct Turn {
    place: Arc<Workplace>,
    pub(super) grounds: Arc<Grounds>,
    pub(super) context: Context,
}

/// A text file that was read before and is still what it was then.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) spot: Spot,
    pub(super) decoded: Decoded,
    held: Held,
}

impl Turn {
    /// The program that reads PDFs.
    pub(super) fn pdf_reader(&self) -> Option<&Program> {
        self.place.settings.pdf_reader.as_ref()
    }

    /// A place to look at.
    pub(super) fn find(&self, path: &str) -> Result<Spot, Denial> {
        self.grounds.find(path, Access::Read)
    }

    /// The folder to begin at; the first allowed one where none is named.
    pub(super) fn find_start(&self, path: Option<&str>) -> Result<Spot, Denial> {
        self.find(path.filter(|it| !it.is_empty()).unwrap_or("."))
    }

    /// Remembers what a file is like.
    pub(super) fn remember(&self, spot: &Spot, stamp: Stamp) {
        locked(&self.place.known).remember(&spot.path, stamp);
    }

    /// Changes files while nobody else here does.
    pub(super) fn alone<T>(&self, work: impl FnOnce() -> Result<T, Stop>) -> Result<T, Stop> {
        let _held = locked(&self.place.changing);
        work()
    }

    /// The contents of a file that was read before, if it is still what it was.
    pub(super) fn known(&self, spot: &Spot) -> Result<Held, Denial> {
        let stamp = locked(&self.place.known).recall(&spot.path);
        let stamp = stamp.ok_or_else(|| Denial::Unread { path: spot.path.clone() })?;
        let held = holding::take_in(spot)?;
        match stamp.is_same(&held.stamp) {
            true => Ok(held),
            false => Err(Denial::Changed { path: spot.path.clone() }),
        }
    }

    /// The same as text.
    pub(super) fn known_text(&self, path: &str) -> Result<Known, Denial> {
        let spot = self.grounds.find(path, Access::Write)?;
        // Said first: who has not read a file that is not there is told so.
        spot.status()?;
        let held = self.known(&spot)?;
        let decoded = decode(&held.bytes)
            .map_err(|why| Denial::NotText { path: spot.path.clone(), what: why.words() })?;
        Ok(Known { spot, decoded, held })
    }

    /// Puts another text in its place.
    pub(super) fn save(&self, known: &Known, text: &str) -> Result<(), Denial> {
        let bytes = known.decoded.encoding.encode(text);
        self.put(&known.spot, &bytes, Before::File(&known.held))
    }

    /// Puts contents in a file's place, and remembers them.
    pub(super) fn put(&self, spot: &Spot, bytes: &[u8], before: Before<'_>) -> Result<(), Denial> {
        let stamp = holding::put(spot, bytes, before)?;
        self.remember(spot, stamp);
        Ok(())
    }
}

/// How a new text is written down where one was there before: in the same way.
pub(super) fn encoding_of(held: &Held) -> (Encoding, Option<Decoded>) {
    match decode(&held.bytes) {
        Ok(decoded) => (decoded.encoding, Some(decoded)),
        Err(_) => (Encoding::Utf8, None),
    }
}

/// Lines with their numbers in front, as every tool shows them.
pub(super) fn numbered<'a>(lines: impl Iterator<Item = &'a str>, first: usize) -> String {
    let mut text = String::new();
    for (number, line) in (first..).zip(lines) {
        text.push_str(&format!("{number:>6}\t{line}\n"));
    }
    text
}
