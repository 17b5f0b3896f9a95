//! A model that follows a script: no network, no key, the same every time. For demonstrations and tests. Where it is
//! in the script follows from the conversation alone, so a person may interrupt it and go on.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value as Json;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::message::{ContentBlock, Message, Role, ToolResult, ToolUse};
use crate::model::language_model::{
    LanguageModel, ModelRequest, ModelResponse, ResponseDelta, ResponseFuture, StopReason, Usage,
};

/// The script of the demonstration.
const DEMO_SCRIPT: &str = include_str!("scripted/demo.json");
/// What is said behind the end of the script.
const END_OF_SCRIPT: &str =
    "That was all I have rehearsed. Set up a model, and we can really talk.";
/// The longest result that is quoted, in characters.
const MAX_QUOTE_CHARS: usize = 2000;

/// A script that is none.
#[derive(Debug, Error)]
#[error("the script makes no sense")]
pub struct ScriptError(#[from] serde_json::Error);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    turns: Vec<ScriptedTurn>,
}

/// What a person says, and what is answered to it: the next of the answers after each round of calls.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedTurn {
    person: String,
    answers: Vec<ScriptedResponse>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedResponse {
    #[serde(default)]
    think: String,
    /// `{result:1}` stands for the text of the first call before it, `{rows:1}` for its lines as rows of a table.
    #[serde(default)]
    say: String,
    /// Said instead where a call before it failed.
    #[serde(default)]
    otherwise: Option<String>,
    #[serde(default)]
    calls: Vec<ScriptedCall>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    tool: String,
    #[serde(default = "empty_object")]
    arguments: Json,
}

fn empty_object() -> Json {
    Json::Object(serde_json::Map::new())
}

/// A model that follows a script.
#[derive(Debug)]
pub struct ScriptedModel {
    script: Script,
    delay_per_word: Duration,
}

impl ScriptedModel {
    /// Follows this script, with such a pause before every word.
    pub fn new(script: &str, delay_per_word: Duration) -> Result<ScriptedModel, ScriptError> {
        Ok(ScriptedModel { script: serde_json::from_str(script)?, delay_per_word })
    }

    /// Follows the demonstration's script, which uses the demonstration's server under the name `demo`.
    pub fn demo(delay_per_word: Duration) -> ScriptedModel {
        ScriptedModel::new(DEMO_SCRIPT, delay_per_word).expect("a test reads it")
    }

    /// What the person says in the script, turn by turn.
    pub fn user_messages(&self) -> impl Iterator<Item = &str> {
        self.script.turns.iter().map(|it| it.person.as_str())
    }

    async fn next_response(
        &self,
        messages: &[Message],
        deltas: &mpsc::Sender<ResponseDelta>,
    ) -> ModelResponse {
        let Some((turn, at)) =
            script_position(messages).filter(|(turn, _)| *turn < self.script.turns.len())
        else {
            self.stream_words(END_OF_SCRIPT, deltas, ResponseDelta::Text).await;
            return model_response(vec![text(END_OF_SCRIPT)], messages);
        };
        let Some(answer) = self.script.turns[turn].answers.get(at) else {
            return model_response(Vec::new(), messages);
        };
        let results = last_results(messages);
        let failed = results.iter().any(|it| it.is_error);
        let words = answer.otherwise.as_ref().filter(|_| failed).unwrap_or(&answer.say);
        let words = fill_placeholders(words, &results);
        let mut parts = Vec::new();
        if !answer.think.is_empty() {
            self.stream_words(&answer.think, deltas, ResponseDelta::Thinking).await;
            parts.push(ContentBlock::Thinking { text: answer.think.clone(), provider_block: None });
        }
        if !words.is_empty() {
            self.stream_words(&words, deltas, ResponseDelta::Text).await;
            parts.push(text(&words));
        }
        let call = |(number, it): (usize, &ScriptedCall)| {
            let id = format!("rehearsed_{turn}_{at}_{number}");
            ContentBlock::ToolUse(ToolUse {
                id,
                tool: it.tool.clone(),
                arguments: it.arguments.clone(),
            })
        };
        parts.extend(answer.calls.iter().enumerate().map(call));
        model_response(parts, messages)
    }

    /// Word by word, as models speak.
    async fn stream_words(
        &self,
        words: &str,
        deltas: &mpsc::Sender<ResponseDelta>,
        delta: fn(String) -> ResponseDelta,
    ) {
        for word in words.split_inclusive([' ', '\n']) {
            if !self.delay_per_word.is_zero() {
                tokio::time::sleep(self.delay_per_word).await;
            }
            let _nobody_listens = deltas.send(delta(word.to_owned())).await;
        }
    }
}

impl LanguageModel for ScriptedModel {
    fn name(&self) -> &str {
        &self.script.name
    }

    fn context_window(&self) -> Option<u64> {
        Some(200_000)
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest,
        messages: mpsc::Sender<ResponseDelta>,
    ) -> ResponseFuture<'a> {
        Box::pin(async move { Ok(self.next_response(&request.messages, &messages).await) })
    }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.to_owned() }
}

fn model_response(parts: Vec<ContentBlock>, messages: &[Message]) -> ModelResponse {
    let calls = parts.iter().any(|it| matches!(it, ContentBlock::ToolUse(_)));
    let stop = if calls { StopReason::ToolUse } else { StopReason::EndTurn };
    // Four characters make about one token.
    let size = |parts: &[ContentBlock]| -> usize { parts.iter().map(content_size).sum() };
    let input = messages.iter().map(|it| size(&it.content)).sum::<usize>() / 4 + 1000;
    let output = size(&parts) / 4 + 1;
    let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    let usage = Usage { input: number(input), cached: 1000, output: number(output) };
    ModelResponse { content: parts, stop_reason: stop, usage }
}

fn content_size(part: &ContentBlock) -> usize {
    match part {
        ContentBlock::Text { text } | ContentBlock::Thinking { text, .. } => text.len(),
        ContentBlock::Image { base64, .. } => base64.len() / 100,
        ContentBlock::ToolUse(call) => call.tool.len() + call.arguments.to_string().len(),
        ContentBlock::ToolResult(result) => result.content.iter().map(content_size).sum(),
    }
}

/// Which turn it is, and how many answers of it were given. A turn begins with words of the person alone.
fn script_position(messages: &[Message]) -> Option<(usize, usize)> {
    let starts_turn = |it: &&Message| {
        it.role == Role::User
            && it
                .content
                .iter()
                .any(|part| matches!(part, ContentBlock::Text { .. } | ContentBlock::Image { .. }))
            && !it.content.iter().any(|part| matches!(part, ContentBlock::ToolResult(_)))
            && !it.is_interrupted_marker()
    };
    let turn = messages.iter().filter(starts_turn).count().checked_sub(1)?;
    let last = messages.iter().rposition(|it| starts_turn(&it))?;
    let answers = messages[last..].iter().filter(|it| it.role == Role::Assistant).count();
    Some((turn, answers))
}

/// The results that came last.
fn last_results(messages: &[Message]) -> Vec<&ToolResult> {
    let result: fn(&ContentBlock) -> Option<&ToolResult> = |part| match part {
        ContentBlock::ToolResult(result) => Some(result),
        ContentBlock::Text { .. }
        | ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolUse(_) => None,
    };
    messages.last().map(|it| it.content.iter().filter_map(result).collect()).unwrap_or_default()
}

fn fill_placeholders(words: &str, results: &[&ToolResult]) -> String {
    let mut words = words.to_owned();
    for (number, result) in (1..).zip(results) {
        let result_text = result.content.iter().filter_map(|part| match part {
            ContentBlock::Text { text } => Some(text.as_str()),
            ContentBlock::Image { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::ToolUse(_)
            | ContentBlock::ToolResult(_) => None,
        });
        let result_text: String =
            result_text.collect::<Vec<_>>().join("\n").chars().take(MAX_QUOTE_CHARS).collect();
        let row = |line: &str| {
            let (first, rest) = line.split_once(": ").unwrap_or((line, ""));
            format!("| {first} | {} |", rest.replace('|', "\\|"))
        };
        let rows: Vec<String> = result_text.lines().map(row).collect();
        let first = result_text.lines().next().unwrap_or_default();
        words = words.replace(&format!("{{rows:{number}}}"), &rows.join("\n"));
        words = words.replace(&format!("{{line:{number}}}"), first);
        words = words.replace(&format!("{{result:{number}}}"), result_text.trim_end());
    }
    words
}
