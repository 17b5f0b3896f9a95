//! `swb add FILE.mcpb`: shows a bundle and the command that it would run, asks for its options, installs it, and writes an
//! entry that names it.

use std::path::PathBuf;

use clap::{Args, Parser};
use serde_json::{Map, Value as Json, json};
use switchboard::config::bundle::{BundlePlatform, BundleServerKind};
use switchboard::config::display::printable;
use switchboard::config::entry::name::ServerName;
use switchboard::config::file::layer::Layer;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::sources::bundles::InstalledBundles;
use switchboard::sources::loader::Configuration;
use switchboard_packages::bundle::{InspectedBundle, SignatureState};

use super::entry;
use super::options::AddOptions;
use crate::commands::bundle::options;
use crate::commands::bundle::options::{AskedOptions, NewValues, OptionTarget};
use crate::commands::bundle::source::BundleFile;
use crate::commands::bundle::{outcome_of, source};
use crate::commands::import::{SecretStorage, ask};
use crate::edit::servers::{IfExists, NewServer};
use crate::edit::{file, missing_program, servers};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::style::{TextStyle, paint};
use crate::output::{bundle_text, server_text};

/// Options of `swb add` for bundles.
#[derive(Debug, Clone, Default, Args)]
pub struct BundleOptions {
    /// The server's name, if it is not the bundle's
    #[arg(long = "name", value_name = "NAME")]
    pub server_name: Option<String>,
    /// Set an option of the bundle; may be repeated
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub config: Vec<String>,
    /// Where secrets among the bundle's options go [default: keychain]
    #[arg(long, value_enum)]
    pub secrets: Option<SecretStorage>,
    /// Refuse a bundle with another SHA-256
    #[arg(long, value_name = "HEX")]
    pub sha256: Option<String>,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Add a bundle without asking
    #[arg(long)]
    pub yes: bool,
}

impl BundleOptions {
    /// These options and later ones, which take precedence.
    pub(super) fn merge(mut self, later: BundleOptions) -> BundleOptions {
        self.config.extend(later.config);
        BundleOptions {
            server_name: later.server_name.or(self.server_name),
            config: self.config,
            secrets: later.secrets.or(self.secrets),
            sha256: later.sha256.or(self.sha256),
            ca: later.ca.or(self.ca),
            yes: later.yes || self.yes,
        }
    }

    /// The first option that is set; only bundles have these.
    pub(super) fn first_set(&self) -> Option<&'static str> {
        [
            (self.server_name.is_some(), "--name"),
            (!self.config.is_empty(), "--config"),
            (self.secrets.is_some(), "--secrets"),
            (self.sha256.is_some(), "--sha256"),
            (self.ca.is_some(), "--ca"),
            (self.yes, "--yes"),
        ]
        .into_iter()
        .find_map(|(is_set, name)| is_set.then_some(name))
    }
}

/// The bundle that the arguments name, the name for its server, and the words after it, if the arguments name a bundle.
pub(super) fn named_bundle<'a>(
    name: &'a str,
    target: &'a [String],
) -> Option<(&'a str, Option<&'a str>, &'a [String])> {
    match target {
        [] if source::names_bundle(name) => Some((name, None, target)),
        [first, more @ ..] if source::names_bundle(first) => Some((first, Some(name), more)),
        _ => None,
    }
}

/// Options after the bundle of `swb add NAME FILE.mcpb`.
#[derive(Debug, Parser)]
pub(super) struct TrailingBundleOptions {
    #[command(flatten)]
    pub(super) options: AddOptions,
    #[command(flatten)]
    pub(super) bundle: BundleOptions,
    /// Print JSON for programs
    #[arg(long)]
    pub(super) json: bool,
}

impl TrailingBundleOptions {
    /// Parses the words; the inner error is a help text.
    pub(super) fn parse_words(
        words: &[String],
    ) -> Result<Result<TrailingBundleOptions, String>, Failure> {
        let command = "swb add NAME FILE.mcpb".to_owned();
        match TrailingBundleOptions::try_parse_from(
            std::iter::once(command).chain(words.iter().cloned()),
        ) {
            Ok(options) => Ok(Ok(options)),
            Err(error) if !error.use_stderr() => Ok(Err(error.to_string())),
            Err(error) => Err(super::trailing_error(&error, "a bundle")),
        }
    }
}

/// A bundle to add: its file, and the name for its server.
pub(crate) struct BundleToAdd<'a> {
    pub(crate) file: BundleFile,
    /// The name, if the user chose one.
    pub(crate) name: Option<&'a str>,
    /// What the user should look at before it is added.
    pub(crate) warnings: Vec<String>,
}

/// Adds a server from the bundle that the user names.
pub(super) fn add(
    (source, name): (&str, Option<&str>),
    options: &AddOptions,
    bundle_options: &BundleOptions,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    invocation.expect_unlocked(&invocation.load_without_demo()?)?;
    let file = source::open(source, invocation)?;
    let bundle = BundleToAdd { file, name, warnings: Vec::new() };
    add_file(&bundle, options, bundle_options, invocation)
}

/// Adds a server from the file of a bundle.
pub(crate) fn add_file(
    to_add: &BundleToAdd<'_>,
    options: &AddOptions,
    bundle_options: &BundleOptions,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let BundleToAdd { file, name, warnings } = to_add;
    let scope = options.scope.unwrap_or(WritableScope::Local);
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let store = source::store(invocation, bundle_options.ca.as_deref())?;
    let bundle = store.inspect(&file.path).map_err(source::failure)?;
    source::expect_hash(&bundle.hash, bundle_options.sha256.as_deref())?;
    if let SignatureState::Broken(fault) = bundle.signature {
        return Err(Failure::new(Exit::Configuration, "the signature of the bundle is broken")
            .caused_by(fault)
            .hint("get the bundle again from its author"));
    }
    let name = server_name(&bundle, bundle_options.server_name.as_deref().or(*name))?;
    if !options.overwrite {
        servers::expect_new(invocation, &configuration, scope, &name)?;
    }
    let before = values_before(&configuration, scope, &name, &bundle, invocation);
    let target = OptionTarget {
        scope,
        server: &name,
        storage: bundle_options.secrets.unwrap_or(SecretStorage::Keychain),
    };
    let can_ask = invocation.env.terminal.is_interactive && !invocation.wants_json();
    let mut typed = options::parse_pairs(&bundle_options.config)?;
    let shown = bundle_text::inspected_text(
        &bundle,
        &file.shown,
        &outcome_of(&bundle.manifest, &bundle.hash, &before, invocation),
    );
    let user_config = &bundle.manifest.user_config;
    if can_ask && !bundle_options.yes && !user_config.is_empty() {
        print_now(&format!("{shown}\n"))?;
        options::ask(user_config, &before, &mut typed, AskedOptions::WithoutValue)?;
    }
    let new = options::merge(user_config, &before, &typed, target, invocation)?;
    let outcome = outcome_of(&bundle.manifest, &bundle.hash, &new.values, invocation);
    let server =
        NewServer { name: name.clone(), entry: new_entry(&bundle, &new, options, invocation)? };
    let environment = invocation.env.template_environment();
    let bundles = InstalledBundles::new(&invocation.env.paths, &environment);
    // The policy decides before anything is installed.
    let expand = |layer: &mut Layer| {
        let folders = bundles.folders(&bundles.content(&bundle.hash));
        for definition in &mut layer.definitions {
            definition.expand_bundle(Ok(&bundle.manifest), &folders, BundlePlatform::CURRENT);
        }
    };
    let planned = servers::check_entry_with(invocation, &configuration, (scope, &server), &expand)?;
    let mut warnings = warnings.clone();
    // Its own program is not unpacked yet.
    if bundle.manifest.server.kind != BundleServerKind::Binary {
        warnings.extend(missing_program::warning(invocation, &planned, None));
    }
    let plan =
        bundle_text::inspected_text(&bundle, &file.shown, &outcome) + &warning_lines(&warnings);
    if !bundle_options.yes && !confirm(&plan, can_ask)? {
        return Ok(CommandOutput::text("Nothing was written.\n"));
    }
    let installed = store.install(&file.path).map_err(source::failure)?;
    if installed.hash != bundle.hash {
        return Err(Failure::new(Exit::Conflict, "the file changed while it was installed"));
    }
    // Again, because rules about programs need their files.
    let resolved = servers::check_entry(invocation, &configuration, scope, &server)?;
    new.store_secrets(invocation)?;
    let existing = if options.overwrite { IfExists::Overwrite } else { IfExists::Fail };
    servers::write_servers(invocation, scope, std::slice::from_ref(&server), existing)?;
    // Text output contains the plan anyway.
    let shown = if invocation.wants_json() { warning_lines(&warnings) } else { String::new() };
    let notes = shown + &notes(invocation, &configuration, (scope, &server), &resolved, &bundle);
    Ok(report(invocation, scope, &resolved, &bundle, plan).note(notes))
}

fn server_name(bundle: &InspectedBundle, chosen: Option<&str>) -> Result<String, Failure> {
    if let Some(name) = chosen {
        servers::check_name(name)?;
        return Ok(name.to_owned());
    }
    let name = &bundle.manifest.name;
    if servers::check_name(name).is_ok() {
        return Ok(name.clone());
    }
    let suggestion = ServerName::suggestion(name).map(|it| it.to_string());
    suggestion.ok_or_else(|| {
        Failure::new(Exit::Usage, "the bundle's name cannot be a server's name")
            .hint("choose one: add --name NAME")
    })
}

/// The values of the entry that is replaced, without those that the new bundle has no option for.
fn values_before(
    configuration: &Configuration,
    scope: WritableScope,
    name: &str,
    bundle: &InspectedBundle,
    invocation: &Invocation,
) -> Map<String, Json> {
    let file = invocation.scope_file(scope);
    let there = servers::definition_in(configuration, &file, name);
    let values = there.and_then(|it| it.bundle.as_ref()).map(|it| it.values.0.clone());
    let mut values = values.unwrap_or_default();
    values.retain(|key, _| bundle.manifest.user_config.find(key).is_some());
    values
}

fn new_entry(
    bundle: &InspectedBundle,
    new: &NewValues,
    options: &AddOptions,
    invocation: &Invocation,
) -> Result<Map<String, Json>, Failure> {
    let mut members = Map::new();
    members.insert("bundle".to_owned(), bundle.hash.to_string().into());
    if !new.values.is_empty() {
        members.insert("userConfig".to_owned(), new.values.clone().into());
    }
    entry::insert_env(&mut members, options, invocation)?;
    entry::insert_common(&mut members, options);
    Ok(members)
}

fn warning_lines(warnings: &[String]) -> String {
    let line =
        |it: &String| format!("{} {}\n", paint(TextStyle::Warning, "warning:"), printable(it));
    warnings.iter().map(line).collect()
}

fn confirm(plan: &str, can_ask: bool) -> Result<bool, Failure> {
    if !can_ask {
        return Err(Failure::new(
            Exit::Usage,
            "nothing was written: confirmation needs a terminal",
        )
        .detail(plan.to_owned())
        .hint("add --yes to add it, or show it: swb bundle inspect FILE"));
    }
    Ok(matches!(ask(&format!("{plan}\nAdd it? [y/N] "))?.as_str(), "y" | "yes"))
}

/// Shows text before a question.
fn print_now(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    anstream::stdout().write_all(text.as_bytes()).map_err(|error| {
        Failure::new(Exit::Failure, "standard output cannot be written").caused_by(error)
    })
}

fn notes(
    invocation: &Invocation,
    configuration: &Configuration,
    (scope, server): (WritableScope, &NewServer),
    resolved: &ResolvedServer,
    bundle: &InspectedBundle,
) -> String {
    let mut notes = servers::added_notes(invocation, configuration, scope, server, resolved);
    match &bundle.signature {
        SignatureState::Signed { fault: None, .. } => {}
        signature @ (SignatureState::Unsigned
        | SignatureState::SelfSigned(_)
        | SignatureState::Signed { .. }
        | SignatureState::Broken(_)) => {
            notes.push_str(&format!("note: {}\n", bundle_text::signature_text(signature)));
        }
    }
    if let (ServerState::NeedsConfig(_), Some(reason)) =
        (&resolved.state, server_text::state_reason(&invocation.env, resolved))
    {
        notes.push_str(&format!("note: {reason}\n"));
    }
    notes
}

fn report(
    invocation: &Invocation,
    scope: WritableScope,
    resolved: &ResolvedServer,
    bundle: &InspectedBundle,
    plan: String,
) -> CommandOutput {
    let path = invocation.scope_file(scope);
    let target = server_text::target(resolved);
    if invocation.wants_json() {
        return json_output(&json!({
            "added": resolved.name,
            "scope": scope.scope().id(),
            "file": path.to_string_lossy(),
            "bundle": bundle.hash.to_string(),
            "signature": bundle_text::signature_json(&bundle.signature),
            "state": server_text::state_id(&resolved.state),
            "target": target,
        }));
    }
    let mut text = format!(
        "{plan}\nAdded server `{}` to {}\n",
        printable(&resolved.name),
        file::scope_location(invocation, scope, &path)
    );
    if let Some(target) = target {
        text.push_str(&format!("  runs: {target}\n"));
    }
    CommandOutput::text(text)
}
