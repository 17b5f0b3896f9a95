//! The plan of an adoption: which servers move, which stay and why, and the new text of each file.

use std::path::{Path, PathBuf};

use switchboard::config::adopt::{self, AdoptError, FileChange, PoolEntry, ServerRemoval};
use switchboard::config::import::{
    FileScope, HostApp, HostAppFile, ImportNote, ImportedScope, SkipReason,
};
use switchboard::sources::loader::Configuration;
use switchboard::sources::project_root;

use crate::commands::import;
use crate::commands::import::PlanOptions;
use crate::commands::import::plan::{FileFailure, ImportAction, ImportItem, PlannedFile};
use crate::edit::file;
use crate::edit::servers::{self, IfExists};
use crate::env::CONFIG_DIR_VARIABLE;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::Failure;

use super::AdoptArgs;
use super::pool_program;

/// The name of the entry that stays in a client's file, and the one that is used where it is taken.
const ENTRY_NAMES: [&str; 2] = ["switchboard", "switchboard-pool"];

/// Keys without counterpart that change what a server does or who it acts for, so that a moved server would not be
/// the same.
const ESSENTIAL_KEYS: [&str; 10] = [
    "envFile",
    "env_file",
    "sandbox",
    "sandboxEnabled",
    "authProviderType",
    "targetAudience",
    "targetServiceAccount",
    "bearer_token",
    "remote",
    "experimental_environment",
];

/// What an adoption would do.
pub(super) struct AdoptionPlan {
    pub(super) files: Vec<PlannedAdoption>,
    /// Files of the project that are left alone.
    pub(super) shared: Vec<HostAppFile>,
    pub(super) looked_at: Vec<PathBuf>,
}

/// One file of a client.
pub(super) struct PlannedAdoption {
    pub(super) file: HostAppFile,
    /// Its text; `None` if it does not exist yet.
    pub(super) before: Option<String>,
    pub(super) after: String,
    pub(super) moves: Vec<ImportItem>,
    pub(super) remaining: Vec<RemainingServer>,
    pub(super) notes: Vec<String>,
    pub(super) entry: PoolEntry,
    pub(super) entry_state: EntryState,
    /// Tools that the client runs without asking: rules in our form, with the server's scope.
    pub(super) approved_tools: Vec<(WritableScope, String)>,
}

/// Whether the file has an entry that runs Switchboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryState {
    New,
    Exists,
    /// Another file of the client has one.
    NotNeeded,
}

/// A server that stays in the client's file.
pub(super) struct RemainingServer {
    pub(super) name: String,
    pub(super) reason: String,
}

impl PlannedAdoption {
    pub(super) fn changes(&self) -> bool {
        self.before.as_deref() != Some(self.after.as_str())
    }
}

impl AdoptionPlan {
    /// The files that change.
    pub(super) fn changes(&self) -> impl Iterator<Item = &PlannedAdoption> {
        self.files.iter().filter(|file| file.changes())
    }

    /// The items that move.
    pub(super) fn moves(&self) -> impl Iterator<Item = &ImportItem> {
        self.files.iter().flat_map(|file| &file.moves)
    }

    /// What the clients approve, one line each.
    pub(super) fn approvals(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for file in &self.files {
            for item in file.moves.iter().filter(|item| item.action.writes()) {
                if is_trusted(item) {
                    lines.push(format!("every tool of `{}`", item.server.name));
                }
                if item.scope == WritableScope::Project {
                    lines.push(format!("the project's server `{}`", item.server.name));
                }
            }
            lines.extend(file.approved_tools.iter().map(|(_, rule)| format!("the tool `{rule}`")));
        }
        lines
    }
}

/// Does the entry say that its tools run without a question?
pub(super) fn is_trusted(item: &ImportItem) -> bool {
    item.server.entry.get("trust").and_then(serde_json::Value::as_bool) == Some(true)
}

/// Plans an adoption. A file that cannot be parsed fails the whole command, so that nothing is done by half.
pub(super) fn make(
    arguments: &AdoptArgs,
    configuration: &Configuration,
    invocation: &Invocation,
) -> Result<AdoptionPlan, Failure> {
    let options =
        PlanOptions { programs: &arguments.clients, scope: None, existing: IfExists::Fail };
    let imports = import::plan(&options, configuration, invocation);
    let mut plan =
        AdoptionPlan { files: Vec::new(), shared: Vec::new(), looked_at: imports.looked_at };
    for planned in imports.files {
        if let Some(failure) = &planned.failure {
            return Err(unusable(&planned.file, failure, invocation));
        }
        if planned.file.scope == FileScope::Project && !arguments.project {
            if !planned.items.is_empty() {
                plan.shared.push(planned.file);
            }
            continue;
        }
        if planned.file.scope == FileScope::Project {
            file::expect_inside(invocation, WritableScope::Project, &planned.file.path)?;
        }
        plan.files.push(plan_file(planned, invocation)?);
    }
    settle_duplicates(&mut plan.files, configuration, invocation);
    add_new_files(arguments, &mut plan, invocation)?;
    drop_needless_entries(&mut plan.files);
    let project = project_root(&invocation.env.working_folder);
    for file in &mut plan.files {
        file.after = after(file, &project, invocation)?;
    }
    Ok(plan)
}

/// A server counts as present only if it is configured, or if an earlier file really moves it.
fn settle_duplicates(
    files: &mut [PlannedAdoption],
    configuration: &Configuration,
    invocation: &Invocation,
) {
    let mut moved: Vec<(WritableScope, String)> = Vec::new();
    for item in files.iter_mut().flat_map(|file| &mut file.moves) {
        let place = (item.scope, item.server.name.clone());
        let path = invocation.scope_file(item.scope);
        let is_configured =
            servers::definition_in(configuration, &path, &item.server.name).is_some();
        if !item.action.writes() && !is_configured && !moved.contains(&place) {
            item.action = ImportAction::Add;
        }
        if item.action.writes() {
            moved.push(place);
        }
    }
}

/// Plans the file of a client that the user named and that has a folder but no file yet.
fn add_new_files(
    arguments: &AdoptArgs,
    plan: &mut AdoptionPlan,
    invocation: &Invocation,
) -> Result<(), Failure> {
    for app in &arguments.clients {
        if plan.files.iter().any(|it| it.file.app == *app) {
            continue;
        }
        let files = import::files_of(*app, invocation);
        let is_own = |file: &&HostAppFile| file.scope == FileScope::User;
        let has_folder =
            |file: &&HostAppFile| file.path.parent().is_some_and(|folder| folder.is_dir());
        let Some(file) = files.iter().filter(is_own).find(has_folder) else {
            let paths: Vec<String> =
                files.iter().map(|file| invocation.display_path(&file.path)).collect();
            let message = format!("no configuration of {} was found", app.title());
            return Err(Failure::new(Exit::NotFound, &message)
                .hint(&format!("start it once; looked for {}", paths.join(", "))));
        };
        // Its home is the user's home folder, which says nothing about the program.
        if *app == HostApp::ClaudeCode && !invocation.env.home.join(".claude").is_dir() {
            let message = format!("no configuration of {} was found", app.title());
            let path = invocation.display_path(&file.path);
            return Err(Failure::new(Exit::NotFound, &message)
                .hint(&format!("start it once; looked for {path}")));
        }
        let mut planned = plan_file(PlannedFile::new(file.clone()), invocation)?;
        planned.before = None;
        plan.files.push(planned);
    }
    Ok(())
}

fn plan_file(planned: PlannedFile, invocation: &Invocation) -> Result<PlannedAdoption, Failure> {
    let PlannedFile { file, text, notes, items, failure: _ } = planned;
    let project = project_root(&invocation.env.working_folder);
    let mut own_entry = None;
    let mut remaining = Vec::new();
    let mut other_notes = Vec::new();
    for note in notes {
        match note {
            ImportNote::ServerSkipped { server, reason: SkipReason::RunsSwitchboard } => {
                own_entry = Some(server);
            }
            ImportNote::ServerSkipped { server, reason } => {
                remaining.push(RemainingServer { name: server, reason: reason.to_string() });
            }
            // Such a key stays in the file.
            ImportNote::KeyDropped { .. } => {}
            ImportNote::KeyNotRead { .. }
            | ImportNote::Rewritten { .. }
            | ImportNote::DollarEscaped { .. }
            | ImportNote::ReferenceNotTranslated { .. }
            | ImportNote::TrustDropped
            | ImportNote::VariableRequired { .. }
            | ImportNote::InputBecameVariable { .. }
            | ImportNote::FileReferenced { .. }
            | ImportNote::ContainerKept
            | ImportNote::TransportAssumed { .. }
            | ImportNote::DisabledBy { .. }
            | ImportNote::DisabledInProject
            | ImportNote::OtherProjects { .. } => other_notes.push(note.to_string()),
        }
    }
    let mut moves = Vec::new();
    let mut approved_tools = Vec::new();
    for mut item in items {
        match reason_to_stay(&item, &file, invocation) {
            Some(reason) => remaining.push(RemainingServer { name: item.original, reason }),
            None => {
                if item.scope != WritableScope::Project {
                    let server = (item.source_scope, item.original.as_str());
                    let tools = adopt::approved_tools(&file, &text, &project, server);
                    let rule = |tool: &String| format!("mcp__{}__{tool}", item.server.name);
                    approved_tools.extend(tools.iter().map(|tool| (item.scope, rule(tool))));
                    note_approvals(&mut item, &tools);
                }
                moves.push(item);
            }
        }
    }
    if file.app == HostApp::ClaudeCode
        && invocation.scope_file(WritableScope::Project).symlink_metadata().is_ok()
    {
        other_notes.push(
            "Claude Code still starts the servers of .mcp.json itself, which is Switchboard's project file too"
                .to_owned(),
        );
    }
    if invocation.env.variables.contains_key(CONFIG_DIR_VARIABLE) {
        other_notes.push(format!(
            "{CONFIG_DIR_VARIABLE} is set here; set it where the client starts its servers too"
        ));
    }
    let is_free = |name: &&&str| !remaining.iter().any(|server| server.name == **name);
    let name = ENTRY_NAMES.iter().find(is_free).unwrap_or(&ENTRY_NAMES[0]);
    let command = pool_program::command_for(file.scope, invocation)?;
    Ok(PlannedAdoption {
        after: text.clone(),
        before: Some(text),
        entry_state: if own_entry.is_some() { EntryState::Exists } else { EntryState::New },
        entry: PoolEntry::new(own_entry.as_deref().unwrap_or(name), &command),
        file,
        moves,
        remaining,
        notes: other_notes,
        approved_tools,
    })
}

/// Says what the client approves; the import only says that it left the list out.
fn note_approvals(item: &mut ImportItem, tools: &[String]) {
    let mut approved = Vec::new();
    if is_trusted(item) {
        approved.push("every tool".to_owned());
    }
    if !tools.is_empty() {
        let is_list = |note: &String| {
            adopt::APPROVAL_KEYS
                .iter()
                .any(|key| *note == ImportNote::KeyDropped { key: (*key).to_owned() }.to_string())
        };
        item.notes.retain(|note| !is_list(note));
        approved.extend(tools.iter().cloned());
    }
    if !approved.is_empty() {
        let list = approved.join(", ");
        item.notes.push(format!("approved there: {list}; --carry-approvals takes it over"));
    }
}

/// Why a server stays in the client's file; `None` if it moves.
fn reason_to_stay(
    item: &ImportItem,
    file: &HostAppFile,
    invocation: &Invocation,
) -> Option<String> {
    match &item.action {
        ImportAction::Add | ImportAction::Replace | ImportAction::Same => {}
        ImportAction::Conflict => {
            let scope = item.scope.scope();
            return Some(format!("the {scope} scope has a different server of that name"));
        }
        ImportAction::Skip(why) => return Some(why.clone()),
    }
    let is_unset = |variable: &str| !invocation.env.variables.contains_key(variable);
    item.import_notes.iter().find_map(|note| match note {
        ImportNote::InputBecameVariable { input, variable } if is_unset(variable) => Some(format!(
            "{} asks for `{input}`; set the variable `{variable}` first",
            file.app.title()
        )),
        ImportNote::ReferenceNotTranslated { key } => {
            Some(format!("`{key}` has a reference that only {} can resolve", file.app.title()))
        }
        ImportNote::KeyDropped { key } if ESSENTIAL_KEYS.contains(&key.as_str()) => {
            Some(format!("`{key}` changes how it runs and has no counterpart"))
        }
        ImportNote::InputBecameVariable { .. }
        | ImportNote::KeyDropped { .. }
        | ImportNote::KeyNotRead { .. }
        | ImportNote::Rewritten { .. }
        | ImportNote::DollarEscaped { .. }
        | ImportNote::TrustDropped
        | ImportNote::VariableRequired { .. }
        | ImportNote::FileReferenced { .. }
        | ImportNote::ContainerKept
        | ImportNote::TransportAssumed { .. }
        | ImportNote::DisabledBy { .. }
        | ImportNote::DisabledInProject
        | ImportNote::OtherProjects { .. }
        | ImportNote::ServerSkipped { .. } => None,
    })
}

/// A file without servers needs no entry if it is the project's, or if another file of the same client has one.
fn drop_needless_entries(files: &mut [PlannedAdoption]) {
    for index in 0..files.len() {
        let (app, scope) = (files[index].file.app, files[index].file.scope);
        let has_entry = |file: &PlannedAdoption| match file.entry_state {
            EntryState::Exists => true,
            EntryState::New => !file.moves.is_empty(),
            EntryState::NotNeeded => false,
        };
        let others = files.iter().enumerate().filter(|(other, _)| *other != index);
        let mut others = others.filter(|(_, it)| it.file.app == app).map(|(_, it)| it);
        let is_served = scope == FileScope::Project
            || others.clone().any(has_entry)
            || others.any(|it| it.file.scope == scope && it.entry_state == EntryState::NotNeeded);
        let file = &mut files[index];
        if file.entry_state == EntryState::New && file.moves.is_empty() && is_served {
            file.entry_state = EntryState::NotNeeded;
        }
    }
}

/// The text of the file after the adoption.
fn after(
    planned: &PlannedAdoption,
    project: &Path,
    invocation: &Invocation,
) -> Result<String, Failure> {
    let removals: Vec<ServerRemoval> = planned
        .moves
        .iter()
        .map(|item| ServerRemoval { name: item.original.clone(), scope: item.source_scope })
        .collect();
    let entry = match planned.entry_state {
        EntryState::New => Some(&planned.entry),
        EntryState::Exists | EntryState::NotNeeded => None,
    };
    let text = planned.before.as_deref().unwrap_or_default();
    if removals.is_empty() && entry.is_none() {
        return Ok(text.to_owned());
    }
    let change = FileChange { file: &planned.file, project, removals: &removals, entry };
    adopt::rewrite(&change, text).map_err(|error| cannot_edit(planned, error, invocation))
}

fn cannot_edit(planned: &PlannedAdoption, error: AdoptError, invocation: &Invocation) -> Failure {
    let path = invocation.display_path(&planned.file.path);
    let hint = format!(
        "add the entry by hand: `{} {}`, or name the other clients",
        planned.entry.command,
        planned.entry.arguments.join(" ")
    );
    Failure::new(Exit::Configuration, &format!("{path} cannot be changed; nothing was changed"))
        .caused_by(error)
        .hint(&hint)
}

fn unusable(file: &HostAppFile, failure: &FileFailure, invocation: &Invocation) -> Failure {
    let path = invocation.display_path(&file.path);
    let message = match failure {
        FileFailure::Unreadable(why) => format!("{path} {why}; nothing was changed"),
        FileFailure::Syntax(error) => {
            format!("{path}:{}:{}: {}; nothing was changed", error.line, error.column, error.kind)
        }
    };
    let hint = format!("correct the file of {}, or name the other clients", file.app.title());
    Failure::new(Exit::Configuration, &message).hint(&hint)
}

/// Is the server disabled in this project only?
pub(super) fn is_disabled_in_project(item: &ImportItem) -> bool {
    item.source_scope == ImportedScope::User
        && item.import_notes.contains(&ImportNote::DisabledInProject)
}
