//! `swb plugin details`: one plugin, its servers with what would run, its options, and what of it is not used here.

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::plugin::{MarketplaceEntry, PluginId, PluginManifest};
use switchboard::sources::loader::Configuration;
use switchboard::sources::plugins::{FOLDER_MARKETPLACE, LoadedPlugin, PluginState};

use super::files::OpenMarketplace;
use super::{approval, files, install, list, marketplace, options};
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::bundle_text;
use crate::output::json::json_output;

/// Arguments of `swb plugin details`.
#[derive(Debug, Args)]
pub struct DetailsArgs {
    /// The plugin
    #[arg(value_name = "PLUGIN@MARKETPLACE")]
    pub plugin: String,
}

/// Runs the command.
pub(super) fn run(
    arguments: &DetailsArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    let state = files::state(invocation)?;
    let by_name = configuration
        .plugins
        .iter()
        .find(|it| it.id.to_string() == arguments.plugin || it.id.plugin == arguments.plugin);
    if let Some(plugin) = by_name {
        return Ok(loaded(plugin, &configuration, &state, invocation));
    }
    let mut listed = Vec::new();
    for name in state.known.0.keys() {
        let Ok(market) = files::open(&state, name) else { continue };
        let entries = market.content.plugins.iter();
        listed.extend(entries.filter_map(|it| PluginId::new(&it.name, name).ok()));
    }
    let id = files::plugin_id(&arguments.plugin, listed.iter())?;
    let market = files::open(&state, id.marketplace.as_deref().unwrap_or_default())?;
    let entry = install::find_entry(&id, &market)?;
    Ok(offered(&id, entry, &market, &configuration, invocation))
}

fn loaded(
    plugin: &LoadedPlugin,
    configuration: &Configuration,
    state: &PluginState,
    invocation: &Invocation,
) -> CommandOutput {
    let servers = approval::servers(&plugin.id, configuration);
    let record = state.installed.0.get(&plugin.id).and_then(|it| it.first());
    let version = plugin.manifest.version.clone().or_else(|| record.map(|it| it.version.clone()));
    let version = version.unwrap_or_else(|| "-".to_owned());
    let key = match &plugin.id.marketplace {
        Some(_) => plugin.id.clone(),
        None => PluginId {
            plugin: plugin.id.plugin.clone(),
            marketplace: Some(FOLDER_MARKETPLACE.to_owned()),
        },
    };
    let values = options::values(&key, None, invocation);
    if invocation.wants_json() {
        let mut json = list::plugin_json(plugin, &version, &servers);
        json["options"] = bundle_text::options_json(&plugin.manifest.user_config, Some(&values));
        json["author"] = plugin.manifest.author.clone().into();
        json["license"] = plugin.manifest.license.clone().into();
        json["homepage"] = plugin.manifest.homepage.clone().into();
        json["scopes"] = state
            .installed
            .0
            .get(&plugin.id)
            .into_iter()
            .flatten()
            .map(|it| it.scope.id().into())
            .collect::<Vec<serde_json::Value>>()
            .into();
        return json_output(&json);
    }
    let mut text = heading(&plugin.id, &version, &plugin.manifest);
    text.push_str(&line("Enabled by", list::provenance_text(&plugin.provenance)));
    text.push_str(&line("Folder", &invocation.display_path(&plugin.root)));
    text.push_str(&about(&plugin.manifest));
    if !plugin.manifest.user_config.is_empty() {
        text.push_str("  Options:\n");
        text.push_str(&bundle_text::options_text(&plugin.manifest.user_config, Some(&values)));
    }
    text.push('\n');
    match servers.is_empty() {
        true => text.push_str("It has no MCP servers.\n"),
        false => text.push_str(&approval::servers_text(&servers, invocation)),
    }
    CommandOutput::text(text).note(approval::pending_note(&plugin.id, configuration))
}

/// A plugin that is not in use, as its marketplace describes it.
fn offered(
    id: &PluginId,
    entry: &MarketplaceEntry,
    market: &OpenMarketplace,
    configuration: &Configuration,
    invocation: &Invocation,
) -> CommandOutput {
    let about_entry = &entry.about;
    let reason = list::inactive_reason(id, configuration, invocation);
    if invocation.wants_json() {
        return json_output(&json!({
            "id": id.to_string(),
            "version": about_entry.version,
            "description": about_entry.description,
            "source": entry.source.describe(),
            "marketplace": market.name,
            "state": if reason.is_some() { "not in use" } else { "available" },
            "reason": reason,
            "options": bundle_text::options_json(&about_entry.user_config, None),
        }));
    }
    let version = about_entry.version.as_deref().unwrap_or("-");
    let mut text = heading(id, version, about_entry);
    let source = marketplace::shown_source(&market.known.source, invocation);
    text.push_str(&line("Source", &printable(&entry.source.describe())));
    text.push_str(&line("Marketplace", &format!("{} ({source})", printable(&market.name))));
    text.push_str(&about(about_entry));
    match reason {
        Some(reason) => text.push_str(&line("Not in use", &reason)),
        None => text.push_str(&line("Install", &format!("swb plugin install {id}"))),
    }
    CommandOutput::text(text)
}

fn heading(id: &PluginId, version: &str, manifest: &PluginManifest) -> String {
    let mut text = format!("{} {}", printable(&id.to_string()), printable(version));
    if let Some(author) = &manifest.author {
        text.push_str(&format!(" by {}", printable(author)));
    }
    text.push('\n');
    if let Some(title) = manifest.display_name.as_deref() {
        text.push_str(&format!("  {}\n", printable(title)));
    }
    if let Some(description) = &manifest.description {
        text.push_str(&format!("  {}\n", printable(description)));
    }
    text
}

fn about(manifest: &PluginManifest) -> String {
    let mut text = String::new();
    for (label, value) in [("Home page", &manifest.homepage), ("License", &manifest.license)] {
        if let Some(value) = value {
            text.push_str(&line(label, &printable(value)));
        }
    }
    if !manifest.channels.is_empty() {
        let channels: Vec<String> =
            manifest.channels.iter().map(|it| printable(&it.server)).collect();
        text.push_str(&line("Channels", &channels.join(", ")));
    }
    if !manifest.other_components.is_empty() {
        text.push_str(&line("Not used here", &manifest.other_components.join(", ")));
    }
    text
}

fn line(label: &str, value: &str) -> String {
    format!("  {:<15}{value}\n", format!("{label}:"))
}
