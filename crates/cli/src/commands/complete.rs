//! `swb complete`: values that a server offers for an argument of a prompt or of a resource template.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::{Map, Value as Json, json};
use switchboard::ask::Question;
use switchboard::config::shown::printable;
use switchboard::connection::state::Persistence;
use switchboard::connection::{Status, View};
use switchboard::wire::message::Payload;

use super::{ping, prompt, status};
use crate::exit::Exit;
use crate::live;
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// How long a server may take for it.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most values that are shown; the protocol's own limit is a hundred.
const MOST: usize = 1000;

/// Arguments of `swb complete`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("whose").required(true).args(["prompt", "template"])))]
pub struct Complete {
    /// The server's name
    pub server: String,
    /// An argument of this prompt
    #[arg(long, value_name = "NAME")]
    pub prompt: Option<String>,
    /// A variable of this resource template
    #[arg(long, value_name = "URI")]
    pub template: Option<String>,
    /// The argument's name
    pub argument: String,
    /// What is there of its value so far
    #[arg(default_value = "")]
    pub value: String,
    /// Another argument that already has a value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub context: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Runs the command.
pub fn run(arguments: &Complete, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    status::ready(session, &configuration, &arguments.server)?;
    let answer = live::run(session, Persistence::Once, async |host| {
        let view = status::connected_view(session, host, &configuration, &arguments.server).await;
        if view.status != Status::Connected {
            return Err(ping::not_connected(&view));
        }
        expect_completions(&view)?;
        if let Some(name) = &arguments.prompt {
            prompt::expect_prompt(&view, name)?;
        }
        let mut question = Question::harmless("completion/complete", PATIENCE);
        question.params = Some(Payload::from_json(params(arguments).to_string().into()));
        host.ask(&arguments.server, question).await.map_err(|error| prompt::failure(&error))
    })?;
    let answer: Json = answer.decode().unwrap_or_default();
    Ok(show(session, &answer["completion"]))
}

fn expect_completions(view: &View) -> Result<(), Failure> {
    let capabilities = view.introduction.as_ref().map(|it| &it.capabilities);
    if capabilities.is_some_and(|it| it.others.iter().any(|name| name == "completions")) {
        return Ok(());
    }
    let message = format!("`{}` completes nothing: it has no `completions` capability", view.name);
    Err(Failure::new(Exit::NotFound, &message))
}

fn params(arguments: &Complete) -> Json {
    let whose = match (&arguments.prompt, &arguments.template) {
        (Some(name), _) => json!({"type": "ref/prompt", "name": name}),
        (None, template) => json!({"type": "ref/resource", "uri": template}),
    };
    let argument = json!({"name": arguments.argument, "value": arguments.value});
    let mut params = json!({"ref": whose, "argument": argument});
    if !arguments.context.is_empty() {
        let pairs = arguments.context.iter();
        let known: Map<String, Json> =
            pairs.map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        params["context"] = json!({"arguments": known});
    }
    params
}

fn show(session: &Session, completion: &Json) -> Done {
    let values = completion["values"].as_array().into_iter().flatten();
    let values: Vec<&str> = values.filter_map(Json::as_str).take(MOST).collect();
    let total = completion["total"].as_u64();
    let has_more = completion["hasMore"] == true;
    if session.wants_json() {
        return super::json(&json!({"values": values, "total": total, "hasMore": has_more}));
    }
    let text: String = values.iter().map(|value| printable(value) + "\n").collect();
    let note = match (has_more, total) {
        (false, _) => String::new(),
        (true, Some(total)) => format!("note: there are {total} in all\n"),
        (true, None) => "note: there are more\n".to_owned(),
    };
    Done::text(text).note(note)
}
