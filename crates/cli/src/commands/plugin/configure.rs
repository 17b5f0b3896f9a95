//! `swb plugin configure`: sets the options of a plugin, or of one of its servers that comes from a bundle.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, json};
use switchboard::config::display::printable;
use switchboard::config::entry::sha256;
use switchboard::config::merge::{PendingReason, ResolvedServer, ServerState};
use switchboard::config::plugin::{
    MANIFEST_FILE, MANIFEST_FOLDER, MARKETPLACE_FILE, McpServers, PluginId,
};
use switchboard::config::user_config::UserConfig;
use switchboard::sources::PROJECT_FILE;
use switchboard::sources::bundles::InstalledBundles;
use switchboard::sources::loader::Configuration;
use switchboard::sources::plugins::{FOLDER_MARKETPLACE, LoadedPlugin};
use switchboard::sources::secrets;

use super::approval::{self, Consent};
use super::{files, list, options};
use crate::commands::bundle::options as bundle_options;
use crate::commands::bundle::options::AskedOptions;
use crate::commands::bundle::stored_secrets::stored_secrets;
use crate::commands::import::SecretStorage;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::bundle_text;
use crate::output::json::json_output;
use crate::output::server_text;

/// Arguments of `swb plugin configure`.
#[derive(Debug, Args)]
pub struct ConfigurePluginArgs {
    /// The plugin, or one of its servers
    #[arg(value_name = "PLUGIN|SERVER")]
    pub name: String,
    /// The values; without any, asks for them, or shows them where there is no terminal
    #[arg(value_name = "KEY=VALUE")]
    pub values: Vec<String>,
    /// Remove the value of an option; may be repeated
    #[arg(long, value_name = "KEY")]
    pub unset: Vec<String>,
    /// Where secrets go
    #[arg(long, value_enum, default_value = "keychain")]
    pub secrets: SecretStorage,
}

/// What is configured.
struct ConfigureTarget {
    /// The plugin.
    plugin: PluginId,
    /// The id that its values are stored under.
    key: PluginId,
    /// The server from a bundle, if it is one's options.
    server: Option<String>,
    options: UserConfig,
}

/// Runs the command.
pub(super) fn run(
    arguments: &ConfigurePluginArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    let target = find_target(&arguments.name, &configuration, invocation)?;
    let definition = DefinitionDigest::of(&target.plugin, &configuration, invocation);
    // Only what is read after this is compared with it.
    let configuration = invocation.load_without_demo()?;
    let server = target.server.as_deref();
    let mut changes = options::OptionChanges {
        typed: bundle_options::parse_pairs(&arguments.values)?,
        unset: arguments.unset.clone(),
        storage: arguments.secrets,
    };
    let before = options::values(&target.key, server, invocation);
    if changes.typed.is_empty() && changes.unset.is_empty() {
        if !invocation.env.terminal.is_interactive || invocation.wants_json() {
            return Ok(show(&target, &before, &configuration, invocation));
        }
        bundle_options::ask(&target.options, &before, &mut changes.typed, AskedOptions::All)?;
    }
    invocation.expect_unlocked(&configuration)?;
    let approved: Vec<String> = approval::servers(&target.plugin, &configuration)
        .iter()
        .filter(|it| it.is_ready() && it.approval_key.is_some())
        .map(|it| it.name.clone())
        .collect();
    let new = options::changed(&target.key, server, &target.options, &changes, invocation)?;
    options::write(&target.key, server, new, invocation)?;
    let removed: Map<_, _> =
        before.into_iter().filter(|(key, _)| arguments.unset.contains(key)).collect();
    let owner = options::secret_owner(&target.key, server);
    for reference in stored_secrets(&removed, (WritableScope::User, &owner), invocation) {
        secrets::delete_secret(&reference, &invocation.env.home).map_err(|error| {
            Failure::new(Exit::Failure, "a secret was not deleted").caused_by(error)
        })?;
    }
    let configuration = invocation.load_without_demo()?;
    // The user has just typed what changed. What the plugin's author changed meanwhile is asked about.
    let is_same = DefinitionDigest::of(&target.plugin, &configuration, invocation) == definition;
    let again: Vec<&ResolvedServer> = approval::servers(&target.plugin, &configuration)
        .into_iter()
        .filter(|it| matches!(it.state, ServerState::Pending(PendingReason::Changed)))
        .filter(|it| is_same && approved.contains(&it.name))
        .collect();
    approval::approve(&again, invocation)?;
    approval::ask_for(
        &target.plugin,
        Consent::Asked,
        &invocation.load_without_demo()?,
        invocation,
    )?;
    let configuration = invocation.load_without_demo()?;
    let values = options::values(&target.key, server, invocation);
    if invocation.wants_json() {
        return Ok(show(&target, &values, &configuration, invocation));
    }
    let mut text = format!("Configured {}\n", printable(&arguments.name));
    for server in approval::servers(&target.plugin, &configuration) {
        text.push_str(&format!(
            "  {}: {}\n",
            printable(&server.name),
            server_text::state_text(&server.state)
        ));
        if let Some(target) = server_text::target(server) {
            text.push_str(&format!("    runs: {target}\n"));
        }
    }
    Ok(CommandOutput::text(text).note(approval::pending_note(&target.plugin, &configuration)))
}

/// The contents of the files that define the servers of a plugin.
#[derive(Debug, Default, PartialEq, Eq)]
struct DefinitionDigest(Vec<Option<String>>);

impl DefinitionDigest {
    fn of(
        id: &PluginId,
        configuration: &Configuration,
        invocation: &Invocation,
    ) -> DefinitionDigest {
        let Some(plugin) = configuration.plugins.iter().find(|it| it.id == *id) else {
            return DefinitionDigest::default();
        };
        let mut files = vec![
            plugin.root.join(MANIFEST_FOLDER).join(MANIFEST_FILE),
            plugin.root.join(MANIFEST_FILE),
            plugin.root.join(PROJECT_FILE),
        ];
        for servers in &plugin.manifest.servers {
            match servers {
                McpServers::File(path) => files.push(path.below(&plugin.root)),
                McpServers::Inline(_) | McpServers::Bundle(_) | McpServers::BundleUrl(_) => {}
            }
        }
        let state = files::state(invocation).ok();
        let market = plugin.id.marketplace.as_ref().zip(state);
        let market = market.and_then(|(name, state)| state.known.0.get(name).cloned());
        files.extend(market.map(|it| it.location.join(MARKETPLACE_FILE)));
        let digest = |file: &PathBuf| std::fs::read(file).ok().map(|bytes| sha256(&bytes));
        DefinitionDigest(files.iter().map(digest).collect())
    }
}

fn find_target(
    name: &str,
    configuration: &Configuration,
    invocation: &Invocation,
) -> Result<ConfigureTarget, Failure> {
    let by_server = configuration.effective.servers.iter().find(|it| it.name == name);
    if let Some(server) = by_server {
        let Some(plugin) = &server.plugin else {
            let message = format!("`{name}` is not a server of a plugin");
            return Err(Failure::new(Exit::Usage, &message)
                .hint(&format!("a server from a bundle: swb bundle configure {name}")));
        };
        let loaded = loaded(plugin, configuration, invocation)?;
        let key = values_key(plugin);
        if let Some(bundle) = &server.bundle {
            let environment = invocation.env.template_environment();
            let bundles = InstalledBundles::new(&invocation.env.paths, &environment);
            let manifest = bundles.manifest(&bundle.hash).map_err(|problem| {
                Failure::new(Exit::NotReady, "its bundle cannot be configured")
                    .caused_by(problem)
                    .hint(&format!("swb plugin update {plugin}"))
            })?;
            let prefix = format!("plugin:{}:", plugin.plugin);
            let short = name.strip_prefix(&prefix).unwrap_or(name).to_owned();
            return Ok(ConfigureTarget {
                plugin: plugin.clone(),
                key,
                server: Some(short),
                options: manifest.user_config,
            });
        }
        let options = loaded.manifest.user_config.clone();
        return Ok(ConfigureTarget { plugin: plugin.clone(), key, server: None, options });
    }
    let ids = configuration.plugins.iter().map(|it| &it.id);
    let folder = configuration.plugins.iter().find(|it| it.id.to_string() == name);
    let plugin = match folder {
        Some(plugin) => plugin.id.clone(),
        None => files::plugin_id(name, ids)?,
    };
    let options = loaded(&plugin, configuration, invocation)?.manifest.user_config.clone();
    Ok(ConfigureTarget { key: values_key(&plugin), plugin, server: None, options })
}

/// The id under which the values of a plugin are stored.
fn values_key(id: &PluginId) -> PluginId {
    match &id.marketplace {
        Some(_) => id.clone(),
        None => {
            PluginId { plugin: id.plugin.clone(), marketplace: Some(FOLDER_MARKETPLACE.to_owned()) }
        }
    }
}

fn loaded<'c>(
    id: &PluginId,
    configuration: &'c Configuration,
    invocation: &Invocation,
) -> Result<&'c LoadedPlugin, Failure> {
    configuration.plugins.iter().find(|it| it.id == *id).ok_or_else(|| {
        let failure = Failure::new(Exit::NotReady, &format!("`{id}` is not in use"));
        match list::inactive_reason(id, configuration, invocation) {
            Some(reason) => failure.hint(&reason),
            None => failure.hint(&format!("swb plugin install {id}")),
        }
    })
}

fn show(
    target: &ConfigureTarget,
    values: &Map<String, serde_json::Value>,
    configuration: &Configuration,
    invocation: &Invocation,
) -> CommandOutput {
    let servers = approval::servers(&target.plugin, configuration);
    if invocation.wants_json() {
        return json_output(&json!({
            "plugin": target.plugin.to_string(),
            "server": target.server,
            "options": bundle_text::options_json(&target.options, Some(values)),
            "servers": list::servers_json(&servers),
        }));
    }
    let mut text = format!("{}\n", printable(&target.plugin.to_string()));
    if target.options.is_empty() {
        text.push_str("  It has no options.\n");
    }
    text.push_str(&bundle_text::options_text(&target.options, Some(values)));
    CommandOutput::text(text)
}
