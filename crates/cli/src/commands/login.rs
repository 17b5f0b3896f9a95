//! `swb login`: signs somebody in to one server, and says who is signed in where, for what and until when.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use switchboard::catalogue::List;
use switchboard::cause::CauseKind;
use switchboard::config::cascade::Server;
use switchboard::config::entry::{OAuthGrant, ServerSpec};
use switchboard::config::shown::printable;
use switchboard::connection::state::Persistence;
use switchboard::connection::{Status, View};
use switchboard::engine::Host;
use switchboard::load::Configuration;
use switchboard::memo::Memo;
use switchboard::signing::{LoginView, LoginWish, SigningError};
use tokio::time::Instant;

use super::{ping, status};
use crate::control;
use crate::describe;
use crate::exit::Exit;
use crate::live;
use crate::login_text;
use crate::outcome::{Done, Failure};
use crate::report;
use crate::session::Session;
use crate::signpost::{Showing, Signpost};

/// How long nothing is shown before somebody is told what is waited for.
const QUIET: Duration = Duration::from_secs(2);
/// How long the connection may take that shows whether the login is any good.
const PROOF: Duration = Duration::from_secs(60);

/// Arguments of `swb login`.
#[derive(Debug, Args)]
pub struct Login {
    /// The server's name
    pub name: String,
    /// How to sign in
    #[command(flatten)]
    pub manner: Manner,
    /// Sign in anew, even where somebody is signed in
    #[arg(long)]
    pub again: bool,
}

/// How to sign in.
#[derive(Debug, Args)]
pub struct Manner {
    /// Open no browser; show the address, and take what is pasted
    #[arg(long)]
    pub no_browser: bool,
    /// The port of this machine that the browser comes back to
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub callback_port: Option<u16>,
    /// Scopes to ask for, instead of those that the entry or the server names
    #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
    pub scopes: Vec<String>,
    /// Sign in with a code on another device, where the server offers that
    #[arg(long)]
    pub device: bool,
}

impl Manner {
    /// The same for the host.
    pub fn wish(&self) -> LoginWish {
        LoginWish {
            port: self.callback_port,
            scopes: self.scopes.iter().filter(|it| !it.is_empty()).cloned().collect(),
            on_another_device: self.device,
        }
    }

    /// Somebody to show the way; fails where nobody could ever come back.
    pub fn signpost(&self, session: &Session, whom: &str) -> Result<Signpost, Failure> {
        let showing = Showing::of(&session.machine, self.no_browser);
        let signpost = Signpost::new(session, showing, whom);
        match signpost.is_in_vain() && !self.device {
            false => Ok(signpost),
            true => {
                let failure =
                    Failure::new(Exit::Login, &format!("nobody can sign in to {whom} here"));
                let causes =
                    vec!["no browser can be opened, and nobody is at a terminal".to_owned()];
                let hint = "run it at a terminal, or with `--device`; `oauth.grant` in its entry signs in without anybody";
                Err(Failure { causes, ..failure }.hint(hint))
            }
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Login, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let name = &arguments.name;
    let server = status::ready(session, &configuration, name)?;
    forget_wall(session, server);
    let (done, outcome) = live::run(session, Persistence::Once, async |host| {
        let view = status::connected_view(session, host, &configuration, name).await;
        let login = match host.login_at(name).await {
            Ok(login) => login,
            Err(error) => return Err(not_for_logins(server, &error)),
        };
        match what_to_do(arguments, &configuration, &view, login.as_ref())? {
            Todo::Nothing(login) => Ok((show(session, &view, login, Novelty::Old), Novelty::Old)),
            Todo::SignIn => {
                let login = signed_in(arguments, session, host).await?;
                let proven = proof(session, host, &view).await;
                Ok((show(session, &proven, &login, Novelty::New), Novelty::New))
            }
        }
    })?;
    if outcome == Novelty::New {
        tell_others(session, name);
    }
    Ok(done)
}

/// Was the login there before?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Novelty {
    New,
    Old,
}

enum Todo<'l> {
    /// Somebody is signed in.
    Nothing(&'l LoginView),
    SignIn,
}

/// A wall that is remembered would keep us from asking what the server wants.
pub(crate) fn forget_wall(session: &Session, server: &Server) {
    if let Some(fingerprint) = &server.fingerprint {
        let walls = session.machine.places.walls();
        Memo::new(&walls, Duration::MAX).forget(&format!("{}/{fingerprint}", server.name));
    }
}

/// Programs of ours that run learn of it at once. Where they cannot be told, they find out by themselves.
pub(crate) fn tell_others(session: &Session, name: &str) {
    let _they_find_out = control::reconnect(&session.machine.places.running(), name);
}

fn not_for_logins(server: &Server, error: &SigningError) -> Failure {
    let name = printable(&server.name);
    let failure = login_text::failure(&format!("`{name}`"), error);
    let has_headers = server.spec.as_ref().is_some_and(|spec| spec.transport.url().is_some());
    match (error, has_headers) {
        (SigningError::NotForLogins(_, _), true) => failure.hint(&format!(
            "to sign in, take `Authorization` out of its `headers`: `swb get {name}` shows them"
        )),
        (SigningError::NotForLogins(_, _), false) => {
            failure.hint(&format!("`swb ping {name}` shows whether it answers"))
        }
        (_, _) => failure,
    }
}

fn what_to_do<'l>(
    arguments: &Login,
    configuration: &Configuration,
    view: &View,
    login: Option<&'l LoginView>,
) -> Result<Todo<'l>, Failure> {
    let spec = configuration.effective.winner(&arguments.name).and_then(|it| it.spec.as_ref());
    match &view.status {
        Status::Connected => match login {
            Some(login) if !arguments.again && is_enough(login, &arguments.manner.scopes) => {
                Ok(Todo::Nothing(login))
            }
            None if !arguments.again => Err(needs_none(view)),
            Some(_) | None => needs_somebody(spec, view),
        },
        Status::NeedsAuth(_) => needs_somebody(spec, view),
        Status::Failed(cause) if cause.kind == CauseKind::Forbidden => needs_somebody(spec, view),
        Status::Failed(_) | Status::Pending { .. } | Status::Disabled => {
            Err(ping::not_connected(view))
        }
    }
}

fn is_enough(login: &LoginView, wanted: &[String]) -> bool {
    login.is_good && wanted.iter().all(|it| login.scopes.contains(it))
}

fn needs_none(view: &View) -> Failure {
    let name = printable(&view.name);
    Failure::new(Exit::Usage, &format!("`{name}` wants no login: it answers without one"))
        .hint(&format!("`swb login {name} --again` signs in nevertheless"))
}

/// A login that needs nobody was tried already, when we connected.
fn needs_somebody<'l>(spec: Option<&ServerSpec>, view: &View) -> Result<Todo<'l>, Failure> {
    let oauth = spec.and_then(|it| it.transport.oauth());
    let failure = || ping::not_connected(view);
    match oauth {
        Some(oauth) if oauth.xaa => Err(match view.status {
            Status::Connected => unattended(view),
            Status::NeedsAuth(_)
            | Status::Failed(_)
            | Status::Pending { .. }
            | Status::Disabled => {
                failure().hint("`swb idp login` signs in where its logins come from")
            }
        }),
        Some(oauth) if oauth.grant != OAuthGrant::Person => Err(match view.status {
            Status::Connected => unattended(view),
            Status::NeedsAuth(_)
            | Status::Failed(_)
            | Status::Pending { .. }
            | Status::Disabled => failure().hint(&format!(
                "its entry signs in without anybody; mend its `oauth`: `swb get {}` shows it",
                printable(&view.name)
            )),
        }),
        Some(_) | None => Ok(Todo::SignIn),
    }
}

fn unattended(view: &View) -> Failure {
    let name = printable(&view.name);
    Failure::new(Exit::Usage, &format!("`{name}` is signed in to without anybody"))
        .hint(&format!("`swb logout {name}` ends its login; the next connection signs in anew"))
}

async fn signed_in(
    arguments: &Login,
    session: &Session,
    host: &Host,
) -> Result<LoginView, Failure> {
    let whom = format!("`{}`", printable(&arguments.name));
    let signpost = arguments.manner.signpost(session, &whom)?;
    let wish = arguments.manner.wish();
    let signing_in = host.login(&arguments.name, &signpost, &wish);
    let login = with_patience(signing_in, &signpost).await;
    login.map_err(|error| login_text::failure(&whom, &error))
}

/// Waits, and says so where nothing was shown for a while: another program may be at it.
pub(super) async fn with_patience<T>(waiting: impl Future<Output = T>, signpost: &Signpost) -> T {
    tokio::pin!(waiting);
    tokio::select! {
        outcome = &mut waiting => return outcome,
        () = tokio::time::sleep(QUIET) => {}
    }
    if !signpost.has_begun() {
        report::aside(
            "Waiting for the authorization server, or for another program that is signing in.\n",
        );
    }
    waiting.await
}

/// The server once it was connected to with the new login.
async fn proof(session: &Session, host: &Host, before: &View) -> Arc<View> {
    let name = before.name.clone();
    let is_new = |view: &View| {
        let is_same_cause = match (view.status.cause(), before.status.cause()) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            (None, None) => view.ready_after == before.ready_after,
            (Some(_), None) | (None, Some(_)) => false,
        };
        view.status.is_settled() && !is_same_cause
    };
    let deadline = Some(Instant::now() + PROOF);
    let snapshot = live::settle(session, host, deadline, |it| {
        it.servers.get(&name).is_some_and(|view| is_new(view))
    });
    snapshot.await.servers[&name].clone()
}

fn show(session: &Session, view: &View, login: &LoginView, novelty: Novelty) -> Done {
    let is_connected = view.status == Status::Connected;
    let tools = view.catalogue.items(List::Tools).len();
    let exit = (!is_connected).then(|| crate::connected::exit(&view.status));
    if session.wants_json() {
        let json = json!({
            "name": view.name,
            "signedIn": true,
            "isNew": novelty == Novelty::New,
            "login": login_text::as_json(login),
            "state": view.status.id(),
            "tools": is_connected.then_some(tools),
        });
        return Done { exit, ..super::json(&json) };
    }
    let name = printable(&view.name);
    let begin = match novelty {
        Novelty::New => format!("Signed in to `{name}`.\n"),
        Novelty::Old => format!("Already signed in to `{name}`; `--again` signs in anew.\n"),
    };
    let mut text = format!("{begin}{}", login_text::lines(login));
    match is_connected {
        true => text.push_str(&format!("  it has {}\n", describe::counted(tools, "tool", "tools"))),
        false => return Done { exit, ..Done::text(text).note(crate::connected::trouble(view)) },
    }
    Done::text(text)
}
