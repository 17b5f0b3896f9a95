//! Servers' prompts and resources: their arguments, what they could be, and what comes of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::ask::Question;
use switchboard::catalogue::{Item, List};
use switchboard::connection::View;
use switchboard::wire::message::Payload;
use switchboard::yielded;
use switchboard_chat::utterance::Part;

use super::{Deeds, fault};
use crate::commands::{call, prompt};
use crate::screen::chat::{Argument, Event, PromptAsked};
use crate::screen::clean_text::clean;
use crate::screen::menu::prompt_name;

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may take to say what an argument could be.
const COMPLETION: Duration = Duration::from_secs(5);

impl Deeds {
    /// Begins with a prompt; what was typed behind its name are its first arguments.
    pub(super) async fn begin_prompt(&mut self, name: &str, words: &[String]) {
        let snapshot = self.host.snapshot();
        let found = snapshot.servers.values().find_map(|view| {
            let items = view.catalogue.items(List::Prompts).iter();
            let item = items.into_iter().find(|item| prompt_name(view, &item.name) == name)?;
            Some((view.clone(), item.clone()))
        });
        let Some((view, item)) = found else {
            let text = format!("there is no prompt `/{name}`; `/mcp` says which servers are there");
            return self.tell(Event::Fault(text));
        };
        let mut asked = asked(&view, &item, name);
        for word in words {
            if let Some((key, value)) = asked.pair(word) {
                asked.given.insert(key, value);
            }
        }
        let open: Vec<String> = asked
            .arguments
            .iter()
            .map(|it| it.name.clone())
            .filter(|name| !asked.given.contains_key(name))
            .collect();
        let plain = words.iter().filter(|word| asked.pair(word).is_none());
        let positional: BTreeMap<String, String> = open.into_iter().zip(plain.cloned()).collect();
        asked.given.extend(positional);
        self.tell(Event::Prompt(asked));
    }

    /// Gets a prompt, and says what it says to the model; without one it is shown.
    pub(super) fn get_prompt(&mut self, asked: PromptAsked) {
        let (host, talk) = (self.host.clone(), self.talk.clone());
        let (has_model, reports) = (self.model.is_some(), self.reports.clone());
        self.beside(async move {
            let params = json!({"name": asked.prompt, "arguments": asked.given});
            let mut question = Question::harmless("prompts/get", PATIENCE);
            question.params = Some(Payload::from_json(params.to_string().into()));
            let answer = match host.ask(&asked.server, question).await {
                Ok(answer) => answer.decode::<Json>().unwrap_or_default(),
                Err(error) => return fault(&prompt::failure(&error)),
            };
            let texts = messages(&answer);
            if !has_model {
                return Event::Note(clean(&texts.join("\n\n")));
            }
            let text = texts.join("\n\n");
            // It must be known to wait before anybody can say that it was taken up.
            let _left = reports.send(Event::Said(text.clone())).await;
            talk.say(vec![Part::Text { text }]).await;
            Event::Drawn
        });
    }

    /// Asks a server what an argument could be.
    pub(super) fn complete(&mut self, asked: PromptAsked, typed: String) {
        let Some(argument) = asked.argument().cloned() else { return };
        let host = self.host.clone();
        self.beside(async move {
            let mut params = json!({
                "ref": {"type": "ref/prompt", "name": asked.prompt},
                "argument": {"name": argument.name, "value": typed},
            });
            if !asked.given.is_empty() {
                params["context"] = json!({"arguments": asked.given});
            }
            let mut question = Question::harmless("completion/complete", COMPLETION);
            question.params = Some(Payload::from_json(params.to_string().into()));
            // A server that does not know is no trouble: then one types.
            let answer: Json = match host.ask(&asked.server, question).await {
                Ok(answer) => answer.decode().unwrap_or_default(),
                Err(_) => Json::Null,
            };
            let values = answer["completion"]["values"].as_array().into_iter().flatten();
            let values = values.filter_map(Json::as_str).map(clean).collect();
            Event::Completed { typed, values }
        });
    }

    /// Reads a resource and shows it.
    pub(super) fn read(&mut self, server: String, uri: String) {
        let (host, session) = (self.host.clone(), self.session.clone());
        let (limits, keep) = (self.desk.limits, self.desk.keep.clone());
        self.beside(async move {
            match host.read(&server, &uri, PATIENCE).await {
                Err(error) => fault(&prompt::failure(&error)),
                Ok(answer) => {
                    let read = move || yielded::of_read(&answer, &server, &limits, &keep);
                    match tokio::task::spawn_blocking(read).await {
                        Ok(yielded) => {
                            let done = call::show(&session, &yielded);
                            let text = format!("{}{}", done.text, done.notes);
                            Event::Text { title: uri, text }
                        }
                        Err(_) => Event::Fault("what was read could not be understood".to_owned()),
                    }
                }
            }
        });
    }
}

fn asked(view: &Arc<View>, item: &Item, name: &str) -> PromptAsked {
    let json: Json = item.raw.decode().unwrap_or_default();
    let argument = |it: &Json| {
        Some(Argument {
            name: it["name"].as_str()?.to_owned(),
            about: it["description"].as_str().unwrap_or_default().to_owned(),
            is_required: it["required"] == true,
        })
    };
    let capabilities = view.introduction.as_ref().map(|it| &it.capabilities);
    let completes =
        capabilities.is_some_and(|it| it.others.iter().any(|name| name == "completions"));
    PromptAsked {
        server: view.name.clone(),
        prompt: item.name.clone(),
        typed_as: name.to_owned(),
        arguments: json["arguments"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(argument)
            .collect(),
        given: BTreeMap::new(),
        at: 0,
        completes,
    }
}

/// What the messages of a prompt say.
fn messages(answer: &Json) -> Vec<String> {
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
