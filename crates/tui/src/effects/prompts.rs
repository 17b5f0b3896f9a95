//! Servers' prompts and resources: their arguments, what they could be, and what comes of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::catalogue::fetch::{ListItem, ListKind};
use switchboard::connection::ServerView;
use switchboard::request::send::ServerRequest;
use switchboard::tool_result;
use switchboard::wire::jsonrpc::message::Payload;
use switchboard_chat::message::ContentBlock;

use super::{EffectContext, EffectRunner, error_event};
use crate::slash_command::prompt_command_name;
use crate::state::event::ScreenEvent;
use crate::state::prompt_invocation::{PromptArgument, PromptInvocation};
use switchboard::config::display::sanitize;

/// How long a server may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may take to say what an argument could be.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(5);

impl EffectRunner {
    /// Begins with a prompt; what was typed behind its name are its first arguments.
    pub(crate) fn start_prompt(&mut self, name: &str, words: &[String]) {
        let snapshot = self.context.host.snapshot();
        let found = snapshot.servers.values().find_map(|view| {
            let items = view.catalogue.items(ListKind::Prompts).iter();
            let item =
                items.into_iter().find(|item| prompt_command_name(view, &item.name) == name)?;
            Some((view.clone(), item.clone()))
        });
        let Some((view, item)) = found else {
            let text = format!("there is no prompt `/{name}`; `/mcp` says which servers are there");
            return self.queue_event(ScreenEvent::Error(text));
        };
        let mut invocation = prompt_invocation(&view, &item, name);
        for word in words {
            if let Some((key, value)) = invocation.parse_pair(word) {
                invocation.values.insert(key, value);
            }
        }
        let open: Vec<String> = invocation
            .arguments
            .iter()
            .map(|it| it.name.clone())
            .filter(|name| !invocation.values.contains_key(name))
            .collect();
        let plain = words.iter().filter(|word| invocation.parse_pair(word).is_none());
        let positional: BTreeMap<String, String> = open.into_iter().zip(plain.cloned()).collect();
        invocation.values.extend(positional);
        self.queue_event(ScreenEvent::Prompt(invocation));
    }

    /// Gets a prompt, and says what it says to the model; without one it is shown.
    pub(crate) fn get_prompt(&mut self, invocation: PromptInvocation) {
        let (host, conversation) = (self.context.host.clone(), self.context.conversation.clone());
        let (has_model, reports) = (self.model.is_some(), self.events.clone());
        let backend = self.context.backend.clone();
        self.spawn(async move {
            let params = json!({"name": invocation.prompt, "arguments": invocation.values});
            let mut question = ServerRequest::idempotent("prompts/get", REQUEST_TIMEOUT);
            question.params = Some(Payload::from_json(params.to_string().into()));
            let answer = match host.request(&invocation.server, question).await {
                Ok(answer) => answer.decode::<Json>().unwrap_or_default(),
                Err(error) => return error_event(&backend.render_request_error(&error)),
            };
            let texts = message_texts(&answer);
            if !has_model {
                return ScreenEvent::Note(sanitize(&texts.join("\n\n")));
            }
            let text = texts.join("\n\n");
            // It must be known to wait before anybody can say that it was taken up.
            let _left = reports.send(ScreenEvent::MessageQueued(text.clone())).await;
            conversation.send(vec![ContentBlock::Text { text }]).await;
            ScreenEvent::Redraw
        });
    }

    /// Asks a server what an argument could be.
    pub(crate) fn complete_argument(&mut self, invocation: PromptInvocation, typed: String) {
        let Some(argument) = invocation.current_argument().cloned() else { return };
        let host = self.context.host.clone();
        self.spawn(async move {
            let mut params = json!({
                "ref": {"type": "ref/prompt", "name": invocation.prompt},
                "argument": {"name": argument.name, "value": typed},
            });
            if !invocation.values.is_empty() {
                params["context"] = json!({"arguments": invocation.values});
            }
            let mut question = ServerRequest::idempotent("completion/complete", COMPLETION_TIMEOUT);
            question.params = Some(Payload::from_json(params.to_string().into()));
            // A server that does not know is no trouble: then one types.
            let answer: Json = match host.request(&invocation.server, question).await {
                Ok(answer) => answer.decode().unwrap_or_default(),
                Err(_) => Json::Null,
            };
            let values = answer["completion"]["values"].as_array().into_iter().flatten();
            let values = values.filter_map(Json::as_str).map(sanitize).collect();
            ScreenEvent::Completions { typed, values }
        });
    }

    /// Reads a resource and shows it.
    pub(crate) fn read_resource(&mut self, server: String, uri: String) {
        let EffectContext { host, backend, call_context, width, .. } = &self.context;
        let (host, backend, width) = (host.clone(), backend.clone(), *width);
        let (limits, keep) = (call_context.limits, call_context.spill.clone());
        self.spawn(async move {
            match host.read_resource(&server, &uri, REQUEST_TIMEOUT).await {
                Err(error) => error_event(&backend.render_request_error(&error)),
                Ok(answer) => {
                    let read =
                        move || tool_result::from_resource_read(&answer, &server, &limits, &keep);
                    match tokio::task::spawn_blocking(read).await {
                        Ok(output) => {
                            let text = backend.render_output(&output, width);
                            ScreenEvent::Text { title: uri, text }
                        }
                        Err(_) => {
                            ScreenEvent::Error("what was read could not be understood".to_owned())
                        }
                    }
                }
            }
        });
    }
}

fn prompt_invocation(view: &Arc<ServerView>, item: &ListItem, name: &str) -> PromptInvocation {
    let json: Json = item.raw.decode().unwrap_or_default();
    let argument = |it: &Json| {
        Some(PromptArgument {
            name: it["name"].as_str()?.to_owned(),
            description: it["description"].as_str().unwrap_or_default().to_owned(),
            is_required: it["required"] == true,
        })
    };
    let capabilities = view.server_info.as_ref().map(|it| &it.capabilities);
    let completes =
        capabilities.is_some_and(|it| it.others.iter().any(|name| name == "completions"));
    PromptInvocation {
        server: view.name.clone(),
        prompt: item.name.clone(),
        command_name: name.to_owned(),
        arguments: json["arguments"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(argument)
            .collect(),
        values: BTreeMap::new(),
        current: 0,
        has_completions: completes,
    }
}

/// What the messages of a prompt say.
fn message_texts(answer: &Json) -> Vec<String> {
    let text = |message: &Json| {
        let content = &message["content"];
        match content["type"].as_str() {
            Some("text") => content["text"].as_str().map(str::to_owned),
            Some("resource") => content["resource"]["text"].as_str().map(str::to_owned),
            Some(other) => Some(format!("[{other}]")),
            None => None,
        }
    };
    answer["messages"].as_array().into_iter().flatten().filter_map(text).collect()
}
