//! The scopes that commands write to, and their files.

use std::path::PathBuf;

use switchboard::config::merge::ResolvedServer;
use switchboard::config::scope::Scope;
use switchboard::sources::{PROJECT_FILE, project_root};

use crate::invocation::Invocation;

/// A scope that commands can write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum WritableScope {
    /// You, in this project; stored outside the project's folder.
    Local,
    /// You, in every project.
    User,
    /// Everyone in this project: `.mcp.json`.
    Project,
}

impl WritableScope {
    /// The scope.
    pub fn scope(self) -> Scope {
        match self {
            WritableScope::Local => Scope::Local,
            WritableScope::User => Scope::User,
            WritableScope::Project => Scope::Project,
        }
    }

    /// The writable scope; `None` for scopes that commands cannot write to.
    pub fn from_scope(scope: Scope) -> Option<WritableScope> {
        match scope {
            Scope::Local => Some(WritableScope::Local),
            Scope::User => Some(WritableScope::User),
            Scope::Project => Some(WritableScope::Project),
            Scope::Enterprise | Scope::Dynamic | Scope::Connectors | Scope::Plugin => None,
        }
    }
}

impl Invocation {
    /// The file of a scope.
    pub fn scope_file(&self, scope: WritableScope) -> PathBuf {
        let paths = &self.env.paths;
        let folder = &self.env.working_folder;
        match scope {
            WritableScope::User => paths.user_settings(),
            WritableScope::Local => paths.local_settings(&project_root(folder)),
            WritableScope::Project => self.nearest_project_file(),
        }
    }

    /// The nearest existing project file, otherwise the one at the project's root.
    fn nearest_project_file(&self) -> PathBuf {
        let folder = &self.env.working_folder;
        let root = project_root(folder);
        folder
            .ancestors()
            .take_while(|at| at.starts_with(&root))
            .map(|at| at.join(PROJECT_FILE))
            .find(|file| file.symlink_metadata().is_ok())
            .unwrap_or_else(|| root.join(PROJECT_FILE))
    }

    /// The file in which a definition can be changed: the scope's own file, or the project file that defines it if it
    /// is inside the project.
    pub fn editable_file(&self, server: &ResolvedServer) -> Option<(WritableScope, PathBuf)> {
        let scope = WritableScope::from_scope(server.scope())?;
        let path = server.origin.source.path()?;
        let reachable = match scope {
            WritableScope::User | WritableScope::Local => path == self.scope_file(scope),
            WritableScope::Project => path.starts_with(project_root(&self.env.working_folder)),
        };
        reachable.then(|| (scope, path.to_owned()))
    }
}
