//! `swb add`: one more server, in the forms that hands know from other programs.

use clap::{Args, Parser, ValueEnum};
use serde_json::{Map, Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::entry::server::OAuthGrant;

use crate::edit::servers;
use crate::edit::servers::{IfExists, NewServer};
use crate::exit::Exit;
use crate::invocation::{Invocation, WritableScope};
use crate::outcome::{CommandOutput, Failure};

/// Arguments of `swb add`.
///
/// The forms that people know all work: `swb add NAME -- COMMAND ARGS…`, `swb add NAME COMMAND ARGS…`,
/// `swb add NAME URL`, `swb add --transport http NAME URL --header 'X: y'`, `swb add NAME --url URL`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  swb add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes\n  swb add github https://api.githubcopilot.com/mcp/ --header 'Authorization: Bearer ${GITHUB_TOKEN}'\n  swb add db --scope project --env DATABASE_URL='${DATABASE_URL}' -- uvx mcp-server-postgres"
)]
pub struct AddArgs {
    /// Options that may also follow a URL.
    #[command(flatten)]
    pub options: AddOptions,
    /// The server's name: letters, digits, - and _
    pub name: String,
    /// The command and its arguments, or the URL
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND|URL")]
    pub target: Vec<String>,
}

/// Options of `swb add`.
#[derive(Debug, Clone, Default, Args)]
pub struct AddOptions {
    /// Where to keep it
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// How to reach it; guessed from the target when absent
    #[arg(long, short, value_enum)]
    pub transport: Option<AddTransport>,
    /// A variable for the command; may be repeated
    #[arg(long, short, value_name = "KEY=VALUE")]
    pub env: Vec<String>,
    /// A header for the URL; may be repeated
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// The URL, instead of naming it last
    #[arg(long)]
    pub url: Option<String>,
    /// The folder that the command starts in
    #[arg(long, value_name = "FOLDER")]
    pub cwd: Option<String>,
    /// The variable that holds the bearer token for the URL
    #[arg(long, value_name = "VARIABLE")]
    pub bearer_token_env_var: Option<String>,
    /// The id of a client that was registered beforehand
    #[arg(long, visible_alias = "oauth-client-id", value_name = "ID")]
    pub client_id: Option<String>,
    /// Ask for the client's secret, or take it from MCP_CLIENT_SECRET
    #[arg(long)]
    pub client_secret: bool,
    /// The port of the sign-in redirect
    #[arg(long, value_name = "PORT")]
    pub callback_port: Option<u16>,
    /// Scopes to ask for when signing in
    #[arg(long, value_delimiter = ',', value_name = "SCOPE,…")]
    pub scopes: Vec<String>,
    /// Sign in through the enterprise's identity provider
    #[arg(long)]
    pub xaa: bool,
    /// In which way to sign in; all but the first need nobody
    #[arg(long, value_name = "GRANT", value_parser = parse_grant)]
    pub grant: Option<&'static str>,
    /// The variable that holds the key that the client signs with, as PEM
    #[arg(long, value_name = "VARIABLE")]
    pub private_key_env_var: Option<String>,
    /// The variable that holds the platform's token for `--grant jwt_bearer`
    #[arg(long, value_name = "VARIABLE")]
    pub workload_token_env_var: Option<String>,
    /// How long a call may take, in milliseconds
    #[arg(long, value_name = "MS")]
    pub timeout: Option<u32>,
    /// Run its tools without asking
    #[arg(long)]
    pub trust: bool,
    /// A note for people
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Only these tools, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "TOOLS")]
    pub include_tools: Vec<String>,
    /// Never these tools, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "TOOLS")]
    pub exclude_tools: Vec<String>,
    /// Replace a server of the same name in the same scope
    #[arg(long)]
    pub overwrite: bool,
}

/// The transports that a server can be added with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AddTransport {
    /// A command that we start.
    Stdio,
    /// Streamable HTTP.
    #[value(alias = "streamable-http")]
    Http,
    /// The older HTTP transport.
    Sse,
    /// WebSocket.
    Ws,
}

impl AddTransport {
    fn id(self) -> &'static str {
        match self {
            AddTransport::Stdio => "stdio",
            AddTransport::Http => "http",
            AddTransport::Sse => "sse",
            AddTransport::Ws => "ws",
        }
    }
}

/// Runs the command.
pub fn run(arguments: &AddArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    servers::check_name(&arguments.name)?;
    let ResolvedTarget { options, target, json } = match resolve_target(arguments)? {
        Ok(settled) => settled,
        Err(help) => return Ok(CommandOutput::text(help)),
    };
    let mut session = session.clone();
    session.global.json |= json;
    let transport = options.transport.unwrap_or_else(|| guess_transport(&target));
    let (entry, notes) = match transport {
        AddTransport::Stdio => stdio_entry(&options, &target, &session)?,
        AddTransport::Http | AddTransport::Sse | AddTransport::Ws => {
            remote_entry(&options, &target, transport, &session)?
        }
    };
    let server = NewServer { name: arguments.name.clone(), entry };
    let mut done = add_server(&session, &options, server)?;
    done.notes.insert_str(0, &notes);
    Ok(done)
}

/// Checks, writes and says so; shared with `add-json`.
pub fn add_server(
    session: &Invocation,
    options: &AddOptions,
    server: NewServer,
) -> Result<CommandOutput, Failure> {
    let scope = options.scope.unwrap_or(WritableScope::Local);
    let existing = if options.overwrite { IfExists::Overwrite } else { IfExists::Fail };
    let configuration = session.load_without_demo()?;
    session.expect_unlocked(&configuration)?;
    let mut server = server;
    let variables = servers::replace_secrets(session, &mut server.entry);
    let resolved = servers::check_entry(session, &configuration, scope, &server)?;
    if existing == IfExists::Fail {
        servers::expect_new(session, &configuration, scope, &server.name)?;
    }
    servers::write_servers(session, scope, std::slice::from_ref(&server), existing)?;
    let mut notes = String::new();
    for name in variables {
        notes.push_str(&format!("note: wrote ${{{name}}} instead of the value it has now\n"));
    }
    notes.push_str(&servers::added_notes(session, &configuration, scope, &server, &resolved));
    if session.wants_json() {
        let file = session.scope_file(scope).to_string_lossy().into_owned();
        let added = json!({"added": server.name, "scope": scope.scope().id(), "file": file});
        return Ok(super::json_output(&added).note(notes));
    }
    let transport = resolved.entry.as_ref().map_or("", |entry| entry.transport.kind().id());
    let text = format!(
        "Added {transport} server `{}` to {}\n",
        printable(&server.name),
        servers::scope_location(session, scope, &session.scope_file(scope))
    );
    Ok(CommandOutput::text(text).note(notes))
}

/// What the command line comes to.
struct ResolvedTarget {
    options: AddOptions,
    target: Vec<String>,
    json: bool,
}

/// Options that follow a URL are options, although everything behind a command belongs to the command.
/// People also write several variables behind one `--env`, before the `--` and the command, and several
/// headers behind one `--header`. Instead of an answer, help may have been asked for.
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
    let is_remote = options.transport.is_some_and(|it| it != AddTransport::Stdio)
        || (options.transport.is_none() && guess_transport(&target) != AddTransport::Stdio);
    if !is_remote || target.len() < 2 {
        return Ok(Ok(ResolvedTarget { options, target, json: false }));
    }
    let trailing = std::iter::once("swb add NAME URL".to_owned()).chain(target.drain(1..));
    let more = match TrailingOptions::try_parse_from(trailing) {
        Ok(more) => more,
        Err(error) if !error.use_stderr() => return Ok(Err(error.to_string())),
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or("").trim_start_matches("error: ").to_owned();
            return Err(Failure::new(Exit::Usage, &first)
                .hint("behind a URL only options may follow: swb add --help"));
        }
    };
    let mut options = merge_options(options, more.options);
    if !more.headers.is_empty() && options.header.is_empty() {
        return Err(Failure::new(Exit::Usage, "behind a URL only options may follow")
            .hint("swb add --help"));
    }
    options.header.extend(more.headers);
    Ok(Ok(ResolvedTarget { options, target, json: more.json }))
}

/// Options of `swb add` behind a URL.
#[derive(Debug, Parser)]
struct TrailingOptions {
    #[command(flatten)]
    options: AddOptions,
    /// Answer in JSON, for programs
    #[arg(long)]
    json: bool,
    /// More headers, behind the first
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

/// Is nothing said about signing in?
fn has_default_login(options: &AddOptions) -> bool {
    let names_somebody = options.client_id.is_some()
        || options.client_secret
        || options.private_key_env_var.is_some()
        || options.workload_token_env_var.is_some();
    !names_somebody && !options.xaa && options.grant.is_none() && options.scopes.is_empty()
}

/// One of the words that an entry knows.
fn parse_grant(text: &str) -> Result<&'static str, String> {
    let words = OAuthGrant::NAMES.map(|(word, _)| word);
    let found = words.into_iter().find(|word| *word == text);
    found.ok_or_else(|| format!("the grants are {}", words.join(", ")))
}

fn stdio_entry(
    options: &AddOptions,
    target: &[String],
    session: &Invocation,
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
    entry.insert("command".to_owned(), command.as_str().into());
    if !arguments.is_empty() {
        entry.insert("args".to_owned(), arguments.into());
    }
    let env = options.env.iter().enumerate().map(|(index, pair)| parse_env(index, pair));
    let env = env.collect::<Result<Map<String, Json>, Failure>>()?;
    if !env.is_empty() {
        entry.insert("env".to_owned(), env.into());
    }
    if let Some(cwd) = &options.cwd {
        let cwd = if cwd.contains('$') {
            cwd.clone()
        } else {
            session.env.working_folder.join(cwd).to_string_lossy().into_owned()
        };
        entry.insert("cwd".to_owned(), cwd.into());
    }
    insert_common(&mut entry, options);
    Ok((entry, String::new()))
}

fn remote_entry(
    options: &AddOptions,
    target: &[String],
    transport: AddTransport,
    session: &Invocation,
) -> Result<(Map<String, Json>, String), Failure> {
    let url = options.url.as_ref().or(target.first()).ok_or_else(|| {
        Failure::new(Exit::Usage, "there is neither a command nor a URL")
            .hint("swb add NAME -- COMMAND ARGS…   or   swb add NAME URL")
    })?;
    expect_unused(options.env.is_empty(), "--env", "a URL")?;
    expect_unused(options.cwd.is_none(), "--cwd", "a URL")?;
    let mut entry = Map::new();
    entry.insert("type".to_owned(), transport.id().into());
    entry.insert("url".to_owned(), url.as_str().into());
    let headers = options.header.iter().enumerate().map(|(index, text)| parse_header(index, text));
    let mut headers = headers.collect::<Result<Map<String, Json>, Failure>>()?;
    if let Some(variable) = &options.bearer_token_env_var {
        headers.insert("Authorization".to_owned(), format!("Bearer ${{{variable}}}").into());
    }
    if !headers.is_empty() {
        entry.insert("headers".to_owned(), headers.into());
    }
    let (oauth, notes) = oauth_entry(options, session)?;
    if !oauth.is_empty() {
        entry.insert("oauth".to_owned(), oauth.into());
    }
    insert_common(&mut entry, options);
    Ok((entry, notes))
}

fn oauth_entry(
    options: &AddOptions,
    session: &Invocation,
) -> Result<(Map<String, Json>, String), Failure> {
    let mut oauth = Map::new();
    let mut notes = String::new();
    if let Some(id) = &options.client_id {
        oauth.insert("clientId".to_owned(), id.as_str().into());
    }
    if options.client_secret {
        let (secret, note) = client_secret(options, session)?;
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

/// A secret in a variable is named, not copied; one that is typed goes only into files of the person's own.
fn client_secret(options: &AddOptions, session: &Invocation) -> Result<(String, String), Failure> {
    const VARIABLE: &str = "MCP_CLIENT_SECRET";
    if session.env.variables.contains_key(VARIABLE) {
        let note = format!("note: wrote ${{{VARIABLE}}}; it must be set whenever you sign in\n");
        return Ok((format!("${{{VARIABLE}}}"), note));
    }
    if options.scope == Some(WritableScope::Project) {
        return Err(Failure::new(
            Exit::Usage,
            "a client secret does not belong into a project's file",
        )
        .hint(&format!("set {VARIABLE}, and only its name is written")));
    }
    if !session.env.terminal.is_interactive {
        return Err(Failure::new(Exit::Usage, "there is nobody to ask for the client secret")
            .hint(&format!("set {VARIABLE}")));
    }
    let typed = rpassword::prompt_password("Client secret: ").map_err(|error| {
        Failure::new(Exit::Failure, "the client secret could not be read").caused_by(error)
    })?;
    Ok((typed.replace('$', "$$"), String::new()))
}

fn insert_common(entry: &mut Map<String, Json>, options: &AddOptions) {
    if let Some(timeout) = options.timeout {
        entry.insert("timeout".to_owned(), timeout.into());
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

/// Which one is wrong is said by its number: the text may be a secret.
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
    Err(Failure::new(Exit::Usage, &format!("{option} has no meaning for {with}")))
}
