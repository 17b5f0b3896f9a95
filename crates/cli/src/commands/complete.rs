//! `swb complete`: asks a server for completions of a prompt argument or of a resource template variable.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::{Map, Value as Json, json};
use switchboard::config::display::printable;
use switchboard::connection::{RetryPolicy, ServerView, Status};
use switchboard::request::ServerRequest;
use switchboard::wire::jsonrpc::message::Payload;

use super::prompt;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::json::json_output;
use crate::output::tool_output;
use crate::runtime::host;
use crate::runtime::servers;

/// The timeout of the request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The most values that are shown. The protocol's own limit is 100.
const MAX_VALUES: usize = 1000;

/// Arguments of `swb complete`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("reference").required(true).args(["prompt", "template"])))]
pub struct CompleteArgs {
    /// The server's name
    pub server: String,
    /// Complete an argument of this prompt
    #[arg(long, value_name = "NAME")]
    pub prompt: Option<String>,
    /// Complete a variable of this resource template
    #[arg(long, value_name = "URI")]
    pub template: Option<String>,
    /// The name of the argument or variable
    pub argument: String,
    /// The value typed so far
    #[arg(default_value = "")]
    pub value: String,
    /// Another argument that already has a value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub context: Vec<(String, String)>,
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Runs the command.
pub fn run(arguments: &CompleteArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    servers::startable_server(invocation, &configuration, &arguments.server)?;
    let response = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        let view = servers::connect_one(invocation, host, &configuration, &arguments.server).await;
        if view.status != Status::Connected {
            return Err(connection_text::not_connected(&view));
        }
        expect_completions(&view)?;
        if let Some(name) = &arguments.prompt {
            prompt::expect_prompt(&view, name)?;
        }
        let mut request = ServerRequest::idempotent("completion/complete", REQUEST_TIMEOUT);
        request.params = Some(Payload::from_json(params(arguments).to_string().into()));
        host.request(&arguments.server, request)
            .await
            .map_err(|error| tool_output::request_failure(&error))
    })?;
    let response: Json = response.decode().unwrap_or_default();
    Ok(show(invocation, &response["completion"]))
}

fn expect_completions(view: &ServerView) -> Result<(), Failure> {
    let capabilities = view.server_info.as_ref().map(|it| &it.capabilities);
    if capabilities.is_some_and(|it| it.others.iter().any(|name| name == "completions")) {
        return Ok(());
    }
    let message = format!(
        "`{}` does not support completion: it lacks the `completions` capability",
        view.name
    );
    Err(Failure::new(Exit::NotFound, &message))
}

fn params(arguments: &CompleteArgs) -> Json {
    let reference = match (&arguments.prompt, &arguments.template) {
        (Some(name), _) => json!({"type": "ref/prompt", "name": name}),
        (None, template) => json!({"type": "ref/resource", "uri": template}),
    };
    let argument = json!({"name": arguments.argument, "value": arguments.value});
    let mut params = json!({"ref": reference, "argument": argument});
    if !arguments.context.is_empty() {
        let pairs = arguments.context.iter();
        let known: Map<String, Json> =
            pairs.map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        params["context"] = json!({"arguments": known});
    }
    params
}

fn show(invocation: &Invocation, completion: &Json) -> CommandOutput {
    let values = completion["values"].as_array().into_iter().flatten();
    let values: Vec<&str> = values.filter_map(Json::as_str).take(MAX_VALUES).collect();
    let total = completion["total"].as_u64();
    let has_more = completion["hasMore"] == true;
    if invocation.wants_json() {
        return json_output(&json!({"values": values, "total": total, "hasMore": has_more}));
    }
    let text: String = values.iter().map(|value| printable(value) + "\n").collect();
    let note = match (has_more, total) {
        (false, _) => String::new(),
        (true, Some(total)) => format!("note: there are {total} in all\n"),
        (true, None) => "note: there are more\n".to_owned(),
    };
    CommandOutput::text(text).note(note)
}
