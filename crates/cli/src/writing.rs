//! Putting a server into a file, the same for `add`, `add-json` and `import`: check, ask the policy, write, say so.

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use switchboard::config::cascade::{self, Inputs, Server, State};
use switchboard::config::edit::{self, Edit};
use switchboard::config::layer::{Layer, Naming, Shape};
use switchboard::config::name::{Reserved, ServerName};
use switchboard::config::problem::Severity;
use switchboard::config::scope::Scope;
use switchboard::config::shown::{self, is_secret_word, printable};
use switchboard::config::source::Source;
use switchboard::config::template::Template;
use switchboard::load::Configuration;
use switchboard::store::{self, Outcome, Privacy};

use crate::describe;
use crate::exit::Exit;
use crate::outcome::Failure;
use crate::report;
use crate::session::{Session, WritableScope};

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
pub enum Existing {
    /// Leave it and fail.
    Keep,
    /// Put the new one in its place.
    Overwrite,
}

/// Checks a name that a person wants to use.
pub fn check_name(name: &str) -> Result<(), Failure> {
    ServerName::parse(name, Reserved::Refused).map(|_| ()).map_err(|fault| {
        let failure = Failure::new(Exit::Usage, &format!("`{name}` cannot be a server's name"))
            .because(fault);
        match ServerName::suggestion(name) {
            Some(better) => failure.hint(&format!("try `{better}`")),
            None => failure,
        }
    })
}

/// Checks an entry as if it stood in a file of the scope, and asks the policy. The judged server comes back.
pub fn check_entry(
    session: &Session,
    configuration: &Configuration,
    scope: WritableScope,
    server: &NewServer,
) -> Result<Server, Failure> {
    let mut servers = Map::new();
    servers.insert(server.name.clone(), Json::Object(server.entry.clone()));
    let text = format!("{:#}", json!({"mcpServers": servers}));
    let source = Source::program(scope.scope(), "the new entry");
    let layer = Layer::read(&source, &text, Naming::Plain, Shape::Wrapped);
    let inputs = Inputs {
        layers: vec![layer],
        policy: configuration.policy.clone(),
        environment: session.machine.environment(),
        ..Inputs::default()
    };
    let judged = cascade::resolve(inputs).servers.into_iter().next();
    let Some(judged) = judged else {
        return Err(Failure::new(Exit::Usage, "the entry defines no server"));
    };
    let errors: Vec<_> =
        judged.problems.iter().filter(|it| it.severity() == Severity::Error).collect();
    if !errors.is_empty() {
        let message = format!("`{}` cannot be added as it is", server.name);
        let detail = report::problems(&session.machine, errors.into_iter());
        return Err(Failure::new(Exit::Configuration, &message).detail(detail));
    }
    if let State::Refused(refusal) = &judged.state {
        let message = format!("`{}` may not be added: a policy refuses it", server.name);
        let reason = describe::refusal_text(session, refusal);
        return Err(Failure::new(Exit::Policy, &message).hint(&reason));
    }
    Ok(judged)
}

/// Fails where the scope's file already has a server of that name.
pub fn expect_new(
    session: &Session,
    configuration: &Configuration,
    scope: WritableScope,
    name: &str,
) -> Result<(), Failure> {
    let file = session.file_of(scope);
    match defined_in(configuration, &file, name) {
        None => Ok(()),
        Some(there) => {
            let place = session.shown_origin(&there.origin);
            let message = format!("`{name}` is already in the {} scope ({place})", scope.scope());
            Err(Failure::new(Exit::Conflict, &message).hint(&format!(
                "add --overwrite, or first: swb remove {name} --scope {}",
                scope.scope()
            )))
        }
    }
}

/// The definition of a name in one file.
pub fn defined_in<'c>(
    configuration: &'c Configuration,
    file: &Path,
    name: &str,
) -> Option<&'c Server> {
    configuration
        .effective
        .servers
        .iter()
        .find(|server| server.name == name && server.origin.source.path() == Some(file))
}

/// Writes servers to the scope's file in one go. That a name is new is checked again under the file's lock.
pub fn write(
    session: &Session,
    scope: WritableScope,
    servers: &[NewServer],
    existing: Existing,
) -> Result<Outcome, Failure> {
    let file = session.file_of(scope);
    expect_inside(session, scope, &file)?;
    let mut edits = edits_for_new_file(session, scope);
    edits.extend(servers.iter().map(|server| Edit::PutServer {
        name: server.name.clone(),
        entry: Json::Object(server.entry.clone()),
    }));
    let mut taken = None;
    let outcome = store::change(&file, privacy(scope), |text| {
        if existing == Existing::Keep {
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
    session: &Session,
    scope: WritableScope,
    file: &Path,
    edits: &[Edit],
) -> Result<Outcome, Failure> {
    expect_inside(session, scope, file)?;
    let mut all = match file == session.file_of(scope) {
        true => edits_for_new_file(session, scope),
        false => Vec::new(),
    };
    all.extend_from_slice(edits);
    Ok(store::change(file, privacy(scope), |text| edit::apply(text, &all))?)
}

/// A link in somebody's tree must not make us write elsewhere.
pub fn expect_inside(session: &Session, scope: WritableScope, file: &Path) -> Result<(), Failure> {
    let root = switchboard::places::project_root(&session.machine.working_folder);
    let is_fine = match (scope, file.canonicalize()) {
        (WritableScope::Project, Ok(real)) => real.starts_with(root),
        (WritableScope::Project, Err(_)) => !file.is_symlink(),
        (WritableScope::Local | WritableScope::User, _) => true,
    };
    if is_fine {
        return Ok(());
    }
    let message = format!("{} is a link that leads out of the project", session.shown_path(file));
    Err(Failure::new(Exit::Configuration, &message).hint("change the file that it leads to"))
}

/// Local settings say which project they belong to, since their folder's name does not.
fn edits_for_new_file(session: &Session, scope: WritableScope) -> Vec<Edit> {
    match scope {
        WritableScope::User | WritableScope::Project => Vec::new(),
        WritableScope::Local => {
            let root = switchboard::places::project_root(&session.machine.working_folder);
            let value = root.to_string_lossy().into();
            vec![Edit::Initialise { key: "project".to_owned(), value }]
        }
    }
}

fn privacy(scope: WritableScope) -> Privacy {
    match scope {
        WritableScope::Local | WritableScope::User => Privacy::Owner,
        WritableScope::Project => Privacy::Shared,
    }
}

/// A secret that a shell put into an argument is written as the variable it came from. Says which were.
pub fn unexpand(session: &Session, entry: &mut Map<String, Json>) -> Vec<String> {
    let mut secrets: Vec<Known<'_>> =
        session.machine.variables.iter().filter_map(|(name, value)| known(name, value)).collect();
    // The longest first: one value may be the beginning of another.
    secrets.sort_by_key(|secret| (std::cmp::Reverse(secret.value.len()), secret.name));
    let mut found = Vec::new();
    for (key, value) in entry.iter_mut() {
        if !matches!(key.as_str(), "type" | "command" | "description" | "tools" | "timeout") {
            unexpand_in(key, value, &secrets, &mut found);
        }
    }
    found.sort();
    found.dedup();
    found
}

/// A variable whose value is a secret.
#[derive(Debug)]
struct Known<'v> {
    name: &'v str,
    value: &'v str,
    /// Looks like nothing but a secret, so that it can be replaced wherever it stands.
    is_distinct: bool,
}

/// Is what a variable holds a secret, by its name or by its looks?
fn known<'v>(name: &'v str, value: &'v str) -> Option<Known<'v>> {
    const SHORTEST: usize = 4;
    let can_be_named = Template::parse(&format!("${{{name}}}")).literal().is_none();
    let is_plain = matches!(value, "true" | "false" | "none" | "null" | "http" | "https" | "stdio");
    let has_password = value.contains("://") && shown::url(value).contains(shown::MASK);
    let looks_secret = shown::looks_like_a_token(value) || has_password;
    if !can_be_named
        || is_plain
        || !(looks_secret || (is_secret_word(name) && value.len() >= SHORTEST))
    {
        return None;
    }
    let is_mixed = value.len() >= 8
        && value.chars().any(char::is_alphabetic)
        && value.chars().any(|c| !c.is_alphabetic());
    Some(Known { name, value, is_distinct: looks_secret || is_mixed })
}

fn unexpand_in(key: &str, value: &mut Json, secrets: &[Known<'_>], found: &mut Vec<String>) {
    match value {
        Json::String(text) => {
            for secret in secrets {
                let replaced = match secret.is_distinct {
                    true => with_reference(text, secret.value, secret.name),
                    // An ordinary word is a secret only where nothing but a secret belongs.
                    false if is_secret_word(key) && text == secret.value => {
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
                unexpand_in(key, element, secrets, found);
            }
        }
        Json::Object(members) => {
            for (key, member) in members.iter_mut() {
                unexpand_in(key, member, secrets, found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// The text with a secret replaced wherever it stands as a word of its own; none where it does not.
fn with_reference(text: &str, secret: &str, name: &str) -> Option<String> {
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
pub fn aftermath(
    session: &Session,
    before: &Configuration,
    scope: WritableScope,
    server: &NewServer,
    judged: &Server,
) -> String {
    let name = printable(&server.name);
    let mut text = String::new();
    let hides = before.effective.winner(&server.name).filter(|it| it.scope() != scope.scope());
    match hides {
        Some(other) if other.scope() < scope.scope() => text.push_str(&format!(
            "note: `{name}` of the {} scope ({}) wins over it\n",
            other.scope(),
            session.shown_origin(&other.origin)
        )),
        Some(other) => text.push_str(&format!(
            "note: it wins over `{name}` of the {} scope ({})\n",
            other.scope(),
            session.shown_origin(&other.origin)
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
    let warnings = judged.problems.iter().filter(|it| it.severity() == Severity::Warning);
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
            is_secret_word(key) && !text.is_empty() && !text.contains("${")
        })
    })
}

/// Where something was written, for people.
pub fn said_where(session: &Session, scope: WritableScope, file: &Path) -> String {
    let what = match scope {
        WritableScope::Local => "you, in this project",
        WritableScope::User => "you, in every project",
        WritableScope::Project => "everybody in this project",
    };
    format!("the {} scope ({what}): {}", scope.scope(), session.shown_path(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, secret: &str, expected: Option<&str>) {
        assert_eq!(with_reference(text, secret, "NAME").as_deref(), expected);
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
        let distinct = |name, value| known(name, value).map(|secret| secret.is_distinct);
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
        let secrets = [known("POSTGRES_PASSWORD", "postgres").expect("its name says so")];
        let mut entry = json!({"args": ["@acme/postgres", "postgres"], "env": {"DB": "postgres", "DB_PASSWORD": "postgres"}});
        let mut found = Vec::new();
        unexpand_in("", &mut entry, &secrets, &mut found);
        assert_eq!(
            entry,
            json!({"args": ["@acme/postgres", "postgres"], "env": {"DB": "postgres", "DB_PASSWORD": "${POSTGRES_PASSWORD}"}})
        );
    }
}
