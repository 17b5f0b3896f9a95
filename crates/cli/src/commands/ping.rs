//! `swb ping`: connects to one server and measures how long it takes to answer.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use switchboard::ask::AskError;
use switchboard::config::shown::printable;
use switchboard::connection::state::Persistence;
use switchboard::connection::{Status, View};

use super::status;
use crate::connected;
use crate::exit::Exit;
use crate::live;
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `swb ping`.
#[derive(Debug, Args)]
pub struct Ping {
    /// The server's name
    pub name: String,
    /// How often
    #[arg(long, short = 'n', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
}

/// Runs the command.
pub fn run(arguments: &Ping, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    status::ready(session, &configuration, &arguments.name)?;
    live::run(session, Persistence::Once, async |host| {
        let view = status::connected_view(session, host, &configuration, &arguments.name).await;
        if view.status != Status::Connected {
            return Err(not_connected(&view));
        }
        let mut times = Vec::new();
        for _ in 0..arguments.count {
            let time = host.ping(&arguments.name, PATIENCE).await;
            times.push(time.map_err(|error| failure(&error))?);
        }
        Ok(show(session, &view, &times))
    })
}

/// The failure of a command that needs a server that is not connected.
pub(crate) fn not_connected(view: &View) -> Failure {
    let message = format!("could not connect to `{}`", view.name);
    let failure = Failure::new(connected::exit(&view.status), &message);
    match view.status.cause() {
        None => failure,
        Some(cause) => Failure { causes: vec![printable(&cause.to_string())], ..failure }
            .detail(connected::evidence(cause))
            .hint(&cause.remedy(&view.name)),
    }
}

fn failure(error: &AskError) -> Failure {
    Failure::new(Exit::Connection, "the server did not answer").because(error)
}

fn show(session: &Session, view: &View, times: &[Duration]) -> Done {
    let milliseconds = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    let introduction = view.introduction.as_ref();
    if session.wants_json() {
        return super::json(&json!({
            "name": view.name,
            "era": introduction.map(|it| it.era.id()),
            "protocolVersion": introduction.map(|it| it.version.clone()),
            "readyAfterMs": view.ready_after.map(milliseconds),
            "pingMs": times.iter().copied().map(milliseconds).collect::<Vec<_>>(),
        }));
    }
    let mut text = String::new();
    for time in times {
        text.push_str(&format!("{}: {} ms\n", printable(&view.name), milliseconds(*time)));
    }
    if let (Some(introduction), Some(ready)) = (introduction, view.ready_after) {
        text.push_str(&format!(
            "{} era, version {}; ready after {} ms\n",
            introduction.era,
            printable(&introduction.version),
            ready.as_millis()
        ));
    }
    Done::text(text)
}
