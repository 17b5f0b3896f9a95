//! `swb idp`: the login at the identity provider, which vouches at every server with `oauth.xaa`.

use clap::{Args, Subcommand};
use serde_json::json;
use switchboard::config::identity_provider::IdentityProvider;
use switchboard::config::shown::{self, printable};
use switchboard::connection::state::Persistence;
use switchboard::signing::LoginView;

use super::login::{self, Manner};
use crate::exit::Exit;
use crate::live;
use crate::login_text;
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// Arguments of `swb idp`.
#[derive(Debug, Args)]
pub struct IdpCommand {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What to do with the login at the identity provider.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Sign in at the identity provider
    Login {
        /// How to sign in
        #[command(flatten)]
        manner: Manner,
        /// Sign in anew, even where somebody is signed in
        #[arg(long)]
        again: bool,
    },
    /// Say who is signed in at the identity provider
    Status,
    /// Give the login at the identity provider back, and forget it
    Logout,
}

/// Runs the command.
pub fn run(arguments: &IdpCommand, session: &Session) -> Result<Done, Failure> {
    // Read for what it reports, too.
    session.load()?;
    let provider = session.backing().identity_provider.clone().ok_or_else(no_provider)?;
    match &arguments.what {
        What::Login { manner, again } => sign_in(session, &provider, manner, *again),
        What::Status => status(session, &provider),
        What::Logout => sign_out(session, &provider),
    }
}

fn no_provider() -> Failure {
    Failure::new(Exit::Configuration, "no identity provider is configured")
        .hint("put `identityProvider` with `issuer` and `clientId` into your settings")
}

fn whom(provider: &IdentityProvider) -> String {
    printable(&shown::url(&provider.issuer))
}

fn sign_in(
    session: &Session,
    provider: &IdentityProvider,
    manner: &Manner,
    again: bool,
) -> Result<Done, Failure> {
    let whom = whom(provider);
    live::run(session, Persistence::Once, async |host| {
        let failed = |error| login_text::failure(&whom, &error);
        let there = host.provider_login().await.map_err(failed)?;
        if let Some(login) = there.filter(|it| !again && login_text::standing(it) == "good") {
            let begin = format!("Already signed in at {whom}; `--again` signs in anew.\n");
            return Ok(show(session, &login, &begin));
        }
        let signpost = manner.signpost(session, &whom)?;
        let wish = manner.wish();
        let signing_in = host.login_at_provider(&signpost, &wish);
        let login = login::with_patience(signing_in, &signpost).await.map_err(failed)?;
        Ok(show(session, &login, &format!("Signed in at {whom}.\n")))
    })
}

fn show(session: &Session, login: &LoginView, begin: &str) -> Done {
    match session.wants_json() {
        true => super::json(&json!({"signedIn": true, "login": login_text::as_json(login)})),
        false => Done::text(format!("{begin}{}", login_text::lines(login))),
    }
}

fn status(session: &Session, provider: &IdentityProvider) -> Result<Done, Failure> {
    let whom = whom(provider);
    let login = live::run(session, Persistence::Once, async |host| {
        host.provider_login().await.map_err(|error| login_text::failure(&whom, &error))
    })?;
    match login {
        Some(login) => {
            let standing = login_text::standing(&login);
            Ok(show(session, &login, &format!("{whom}: {standing}\n")))
        }
        None if session.wants_json() => {
            let json = json!({"signedIn": false, "issuer": shown::url(&provider.issuer)});
            Ok(Done { exit: Some(Exit::Login), ..super::json(&json) })
        }
        None => Err(Failure::new(Exit::Login, &format!("nobody is signed in at {whom}"))
            .hint("`swb idp login`")),
    }
}

fn sign_out(session: &Session, provider: &IdentityProvider) -> Result<Done, Failure> {
    let whom = whom(provider);
    let outcome = live::run(session, Persistence::Once, async |host| {
        host.logout_at_provider().await.map_err(|error| login_text::failure(&whom, &error))
    })?;
    let done = login_text::logged_out(&whom, &outcome);
    match session.wants_json() {
        true => {
            let json = json!({"outcome": login_text::logged_out_id(&outcome)});
            Ok(Done { notes: done.notes, ..super::json(&json) })
        }
        false => Ok(done),
    }
}
