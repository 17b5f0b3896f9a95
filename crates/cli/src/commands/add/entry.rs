//! Builds the entry that `swb add` writes from its options.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::options::AddOptions;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::Failure;
use crate::prompt::secret_input::read_secret;

/// Are no login options set?
fn has_default_login(options: &AddOptions) -> bool {
    let has_credentials = options.client_id.is_some()
        || options.client_secret
        || options.private_key_env_var.is_some()
        || options.workload_token_env_var.is_some();
    !has_credentials && !options.xaa && options.grant.is_none() && options.scopes.is_empty()
}

/// The entry of a command, and notes for the user.
pub fn stdio_entry(
    options: &AddOptions,
    target: &[String],
    invocation: &Invocation,
) -> Result<(Map<String, Json>, String), Failure> {
    let Some((command, arguments)) = target.split_first() else {
        return Err(Failure::new(Exit::Usage, "there is no command to start")
            .hint("swb add NAME -- COMMAND ARGS…"));
    };
    expect_unused(options.header.is_empty(), "--header", "a command")?;
    expect_unused(options.url.is_none(), "--url", "a command")?;
    expect_unused(options.bearer_token_env_var.is_none(), "--bearer-token-env-var", "a command")?;
    expect_unused(has_default_login(options), "sign-in", "a command")?;
    let mut entry = Map::new();
    entry.insert("type".to_owned(), "stdio".into());
    entry.insert("command".to_owned(), stored_command(command, options, invocation).into());
    if !arguments.is_empty() {
        entry.insert("args".to_owned(), arguments.into());
    }
    insert_env(&mut entry, options, invocation)?;
    insert_common(&mut entry, options);
    Ok((entry, String::new()))
}

/// The command as the scope's file means it. A relative path means the folder where it was typed, but in a file it
/// starts at the folder of the file.
fn stored_command(command: &str, options: &AddOptions, invocation: &Invocation) -> String {
    let is_relative = command.contains('/')
        && !command.contains('$')
        && !command.starts_with("~/")
        && !Path::new(command).is_absolute();
    if !is_relative {
        return command.to_owned();
    }
    let typed: PathBuf = invocation.env.working_folder.join(command).components().collect();
    let scope = options.scope.unwrap_or(WritableScope::Local);
    let file = invocation.scope_file(scope);
    let in_project = match scope {
        WritableScope::Project => file.parent().and_then(|it| typed.strip_prefix(it).ok()),
        WritableScope::Local | WritableScope::User => None,
    };
    match in_project {
        Some(inside) => format!("./{}", inside.to_string_lossy()),
        None => typed.to_string_lossy().into_owned(),
    }
}

/// The entry of a URL, and notes for the user.
pub fn remote_entry(
    options: &AddOptions,
    target: &[String],
    transport: &str,
    invocation: &Invocation,
) -> Result<(Map<String, Json>, String), Failure> {
    let url = options.url.as_ref().or(target.first()).ok_or_else(|| {
        Failure::new(Exit::Usage, "there is neither a command nor a URL")
            .hint("swb add NAME -- COMMAND ARGS…   or   swb add NAME URL")
    })?;
    expect_unused(options.env.is_empty(), "--env", "a URL")?;
    expect_unused(options.cwd.is_none(), "--cwd", "a URL")?;
    let mut entry = Map::new();
    entry.insert("type".to_owned(), transport.into());
    entry.insert("url".to_owned(), url.as_str().into());
    let headers = options.header.iter().enumerate().map(|(index, text)| parse_header(index, text));
    let mut headers = headers.collect::<Result<Map<String, Json>, Failure>>()?;
    if let Some(variable) = &options.bearer_token_env_var {
        headers.insert("Authorization".to_owned(), format!("Bearer ${{{variable}}}").into());
    }
    if !headers.is_empty() {
        entry.insert("headers".to_owned(), headers.into());
    }
    let (oauth, notes) = oauth_entry(options, invocation)?;
    if !oauth.is_empty() {
        entry.insert("oauth".to_owned(), oauth.into());
    }
    insert_common(&mut entry, options);
    Ok((entry, notes))
}

fn oauth_entry(
    options: &AddOptions,
    invocation: &Invocation,
) -> Result<(Map<String, Json>, String), Failure> {
    let mut oauth = Map::new();
    let mut notes = String::new();
    if let Some(id) = &options.client_id {
        oauth.insert("clientId".to_owned(), id.as_str().into());
    }
    if options.client_secret {
        let (secret, note) = client_secret(options, invocation)?;
        oauth.insert("clientSecret".to_owned(), secret.into());
        notes = note;
    }
    if let Some(port) = options.callback_port {
        oauth.insert("callbackPort".to_owned(), port.into());
    }
    if !options.scopes.is_empty() {
        oauth.insert("scopes".to_owned(), options.scopes.clone().into());
    }
    if options.xaa {
        oauth.insert("xaa".to_owned(), true.into());
    }
    if let Some(grant) = options.grant {
        oauth.insert("grant".to_owned(), grant.into());
    }
    let named = [
        ("privateKey", &options.private_key_env_var),
        ("workloadToken", &options.workload_token_env_var),
    ];
    for (key, variable) in named {
        if let Some(variable) = variable {
            oauth.insert(key.to_owned(), format!("${{{variable}}}").into());
        }
    }
    Ok((oauth, notes))
}

/// The client secret: a reference if it is in a variable. A typed secret is written only to the user's own files.
fn client_secret(
    options: &AddOptions,
    invocation: &Invocation,
) -> Result<(String, String), Failure> {
    const VARIABLE: &str = "MCP_CLIENT_SECRET";
    if invocation.env.variables.contains_key(VARIABLE) {
        let note = format!("note: wrote ${{{VARIABLE}}}; it must be set whenever you sign in\n");
        return Ok((format!("${{{VARIABLE}}}"), note));
    }
    if options.scope == Some(WritableScope::Project) {
        return Err(Failure::new(
            Exit::Usage,
            "a client secret must not be written to a project file",
        )
        .hint(&format!("set {VARIABLE}; only a reference to it is written")));
    }
    if !invocation.env.terminal.is_interactive {
        return Err(Failure::new(
            Exit::Usage,
            "the client secret cannot be asked for without a terminal",
        )
        .hint(&format!("set {VARIABLE}")));
    }
    let typed = read_secret("Client secret: ").map_err(|error| {
        Failure::new(Exit::Failure, "the client secret could not be read").caused_by(error)
    })?;
    Ok((typed.replace('$', "$$"), String::new()))
}

/// Adds the options of every transport.
pub(super) fn insert_common(entry: &mut Map<String, Json>, options: &AddOptions) {
    if let Some(timeout) = options.timeout {
        entry.insert("timeout".to_owned(), timeout.into());
    }
    if let Some(timeout) = options.connect_timeout {
        entry.insert("connectTimeout".to_owned(), timeout.into());
    }
    if options.trust {
        entry.insert("trust".to_owned(), true.into());
    }
    let mut tools = Map::new();
    if !options.include_tools.is_empty() {
        tools.insert("allow".to_owned(), options.include_tools.clone().into());
    }
    if !options.exclude_tools.is_empty() {
        tools.insert("deny".to_owned(), options.exclude_tools.clone().into());
    }
    if !tools.is_empty() {
        entry.insert("tools".to_owned(), tools.into());
    }
    if let Some(description) = &options.description {
        entry.insert("description".to_owned(), description.as_str().into());
    }
}

/// Adds the environment variables and the working folder of a program.
pub(super) fn insert_env(
    entry: &mut Map<String, Json>,
    options: &AddOptions,
    invocation: &Invocation,
) -> Result<(), Failure> {
    let env = options.env.iter().enumerate().map(|(index, pair)| parse_env(index, pair));
    let env = env.collect::<Result<Map<String, Json>, Failure>>()?;
    if !env.is_empty() {
        entry.insert("env".to_owned(), env.into());
    }
    if let Some(cwd) = &options.cwd {
        let cwd = if cwd.contains('$') {
            cwd.clone()
        } else {
            invocation.env.working_folder.join(cwd).to_string_lossy().into_owned()
        };
        entry.insert("cwd".to_owned(), cwd.into());
    }
    Ok(())
}

/// Errors give the option's number, because its text may be a secret.
fn parse_env(index: usize, pair: &str) -> Result<(String, Json), Failure> {
    match pair.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.into())),
        Some(_) | None => {
            Err(Failure::new(Exit::Usage, &format!("--env number {} is not KEY=VALUE", index + 1)))
        }
    }
}

fn parse_header(index: usize, text: &str) -> Result<(String, Json), Failure> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().into()))
        }
        Some(_) | None => Err(Failure::new(
            Exit::Usage,
            &format!("--header number {} is not `Name: value`", index + 1),
        )),
    }
}

fn expect_unused(unused: bool, option: &str, with: &str) -> Result<(), Failure> {
    if unused {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, &format!("{option} does not apply to {with}")))
}
