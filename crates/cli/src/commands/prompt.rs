//! `swb prompt`: what a server's prompt says, with its arguments put in.

use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::ask::{AskError, Question};
use switchboard::catalogue::List;
use switchboard::config::shown::printable;
use switchboard::connection::state::Persistence;
use switchboard::connection::{Status, View};
use switchboard::wire::message::Payload;

use super::{ping, status};
use crate::exit::Exit;
use crate::given;
use crate::live;
use crate::outcome::{Done, Failure};
use crate::session::Session;
use crate::style::{Meaning, paint};

/// How long a server may take for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Arguments of `swb prompt`.
#[derive(Debug, Args)]
pub struct Prompt {
    /// The server's name
    pub server: String,
    /// The prompt's name
    pub prompt: String,
    /// Its arguments: key=value, key=@file, one JSON object, or - for standard input
    pub arguments: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &Prompt, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    status::ready(session, &configuration, &arguments.server)?;
    let given = given::arguments(&arguments.arguments, &session.machine.working_folder)?;
    let answer = live::run(session, Persistence::Once, async |host| {
        let view = status::connected_view(session, host, &configuration, &arguments.server).await;
        if view.status != Status::Connected {
            return Err(ping::not_connected(&view));
        }
        expect_prompt(&view, &arguments.prompt)?;
        let params = json!({"name": arguments.prompt, "arguments": given});
        let mut question = Question::harmless("prompts/get", PATIENCE);
        question.params = Some(Payload::from_json(params.to_string().into()));
        host.ask(&arguments.server, question).await.map_err(|error| failure(&error))
    })?;
    let answer: Json = answer.decode().unwrap_or_default();
    if session.wants_json() {
        return Ok(super::json(&answer));
    }
    let messages = answer["messages"].as_array().into_iter().flatten();
    Ok(Done::text(messages.map(message).collect::<Vec<_>>().join("\n")))
}

/// The nearest name is better than the server's own error.
pub(super) fn expect_prompt(view: &View, name: &str) -> Result<(), Failure> {
    let prompts = view.catalogue.items(List::Prompts);
    if prompts.iter().any(|prompt| prompt.name == name) {
        return Ok(());
    }
    let message = format!("`{}` has no prompt `{name}`", view.name);
    let names = prompts.iter().map(|prompt| prompt.name.as_str());
    let failure = Failure::new(Exit::NotFound, &message);
    Err(match switchboard::config::decode::nearest(name, names) {
        Some(nearest) => failure.hint(&format!("did you mean `{nearest}`?")),
        None => failure.hint(&format!("`swb prompts {}` lists what it has", view.name)),
    })
}

/// The failure of a question that got no answer.
pub(crate) fn failure(error: &AskError) -> Failure {
    Failure::new(Exit::Connection, "the server did not do it").because(error)
}

fn message(message: &Json) -> String {
    let role = paint(Meaning::Faint, printable(message["role"].as_str().unwrap_or("?")));
    let content = &message["content"];
    let text = match content["type"].as_str() {
        Some("text") => content["text"].as_str().unwrap_or_default().to_owned(),
        Some("resource") => content["resource"]["text"]
            .as_str()
            .map_or_else(|| format!("[{}]", content["resource"]["uri"]), str::to_owned),
        Some(other) => format!("[{other}]"),
        None => String::new(),
    };
    let lines: String = text.lines().map(|line| printable(line) + "\n").collect();
    format!("{role}:\n{lines}")
}
