//! Hook callbacks of the program as hooks of the conversation. What an answer means is left to `hook_output`.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value as Json, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::control::backend::SessionBackend;
use crate::control::cut_input::restored;
use crate::control::frame_limit::fitted_request;
use crate::control::frames::result_content;
use crate::control::hook_output::HookOutput;
use crate::control::hook_table::{HookEvent, Matcher, OnFailure};
use crate::control::peer::{ControlError, ControlPeer};
use crate::control::state::{PrintedCalls, SharedState};
use crate::conversation::event::CallOutcome;
use crate::conversation::hooks::{
    AfterCall, BeforeCall, ConversationHooks, EndAttempt, FinishedCall, HookFuture,
    SubmittedMessage, TurnEnding,
};
use crate::message::{ContentBlock, ToolUse};

/// The most characters of the error of a hook, for people and for the model.
const MAX_ERROR_CHARS: usize = 2_000;

/// Whether the frames about hooks are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookFrames {
    Left,
    Printed,
}

/// Calls the program's hooks.
pub(crate) struct SdkHooks {
    pub(crate) peer: ControlPeer,
    pub(crate) backend: Arc<dyn SessionBackend>,
    pub(crate) state: SharedState,
    pub(crate) frames: HookFrames,
    /// The calls that the program has been told of.
    pub(crate) printed: watch::Receiver<PrintedCalls>,
}

impl SdkHooks {
    /// Calls the callbacks of an event side by side, and joins what they say.
    async fn run(&self, event: HookEvent, call: Option<&ToolUse>, details: Json) -> HookOutput {
        let table = self.state.read(|it| it.hook_table.clone());
        let found: Vec<_> = table.find(event, call.map(|it| it.tool.as_str())).collect();
        if found.is_empty() {
            return HookOutput::default();
        }
        let input = self.input(event, call, details);
        let outputs = found.into_iter().map(|callback| self.call((event, call), callback, &input));
        let output =
            join_all(outputs).await.into_iter().reduce(HookOutput::join).unwrap_or_default();
        for notice in &output.notices {
            self.notify(event, notice).await;
        }
        output
    }

    async fn call(
        &self,
        (event, call): (HookEvent, Option<&ToolUse>),
        (id, matcher): (&str, &Matcher),
        input: &Json,
    ) -> HookOutput {
        let hook_id = crate::control::ids::new_uuid();
        let tool = call.map_or("", |it| it.tool.as_str());
        let name =
            if tool.is_empty() { event.id().to_owned() } else { format!("{}:{tool}", event.id()) };
        self.print(
            "hook_started",
            json!({"hook_id": hook_id, "hook_name": name, "hook_event": event.id()}),
        )
        .await;
        let mut request = json!({"subtype": "hook_callback", "callback_id": id, "input": input});
        if let Some(call) = call {
            request["tool_use_id"] = call.id.clone().into();
        }
        let request = fitted_request(&request);
        let answered = timeout(matcher.timeout, self.peer.request(&request)).await;
        let answered = answered.unwrap_or_else(|_| {
            let seconds = matcher.timeout.as_secs_f64();
            Err(ControlError::Refused(format!("it did not answer within {seconds} s")))
        });
        let failure = answered.as_ref().err().map(error_text);
        let outcome = if failure.is_some() { "error" } else { "success" };
        let output = answered.as_ref().map_or(String::new(), Json::to_string);
        self.print(
            "hook_response",
            json!({
                "hook_id": hook_id, "hook_name": name, "hook_event": event.id(), "output": output,
                "stdout": "", "stderr": failure.unwrap_or_default(), "outcome": outcome,
            }),
        )
        .await;
        match answered {
            Ok(output) => {
                let mut parsed = HookOutput::parse(event, tool, &output);
                if let (Some(wanted), Some(call)) = (parsed.updated_input.take(), call) {
                    let sent = &request["input"]["tool_input"];
                    match restored(&wanted, (sent, &call.arguments)) {
                        Ok(arguments) => parsed.updated_input = Some(arguments),
                        Err(error) => {
                            let denied = HookOutput::blocked(event, tool, &error.to_string());
                            parsed = parsed.join(denied);
                        }
                    }
                }
                parsed
            }
            Err(error) => self.failed((event, tool), matcher.on_failure, &error),
        }
    }

    /// What a callback that failed amounts to. The program's standard error says so.
    fn failed(
        &self,
        (event, tool): (HookEvent, &str),
        on_failure: OnFailure,
        error: &ControlError,
    ) -> HookOutput {
        let why = error_text(error);
        // A hook that can no longer deny a call must not be the reason that the call is made.
        let blocks = on_failure == OnFailure::Block
            || (event == HookEvent::PreToolUse && *error == ControlError::Closed);
        let consequence = match (blocks, event) {
            (false, _) => "it is ignored",
            (true, HookEvent::PreToolUse) => "the call is denied",
            (true, HookEvent::PostToolUse | HookEvent::PostToolUseFailure) => {
                "the result of the call is withheld"
            }
            (true, HookEvent::UserPromptSubmit) => "the prompt is blocked",
            (true, HookEvent::Stop) => "the turn ends",
        };
        let of_tool = if tool.is_empty() { String::new() } else { format!(" for `{tool}`") };
        let id = event.id();
        self.backend.warn(&format!("a {id} hook{of_tool} failed: {why}; {consequence}"));
        match blocks {
            true => HookOutput::blocked(event, tool, &why),
            false => HookOutput::default(),
        }
    }

    /// A text of a hook for the user.
    async fn notify(&self, event: HookEvent, text: &str) {
        let members = json!({"content": text, "level": "notice", "tag": event.id()});
        let frame = self.state.read(|it| it.frames.system("informational", members));
        self.peer.send(&frame).await;
    }

    /// The model gets exactly the text that came with the denial.
    fn after_denial(&self, id: &str) -> AfterCall {
        let (text, ends_turn) = self.state.update(|it| {
            let ends_turn = it.interrupting_denials.remove(id);
            it.is_denied_with_interrupt |= ends_turn;
            (it.denial_texts.remove(id), ends_turn)
        });
        AfterCall {
            replaced_result: text.map(|text| vec![text_block(text)]),
            stop_because: ends_turn
                .then(|| "the program denied the call and ended the turn".to_owned()),
            ..AfterCall::default()
        }
    }

    async fn print(&self, subtype: &str, members: Json) {
        if self.frames == HookFrames::Printed {
            let frame = self.state.read(|it| it.frames.system(subtype, members));
            self.peer.send(&frame).await;
        }
    }

    fn input(&self, event: HookEvent, call: Option<&ToolUse>, details: Json) -> Json {
        let mut input = self.state.read(|it| {
            json!({
                "hook_event_name": event.id(),
                "session_id": it.frames.session_id,
                "transcript_path": it.transcript_path,
                "cwd": it.folder,
                "permission_mode": it.mode_id(),
            })
        });
        if let Some(call) = call {
            input["tool_name"] = call.tool.clone().into();
            input["tool_input"] = call.arguments.clone();
            input["tool_use_id"] = call.id.clone().into();
        }
        if let (Some(all), Json::Object(details)) = (input.as_object_mut(), details) {
            all.extend(details);
        }
        input
    }
}

impl ConversationHooks for SdkHooks {
    fn message_submitted<'a>(
        &'a self,
        message: &'a [ContentBlock],
    ) -> HookFuture<'a, SubmittedMessage> {
        Box::pin(async move {
            let text: Vec<&str> = message.iter().filter_map(text_of).collect();
            let details = json!({"prompt": text.join("\n")});
            let output = self.run(HookEvent::UserPromptSubmit, None, details).await;
            SubmittedMessage {
                context: output.context.into_iter().map(text_block).collect(),
                refused_because: output.block_reason.or(output.stop_reason),
            }
        })
    }

    fn channel_messages_submitted<'a>(
        &'a self,
        messages: &'a [ContentBlock],
    ) -> HookFuture<'a, SubmittedMessage> {
        self.message_submitted(messages)
    }

    fn before_call<'a>(&'a self, call: &'a ToolUse) -> HookFuture<'a, BeforeCall> {
        Box::pin(async move {
            let mut printed = self.printed.clone();
            // An error means that the session has ended, which ends this call too.
            drop(printed.wait_for(|it| it.contains(&call.id)).await);
            let output = self.run(HookEvent::PreToolUse, Some(call), json!({})).await;
            BeforeCall {
                decision: output.decision,
                arguments: output.updated_input,
                context: output.context,
                stop_because: output.stop_reason,
            }
        })
    }

    fn after_call<'a>(&'a self, finished: FinishedCall<'a>) -> HookFuture<'a, AfterCall> {
        Box::pin(async move {
            if finished.outcome == CallOutcome::Denied {
                return self.after_denial(&finished.call.id);
            }
            let has_failure_hooks =
                self.state.read(|it| it.hook_table.clone()).has(HookEvent::PostToolUseFailure);
            let event = match finished.outcome {
                CallOutcome::Done => HookEvent::PostToolUse,
                CallOutcome::ToolError | CallOutcome::Failed if has_failure_hooks => {
                    HookEvent::PostToolUseFailure
                }
                CallOutcome::ToolError => HookEvent::PostToolUse,
                CallOutcome::Failed | CallOutcome::Denied | CallOutcome::Interrupted => {
                    return AfterCall::default();
                }
            };
            let content = Json::Array(result_content(finished.result));
            let details = match event {
                HookEvent::PostToolUseFailure => json!({"error": joined_text(&content)}),
                HookEvent::PreToolUse
                | HookEvent::PostToolUse
                | HookEvent::UserPromptSubmit
                | HookEvent::Stop => json!({"tool_response": tool_response(&content, finished)}),
            };
            let output = self.run(event, Some(finished.call), details).await;
            AfterCall {
                replaced_result: output.updated_output.map(replaced_content),
                context: output.context,
                stop_because: output.stop_reason,
                withheld_because: output.failure,
            }
        })
    }

    fn turn_ending<'a>(&'a self, attempt: EndAttempt) -> HookFuture<'a, TurnEnding> {
        Box::pin(async move {
            let details = json!({"stop_hook_active": attempt == EndAttempt::Repeated});
            let output = self.run(HookEvent::Stop, None, details).await;
            match (output.block_reason, output.stop_reason) {
                (Some(reason), None) => TurnEnding::Continue(reason),
                (_, _) => TurnEnding::End,
            }
        })
    }
}

fn error_text(error: &ControlError) -> String {
    error.to_string().chars().take(MAX_ERROR_CHARS).collect()
}

/// The result as hooks get it: a text where it is only that.
fn tool_response(content: &Json, finished: FinishedCall<'_>) -> Json {
    let is_text = content.as_array().is_some_and(|it| it.iter().all(|it| it["type"] == "text"));
    match (is_text, finished.result.is_error) {
        (true, false) => joined_text(content).into(),
        (_, is_error) => json!({"content": content, "is_error": is_error}),
    }
}

fn joined_text(content: &Json) -> String {
    let texts = content.as_array().into_iter().flatten().filter_map(|it| it["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

fn replaced_content(output: Json) -> Vec<ContentBlock> {
    let blocks = match &output {
        Json::Array(blocks) => blocks,
        Json::Object(object) => match object.get("content").and_then(Json::as_array) {
            Some(blocks) => blocks,
            None => return vec![text_block(output.to_string())],
        },
        Json::String(text) => return vec![text_block(text.clone())],
        Json::Null | Json::Bool(_) | Json::Number(_) => {
            return vec![text_block(output.to_string())];
        }
    };
    let text = |it: &Json| match it["text"].as_str() {
        Some(text) => text_block(text.to_owned()),
        None => text_block(it.to_string()),
    };
    blocks.iter().map(text).collect()
}

fn text_block(text: String) -> ContentBlock {
    ContentBlock::Text { text }
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
