//! `swb registry`: finds servers in a public registry, shows them and adds them. Nothing of a server runs here.

mod add;
mod answers;
mod ask;
mod bundle_package;
mod choice;
mod options;
mod screen;
mod source;

use clap::{Args, Subcommand};
use serde_json::json;
use switchboard_packages::registry::{RegistryClient, ServerList};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::registry_text;
use crate::runtime::interrupts::{Interrupts, tokio_runtime};

pub use options::RegistryAddArgs;
pub(crate) use screen::run_screen_command;

/// How many results a search shows.
const RESULTS: usize = 20;

/// Arguments of `swb registry`.
#[derive(Debug, Args)]
pub struct RegistryArgs {
    /// The action.
    #[command(subcommand)]
    pub action: RegistryAction,
    /// The base URL of the registry, instead of the configured one
    #[arg(long, global = true, value_name = "URL")]
    pub registry: Option<String>,
}

/// Actions on a registry.
#[derive(Debug, Subcommand)]
pub enum RegistryAction {
    /// Find servers whose name contains a text
    Search {
        /// A part of the name; every server without one
        text: Option<String>,
        /// The most results
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = RESULTS)]
        count: usize,
    },
    /// Show a server: how it can be installed, and what it asks for
    Show {
        /// The server's name in the registry, such as io.github.user/weather
        name: String,
        /// This version instead of the latest one
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        /// List the versions
        #[arg(long, conflicts_with = "version")]
        versions: bool,
    },
    /// Add a server: shows the final command and asks before anything is written
    Add(Box<RegistryAddArgs>),
}

/// Runs the command.
pub fn run(arguments: &RegistryArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let given = arguments.registry.as_deref();
    match &arguments.action {
        RegistryAction::Search { text, count } => {
            let client = source::client(invocation, given)?;
            let text = text.as_deref().unwrap_or_default();
            block_on(search(invocation, &client, text, *count))
        }
        RegistryAction::Show { name, version, versions } => {
            source::expect_name(name)?;
            let client = source::client(invocation, given)?;
            match versions {
                true => block_on(show_versions(invocation, &client, name)),
                false => block_on(show(invocation, &client, name, version.as_deref())),
            }
        }
        RegistryAction::Add(arguments) => add::run(arguments, given, invocation),
    }
}

/// Waits for requests, until the user interrupts them.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen();
        tokio::select! {
            outcome = work => outcome,
            () = interrupts.next() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    })
}

async fn search(
    invocation: &Invocation,
    client: &RegistryClient,
    text: &str,
    count: usize,
) -> Result<CommandOutput, Failure> {
    if text.chars().count() > 200 || text.contains(char::is_control) {
        return Err(Failure::new(Exit::Usage, "a part of a name has at most 200 characters"));
    }
    let list = client.search(text, count).await.map_err(|it| source::failure(invocation, it))?;
    Ok(listed(invocation, client, &list, registry_text::no_match(text)))
}

async fn show_versions(
    invocation: &Invocation,
    client: &RegistryClient,
    name: &str,
) -> Result<CommandOutput, Failure> {
    let list = client.versions(name).await.map_err(|it| source::failure(invocation, it))?;
    Ok(listed(invocation, client, &list, "No version.\n".to_owned()))
}

fn listed(
    invocation: &Invocation,
    client: &RegistryClient,
    list: &ServerList,
    nothing: String,
) -> CommandOutput {
    let notes = registry_text::list_notes(list);
    if invocation.wants_json() {
        let servers: Vec<_> = list.servers.iter().map(registry_text::server_json).collect();
        let json = json!({
            "registry": client.url().as_url().as_str(),
            "servers": servers,
            "complete": matches!(list.end, switchboard_packages::registry::ListEnd::Complete),
            "unreadable": list.unreadable,
        });
        return json_output(&json).note(notes);
    }
    let text = match list.servers.is_empty() {
        true => nothing,
        false => registry_text::table(&list.servers, invocation.env.terminal.width),
    };
    CommandOutput::text(text).note(notes)
}

async fn show(
    invocation: &Invocation,
    client: &RegistryClient,
    name: &str,
    version: Option<&str>,
) -> Result<CommandOutput, Failure> {
    let server = source::fetch(invocation, client, name, version).await?;
    Ok(match invocation.wants_json() {
        true => json_output(&registry_text::server_json(&server)),
        false => CommandOutput::text(registry_text::details(&server)),
    })
}
