//! Words and JSON for logins, and the failures of signing in. No token comes here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use switchboard::auth::keeper::LoginError;
use switchboard::auth::runner::SignInError;
use switchboard::config::shown::{self, printable};
use switchboard::logbook::stamp;
use switchboard::signing::{LoggedOut, LoginView, SigningError};

use crate::connected;
use crate::exit::Exit;
use crate::outcome::{Done, Failure};

/// When a login's token ends, for people.
pub fn until(login: &LoginView) -> String {
    let moment = match login.expires_at {
        None => return "it does not say until when".to_owned(),
        Some(seconds) => stamp(UNIX_EPOCH + Duration::from_secs(seconds)),
    };
    match (login.is_renewable, is_over(login)) {
        (true, _) => format!("until {moment}, renewed by itself"),
        (false, false) => format!("until {moment}"),
        (false, true) => format!("ended {moment}"),
    }
}

/// Has the token ended?
fn is_over(login: &LoginView) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    login.expires_at.is_some_and(|it| it <= now)
}

/// How good a login is, in one word.
pub fn standing(login: &LoginView) -> &'static str {
    match (login.is_good, login.is_renewable || !is_over(login)) {
        (true, true) => "good",
        (true, false) => "expired",
        (false, _) => "ended",
    }
}

/// The scopes, for people.
pub fn scopes(login: &LoginView) -> String {
    match login.scopes.is_empty() {
        true => "none named".to_owned(),
        false => printable(&login.scopes.join(", ")),
    }
}

/// A login in a few lines, indented.
pub fn lines(login: &LoginView) -> String {
    let who = login.identity.as_deref().map_or("not said".to_owned(), printable);
    format!(
        "  signed in by: {}\n  as: {who}\n  scopes: {}\n  token: {}\n",
        printable(&shown::url(&login.issuer)),
        scopes(login),
        until(login),
    )
}

/// A login, for programs.
pub fn as_json(login: &LoginView) -> Json {
    json!({
        "server": shown::url(&login.server),
        "clientId": login.client,
        "issuer": shown::url(&login.issuer),
        "identity": login.identity,
        "scopes": login.scopes,
        "expiresAt": login.expires_at.map(|it| stamp(UNIX_EPOCH + Duration::from_secs(it))),
        "renewable": login.is_renewable,
        "standing": standing(login),
    })
}

/// What became of a logout. `whom` is already fit to be shown.
pub fn logged_out(whom: &str, outcome: &LoggedOut) -> Done {
    match outcome {
        LoggedOut::Nothing => Done::text(format!("Nobody was signed in to {whom}.\n")),
        LoggedOut::Revoked => {
            Done::text(format!("Signed out of {whom}: the login was given back and forgotten.\n"))
        }
        LoggedOut::Forgotten(error) => {
            let mut why = printable(&error.to_string());
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                why.push_str(&format!(": {}", printable(&cause.to_string())));
                source = cause.source();
            }
            Done::text(format!("Signed out of {whom}: the login was forgotten.\n"))
                .note(format!("warning: {why}; the token stays good there until it ends\n"))
        }
    }
}

/// The word for it in JSON.
pub fn logged_out_id(outcome: &LoggedOut) -> &'static str {
    match outcome {
        LoggedOut::Nothing => "nothing",
        LoggedOut::Revoked => "revoked",
        LoggedOut::Forgotten(_) => "forgotten",
    }
}

/// Why nobody is signed in, and what to do about it.
pub fn failure(whom: &str, error: &SigningError) -> Failure {
    let message = format!("nobody is signed in to {whom}");
    match error {
        SigningError::NoServer(_) => Failure::new(Exit::NotFound, &error.to_string()),
        SigningError::NotForLogins(_, _) => Failure::new(Exit::Usage, &error.to_string()),
        SigningError::Unusable(cause) => {
            let failure = Failure::new(Exit::Configuration, &message);
            Failure { causes: vec![printable(&cause.to_string())], ..failure }
                .detail(connected::evidence(cause))
        }
        SigningError::Listen(error) => Failure::new(Exit::Failure, &message)
            .because(error)
            .hint("`--callback-port` takes another port, where the authorization server knows it"),
        SigningError::Login(LoginError::SignIn(SignInError::Gone(_))) => {
            Failure::new(Exit::Login, &message).because(Nobody)
        }
        SigningError::Login(error @ LoginError::SignIn(SignInError::Failed(_))) => {
            Failure::new(Exit::Login, &message).because(error)
        }
        SigningError::Login(error @ LoginError::Vault(_)) => {
            Failure::new(Exit::Failure, &message).because(error)
        }
        SigningError::Vault(error) => Failure::new(Exit::Failure, &message).because(error),
    }
}

/// Somebody left before they were signed in.
#[derive(Debug)]
struct Nobody;

impl std::fmt::Display for Nobody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("signing in was given up")
    }
}

impl std::error::Error for Nobody {}
