//! Slash commands: the prompts of servers. The editor lists them, and a prompt that starts with one is replaced by its
//! messages.

use std::collections::BTreeMap;
use std::error::Error;

use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ContentBlock as EditorBlock,
    SessionUpdate, UnstructuredCommandInput,
};
use serde::Deserialize;
use serde_json::Value as Json;
use switchboard::catalogue::ListKind;
use switchboard::connection::ServerView;
use switchboard::pool::naming::{NameOrigin, prefix, sanitise};
use switchboard::request::GetPrompt;
use switchboard::{Host, Snapshot};
use switchboard_chat::message::ContentBlock;

use crate::content;

/// The most commands that the editor gets.
const MAX_COMMANDS: usize = 500;
/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 200;

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptCommand {
    server: String,
    prompt: String,
    about: String,
    arguments: Vec<PromptArgument>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct PromptArgument {
    name: String,
    #[serde(default)]
    required: bool,
}

#[derive(Deserialize)]
struct PromptItem {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    arguments: Vec<PromptArgument>,
}

/// The commands of a session by name.
pub(crate) type Commands = BTreeMap<String, PromptCommand>;

/// The prompts of the connected servers.
pub(crate) fn commands(snapshot: &Snapshot) -> Commands {
    let of_server = |view: &'_ std::sync::Arc<ServerView>| {
        let items = view.catalogue.items(ListKind::Prompts);
        items
            .iter()
            .filter_map(|item| {
                let PromptItem { title, description, arguments } = item.raw.decode().ok()?;
                let about = description.or(title).unwrap_or_else(|| item.name.clone());
                let command = PromptCommand {
                    server: view.name.clone(),
                    prompt: item.name.clone(),
                    about: about.chars().take(MAX_DESCRIPTION).collect(),
                    arguments,
                };
                let server = prefix(&view.name, NameOrigin::of(view.scope));
                Some((format!("mcp__{server}__{}", sanitise(&item.name)), command))
            })
            .collect::<Vec<_>>()
    };
    snapshot.servers.values().flat_map(of_server).take(MAX_COMMANDS).collect()
}

/// The commands for the editor.
pub(crate) fn commands_update(commands: &Commands) -> SessionUpdate {
    let command = |(name, it): (&String, &PromptCommand)| {
        let command = AvailableCommand::new(name.clone(), it.about.clone());
        match it.arguments.is_empty() {
            true => command,
            false => {
                let input = UnstructuredCommandInput::new(usage(&it.arguments));
                command.input(AvailableCommandInput::Unstructured(input))
            }
        }
    };
    let commands = commands.iter().map(command).collect();
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands))
}

/// The arguments as a user types them: `path [focus]`.
fn usage(arguments: &[PromptArgument]) -> String {
    let argument = |it: &PromptArgument| match it.required {
        true => it.name.clone(),
        false => format!("[{}]", it.name),
    };
    arguments.iter().map(argument).collect::<Vec<_>>().join(" ")
}

/// A command that a prompt starts with, and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    command: PromptCommand,
    values: BTreeMap<String, String>,
}

/// The command that this prompt starts with, if it is one.
pub(crate) fn invocation(commands: &Commands, prompt: &[EditorBlock]) -> Option<Invocation> {
    let Some(EditorBlock::Text(first)) = prompt.first() else { return None };
    let line = first.text.trim().strip_prefix('/')?;
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let command = commands.get(name)?.clone();
    let values = argument_values(&command.arguments, rest.trim());
    Some(Invocation { command, values })
}

/// The values of arguments: `name=value`, or values in order. The last argument takes the rest of the line.
fn argument_values(arguments: &[PromptArgument], text: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let mut plain: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some((name, value)) if arguments.iter().any(|it| it.name == name) => {
                values.insert(name.to_owned(), value.to_owned());
            }
            Some(_) | None => plain.push(word),
        }
    }
    let open: Vec<&str> = arguments
        .iter()
        .map(|it| it.name.as_str())
        .filter(|name| !values.contains_key(*name))
        .collect();
    if let [first @ .., last] = &open[..] {
        let count = first.len().min(plain.len());
        for (name, value) in first.iter().zip(&plain) {
            values.insert((*name).to_owned(), (*value).to_owned());
        }
        if plain.len() > count {
            values.insert((*last).to_owned(), plain[count..].join(" "));
        }
    }
    values
}

/// Gets the messages of a prompt as blocks for the model. The error is for the user.
pub(crate) async fn prompt_messages(
    host: &Host,
    invocation: Invocation,
) -> Result<Vec<ContentBlock>, String> {
    let Invocation { command, values } = invocation;
    let mut request = GetPrompt::new(command.prompt);
    for (name, value) in values {
        request = request.argument(name, value);
    }
    let messages = host.get_prompt(&command.server, request).await.map_err(|error| {
        let cause = error.source().map(|it| format!(": {it}")).unwrap_or_default();
        format!("the prompt could not be fetched: {error}{cause}")
    })?;
    // The content of prompts has the same format in both protocols.
    let block = |raw: Json| serde_json::from_value::<EditorBlock>(raw).ok();
    let contents = messages.messages.iter().filter_map(|it| it.content.raw.decode().ok());
    let blocks: Vec<EditorBlock> = contents.filter_map(block).collect();
    content::prompt_blocks(&blocks).map_err(|error| format!("the server's prompt: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let argument = |name: &str| PromptArgument { name: name.to_owned(), required: true };
        let values = argument_values(&[argument("target"), argument("focus")], text);
        let values: Vec<(&str, &str)> =
            values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(values, expected);
    }

    #[test]
    fn arguments_are_given_by_name_or_in_order_and_the_last_takes_the_rest() {
        check("", &[]);
        check("main", &[("target", "main")]);
        check("main error handling", &[("focus", "error handling"), ("target", "main")]);
        check("focus=tests main", &[("focus", "tests"), ("target", "main")]);
        check("a=b", &[("target", "a=b")]);
    }
}
