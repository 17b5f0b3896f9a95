//! One client's session: the allowed folders, the files it has read, the shell's working folder, and its
//! commands.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;
use url::Url;

use super::files::allowed_roots::{Access, AllowedRoots};
use super::files::file_error::FileError;
use super::files::read_files::ReadFiles;
use super::shell::jobs::Jobs;
use super::{ClientRoots, WorkspaceSettings};
use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;

/// One client's session.
pub(super) struct WorkspaceSession {
    pub(super) settings: WorkspaceSettings,
    /// The folder for outputs; `None` if it could not be created.
    output_dir: Option<TempDir>,
    current_roots: Mutex<CurrentRoots>,
    pub(super) read_files: Mutex<ReadFiles>,
    /// Held during a write, so that writes happen one after the other.
    pub(super) write_lock: Mutex<()>,
    /// The shell's working folder.
    shell_dir: Mutex<Option<PathBuf>>,
    pub(super) jobs: Jobs,
}

/// The current roots, and the client's roots revision they are from.
struct CurrentRoots {
    roots: Arc<AllowedRoots>,
    revision: Option<u64>,
    /// The added folders in them.
    added: Vec<PathBuf>,
}

impl fmt::Debug for WorkspaceSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkspaceSession({:?})", self.settings.roots)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        let current_roots =
            CurrentRoots { roots: Arc::new(roots), revision: None, added: Vec::new() };
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

    /// Ends all commands and waits for them.
    pub(super) async fn shut_down(&self) {
        self.jobs.shut_down().await;
    }

    /// The folder for outputs.
    pub(super) fn output_dir(&self) -> Result<&Path, HandlerError> {
        let outputs = self.output_dir.as_ref().map(TempDir::path);
        outputs.ok_or_else(|| HandlerError::failed("there is no folder for outputs"))
    }

    /// The allowed folders for a call. Asks the client for its roots when they are used and not known yet.
    pub(super) async fn allowed_roots(
        &self,
        context: &HandlerContext,
    ) -> Result<Arc<AllowedRoots>, HandlerError> {
        let revision = context.roots_revision();
        {
            let mut current_roots = lock(&self.current_roots);
            if self.settings.client_roots == ClientRoots::Ignored {
                self.add_roots(&mut current_roots);
                return Ok(current_roots.roots.clone());
            }
            if current_roots.revision == Some(revision) {
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
            CurrentRoots { roots: roots.clone(), revision: Some(revision), added: Vec::new() };
        Ok(roots)
    }

    /// Follows a change of the added folders.
    fn add_roots(&self, current_roots: &mut CurrentRoots) {
        let added = self.settings.added_roots.folders();
        if current_roots.added != added {
            let all: Vec<PathBuf> = self.settings.roots.iter().chain(&added).cloned().collect();
            let outputs = self.output_dir.as_ref().map(TempDir::path);
            current_roots.roots = Arc::new(AllowedRoots::new(&all, outputs));
            current_roots.added = added;
        }
    }

    /// The shell's working folder: that of the last command, while it is allowed.
    pub(super) fn shell_dir(&self, roots: &AllowedRoots) -> Result<PathBuf, HandlerError> {
        let shell_dir = lock(&self.shell_dir).clone();
        let shell_dir = shell_dir.filter(|folder| is_allowed(roots, folder));
        let first = || roots.first().map(Path::to_owned);
        shell_dir.or_else(first).ok_or_else(|| FileError::NoRoots.into())
    }

    /// Sets the shell's working folder; `false` if it is not allowed.
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
