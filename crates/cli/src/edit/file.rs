//! Changes to one settings file of a scope.

use std::path::Path;

use switchboard::config::edit::{self, Edit};
use switchboard::sources::atomic_file::{ChangeOutcome, Privacy};
use switchboard::sources::{atomic_file, project_root};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::Failure;

/// Applies edits to a file of the scope.
pub fn edit_file(
    invocation: &Invocation,
    scope: WritableScope,
    file: &Path,
    edits: &[Edit],
) -> Result<ChangeOutcome, Failure> {
    expect_inside(invocation, scope, file)?;
    let mut all = match file == invocation.scope_file(scope) {
        true => edits_for_new_file(invocation, scope),
        false => Vec::new(),
    };
    all.extend_from_slice(edits);
    Ok(atomic_file::change(file, file_privacy(scope), |text| edit::apply(text, &all))?)
}

/// Fails where the file is a symbolic link that leads out of the project.
pub fn expect_inside(
    invocation: &Invocation,
    scope: WritableScope,
    file: &Path,
) -> Result<(), Failure> {
    let root = project_root(&invocation.env.working_folder);
    let is_inside = match (scope, file.canonicalize()) {
        (WritableScope::Project, Ok(real)) => real.starts_with(root),
        (WritableScope::Project, Err(_)) => !file.is_symlink(),
        (WritableScope::Local | WritableScope::User, _) => true,
    };
    if is_inside {
        return Ok(());
    }
    let message = format!(
        "{} is a symbolic link that leads out of the project",
        invocation.display_path(file)
    );
    Err(Failure::new(Exit::Configuration, &message).hint("change the target file"))
}

/// Edits that a new file needs. Local settings name their project, because their folder's name does not.
pub fn edits_for_new_file(invocation: &Invocation, scope: WritableScope) -> Vec<Edit> {
    match scope {
        WritableScope::User | WritableScope::Project => Vec::new(),
        WritableScope::Local => {
            let root = project_root(&invocation.env.working_folder);
            let value = root.to_string_lossy().into();
            vec![Edit::SetIfAbsent { key: "project".to_owned(), value }]
        }
    }
}

/// Who may read the file of a scope.
pub fn file_privacy(scope: WritableScope) -> Privacy {
    match scope {
        WritableScope::Local | WritableScope::User => Privacy::Owner,
        WritableScope::Project => Privacy::Shared,
    }
}

/// Describes the file that was written.
pub fn scope_location(invocation: &Invocation, scope: WritableScope, file: &Path) -> String {
    let what = match scope {
        WritableScope::Local => "you, in this project",
        WritableScope::User => "you, in every project",
        WritableScope::Project => "everyone in this project",
    };
    format!("the {} scope ({what}): {}", scope.scope(), invocation.display_path(file))
}
