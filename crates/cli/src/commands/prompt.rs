//! `swb prompt`: prints a prompt of a server, with its arguments filled in.

use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::catalogue::fetch::ListKind;
use switchboard::config::display::printable;
use switchboard::connection::state::RetryPolicy;
use switchboard::connection::{ServerView, Status};
use switchboard::request::send::ServerRequest;
use switchboard::wire::jsonrpc::message::Payload;

use crate::call_args;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::json::json_output;
use crate::output::style::{TextStyle, paint};
use crate::output::tool_output;
use crate::runtime::host;
use crate::runtime::servers;

/// The timeout of the request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Arguments of `swb prompt`.
#[derive(Debug, Args)]
pub struct PromptArgs {
    /// The server's name
    pub server: String,
    /// The prompt's name
    pub prompt: String,
    /// Arguments: key=value, key=@file, one JSON object, or - for standard input
    pub arguments: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &PromptArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    servers::startable_server(invocation, &configuration, &arguments.server)?;
    let call_arguments = call_args::parse(&arguments.arguments, &invocation.env.working_folder)?;
    let response = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        let view = servers::connect_one(invocation, host, &configuration, &arguments.server).await;
        if view.status != Status::Connected {
            return Err(connection_text::not_connected(&view));
        }
        expect_prompt(&view, &arguments.prompt)?;
        let params = json!({"name": arguments.prompt, "arguments": call_arguments});
        let mut request = ServerRequest::idempotent("prompts/get", REQUEST_TIMEOUT);
        request.params = Some(Payload::from_json(params.to_string().into()));
        host.request(&arguments.server, request)
            .await
            .map_err(|error| tool_output::request_failure(&error))
    })?;
    let response: Json = response.decode().unwrap_or_default();
    if invocation.wants_json() {
        return Ok(json_output(&response));
    }
    let messages = response["messages"].as_array().into_iter().flatten();
    Ok(CommandOutput::text(messages.map(message_text).collect::<Vec<_>>().join("\n")))
}

/// Fails with the nearest name if the server has no such prompt.
pub(super) fn expect_prompt(view: &ServerView, name: &str) -> Result<(), Failure> {
    let prompts = view.catalogue.items(ListKind::Prompts);
    if prompts.iter().any(|prompt| prompt.name == name) {
        return Ok(());
    }
    let message = format!("`{}` has no prompt `{name}`", view.name);
    let names = prompts.iter().map(|prompt| prompt.name.as_str());
    let failure = Failure::new(Exit::NotFound, &message);
    Err(match switchboard::config::file::entry_decoder::nearest(name, names) {
        Some(nearest) => failure.hint(&format!("did you mean `{nearest}`?")),
        None => failure.hint(&format!("`swb prompts {}` lists what it has", view.name)),
    })
}

fn message_text(message: &Json) -> String {
    let role = paint(TextStyle::Dim, printable(message["role"].as_str().unwrap_or("?")));
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
