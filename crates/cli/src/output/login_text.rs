//! Words and JSON for logins, and the failures of signing in. No token comes here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use switchboard::auth::flow::runner::SignInError;
use switchboard::auth::token_provider::LoginError;
use switchboard::config::display;
use switchboard::config::display::printable;
use switchboard::login::server_login::{LoginView, LogoutOutcome, ServerLoginError};
use switchboard::storage::stderr_log::utc_timestamp;

use crate::exit::Exit;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;

/// When a login's token ends, for people.
pub fn expiry_text(login: &LoginView) -> String {
    let moment = match login.expires_at {
        None => return "it does not say until when".to_owned(),
        Some(seconds) => utc_timestamp(UNIX_EPOCH + Duration::from_secs(seconds)),
    };
    match (login.is_renewable, is_expired(login)) {
        (true, _) => format!("until {moment}, renewed by itself"),
        (false, false) => format!("until {moment}"),
        (false, true) => format!("ended {moment}"),
    }
}

/// Has the token ended?
fn is_expired(login: &LoginView) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    login.expires_at.is_some_and(|it| it <= now)
}

/// How good a login is, in one word.
pub fn validity(login: &LoginView) -> &'static str {
    match (login.is_valid, login.is_renewable || !is_expired(login)) {
        (true, true) => "good",
        (true, false) => "expired",
        (false, _) => "ended",
    }
}

/// The scopes, for people.
pub fn scopes_text(login: &LoginView) -> String {
    match login.scopes.is_empty() {
        true => "none named".to_owned(),
        false => printable(&login.scopes.join(", ")),
    }
}

/// A login in a few lines, indented.
pub fn details_text(login: &LoginView) -> String {
    let who = login.identity.as_deref().map_or("not said".to_owned(), printable);
    format!(
        "  signed in by: {}\n  as: {who}\n  scopes: {}\n  token: {}\n",
        printable(&display::masked_url(&login.issuer)),
        scopes_text(login),
        expiry_text(login),
    )
}

/// A login, for programs.
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

/// What became of a logout. `whom` is already fit to be shown.
pub fn logout_output(whom: &str, outcome: &LogoutOutcome) -> CommandOutput {
    match outcome {
        LogoutOutcome::NotLoggedIn => {
            CommandOutput::text(format!("Nobody was signed in to {whom}.\n"))
        }
        LogoutOutcome::Revoked => CommandOutput::text(format!(
            "Signed out of {whom}: the login was given back and forgotten.\n"
        )),
        LogoutOutcome::RemovedLocally(error) => {
            let mut why = printable(&error.to_string());
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                why.push_str(&format!(": {}", printable(&cause.to_string())));
                source = cause.source();
            }
            CommandOutput::text(format!("Signed out of {whom}: the login was forgotten.\n"))
                .note(format!("warning: {why}; the token stays good there until it ends\n"))
        }
    }
}

/// The word for it in JSON.
pub fn logout_outcome_id(outcome: &LogoutOutcome) -> &'static str {
    match outcome {
        LogoutOutcome::NotLoggedIn => "nothing",
        LogoutOutcome::Revoked => "revoked",
        LogoutOutcome::RemovedLocally(_) => "forgotten",
    }
}

/// Why nobody is signed in, and what to do about it.
pub fn login_failure(whom: &str, error: &ServerLoginError) -> Failure {
    let message = format!("nobody is signed in to {whom}");
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
            .hint("`--callback-port` takes another port, where the authorization server knows it"),
        ServerLoginError::Login(LoginError::SignIn(SignInError::UserUnavailable(_))) => {
            Failure::new(Exit::LoginRequired, &message).caused_by(LoginAbandoned)
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

/// Somebody left before they were signed in.
#[derive(Debug)]
struct LoginAbandoned;

impl std::fmt::Display for LoginAbandoned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("signing in was given up")
    }
}

impl std::error::Error for LoginAbandoned {}
