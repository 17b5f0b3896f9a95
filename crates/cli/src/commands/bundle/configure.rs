//! `swb bundle configure`: sets the options of a server from a bundle.

use clap::Args;
use serde_json::{Map, json};
use switchboard::config::display::printable;
use switchboard::config::edit::Edit;
use switchboard::config::file::BundleEntry;
use switchboard::config::merge::ResolvedServer;
use switchboard::config::user_config::UserConfig;
use switchboard::sources::bundles::InstalledBundles;
use switchboard::sources::secrets;

use super::options;
use super::options::{AskedOptions, OptionTarget};
use super::stored_secrets::stored_secrets;
use crate::commands::import::SecretStorage;
use crate::edit::file;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::bundle_text;
use crate::output::json::json_output;
use crate::output::server_text;

/// Arguments of `swb bundle configure`.
#[derive(Debug, Args)]
pub struct ConfigureArgs {
    /// The server's name
    pub name: String,
    /// The values; without any, asks for them, or shows them where there is no terminal
    #[arg(value_name = "KEY=VALUE")]
    pub values: Vec<String>,
    /// Remove the value of an option; may be repeated
    #[arg(long, value_name = "KEY")]
    pub unset: Vec<String>,
    /// The scope of the entry, if several define it
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// Where secrets go
    #[arg(long, value_enum, default_value = "keychain")]
    pub secrets: SecretStorage,
}

/// Runs the command.
pub(super) fn run(
    arguments: &ConfigureArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    let definitions = invocation.definitions(&configuration, &arguments.name)?;
    let (server, entry) = bundle_server(&arguments.name, arguments.scope, &definitions)?;
    let options = options_of(entry, invocation)?;
    let mut typed = options::parse_pairs(&arguments.values)?;
    let says_nothing = typed.is_empty() && arguments.unset.is_empty();
    if says_nothing {
        if !invocation.env.terminal.is_interactive || invocation.wants_json() {
            return Ok(show(server, entry, &options, invocation));
        }
        options::ask(&options, &entry.values.0, &mut typed, AskedOptions::All)?;
    }
    invocation.expect_unlocked(&configuration)?;
    let Some((scope, file)) = invocation.editable_file(server) else {
        let message = format!(
            "`{}` is defined in {}, which cannot be changed from here",
            arguments.name,
            invocation.display_origin(&server.origin)
        );
        return Err(Failure::new(Exit::Conflict, &message));
    };
    let target = OptionTarget { scope, server: &arguments.name, storage: arguments.secrets };
    let mut new = options::merge(&options, &entry.values.0, &typed, target, invocation)?;
    let mut removed = Map::new();
    for key in &arguments.unset {
        match new.values.shift_remove(key) {
            Some(value) => drop(removed.insert(key.clone(), value)),
            None => {
                return Err(options::unknown_option(&options, key)
                    .hint("only options with a value can be removed"));
            }
        }
    }
    new.store_secrets(invocation)?;
    let value = Some(new.values.into());
    let edit = Edit::SetKey { name: arguments.name.clone(), key: "userConfig".to_owned(), value };
    file::edit_file(invocation, scope, &file, &[edit])?;
    for reference in stored_secrets(&removed, (scope, &arguments.name), invocation) {
        secrets::delete_secret(&reference, &invocation.env.home).map_err(|error| {
            Failure::new(Exit::Failure, "a secret was not deleted").caused_by(error)
        })?;
    }
    let configuration = invocation.load_without_demo()?;
    let definitions = invocation.definitions(&configuration, &arguments.name)?;
    let (server, entry) = bundle_server(&arguments.name, arguments.scope, &definitions)?;
    if invocation.wants_json() {
        return Ok(show(server, entry, &options, invocation));
    }
    let mut text = format!(
        "Configured `{}` in {}\n",
        printable(&arguments.name),
        file::scope_location(invocation, scope, &file)
    );
    text.push_str(&format!("  state: {}\n", server_text::state_text(&server.state)));
    if let Some(target) = server_text::target(server) {
        text.push_str(&format!("  runs: {target}\n"));
    }
    let done = CommandOutput::text(text);
    Ok(match server_text::state_reason(&invocation.env, server) {
        Some(reason) => done.note(format!("note: {reason}\n")),
        None => done,
    })
}

/// The definition that names a bundle: the one that counts, or the one of a scope.
pub(super) fn bundle_server<'c>(
    name: &str,
    scope: Option<WritableScope>,
    definitions: &[&'c ResolvedServer],
) -> Result<(&'c ResolvedServer, &'c BundleEntry), Failure> {
    let found = definitions.iter().find_map(|server| {
        let is_in_scope = scope.is_none_or(|it| it.scope() == server.scope());
        Some((*server, server.bundle.as_ref().filter(|_| is_in_scope)?))
    });
    found.ok_or_else(|| {
        Failure::new(Exit::NotFound, &format!("`{name}` is not a server from a bundle"))
            .hint("swb bundle list")
    })
}

fn options_of(entry: &BundleEntry, invocation: &Invocation) -> Result<UserConfig, Failure> {
    let environment = invocation.env.template_environment();
    let bundles = InstalledBundles::new(&invocation.env.paths, &environment);
    let manifest = bundles.manifest(&entry.hash).map_err(|problem| {
        Failure::new(Exit::NotReady, "the bundle cannot be configured")
            .caused_by(problem)
            .hint("install its file: swb bundle install FILE")
    })?;
    Ok(manifest.user_config)
}

fn show(
    server: &ResolvedServer,
    entry: &BundleEntry,
    options: &UserConfig,
    invocation: &Invocation,
) -> CommandOutput {
    let state = server_text::state_text(&server.state);
    if invocation.wants_json() {
        return json_output(&json!({
            "server": server.name,
            "bundle": entry.hash.to_string(),
            "state": server_text::state_id(&server.state),
            "reason": server_text::state_reason(&invocation.env, server),
            "options": bundle_text::options_json(options, Some(&entry.values.0)),
        }));
    }
    let mut text = format!("{}: {state}\n", printable(&server.name));
    if options.is_empty() {
        text.push_str("  The bundle has no options.\n");
    }
    text.push_str(&bundle_text::options_text(options, Some(&entry.values.0)));
    CommandOutput::text(text)
}
