//! One client's place: the folders it may touch, the files it has read, the folder its shell stands in and what it
//! started. Tools do their work here, on threads for work that blocks.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use switchboard_wire::process::child::Program;
use tempfile::TempDir;
use url::Url;

use super::files::allowed_roots::{Access, AllowedRoots, ResolvedPath};
use super::files::contents;
use super::files::contents::{FileContents, WriteMode};
use super::files::file_error::FileError;
use super::files::read_files::{Fingerprint, ReadFiles};
use super::files::text_encoding::{DecodedText, Encoding, decode};
use super::shell::jobs::Jobs;
use super::{ClientRoots, WorkspaceSettings};
use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;

/// One client's place.
pub(super) struct WorkspaceSession {
    settings: WorkspaceSettings,
    /// Where outputs lie; absent where no folder could be made.
    output_dir: Option<TempDir>,
    current_roots: Mutex<CurrentRoots>,
    read_files: Mutex<ReadFiles>,
    /// Held while a file is changed, so that two changes of one file come one after the other.
    write_lock: Mutex<()>,
    /// Where the shell stands.
    shell_dir: Mutex<Option<PathBuf>>,
    pub(super) jobs: Jobs,
}

/// The folders that count, and how often the client had changed its own by then.
struct CurrentRoots {
    roots: Arc<AllowedRoots>,
    revision: Option<u64>,
}

impl fmt::Debug for WorkspaceSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workplace({:?})", self.settings.roots)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WorkspaceSession {
    pub(super) fn new(settings: WorkspaceSettings) -> Arc<WorkspaceSession> {
        let made = std::fs::create_dir_all(&settings.output_dir);
        let outputs = made.and_then(|()| {
            tempfile::Builder::new().prefix("outputs-").tempdir_in(&settings.output_dir)
        });
        let outputs = outputs.ok();
        let roots = AllowedRoots::new(&settings.roots, outputs.as_ref().map(TempDir::path));
        let current_roots = CurrentRoots { roots: Arc::new(roots), revision: None };
        Arc::new(WorkspaceSession {
            jobs: Jobs::new(settings.guard.clone(), settings.environment.clone()),
            settings,
            output_dir: outputs,
            current_roots: Mutex::new(current_roots),
            read_files: Mutex::default(),
            write_lock: Mutex::default(),
            shell_dir: Mutex::default(),
        })
    }

    /// Ends what was started here, and waits for it.
    pub(super) async fn shut_down(&self) {
        self.jobs.shut_down().await;
    }

    /// Where outputs lie.
    pub(super) fn output_dir(&self) -> Result<&Path, HandlerError> {
        let outputs = self.output_dir.as_ref().map(TempDir::path);
        outputs.ok_or_else(|| HandlerError::failed("there is no folder to keep outputs in"))
    }

    /// The folders that count for this call. The client is asked where it has a say and was not asked yet.
    pub(super) async fn allowed_roots(
        &self,
        context: &HandlerContext,
    ) -> Result<Arc<AllowedRoots>, HandlerError> {
        let revision = context.roots_revision();
        {
            let current_roots = lock(&self.current_roots);
            let is_known = current_roots.revision == Some(revision);
            if is_known || self.settings.client_roots == ClientRoots::Ignored {
                return Ok(current_roots.roots.clone());
            }
        }
        let uris = context.roots().await?.unwrap_or_default();
        let client_roots: Vec<PathBuf> =
            uris.iter().filter_map(|uri| file_uri_to_path(uri)).collect();
        let outputs = self.output_dir.as_ref().map(TempDir::path);
        let mut roots = AllowedRoots::new(&client_roots, outputs);
        if roots.first().is_none() {
            roots = AllowedRoots::new(&self.settings.roots, outputs);
        }
        let roots = Arc::new(roots);
        *lock(&self.current_roots) =
            CurrentRoots { roots: roots.clone(), revision: Some(revision) };
        Ok(roots)
    }

    /// Does something with files, on a thread of its own.
    pub(super) async fn run_blocking<T: Send + 'static>(
        self: &Arc<WorkspaceSession>,
        context: HandlerContext,
        work: impl FnOnce(FileAccess) -> Result<T, HandlerError> + Send + 'static,
    ) -> Result<T, HandlerError> {
        let roots = self.allowed_roots(&context).await?;
        let access = FileAccess { session: self.clone(), roots, context };
        match tokio::task::spawn_blocking(move || work(access)).await {
            Ok(done) => done,
            Err(_) => Err(HandlerError::failed("it broke on the way; nothing was changed")),
        }
    }

    /// Where the shell stands: where the last command left it, while that is allowed.
    pub(super) fn shell_dir(&self, roots: &AllowedRoots) -> Result<PathBuf, HandlerError> {
        let shell_dir = lock(&self.shell_dir).clone();
        let shell_dir = shell_dir.filter(|folder| is_allowed(roots, folder));
        let first = || roots.first().map(Path::to_owned);
        shell_dir.or_else(first).ok_or_else(|| FileError::NoRoots.into())
    }

    /// Moves the shell where that is allowed; says whether it is.
    pub(super) fn set_shell_dir(&self, roots: &AllowedRoots, folder: &Path) -> bool {
        let is_allowed = is_allowed(roots, folder);
        *lock(&self.shell_dir) = is_allowed.then(|| folder.to_owned());
        is_allowed
    }
}

fn is_allowed(roots: &AllowedRoots, folder: &Path) -> bool {
    let found = folder.to_str().map(|text| roots.resolve(text, Access::Write));
    matches!(found, Some(Ok(resolved)) if resolved.is_dir().unwrap_or(false))
}

fn file_uri_to_path(uri: &str) -> Option<PathBuf> {
    Url::parse(uri).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()
}

/// One call's turn at the files.
#[derive(Debug)]
pub(super) struct FileAccess {
    session: Arc<WorkspaceSession>,
    pub(super) roots: Arc<AllowedRoots>,
    pub(super) context: HandlerContext,
}

/// A text file that was read before and is still what it was then.
#[derive(Debug)]
pub(super) struct ReadTextFile {
    pub(super) resolved: ResolvedPath,
    pub(super) decoded: DecodedText,
    contents: FileContents,
}

impl FileAccess {
    /// The program that reads PDFs.
    pub(super) fn pdf_reader(&self) -> Option<&Program> {
        self.session.settings.pdf_reader.as_ref()
    }

    /// A place to look at.
    pub(super) fn resolve(&self, path: &str) -> Result<ResolvedPath, FileError> {
        self.roots.resolve(path, Access::Read)
    }

    /// The folder to begin at; the first allowed one where none is named.
    pub(super) fn resolve_start(&self, path: Option<&str>) -> Result<ResolvedPath, FileError> {
        self.resolve(path.filter(|it| !it.is_empty()).unwrap_or("."))
    }

    /// Remembers what a file is like.
    pub(super) fn remember_read(&self, resolved: &ResolvedPath, fingerprint: Fingerprint) {
        lock(&self.session.read_files).insert(&resolved.path, fingerprint);
    }

    /// Changes files while nobody else here does.
    pub(super) fn with_write_lock<T>(
        &self,
        work: impl FnOnce() -> Result<T, HandlerError>,
    ) -> Result<T, HandlerError> {
        let _held = lock(&self.session.write_lock);
        work()
    }

    /// The contents of a file that was read before, if it is still what it was.
    pub(super) fn contents_as_read(
        &self,
        resolved: &ResolvedPath,
    ) -> Result<FileContents, FileError> {
        let fingerprint = lock(&self.session.read_files).touch(&resolved.path);
        let fingerprint =
            fingerprint.ok_or_else(|| FileError::NotRead { path: resolved.path.clone() })?;
        let contents = contents::read_contents(resolved)?;
        match fingerprint.has_same_contents(&contents.fingerprint) {
            true => Ok(contents),
            false => Err(FileError::ModifiedMeanwhile { path: resolved.path.clone() }),
        }
    }

    /// The same as text.
    pub(super) fn text_as_read(&self, path: &str) -> Result<ReadTextFile, FileError> {
        let resolved = self.roots.resolve(path, Access::Write)?;
        // Said first: who has not read a file that is not there is told so.
        resolved.stat()?;
        let contents = self.contents_as_read(&resolved)?;
        let decoded = decode(&contents.bytes).map_err(|why| FileError::NotText {
            path: resolved.path.clone(),
            what: why.description(),
        })?;
        Ok(ReadTextFile { resolved, decoded, contents })
    }

    /// Puts another text in its place.
    pub(super) fn save(&self, known: &ReadTextFile, text: &str) -> Result<(), FileError> {
        let bytes = known.decoded.encoding.encode(text);
        self.write(&known.resolved, &bytes, WriteMode::Replace(&known.contents))
    }

    /// Puts contents in a file's place, and remembers them.
    pub(super) fn write(
        &self,
        resolved: &ResolvedPath,
        bytes: &[u8],
        write_mode: WriteMode<'_>,
    ) -> Result<(), FileError> {
        let fingerprint = contents::write_contents(resolved, bytes, write_mode)?;
        self.remember_read(resolved, fingerprint);
        Ok(())
    }
}

/// How a new text is written down where one was there before: in the same way.
pub(super) fn detect_encoding(contents: &FileContents) -> (Encoding, Option<DecodedText>) {
    match decode(&contents.bytes) {
        Ok(decoded) => (decoded.encoding, Some(decoded)),
        Err(_) => (Encoding::Utf8, None),
    }
}

/// Lines with their numbers in front, as every tool shows them.
pub(super) fn with_line_numbers<'a>(lines: impl Iterator<Item = &'a str>, first: usize) -> String {
    let mut text = String::new();
    for (number, line) in (first..).zip(lines) {
        text.push_str(&format!("{number:>6}\t{line}\n"));
    }
    text
}
