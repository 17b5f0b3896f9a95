//! A model that follows a script, for the demo and for tests: no network, no key. Its position in the script follows from
//! the messages alone, so a user may interrupt it and continue.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value as Json;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::message::{ContentBlock, Message, Role, ToolResult, ToolUse};
use crate::model::language_model::{
    LanguageModel, ModelRequest, ModelResponse, ResponseDelta, ResponseFuture, StopReason, Usage,
};

/// The script of `swb demo`.
const DEMO_SCRIPT: &str = include_str!("scripted/demo.json");
/// The response after the end of the script.
const END_OF_SCRIPT: &str =
    "This is the end of the script. Set a model to continue the conversation.";
/// The longest quoted result, in characters.
const MAX_QUOTE_CHARS: usize = 2000;

/// A script that cannot be parsed.
#[derive(Debug, Error)]
#[error("the script cannot be parsed")]
pub struct ScriptError(#[from] serde_json::Error);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    turns: Vec<ScriptedTurn>,
}

/// A message of the user, and the responses to it: the next one after each round of calls.
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
    /// `{result:1}` is replaced by the result of the first call before it, `{line:1}` by its first line, `{rows:1}` by its
    /// lines as table rows.
    #[serde(default)]
    say: String,
    /// Replaces `say` where a call before it failed.
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
    /// A model for a script, with a delay before every word.
    pub fn new(script: &str, delay_per_word: Duration) -> Result<ScriptedModel, ScriptError> {
        Ok(ScriptedModel { script: serde_json::from_str(script)?, delay_per_word })
    }

    /// The model of `swb demo`, whose script uses the demo server under the name `demo`.
    pub fn demo(delay_per_word: Duration) -> ScriptedModel {
        ScriptedModel::new(DEMO_SCRIPT, delay_per_word).expect("a test reads it")
    }

    /// The user's messages in the script, in order.
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
        let mut blocks = Vec::new();
        if !answer.think.is_empty() {
            self.stream_words(&answer.think, deltas, ResponseDelta::Thinking).await;
            blocks
                .push(ContentBlock::Thinking { text: answer.think.clone(), provider_block: None });
        }
        if !words.is_empty() {
            self.stream_words(&words, deltas, ResponseDelta::Text).await;
            blocks.push(text(&words));
        }
        let call = |(number, it): (usize, &ScriptedCall)| {
            let id = format!("scripted_{turn}_{at}_{number}");
            ContentBlock::ToolUse(ToolUse {
                id,
                tool: it.tool.clone(),
                arguments: it.arguments.clone(),
            })
        };
        blocks.extend(answer.calls.iter().enumerate().map(call));
        model_response(blocks, messages)
    }

    /// Streams a text word by word.
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
            let _receiver_dropped = deltas.send(delta(word.to_owned())).await;
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

fn model_response(blocks: Vec<ContentBlock>, messages: &[Message]) -> ModelResponse {
    let calls = blocks.iter().any(|it| matches!(it, ContentBlock::ToolUse(_)));
    let stop = if calls { StopReason::ToolUse } else { StopReason::EndTurn };
    // About four characters per token.
    let size = |blocks: &[ContentBlock]| -> usize { blocks.iter().map(content_size).sum() };
    let input = messages.iter().map(|it| size(&it.content)).sum::<usize>() / 4 + 1000;
    let output = size(&blocks) / 4 + 1;
    let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    let usage = Usage { input: number(input), cached: 1000, output: number(output) };
    ModelResponse { content: blocks, stop_reason: stop, usage }
}

fn content_size(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text { text } | ContentBlock::Thinking { text, .. } => text.len(),
        ContentBlock::Image { base64, .. } => base64.len() / 100,
        ContentBlock::ToolUse(call) => call.tool.len() + call.arguments.to_string().len(),
        ContentBlock::ToolResult(result) => result.content.iter().map(content_size).sum(),
    }
}

/// The current turn, and the number of its responses so far. A turn starts with a user message without tool results.
fn script_position(messages: &[Message]) -> Option<(usize, usize)> {
    let starts_turn = |it: &&Message| {
        it.role == Role::User
            && it.content.iter().any(|block| {
                matches!(block, ContentBlock::Text { .. } | ContentBlock::Image { .. })
            })
            && !it.content.iter().any(|block| matches!(block, ContentBlock::ToolResult(_)))
            && !it.is_interrupted_marker()
    };
    let turn = messages.iter().filter(starts_turn).count().checked_sub(1)?;
    let last = messages.iter().rposition(|it| starts_turn(&it))?;
    let answers = messages[last..].iter().filter(|it| it.role == Role::Assistant).count();
    Some((turn, answers))
}

/// The tool results in the last message.
fn last_results(messages: &[Message]) -> Vec<&ToolResult> {
    let result: fn(&ContentBlock) -> Option<&ToolResult> = |block| match block {
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
        let result_text = result.content.iter().filter_map(|block| match block {
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
