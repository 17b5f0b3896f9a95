//! `swb reconnect`: asks the running programs of ours that hold a server to connect to it anew.

use clap::Args;
use serde_json::json;
use switchboard::config::shown::printable;
use switchboard::memo::Memo;

use super::status;
use crate::control::{self, Answer};
use crate::exit::Exit;
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// Arguments of `swb reconnect`.
#[derive(Debug, Args)]
pub struct Reconnect {
    /// The server's name
    pub name: String,
}

/// Runs the command.
pub fn run(arguments: &Reconnect, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let name = &arguments.name;
    let server = status::ready(session, &configuration, name)?;
    // A wall that is remembered would keep the next start from asking.
    if let Some(fingerprint) = &server.fingerprint {
        let walls = session.machine.places.walls();
        Memo::new(&walls, std::time::Duration::MAX).forget(&format!("{name}/{fingerprint}"));
    }
    let answers = control::reconnect(&session.machine.places.running(), name).map_err(|error| {
        Failure::new(Exit::Failure, "running programs cannot be spoken to").because(error)
    })?;
    let count = |wanted: Answer| answers.iter().filter(|answer| **answer == wanted).count();
    let reconnected = count(Answer::Reconnecting);
    if session.wants_json() {
        return Ok(super::json(&json!({
            "name": name, "asked": answers.len(), "reconnecting": reconnected,
        })));
    }
    let name = printable(name);
    match reconnected {
        0 => Err(Failure::new(
            Exit::NotReady,
            &format!("nothing that runs holds `{name}`, so there is nothing to reconnect"),
        )
        .hint(&format!("`swb ping {name}` connects to it once"))),
        1 => Ok(Done::text(format!("`{name}` is being connected to anew.\n"))),
        more => {
            Ok(Done::text(format!("`{name}` is being connected to anew, in {more} programs.\n")))
        }
    }
}
