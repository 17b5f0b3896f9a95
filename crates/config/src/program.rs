//! Which file a command runs. The merge and the policy compare such files; finding them is I/O and left to `host`.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::entry::{ServerSpec, StartFolder, TransportConfig};
use crate::template::{Environment, ExpandedText};

/// Finds the file that a command runs.
pub trait ProgramFinder: fmt::Debug + Send + Sync {
    /// Returns the absolute path of the file; `None` if there is no such file.
    fn find(&self, query: &ProgramQuery<'_>) -> Option<PathBuf>;
}

/// Everything that decides which file a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramQuery<'a> {
    /// The command: a path, or a name that is searched for in the search path.
    pub command: &'a str,
    /// The folders of `PATH`.
    pub search_path: &'a str,
    /// The folder that relative paths start at; the user's working folder if absent.
    pub base_folder: Option<&'a Path>,
    /// The `cwd` of the entry. Relative folders of the search path start at the folder that the process starts in.
    pub cwd: Option<&'a str>,
    /// The folder that the process starts in if there is no `cwd`.
    pub start_folder: StartFolder,
}

/// Returns the file that a server runs; `None` if it runs no program or if there is no such file.
pub(crate) fn server_program(
    spec: &ServerSpec,
    environment: &Environment,
    finder: &dyn ProgramFinder,
) -> Option<PathBuf> {
    let TransportConfig::Stdio(stdio) = &spec.transport else { return None };
    let own_path = stdio.env.iter().rfind(|(name, _)| name == "PATH");
    let search_path = match own_path {
        Some((_, value)) => value.to_unresolved_string(),
        None => environment.get("PATH").unwrap_or_default().to_owned(),
    };
    finder.find(&ProgramQuery {
        command: &stdio.command.to_unresolved_string(),
        search_path: &search_path,
        base_folder: spec.base_folder.as_deref(),
        cwd: stdio.cwd.as_ref().map(ExpandedText::to_unresolved_string).as_deref(),
        start_folder: spec.start_folder,
    })
}
