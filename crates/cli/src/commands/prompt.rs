//! `swb prompt`: prints a prompt of a server, with its arguments filled in.

use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::catalogue::ListKind;
use switchboard::config::display::{pluralize, printable, sanitize_line};
use switchboard::connection::{RetryPolicy, ServerView, Status};
use switchboard::request::ServerRequest;
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

/// How many missing arguments are asked for or named.
const MAX_ARGUMENTS: usize = 20;
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
    let mut call_arguments =
        call_args::parse(&arguments.arguments, &invocation.env.working_folder)?.into_json();
    let response = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        let view = servers::connect_one(invocation, host, &configuration, &arguments.server).await;
        if view.status != Status::Connected {
            return Err(connection_text::not_connected(&view));
        }
        expect_prompt(&view, &arguments.prompt)?;
        let missing = missing_arguments(&view, &arguments.prompt, &call_arguments);
        for (argument, value) in ask_for(invocation, arguments, missing).await? {
            call_arguments[&argument] = value.into();
        }
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

/// A required argument of a prompt.
struct RequiredArgument {
    name: String,
    description: String,
}

/// The required arguments without a value.
fn missing_arguments(view: &ServerView, prompt: &str, given: &Json) -> Vec<RequiredArgument> {
    let prompts = view.catalogue.items(ListKind::Prompts);
    let item = prompts.iter().find(|it| it.name == prompt);
    let json: Json = item.map(|it| it.raw.decode().unwrap_or_default()).unwrap_or_default();
    let is_missing = |it: &&Json| {
        it["required"] == true && it["name"].as_str().is_some_and(|name| given[name].is_null())
    };
    let all = json["arguments"].as_array().into_iter().flatten().filter(is_missing);
    all.take(MAX_ARGUMENTS)
        .map(|it| RequiredArgument {
            name: it["name"].as_str().unwrap_or_default().to_owned(),
            description: sanitize_line(it["description"].as_str().unwrap_or_default()),
        })
        .collect()
}

/// Asks for missing arguments at a terminal. Without one they are named.
async fn ask_for(
    invocation: &Invocation,
    arguments: &PromptArgs,
    missing: Vec<RequiredArgument>,
) -> Result<Vec<(String, String)>, Failure> {
    let mut values = Vec::new();
    for argument in &missing {
        let name = printable(&argument.name);
        let line = match invocation.prompt.is_interactive() {
            true => invocation.prompt.prompt_line(&format!("{}: ", described(argument))).await,
            false => None,
        };
        match line.filter(|it| !it.is_empty()) {
            Some(value) => values.push((argument.name.clone(), value)),
            None => {
                let left: Vec<String> = missing[values.len()..].iter().map(described).collect();
                let message = format!(
                    "the prompt `{}` needs {}",
                    printable(&arguments.prompt),
                    pluralize(left.len(), "more argument", "more arguments")
                );
                let failure = Failure { causes: left, ..Failure::new(Exit::Usage, &message) };
                let PromptArgs { server, prompt, .. } = arguments;
                return Err(failure.hint(&format!("`swb prompt {server} {prompt} {name}=…`")));
            }
        }
    }
    Ok(values)
}

fn described(argument: &RequiredArgument) -> String {
    let name = printable(&argument.name);
    match argument.description.is_empty() {
        true => format!("`{name}`"),
        false => format!("`{name}`: {}", argument.description),
    }
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
