//! `swb idp`: the login at the identity provider, for servers with `oauth.xaa`.

use clap::{Args, Subcommand};
use serde_json::json;
use switchboard::config::display;
use switchboard::config::display::printable;
use switchboard::config::settings::identity_provider::IdentityProvider;
use switchboard::connection::RetryPolicy;
use switchboard::login::LoginView;

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
    /// The action.
    #[command(subcommand)]
    pub action: IdpAction,
}

/// Actions on the login at the identity provider.
#[derive(Debug, Subcommand)]
pub enum IdpAction {
    /// Sign in at the identity provider
    Login {
        /// How to sign in
        #[command(flatten)]
        flags: LoginFlags,
        /// Sign in again, even if a valid login exists
        #[arg(long)]
        again: bool,
    },
    /// Show who is signed in at the identity provider
    Status,
    /// Revoke and delete the login at the identity provider
    Logout,
}

/// Runs the command.
pub fn run(arguments: &IdpArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    // Also reports problems of the configuration.
    invocation.load()?;
    let provider = invocation.providers().identity_provider.clone().ok_or_else(no_provider)?;
    match &arguments.action {
        IdpAction::Login { flags, again } => sign_in(invocation, &provider, flags, *again),
        IdpAction::Status => status(invocation, &provider),
        IdpAction::Logout => sign_out(invocation, &provider),
    }
}

fn no_provider() -> Failure {
    Failure::new(Exit::Configuration, "no identity provider is configured")
        .hint("add `identityProvider` with `issuer` and `clientId` to your settings")
}

fn issuer_text(provider: &IdentityProvider) -> String {
    printable(&display::masked_url(&provider.issuer))
}

fn sign_in(
    invocation: &Invocation,
    provider: &IdentityProvider,
    flags: &LoginFlags,
    again: bool,
) -> Result<CommandOutput, Failure> {
    let issuer = issuer_text(provider);
    host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        let failed = |error| login_text::login_failure(&issuer, &error);
        let there = host.identity_provider_login().await.map_err(failed)?;
        if let Some(login) = there.filter(|it| !again && login_text::validity(it) == "good") {
            let heading = format!("Already signed in at {issuer}; `--again` signs in again.\n");
            return Ok(show(invocation, &login, &heading));
        }
        let login_prompt = flags.login_prompt(invocation, &issuer)?;
        let request = flags.to_login_options();
        let signing_in = host.login_to_identity_provider(&login_prompt, &request);
        let login = login::with_waiting_note(signing_in, &login_prompt).await.map_err(failed)?;
        Ok(show(invocation, &login, &format!("Signed in at {issuer}.\n")))
    })
}

fn show(invocation: &Invocation, login: &LoginView, heading: &str) -> CommandOutput {
    match invocation.wants_json() {
        true => json_output(&json!({"signedIn": true, "login": login_text::as_json(login)})),
        false => CommandOutput::text(format!("{heading}{}", login_text::details_text(login))),
    }
}

fn status(invocation: &Invocation, provider: &IdentityProvider) -> Result<CommandOutput, Failure> {
    let issuer = issuer_text(provider);
    let login = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        host.identity_provider_login()
            .await
            .map_err(|error| login_text::login_failure(&issuer, &error))
    })?;
    match login {
        Some(login) => {
            let standing = login_text::validity(&login);
            Ok(show(invocation, &login, &format!("{issuer}: {standing}\n")))
        }
        None => {
            let failure = Failure::new(Exit::LoginRequired, &format!("not signed in at {issuer}"))
                .hint("`swb idp login`");
            if !invocation.wants_json() {
                return Err(failure);
            }
            let json = json!({"signedIn": false, "issuer": display::masked_url(&provider.issuer)});
            Ok(json_output(&json).failed(failure))
        }
    }
}

fn sign_out(
    invocation: &Invocation,
    provider: &IdentityProvider,
) -> Result<CommandOutput, Failure> {
    let issuer = issuer_text(provider);
    let outcome = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        host.logout_from_identity_provider()
            .await
            .map_err(|error| login_text::login_failure(&issuer, &error))
    })?;
    let done = login_text::logout_output(&issuer, &outcome);
    match invocation.wants_json() {
        true => {
            let json = json!({"outcome": login_text::logout_outcome_id(&outcome)});
            Ok(CommandOutput { notes: done.notes, ..json_output(&json) })
        }
        false => Ok(done),
    }
}
