//! Adds a bundle that a registry names: downloads it, checks its SHA-256, and adds the checked file as `swb add FILE.mcpb`
//! does, with the bundle's own questions.

use std::path::Path;

use switchboard::auth::fetch::HttpFetcher;
use switchboard::config::display::sanitize_line;
use switchboard::config::registry::{InstallOption, ListingStatus, RegistryServer};
use switchboard_packages::download::DownloadedFile;
use switchboard_packages::registry::{RegistryClient, download_bundle};

use super::block_on;
use super::options::RegistryAddArgs;
use crate::commands::add::{AddOptions, BundleOptions, BundleToAdd, add_file};
use crate::commands::bundle::source::BundleFile;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::runtime::network::outbound_network;

/// Adds the bundle under a name.
pub(super) fn add(
    arguments: &RegistryAddArgs,
    invocation: &Invocation,
    (server, option): (&RegistryServer, InstallOption<'_>),
    client: &RegistryClient,
    name: String,
) -> Result<CommandOutput, Failure> {
    let folder = tempfile::tempdir().map_err(|error| {
        Failure::new(Exit::Failure, "there is no temporary folder").caused_by(error)
    })?;
    let downloaded = download(invocation, (server, option), client, folder.path())?;
    let options = AddOptions {
        scope: arguments.scope,
        overwrite: arguments.overwrite,
        ..AddOptions::default()
    };
    let bundle_options = BundleOptions {
        config: arguments.set.clone(),
        secrets: Some(arguments.secrets.storage()),
        sha256: Some(downloaded.sha256.clone()),
        yes: arguments.yes,
        ..BundleOptions::default()
    };
    let bundle = BundleToAdd {
        file: BundleFile::downloaded(downloaded),
        name: Some(&name),
        warnings: deprecation(server).into_iter().collect(),
    };
    add_file(&bundle, &options, &bundle_options, invocation)
}

/// What a user should know of a deprecated server.
pub(super) fn deprecation(server: &RegistryServer) -> Option<String> {
    match server.status {
        ListingStatus::Active | ListingStatus::Deleted => None,
        ListingStatus::Deprecated => {
            let why = server.status_message.as_deref().map(sanitize_line);
            let why = why.map(|it| format!(": {it}")).unwrap_or_default();
            Some(format!("its publisher has deprecated it{why}"))
        }
    }
}

/// The bundle, if it is the published one.
fn download(
    invocation: &Invocation,
    (server, option): (&RegistryServer, InstallOption<'_>),
    client: &RegistryClient,
    folder: &Path,
) -> Result<DownloadedFile, Failure> {
    let refused = || {
        let message = format!("the bundle of `{}` was not installed", server.name);
        Failure::new(Exit::Connection, &message)
    };
    let bundle = match option {
        InstallOption::Package(package) => package.bundle(),
        InstallOption::Remote(_) => None,
    };
    let bundle = bundle.ok_or_else(refused)?;
    let fetcher = HttpFetcher::new(outbound_network(invocation)?);
    block_on(async {
        let downloading = download_bundle(&fetcher, client.guard(), &bundle, folder);
        downloading.await.map_err(|error| refused().caused_by(error))
    })
}
