//! What fetching needs from the environment: the HTTP client, the program `git`, and the registry of npm.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use switchboard::auth::fetch::HttpFetcher;
use switchboard::config::display::printable;
use switchboard::config::plugin::{MarketplaceEntry, PluginSource};
use switchboard_packages::plugin::{
    GitError, GitProgram, NpmRegistry, PluginFetchError, PluginFetcher, RepositoryLimits,
};
use tokio::process::Command;
use tokio::time::timeout;
use url::Url;

use super::files;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::runtime::interrupts::tokio_runtime;
use crate::runtime::network;

/// Names the registry in the environment, as npm reads it.
const REGISTRY_VARIABLES: [&str; 2] = ["npm_config_registry", "NPM_CONFIG_REGISTRY"];
/// How long npm may take to say which registry it uses.
const NPM_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum size of npm's settings.
const MAX_NPMRC: u64 = 1024 * 1024;

/// What fetches marketplaces, and this plugin.
pub(super) fn fetcher(
    invocation: &Invocation,
    entry: Option<&MarketplaceEntry>,
) -> Result<PluginFetcher, Failure> {
    let needs_npm = entry.is_some_and(|it| match &it.source {
        PluginSource::Npm(npm) => npm.registry.is_none(),
        PluginSource::Relative(_)
        | PluginSource::Git(_)
        | PluginSource::Archive(_)
        | PluginSource::Command => false,
    });
    Ok(PluginFetcher {
        http: HttpFetcher::new(network::outbound_network(invocation)?),
        git: GitProgram {
            program: PathBuf::from("git"),
            variables: (*invocation.env.variables).clone(),
            limits: RepositoryLimits::default(),
        },
        npm: if needs_npm { npm_registry(invocation)? } else { None },
        store: files::store(invocation),
    })
}

/// Waits for a fetch.
pub(super) fn wait_for<T>(
    fetch: impl Future<Output = Result<T, PluginFetchError>>,
) -> Result<T, Failure> {
    tokio_runtime()?.block_on(fetch).map_err(failure)
}

/// Why something could not be fetched. What git says is shown line by line.
pub(super) fn failure(error: PluginFetchError) -> Failure {
    let (exit, hint) = match &error {
        PluginFetchError::Command => {
            (Exit::Policy, Some("get the plugin yourself, then use it: swb --plugin-dir FOLDER"))
        }
        PluginFetchError::LocalRepository | PluginFetchError::Url(_) => (Exit::Policy, None),
        PluginFetchError::Git(GitError::Start(_)) => {
            (Exit::Failure, Some("install git, and make sure that it is in PATH"))
        }
        PluginFetchError::Git(GitError::TooLarge { .. } | GitError::Tree(_)) => {
            (Exit::Configuration, None)
        }
        PluginFetchError::Git(_) | PluginFetchError::Download(_) => (Exit::Connection, None),
        PluginFetchError::Digest { .. } => {
            (Exit::Conflict, Some("ask the publisher of the marketplace: the file is another one"))
        }
        PluginFetchError::Npm(switchboard_packages::plugin::NpmError::NoRegistry) => {
            (Exit::Configuration, Some("set NPM_CONFIG_REGISTRY, or `registry=` in ~/.npmrc"))
        }
        PluginFetchError::NoFolder
        | PluginFetchError::Archive(_)
        | PluginFetchError::Npm(_)
        | PluginFetchError::Tree(_) => (Exit::Configuration, None),
        PluginFetchError::Write { .. } => (Exit::Failure, None),
    };
    let failure = Failure::new(exit, "nothing was installed");
    let failure = if let PluginFetchError::Git(GitError::Failed { step, message }) = &error {
        let lines: String =
            message.lines().map(|line| format!("  git: {}\n", printable(line))).collect();
        let failure = Failure {
            causes: vec![format!("git {step} failed")],
            ..Failure::new(exit, "the repository could not be fetched")
        };
        failure.detail(lines)
    } else {
        failure.caused_by(error)
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The registry that npm is configured for: by the environment, by the user's `.npmrc`, or as npm itself says.
fn npm_registry(invocation: &Invocation) -> Result<Option<NpmRegistry>, Failure> {
    let variables = &invocation.env.variables;
    let by_variable = REGISTRY_VARIABLES.iter().find_map(|name| variables.get(*name)).cloned();
    let text = by_variable.or_else(|| npmrc_registry(invocation)).or_else(|| ask_npm(invocation));
    let Some(text) = text.filter(|it| !it.trim().is_empty()) else { return Ok(None) };
    match Url::parse(text.trim()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(Some(NpmRegistry { url })),
        Ok(_) | Err(_) => {
            Err(Failure::new(Exit::Configuration, "the registry of npm is not an http URL")
                .hint("npm config get registry"))
        }
    }
}

/// `registry` in the user's settings of npm. A project's file does not count.
fn npmrc_registry(invocation: &Invocation) -> Option<String> {
    let file = invocation.env.home.join(".npmrc");
    let size = file.metadata().ok()?.len();
    let text = std::fs::read_to_string(&file).ok().filter(|_| size <= MAX_NPMRC)?;
    // The last one counts.
    text.lines().rev().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "registry").then(|| value.trim().trim_matches('"').to_owned())
    })
}

/// What npm says, if it is installed. In the home folder, where no project's file counts.
fn ask_npm(invocation: &Invocation) -> Option<String> {
    let asking = async {
        let asked = Command::new("npm")
            .args(["config", "get", "registry"])
            .env_clear()
            .envs(invocation.env.variables.iter())
            .current_dir(&invocation.env.home)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .output();
        timeout(NPM_TIMEOUT, asked).await.ok()?.ok()
    };
    let asked = tokio_runtime().ok()?.block_on(asking)?;
    let text = String::from_utf8(asked.stdout).ok()?;
    asked.status.success().then(|| text.trim().to_owned()).filter(|it| it != "undefined")
}
