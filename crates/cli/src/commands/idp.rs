//! `swb idp`: the login at the identity provider, which vouches at every server with `oauth.xaa`.

use clap::{Args, Subcommand};
use serde_json::json;
use switchboard::config::display;
use switchboard::config::display::printable;
use switchboard::config::settings::identity_provider::IdentityProvider;
use switchboard::connection::state::RetryPolicy;
use switchboard::login::server_login::LoginView;

use super::login::LoginFlags;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::login_text;
use crate::runtime::host;
use crate::runtime::login;

/// Arguments of `swb idp`.
#[derive(Debug, Args)]
pub struct IdpArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: IdpAction,
}

/// What to do with the login at the identity provider.
#[derive(Debug, Subcommand)]
pub enum IdpAction {
    /// Sign in at the identity provider
    Login {
        /// How to sign in
        #[command(flatten)]
        flags: LoginFlags,
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
pub fn run(arguments: &IdpArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    // Read for what it reports, too.
    invocation.load()?;
    let provider = invocation.providers().identity_provider.clone().ok_or_else(no_provider)?;
    match &arguments.action {
        IdpAction::Login { flags: manner, again } => sign_in(invocation, &provider, manner, *again),
        IdpAction::Status => status(invocation, &provider),
        IdpAction::Logout => sign_out(invocation, &provider),
    }
}

fn no_provider() -> Failure {
    Failure::new(Exit::Configuration, "no identity provider is configured")
        .hint("put `identityProvider` with `issuer` and `clientId` into your settings")
}

fn issuer_text(provider: &IdentityProvider) -> String {
    printable(&display::masked_url(&provider.issuer))
}

fn sign_in(
    invocation: &Invocation,
    provider: &IdentityProvider,
    manner: &LoginFlags,
    again: bool,
) -> Result<CommandOutput, Failure> {
    let whom = issuer_text(provider);
    host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        let failed = |error| login_text::login_failure(&whom, &error);
        let there = host.identity_provider_login().await.map_err(failed)?;
        if let Some(login) = there.filter(|it| !again && login_text::validity(it) == "good") {
            let begin = format!("Already signed in at {whom}; `--again` signs in anew.\n");
            return Ok(show(invocation, &login, &begin));
        }
        let login_prompt = manner.login_prompt(invocation, &whom)?;
        let wish = manner.to_login_options();
        let signing_in = host.login_to_identity_provider(&login_prompt, &wish);
        let login = login::with_waiting_note(signing_in, &login_prompt).await.map_err(failed)?;
        Ok(show(invocation, &login, &format!("Signed in at {whom}.\n")))
    })
}

fn show(invocation: &Invocation, login: &LoginView, begin: &str) -> CommandOutput {
    match invocation.wants_json() {
        true => json_output(&json!({"signedIn": true, "login": login_text::as_json(login)})),
        false => CommandOutput::text(format!("{begin}{}", login_text::details_text(login))),
    }
}

fn status(invocation: &Invocation, provider: &IdentityProvider) -> Result<CommandOutput, Failure> {
    let whom = issuer_text(provider);
    let login = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        host.identity_provider_login()
            .await
            .map_err(|error| login_text::login_failure(&whom, &error))
    })?;
    match login {
        Some(login) => {
            let standing = login_text::validity(&login);
            Ok(show(invocation, &login, &format!("{whom}: {standing}\n")))
        }
        None if invocation.wants_json() => {
            let json = json!({"signedIn": false, "issuer": display::masked_url(&provider.issuer)});
            Ok(CommandOutput { exit: Some(Exit::LoginRequired), ..json_output(&json) })
        }
        None => Err(Failure::new(Exit::LoginRequired, &format!("nobody is signed in at {whom}"))
            .hint("`swb idp login`")),
    }
}

fn sign_out(
    invocation: &Invocation,
    provider: &IdentityProvider,
) -> Result<CommandOutput, Failure> {
    let whom = issuer_text(provider);
    let outcome = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        host.logout_from_identity_provider()
            .await
            .map_err(|error| login_text::login_failure(&whom, &error))
    })?;
    let done = login_text::logout_output(&whom, &outcome);
    match invocation.wants_json() {
        true => {
            let json = json!({"outcome": login_text::logout_outcome_id(&outcome)});
            Ok(CommandOutput { notes: done.notes, ..json_output(&json) })
        }
        false => Ok(done),
    }
}
