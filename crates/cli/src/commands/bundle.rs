//! `swb bundle`: inspects, verifies, installs, configures, lists and uninstalls `.mcpb` bundles. `swb add FILE.mcpb` adds
//! a server from one.

pub(crate) mod configure;
pub(crate) mod options;
pub(crate) mod source;
pub(crate) mod stored_secrets;
pub(crate) mod uninstall;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value as Json, json};
use switchboard::config::bundle::{
    BundleHash, BundleInputs, BundleManifest, BundleOutcome, BundlePlatform,
};
use switchboard::config::display::printable;
use switchboard::config::user_config::ValueSyntax;
use switchboard::sources::bundles::InstalledBundles;
use switchboard_packages::bundle::SignatureState;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::bundle_text;
use crate::output::json::json_output;
use crate::output::table::{Cell, Truncate, render};

/// Arguments of `swb bundle`.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// The action.
    #[command(subcommand)]
    pub action: BundleAction,
}

/// Actions on bundles.
#[derive(Debug, Subcommand)]
pub enum BundleAction {
    /// Show what is in a bundle and what it would run, without installing it
    Inspect(FileArgs),
    /// Verify the signature of a bundle; fails if it is broken
    Verify(FileArgs),
    /// Install the files of a bundle, for example of one that a project's file names
    Install(FileArgs),
    /// Set the options of a server from a bundle
    Configure(configure::ConfigureArgs),
    /// List the installed bundles and the servers that use them
    List,
    /// Remove a server from a bundle, its secrets, and its files
    Uninstall(uninstall::UninstallArgs),
}

/// The bundle, and what it must be.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// The bundle: a file, or an https URL
    #[arg(value_name = "FILE|URL")]
    pub source: String,
    /// Refuse a file with another SHA-256
    #[arg(long, value_name = "HEX")]
    pub sha256: Option<String>,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &BundleArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    match &arguments.action {
        BundleAction::Inspect(file) => inspect(file, invocation),
        BundleAction::Verify(file) => verify(file, invocation),
        BundleAction::Install(file) => install(file, invocation),
        BundleAction::Configure(arguments) => configure::run(arguments, invocation),
        BundleAction::List => list(invocation),
        BundleAction::Uninstall(arguments) => uninstall::run(arguments, invocation),
    }
}

/// The command that a bundle with these values runs once it is installed.
pub(crate) fn outcome_of(
    manifest: &BundleManifest,
    hash: &BundleHash,
    values: &Map<String, Json>,
    invocation: &Invocation,
) -> BundleOutcome {
    let environment = invocation.env.template_environment();
    let bundles = InstalledBundles::new(&invocation.env.paths, &environment);
    let folders = bundles.folders(&bundles.content(hash));
    let platform = BundlePlatform::CURRENT;
    let syntax = ValueSyntax::Template;
    manifest.expand(&BundleInputs { folders: &folders, platform, given: values, syntax }).outcome
}

fn inspect(arguments: &FileArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let file = source::open(&arguments.source, invocation)?;
    let store = source::store(invocation, arguments.ca.as_deref())?;
    let bundle = store.inspect(&file.path).map_err(source::failure)?;
    source::expect_hash(&bundle.hash, arguments.sha256.as_deref())?;
    let outcome = outcome_of(&bundle.manifest, &bundle.hash, &Map::new(), invocation);
    Ok(match invocation.wants_json() {
        true => json_output(&bundle_text::inspected_json(&bundle, &file.shown, &outcome)),
        false => CommandOutput::text(bundle_text::inspected_text(&bundle, &file.shown, &outcome)),
    })
}

fn verify(arguments: &FileArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let file = source::open(&arguments.source, invocation)?;
    let store = source::store(invocation, arguments.ca.as_deref())?;
    let bundle = store.inspect(&file.path).map_err(source::failure)?;
    source::expect_hash(&bundle.hash, arguments.sha256.as_deref())?;
    let done = match invocation.wants_json() {
        true => json_output(&json!({
            "hash": bundle.hash.to_string(),
            "signature": bundle_text::signature_json(&bundle.signature),
        })),
        false => CommandOutput::text(format!(
            "{}\n{}\n",
            bundle_text::signature_text(&bundle.signature),
            bundle.hash
        )),
    };
    Ok(match bundle.signature {
        SignatureState::Broken(fault) => done
            .failed(Failure::new(Exit::Configuration, "the signature is broken").caused_by(fault)),
        SignatureState::Unsigned
        | SignatureState::SelfSigned(_)
        | SignatureState::Signed { .. } => done,
    })
}

fn install(arguments: &FileArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let file = source::open(&arguments.source, invocation)?;
    let store = source::store(invocation, arguments.ca.as_deref())?;
    let bundle = store.inspect(&file.path).map_err(source::failure)?;
    source::expect_hash(&bundle.hash, arguments.sha256.as_deref())?;
    let installed = store.install(&file.path).map_err(source::failure)?;
    if installed.hash != bundle.hash {
        return Err(Failure::new(Exit::Conflict, "the file changed while it was installed"));
    }
    if invocation.wants_json() {
        return Ok(json_output(&json!({
            "installed": installed.manifest.name,
            "version": installed.manifest.version,
            "hash": installed.hash.to_string(),
            "folder": installed.folder.to_string_lossy(),
            "signature": bundle_text::signature_json(&bundle.signature),
        })));
    }
    Ok(CommandOutput::text(format!(
        "Installed {} {} in {}\n  {}\n  signature: {}\n",
        printable(installed.manifest.title()),
        printable(&installed.manifest.version),
        invocation.display_path(&installed.folder),
        installed.hash,
        bundle_text::signature_text(&bundle.signature),
    )))
}

fn list(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    let store = source::store(invocation, None)?;
    let users = |hash: &BundleHash| -> Vec<String> {
        let servers = configuration.effective.servers.iter();
        let uses = servers.filter(|it| it.bundle.as_ref().is_some_and(|it| it.hash == *hash));
        uses.map(|server| server.name.clone()).collect()
    };
    let mut rows = Vec::new();
    let mut json = Vec::new();
    let mut notes = String::new();
    for hash in store.hashes().map_err(source::failure)? {
        let servers = users(&hash);
        let installed = match store.installed(&hash) {
            Ok(installed) => installed,
            Err(error) => {
                let error = printable(&error.to_string());
                notes.push_str(&format!("warning: {}: {error}\n", hash.short()));
                continue;
            }
        };
        let manifest = &installed.manifest;
        rows.push(vec![
            Cell::plain(printable(&manifest.name)),
            Cell::plain(printable(&manifest.version)),
            Cell::plain(hash.short()),
            Cell::plain(printable(&installed.signature)),
            Cell::plain(match servers.is_empty() {
                true => "-".to_owned(),
                false => printable(&servers.join(", ")),
            }),
        ]);
        json.push(json!({
            "name": manifest.name,
            "version": manifest.version,
            "hash": hash.to_string(),
            "folder": installed.folder.to_string_lossy(),
            "signature": installed.signature,
            "signer": installed.signer,
            "file": installed.file_name,
            "servers": servers,
        }));
    }
    if invocation.wants_json() {
        return Ok(json_output(&json!({ "bundles": json })).note(notes));
    }
    if rows.is_empty() {
        let text = "No bundle is installed. Add a server from one: swb add FILE.mcpb\n";
        return Ok(CommandOutput::text(text).note(notes));
    }
    let width = invocation.env.terminal.width;
    let header = ["NAME", "VERSION", "HASH", "SIGNATURE", "SERVERS"];
    let table = render(&header, &rows, width, &[Truncate::End(0), Truncate::End(4)]);
    Ok(CommandOutput::text(table).note(notes))
}
