//! Asks the program for permission: over the control channel, or through a tool of one of its servers.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use switchboard::permission::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use switchboard::tool_result::ContentBlock;
use switchboard::{CallContext, Host, ToolCall};
use tokio::sync::{mpsc, oneshot};

use crate::control::backend::SessionBackend;
use crate::control::cut_input::restored;
use crate::control::frame_limit::fitted_request;
use crate::control::frames::SessionState;
use crate::control::ids::new_uuid;
use crate::control::peer::{ControlError, ControlPeer};
use crate::control::permission_update::{PermissionUpdate, parse_updates, suggestion_json};
use crate::control::session_command::SessionCommand;
use crate::control::state::SharedState;

/// The result of a call whose permission can no longer come.
pub(crate) const STREAM_CLOSED: &str = "Tool permission stream closed before response received";
const EXPECTED_ANSWER: &str = "the permission callback must answer {\"behavior\": \"allow\", \"updatedInput\": {…}} or \
                               {\"behavior\": \"deny\", \"message\": \"…\"}";

/// Where permission is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionSource {
    /// Nowhere: what would be asked about is denied.
    None,
    /// The program, over the control channel.
    Program,
    /// A tool, by its exposed name.
    Tool(String),
}

/// What the program says about a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Allow { input: Option<Json>, updates: Vec<PermissionUpdate> },
    Deny { message: String, ends_turn: EndsTurn },
}

/// Whether a denial ends the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndsTurn {
    Yes,
    No,
}

impl Answer {
    /// Reads an answer; the error says what is wrong with it.
    pub(crate) fn parse(answer: &Json) -> Result<Answer, String> {
        match answer["behavior"].as_str() {
            Some("allow") => {
                let updates = parse_updates(&answer["updatedPermissions"])
                    .map_err(|error| format!("{error}; {EXPECTED_ANSWER}"))?;
                let input = Some(answer["updatedInput"].clone()).filter(Json::is_object);
                Ok(Answer::Allow { input, updates })
            }
            Some("deny") => Ok(Answer::Deny {
                message: answer["message"].as_str().unwrap_or("the program denied it").to_owned(),
                ends_turn: if answer["interrupt"] == true { EndsTurn::Yes } else { EndsTurn::No },
            }),
            Some(_) | None => Err(EXPECTED_ANSWER.to_owned()),
        }
    }
}

/// Asks the program.
pub(crate) struct SdkPermissionPrompt {
    pub(crate) peer: ControlPeer,
    pub(crate) backend: Arc<dyn SessionBackend>,
    pub(crate) state: SharedState,
    pub(crate) commands: mpsc::Sender<SessionCommand>,
    pub(crate) source: PermissionSource,
    /// Calls the tool that decides; `None` where the program decides.
    pub(crate) caller: Option<(Host, Arc<CallContext>)>,
}

impl SdkPermissionPrompt {
    async fn ask(&self, request: &PermissionRequest<'_>) -> Result<Json, String> {
        match &self.source {
            PermissionSource::None => Err(format!("{}, and no one can be asked", request.because)),
            PermissionSource::Program => self.ask_program(request).await,
            PermissionSource::Tool(name) => self.ask_tool(name, request).await,
        }
    }

    async fn ask_program(&self, request: &PermissionRequest<'_>) -> Result<Json, String> {
        let tool = request.tool;
        // Where no rule of ours would help, none of theirs does.
        let suggestions = request.suggestions.iter().take(1);
        let suggestions =
            suggestions.map(|_| self.backend.suggested_rule(&tool.exposed_name, request.arguments));
        let mut body = json!({
            "subtype": "can_use_tool",
            "tool_name": tool.exposed_name,
            "input": request.arguments,
            "tool_use_id": request.call_id,
            "display_name": tool.display_name(),
            "description": tool.description,
            "decision_reason": request.because,
            "permission_suggestions": suggestions.map(|it| suggestion_json(&it)).collect::<Vec<_>>(),
        });
        if let Some(title) = &tool.title {
            body["title"] = title.clone().into();
        }
        if !self.backend.is_built_in(&tool.server) {
            let source = self.backend.server_source(&tool.server);
            body["mcp_server"] = json!({"name": tool.server, "source": source});
        }
        if let Some(diff) = &request.definition_diff {
            body["decision_reason_type"] = "tool_definition_changed".into();
            body["decision_reason"] = format!("{}\n{diff}", request.because).into();
            body["suppress_always_allow_rule"] = true.into();
        }
        let body = fitted_request(&body);
        let question = self.open_question(&body).await;
        let answer = self.peer.request_with_id(question.id.clone(), &body.to_string()).await;
        drop(question);
        let answer = answer.map_err(|error| match error {
            ControlError::Closed => STREAM_CLOSED.to_owned(),
            ControlError::Refused(_) | ControlError::TooLarge(_) => {
                format!("the permission callback failed: {error}")
            }
        })?;
        let mut answer: Json = serde_json::from_slice(&answer).map_err(|error| {
            format!("the answer of the permission callback is not JSON: {error}")
        })?;
        if answer["updatedInput"].is_object() {
            let input = (&body["input"], request.arguments);
            let wanted = restored(&answer["updatedInput"], input);
            answer["updatedInput"] = wanted.map_err(|error| error.to_string())?;
        }
        Ok(answer)
    }

    /// Says that the session waits for the program until the guard is dropped.
    async fn open_question(&self, body: &Json) -> OpenQuestion {
        let id = new_uuid();
        let frame = json!({"type": "control_request", "request_id": id, "request": body});
        let frame = self.state.update(|it| {
            it.open_questions.insert(id.clone(), frame);
            let is_announced = std::mem::replace(&mut it.is_action_announced, true);
            it.state_frame(SessionState::RequiresAction).filter(|_| !is_announced)
        });
        let question = OpenQuestion { state: self.state.clone(), id };
        if let Some(frame) = frame {
            self.peer.send(&frame).await;
        }
        question
    }

    async fn ask_tool(&self, name: &str, request: &PermissionRequest<'_>) -> Result<Json, String> {
        let Some((host, context)) = &self.caller else {
            return Err("no tool can be called to ask".to_owned());
        };
        let arguments = json!({
            "tool_name": request.tool.exposed_name,
            "input": request.arguments,
            "tool_use_id": request.call_id,
        });
        let call =
            ToolCall { caller: "permission prompt".to_owned(), ..ToolCall::new(name, arguments) };
        let output = host.call_with(context, call).await;
        let output = output.map_err(|error| format!("`{name}` could not be asked: {error}"))?;
        // Behind the answer of the tool come our notes about it.
        let text = output.blocks.iter().find_map(text_of).unwrap_or_default();
        serde_json::from_str(text)
            .map_err(|_| format!("`{name}` did not answer with JSON; {EXPECTED_ANSWER}"))
    }

    fn denied(
        &self,
        request: &PermissionRequest<'_>,
        text: String,
        ends_turn: EndsTurn,
    ) -> PermissionDecision {
        if let Some(id) = request.call_id {
            self.state.update(|it| {
                if ends_turn == EndsTurn::Yes {
                    it.interrupting_denials.insert(id.to_owned());
                }
                it.denial_texts.insert(id.to_owned(), text.clone());
            });
        }
        PermissionDecision::Deny(text)
    }

    async fn apply(&self, updates: Vec<PermissionUpdate>) {
        for update in updates {
            if let PermissionUpdate::SetMode(mode) = update {
                // Later calls of the same response see the new mode.
                let (changed, is_changed) = oneshot::channel();
                let command = SessionCommand::SetMode { mode, changed };
                let _session_ended = self.commands.send(command).await;
                let _session_ended = is_changed.await;
                continue;
            }
            if let Err(error) = self.backend.update_permissions(update).await {
                self.backend.warn(&format!("permissions were not updated: {error}"));
            }
        }
    }
}

/// One question to the program that is open.
struct OpenQuestion {
    state: SharedState,
    /// The id of its request.
    id: String,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.state.update(|it| it.open_questions.remove(&self.id));
    }
}

impl PermissionPrompt for SdkPermissionPrompt {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async move {
            let answer = match self.ask(request).await {
                Ok(answer) => Answer::parse(&answer),
                Err(why) => Err(why),
            };
            match answer {
                Err(why) => self.denied(request, why, EndsTurn::No),
                Ok(Answer::Deny { message, ends_turn }) => self.denied(request, message, ends_turn),
                Ok(Answer::Allow { input, updates }) => {
                    self.apply(updates).await;
                    let decided_by = "the program allowed it".to_owned();
                    match input.filter(|it| it != request.arguments) {
                        Some(arguments) => {
                            PermissionDecision::AllowChanged { decided_by, arguments }
                        }
                        None => PermissionDecision::Allow { decided_by, scope: GrantScope::Once },
                    }
                }
            }
        })
    }

    fn warn(&self, text: &str) {
        self.backend.warn(text);
    }
}

fn text_of(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text { text, .. } => Some(text),
        ContentBlock::Image { .. }
        | ContentBlock::Saved { .. }
        | ContentBlock::NotSaved { .. }
        | ContentBlock::Link { .. }
        | ContentBlock::Unknown { .. } => None,
    }
}

/// Says that the session goes on once a call is decided, by the program or wherever else permission is asked for.
pub(crate) struct StatePrompt {
    pub(crate) inner: Arc<dyn PermissionPrompt>,
    pub(crate) peer: ControlPeer,
    pub(crate) state: SharedState,
}

impl PermissionPrompt for StatePrompt {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async move {
            let decision = self.inner.decide(request).await;
            let frame = self.state.update(|it| {
                let goes_on =
                    it.open_questions.is_empty() && std::mem::take(&mut it.is_action_announced);
                it.state_frame(SessionState::Running).filter(|_| goes_on)
            });
            if let Some(frame) = frame {
                self.peer.send(&frame).await;
            }
            decision
        })
    }

    fn warn(&self, text: &str) {
        self.inner.warn(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_allows_or_denies_and_everything_else_is_explained() {
        let allow = |input| Answer::Allow { input, updates: Vec::new() };
        assert_eq!(Answer::parse(&json!({"behavior": "allow"})), Ok(allow(None)));
        let null = json!({"behavior": "allow", "updatedInput": null, "updatedPermissions": null});
        assert_eq!(Answer::parse(&null), Ok(allow(None)));
        let changed = json!({"behavior": "allow", "updatedInput": {"a": 1}});
        assert_eq!(Answer::parse(&changed), Ok(allow(Some(json!({"a": 1})))));
        let deny = json!({"behavior": "deny", "message": "no", "interrupt": true});
        let denied = Answer::Deny { message: "no".to_owned(), ends_turn: EndsTurn::Yes };
        assert_eq!(Answer::parse(&deny), Ok(denied));
        for wrong in [json!({}), json!("allow"), json!({"behavior": "maybe"}), Json::Null] {
            assert_eq!(Answer::parse(&wrong), Err(EXPECTED_ANSWER.to_owned()));
        }
    }
}
