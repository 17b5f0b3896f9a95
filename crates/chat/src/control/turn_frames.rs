//! Turns the events of one turn into frames. Pure apart from the clock that it is given: what it prints follows from the
//! events alone.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::control::frame_limit::{OUTPUT_TOO_LARGE, fits_result};
use crate::control::frames::{
    FrameContext, MessageHead, NO_DETAILS, block_json, milliseconds, signature, stop_reason_id,
    usage_json,
};
use crate::control::ids::new_uuid;
use crate::conversation::event::{
    CallOutcome, ConversationEvent, FinishedResponse, ToolCallView, TurnEnd,
};
use crate::message::{ContentBlock, ToolResult, ToolUse};
use crate::model::language_model::{ModelError, ModelErrorKind, Usage};

/// The result of a call that was not made because the turn ended.
const NOT_MADE: &str = "the turn ended before this call was made";
const INTERRUPTED: &str = "[Request interrupted by user]";
const INTERRUPTED_AT_TOOL: &str = "[Request interrupted by user for tool use]";

/// Whether the events of a response are printed while it streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartialMessages {
    /// Only whole blocks are printed.
    Left,
    /// They are printed.
    Included,
}

/// What ends turns besides the model.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnCauses {
    /// The program denied a call and ended the turn with it.
    pub(crate) is_denied_with_interrupt: bool,
}

/// The frames of one turn.
pub(crate) struct TurnFrames {
    context: FrameContext,
    model: String,
    context_window: Option<u64>,
    partial: PartialMessages,
    started: Instant,
    /// When the request that is answered now was sent.
    request_started: Instant,
    api_time: Duration,
    responses: u64,
    usage: Usage,
    /// The text of the last response.
    answer: String,
    stop_reason: Option<&'static str>,
    /// The calls of the last response that have no result yet.
    pending: Vec<ToolUse>,
    /// Whether an interrupt stopped a call.
    is_call_interrupted: bool,
    /// All calls that were made, for the list of denials.
    calls: HashMap<String, ToolUse>,
    denials: Vec<Json>,
    /// The answer that matches the program's schema.
    structured_output: Option<Json>,
    stream: Option<StreamState>,
}

/// A response that streams.
struct StreamState {
    head: MessageHead,
    /// The number of blocks that are complete.
    finished: usize,
    open: Option<OpenBlock>,
}

enum OpenBlock {
    Text(String),
    Thinking(String),
    ToolUse(ToolUse, String),
}

impl TurnFrames {
    pub(crate) fn new(
        context: FrameContext,
        (model, context_window): (&str, Option<u64>),
        partial: PartialMessages,
        now: Instant,
    ) -> TurnFrames {
        TurnFrames {
            context,
            model: model.to_owned(),
            context_window,
            partial,
            started: now,
            request_started: now,
            api_time: Duration::ZERO,
            responses: 0,
            usage: Usage::default(),
            answer: String::new(),
            stop_reason: None,
            pending: Vec::new(),
            is_call_interrupted: false,
            calls: HashMap::new(),
            denials: Vec::new(),
            structured_output: None,
            stream: None,
        }
    }

    /// The frames of an event. The end of the turn is left to [`TurnFrames::result`].
    pub(crate) fn on(&mut self, event: &ConversationEvent, now: Instant) -> Vec<Json> {
        match event {
            ConversationEvent::MessagesAccepted { .. } => {
                self.request_started = now;
                Vec::new()
            }
            ConversationEvent::ChannelMessages(messages) => {
                self.request_started = now;
                messages.iter().map(|it| self.context.channel_message(it)).collect()
            }
            ConversationEvent::Text(text) => self.on_delta(Delta::Text(text)),
            ConversationEvent::Thinking(text) => self.on_delta(Delta::Thinking(text)),
            ConversationEvent::ToolUseStarted { id, tool } => {
                self.on_delta(Delta::ToolUse { id, tool })
            }
            ConversationEvent::ToolInput(json) => self.on_delta(Delta::Input(json)),
            ConversationEvent::BlockEnded(block) => self.on_block_ended(block),
            ConversationEvent::ResponseEnded(response) => self.on_response(response, now),
            ConversationEvent::CallStarted(call) => {
                self.on_call_started(call);
                Vec::new()
            }
            ConversationEvent::CallEnded { id, outcome, result, details, .. } => {
                self.pending.retain(|it| it.id != **id);
                self.is_call_interrupted |= *outcome == CallOutcome::Interrupted;
                self.request_started = now;
                if let (CallOutcome::Denied, Some(call)) = (outcome, self.calls.get(&**id)) {
                    self.denials.push(json!({
                        "tool_name": call.tool, "tool_use_id": call.id, "tool_input": call.arguments,
                    }));
                }
                result.iter().map(|it| self.context.tool_result(it, details.as_ref())).collect()
            }
            ConversationEvent::Retrying { .. } => {
                // What was streamed is void; the next attempt is another message.
                self.stream = None;
                Vec::new()
            }
            ConversationEvent::StructuredOutput(output) => {
                self.structured_output = Some(output.clone());
                Vec::new()
            }
            ConversationEvent::CallProgress { .. }
            | ConversationEvent::Usage(_)
            | ConversationEvent::TurnEnded(_) => Vec::new(),
        }
    }

    fn on_call_started(&mut self, call: &ToolCallView) {
        self.calls.insert(
            call.id.to_string(),
            ToolUse {
                id: call.id.to_string(),
                tool: call.tool.to_string(),
                arguments: call.arguments.clone(),
            },
        );
    }

    fn new_head(&self) -> MessageHead {
        let id = format!("msg_{}", new_uuid().replace('-', ""));
        MessageHead { id, model: self.model.clone(), usage: Usage::default() }
    }

    fn on_delta(&mut self, delta: Delta<'_>) -> Vec<Json> {
        if self.partial == PartialMessages::Left {
            return Vec::new();
        }
        let mut frames = Vec::new();
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let head = self.new_head();
                frames.push(self.context.stream_event(
                    json!({"type": "message_start", "message": {
                        "id": head.id, "type": "message", "role": "assistant", "model": head.model,
                        "content": [], "stop_reason": null, "stop_sequence": null,
                        "usage": usage_json(&head.usage),
                    }}),
                ));
                StreamState { head, finished: 0, open: None }
            }
        };
        let continues = matches!(
            (&stream.open, &delta),
            (Some(OpenBlock::Text(_)), Delta::Text(_))
                | (Some(OpenBlock::Thinking(_)), Delta::Thinking(_))
                | (Some(OpenBlock::ToolUse(..)), Delta::Input(_))
        );
        if !continues {
            // Some providers do not say where a block ends.
            if let Some(open) = stream.open.take() {
                frames.extend(self.close(&mut stream, &open.into_block()));
            }
            let (block, empty) = match &delta {
                Delta::Text(_) => {
                    (OpenBlock::Text(String::new()), json!({"type": "text", "text": ""}))
                }
                Delta::Thinking(_) => (
                    OpenBlock::Thinking(String::new()),
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                ),
                Delta::ToolUse { id, tool } => (
                    OpenBlock::ToolUse(
                        ToolUse {
                            id: (*id).to_owned(),
                            tool: (*tool).to_owned(),
                            arguments: json!({}),
                        },
                        String::new(),
                    ),
                    json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
                ),
                // Arguments of no call.
                Delta::Input(_) => {
                    self.stream = Some(stream);
                    return frames;
                }
            };
            frames.push(self.block_event(&stream, "content_block_start", "content_block", empty));
            stream.open = Some(block);
        }
        let delta = match (&mut stream.open, delta) {
            (Some(OpenBlock::Text(all)), Delta::Text(text)) => {
                all.push_str(text);
                Some(json!({"type": "text_delta", "text": text}))
            }
            (Some(OpenBlock::Thinking(all)), Delta::Thinking(text)) => {
                all.push_str(text);
                Some(json!({"type": "thinking_delta", "thinking": text}))
            }
            (Some(OpenBlock::ToolUse(_, all)), Delta::Input(json)) => {
                all.push_str(json);
                Some(json!({"type": "input_json_delta", "partial_json": json}))
            }
            (_, _) => None,
        };
        if let Some(delta) = delta {
            frames.push(self.block_event(&stream, "content_block_delta", "delta", delta));
        }
        self.stream = Some(stream);
        frames
    }

    fn on_block_ended(&mut self, block: &ContentBlock) -> Vec<Json> {
        let Some(mut stream) = self.stream.take() else { return Vec::new() };
        let frames = match stream.open.take() {
            Some(_) => self.close(&mut stream, block),
            None => Vec::new(),
        };
        self.stream = Some(stream);
        frames
    }

    /// The end of a block: the whole block comes before the event that says so.
    fn close(&self, stream: &mut StreamState, block: &ContentBlock) -> Vec<Json> {
        let mut frames = Vec::new();
        let signature = signature(block);
        if !signature.is_empty() {
            let delta = json!({"type": "signature_delta", "signature": signature});
            frames.push(self.block_event(stream, "content_block_delta", "delta", delta));
        }
        frames.extend(self.context.assistant(&stream.head, block));
        let stop = json!({"type": "content_block_stop", "index": stream.finished});
        frames.push(self.context.stream_event(stop));
        stream.finished += 1;
        frames
    }

    fn block_event(&self, stream: &StreamState, kind: &str, member: &str, value: Json) -> Json {
        self.context.stream_event(json!({"type": kind, "index": stream.finished, (member): value}))
    }

    fn on_response(&mut self, response: &FinishedResponse, now: Instant) -> Vec<Json> {
        self.api_time += now.saturating_duration_since(self.request_started);
        self.responses += 1;
        self.usage = sum(self.usage, response.usage);
        self.stop_reason = Some(stop_reason_id(response.stop_reason));
        self.pending = response.content.iter().filter_map(tool_use).collect();
        self.answer = response.content.iter().filter_map(text_of).collect();
        let mut frames = Vec::new();
        let mut stream = match (self.stream.take(), self.partial) {
            (Some(stream), _) => stream,
            (None, PartialMessages::Left) => {
                StreamState { head: self.new_head(), finished: 0, open: None }
            }
            (None, PartialMessages::Included) => {
                // Nothing was streamed: the events are made from the whole response.
                frames.extend(self.on_delta(Delta::Input("")));
                self.stream.take().unwrap_or_else(|| StreamState {
                    head: self.new_head(),
                    finished: 0,
                    open: None,
                })
            }
        };
        stream.head.usage = response.usage;
        if stream.open.take().is_some()
            && let Some(block) = response.content.get(stream.finished)
        {
            frames.extend(self.close(&mut stream, block));
        }
        for block in response.content.iter().skip(stream.finished) {
            match self.partial {
                PartialMessages::Left => {
                    frames.extend(self.context.assistant(&stream.head, block));
                    stream.finished += 1;
                }
                PartialMessages::Included => {
                    let Some(start) = block_json(block) else { continue };
                    frames.push(self.block_event(
                        &stream,
                        "content_block_start",
                        "content_block",
                        start,
                    ));
                    frames.extend(self.close(&mut stream, block));
                }
            }
        }
        if self.partial == PartialMessages::Included {
            let delta = json!({"stop_reason": self.stop_reason, "stop_sequence": null});
            let usage = usage_json(&response.usage);
            frames
                .push(self.context.stream_event(
                    json!({"type": "message_delta", "delta": delta, "usage": usage}),
                ));
            frames.push(self.context.stream_event(json!({"type": "message_stop"})));
        }
        frames
    }

    /// The result of a turn in which the model was asked nothing.
    pub(crate) fn refused(&self, why: &str, now: Instant) -> (Vec<Json>, TurnOutcome) {
        let mut result = self.successful_result(now);
        fail(&mut result, ("error_during_execution", "invalid_message"), why.to_owned());
        (vec![self.context.frame("result", result)], TurnOutcome::Error)
    }

    fn successful_result(&self, now: Instant) -> Json {
        json!({
            "subtype": "success",
            "is_error": false,
            "duration_ms": milliseconds(now.saturating_duration_since(self.started)),
            "duration_api_ms": milliseconds(self.api_time),
            "num_turns": self.responses.max(1),
            "result": self.answer,
            "stop_reason": self.stop_reason,
            // Prices are not known here; programs compare this with a number.
            "total_cost_usd": 0.0,
            "usage": usage_json(&self.usage),
            "modelUsage": {(self.model.clone()): {
                "inputTokens": self.usage.input.saturating_sub(self.usage.cached),
                "outputTokens": self.usage.output,
                "cacheReadInputTokens": self.usage.cached,
                "cacheCreationInputTokens": 0,
                "webSearchRequests": 0,
                "costUSD": 0.0,
                "contextWindow": self.context_window.unwrap_or_default(),
            }},
            "permission_denials": self.denials,
            "terminal_reason": "completed",
        })
    }

    /// The last frames of the turn, and whether its result is an error.
    pub(crate) fn result(
        &self,
        end: &TurnEnd,
        causes: &TurnCauses,
        now: Instant,
    ) -> (Vec<Json>, TurnOutcome) {
        let skipped = self.pending.iter().map(|call| {
            let text = NOT_MADE.to_owned();
            let content = vec![ContentBlock::Text { text }];
            ToolResult { id: call.id.clone(), content, is_error: true }
        });
        let mut frames: Vec<Json> =
            skipped.map(|it| self.context.tool_result(&it, NO_DETAILS)).collect();
        let mut result = self.successful_result(now);
        let mut error = |subtype: &str, reason: &str, text: String| {
            fail(&mut result, (subtype, reason), text);
        };
        let outcome = match end {
            TurnEnd::StoppedByHook(_) if causes.is_denied_with_interrupt => {
                frames.push(self.context.user_text(INTERRUPTED_AT_TOOL));
                error("error_during_execution", "aborted_tools", INTERRUPTED_AT_TOOL.to_owned());
                TurnOutcome::Error
            }
            TurnEnd::Finished | TurnEnd::CutShort | TurnEnd::Refused => {
                match &self.structured_output {
                    Some(output) if !fits_result(output) => {
                        let text = OUTPUT_TOO_LARGE.to_owned();
                        error("error_during_execution", "structured_output_too_large", text);
                        TurnOutcome::Error
                    }
                    Some(output) => {
                        result["structured_output"] = output.clone();
                        TurnOutcome::Success
                    }
                    None => TurnOutcome::Success,
                }
            }
            TurnEnd::StoppedByHook(reason) => {
                result["terminal_reason"] = "hook_stopped".into();
                if self.answer.is_empty() {
                    result["result"] = reason.clone().into();
                }
                TurnOutcome::Success
            }
            TurnEnd::Interrupted => {
                let is_at_tool = self.is_call_interrupted || !self.pending.is_empty();
                let (text, reason) = match is_at_tool {
                    true => (INTERRUPTED_AT_TOOL, "aborted_tools"),
                    false => (INTERRUPTED, "aborted_streaming"),
                };
                frames.push(self.context.user_text(text));
                error("error_during_execution", reason, text.to_owned());
                TurnOutcome::Error
            }
            TurnEnd::NoStructuredOutput => {
                let text = "the model did not give the structured output".to_owned();
                error("error_max_structured_output_retries", "max_structured_output_retries", text);
                TurnOutcome::Error
            }
            TurnEnd::TooManyRounds => {
                let text = format!("Reached maximum number of turns ({})", self.responses);
                error("error_max_turns", "max_turns", text);
                TurnOutcome::Error
            }
            TurnEnd::Failed(model_error) => {
                let text = format!("API Error: {}", error_text(model_error));
                frames.push(self.context.synthetic(&text, error_id(&model_error.kind)));
                result["is_error"] = true.into();
                result["terminal_reason"] = "api_error".into();
                result["result"] = text.into();
                result["stop_reason"] = "stop_sequence".into();
                result["api_error_status"] = model_error.status.into();
                TurnOutcome::Error
            }
        };
        frames.push(self.context.frame("result", result));
        (frames, outcome)
    }
}

/// Makes a result an error.
fn fail(result: &mut Json, (subtype, reason): (&str, &str), text: String) {
    result["subtype"] = subtype.into();
    result["is_error"] = true.into();
    result["terminal_reason"] = reason.into();
    result["errors"] = json!([text]);
    if let Some(result) = result.as_object_mut() {
        result.remove("result");
    }
}

/// How a turn ended, for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnOutcome {
    Success,
    Error,
}

enum Delta<'a> {
    Text(&'a str),
    Thinking(&'a str),
    ToolUse { id: &'a str, tool: &'a str },
    Input(&'a str),
}

impl OpenBlock {
    fn into_block(self) -> ContentBlock {
        match self {
            OpenBlock::Text(text) => ContentBlock::Text { text },
            OpenBlock::Thinking(text) => ContentBlock::Thinking { text, provider_block: None },
            OpenBlock::ToolUse(call, arguments) => ContentBlock::ToolUse(ToolUse {
                arguments: serde_json::from_str(&arguments).unwrap_or_else(|_| json!({})),
                ..call
            }),
        }
    }
}

fn text_of(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text { text } => Some(text),
        ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolUse(_)
        | ContentBlock::ToolResult(_) => None,
    }
}

fn tool_use(block: &ContentBlock) -> Option<ToolUse> {
    match block {
        ContentBlock::ToolUse(call) => Some(call.clone()),
        ContentBlock::Text { .. }
        | ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolResult(_) => None,
    }
}

fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        input: one.input.saturating_add(other.input),
        cached: one.cached.saturating_add(other.cached),
        output: one.output.saturating_add(other.output),
    }
}

fn error_text(error: &ModelError) -> String {
    format!("{error}: {}", error.kind)
}

/// The kind of an error in the words of the Messages API.
fn error_id(kind: &ModelErrorKind) -> &'static str {
    match kind {
        ModelErrorKind::KeyRejected(_) | ModelErrorKind::NotConfigured => "authentication_failed",
        ModelErrorKind::Overloaded(_) => "rate_limit",
        ModelErrorKind::Rejected { status: 500.., .. } => "server_error",
        ModelErrorKind::ContextTooLong(_) | ModelErrorKind::Rejected { .. } => "invalid_request",
        ModelErrorKind::Unreachable(_)
        | ModelErrorKind::InvalidResponse(_)
        | ModelErrorKind::StreamInterrupted(_) => "server_error",
    }
}
