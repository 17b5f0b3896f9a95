//! Adds servers to a settings file, for `add`, `add-json` and `import`: validates, checks the policy, writes.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use switchboard::config::display::{is_secret_name, printable};
use switchboard::config::edit::{self, Edit};
use switchboard::config::entry::name::{ReservedNames, ServerName};
use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::merge;
use switchboard::config::merge::{MergeInputs, ResolvedServer, ServerState};
use switchboard::config::problem::Severity;
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard::sources::atomic_file;
use switchboard::sources::atomic_file::ChangeOutcome;
use switchboard::sources::bundles::InstalledBundles;
use switchboard::sources::loader::Configuration;

use crate::edit::file;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::Failure;
use crate::output::report;
use crate::output::server_text;

/// A server to write. It has no `Debug`, because its entry may hold secrets.
#[derive(Clone)]
pub struct NewServer {
    /// Its name.
    pub name: String,
    /// Its entry.
    pub entry: Map<String, Json>,
}

/// What to do if the file already has a server of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// Fail.
    Fail,
    /// Replace it.
    Overwrite,
}

/// Checks that a name can be used.
pub fn check_name(name: &str) -> Result<(), Failure> {
    ServerName::parse(name, ReservedNames::Refused).map(|_| ()).map_err(|fault| {
        let failure = Failure::new(Exit::Usage, &format!("`{name}` cannot be a server's name"))
            .caused_by(fault);
        match ServerName::suggestion(name) {
            Some(better) => failure.hint(&format!("try `{better}`")),
            None => failure,
        }
    })
}

/// Checks an entry as if it were in a file of the scope, and checks the policy. Returns the resolved server.
pub fn check_entry(
    invocation: &Invocation,
    configuration: &Configuration,
    scope: WritableScope,
    server: &NewServer,
) -> Result<ResolvedServer, Failure> {
    let environment = invocation.env.template_environment();
    let bundles = InstalledBundles::new(&invocation.env.paths, &environment);
    check_entry_with(invocation, configuration, (scope, server), &|layer| bundles.expand(layer))
}

/// The same, with the entries of bundles made by `expand`.
pub fn check_entry_with(
    invocation: &Invocation,
    configuration: &Configuration,
    (scope, server): (WritableScope, &NewServer),
    expand: &dyn Fn(&mut Layer),
) -> Result<ResolvedServer, Failure> {
    let mut servers = Map::new();
    servers.insert(server.name.clone(), Json::Object(server.entry.clone()));
    let text = format!("{:#}", json!({"mcpServers": servers}));
    let resolve = |source: Arc<Source>| {
        let mut layer = Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped);
        expand(&mut layer);
        let inputs = MergeInputs {
            layers: vec![layer],
            policy: configuration.policy.clone(),
            environment: invocation.env.template_environment(),
            programs: Some(invocation.load_options().programs()),
            project_root: Some(configuration.project_root.clone()),
            ..MergeInputs::default()
        };
        merge::resolve(inputs).servers.into_iter().next()
    };
    // Problems are positions in the new entry; its relative paths start at the folder of the file.
    let drafted = resolve(Source::program(scope.scope(), "the new entry"));
    let stored = resolve(Source::file(scope.scope(), invocation.scope_file(scope)));
    let (Some(drafted), Some(resolved)) = (drafted, stored) else {
        return Err(Failure::new(Exit::Usage, "the entry defines no server"));
    };
    let errors: Vec<_> =
        drafted.problems.iter().filter(|it| it.severity() == Severity::Error).collect();
    if !errors.is_empty() {
        let message = format!("`{}` cannot be added: its entry is invalid", server.name);
        let detail = report::problems(&invocation.env, errors.into_iter());
        return Err(Failure::new(Exit::Configuration, &message).detail(detail));
    }
    if let ServerState::Refused(refusal) = &resolved.state {
        let message = format!("`{}` may not be added: a policy refuses it", server.name);
        let reason = server_text::refusal_text(&invocation.env, refusal);
        return Err(Failure::new(Exit::Policy, &message).hint(&reason));
    }
    Ok(resolved)
}

/// Fails if the scope's file already has a server of that name.
pub fn expect_new(
    invocation: &Invocation,
    configuration: &Configuration,
    scope: WritableScope,
    name: &str,
) -> Result<(), Failure> {
    let file = invocation.scope_file(scope);
    match definition_in(configuration, &file, name) {
        None => Ok(()),
        Some(there) => {
            let place = invocation.display_origin(&there.origin);
            let message = format!("`{name}` is already in the {} scope ({place})", scope.scope());
            Err(Failure::new(Exit::Conflict, &message).hint(&format!(
                "add --overwrite, or first: swb remove {name} --scope {}",
                scope.scope()
            )))
        }
    }
}

/// The definition of a name in one file.
pub fn definition_in<'c>(
    configuration: &'c Configuration,
    file: &Path,
    name: &str,
) -> Option<&'c ResolvedServer> {
    configuration
        .effective
        .servers
        .iter()
        .find(|server| server.name == name && server.origin.source.path() == Some(file))
}

/// Writes servers to the scope's file in one change. Checks again under the file's lock that the names are new.
pub fn write_servers(
    invocation: &Invocation,
    scope: WritableScope,
    servers: &[NewServer],
    existing: IfExists,
) -> Result<ChangeOutcome, Failure> {
    let path = invocation.scope_file(scope);
    file::expect_inside(invocation, scope, &path)?;
    let mut edits = file::edits_for_new_file(invocation, scope);
    edits.extend(servers.iter().map(|server| Edit::SetServer {
        name: server.name.clone(),
        entry: Json::Object(server.entry.clone()),
    }));
    let mut taken = None;
    let outcome = atomic_file::change(&path, file::file_privacy(scope), |text| {
        if existing == IfExists::Fail {
            taken = servers.iter().find(|server| edit::has_server(text, &server.name));
        }
        if taken.is_some() { Ok(text.to_owned()) } else { edit::apply(text, &edits) }
    })?;
    match taken {
        None => Ok(outcome),
        Some(server) => {
            let message = format!("`{}` is already in the {} scope", server.name, scope.scope());
            Err(Failure::new(Exit::Conflict, &message).hint("add --overwrite to replace it"))
        }
    }
}

/// Notes for the user after a server was written: shadowing, pending approval, exposed secrets, warnings.
pub fn added_notes(
    invocation: &Invocation,
    before: &Configuration,
    scope: WritableScope,
    server: &NewServer,
    resolved: &ResolvedServer,
) -> String {
    let name = printable(&server.name);
    let mut text = String::new();
    let shadowed = before.effective.winner(&server.name).filter(|it| it.scope() != scope.scope());
    match shadowed {
        Some(other) if other.scope() < scope.scope() => text.push_str(&format!(
            "note: `{name}` of the {} scope ({}) overrides it\n",
            other.scope(),
            invocation.display_origin(&other.origin)
        )),
        Some(other) => text.push_str(&format!(
            "note: it overrides `{name}` of the {} scope ({})\n",
            other.scope(),
            invocation.display_origin(&other.origin)
        )),
        None => {}
    }
    if scope.scope() == Scope::Project {
        text.push_str(&format!("note: it starts after you approve it: swb approve {name}\n"));
        if holds_literal_secret(&server.entry) {
            text.push_str(
                "warning: everyone with access to the project can read the values in it; \
                 write ${NAME} instead and set NAME in your environment\n",
            );
        }
    }
    let warnings = resolved.problems.iter().filter(|it| it.severity() == Severity::Warning);
    for problem in warnings {
        text.push_str(&format!("warning: {}\n", printable(&problem.kind.to_string())));
        if let Some(hint) = problem.hint() {
            text.push_str(&format!("  hint: {}\n", printable(&hint)));
        }
    }
    text
}

/// Does the entry hold a secret as plain text?
pub fn holds_literal_secret(entry: &Map<String, Json>) -> bool {
    ["env", "headers", "oauth"].iter().filter_map(|key| entry.get(*key)?.as_object()).any(|pairs| {
        pairs.iter().any(|(key, value)| {
            let text = value.as_str().unwrap_or("");
            is_secret_name(key) && !text.is_empty() && !text.contains("${")
        })
    })
}
