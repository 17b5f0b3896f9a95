//! The options of plugins: values in the user's settings, secrets in the secret store.

use std::path::Path;

use serde_json::{Map, Value as Json};
use switchboard::config::display::printable;
use switchboard::config::document::Document;
use switchboard::config::edit::Edit;
use switchboard::config::entry::sha256;
use switchboard::config::plugin::PluginId;
use switchboard::config::template::SecretReference;
use switchboard::config::user_config::UserConfig;
use switchboard::sources::secrets;
use switchboard::sources::text_file::{self, AllowedFiles, FileContent};

use super::approval::print_now;
use crate::commands::bundle::options;
use crate::commands::bundle::options::{AskedOptions, NewValues, OptionTarget, TypedValues};
use crate::commands::bundle::stored_secrets::stored_secrets;
use crate::commands::import::SecretStorage;
use crate::edit::file;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::Failure;

const KEY: &str = "pluginConfigs";
const OPTIONS: &str = "options";
const SERVERS: &str = "mcpServers";

/// What a user changes.
pub(super) struct OptionChanges {
    pub(super) typed: TypedValues,
    pub(super) unset: Vec<String>,
    pub(super) storage: SecretStorage,
}

impl OptionChanges {
    fn is_empty(&self) -> bool {
        self.typed.is_empty() && self.unset.is_empty()
    }
}

/// The name of a plugin, or of one of its servers, in the names of its secrets. No two have the same.
pub(super) fn secret_owner(id: &PluginId, server: Option<&str>) -> String {
    let whole = match server {
        Some(server) => format!("{id}/{server}"),
        None => id.to_string(),
    };
    format!("plugin.{}.{}", id.plugin, &sha256(whole.as_bytes())[..12])
}

/// The values in the user's settings.
pub(super) fn values(
    id: &PluginId,
    server: Option<&str>,
    invocation: &Invocation,
) -> Map<String, Json> {
    let json = settings_json(&invocation.scope_file(WritableScope::User));
    let plugin = &json[KEY][id.to_string()];
    let found = match server {
        Some(server) => &plugin[SERVERS][server],
        None => &plugin[OPTIONS],
    };
    found.as_object().cloned().unwrap_or_default()
}

/// The new values, if something changes. Nothing is stored yet.
pub(super) fn changed(
    id: &PluginId,
    server: Option<&str>,
    options: &UserConfig,
    changes: &OptionChanges,
    invocation: &Invocation,
) -> Result<Option<NewValues>, Failure> {
    if changes.is_empty() {
        return Ok(None);
    }
    let owner = secret_owner(id, server);
    let target =
        OptionTarget { scope: WritableScope::User, server: &owner, storage: changes.storage };
    let before = values(id, server, invocation);
    let mut new = options::merge(options, &before, &changes.typed, target, invocation)?;
    for key in &changes.unset {
        if new.values.shift_remove(key).is_none() {
            return Err(options::unknown_option(options, key)
                .hint("only options with a value can be removed"));
        }
    }
    Ok(Some(new))
}

/// Stores secrets, and writes values to the user's settings.
pub(super) fn write(
    id: &PluginId,
    server: Option<&str>,
    new: Option<NewValues>,
    invocation: &Invocation,
) -> Result<(), Failure> {
    let Some(new) = new else { return Ok(()) };
    new.store_secrets(invocation)?;
    let mut path = vec![KEY.to_owned(), id.to_string()];
    let key = match server {
        Some(server) => {
            path.push(SERVERS.to_owned());
            server.to_owned()
        }
        None => OPTIONS.to_owned(),
    };
    let edit = Edit::SetMember { path, key, value: Json::Object(new.values) };
    let scope = WritableScope::User;
    file::edit_file(invocation, scope, &invocation.scope_file(scope), &[edit])?;
    Ok(())
}

/// Asks at the terminal for the options without a value, and writes the answers.
pub(super) fn ask(
    id: &PluginId,
    server: Option<&str>,
    options: &UserConfig,
    storage: SecretStorage,
    invocation: &Invocation,
) -> Result<(), Failure> {
    let before = values(id, server, invocation);
    let is_open = |key: &String| !before.contains_key(key);
    if !options.options.iter().any(|it| is_open(&it.key)) {
        return Ok(());
    }
    print_now(&format!("Options of {}:\n", printable(&id.to_string())))?;
    let mut typed = Vec::new();
    options::ask(options, &before, &mut typed, AskedOptions::WithoutValue)?;
    let changes = OptionChanges { typed, unset: Vec::new(), storage };
    let new = changed(id, server, options, &changes, invocation)?;
    write(id, server, new, invocation)
}

/// Gives the values of a plugin to its new name, with the secrets that were stored for it.
pub(super) fn rename(
    old: &PluginId,
    new: &PluginId,
    invocation: &Invocation,
) -> Result<(), Failure> {
    let scope = WritableScope::User;
    let path = invocation.scope_file(scope);
    let json = settings_json(&path);
    let Some(values) = json[KEY].get(old.to_string()) else { return Ok(()) };
    let mut values = values.clone();
    let mut moved = Vec::new();
    let mut move_group = |server: Option<&str>, group: &mut Json| -> Result<(), Failure> {
        if let Some(group) = group.as_object_mut() {
            let owners = (secret_owner(old, server), secret_owner(new, server));
            moved.extend(move_secrets(group, (&owners.0, &owners.1), invocation)?);
        }
        Ok(())
    };
    if let Some(group) = values.get_mut(OPTIONS) {
        move_group(None, group)?;
    }
    for (server, group) in
        values.get_mut(SERVERS).and_then(Json::as_object_mut).into_iter().flatten()
    {
        move_group(Some(server), group)?;
    }
    // What the user set for the new name counts.
    if let Some(newer) = json[KEY].get(new.to_string()) {
        overwrite(&mut values, newer);
    }
    let edits = [
        Edit::SetMember { path: vec![KEY.to_owned()], key: new.to_string(), value: values },
        Edit::RemoveMember { path: vec![KEY.to_owned()], key: old.to_string() },
    ];
    file::edit_file(invocation, scope, &path, &edits)?;
    for reference in moved {
        // It is under the new name as well.
        let _left_over = secrets::delete_secret(&reference, &invocation.env.home);
    }
    Ok(())
}

/// Stores the secrets among values under another owner, and refers to them there. Returns the old references. A secret that
/// cannot be read stays where it is.
fn move_secrets(
    values: &mut Map<String, Json>,
    (old, new): (&str, &str),
    invocation: &Invocation,
) -> Result<Vec<SecretReference>, Failure> {
    let home = &invocation.env.home;
    let mut moved = Vec::new();
    for reference in stored_secrets(values, (WritableScope::User, old), invocation) {
        let (name, renamed) = match &reference {
            SecretReference::Keychain(name) => {
                let new_name = name.replacen(old, new, 1);
                (name, SecretReference::Keychain(new_name))
            }
            SecretReference::File(name) => {
                let new_name = name.replacen(old, new, 1);
                (name, SecretReference::File(new_name))
            }
            SecretReference::Command(_) => continue,
        };
        let (SecretReference::Keychain(new_name) | SecretReference::File(new_name)) = &renamed
        else {
            continue;
        };
        let Ok(secret) = secrets::fetch_secret(&reference, home) else { continue };
        secrets::store_secret(&renamed, &secret, home).map_err(|error| {
            Failure::new(Exit::Failure, "a secret could not be stored").caused_by(error)
        })?;
        for value in values.values_mut() {
            replace_text(value, &format!("{name}}}"), &format!("{new_name}}}"));
        }
        moved.push(reference);
    }
    Ok(moved)
}

fn replace_text(value: &mut Json, from: &str, to: &str) {
    match value {
        Json::String(text) => *text = text.replace(from, to),
        Json::Array(items) => items.iter_mut().for_each(|it| replace_text(it, from, to)),
        Json::Object(members) => {
            members.values_mut().for_each(|it| replace_text(it, from, to));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Puts the values of `newer` over those of `values`, at every depth.
fn overwrite(values: &mut Json, newer: &Json) {
    match (values, newer) {
        (Json::Object(values), Json::Object(newer)) => {
            for (key, value) in newer {
                overwrite(values.entry(key.clone()).or_insert(Json::Null), value);
            }
        }
        (value, newer) => value.clone_from(newer),
    }
}

/// What the settings of a scope say in `enabledPlugins`.
pub(super) fn switch(id: &PluginId, scope: WritableScope, invocation: &Invocation) -> Option<bool> {
    settings_json(&invocation.scope_file(scope))["enabledPlugins"][id.to_string()].as_bool()
}

/// The user's settings as JSON; `null` if they cannot be read, which every command says.
fn settings_json(path: &Path) -> Json {
    let text = match text_file::read_text(path, AllowedFiles::RegularOnly) {
        Ok(FileContent::Text(text)) => text,
        Ok(FileContent::Absent) | Err(_) => return Json::Null,
    };
    let document = Document::parse(&text).ok();
    document.and_then(|it| it.root).map(|root| root.to_json()).unwrap_or_default()
}

/// Values that were removed from settings, with the owner of the secrets in them.
type RemovedValues = (String, Map<String, Json>);

/// Removes the values of a plugin from the user's settings. Returns what they were, by the owner of the secrets in them.
pub(super) fn remove(
    id: &PluginId,
    invocation: &Invocation,
) -> Result<Vec<RemovedValues>, Failure> {
    let scope = WritableScope::User;
    let path = invocation.scope_file(scope);
    let json = settings_json(&path);
    let Some(plugin) = json[KEY].get(id.to_string()) else { return Ok(Vec::new()) };
    let mut removed = Vec::new();
    if let Some(options) = plugin[OPTIONS].as_object() {
        removed.push((secret_owner(id, None), options.clone()));
    }
    for (server, values) in plugin[SERVERS].as_object().into_iter().flatten() {
        if let Some(values) = values.as_object() {
            removed.push((secret_owner(id, Some(server)), values.clone()));
        }
    }
    let edit = Edit::RemoveMember { path: vec![KEY.to_owned()], key: id.to_string() };
    file::edit_file(invocation, scope, &path, &[edit])?;
    Ok(removed)
}
