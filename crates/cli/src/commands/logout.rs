//! `swb logout`: gives a server's login back to who issued it, and forgets it.

use clap::Args;
use serde_json::json;
use switchboard::config::shown::printable;
use switchboard::connection::state::Persistence;
use switchboard::signing::LoggedOut;

use super::{login, status};
use crate::live;
use crate::login_text;
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// Arguments of `swb logout`.
#[derive(Debug, Args)]
pub struct Logout {
    /// The server's name
    pub name: String,
}

/// Runs the command. The server itself is not connected to.
pub fn run(arguments: &Logout, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let name = &arguments.name;
    status::ready(session, &configuration, name)?;
    let whom = format!("`{}`", printable(name));
    let wanted = live::chosen(&configuration, std::slice::from_ref(name));
    let wanted = wanted.first().ok_or_else(|| session.not_found(&configuration, name))?;
    let outcome = live::run(session, Persistence::Once, async |host| {
        host.forget_login(wanted).await.map_err(|error| login_text::failure(&whom, &error))
    })?;
    if !matches!(outcome, LoggedOut::Nothing) {
        login::tell_others(session, name);
    }
    Ok(shown(session, &whom, name, &outcome))
}

fn shown(session: &Session, whom: &str, name: &str, outcome: &LoggedOut) -> Done {
    match session.wants_json() {
        true => {
            let told = login_text::logged_out_id(outcome);
            let json = json!({"name": name, "outcome": told});
            Done { notes: login_text::logged_out(whom, outcome).notes, ..super::json(&json) }
        }
        false => login_text::logged_out(whom, outcome),
    }
}
