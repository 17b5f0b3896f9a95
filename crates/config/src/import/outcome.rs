//! The result of an import: server entries in our format, and notes for the user.

use std::fmt;

use serde_json::{Map, Value};

use super::command_line;
use super::entry_builder::ConvertedEntry;
use super::host_app::FileScope;
use super::note::{ImportNote, SkipReason};

/// The content of an imported file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportOutcome {
    /// The servers, in the order of the file.
    pub servers: Vec<ImportedServer>,
    /// Notes about the whole file, and the servers that were skipped.
    pub notes: Vec<ImportNote>,
}

/// A server that was converted.
#[derive(Clone, PartialEq)]
pub struct ImportedServer {
    /// Its name in the other host; not checked against our rules.
    pub name: String,
    /// The scope that it had there.
    pub scope: ImportedScope,
    /// The entry, in the format of `mcpServers.<name>`.
    pub entry: Map<String, Value>,
    /// Notes on values that the conversion changed.
    pub notes: Vec<ImportNote>,
}

/// The scope of an imported server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportedScope {
    /// One user, every project.
    User,
    /// Everyone in the project.
    Project,
    /// One user, in this project only.
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

/// Shows the keys of the entry but not its values, because they may be secrets.
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
    /// Converts each server of a section. One that fails is noted, and the others are still converted.
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
            let converted = convert(&name, server).and_then(|mut converted| {
                command_line::adapt(&mut converted);
                match command_line::runs_switchboard(&converted.entry) {
                    true => Err(SkipReason::RunsSwitchboard),
                    false => Ok(converted),
                }
            });
            match converted {
                Ok(converted) => {
                    let ConvertedEntry { entry, notes } = converted;
                    self.servers.push(ImportedServer { name, scope, entry, notes });
                }
                Err(reason) => self.notes.push(ImportNote::ServerSkipped { server: name, reason }),
            }
        }
    }
}
