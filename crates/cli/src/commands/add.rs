//! `swb add`: adds a server from a command, a URL or a bundle.

mod bundle;
mod entry;
mod options;
mod target;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser};
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::registry::identifier::is_server_name;

use crate::edit::servers;
use crate::edit::servers::{IfExists, NewServer};
use crate::edit::{file, secret_references};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::server_text;

pub use bundle::BundleOptions;
pub(crate) use bundle::{BundleToAdd, add_file};
pub use options::{AddOptions, AddTransport};

/// Arguments of `swb add`.
///
/// The forms that people know all work: `swb add NAME -- COMMAND ARGS…`, `swb add NAME COMMAND ARGS…`,
/// `swb add NAME URL`, `swb add --transport http NAME URL --header 'X: y'`, `swb add NAME --url URL`,
/// `swb add NAME --command COMMAND ARGS…`, `swb add FILE.mcpb`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Options that may also follow a URL.
    #[command(flatten)]
    pub options: AddOptions,
    /// Options for bundles.
    #[command(flatten)]
    pub bundle: BundleOptions,
    /// The server's name: letters, digits, - and _; or a bundle: FILE.mcpb
    pub name: String,
    /// The command to start, as an alternative to the positional argument; its arguments follow
    #[arg(long, value_name = "COMMAND", conflicts_with = "url")]
    pub command: Option<String>,
    /// The command and its arguments, or the URL
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND|URL")]
    pub target: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &AddArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let is_command = arguments.command.is_some() || arguments.options.url.is_some();
    if !is_command && let Some(named) = bundle::named_bundle(&arguments.name, &arguments.target) {
        return add_bundle(named, arguments, invocation);
    }
    if let Some(option) = arguments.bundle.first_set() {
        let message = format!("{option} has an effect with a bundle only");
        return Err(Failure::new(Exit::Usage, &message).hint("swb add FILE.mcpb"));
    }
    expect_target(arguments)?;
    servers::check_name(&arguments.name)?;
    let ResolvedTarget { options, target, json } = match resolve_target(arguments)? {
        Ok(settled) => settled,
        Err(help) => return Ok(CommandOutput::text(help)),
    };
    let mut invocation = invocation.clone();
    invocation.global.json |= json;
    let transport = options.transport.unwrap_or_else(|| guess_transport(&target));
    if options.transport.is_none() && options.url.is_none() && arguments.command.is_none() {
        target::expect_command(&arguments.name, &target, &invocation.env.working_folder)?;
    }
    let (entry, notes) = match transport {
        AddTransport::Stdio => entry::stdio_entry(&options, &target, &invocation)?,
        AddTransport::Http | AddTransport::Sse | AddTransport::Ws => {
            entry::remote_entry(&options, &target, transport.id(), &invocation)?
        }
    };
    let server = NewServer { name: arguments.name.clone(), entry };
    let mut done = add_server(&invocation, &options, server)?;
    done.notes.insert_str(0, &notes);
    Ok(done)
}

/// Fails for a name alone, which may be meant as the name of a published server.
fn expect_target(arguments: &AddArgs) -> Result<(), Failure> {
    let AddArgs { options, name, command, target, bundle: _ } = arguments;
    let has_target = command.is_some() || options.url.is_some() || !target.is_empty();
    if has_target || options.transport.is_some() {
        return Ok(());
    }
    if is_server_name(name) {
        let message = format!("`{name}` is the name of a server in a registry");
        return Err(Failure::new(Exit::Usage, &message).hint(&format!("swb registry add {name}")));
    }
    let message = "there is neither a command nor a URL";
    Err(Failure::new(Exit::Usage, message).hint(&format!(
        "swb add NAME -- COMMAND ARGS…   or   swb add NAME URL   or find it: swb registry search {name}"
    )))
}

/// Adds a server from a bundle, with the options before and after it.
fn add_bundle(
    (source, name, more): (&str, Option<&str>, &[String]),
    arguments: &AddArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let more = match bundle::TrailingBundleOptions::parse_words(more)? {
        Ok(more) => more,
        Err(help) => return Ok(CommandOutput::text(help)),
    };
    let options = merge_options(arguments.options.clone(), more.options);
    let bundle_options = arguments.bundle.clone().merge(more.bundle);
    let mut invocation = invocation.clone();
    invocation.global.json |= more.json;
    bundle::add((source, name), &options, &bundle_options, &invocation)
}

/// Validates, writes and reports a server; shared with `add-json`.
pub fn add_server(
    invocation: &Invocation,
    options: &AddOptions,
    server: NewServer,
) -> Result<CommandOutput, Failure> {
    let scope = options.scope.unwrap_or(WritableScope::Local);
    let existing = if options.overwrite { IfExists::Overwrite } else { IfExists::Fail };
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let mut server = server;
    let variables = secret_references::replace_secrets(invocation, &mut server.entry);
    let resolved = servers::check_entry(invocation, &configuration, scope, &server)?;
    if existing == IfExists::Fail {
        servers::expect_new(invocation, &configuration, scope, &server.name)?;
    }
    servers::write_servers(invocation, scope, std::slice::from_ref(&server), existing)?;
    let mut notes = String::new();
    for name in variables {
        notes.push_str(&format!("note: wrote ${{{name}}} instead of its current value\n"));
    }
    notes.push_str(&servers::added_notes(invocation, &configuration, scope, &server, &resolved));
    let target = server_text::target(&resolved);
    if invocation.wants_json() {
        let file = invocation.scope_file(scope).to_string_lossy().into_owned();
        let added = json!({
            "added": server.name, "scope": scope.scope().id(), "file": file, "target": target,
        });
        return Ok(json_output(&added).note(notes));
    }
    let transport = resolved.entry.as_ref().map_or("", |entry| entry.transport.kind().id());
    let mut text = format!(
        "Added {transport} server `{}` to {}\n",
        printable(&server.name),
        file::scope_location(invocation, scope, &invocation.scope_file(scope))
    );
    if let (Some(entry), Some(target)) = (&resolved.entry, target) {
        let verb = if entry.transport.url().is_some() { "connects to" } else { "runs" };
        text.push_str(&format!("  {verb}: {target}\n"));
    }
    Ok(CommandOutput::text(text).note(notes))
}

/// The options and the target, after options behind a URL were parsed.
struct ResolvedTarget {
    options: AddOptions,
    target: Vec<String>,
    json: bool,
}

/// Parses options that follow a URL; everything after a command belongs to the command. Also accepts several
/// variables after one `--env`, and several headers after one `--header`. The inner error is a help text.
fn resolve_target(arguments: &AddArgs) -> Result<Result<ResolvedTarget, String>, Failure> {
    let mut options = arguments.options.clone();
    let mut target = arguments.target.clone();
    while !options.env.is_empty()
        && target.len() > 1
        && target.first().is_some_and(|word| is_assignment(word))
    {
        options.env.push(target.remove(0));
    }
    if target.first().is_some_and(|word| word == "--") {
        target.remove(0);
    }
    match &arguments.command {
        Some(command) => target.insert(0, command.clone()),
        None => target::expect_no_option(&target)?,
    }
    let transport = options.transport.unwrap_or_else(|| guess_transport(&target));
    let is_remote = transport != AddTransport::Stdio;
    if is_remote && let Some(url) = options.url.as_ref().or(target.first()) {
        target::expect_url(transport, url)?;
    }
    if !is_remote || target.len() < 2 {
        return Ok(Ok(ResolvedTarget { options, target, json: false }));
    }
    let trailing = std::iter::once("swb add NAME URL".to_owned()).chain(target.drain(1..));
    let more = match TrailingOptions::try_parse_from(trailing) {
        Ok(more) => more,
        Err(error) if !error.use_stderr() => return Ok(Err(error.to_string())),
        Err(error) => return Err(trailing_error(&error, "a URL")),
    };
    let mut options = merge_options(options, more.options);
    if !more.headers.is_empty() && options.header.is_empty() {
        return Err(
            Failure::new(Exit::Usage, "only options may follow a URL").hint("swb add --help")
        );
    }
    options.header.extend(more.headers);
    Ok(Ok(ResolvedTarget { options, target, json: more.json }))
}

/// The failure for what follows a URL or a bundle and is no option.
fn trailing_error(error: &clap::Error, after: &str) -> Failure {
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    {
        return target::unknown_option(word);
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or("").trim_start_matches("error: ").to_owned();
    let hint = format!("only options may follow {after}: swb add --help");
    Failure::new(Exit::Usage, &first).hint(&hint)
}

/// Options of `swb add` after a URL.
#[derive(Debug, Parser)]
struct TrailingOptions {
    #[command(flatten)]
    options: AddOptions,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    /// More headers
    headers: Vec<String>,
}

fn merge_options(mut first: AddOptions, second: AddOptions) -> AddOptions {
    first.env.extend(second.env);
    first.header.extend(second.header);
    first.include_tools.extend(second.include_tools);
    first.exclude_tools.extend(second.exclude_tools);
    first.scopes.extend(second.scopes);
    AddOptions {
        scope: second.scope.or(first.scope),
        transport: second.transport.or(first.transport),
        url: second.url.or(first.url),
        cwd: second.cwd.or(first.cwd),
        bearer_token_env_var: second.bearer_token_env_var.or(first.bearer_token_env_var),
        client_id: second.client_id.or(first.client_id),
        client_secret: second.client_secret || first.client_secret,
        callback_port: second.callback_port.or(first.callback_port),
        scopes: first.scopes,
        xaa: second.xaa || first.xaa,
        grant: second.grant.or(first.grant),
        private_key_env_var: second.private_key_env_var.or(first.private_key_env_var),
        workload_token_env_var: second.workload_token_env_var.or(first.workload_token_env_var),
        timeout: second.timeout.or(first.timeout),
        connect_timeout: second.connect_timeout.or(first.connect_timeout),
        trust: second.trust || first.trust,
        description: second.description.or(first.description),
        overwrite: second.overwrite || first.overwrite,
        env: first.env,
        header: first.header,
        include_tools: first.include_tools,
        exclude_tools: first.exclude_tools,
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(key, _)| {
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn guess_transport(target: &[String]) -> AddTransport {
    let first = target.first().map_or("", String::as_str);
    let begins =
        |scheme: &str| first.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme));
    if target.is_empty() || begins("http://") || begins("https://") {
        AddTransport::Http
    } else if begins("ws://") || begins("wss://") {
        AddTransport::Ws
    } else {
        AddTransport::Stdio
    }
}
