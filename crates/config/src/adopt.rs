//! Changes the file of another client so that it starts Switchboard in place of its own servers.
//! Pure: maps a text to a text and checks that nothing else changed. The caller reads, confirms and writes.

mod approved_tools;
mod diff;
mod json_file;
mod line_edit;
mod mask;
mod merge_lines;
mod pool_entry;
mod section;
mod toml_file;
mod yaml_file;

use std::path::Path;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::edit::EditError;
use crate::import::{self, FileFormat, HostApp, HostAppFile, ImportError, ImportedScope};

pub use approved_tools::{APPROVAL_KEYS, approved_tools};
pub use diff::unified_diff;
pub use mask::masked_text;
pub use merge_lines::merge_lines;
pub use pool_entry::PoolEntry;

/// A server that leaves the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRemoval {
    /// Its name in the file.
    pub name: String,
    /// The scope that it has there.
    pub scope: ImportedScope,
}

/// The change of one file.
#[derive(Debug, Clone)]
pub struct FileChange<'c> {
    /// The file.
    pub file: &'c HostAppFile,
    /// The current project, which selects the project's servers in a user's file.
    pub project: &'c Path,
    /// The servers that leave the file.
    pub removals: &'c [ServerRemoval],
    /// The entry to add; `None` if the file has one.
    pub entry: Option<&'c PoolEntry>,
}

/// Why a file cannot be changed.
#[derive(Debug, Clone, Error)]
pub enum AdoptError {
    /// The text cannot be parsed.
    #[error(transparent)]
    Syntax(#[from] ImportError),
    /// The text cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Several servers are in one value that cannot be edited line by line.
    #[error("`{key}` is written on one line; write each server on lines of its own")]
    OneLine {
        /// The key.
        key: &'static str,
    },
    /// The edited text would not mean what it must.
    #[error("its layout is unusual, and an edit could damage it")]
    Unusual,
}

/// Returns the text of the file after the change. Everything that is not part of the change keeps its bytes.
pub fn rewrite(change: &FileChange<'_>, text: &str) -> Result<String, AdoptError> {
    let root = import::parse_file(change.file.app, text)?;
    let sections = section::Sections::of(change.file.app, &root, change.project);
    let after = match change.file.app.format() {
        FileFormat::Json => json_file::rewrite(change, &sections, &root, text)?,
        FileFormat::Toml => toml_file::rewrite(change, text)?,
        FileFormat::Yaml => yaml_file::rewrite(change, text)?,
    };
    let found = import::parse_file(change.file.app, &after).map_err(|_| AdoptError::Unusual)?;
    match found == expected(change, &sections, root) {
        true => Ok(after),
        false => Err(AdoptError::Unusual),
    }
}

/// What the file must say after the change.
fn expected(
    change: &FileChange<'_>,
    sections: &section::Sections,
    mut root: Map<String, Value>,
) -> Map<String, Value> {
    for removal in change.removals {
        if let Some(section) = section::object_at(&mut root, sections.path(removal.scope)) {
            section.shift_remove(&removal.name);
        }
    }
    if let Some(entry) = change.entry {
        let section = section::object_or_new(&mut root, sections.path(ImportedScope::User));
        section.insert(entry.name.clone(), entry.value_for(change.file.app));
        if change.file.app == HostApp::Gemini && section::has_gemini_allow_list(&root) {
            let allowed = root.get_mut("mcp").and_then(|mcp| mcp.get_mut("allowed"));
            if let Some(Value::Array(names)) = allowed
                && !names.iter().any(|name| name == &entry.name)
            {
                names.push(entry.name.clone().into());
            }
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::FileScope;

    /// Rewrites a user's file: the named servers leave, and an entry for Switchboard is added.
    pub(super) fn rewritten(app: HostApp, text: &str, names: &[&str]) -> Result<String, String> {
        let file = HostAppFile { app, path: "/h/file".into(), scope: FileScope::User };
        let removals: Vec<ServerRemoval> = names
            .iter()
            .map(|name| match name.strip_prefix("local:") {
                Some(name) => ServerRemoval { name: name.to_owned(), scope: ImportedScope::Local },
                None => ServerRemoval { name: (*name).to_owned(), scope: ImportedScope::User },
            })
            .collect();
        let entry = PoolEntry::new("switchboard", "swb");
        let change = FileChange {
            file: &file,
            project: Path::new("/w/app"),
            removals: &removals,
            entry: Some(&entry),
        };
        rewrite(&change, text).map_err(|error| error.to_string())
    }

    #[track_caller]
    pub(super) fn check(app: HostApp, text: &str, names: &[&str], expected: &str) {
        let after = rewritten(app, text, names).unwrap_or_else(|error| format!("error: {error}"));
        assert_eq!(after, expected);
    }

    #[test]
    fn an_empty_file_gets_the_entry_in_the_format_of_each_client() {
        for app in HostApp::ALL {
            let after = rewritten(app, "", &[]).expect("an empty file can be changed");
            let file = HostAppFile { app, path: "/h/file".into(), scope: FileScope::User };
            let outcome = import::read(&file, &after, Path::new("/w/app")).expect("it is valid");
            assert_eq!(
                outcome.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
                ["`switchboard` was skipped: it runs Switchboard itself"],
                "{app:?}: {after}"
            );
        }
    }
}
