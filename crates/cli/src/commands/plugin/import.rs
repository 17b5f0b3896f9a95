//! `swb plugin import`: takes over the marketplaces and plugins that Claude Code has installed, from its folder. Nothing is
//! fetched, and nothing is approved.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::{pluralize, printable};
use switchboard::config::plugin::{KnownMarketplace, MarketplaceSource, PluginId, PluginSource};
use switchboard::sources::loader::Configuration;
use switchboard::sources::plugins::{PluginState, read_marketplace};
use switchboard::sources::text_file::{self, AllowedFiles, FileContent};
use switchboard_packages::plugin::{TreeLimits, copy_tree};

use super::install::{self, SwitchValue, set_switch};
use super::{approval, fetching, files};
use crate::commands::import::ask;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// Arguments of `swb plugin import`.
#[derive(Debug, Args)]
pub struct ImportPluginsArgs {
    /// Show what would be imported without writing
    #[arg(long)]
    pub dry_run: bool,
    /// Write without confirmation; the servers still need approval
    #[arg(long, short, conflicts_with = "dry_run")]
    pub yes: bool,
}

/// What is found there.
#[derive(Default)]
struct FoundPlugins {
    marketplaces: Vec<(String, KnownMarketplace)>,
    plugins: Vec<FoundPlugin>,
    left_out: Vec<(String, String)>,
}

/// A plugin that is installed there.
struct FoundPlugin {
    id: PluginId,
    files: PathBuf,
    value: SwitchValue,
}

/// Runs the command.
pub(super) fn run(
    arguments: &ImportPluginsArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let state = files::state(invocation)?;
    let folder = match invocation.env.variables.get("CLAUDE_CONFIG_DIR") {
        Some(folder) if Path::new(folder).is_absolute() => PathBuf::from(folder),
        Some(_) | None => invocation.env.home.join(".claude"),
    };
    let found = find(&folder, &state, &configuration, invocation)?;
    let plan = plan_text(&found, invocation);
    if invocation.wants_json() && (arguments.dry_run || !arguments.yes) {
        return Ok(json_output(&plan_json(&found, &[])));
    }
    let nothing = found.marketplaces.is_empty() && found.plugins.is_empty();
    if arguments.dry_run || nothing {
        return Ok(CommandOutput::text(format!("{plan}Nothing was written.\n")));
    }
    if !arguments.yes {
        if !invocation.env.terminal.is_interactive {
            return Err(Failure::new(
                Exit::Usage,
                "nothing was written: confirmation needs a terminal",
            )
            .detail(plan)
            .hint("add --yes to import it, or --dry-run to see it"));
        }
        if !matches!(ask(&format!("{plan}Import it? [y/N] "))?.as_str(), "y" | "yes") {
            return Ok(CommandOutput::text("Nothing was written.\n"));
        }
    }
    let mut text = if arguments.yes && !invocation.wants_json() { plan } else { String::new() };
    for (name, known) in &found.marketplaces {
        import_marketplace(name, known, invocation)?;
    }
    let mut imported = Vec::new();
    let mut notes = String::new();
    for plugin in &found.plugins {
        match import_plugin(plugin, invocation) {
            Ok(()) => imported.push(plugin.id.to_string()),
            Err(failure) => notes.push_str(&format!(
                "warning: {} was not imported: {}{}\n",
                printable(&plugin.id.to_string()),
                failure.message,
                failure.causes.iter().map(|it| format!(": {it}")).collect::<String>()
            )),
        }
    }
    if invocation.wants_json() {
        return Ok(json_output(&plan_json(&found, &imported)).note(notes));
    }
    text.push_str(&format!(
        "Imported {} and {}\n",
        pluralize(found.marketplaces.len(), "marketplace", "marketplaces"),
        pluralize(imported.len(), "plugin", "plugins")
    ));
    let configuration = invocation.load_without_demo()?;
    for plugin in &found.plugins {
        notes.push_str(&approval::pending_note(&plugin.id, &configuration));
    }
    Ok(CommandOutput::text(text).note(notes))
}

fn find(
    folder: &Path,
    state: &PluginState,
    configuration: &Configuration,
    invocation: &Invocation,
) -> Result<FoundPlugins, Failure> {
    let mut found = FoundPlugins::default();
    let known = read_json(&folder.join("plugins/known_marketplaces.json"), invocation)?;
    let mut usable: BTreeSet<String> = state.known.0.keys().cloned().collect();
    for (name, json) in known.as_object().into_iter().flatten() {
        if state.known.0.contains_key(name) {
            found.left_out.push((name.clone(), "the marketplace is known already".to_owned()));
            continue;
        }
        match foreign_marketplace(name, json, configuration) {
            Ok(known) => {
                usable.insert(name.clone());
                found.marketplaces.push((name.clone(), known));
            }
            Err(why) => found.left_out.push((name.clone(), why)),
        }
    }
    let installed = read_json(&folder.join("plugins/installed_plugins.json"), invocation)?;
    let settings = read_json(&folder.join("settings.json"), invocation)?;
    for (text, records) in installed["plugins"].as_object().into_iter().flatten() {
        let Some(id) = PluginId::parse(text) else {
            found.left_out.push((text.clone(), "its name cannot be used".to_owned()));
            continue;
        };
        // The first version of the file had one record, the second has a list.
        let list = records.as_array().cloned();
        let records = list.unwrap_or_else(|| vec![records.clone()]);
        let of_user = records.iter().find(|it| it["scope"].as_str().is_none_or(|it| it == "user"));
        let path = of_user.and_then(|it| it["installPath"].as_str()).map(PathBuf::from);
        let market = id.marketplace.clone().unwrap_or_default();
        let why = match &path {
            _ if state.installed.0.contains_key(&id) => Some("it is installed already"),
            _ if !usable.contains(&market) => Some("its marketplace is not imported"),
            None => Some("it is installed for a project only"),
            Some(_) => None,
        };
        match (why, path) {
            (None, Some(files)) => {
                let value = match settings["enabledPlugins"][text] == Json::Bool(false) {
                    true => SwitchValue::Off,
                    false => SwitchValue::On,
                };
                found.plugins.push(FoundPlugin { id, files, value });
            }
            (why, _) => found.left_out.push((text.clone(), why.unwrap_or_default().to_owned())),
        }
    }
    Ok(found)
}

fn foreign_marketplace(
    name: &str,
    json: &Json,
    configuration: &Configuration,
) -> Result<KnownMarketplace, String> {
    super::marketplace::check_name(name).map_err(|failure| failure.message)?;
    let source = MarketplaceSource::parse(&json["source"]).map_err(|fault| fault.to_string())?;
    configuration
        .marketplace_policy
        .evaluate(&source)
        .map_err(|_| "an administrator's policy refuses it".to_owned())?;
    let location = match source.directory() {
        Some(directory) => directory.to_owned(),
        None => PathBuf::from(json["installLocation"].as_str().unwrap_or_default()),
    };
    let (_, content) = read_marketplace(&location);
    match content {
        Ok(content) if content.name == name => {
            Ok(KnownMarketplace { source, location, last_updated: files::now() })
        }
        Ok(content) => Err(format!("it calls itself `{}`", content.name)),
        Err(problem) => Err(problem.to_string()),
    }
}

fn read_json(path: &Path, invocation: &Invocation) -> Result<Json, Failure> {
    let refused = |why: String| {
        let place = invocation.display_path(path);
        Failure::new(Exit::Configuration, &format!("{place} cannot be used: it {why}"))
    };
    match text_file::read_text(path, AllowedFiles::RegularOnly) {
        Ok(FileContent::Absent) => Ok(Json::Null),
        Ok(FileContent::Text(text)) => {
            serde_json::from_str(&text).map_err(|_| refused("is not valid JSON".to_owned()))
        }
        Err(why) => Err(refused(why.to_string())),
    }
}

/// Copies the files of a marketplace that are already here.
fn import_marketplace(
    name: &str,
    known: &KnownMarketplace,
    invocation: &Invocation,
) -> Result<(), Failure> {
    let mut kept = known.clone();
    if known.source.directory().is_none() {
        let store = files::store(invocation);
        let draft = store.draft().map_err(fetching::failure)?;
        let copy = draft.path().join("files");
        copy_files(&known.location, &copy)?;
        kept.location = store.marketplace(name);
        store.publish(&copy, &kept.location).map_err(fetching::failure)?;
    }
    files::change_known(invocation, |all| {
        all.0.entry(name.to_owned()).or_insert(kept);
    })
}

fn import_plugin(plugin: &FoundPlugin, invocation: &Invocation) -> Result<(), Failure> {
    let state = files::state(invocation)?;
    let market = files::open(&state, plugin.id.marketplace.as_deref().unwrap_or_default())?;
    let entry = install::find_entry(&plugin.id, &market)?;
    let in_place = market.known.source.directory().is_some()
        && matches!(entry.source, PluginSource::Relative(_));
    let prepared = match in_place {
        true => {
            let fetched = install::fetch(&plugin.id, &market, entry, invocation)?;
            fetched.publish(&plugin.id, invocation)?
        }
        false => {
            let store = files::store(invocation);
            let draft = store.draft().map_err(fetching::failure)?;
            let copy = draft.path().join("files");
            copy_files(&plugin.files, &copy)?;
            install::prepare_copied(&plugin.id, entry, &copy, invocation)?
        }
    };
    let scope = WritableScope::User;
    install::record(&plugin.id, scope, entry, &prepared, invocation)?;
    set_switch(&plugin.id, scope, plugin.value, invocation)?;
    Ok(())
}

fn copy_files(from: &Path, to: &Path) -> Result<(), Failure> {
    copy_tree(from, to, TreeLimits::default()).map_err(|error| {
        Failure::new(Exit::Configuration, "its files cannot be used").caused_by(error)
    })
}

fn plan_text(found: &FoundPlugins, invocation: &Invocation) -> String {
    let mut text = String::new();
    for (name, known) in &found.marketplaces {
        let source = super::marketplace::shown_source(&known.source, invocation);
        text.push_str(&format!("marketplace {} from {source}\n", printable(name)));
    }
    for plugin in &found.plugins {
        let state = match plugin.value {
            SwitchValue::On => "enabled",
            SwitchValue::Off => "disabled",
        };
        text.push_str(&format!("plugin {} ({state})\n", printable(&plugin.id.to_string())));
    }
    for (name, why) in &found.left_out {
        text.push_str(&format!("left out {}: {}\n", printable(name), printable(why)));
    }
    if text.is_empty() {
        text.push_str("Claude Code has no marketplaces and no plugins.\n");
    }
    text
}

fn plan_json(found: &FoundPlugins, imported: &[String]) -> Json {
    let marketplaces: Vec<Json> = found
        .marketplaces
        .iter()
        .map(|(name, known)| json!({"name": name, "source": known.source.to_shown_json()}))
        .collect();
    let plugins: Vec<String> = found.plugins.iter().map(|it| it.id.to_string()).collect();
    let left_out: Vec<Json> =
        found.left_out.iter().map(|(name, why)| json!({"name": name, "reason": why})).collect();
    json!({"marketplaces": marketplaces, "plugins": plugins, "leftOut": left_out, "imported": imported})
}
