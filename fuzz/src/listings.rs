//! Servers of a registry: `config::registry`. The input is a row of a registry's list.

use std::collections::HashSet;

use serde_json::Value as Json;
use switchboard_config::registry::{
    AnswerError, Answers, EntryDraft, NewEntry, RegistryServer, local_name,
};
use switchboard_config::template::{SecretReference, Template};

/// - Names, the keys of questions and the local name are valid and unique.
/// - Without answers, every text of an entry is literal: nothing that a publisher wrote is expanded.
/// - Only known programs are run, and no text of an entry contains a control character.
/// - An answer that is a secret is nowhere in the entry.
pub fn check(bytes: &[u8]) {
    let Ok(row) = serde_json::from_slice::<Json>(bytes) else { return };
    let Ok(server) = RegistryServer::read(&row) else { return };
    let name = local_name(&server.name, |_| false);
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')), "{name}");
    for option in server.install_options() {
        assert_eq!(option.check().is_ok(), EntryDraft::new(option).is_ok());
        let Ok(draft) = EntryDraft::new(option) else { continue };
        let keys: HashSet<&str> = draft.questions().iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys.len(), draft.questions().len(), "{keys:?}");
        without_answers(&draft);
        with_answers(&draft);
    }
}

fn build(draft: &EntryDraft, answers: &Answers) -> Result<NewEntry, Vec<AnswerError>> {
    draft.build(answers, &|key| SecretReference::Keychain(format!("name.{key}")))
}

fn without_answers(draft: &EntryDraft) {
    match build(draft, &Answers::default()) {
        Ok(NewEntry { entry, secrets, .. }) => {
            assert!(secrets.is_empty(), "a secret without an answer");
            let mut texts = Vec::new();
            collect(&Json::Object(entry), &mut texts);
            for text in texts {
                assert!(Template::parse(&text).is_literal(), "`{text}` is expanded");
            }
        }
        Err(errors) => {
            let is_expected = |it: &AnswerError| !matches!(it, AnswerError::Unknown { .. });
            assert!(errors.iter().all(is_expected), "{errors:?}");
        }
    }
}

/// Answers with choices where there are any, otherwise with a text that is nowhere else.
fn with_answers(draft: &EntryDraft) {
    const SECRET: &str = "canary7f3a";
    let mut answers = Answers::default();
    for question in draft.questions() {
        let texts = question.choices.first().map(String::as_str);
        let answer = ["1", "true", SECRET].into_iter().chain(texts);
        let accepted = answer.rev().find(|it| question.check(it).is_ok());
        if let Some(accepted) = accepted {
            answers.add(&question.key, accepted.to_owned());
        }
    }
    let Ok(NewEntry { entry, secrets, .. }) = build(draft, &answers) else { return };
    if let Some(command) = entry.get("command").and_then(Json::as_str) {
        let is_known = ["npx", "uvx", "docker", "dnx", ""].contains(&command);
        assert!(is_known || command.starts_with("~/.cargo/bin/"), "{command}");
    }
    let is_secret = draft.questions().iter().all(|it| it.is_secret);
    let mut texts = Vec::new();
    collect(&Json::Object(entry), &mut texts);
    for text in texts {
        assert!(!text.contains(char::is_control), "{text:?}");
        assert!(!is_secret || secrets.is_empty() || !text.contains(SECRET), "{text}");
    }
}

/// Every text of an entry.
fn collect(json: &Json, texts: &mut Vec<String>) {
    match json {
        Json::String(text) => texts.push(text.clone()),
        Json::Array(elements) => elements.iter().for_each(|it| collect(it, texts)),
        Json::Object(members) => members.values().for_each(|it| collect(it, texts)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}
