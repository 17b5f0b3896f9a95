//! One call's access to files: resolves paths, remembers reads, and checks before a write that the file is unchanged.

use std::sync::Arc;

use switchboard_wire::process::child::Program;

use super::files::allowed_roots::{Access, AllowedRoots};
use super::files::contents;
use super::files::contents::{FileContents, WriteMode};
use super::files::file_error::FileError;
use super::files::read_files::Fingerprint;
use super::files::resolved_path::ResolvedPath;
use super::files::text_encoding::{DecodedText, decode};
use super::session::{self, WorkspaceSession};
use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;

impl WorkspaceSession {
    /// Runs file operations on a blocking thread.
    pub(super) async fn run_blocking<T: Send + 'static>(
        self: &Arc<WorkspaceSession>,
        context: HandlerContext,
        work: impl FnOnce(FileAccess) -> Result<T, HandlerError> + Send + 'static,
    ) -> Result<T, HandlerError> {
        let roots = self.allowed_roots(&context).await?;
        let access = FileAccess { session: self.clone(), roots, context };
        match tokio::task::spawn_blocking(move || work(access)).await {
            Ok(done) => done,
            Err(_) => {
                Err(HandlerError::failed("the operation failed unexpectedly; nothing was changed"))
            }
        }
    }
}

/// The file access of one call.
#[derive(Debug)]
pub(super) struct FileAccess {
    session: Arc<WorkspaceSession>,
    pub(super) roots: Arc<AllowedRoots>,
    pub(super) context: HandlerContext,
}

/// A text file that was read before and has not changed since.
#[derive(Debug)]
pub(super) struct ReadTextFile {
    pub(super) resolved: ResolvedPath,
    pub(super) decoded: DecodedText,
    contents: FileContents,
}

impl FileAccess {
    /// The program that extracts text from PDFs.
    pub(super) fn pdf_reader(&self) -> Option<&Program> {
        self.session.settings.pdf_reader.as_ref()
    }

    /// Resolves a path to read.
    pub(super) fn resolve(&self, path: &str) -> Result<ResolvedPath, FileError> {
        self.roots.resolve(path, Access::Read)
    }

    /// Resolves the folder to start at; by default the first allowed one.
    pub(super) fn resolve_start(&self, path: Option<&str>) -> Result<ResolvedPath, FileError> {
        self.resolve(path.filter(|it| !it.is_empty()).unwrap_or("."))
    }

    /// Remembers the fingerprint of a file that was read.
    pub(super) fn remember_read(&self, resolved: &ResolvedPath, fingerprint: Fingerprint) {
        session::lock(&self.session.read_files).insert(&resolved.path, fingerprint);
    }

    /// Runs `work` while no other call of this session writes.
    pub(super) fn with_write_lock<T>(
        &self,
        work: impl FnOnce() -> Result<T, HandlerError>,
    ) -> Result<T, HandlerError> {
        let _lock = session::lock(&self.session.write_lock);
        work()
    }

    /// The contents of a file that was read before, if it has not changed since.
    pub(super) fn contents_as_read(
        &self,
        resolved: &ResolvedPath,
    ) -> Result<FileContents, FileError> {
        let fingerprint = session::lock(&self.session.read_files).touch(&resolved.path);
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
        // A missing file is reported as missing, not as unread.
        resolved.stat()?;
        let contents = self.contents_as_read(&resolved)?;
        let decoded = decode(&contents.bytes).map_err(|error| FileError::NotText {
            path: resolved.path.clone(),
            what: error.description(),
        })?;
        Ok(ReadTextFile { resolved, decoded, contents })
    }

    /// Replaces the text of a file.
    pub(super) fn save(&self, file: &ReadTextFile, text: &str) -> Result<(), FileError> {
        let bytes = file.decoded.encoding.encode(text);
        self.write(&file.resolved, &bytes, WriteMode::Replace(&file.contents))
    }

    /// Writes a file and remembers its fingerprint.
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
