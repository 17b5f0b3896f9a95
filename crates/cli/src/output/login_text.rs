//! Logins and login failures as text and JSON. No token reaches this module.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use switchboard::auth::flow::runner::SignInError;
use switchboard::auth::token_provider::LoginError;
use switchboard::config::display;
use switchboard::config::display::printable;
use switchboard::login::{LoginView, LogoutOutcome, ServerLoginError};
use switchboard::utc_timestamp;

use crate::exit::Exit;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;

/// When a login's token expires.
pub fn expiry_text(login: &LoginView) -> String {
    let moment = match login.expires_at {
        None => return "no expiry given".to_owned(),
        Some(seconds) => utc_timestamp(UNIX_EPOCH + Duration::from_secs(seconds)),
    };
    match (login.is_renewable, is_expired(login)) {
        (true, _) => format!("until {moment}, renewed automatically"),
        (false, false) => format!("until {moment}"),
        (false, true) => format!("expired {moment}"),
    }
}

/// Has the token expired?
fn is_expired(login: &LoginView) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    login.expires_at.is_some_and(|it| it <= now)
}

/// The state of a login in one word.
pub fn validity(login: &LoginView) -> &'static str {
    match (login.is_valid, login.is_renewable || !is_expired(login)) {
        (true, true) => "good",
        (true, false) => "expired",
        (false, _) => "ended",
    }
}

/// The scopes of a login.
pub fn scopes_text(login: &LoginView) -> String {
    match login.scopes.is_empty() {
        true => "none".to_owned(),
        false => printable(&login.scopes.join(", ")),
    }
}

/// A login in a few indented lines.
pub fn details_text(login: &LoginView) -> String {
    let identity = login.identity.as_deref().map_or("unknown".to_owned(), printable);
    format!(
        "  issuer: {}\n  identity: {identity}\n  scopes: {}\n  token: {}\n",
        printable(&display::masked_url(&login.issuer)),
        scopes_text(login),
        expiry_text(login),
    )
}

/// A login as JSON.
pub fn as_json(login: &LoginView) -> Json {
    json!({
        "server": display::masked_url(&login.server),
        "clientId": login.client,
        "issuer": display::masked_url(&login.issuer),
        "identity": login.identity,
        "scopes": login.scopes,
        "expiresAt": login.expires_at.map(|it| utc_timestamp(UNIX_EPOCH + Duration::from_secs(it))),
        "renewable": login.is_renewable,
        "standing": validity(login),
    })
}

/// The output of a logout. `server` is already printable.
pub fn logout_output(server: &str, outcome: &LogoutOutcome) -> CommandOutput {
    match outcome {
        LogoutOutcome::NotLoggedIn => CommandOutput::text(format!("Not signed in to {server}.\n")),
        LogoutOutcome::Revoked => CommandOutput::text(format!(
            "Signed out of {server}: the login was revoked and deleted.\n"
        )),
        LogoutOutcome::RemovedLocally(error) => {
            let mut why = printable(&error.to_string());
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                why.push_str(&format!(": {}", printable(&cause.to_string())));
                source = cause.source();
            }
            CommandOutput::text(format!(
                "Signed out of {server}: the login was deleted here, but not revoked.\n"
            ))
            .note(format!("warning: {why}; the token stays valid until it expires\n"))
        }
    }
}

/// The outcome's name in JSON.
pub fn logout_outcome_id(outcome: &LogoutOutcome) -> &'static str {
    match outcome {
        LogoutOutcome::NotLoggedIn => "nothing",
        LogoutOutcome::Revoked => "revoked",
        LogoutOutcome::RemovedLocally(_) => "forgotten",
    }
}

/// The failure of a login, with a hint.
pub fn login_failure(server: &str, error: &ServerLoginError) -> Failure {
    let message = format!("not signed in to {server}");
    match error {
        ServerLoginError::UnknownServer(_) => Failure::new(Exit::NotFound, &error.to_string()),
        ServerLoginError::Unsupported(_, _) => Failure::new(Exit::Usage, &error.to_string()),
        ServerLoginError::Unavailable(cause) => {
            let failure = Failure::new(Exit::Configuration, &message);
            Failure { causes: vec![printable(&cause.to_string())], ..failure }
                .detail(connection_text::evidence_text(cause))
        }
        ServerLoginError::Listen(error) => Failure::new(Exit::Failure, &message)
            .caused_by(error)
            .hint("`--callback-port` selects another port, if the authorization server allows it"),
        ServerLoginError::Login(LoginError::SignIn(SignInError::UserUnavailable(_))) => {
            Failure::new(Exit::LoginRequired, &message).caused_by(LoginCancellation)
        }
        ServerLoginError::Login(error @ LoginError::SignIn(SignInError::Failed(_))) => {
            Failure::new(Exit::LoginRequired, &message).caused_by(error)
        }
        ServerLoginError::Login(error @ LoginError::Store(_)) => {
            Failure::new(Exit::Failure, &message).caused_by(error)
        }
        ServerLoginError::TokenStore(error) => {
            Failure::new(Exit::Failure, &message).caused_by(error)
        }
    }
}

/// The user cancelled the login.
#[derive(Debug)]
struct LoginCancellation;

impl std::fmt::Display for LoginCancellation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the login was cancelled")
    }
}

impl std::error::Error for LoginCancellation {}
