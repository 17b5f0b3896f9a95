//! Reads the answers of hook callbacks, and joins those of several callbacks of one event. Pure.

use serde_json::Value as Json;

use crate::control::hook_table::HookEvent;
use crate::conversation::hooks::CallDecision;

/// What the callbacks of one event want.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct HookOutput {
    /// What a callback says about a call.
    pub(crate) decision: CallDecision,
    /// Arguments that replace those of the call.
    pub(crate) updated_input: Option<Json>,
    /// A result that replaces the tool's.
    pub(crate) updated_output: Option<Json>,
    /// Texts for the model.
    pub(crate) context: Vec<String>,
    /// Why what the event is about must not happen: a prompt, or the end of a turn.
    pub(crate) block_reason: Option<String>,
    /// Why the turn ends.
    pub(crate) stop_reason: Option<String>,
    /// Why the result of a call must not reach the model.
    pub(crate) failure: Option<String>,
    /// Texts for the user.
    pub(crate) notices: Vec<String>,
}

const NO_REASON: &str = "the hook gave no reason";

impl HookOutput {
    /// What one callback wants. Members of a wrong type count as absent, as the SDKs send null for what is not set.
    pub(crate) fn parse(event: HookEvent, tool: &str, output: &Json) -> HookOutput {
        let text = |value: &Json| value.as_str().map(str::to_owned);
        let specific = &output["hookSpecificOutput"];
        let reason = text(&output["reason"]);
        let mut parsed = HookOutput {
            updated_input: Some(specific["updatedInput"].clone()).filter(Json::is_object),
            updated_output: [&specific["updatedToolOutput"], &specific["updatedMCPToolOutput"]]
                .into_iter()
                .find(|it| !it.is_null())
                .cloned(),
            context: text(&specific["additionalContext"]).into_iter().collect(),
            notices: text(&output["systemMessage"]).into_iter().collect(),
            ..HookOutput::default()
        };
        if output["continue"] == false {
            parsed.stop_reason = Some(text(&output["stopReason"]).unwrap_or(NO_REASON.to_owned()));
        }
        let because =
            text(&specific["permissionDecisionReason"]).or(reason.clone()).unwrap_or_default();
        let denied =
            |because: &str| CallDecision::Deny { message: deny_text(event, tool, because) };
        match specific["permissionDecision"].as_str() {
            Some("deny") => parsed.decision = denied(&because),
            Some("ask") => parsed.decision = CallDecision::Ask { because },
            // The rules decide, as without a hook.
            Some("defer") => {}
            Some("allow") => {
                let decided_by = format!("a hook allowed it: {because}");
                parsed.decision = CallDecision::Allow { decided_by };
            }
            Some(_) | None => {}
        }
        match (output["decision"].as_str(), event) {
            (Some("block"), HookEvent::PreToolUse) => {
                parsed.decision = denied(reason.as_deref().unwrap_or(NO_REASON));
            }
            (Some("block"), HookEvent::PostToolUse | HookEvent::PostToolUseFailure) => {
                parsed.context.extend(reason);
            }
            (Some("block"), HookEvent::UserPromptSubmit | HookEvent::Stop) => {
                parsed.block_reason = Some(reason.unwrap_or(NO_REASON.to_owned()));
            }
            (Some("approve"), HookEvent::PreToolUse) => {
                let decided_by = "a hook approved it".to_owned();
                parsed.decision = CallDecision::Allow { decided_by };
            }
            (_, _) => {}
        }
        parsed
    }

    /// What a callback amounts to that must not fail, and did.
    pub(crate) fn blocked(event: HookEvent, tool: &str, why: &str) -> HookOutput {
        let message = deny_text(event, tool, why);
        let none = HookOutput::default();
        match event {
            HookEvent::PreToolUse => {
                HookOutput { decision: CallDecision::Deny { message }, ..none }
            }
            HookEvent::PostToolUse | HookEvent::PostToolUseFailure => {
                HookOutput { failure: Some(message), ..none }
            }
            HookEvent::UserPromptSubmit => HookOutput { block_reason: Some(message), ..none },
            // A turn that goes on would only end at the same hook.
            HookEvent::Stop => HookOutput { stop_reason: Some(message), ..none },
        }
    }

    /// Adds what a later callback wants. A denial wins over a question, and that over a permission.
    pub(crate) fn join(mut self, later: HookOutput) -> HookOutput {
        let rank = |decision: &CallDecision| match decision {
            CallDecision::ByRules => 0,
            CallDecision::Allow { .. } => 1,
            CallDecision::Ask { .. } => 2,
            CallDecision::Deny { .. } => 3,
        };
        if rank(&later.decision) > rank(&self.decision) {
            self.decision = later.decision;
        }
        self.updated_input = later.updated_input.or(self.updated_input);
        self.updated_output = later.updated_output.or(self.updated_output);
        self.context.extend(later.context);
        self.block_reason = self.block_reason.or(later.block_reason);
        self.stop_reason = self.stop_reason.or(later.stop_reason);
        self.failure = self.failure.or(later.failure);
        self.notices.extend(later.notices);
        self
    }
}

/// The result of a call that a hook denied.
pub(crate) fn deny_text(event: HookEvent, tool: &str, because: &str) -> String {
    let of_tool = if tool.is_empty() { String::new() } else { format!(":{tool}") };
    format!("{}{of_tool} hook error: {because}", event.id())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(event: HookEvent, output: &Json) -> HookOutput {
        HookOutput::parse(event, "Read", output)
    }

    fn specific(decision: &str) -> Json {
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision,
            "permissionDecisionReason": "not today", "updatedInput": null}})
    }

    #[test]
    fn a_denial_names_the_hook_the_tool_and_the_reason() {
        let message = "PreToolUse:Read hook error: not today".to_owned();
        let denied =
            HookOutput { decision: CallDecision::Deny { message }, ..HookOutput::default() };
        assert_eq!(parse(HookEvent::PreToolUse, &specific("deny")), denied);
        let block = json!({"decision": "block", "reason": "not today"});
        assert_eq!(parse(HookEvent::PreToolUse, &block), denied);
    }

    #[test]
    fn a_deferred_decision_is_none() {
        assert_eq!(parse(HookEvent::PreToolUse, &specific("defer")), HookOutput::default());
    }

    #[test]
    fn the_strictest_decision_wins_in_any_order() {
        let all = ["allow", "deny", "ask"].map(|it| parse(HookEvent::PreToolUse, &specific(it)));
        let joined = all.into_iter().reduce(HookOutput::join).expect("there are three");
        assert!(matches!(joined.decision, CallDecision::Deny { .. }));
    }

    #[test]
    fn a_block_means_what_its_event_is_about() {
        let block = json!({"decision": "block", "reason": "r", "continue": null});
        assert_eq!(parse(HookEvent::Stop, &block).block_reason.as_deref(), Some("r"));
        assert_eq!(parse(HookEvent::UserPromptSubmit, &block).block_reason.as_deref(), Some("r"));
        assert_eq!(parse(HookEvent::PostToolUse, &block).context, ["r"]);
    }

    #[test]
    fn a_hook_can_end_the_turn_and_replace_arguments_and_results() {
        let output = json!({"continue": false, "stopReason": "enough", "systemMessage": "note that",
            "hookSpecificOutput":
            {"updatedInput": {"a": 1}, "updatedToolOutput": "x", "additionalContext": "note"}});
        let parsed = parse(HookEvent::PostToolUse, &output);
        let expected = HookOutput {
            updated_input: Some(json!({"a": 1})),
            updated_output: Some(json!("x")),
            context: vec!["note".to_owned()],
            stop_reason: Some("enough".to_owned()),
            notices: vec!["note that".to_owned()],
            ..HookOutput::default()
        };
        assert_eq!(parsed, expected);
        assert_eq!(parse(HookEvent::PostToolUse, &json!({})), HookOutput::default());
    }
}
