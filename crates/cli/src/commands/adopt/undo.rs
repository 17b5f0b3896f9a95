//! `swb adopt --undo`: restores the files of clients. Changes that were made since are kept or nothing is done.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use switchboard::config::adopt;
use switchboard::config::display::printable;
use switchboard::config::import::{self, FileScope, HostAppFile, ImportNote, SkipReason};
use switchboard::sources::atomic_file::{self, Privacy};
use switchboard::sources::project_root;
use switchboard::sources::text_file::{self, AllowedFiles, FileContent};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

use super::AdoptArgs;
use super::record::{AdoptionRecord, Records, write_private};
use super::server_removal;

/// What is done with the file of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restoration {
    /// The file becomes what it was, byte for byte.
    Exact,
    /// Only the change of the adoption is taken back; later changes stay.
    Merged,
    /// The file already is what it was.
    AlreadyRestored,
    /// The backup replaces a changed file; a copy of that is kept.
    Forced,
}

impl Restoration {
    fn id(self) -> &'static str {
        match self {
            Restoration::Exact => "restored",
            Restoration::Merged => "merged",
            Restoration::AlreadyRestored => "same",
            Restoration::Forced => "forced",
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Restoration::Exact => "restored byte for byte",
            Restoration::Merged => "restored; changes made since are kept",
            Restoration::AlreadyRestored => "was already restored",
            Restoration::Forced => "restored from the backup; a copy of the changed file is kept",
        }
    }
}

/// One record, and what its file becomes.
struct UndoStep {
    record: AdoptionRecord,
    restoration: Restoration,
    /// The text that `Forced` replaces.
    replaced: Option<String>,
}

/// The texts of files; `None` if a file does not exist.
type FileTexts = BTreeMap<PathBuf, Option<String>>;

/// Runs the command.
pub(super) fn run(
    arguments: &AdoptArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let mut records = Records::load(invocation)?;
    let is_chosen = |record: &&AdoptionRecord| {
        arguments.clients.is_empty() || arguments.clients.contains(&record.client)
    };
    let chosen: Vec<AdoptionRecord> = records.all.iter().filter(is_chosen).rev().cloned().collect();
    if chosen.is_empty() {
        return Ok(match invocation.wants_json() {
            true => json_output(&json!({"files": [], "notes": []})),
            false => CommandOutput::text("No client is adopted.\n"),
        });
    }
    let mut now = FileTexts::new();
    for record in &chosen {
        now.insert(record.file.clone(), read(record, invocation)?);
    }
    let mut after = now.clone();
    let mut steps = Vec::new();
    let mut refused = Vec::new();
    for record in chosen {
        match step(&record, arguments, &mut after, &records, invocation)? {
            Some(step) => steps.push(step),
            None => refused.push(invocation.display_path(&record.file)),
        }
    }
    if !refused.is_empty() {
        return Err(changed_since(&refused));
    }
    let mut notes = Vec::new();
    if !arguments.dry_run {
        for step in &steps {
            if let Some(text) = &step.replaced {
                write_private(&records.replaced_path(&step.record), text)?;
            }
        }
        for (path, text) in &after {
            write(path, now.get(path).and_then(Option::as_deref), text.as_deref())?;
        }
        for step in &steps {
            records.remove(step.record.number)?;
            notes.extend(server_removal::remove_added(&step.record, &mut records.all)?);
        }
        records.save()?;
    }
    Ok(output(arguments, &steps, &notes, invocation))
}

fn read(record: &AdoptionRecord, invocation: &Invocation) -> Result<Option<String>, Failure> {
    match text_file::read_text(&record.file, AllowedFiles::RegularOnly) {
        Ok(FileContent::Text(text)) => Ok(Some(text)),
        Ok(FileContent::Absent) => Ok(None),
        Err(why) => {
            let path = invocation.display_path(&record.file);
            let message = format!("{path} {why}; nothing was changed");
            Err(Failure::new(Exit::Configuration, &message))
        }
    }
}

/// Decides about one record and updates the texts; `None` if the file was changed and cannot be merged.
fn step(
    record: &AdoptionRecord,
    arguments: &AdoptArgs,
    texts: &mut FileTexts,
    records: &Records<'_>,
    invocation: &Invocation,
) -> Result<Option<UndoStep>, Failure> {
    let adopted = records.adopted_text(record)?;
    let original = records.original_text(record)?;
    let before = original.clone().unwrap_or_default();
    let current = texts.get(&record.file).cloned().flatten();
    let mut replaced = None;
    let (restoration, text) = match current {
        current if current == original => (Restoration::AlreadyRestored, original),
        None => (Restoration::Exact, original),
        Some(text) if text == adopted => (Restoration::Exact, original),
        Some(text) => match merged(record, [&adopted, &before, &text], invocation) {
            Some(merged) => (Restoration::Merged, Some(merged)),
            None if arguments.force => {
                replaced = Some(text);
                (Restoration::Forced, original)
            }
            None => return Ok(None),
        },
    };
    texts.insert(record.file.clone(), text);
    Ok(Some(UndoStep { record: record.clone(), restoration, replaced }))
}

/// Takes back the adoption in a file that was changed since. The result must be valid and must not run Switchboard.
fn merged(
    record: &AdoptionRecord,
    [adopted, before, now]: [&str; 3],
    invocation: &Invocation,
) -> Option<String> {
    let text = adopt::merge_lines(adopted, before, now)?;
    let file =
        HostAppFile { app: record.client, path: record.file.clone(), scope: FileScope::User };
    let root = project_root(&invocation.env.working_folder);
    let own_entry = ImportNote::ServerSkipped {
        server: record.entry.clone(),
        reason: SkipReason::RunsSwitchboard,
    };
    let entry_was_there =
        import::read(&file, before, &root).is_ok_and(|it| it.notes.contains(&own_entry));
    let outcome = import::read(&file, &text, &root).ok()?;
    (entry_was_there || !outcome.notes.contains(&own_entry)).then_some(text)
}

fn changed_since(files: &[String]) -> Failure {
    let message =
        format!("changed since the adoption, so nothing was restored: {}", files.join(", "));
    Failure::new(Exit::Conflict, &message).hint(
        "swb adopt --undo --force restores the backups and keeps a copy of the changed files; `swb adopt status` shows where they are",
    )
}

/// Writes a file, unless it changed since it was read.
fn write(path: &PathBuf, now: Option<&str>, after: Option<&str>) -> Result<(), Failure> {
    if now == after {
        return Ok(());
    }
    let Some(after) = after else {
        return std::fs::remove_file(path).map_err(|error| {
            let message = format!("{} could not be removed", path.display());
            Failure::new(Exit::Failure, &message).caused_by(error)
        });
    };
    let mut has_changed = false;
    atomic_file::change(path, Privacy::Owner, |text| {
        has_changed = text != now.unwrap_or_default();
        Ok(if has_changed { text.to_owned() } else { after.to_owned() })
    })?;
    match has_changed {
        false => Ok(()),
        true => Err(Failure::new(
            Exit::Conflict,
            &format!("{} changed in the meantime; it was not restored", path.display()),
        )
        .hint("run swb adopt --undo again")),
    }
}

fn output(
    arguments: &AdoptArgs,
    steps: &[UndoStep],
    notes: &[String],
    invocation: &Invocation,
) -> CommandOutput {
    if invocation.wants_json() {
        let files: Vec<Json> = steps
            .iter()
            .map(|it| {
                json!({
                    "program": it.record.client.id(),
                    "file": it.record.file,
                    "action": it.restoration.id(),
                })
            })
            .collect();
        return json_output(&json!({"files": files, "notes": notes}));
    }
    let mut text = String::new();
    for step in steps {
        let path = invocation.display_path(&step.record.file);
        let title = step.record.client.title();
        text.push_str(&format!("{title}  {path}: {}\n", step.restoration.describe()));
    }
    if arguments.dry_run {
        text.push_str("\nNothing was changed.\n");
    }
    let notes: String = notes.iter().map(|note| format!("note: {}\n", printable(note))).collect();
    CommandOutput::text(text).note(notes)
}
