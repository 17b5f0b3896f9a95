//! `swb login`: signs in to a server, or with `--account` to the connector account.

pub mod account;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use switchboard::catalogue::ListKind;
use switchboard::config::display::{pluralize, printable};
use switchboard::config::entry::server::{OAuthGrant, ServerSpec};
use switchboard::config::merge::ResolvedServer;
use switchboard::config::scope::Scope;
use switchboard::connection::{RetryPolicy, ServerView, Status};
use switchboard::login::{LoginRequest, LoginView, ServerLoginError};
use switchboard::sources::loader::Configuration;
use switchboard::{FailureKind, Host};
use tokio::time::Instant;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::json::json_output;
use crate::output::login_text;
use crate::prompt::login_prompt::{BrowserMode, TerminalLoginPrompt};
use crate::runtime::host;
use crate::runtime::login;
use crate::runtime::servers;

/// How long the first connection with the new login may take.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Arguments of `swb login`.
#[derive(Debug, Args)]
pub struct LoginArgs {
    /// The server's name
    #[arg(required_unless_present = "account")]
    pub name: Option<String>,
    /// Sign in to the account whose connectors you use
    #[arg(long, conflicts_with = "name")]
    pub account: bool,
    /// How to sign in
    #[command(flatten)]
    pub flags: LoginFlags,
    /// Sign in again, even if a valid login exists
    #[arg(long)]
    pub again: bool,
}

/// How to sign in.
#[derive(Debug, Args)]
pub struct LoginFlags {
    /// Do not open a browser; print the URL and accept a pasted callback URL or code
    #[arg(long)]
    pub no_browser: bool,
    /// The local port of the OAuth redirect
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub callback_port: Option<u16>,
    /// OAuth scopes to request, instead of those of the entry or the server
    #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
    pub scopes: Vec<String>,
    /// Use the device flow: sign in with a code on another device
    #[arg(long)]
    pub device: bool,
}

impl LoginFlags {
    /// The options for the host.
    pub fn to_login_options(&self) -> LoginRequest {
        LoginRequest {
            port: self.callback_port,
            scopes: self.scopes.iter().filter(|it| !it.is_empty()).cloned().collect(),
            use_device_code: self.device,
        }
    }

    /// The prompt; fails if this login can never complete.
    pub fn login_prompt(
        &self,
        invocation: &Invocation,
        server: &str,
    ) -> Result<TerminalLoginPrompt, Failure> {
        let browser_mode = BrowserMode::detect(&invocation.env, self.no_browser);
        let login_prompt =
            TerminalLoginPrompt::new(invocation.prompt.clone(), browser_mode, server);
        match login_prompt.cannot_complete() && !self.device {
            false => Ok(login_prompt),
            true => {
                let failure =
                    Failure::new(Exit::LoginRequired, &format!("cannot sign in to {server} here"));
                let causes = vec!["no browser can be opened, and there is no terminal".to_owned()];
                let hint = "run it at a terminal, or with `--device`; `oauth.grant` in its entry signs in without a user";
                Err(Failure { causes, ..failure }.hint(hint))
            }
        }
    }
}

/// Runs the command.
pub fn run(arguments: &LoginArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let Some(name) = &arguments.name else {
        return account::sign_in(&arguments.flags, arguments.again, invocation);
    };
    let configuration = invocation.load()?;
    let server = servers::startable_server(invocation, &configuration, name)?;
    login::forget_auth_required(invocation, server);
    let (done, outcome) = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        let view = servers::connect_one(invocation, host, &configuration, name).await;
        if let Some(failure) = login_elsewhere(server, &view) {
            return Err(failure);
        }
        let login = match host.stored_login(name).await {
            Ok(login) => login,
            Err(error) => return Err(not_for_logins(server, &error)),
        };
        match next_step(arguments, &configuration, &view, login.as_ref())? {
            NextStep::AlreadySignedIn(login) => {
                Ok((show(invocation, &view, login, LoginOrigin::Existing), LoginOrigin::Existing))
            }
            NextStep::SignIn => {
                let login = sign_in(&arguments.flags, name, invocation, host).await?;
                let reconnected = reconnected_view(invocation, host, &view).await;
                Ok((show(invocation, &reconnected, &login, LoginOrigin::New), LoginOrigin::New))
            }
        }
    })?;
    if outcome == LoginOrigin::New {
        login::notify_running(invocation, name);
    }
    Ok(done)
}

/// Did the login exist before?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoginOrigin {
    New,
    Existing,
}

enum NextStep<'l> {
    /// A valid login exists.
    AlreadySignedIn(&'l LoginView),
    SignIn,
}

fn not_for_logins(server: &ResolvedServer, error: &ServerLoginError) -> Failure {
    let name = printable(&server.name);
    let failure = login_text::login_failure(&format!("`{name}`"), error);
    let has_headers = server.spec.as_ref().is_some_and(|spec| spec.transport.url().is_some());
    match (error, has_headers) {
        (ServerLoginError::Unsupported(_, _), true) => failure.hint(&format!(
            "to sign in, remove `Authorization` from its `headers`: `swb get {name}` shows them"
        )),
        (ServerLoginError::Unsupported(_, _), false) => {
            failure.hint(&format!("`swb ping {name}` shows whether it responds"))
        }
        (_, _) => failure,
    }
}

/// The failure for a server whose login is not here: its session is shared with other servers, or it is a connector whose
/// login is in the connector account.
fn login_elsewhere(server: &ResolvedServer, view: &ServerView) -> Option<Failure> {
    let name = printable(&view.name);
    match &view.status {
        Status::SessionRefused(_) => Some(connection_text::not_connected(view)),
        Status::NeedsAuth(cause)
            if matches!(cause.kind, FailureKind::ConnectorLoginRequired { .. }) =>
        {
            let message = format!("`{name}` is signed in to at your connector account");
            let failure = Failure::new(Exit::LoginRequired, &message);
            Some(failure.hint(&printable(&cause.remedy(&view.name))))
        }
        Status::Connected if server.scope() == Scope::Connectors => {
            let message = format!(
                "`{name}` needs no login of its own: it answers to that of your connector account"
            );
            Some(Failure::new(Exit::Usage, &message).hint("`swb login --account --again`"))
        }
        Status::Connected
        | Status::NeedsAuth(_)
        | Status::Failed(_)
        | Status::Pending { .. }
        | Status::Disabled => None,
    }
}

fn next_step<'l>(
    arguments: &LoginArgs,
    configuration: &Configuration,
    view: &ServerView,
    login: Option<&'l LoginView>,
) -> Result<NextStep<'l>, Failure> {
    let spec = configuration.effective.winner(&view.name).and_then(|it| it.spec.as_ref());
    match &view.status {
        Status::Connected => match login {
            Some(login) if !arguments.again && covers_scopes(login, &arguments.flags.scopes) => {
                Ok(NextStep::AlreadySignedIn(login))
            }
            None if !arguments.again => Err(login_not_needed(view)),
            Some(_) | None => interactive_login(spec, view),
        },
        Status::NeedsAuth(_) => interactive_login(spec, view),
        Status::Failed(cause) if cause.kind == FailureKind::Forbidden => {
            interactive_login(spec, view)
        }
        Status::Failed(_)
        | Status::SessionRefused(_)
        | Status::Pending { .. }
        | Status::Disabled => Err(connection_text::not_connected(view)),
    }
}

fn covers_scopes(login: &LoginView, scopes: &[String]) -> bool {
    login.is_valid && scopes.iter().all(|it| login.scopes.contains(it))
}

fn login_not_needed(view: &ServerView) -> Failure {
    let name = printable(&view.name);
    Failure::new(Exit::Usage, &format!("`{name}` needs no login: it answers without one"))
        .hint(&format!("`swb login {name} --again` signs in anyway"))
}

/// Fails for logins without a user: they were already tried when the server was connected.
fn interactive_login<'l>(
    spec: Option<&ServerSpec>,
    view: &ServerView,
) -> Result<NextStep<'l>, Failure> {
    let oauth = spec.and_then(|it| it.transport.oauth());
    let failure = || connection_text::not_connected(view);
    match oauth {
        Some(oauth) if oauth.xaa => Err(match view.status {
            Status::Connected => automatic_login(view),
            Status::NeedsAuth(_)
            | Status::SessionRefused(_)
            | Status::Failed(_)
            | Status::Pending { .. }
            | Status::Disabled => {
                failure().hint("`swb idp login` signs in at its identity provider")
            }
        }),
        Some(oauth) if oauth.grant != OAuthGrant::AuthorizationCode => Err(match view.status {
            Status::Connected => automatic_login(view),
            Status::NeedsAuth(_)
            | Status::SessionRefused(_)
            | Status::Failed(_)
            | Status::Pending { .. }
            | Status::Disabled => failure().hint(&format!(
                "its entry signs in without a user; fix its `oauth`: `swb get {}` shows it",
                printable(&view.name)
            )),
        }),
        Some(_) | None => Ok(NextStep::SignIn),
    }
}

fn automatic_login(view: &ServerView) -> Failure {
    let name = printable(&view.name);
    Failure::new(Exit::Usage, &format!("`{name}` signs in without a user"))
        .hint(&format!("`swb logout {name}` ends its login; the next connection signs in again"))
}

async fn sign_in(
    flags: &LoginFlags,
    name: &str,
    invocation: &Invocation,
    host: &Host,
) -> Result<LoginView, Failure> {
    let target = format!("`{}`", printable(name));
    let login_prompt = flags.login_prompt(invocation, &target)?;
    let request = flags.to_login_options();
    let signing_in = host.login(name, &login_prompt, &request);
    let login = login::with_waiting_note(signing_in, &login_prompt).await;
    login.map_err(|error| login_text::login_failure(&target, &error))
}

/// The server's state after it was connected with the new login.
async fn reconnected_view(
    invocation: &Invocation,
    host: &Host,
    before: &ServerView,
) -> Arc<ServerView> {
    let name = before.name.clone();
    let is_new = |view: &ServerView| {
        let is_same_cause = match (view.status.cause(), before.status.cause()) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            (None, None) => view.time_to_ready == before.time_to_ready,
            (Some(_), None) | (None, Some(_)) => false,
        };
        view.status.is_settled() && !is_same_cause
    };
    let deadline = Some(Instant::now() + RECONNECT_TIMEOUT);
    let snapshot = servers::wait_until_settled(invocation, host, deadline, |it| {
        it.servers.get(&name).is_some_and(|view| is_new(view))
    });
    snapshot.await.servers[&name].clone()
}

fn show(
    invocation: &Invocation,
    view: &ServerView,
    login: &LoginView,
    origin: LoginOrigin,
) -> CommandOutput {
    let is_connected = view.status == Status::Connected;
    let tools = view.catalogue.items(ListKind::Tools).len();
    let exit = (!is_connected).then(|| crate::output::connection_text::exit_code(&view.status));
    if invocation.wants_json() {
        let json = json!({
            "name": view.name,
            "signedIn": true,
            "isNew": origin == LoginOrigin::New,
            "login": login_text::as_json(login),
            "state": view.status.id(),
            "tools": is_connected.then_some(tools),
        });
        let done = json_output(&json);
        return match is_connected {
            true => done,
            false => done.failed(crate::output::connection_text::not_connected(view)),
        };
    }
    let name = printable(&view.name);
    let heading = match origin {
        LoginOrigin::New => format!("Signed in to `{name}`.\n"),
        LoginOrigin::Existing => {
            format!("Already signed in to `{name}`; `--again` signs in again.\n")
        }
    };
    let mut text = format!("{heading}{}", login_text::details_text(login));
    match is_connected {
        true => text.push_str(&format!("  it has {}\n", pluralize(tools, "tool", "tools"))),
        false => {
            return CommandOutput {
                exit,
                ..CommandOutput::text(text).note(crate::output::connection_text::problem_text(view))
            };
        }
    }
    CommandOutput::text(text)
}
