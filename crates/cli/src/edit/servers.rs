//! Putting a server into a file, the same for `add`, `add-json` and `import`: check, ask the policy, write, say so.

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use switchboard::config::display;
use switchboard::config::display::{is_secret_name, printable};
use switchboard::config::edit::{self, Edit};
use switchboard::config::entry::name::{ReservedNames, ServerName};
use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::merge;
use switchboard::config::merge::{MergeInputs, ResolvedServer, ServerState};
use switchboard::config::problem::Severity;
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard::config::template::Template;
use switchboard::sources::atomic_file;
use switchboard::sources::atomic_file::{ChangeOutcome, Privacy};
use switchboard::sources::loader::Configuration;

use crate::exit::Exit;
use crate::invocation::{Invocation, WritableScope};
use crate::outcome::Failure;
use crate::output::report;
use crate::output::server_text;

/// A server to be written. It does not print: secrets may be in it.
#[derive(Clone)]
pub struct NewServer {
    /// Its name.
    pub name: String,
    /// Its entry.
    pub entry: Map<String, Json>,
}

/// What to do about a server of the same name in the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// Leave it and fail.
    Fail,
    /// Put the new one in its place.
    Overwrite,
}

/// Checks a name that a person wants to use.
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

/// Checks an entry as if it stood in a file of the scope, and asks the policy. The judged server comes back.
pub fn check_entry(
    session: &Invocation,
    configuration: &Configuration,
    scope: WritableScope,
    server: &NewServer,
) -> Result<ResolvedServer, Failure> {
    let mut servers = Map::new();
    servers.insert(server.name.clone(), Json::Object(server.entry.clone()));
    let text = format!("{:#}", json!({"mcpServers": servers}));
    let source = Source::program(scope.scope(), "the new entry");
    let layer = Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped);
    let inputs = MergeInputs {
        layers: vec![layer],
        policy: configuration.policy.clone(),
        environment: session.env.template_environment(),
        ..MergeInputs::default()
    };
    let resolved = merge::resolve(inputs).servers.into_iter().next();
    let Some(resolved) = resolved else {
        return Err(Failure::new(Exit::Usage, "the entry defines no server"));
    };
    let errors: Vec<_> =
        resolved.problems.iter().filter(|it| it.severity() == Severity::Error).collect();
    if !errors.is_empty() {
        let message = format!("`{}` cannot be added as it is", server.name);
        let detail = report::problems(&session.env, errors.into_iter());
        return Err(Failure::new(Exit::Configuration, &message).detail(detail));
    }
    if let ServerState::Refused(refusal) = &resolved.state {
        let message = format!("`{}` may not be added: a policy refuses it", server.name);
        let reason = server_text::refusal_text(session, refusal);
        return Err(Failure::new(Exit::Policy, &message).hint(&reason));
    }
    Ok(resolved)
}

/// Fails where the scope's file already has a server of that name.
pub fn expect_new(
    session: &Invocation,
    configuration: &Configuration,
    scope: WritableScope,
    name: &str,
) -> Result<(), Failure> {
    let file = session.scope_file(scope);
    match definition_in(configuration, &file, name) {
        None => Ok(()),
        Some(there) => {
            let place = session.display_origin(&there.origin);
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

/// Writes servers to the scope's file in one go. That a name is new is checked again under the file's lock.
pub fn write_servers(
    session: &Invocation,
    scope: WritableScope,
    servers: &[NewServer],
    existing: IfExists,
) -> Result<ChangeOutcome, Failure> {
    let file = session.scope_file(scope);
    expect_inside(session, scope, &file)?;
    let mut edits = edits_for_new_file(session, scope);
    edits.extend(servers.iter().map(|server| Edit::SetServer {
        name: server.name.clone(),
        entry: Json::Object(server.entry.clone()),
    }));
    let mut taken = None;
    let outcome = atomic_file::change(&file, file_privacy(scope), |text| {
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

/// Applies changes to a file of the scope.
pub fn edit_file(
    session: &Invocation,
    scope: WritableScope,
    file: &Path,
    edits: &[Edit],
) -> Result<ChangeOutcome, Failure> {
    expect_inside(session, scope, file)?;
    let mut all = match file == session.scope_file(scope) {
        true => edits_for_new_file(session, scope),
        false => Vec::new(),
    };
    all.extend_from_slice(edits);
    Ok(atomic_file::change(file, file_privacy(scope), |text| edit::apply(text, &all))?)
}

/// A link in somebody's tree must not make us write elsewhere.
pub fn expect_inside(
    session: &Invocation,
    scope: WritableScope,
    file: &Path,
) -> Result<(), Failure> {
    let root = switchboard::sources::paths::project_root(&session.env.working_folder);
    let is_inside = match (scope, file.canonicalize()) {
        (WritableScope::Project, Ok(real)) => real.starts_with(root),
        (WritableScope::Project, Err(_)) => !file.is_symlink(),
        (WritableScope::Local | WritableScope::User, _) => true,
    };
    if is_inside {
        return Ok(());
    }
    let message = format!("{} is a link that leads out of the project", session.display_path(file));
    Err(Failure::new(Exit::Configuration, &message).hint("change the file that it leads to"))
}

/// Local settings say which project they belong to, since their folder's name does not.
fn edits_for_new_file(session: &Invocation, scope: WritableScope) -> Vec<Edit> {
    match scope {
        WritableScope::User | WritableScope::Project => Vec::new(),
        WritableScope::Local => {
            let root = switchboard::sources::paths::project_root(&session.env.working_folder);
            let value = root.to_string_lossy().into();
            vec![Edit::SetIfAbsent { key: "project".to_owned(), value }]
        }
    }
}

fn file_privacy(scope: WritableScope) -> Privacy {
    match scope {
        WritableScope::Local | WritableScope::User => Privacy::Owner,
        WritableScope::Project => Privacy::Shared,
    }
}

/// A secret that a shell put into an argument is written as the variable it came from. Says which were.
pub fn replace_secrets(session: &Invocation, entry: &mut Map<String, Json>) -> Vec<String> {
    let mut secrets: Vec<SecretVariable<'_>> = session
        .env
        .variables
        .iter()
        .filter_map(|(name, value)| secret_variable(name, value))
        .collect();
    // The longest first: one value may be the beginning of another.
    secrets.sort_by_key(|secret| (std::cmp::Reverse(secret.value.len()), secret.name));
    let mut found = Vec::new();
    for (key, value) in entry.iter_mut() {
        if !matches!(key.as_str(), "type" | "command" | "description" | "tools" | "timeout") {
            replace_secrets_in(key, value, &secrets, &mut found);
        }
    }
    found.sort();
    found.dedup();
    found
}

/// A variable whose value is a secret.
#[derive(Debug)]
struct SecretVariable<'v> {
    name: &'v str,
    value: &'v str,
    /// Looks like nothing but a secret, so that it can be replaced wherever it stands.
    is_distinct: bool,
}

/// Is what a variable holds a secret, by its name or by its looks?
fn secret_variable<'v>(name: &'v str, value: &'v str) -> Option<SecretVariable<'v>> {
    const MIN_SECRET_LENGTH: usize = 4;
    let can_be_named = Template::parse(&format!("${{{name}}}")).as_literal().is_none();
    let is_plain = matches!(value, "true" | "false" | "none" | "null" | "http" | "https" | "stdio");
    let has_password = value.contains("://") && display::masked_url(value).contains(display::MASK);
    let looks_secret = display::looks_like_token(value) || has_password;
    if !can_be_named
        || is_plain
        || !(looks_secret || (is_secret_name(name) && value.len() >= MIN_SECRET_LENGTH))
    {
        return None;
    }
    let is_mixed = value.len() >= 8
        && value.chars().any(char::is_alphabetic)
        && value.chars().any(|c| !c.is_alphabetic());
    Some(SecretVariable { name, value, is_distinct: looks_secret || is_mixed })
}

fn replace_secrets_in(
    key: &str,
    value: &mut Json,
    secrets: &[SecretVariable<'_>],
    found: &mut Vec<String>,
) {
    match value {
        Json::String(text) => {
            for secret in secrets {
                let replaced = match secret.is_distinct {
                    true => replace_with_reference(text, secret.value, secret.name),
                    // An ordinary word is a secret only where nothing but a secret belongs.
                    false if is_secret_name(key) && text == secret.value => {
                        Some(format!("${{{}}}", secret.name))
                    }
                    false => None,
                };
                if let Some(replaced) = replaced {
                    *text = replaced;
                    found.push(secret.name.to_owned());
                }
            }
        }
        Json::Array(elements) => {
            for element in elements {
                replace_secrets_in(key, element, secrets, found);
            }
        }
        Json::Object(members) => {
            for (key, member) in members.iter_mut() {
                replace_secrets_in(key, member, secrets, found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// The text with a secret replaced wherever it stands as a word of its own; none where it does not.
fn replace_with_reference(text: &str, secret: &str, name: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '$' | '{');
    let mut replaced = String::new();
    let mut rest = text;
    let mut any = false;
    while let Some(at) = rest.find(secret) {
        let (before, behind) = (&rest[..at], &rest[at + secret.len()..]);
        let previous = before.chars().next_back().or_else(|| replaced.chars().next_back());
        let stands_alone =
            !previous.is_some_and(is_part) && !behind.chars().next().is_some_and(is_part);
        replaced.push_str(before);
        replaced.push_str(&if stands_alone { format!("${{{name}}}") } else { secret.to_owned() });
        any |= stands_alone;
        rest = behind;
    }
    replaced.push_str(rest);
    any.then_some(replaced)
}

/// What a person should know after a server was written: what hides it, what it waits for, what it exposes.
pub fn added_notes(
    session: &Invocation,
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
            "note: `{name}` of the {} scope ({}) wins over it\n",
            other.scope(),
            session.display_origin(&other.origin)
        )),
        Some(other) => text.push_str(&format!(
            "note: it wins over `{name}` of the {} scope ({})\n",
            other.scope(),
            session.display_origin(&other.origin)
        )),
        None => {}
    }
    if scope.scope() == Scope::Project {
        text.push_str(&format!("note: it starts once you approved it: swb approve {name}\n"));
        if holds_literal_secret(&server.entry) {
            text.push_str(
                "warning: everybody with access to the project can read the values in it; \
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

/// Is there a value with a telling name that is written out?
pub fn holds_literal_secret(entry: &Map<String, Json>) -> bool {
    ["env", "headers", "oauth"].iter().filter_map(|key| entry.get(*key)?.as_object()).any(|pairs| {
        pairs.iter().any(|(key, value)| {
            let text = value.as_str().unwrap_or("");
            is_secret_name(key) && !text.is_empty() && !text.contains("${")
        })
    })
}

/// Where something was written, for people.
pub fn scope_location(session: &Invocation, scope: WritableScope, file: &Path) -> String {
    let what = match scope {
        WritableScope::Local => "you, in this project",
        WritableScope::User => "you, in every project",
        WritableScope::Project => "everybody in this project",
    };
    format!("the {} scope ({what}): {}", scope.scope(), session.display_path(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, secret: &str, expected: Option<&str>) {
        assert_eq!(replace_with_reference(text, secret, "NAME").as_deref(), expected);
    }

    #[test]
    fn a_secret_is_replaced_only_where_it_is_a_word_of_its_own() {
        check("Bearer s3cret", "s3cret", Some("Bearer ${NAME}"));
        check("https://u:s3cret@h/?k=s3cret", "s3cret", Some("https://u:${NAME}@h/?k=${NAME}"));
        check("--password", "password", None);
        check("s3cret345", "s3cret", None);
        check("s3cret,s3cret", "s3cret", Some("${NAME},${NAME}"));
    }

    #[test]
    fn what_is_a_secret_shows_in_its_name_or_in_its_looks() {
        let distinct = |name, value| secret_variable(name, value).map(|secret| secret.is_distinct);
        assert_eq!(distinct("MY_TOKEN", "abcd"), Some(false));
        assert_eq!(distinct("MY_TOKEN", "s3cret-s3cret"), Some(true));
        assert_eq!(distinct("OPENAI", "sk-0123456789abcdef"), Some(true));
        assert_eq!(distinct("DATABASE_URL", "postgres://u:pw@h/db"), Some(true));
        assert_eq!(distinct("POSTGRES_PASSWORD", "postgres"), Some(false));
        for (name, value) in [
            ("HOME", "/somewhere"),
            ("SITE", "https://example.com/"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("AUTH_MODE", "http"),
            ("MY-TOKEN", "s3cret-s3cret"),
        ] {
            assert_eq!(distinct(name, value), None, "{name}");
        }
    }

    #[test]
    fn an_ordinary_word_is_replaced_only_where_a_secret_belongs() {
        let secrets = [secret_variable("POSTGRES_PASSWORD", "postgres").expect("its name says so")];
        let mut entry = json!({"args": ["@acme/postgres", "postgres"], "env": {"DB": "postgres", "DB_PASSWORD": "postgres"}});
        let mut found = Vec::new();
        replace_secrets_in("", &mut entry, &secrets, &mut found);
        assert_eq!(
            entry,
            json!({"args": ["@acme/postgres", "postgres"], "env": {"DB": "postgres", "DB_PASSWORD": "${POSTGRES_PASSWORD}"}})
        );
    }
}
