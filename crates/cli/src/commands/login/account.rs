//! `swb login --account` and `swb logout --account`: the login at the account whose connectors are used.

use std::time::Duration;

use serde_json::json;
use switchboard::Host;
use switchboard::config::display;
use switchboard::config::display::{pluralize, printable};
use switchboard::login::{ConnectorsError, LoginView, ServerLoginError};
use switchboard::sources::ConnectorList;

use super::LoginFlags;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::login_text;
use crate::runtime::host;
use crate::runtime::login;

/// How long the list of connectors may take. The user waits for it.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// How the account is called in messages.
const ACCOUNT: &str = "your connector account";

/// Signs in, unless the account accepts the login that is stored, and lists the connectors.
pub fn sign_in(
    flags: &LoginFlags,
    again: bool,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    expect_login(invocation)?;
    let (view, list, is_new) = host::with_host_alone(invocation, async |host: &Host| {
        let failed = |error: ServerLoginError| login_text::login_failure(ACCOUNT, &error);
        let before = host.refresh_connectors(LIST_TIMEOUT).await;
        let stored = host.account_login().await.map_err(failed)?;
        let covers_scopes = |it: &LoginView| flags.scopes.iter().all(|one| it.scopes.contains(one));
        match (before, stored) {
            (Ok(list), Some(view)) if !again && covers_scopes(&view) => {
                return Ok((view, list, false));
            }
            (Ok(_) | Err(ConnectorsError::NotSignedIn | ConnectorsError::TokenRefused), _) => {}
            (Err(error), _) => return Err(not_reached(&error)),
        }
        let login_prompt = flags.login_prompt(invocation, ACCOUNT)?;
        let request = flags.to_login_options();
        let signing_in = host.login_to_account(&login_prompt, &request);
        let view = login::with_waiting_note(signing_in, &login_prompt).await.map_err(failed)?;
        let list =
            host.refresh_connectors(LIST_TIMEOUT).await.map_err(|error| not_reached(&error))?;
        Ok((view, list, true))
    })?;
    if is_new {
        list.connectors.iter().for_each(|it| login::notify_running(invocation, &it.name));
    }
    Ok(show(invocation, &view, &list, is_new))
}

/// Revokes and deletes the login, and forgets the connectors.
pub fn sign_out(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    expect_login(invocation)?;
    let outcome = host::with_host_alone(invocation, async |host: &Host| {
        host.logout_from_account().await.map_err(|error| login_text::login_failure(ACCOUNT, &error))
    })?;
    let done = login_text::logout_output(ACCOUNT, &outcome);
    Ok(match invocation.wants_json() {
        true => {
            let json = json!({"account": true, "outcome": login_text::logout_outcome_id(&outcome)});
            CommandOutput { notes: done.notes, ..json_output(&json) }
        }
        false => done,
    })
}

/// Fails without an account, and with one whose token the settings name.
fn expect_login(invocation: &Invocation) -> Result<(), Failure> {
    // Also reports problems of the configuration.
    invocation.load()?;
    let Some(account) = &invocation.providers().account else {
        let failure = Failure::new(Exit::Configuration, "no connector account is configured");
        return Err(failure.hint("add `connectorAccount` with `apiUrl` to your settings"));
    };
    let summary = invocation.providers().connectors.as_ref();
    if let Some(origin) = summary.and_then(|it| it.disabled_by.as_ref()) {
        let failure = Failure::new(Exit::Usage, "connectors are disabled");
        let place = invocation.display_origin(origin);
        return Err(Failure { causes: vec![printable(&format!("by {place}"))], ..failure });
    }
    match &account.token {
        None => Ok(()),
        Some(_) => {
            let place = printable(&invocation.display_origin(&account.origin));
            let message = "the settings name the token of your connector account";
            let failure = Failure::new(Exit::Usage, message);
            Err(failure.hint(&format!("to sign in, remove `connectorAccount.token` ({place})")))
        }
    }
}

fn not_reached(error: &ConnectorsError) -> Failure {
    let failure = Failure::new(Exit::Connection, &format!("{ACCOUNT} cannot be used"));
    failure
        .caused_by(error)
        .hint("check `connectorAccount.apiUrl` in your settings, and your network")
}

fn show(
    invocation: &Invocation,
    view: &LoginView,
    list: &ConnectorList,
    is_new: bool,
) -> CommandOutput {
    if invocation.wants_json() {
        let names: Vec<&str> = list.connectors.iter().map(|it| it.name.as_str()).collect();
        return json_output(&json!({
            "account": display::masked_url(&view.server),
            "signedIn": true,
            "isNew": is_new,
            "login": login_text::as_json(view),
            "connectors": names,
            "skipped": list.skipped,
        }));
    }
    let heading = match is_new {
        true => format!("Signed in to {ACCOUNT}.\n"),
        false => format!("Already signed in to {ACCOUNT}; `--again` signs in again.\n"),
    };
    let count = pluralize(list.connectors.len(), "connector", "connectors");
    let details = login_text::details_text(view);
    CommandOutput::text(format!(
        "{heading}{details}  it has {count}: swb list --scope connectors\n"
    ))
}
