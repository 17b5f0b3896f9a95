//! Prompts and resources of servers: collects arguments, requests completions, sends or shows the result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::catalogue::{ListItem, ListKind};
use switchboard::connection::ServerView;
use switchboard::request::{ReadResource, ServerRequest};
use switchboard::tool_result;
use switchboard::wire::jsonrpc::message::Payload;
use switchboard_chat::message::ContentBlock;

use super::{EffectContext, EffectRunner, error_event};
use crate::slash_command::prompt_command_name;
use crate::state::event::ScreenEvent;
use crate::state::prompt_invocation::{PromptArgument, PromptInvocation};
use switchboard::config::display::sanitize;

/// The timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of a completion request.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(5);

impl EffectRunner {
    /// Starts a prompt. `words` are arguments typed after its name: `name=value`, or values in order.
    pub(crate) fn start_prompt(&mut self, name: &str, words: &[String]) {
        let snapshot = self.context.host.snapshot();
        let found = snapshot.servers.values().find_map(|view| {
            let items = view.catalogue.items(ListKind::Prompts).iter();
            let item =
                items.into_iter().find(|item| prompt_command_name(view, &item.name) == name)?;
            Some((view.clone(), item.clone()))
        });
        let Some((view, item)) = found else {
            let text = format!("there is no prompt `/{name}`; `/mcp` lists the servers");
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

    /// Gets a prompt and sends its messages to the model; without a model they are shown.
    pub(crate) fn get_prompt(&mut self, invocation: PromptInvocation) {
        let (host, conversation) = (self.context.host.clone(), self.context.conversation.clone());
        let (has_model, events) = (self.model.is_some(), self.events.clone());
        let backend = self.context.backend.clone();
        self.spawn(async move {
            let params = json!({"name": invocation.prompt, "arguments": invocation.values});
            let mut request = ServerRequest::idempotent("prompts/get", REQUEST_TIMEOUT);
            request.params = Some(Payload::from_json(params.to_string().into()));
            let response = match host.request(&invocation.server, request).await {
                Ok(response) => response.decode::<Json>().unwrap_or_default(),
                Err(error) => return error_event(&backend.render_request_error(&error)),
            };
            let texts = message_texts(&response);
            if !has_model {
                return ScreenEvent::Note(sanitize(&texts.join("\n\n")));
            }
            let text = texts.join("\n\n");
            // Queued on the screen first: the conversation may accept the message at once.
            let _left = events.send(ScreenEvent::MessageQueued(text.clone())).await;
            conversation.send(vec![ContentBlock::Text { text }]).await;
            ScreenEvent::Redraw
        });
    }

    /// Requests completions for the current argument.
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
            let mut request = ServerRequest::idempotent("completion/complete", COMPLETION_TIMEOUT);
            request.params = Some(Payload::from_json(params.to_string().into()));
            // A failed completion is no error for the user: there are just no candidates.
            let response: Json = match host.request(&invocation.server, request).await {
                Ok(response) => response.decode().unwrap_or_default(),
                Err(_) => Json::Null,
            };
            let values = response["completion"]["values"].as_array().into_iter().flatten();
            let values = values.filter_map(Json::as_str).map(sanitize).collect();
            ScreenEvent::Completions { typed, values }
        });
    }

    /// Reads a resource and shows it.
    pub(crate) fn read_resource(&mut self, server: String, uri: String) {
        let EffectContext { host, backend, call_context, width, .. } = &self.context;
        let (host, backend, width) = (host.clone(), backend.clone(), *width);
        let (limits, spill) = (call_context.limits, call_context.spill.clone());
        self.spawn(async move {
            let request = ReadResource::new(uri.as_str()).timeout(REQUEST_TIMEOUT);
            match host.read_resource_raw(&server, request).await {
                Err(error) => error_event(&backend.render_request_error(&error)),
                Ok(response) => {
                    let read = move || {
                        tool_result::from_resource_read(&response, &server, &limits, &spill)
                    };
                    match tokio::task::spawn_blocking(read).await {
                        Ok(output) => {
                            let text = backend.render_output(&output, width);
                            ScreenEvent::Text { title: uri, text }
                        }
                        Err(_) => {
                            ScreenEvent::Error("the resource could not be decoded".to_owned())
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

/// The texts of a prompt's messages.
fn message_texts(response: &Json) -> Vec<String> {
    let text = |message: &Json| {
        let content = &message["content"];
        match content["type"].as_str() {
            Some("text") => content["text"].as_str().map(str::to_owned),
            Some("resource") => content["resource"]["text"].as_str().map(str::to_owned),
            Some(other) => Some(format!("[{other}]")),
            None => None,
        }
    };
    response["messages"].as_array().into_iter().flatten().filter_map(text).collect()
}
