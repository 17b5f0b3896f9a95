//! Carries out the plan of an adoption, one file after the other: record and backup, servers, then the client's file.

use std::time::SystemTime;

use switchboard::config::display::pluralize;
use switchboard::config::edit::Edit;
use switchboard::config::import::FileScope;
use switchboard::sources::atomic_file::{self, Privacy};
use switchboard::utc_timestamp;

use crate::commands::import;
use crate::commands::import::plan::ImportItem;
use crate::edit::file;
use crate::edit::project_approvals::{self, ProjectServers};
use crate::edit::servers::{self, IfExists, NewServer};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::Failure;

use super::plan::{self, AdoptionPlan, PlannedAdoption};
use super::record::{AdoptionRecord, ListRecord, OriginalFile, Records, ServerRecord, entry_hash};
use super::{AdoptArgs, can_ask, server_removal};

const SCOPES: [WritableScope; 3] =
    [WritableScope::User, WritableScope::Local, WritableScope::Project];

/// Whether approvals of the clients are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApprovalChoice {
    Carry,
    Drop,
}

/// What was done, for the user.
#[derive(Default)]
pub(super) struct AdoptionOutput {
    pub(super) text: String,
    pub(super) notes: String,
    pub(super) scopes: Vec<WritableScope>,
}

/// Adopts every file of the plan that changes.
pub(super) fn apply(
    plan: &mut AdoptionPlan,
    arguments: &AdoptArgs,
    approvals: ApprovalChoice,
    invocation: &Invocation,
) -> Result<AdoptionOutput, Failure> {
    let dropped_approvals = plan.approvals().len();
    if approvals == ApprovalChoice::Drop {
        for item in plan.files.iter_mut().flat_map(|file| &mut file.moves) {
            if plan::is_trusted(item) {
                item.server.entry.shift_remove("trust");
            }
        }
    }
    let clear_text = storable_secrets(plan);
    let storage =
        import::secret_storage(arguments.secrets, clear_text, can_ask(arguments, invocation))?;
    let items = plan.files.iter_mut().flat_map(|file| &mut file.moves);
    let stored = import::store_secrets(items, storage, invocation)?;
    let mut records = Records::load(invocation)?;
    let mut done = AdoptionOutput::default();
    for planned in plan.changes() {
        if let Err(failure) = adopt_file(planned, approvals, &mut records, invocation) {
            return Err(match done.text.is_empty() {
                true => failure,
                // The files before this one are adopted.
                false => failure.detail(done.text),
            });
        }
        done.text.push_str(&adopted_text(planned, invocation));
        let written = planned.moves.iter().filter(|it| it.action.writes()).map(|it| it.scope);
        for scope in written {
            if !done.scopes.contains(&scope) {
                done.scopes.push(scope);
            }
        }
    }
    done.notes = import::secret_notes(clear_text, storage, stored);
    match approvals {
        ApprovalChoice::Carry => approve_project_servers(plan, invocation)?,
        ApprovalChoice::Drop if dropped_approvals > 0 => done.notes.push_str(&format!(
            "note: {} of the clients not taken over; see: swb permissions, swb approve\n",
            pluralize(dropped_approvals, "approval", "approvals")
        )),
        ApprovalChoice::Drop => {}
    }
    done.notes.push_str("note: restart the clients; `swb adopt --undo` restores their files\n");
    Ok(done)
}

fn storable_secrets(plan: &AdoptionPlan) -> usize {
    plan.moves().filter(|it| it.has_storable_secrets()).map(|it| it.secrets.len()).sum()
}

fn adopted_text(planned: &PlannedAdoption, invocation: &Invocation) -> String {
    let moved = pluralize(planned.moves.len(), "server", "servers");
    let path = invocation.display_path(&planned.file.path);
    let staying = match planned.remaining.len() {
        0 => String::new(),
        count => format!(", {}", pluralize(count, "stays", "stay")),
    };
    format!("Adopted {}: {moved} moved{staying}; changed {path}\n", planned.file.app.title())
}

/// Adopts one file, or changes nothing.
fn adopt_file(
    planned: &PlannedAdoption,
    approvals: ApprovalChoice,
    records: &mut Records<'_>,
    invocation: &Invocation,
) -> Result<(), Failure> {
    let lists = list_additions(planned, approvals, invocation);
    let server = |item: &ImportItem| ServerRecord {
        name: item.server.name.clone(),
        file: invocation.scope_file(item.scope),
        hash: entry_hash(&item.server.entry),
        is_added: item.action.writes(),
    };
    let record = AdoptionRecord {
        number: records.next_number(),
        client: planned.file.app,
        file: planned.file.path.clone(),
        at: utc_timestamp(SystemTime::now()),
        original: OriginalFile::of(planned.before.as_deref()),
        entry: planned.entry.name.clone(),
        servers: planned.moves.iter().map(server).collect(),
        lists: lists.iter().map(|(_, list)| list.clone()).collect(),
    };
    let number = record.number;
    records.add(record.clone(), planned.before.as_deref().unwrap_or_default(), &planned.after)?;
    let mut written = AdoptionRecord { servers: Vec::new(), lists: Vec::new(), ..record.clone() };
    let outcome = write_servers(planned, &record, &mut written, invocation)
        .and_then(|()| write_lists(lists, &mut written, invocation))
        .and_then(|()| change_client_file(planned));
    if let Err(failure) = outcome {
        records.remove(number)?;
        server_removal::remove_added(&written, &mut records.all)?;
        return Err(failure);
    }
    Ok(())
}

fn write_servers(
    planned: &PlannedAdoption,
    record: &AdoptionRecord,
    written: &mut AdoptionRecord,
    invocation: &Invocation,
) -> Result<(), Failure> {
    for scope in SCOPES {
        let in_scope = |item: &&ImportItem| item.scope == scope && item.action.writes();
        let servers: Vec<NewServer> =
            planned.moves.iter().filter(in_scope).map(|item| item.server.clone()).collect();
        if servers.is_empty() {
            continue;
        }
        servers::write_servers(invocation, scope, &servers, IfExists::Fail)?;
        let path = invocation.scope_file(scope);
        let here = record.servers.iter().filter(|it| it.is_added && it.file == path);
        written.servers.extend(here.cloned());
    }
    Ok(())
}

/// The strings that go to lists of our settings: approved tools, and servers that are disabled in this project.
fn list_additions(
    planned: &PlannedAdoption,
    approvals: ApprovalChoice,
    invocation: &Invocation,
) -> Vec<(WritableScope, ListRecord)> {
    let list = |scope: WritableScope, object: &str, key: &str, text: &str| {
        let file = invocation.scope_file(scope);
        let (object, key, text) = (object.to_owned(), key.to_owned(), text.to_owned());
        (scope, ListRecord { file, object, key, text })
    };
    let mut lists = Vec::new();
    if approvals == ApprovalChoice::Carry {
        let rules = planned.approved_tools.iter();
        lists.extend(rules.map(|(scope, rule)| list(*scope, "permissions", "allow", rule)));
    }
    let disabled = planned.moves.iter().filter(|item| plan::is_disabled_in_project(item));
    lists.extend(
        disabled.map(|it| list(WritableScope::Local, "", "disabledMcpServers", &it.server.name)),
    );
    lists
}

fn write_lists(
    lists: Vec<(WritableScope, ListRecord)>,
    written: &mut AdoptionRecord,
    invocation: &Invocation,
) -> Result<(), Failure> {
    for (scope, list) in lists {
        let (key, text) = (list.key.clone(), list.text.clone());
        let edit = match list.object.as_str() {
            "" => Edit::AddToList { key, text },
            object => Edit::AddToNestedList { object: object.to_owned(), key, text },
        };
        file::edit_file(invocation, scope, &list.file, &[edit])?;
        written.lists.push(list);
    }
    Ok(())
}

/// Changes the client's file, unless it changed since it was read.
fn change_client_file(planned: &PlannedAdoption) -> Result<(), Failure> {
    let privacy = match planned.file.scope {
        FileScope::User => Privacy::Owner,
        FileScope::Project => Privacy::Shared,
    };
    let before = planned.before.as_deref().unwrap_or_default();
    let mut has_changed = false;
    atomic_file::change(&planned.file.path, privacy, |text| {
        has_changed = text != before;
        Ok(if has_changed { text.to_owned() } else { planned.after.clone() })
    })?;
    match has_changed {
        false => Ok(()),
        true => {
            let title = planned.file.app.title();
            let message = format!("{title} changed its file in the meantime; it was not changed");
            Err(Failure::new(Exit::Conflict, &message).hint("run swb adopt again"))
        }
    }
}

/// Approves the project's servers that were moved: the client ran them.
fn approve_project_servers(plan: &AdoptionPlan, invocation: &Invocation) -> Result<(), Failure> {
    let names: Vec<String> = plan
        .moves()
        .filter(|it| it.scope == WritableScope::Project && it.action.writes())
        .map(|it| it.server.name.clone())
        .collect();
    if !names.is_empty() {
        let servers = ProjectServers::Named(&names);
        project_approvals::approve(invocation, servers, None)?;
    }
    Ok(())
}
