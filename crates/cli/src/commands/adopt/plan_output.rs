//! The plan of an adoption as text and as JSON.

use serde_json::{Value as Json, json};
use switchboard::config::adopt;
use switchboard::config::display::{pluralize, printable};

use crate::commands::import::plan::ImportItem;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::output::style::{TextStyle, paint};

use super::plan::{AdoptionPlan, EntryState, PlannedAdoption};

const SHARED: &str = "other people may share this file; --project changes it too";

impl AdoptionPlan {
    pub(super) fn to_text(&self, invocation: &Invocation) -> String {
        let mut parts: Vec<String> =
            self.files.iter().map(|file| file.to_text(invocation)).collect();
        if !self.shared.is_empty() {
            let mut text = String::from("Left alone\n");
            for file in &self.shared {
                let path = invocation.display_path(&file.path);
                text.push_str(&format!("  {path} of {}: {SHARED}\n", file.app.title()));
            }
            parts.push(text);
        }
        if parts.is_empty() {
            let mut text = String::from("No other client was found. Looked for:\n");
            for path in &self.looked_at {
                text.push_str(&format!("  {}\n", invocation.display_path(path)));
            }
            return text;
        }
        let secrets: usize =
            self.moves().filter(|it| it.action.writes()).map(|it| it.secrets.len()).sum();
        if secrets > 0 {
            parts.push(format!("{} in clear text\n", pluralize(secrets, "secret", "secrets")));
        }
        parts.join("\n")
    }

    pub(super) fn to_json(&self, written: &[WritableScope]) -> Json {
        let files: Vec<Json> = self.files.iter().map(PlannedAdoption::to_json).collect();
        let shared: Vec<Json> = self
            .shared
            .iter()
            .map(|it| json!({"program": it.app.id(), "file": it.path.to_string_lossy(), "reason": SHARED}))
            .collect();
        let written: Vec<&str> = written.iter().map(|scope| scope.scope().id()).collect();
        json!({"files": files, "leftAlone": shared, "writtenScopes": written})
    }
}

impl PlannedAdoption {
    fn to_text(&self, invocation: &Invocation) -> String {
        let title = paint(TextStyle::Bold, self.file.app.title());
        let mut text = format!("{title}  {}\n", invocation.display_path(&self.file.path));
        for item in &self.moves {
            text.push_str(&item.to_text());
        }
        let mark = paint(TextStyle::Warning, "!");
        for server in &self.remaining {
            let (name, reason) = (printable(&server.name), printable(&server.reason));
            text.push_str(&format!("  {mark} {name} stays there: {reason}\n"));
        }
        for note in &self.notes {
            text.push_str(&format!("  {}\n", printable(note)));
        }
        let name = printable(&self.entry.name);
        match (self.entry_state, self.changes()) {
            (EntryState::New, _) => {
                let command = printable(&self.entry.command);
                let arguments = self.entry.arguments.join(" ");
                text.push_str(&format!("  the file gets `{name}`: {command} {arguments}\n"));
            }
            (EntryState::Exists, _) => {
                text.push_str(&format!("  the file has `{name}`, which runs Switchboard\n"));
            }
            (EntryState::NotNeeded, true) => {}
            (EntryState::NotNeeded, false) => text.push_str("  no servers\n"),
        }
        text.push_str(&painted(&self.diff()));
        text
    }

    fn diff(&self) -> String {
        let mask = |text: &str| adopt::masked_text(self.file.app, text);
        let before = mask(self.before.as_deref().unwrap_or_default());
        let path = printable(&self.file.path.to_string_lossy());
        adopt::unified_diff(&path, &before, &mask(&self.after))
    }

    fn to_json(&self) -> Json {
        let servers: Vec<Json> = self.moves.iter().map(ImportItem::to_json).collect();
        let remaining: Vec<Json> =
            self.remaining.iter().map(|it| json!({"name": it.name, "reason": it.reason})).collect();
        let entry = match self.entry_state {
            EntryState::New => json!({
                "name": self.entry.name,
                "action": "add",
                "command": self.entry.command,
                "args": self.entry.arguments,
            }),
            EntryState::Exists => json!({"name": self.entry.name, "action": "same"}),
            EntryState::NotNeeded => Json::Null,
        };
        json!({
            "program": self.file.app.id(),
            "file": self.file.path.to_string_lossy(),
            "changes": self.changes(),
            "servers": servers,
            "remaining": remaining,
            "entry": entry,
            "notes": self.notes,
            "diff": self.diff(),
        })
    }
}

/// The difference with colours, each line escaped for the terminal.
fn painted(diff: &str) -> String {
    let line = |line: &str| {
        let shown = printable(line);
        let shown = match line.chars().next() {
            Some('+') => paint(TextStyle::Success, shown),
            Some('-') => paint(TextStyle::Error, shown),
            Some('@') => paint(TextStyle::Dim, shown),
            Some(_) | None => shown,
        };
        format!("{shown}\n")
    };
    diff.lines().map(line).collect()
}
