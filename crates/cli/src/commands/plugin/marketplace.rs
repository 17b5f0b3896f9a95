//! `swb plugin marketplace`: adds, lists, updates and removes marketplaces.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::config::display::{pluralize, printable};
use switchboard::config::edit::Edit;
use switchboard::config::plugin::{
    KnownMarketplace, Marketplace, MarketplaceSource, PluginId, check_marketplace_name,
};
use switchboard::sources::loader::Configuration;
use switchboard::sources::plugins::{FOLDER_MARKETPLACE, read_marketplace};
use switchboard_packages::plugin::FetchedFiles;

use super::{fetching, files, marketplace_argument, uninstall};
use crate::edit::file;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::table::{Cell, Truncate, render};

/// Arguments of `swb plugin marketplace`.
#[derive(Debug, Args)]
pub struct MarketplaceArgs {
    /// The action.
    #[command(subcommand)]
    pub action: MarketplaceAction,
}

/// Actions on marketplaces.
#[derive(Debug, Subcommand)]
pub enum MarketplaceAction {
    /// Add a marketplace: a folder, owner/repository, a git URL, the URL of a marketplace.json, or one that settings offer
    Add(AddMarketplaceArgs),
    /// List the known marketplaces
    #[command(alias = "ls")]
    List,
    /// Remove a marketplace and its plugins
    #[command(alias = "rm")]
    Remove {
        /// Its name
        name: String,
        /// Keep the data and settings of its plugins
        #[arg(long)]
        keep_data: bool,
    },
    /// Fetch marketplaces again; installed plugins stay as they are
    Update {
        /// Its name; without one, every marketplace
        name: Option<String>,
    },
}

/// Arguments of `swb plugin marketplace add`.
#[derive(Debug, Args)]
pub struct AddMarketplaceArgs {
    /// Where it comes from, or the name of one that settings offer
    #[arg(value_name = "SOURCE|NAME")]
    pub source: String,
    /// Also write it to the settings of a scope, so that others find it
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
}

/// Runs the command.
pub(super) fn run(
    arguments: &MarketplaceArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    match &arguments.action {
        MarketplaceAction::Add(arguments) => add(arguments, invocation),
        MarketplaceAction::List => list(invocation),
        MarketplaceAction::Remove { name, keep_data } => {
            let data = match keep_data {
                true => uninstall::PluginData::Kept,
                false => uninstall::PluginData::Deleted,
            };
            remove(name, data, invocation)
        }
        MarketplaceAction::Update { name } => update(name.as_deref(), invocation),
    }
}

fn add(arguments: &AddMarketplaceArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let offered = configuration.offered_marketplaces.iter();
    let source = match offered.clone().find(|it| it.name == arguments.source) {
        Some(offered) => offered.source.clone(),
        None => marketplace_argument::parse(&arguments.source, invocation)?,
    };
    files::expect_allowed(&configuration.marketplace_policy, &source, invocation)?;
    if arguments.scope == Some(WritableScope::Project) && source.has_password() {
        let message = "the URL contains a password, and the project's file is for everyone";
        return Err(Failure::new(Exit::Usage, message)
            .hint("leave the password out: git asks its credential helper; or leave --scope out"));
    }
    let state = files::state(invocation)?;
    let fetched = fetch(&source, invocation)?;
    let content = content_of(&source, fetched.as_ref())?;
    let name = content.name.clone();
    if let Some(offer) =
        configuration.offered_marketplaces.iter().find(|it| it.name == arguments.source)
        && offer.name != name
    {
        let message = format!("the marketplace calls itself `{name}`, and not `{}`", offer.name);
        return Err(Failure::new(Exit::Conflict, &message));
    }
    let taken = state.known.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
    if let Some((known, there)) = taken
        && (there.source != source || *known != name)
    {
        let message = format!("another marketplace has the name `{known}`");
        return Err(Failure::new(Exit::Conflict, &message)
            .detail(format!("  it comes from {}\n", printable(&there.source.describe())))
            .hint(&format!("first: swb plugin marketplace remove {known}")));
    }
    keep(&name, &source, fetched, invocation)?;
    if let Some(scope) = arguments.scope {
        let edit = Edit::SetMember {
            path: vec!["extraKnownMarketplaces".to_owned()],
            key: name.clone(),
            value: json!({"source": source.to_json()}),
        };
        file::edit_file(invocation, scope, &invocation.scope_file(scope), &[edit])?;
    }
    if invocation.wants_json() {
        return Ok(json_output(&json!({
            "added": name,
            "source": source.to_shown_json(),
            "plugins": content.plugins.len(),
            "leftOut": faults_json(&content),
        })));
    }
    let mut text = format!(
        "Added the marketplace `{}` with {} from {}\n",
        printable(&name),
        pluralize(content.plugins.len(), "plugin", "plugins"),
        shown_source(&source, invocation)
    );
    for entry in content.plugins.iter().take(20) {
        let about = entry.about.description.as_deref().map(printable).unwrap_or_default();
        text.push_str(format!("  {}  {about}", printable(&entry.name)).trim_end());
        text.push('\n');
    }
    if content.plugins.len() > 20 {
        text.push_str(&format!("  … and {} more\n", content.plugins.len() - 20));
    }
    Ok(CommandOutput::text(text).note(faults_text(&content)))
}

/// Fetches a marketplace, and keeps its files.
pub(super) fn refresh(
    name: &str,
    known: &KnownMarketplace,
    invocation: &Invocation,
) -> Result<Marketplace, Failure> {
    let fetched = fetch(&known.source, invocation)?;
    let content = content_of(&known.source, fetched.as_ref())?;
    if content.name != name {
        let message = format!("the marketplace `{name}` calls itself `{}` now", content.name);
        return Err(Failure::new(Exit::Conflict, &message).hint(&format!(
            "its files stay as they were; to follow it: swb plugin marketplace remove {name}"
        )));
    }
    keep(name, &known.source, fetched, invocation)?;
    Ok(content)
}

fn fetch(
    source: &MarketplaceSource,
    invocation: &Invocation,
) -> Result<Option<FetchedFiles>, Failure> {
    let fetcher = fetching::fetcher(invocation, None)?;
    fetching::wait_for(fetcher.marketplace(source))
}

/// What a fetched marketplace, or one in a folder, says.
fn content_of(
    source: &MarketplaceSource,
    fetched: Option<&FetchedFiles>,
) -> Result<Marketplace, Failure> {
    let folder = fetched.map(|it| it.root.as_path()).or_else(|| source.directory());
    let refused = || Failure::new(Exit::Configuration, "it is not a marketplace that can be used");
    let (_, content) = read_marketplace(folder.ok_or_else(refused)?);
    content.map_err(|problem| refused().detail(format!("  {}\n", printable(&problem.to_string()))))
}

/// Keeps the files of a marketplace, and notes that it is known.
fn keep(
    name: &str,
    source: &MarketplaceSource,
    fetched: Option<FetchedFiles>,
    invocation: &Invocation,
) -> Result<(), Failure> {
    check_name(name)?;
    let store = files::store(invocation);
    let location = match (&fetched, source.directory()) {
        (Some(fetched), _) => {
            let target = store.marketplace(name);
            store.publish(&fetched.root, &target).map_err(fetching::failure)?;
            target
        }
        (None, Some(directory)) => directory.to_owned(),
        (None, None) => store.marketplace(name),
    };
    let known = KnownMarketplace { source: source.clone(), location, last_updated: files::now() };
    files::change_known(invocation, |all| {
        all.0.insert(name.to_owned(), known);
    })
}

/// Fails where a marketplace may not have this name.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let refused = || Failure::new(Exit::Configuration, "its name cannot be used");
    // It becomes the name of a folder.
    check_marketplace_name(name).map_err(|fault| refused().caused_by(fault))?;
    match name.eq_ignore_ascii_case(FOLDER_MARKETPLACE) {
        true => {
            let why =
                format!("`{FOLDER_MARKETPLACE}` stands for the plugins in folders of the user");
            Err(refused().detail(format!("  {why}\n")))
        }
        false => Ok(()),
    }
}

fn list(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let state = files::state(invocation)?;
    let configuration = invocation.load_without_demo()?;
    let mut rows = Vec::new();
    let mut json = Vec::new();
    let mut notes = String::new();
    for (name, known) in &state.known.0 {
        let (_, content) = read_marketplace(&known.location);
        let refusal = configuration.marketplace_policy.evaluate(&known.source).err();
        let installed =
            state.installed.0.keys().filter(|id| id.marketplace.as_ref() == Some(name)).count();
        let count = content.as_ref().ok().map(|it| it.plugins.len());
        if let Err(problem) = &content {
            let problem = printable(&problem.to_string());
            notes.push_str(&format!("warning: {}: {problem}\n", printable(name)));
        }
        let state = match (&refusal, &content) {
            (Some(_), _) => "refused",
            (None, Err(_)) => "unreadable",
            (None, Ok(_)) => "ok",
        };
        rows.push(vec![
            Cell::plain(printable(name)),
            Cell::plain(shown_source(&known.source, invocation)),
            Cell::plain(count.map_or("-".to_owned(), |it| it.to_string())),
            Cell::plain(installed.to_string()),
            Cell::plain(state),
        ]);
        json.push(json!({
            "name": name,
            "source": known.source.to_shown_json(),
            "location": known.location.to_string_lossy(),
            "lastUpdated": known.last_updated,
            "plugins": count,
            "installed": installed,
            "state": state,
            "reason": refusal.as_ref().map(|it| files::refusal_text(it, invocation)),
        }));
    }
    let unknown = configuration
        .offered_marketplaces
        .iter()
        .filter(|it| !state.known.0.contains_key(&it.name));
    let mut offered = Vec::new();
    for offer in unknown {
        offered.push(json!({
            "name": offer.name,
            "source": offer.source.to_shown_json(),
            "from": invocation.env.display_origin(&offer.origin),
        }));
        notes.push_str(&format!(
            "note: {} offers the marketplace `{}` ({}): swb plugin marketplace add {}\n",
            invocation.env.display_origin(&offer.origin),
            printable(&offer.name),
            printable(&offer.source.describe()),
            printable(&offer.name)
        ));
    }
    if invocation.wants_json() {
        return Ok(json_output(&json!({"marketplaces": json, "offered": offered})));
    }
    if rows.is_empty() {
        let text = "No marketplace is known. Add one: swb plugin marketplace add SOURCE\n";
        return Ok(CommandOutput::text(text).note(notes));
    }
    let width = invocation.env.terminal.width;
    let header = ["NAME", "SOURCE", "PLUGINS", "INSTALLED", "STATE"];
    Ok(CommandOutput::text(render(&header, &rows, width, &[Truncate::End(1)])).note(notes))
}

fn remove(
    name: &str,
    data: uninstall::PluginData,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let state = files::state(invocation)?;
    let known = files::known(&state, name)?.clone();
    let plugins: Vec<PluginId> = state
        .installed
        .0
        .keys()
        .filter(|id| id.marketplace.as_deref() == Some(name))
        .cloned()
        .collect();
    let mut notes = String::new();
    for id in &plugins {
        notes.push_str(&uninstall::everywhere(id, data, &configuration, invocation)?);
    }
    files::change_known(invocation, |all| {
        all.0.remove(name);
    })?;
    if known.source.directory().is_none() {
        files::store(invocation).remove(&known.location).map_err(fetching::failure)?;
    }
    for scope in [WritableScope::Local, WritableScope::User] {
        remove_offer(name, scope, &configuration, invocation)?;
    }
    if invocation.wants_json() {
        let plugins: Vec<String> = plugins.iter().map(ToString::to_string).collect();
        return Ok(json_output(&json!({"removed": name, "uninstalled": plugins})).note(notes));
    }
    let mut text = format!("Removed the marketplace `{}`\n", printable(name));
    for id in &plugins {
        text.push_str(&format!("Uninstalled {id}\n"));
    }
    Ok(CommandOutput::text(text).note(notes))
}

/// Removes a marketplace from the user's own settings.
fn remove_offer(
    name: &str,
    scope: WritableScope,
    configuration: &Configuration,
    invocation: &Invocation,
) -> Result<(), Failure> {
    let path = invocation.scope_file(scope);
    let is_there = configuration
        .offered_marketplaces
        .iter()
        .any(|it| it.name == name && it.origin.source.path() == Some(&path));
    if is_there {
        let edit = Edit::RemoveMember {
            path: vec!["extraKnownMarketplaces".to_owned()],
            key: name.to_owned(),
        };
        file::edit_file(invocation, scope, &path, &[edit])?;
    }
    Ok(())
}

fn update(name: Option<&str>, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let state = files::state(invocation)?;
    let chosen: Vec<(&String, &KnownMarketplace)> = match name {
        None => state.known.0.iter().collect(),
        Some(name) => {
            files::known(&state, name)?;
            state.known.0.iter().filter(|(known, _)| known.as_str() == name).collect()
        }
    };
    let mut text = String::new();
    let mut updated = Vec::new();
    let mut notes = String::new();
    for (name, known) in chosen {
        files::expect_allowed(&configuration.marketplace_policy, &known.source, invocation)?;
        let content = refresh(name, known, invocation)?;
        text.push_str(&format!(
            "Updated the marketplace `{}`: {}\n",
            printable(name),
            pluralize(content.plugins.len(), "plugin", "plugins")
        ));
        notes.push_str(&faults_text(&content));
        updated.push(json!({"name": name, "plugins": content.plugins.len(), "leftOut": faults_json(&content)}));
    }
    if invocation.wants_json() {
        return Ok(json_output(&json!({"updated": updated})));
    }
    if text.is_empty() {
        text.push_str("No marketplace is known.\n");
    }
    Ok(CommandOutput::text(text).note(notes))
}

pub(super) fn shown_source(source: &MarketplaceSource, invocation: &Invocation) -> String {
    match source.directory() {
        Some(path) => invocation.display_path(path),
        None => printable(&source.describe()),
    }
}

/// The entries that are left out.
pub(super) fn faults_text(content: &Marketplace) -> String {
    let faults = content.faults.iter();
    faults
        .map(|(name, fault)| {
            format!(
                "warning: `{}` is left out: {}\n",
                printable(name),
                printable(&fault.to_string())
            )
        })
        .collect()
}

pub(super) fn faults_json(content: &Marketplace) -> Vec<Json> {
    let faults = content.faults.iter();
    faults.map(|(name, fault)| json!({"name": name, "reason": fault.to_string()})).collect()
}
