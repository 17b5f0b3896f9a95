//! `swb bundle uninstall`: removes a server from a bundle, its stored secrets, and the files that no entry uses.

use std::fs;
use std::path::Path;

use clap::Args;
use serde_json::json;
use switchboard::config::bundle::BundleHash;
use switchboard::config::display::{pluralize, printable};
use switchboard::config::edit::Edit;
use switchboard::config::file::BundleEntry;
use switchboard::sources::loader::Configuration;
use switchboard::sources::plugins::read_state;
use switchboard::sources::secrets;
use switchboard_packages::bundle::BundleStore;

use super::configure::bundle_server;
use super::source;
use super::stored_secrets::stored_secrets;
use crate::edit::file;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// Arguments of `swb bundle uninstall`.
#[derive(Debug, Args)]
pub struct UninstallArgs {
    /// The server's name
    #[arg(required_unless_present = "unused")]
    pub name: Option<String>,
    /// The scope to remove it from, if several define it
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// Remove the files of all bundles that no entry uses
    #[arg(long, conflicts_with = "name")]
    pub unused: bool,
}

/// Runs the command.
pub(super) fn run(
    arguments: &UninstallArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let store = source::store(invocation, None)?;
    match &arguments.name {
        Some(name) => uninstall(name, arguments.scope, &store, invocation),
        None => remove_unused(&store, invocation),
    }
}

fn uninstall(
    name: &str,
    scope: Option<WritableScope>,
    store: &BundleStore,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let definitions = invocation.definitions(&configuration, name)?;
    let (server, entry) = bundle_server(name, scope, &definitions)?;
    let Some((scope, file)) = invocation.editable_file(server) else {
        let place = invocation.display_origin(&server.origin);
        let message = format!("`{name}` is defined in {place}, which cannot be changed from here");
        return Err(Failure::new(Exit::Conflict, &message));
    };
    let edit = Edit::RemoveServer { name: name.to_owned() };
    file::edit_file(invocation, scope, &file, &[edit])?;
    let mut notes = String::new();
    let mut deleted = 0;
    for reference in stored_secrets(&entry.values.0, (scope, name), invocation) {
        match secrets::delete_secret(&reference, &invocation.env.home) {
            Ok(()) => deleted += 1,
            Err(error) => notes.push_str(&format!(
                "warning: a secret was not deleted: {}\n",
                printable(&error.to_string())
            )),
        }
    }
    let left = invocation.load_without_demo()?;
    let is_used = is_used(&entry.hash, Some(&left), invocation);
    if !is_used {
        store.remove(&entry.hash).or_else(already_gone).map_err(source::failure)?;
    }
    if invocation.wants_json() {
        return Ok(json_output(&json!({
            "removed": name,
            "scope": scope.scope().id(),
            "bundle": entry.hash.to_string(),
            "filesRemoved": !is_used,
            "secretsRemoved": deleted,
        }))
        .note(notes));
    }
    let place = file::scope_location(invocation, scope, &file);
    let mut text = format!("Removed `{}` from {place}\n", printable(name));
    if deleted > 0 {
        text.push_str(&format!(
            "Deleted {}\n",
            pluralize(deleted, "stored secret", "stored secrets")
        ));
    }
    text.push_str(match is_used {
        true => "Kept the bundle's files: another entry uses them\n",
        false => "Deleted the bundle's files\n",
    });
    Ok(CommandOutput::text(text).note(notes))
}

fn remove_unused(store: &BundleStore, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    let mut removed = Vec::new();
    for hash in store.hashes().map_err(source::failure)? {
        if !is_used(&hash, Some(&configuration), invocation) {
            store.remove(&hash).or_else(already_gone).map_err(source::failure)?;
            removed.push(hash.to_string());
        }
    }
    if invocation.wants_json() {
        return Ok(json_output(&json!({ "filesRemoved": removed })));
    }
    let count = pluralize(removed.len(), "bundle", "bundles");
    Ok(CommandOutput::text(format!("Deleted the files of {count}\n")))
}

/// Another process may have removed it meanwhile.
fn already_gone(
    error: switchboard_packages::bundle::BundleError,
) -> Result<(), switchboard_packages::bundle::BundleError> {
    use switchboard_packages::bundle::BundleError;
    match error {
        BundleError::NotInstalled { .. } => Ok(()),
        BundleError::Read { .. }
        | BundleError::TooLarge { .. }
        | BundleError::Write { .. }
        | BundleError::Archive { .. }
        | BundleError::Manifest { .. }
        | BundleError::BrokenSignature { .. } => Err(error),
    }
}

/// Does an entry use the bundle: one that counts here, one in the user's settings for another project, or a plugin?
pub(crate) fn is_used(
    hash: &BundleHash,
    configuration: Option<&Configuration>,
    invocation: &Invocation,
) -> bool {
    let servers = configuration.into_iter().flat_map(|it| &it.effective.servers);
    let names_it = |entry: &BundleEntry| entry.hash == *hash;
    if servers.filter_map(|it| it.bundle.as_ref()).any(names_it) {
        return true;
    }
    // A file about plugins that cannot be read may name it.
    let of_plugins = read_state(&invocation.env.paths).map_or(true, |state| {
        state.installed.0.values().flatten().any(|it| it.bundles.values().any(|it| it == hash))
    });
    if of_plugins {
        return true;
    }
    let projects = invocation.env.paths.config.join("projects");
    let folders = projects.read_dir().into_iter().flatten().flatten();
    let has_hash = |file: &Path| {
        fs::read_to_string(file).is_ok_and(|text| text.to_lowercase().contains(hash.digits()))
    };
    folders.map(|it| it.path().join("settings.json")).any(|file| has_hash(&file))
        || has_hash(&invocation.env.paths.user_settings())
}
