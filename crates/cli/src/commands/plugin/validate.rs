//! `swb plugin validate`: checks a plugin or a marketplace in a folder, for its authors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use switchboard::config::display::{pluralize, printable};
use switchboard::config::plugin::{MARKETPLACE_FILE, PluginSource};
use switchboard::config::problem::{Problem, Severity};
use switchboard::sources::loader;
use switchboard::sources::loader::LoadOptions;
use switchboard::sources::plugins::{
    PluginProvenance, SessionPlugin, SessionServers, read_marketplace,
};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::{report, server_json};

/// Arguments of `swb plugin validate`.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// The folder of a plugin or a marketplace
    #[arg(default_value = ".")]
    pub path: PathBuf,
}

/// What a check found.
#[derive(Default)]
struct Findings {
    lines: Vec<String>,
    errors: Vec<String>,
    problems: Vec<Problem>,
}

/// Runs the command.
pub(super) fn run(
    arguments: &ValidateArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let path = invocation.env.working_folder.join(&arguments.path);
    let shown = invocation.display_path(&path);
    let folder = path.canonicalize().map_err(|error| {
        Failure::new(Exit::NotFound, &format!("{shown} cannot be read")).caused_by(error)
    })?;
    let mut found = Findings::default();
    let is_marketplace = folder.join(MARKETPLACE_FILE).exists();
    if is_marketplace {
        check_marketplace(&folder, &mut found, invocation);
    } else {
        check_plugin(&folder, "", &mut found, invocation);
    }
    let is_error = |it: &&Problem| it.severity() == Severity::Error;
    let errors = found.errors.len() + found.problems.iter().filter(is_error).count();
    let outcome = match invocation.wants_json() {
        true => json_output(&json!({
            "path": folder.to_string_lossy(),
            "kind": if is_marketplace { "marketplace" } else { "plugin" },
            "valid": errors == 0,
            "errors": found.errors,
            "problems": found.problems.iter().map(server_json::problem_json).collect::<Vec<_>>(),
        })),
        false => {
            let mut text: String = found.lines.iter().map(|it| format!("{it}\n")).collect();
            for error in &found.errors {
                text.push_str(&format!("error: {}\n", printable(error)));
            }
            text.push_str(&report::problems(&invocation.env, found.problems.iter()));
            if errors == 0 {
                text.push_str(&format!("{shown} is valid\n"));
            }
            CommandOutput::text(text)
        }
    };
    Ok(match errors {
        0 => outcome,
        count => outcome.failed(Failure::new(
            Exit::Configuration,
            &format!("{shown} has {}", pluralize(count, "error", "errors")),
        )),
    })
}

fn check_marketplace(folder: &Path, found: &mut Findings, invocation: &Invocation) {
    let (_, content) = read_marketplace(folder);
    let content = match content {
        Ok(content) => content,
        Err(problem) => {
            found.errors.push(problem.to_string());
            return;
        }
    };
    let count = pluralize(content.plugins.len(), "plugin", "plugins");
    found.lines.push(format!("Marketplace {} with {count}", printable(&content.name)));
    for (name, fault) in &content.faults {
        found.errors.push(format!("`{name}` is left out: {fault}"));
    }
    for entry in &content.plugins {
        match &entry.source {
            PluginSource::Relative(path) => {
                let root = path.below(folder);
                match root.canonicalize() {
                    Ok(real) if real.starts_with(folder) => {
                        check_plugin(&real, &format!("{}: ", entry.name), found, invocation);
                    }
                    Ok(_) => found.errors.push(format!("`{}`: {path} leads out", entry.name)),
                    Err(_) => {
                        found.errors.push(format!("`{}`: there is no folder {path}", entry.name));
                    }
                }
            }
            PluginSource::Command => {
                found.errors.push(format!("`{}`: commands are never run", entry.name));
            }
            PluginSource::Git(_) | PluginSource::Npm(_) | PluginSource::Archive(_) => {}
        }
    }
}

/// Reads a plugin as `--plugin-dir` does, without the user's own configuration.
fn check_plugin(folder: &Path, prefix: &str, found: &mut Findings, invocation: &Invocation) {
    let plugin = SessionPlugin {
        root: folder.to_owned(),
        servers: SessionServers::Used,
        bundles: BTreeMap::new(),
    };
    let options = LoadOptions {
        plugins: vec![plugin],
        dynamic: Vec::new(),
        embedded: Vec::new(),
        fallback: None,
        ..invocation.load_options()
    };
    let configuration = loader::load(&options);
    let is_here = |problem: &Problem| {
        problem.origin.source.path().is_some_and(|path| path.starts_with(folder))
    };
    let general = configuration.effective.problems.iter().filter(|it| is_here(it));
    found.problems.extend(general.cloned());
    let session =
        configuration.plugins.iter().find(|it| it.provenance == PluginProvenance::Session);
    let Some(plugin) = session else { return };
    let servers: Vec<_> = configuration
        .effective
        .servers
        .iter()
        .filter(|it| it.plugin.as_ref() == Some(&plugin.id))
        .filter(|it| it.origin.source.path().is_some_and(|path| path.starts_with(folder)))
        .collect();
    let names: Vec<String> = servers.iter().map(|it| printable(&it.name)).collect();
    found.lines.push(format!(
        "{}{} with {}{}",
        printable(prefix),
        printable(plugin.manifest.title().unwrap_or(&plugin.id.plugin)),
        pluralize(names.len(), "server", "servers"),
        if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
    ));
    found.problems.extend(servers.iter().flat_map(|it| it.problems.iter().cloned()));
}
