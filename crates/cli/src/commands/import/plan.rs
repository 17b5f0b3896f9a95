//! The plan of an import, as text and as JSON.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};
use switchboard::config::display::{pluralize, printable};
use switchboard::config::import::{HostAppFile, ImportError, ImportNote, ImportedScope};
use switchboard::config::problem::ReadFailure;

use crate::edit::servers::NewServer;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::output::style::{TextStyle, paint};

/// What an import would do.
pub(crate) struct ImportPlan {
    pub(crate) files: Vec<PlannedFile>,
    pub(crate) looked_at: Vec<PathBuf>,
}

/// One file of another program, and its servers.
pub(crate) struct PlannedFile {
    pub(crate) file: HostAppFile,
    /// Its text; empty if it could not be read.
    pub(crate) text: String,
    pub(crate) failure: Option<FileFailure>,
    pub(crate) notes: Vec<ImportNote>,
    pub(crate) items: Vec<ImportItem>,
}

/// Why a file could not be used.
pub(crate) enum FileFailure {
    Unreadable(ReadFailure),
    Syntax(ImportError),
}

impl fmt::Display for FileFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileFailure::Unreadable(why) => write!(f, "the file {why}"),
            FileFailure::Syntax(error) => {
                write!(f, "line {}, column {}: {}", error.line, error.column, error.kind)
            }
        }
    }
}

/// One server of that file.
pub(crate) struct ImportItem {
    /// The server's name in the other program.
    pub(crate) original: String,
    pub(crate) server: NewServer,
    pub(crate) scope: WritableScope,
    /// The scope that it has in the other program.
    pub(crate) source_scope: ImportedScope,
    /// What the conversion changed.
    pub(crate) import_notes: Vec<ImportNote>,
    /// The command line or the URL.
    pub(crate) target: String,
    /// The rest of the entry as it will run, one line each.
    pub(crate) details: String,
    /// The entry as it will run, as JSON.
    pub(crate) shown_entry: Option<Json>,
    /// The places of secrets in clear text.
    pub(crate) secrets: Vec<String>,
    pub(crate) action: ImportAction,
    pub(crate) notes: Vec<String>,
}

/// What would be done with one server.
pub(crate) enum ImportAction {
    Add,
    Replace,
    /// The same entry already exists.
    Same,
    /// A different entry of that name already exists.
    Conflict,
    /// The server cannot be imported.
    Skip(String),
}

impl ImportAction {
    pub(crate) fn writes(&self) -> bool {
        match self {
            ImportAction::Add | ImportAction::Replace => true,
            ImportAction::Same | ImportAction::Conflict | ImportAction::Skip(_) => false,
        }
    }

    pub(crate) fn id(&self) -> &'static str {
        match self {
            ImportAction::Add => "add",
            ImportAction::Replace => "replace",
            ImportAction::Same => "same",
            ImportAction::Conflict => "kept",
            ImportAction::Skip(_) => "skip",
        }
    }
}

impl ImportPlan {
    pub(crate) fn items(&self) -> impl Iterator<Item = &ImportItem> {
        self.files.iter().flat_map(|file| &file.items)
    }

    /// How many secrets in clear text can be stored elsewhere.
    pub(crate) fn storable_secrets(&self) -> usize {
        let items = self.items().filter(|it| it.has_storable_secrets());
        items.map(|it| it.secrets.len()).sum()
    }

    /// Drops a server that an earlier file already provides. Of two different servers with one name only the first is
    /// imported.
    pub(crate) fn without_duplicates(
        &self,
        mut item: ImportItem,
        same_file: &[ImportItem],
    ) -> ImportItem {
        let earlier = self
            .items()
            .chain(same_file)
            .filter(|it| it.action.writes())
            .find(|it| it.scope == item.scope && it.server.name == item.server.name);
        if let (Some(earlier), true) = (earlier, item.action.writes()) {
            item.action = if earlier.server.entry == item.server.entry {
                ImportAction::Same
            } else {
                ImportAction::Skip(
                    "another server of that name is already imported above".to_owned(),
                )
            };
        }
        item
    }

    pub(crate) fn to_text(&self, invocation: &Invocation) -> String {
        if self.files.is_empty() {
            let mut text =
                String::from("No configuration of another program was found. Looked in:\n");
            for path in &self.looked_at {
                text.push_str(&format!("  {}\n", invocation.display_path(path)));
            }
            return text;
        }
        let mut text: String =
            self.files.iter().map(|file| file.to_text(invocation)).collect::<Vec<_>>().join("\n");
        let with_secrets: Vec<&ImportItem> =
            self.items().filter(|it| it.action.writes() && !it.secrets.is_empty()).collect();
        if !with_secrets.is_empty() {
            let count = with_secrets.iter().map(|it| it.secrets.len()).sum();
            text.push_str(&format!(
                "\n{} in clear text in {}\n",
                pluralize(count, "secret", "secrets"),
                pluralize(with_secrets.len(), "server", "servers"),
            ));
        }
        text
    }

    pub(crate) fn to_json(&self, written: &[WritableScope]) -> Json {
        let files: Vec<Json> = self.files.iter().map(PlannedFile::to_json).collect();
        let written: Vec<&str> = written.iter().map(|scope| scope.scope().id()).collect();
        json!({"files": files, "writtenScopes": written})
    }
}

impl PlannedFile {
    pub(crate) fn new(file: HostAppFile) -> PlannedFile {
        PlannedFile {
            file,
            text: String::new(),
            failure: None,
            notes: Vec::new(),
            items: Vec::new(),
        }
    }

    pub(crate) fn to_text(&self, invocation: &Invocation) -> String {
        let title = paint(TextStyle::Bold, self.file.app.title());
        let mut text = format!("{title}  {}\n", invocation.display_path(&self.file.path));
        if let Some(failure) = &self.failure {
            text.push_str(&format!(
                "  {} {}\n",
                paint(TextStyle::Error, "!"),
                printable(&failure.to_string())
            ));
        }
        for item in &self.items {
            text.push_str(&item.to_text());
        }
        for note in &self.notes {
            text.push_str(&format!("  {}\n", printable(&note.to_string())));
        }
        if self.failure.is_none() && self.items.is_empty() && self.notes.is_empty() {
            text.push_str("  no servers\n");
        }
        text
    }

    pub(crate) fn to_json(&self) -> Json {
        let items: Vec<Json> = self.items.iter().map(ImportItem::to_json).collect();
        let notes: Vec<String> = self.notes.iter().map(ToString::to_string).collect();
        json!({
            "program": self.file.app.id(),
            "file": self.file.path.to_string_lossy(),
            "failure": self.failure.as_ref().map(ToString::to_string),
            "notes": notes,
            "servers": items,
        })
    }
}

impl ImportItem {
    /// Has it secrets that can be stored elsewhere? A project's file cannot refer to what one user has stored.
    pub(crate) fn has_storable_secrets(&self) -> bool {
        let is_own = match self.scope {
            WritableScope::User | WritableScope::Local => true,
            WritableScope::Project => false,
        };
        is_own && self.action.writes() && !self.secrets.is_empty()
    }

    pub(crate) fn to_text(&self) -> String {
        let name = match self.server.name.as_str() {
            "" => printable(&self.original),
            name => printable(name),
        };
        let scope = self.scope.scope();
        let mut text = match &self.action {
            ImportAction::Add => {
                format!(
                    "  {} {name} → {scope} scope: {}\n",
                    paint(TextStyle::Success, "+"),
                    self.target
                )
            }
            ImportAction::Replace => {
                let mark = paint(TextStyle::Warning, "~");
                format!("  {mark} {name} → {scope} scope, replaced: {}\n", self.target)
            }
            ImportAction::Same => format!("  = {name}: already there\n"),
            ImportAction::Conflict => {
                format!(
                    "  = {name}: the {scope} scope has a different server of that name; --overwrite replaces it\n"
                )
            }
            ImportAction::Skip(why) => {
                format!("  {} {name}: skipped: {}\n", paint(TextStyle::Error, "!"), printable(why))
            }
        };
        if self.action.writes() {
            for line in self.details.lines() {
                text.push_str(&format!("    {line}\n"));
            }
        }
        for note in &self.notes {
            text.push_str(&format!("      {}\n", printable(note)));
        }
        text
    }

    pub(crate) fn to_json(&self) -> Json {
        let mut json = Map::new();
        json.insert("name".to_owned(), self.server.name.clone().into());
        json.insert("original".to_owned(), self.original.clone().into());
        json.insert("scope".to_owned(), self.scope.scope().id().into());
        json.insert("action".to_owned(), self.action.id().into());
        json.insert("target".to_owned(), self.target.clone().into());
        json.insert("entry".to_owned(), self.shown_entry.clone().into());
        json.insert("clearTextSecrets".to_owned(), self.secrets.clone().into());
        if let ImportAction::Skip(why) = &self.action {
            json.insert("reason".to_owned(), why.clone().into());
        }
        json.insert("notes".to_owned(), self.notes.clone().into());
        Json::Object(json)
    }
}
