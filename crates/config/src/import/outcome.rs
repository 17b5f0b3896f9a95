//! The result of an import: server entries in our format, and notes for the user.

use std::fmt;

use serde_json::{Map, Value};

use super::entry_builder::ConvertedEntry;
use super::host_app::FileScope;
use super::note::{ImportNote, SkipReason};

/// What a file held.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportOutcome {
    /// The servers, in the order of the file.
    pub servers: Vec<ImportedServer>,
    /// What concerns the whole file, and the servers that could not be taken.
    pub notes: Vec<ImportNote>,
}

/// A server that was found and could be turned into an entry.
#[derive(Clone, PartialEq)]
pub struct ImportedServer {
    /// Its name as the peer has it; not checked against our rules.
    pub name: String,
    /// Whom it was for.
    pub scope: ImportedScope,
    /// The entry, in the shape of `mcpServers.<name>`.
    pub entry: Map<String, Value>,
    /// What changed on the way.
    pub notes: Vec<ImportNote>,
}

/// Whom an imported server was set up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportedScope {
    /// One person, every project.
    User,
    /// Everyone who works on the project.
    Project,
    /// One person, in this project only.
    Local,
}

impl From<FileScope> for ImportedScope {
    fn from(scope: FileScope) -> ImportedScope {
        match scope {
            FileScope::User => ImportedScope::User,
            FileScope::Project => ImportedScope::Project,
        }
    }
}

/// Prints the entry's keys but none of its values: they may be secrets.
impl fmt::Debug for ImportedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportedServer")
            .field("name", &self.name)
            .field("scope", &self.scope)
            .field("entry", &self.entry.keys().collect::<Vec<_>>())
            .field("notes", &self.notes)
            .finish()
    }
}

impl ImportOutcome {
    /// Converts each server of a section; one that fails is noted and the rest go on.
    pub(super) fn add_servers(
        &mut self,
        section: &str,
        servers: Option<Value>,
        scope: ImportedScope,
        convert: impl Fn(&str, Value) -> Result<ConvertedEntry, SkipReason>,
    ) {
        let servers = match servers {
            None | Some(Value::Null) => return,
            Some(Value::Object(servers)) => servers,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                self.notes.push(ImportNote::KeyNotRead { key: section.to_owned() });
                return;
            }
        };
        for (name, server) in servers {
            match convert(&name, server) {
                Ok(ConvertedEntry { entry, notes }) => {
                    self.servers.push(ImportedServer { name, scope, entry, notes });
                }
                Err(reason) => self.notes.push(ImportNote::ServerSkipped { server: name, reason }),
            }
        }
    }
}
