//! Asks the user for permission through the editor's dialog. The task of the session sends the request, so that the
//! editor knows the call before it is asked about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionResponse,
    ToolCallContent, ToolCallStatus,
};
use serde_json::{Value as Json, json};
use switchboard::config::permission::{RuleCoverage, Suggestion, ToolRule};
use switchboard::permission::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use tokio::sync::mpsc;

use crate::client::{Client, ClientError};
use crate::method::REQUEST_PERMISSION;
use crate::session_command::{EditorRequest, SessionCommand};
use crate::tool_view::{CalledTool, ToolViews};

/// The source of decisions in the audit log.
const DECIDED_BY: &str = "you, in the editor";
const ALLOW_ONCE: &str = "allow_once";
const REJECT: &str = "reject_once";

/// Asks the user through the editor.
pub(crate) struct EditorPermissionPrompt {
    client: Client,
    commands: mpsc::WeakSender<SessionCommand>,
    views: Arc<ToolViews>,
    /// Numbers calls that have no id.
    calls: AtomicU64,
}

impl EditorPermissionPrompt {
    pub(crate) fn new(
        client: Client,
        commands: mpsc::WeakSender<SessionCommand>,
        views: Arc<ToolViews>,
    ) -> EditorPermissionPrompt {
        EditorPermissionPrompt { client, commands, views, calls: AtomicU64::new(1) }
    }

    async fn ask(
        &self,
        request: &PermissionRequest<'_>,
    ) -> Result<PermissionDecision, ClientError> {
        let commands = self.commands.upgrade().ok_or(ClientError::Closed)?;
        let id = match request.call_id {
            Some(id) => id.to_owned(),
            None => format!("permission_{}", self.calls.fetch_add(1, Ordering::Relaxed)),
        };
        let choices = choices(&request.suggestions);
        let options: Vec<PermissionOption> =
            choices.iter().map(|(option, _)| option.clone()).collect();
        let (prepared, response) = self.client.prepare();
        let params = json!({"toolCall": self.tool_call(&id, request), "options": options});
        let editor_request = EditorRequest {
            request: prepared,
            method: REQUEST_PERMISSION,
            params,
            call_id: Some(id.as_str().into()),
        };
        let sent = commands.send(SessionCommand::Ask(Box::new(editor_request))).await;
        sent.map_err(|_| ClientError::Closed)?;
        drop(commands);
        let response: RequestPermissionResponse =
            response.await?.decode().map_err(ClientError::InvalidResult)?;
        let selected = match response.outcome {
            RequestPermissionOutcome::Selected(selected) => selected.option_id,
            RequestPermissionOutcome::Cancelled | _ => return Ok(PermissionDecision::NoAnswer),
        };
        let chosen = choices.into_iter().find(|(option, _)| option.option_id == selected);
        let decision = chosen.map_or(PermissionDecision::NoAnswer, |(_, decision)| decision);
        if let (PermissionDecision::Allow { .. }, Some(commands)) =
            (&decision, self.commands.upgrade())
        {
            let started = SessionCommand::CallPermitted { id: id.as_str().into() };
            let _session_over = commands.send(started).await;
        }
        Ok(decision)
    }

    fn tool_call(&self, id: &str, request: &PermissionRequest<'_>) -> Json {
        let PermissionRequest { tool, arguments, because, definition_diff, .. } = request;
        let name = tool.exposed_name.as_str();
        let called = CalledTool { exposed_name: name, definition: Some(*tool) };
        let title = match tool.server.is_empty() {
            true => tool.display_name().to_owned(),
            false => format!("{}: {}", tool.server, tool.display_name()),
        };
        let mut content = vec![ToolCallContent::from(because.clone())];
        if let Some(diff) = definition_diff {
            let text =
                format!("The definition of this tool has changed since you approved it:\n{diff}");
            content.push(ToolCallContent::from(text));
        }
        json!({
            "toolCallId": id,
            "title": self.views.title(called, arguments, &title),
            "name": name,
            "kind": self.views.kind(called),
            "status": ToolCallStatus::Pending,
            "content": content,
            "locations": self.views.locations(called, arguments),
            "rawInput": arguments,
        })
    }
}

impl PermissionPrompt for EditorPermissionPrompt {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async move {
            match self.ask(request).await {
                Ok(decision) => decision,
                Err(ClientError::Closed) => PermissionDecision::NoAnswer,
                Err(error @ (ClientError::Rejected(_) | ClientError::InvalidResult(_))) => {
                    PermissionDecision::Deny(format!("{}, and {error}", request.because))
                }
            }
        })
    }

    fn warn(&self, text: &str) {
        if let Some(commands) = self.commands.upgrade() {
            let _busy_or_over = commands.try_send(SessionCommand::Warn(text.to_owned()));
        }
    }
}

/// The options of the dialog, and the decision for each.
fn choices(suggestions: &[Suggestion]) -> Vec<(PermissionOption, PermissionDecision)> {
    let allow = |scope| PermissionDecision::Allow { decided_by: DECIDED_BY.to_owned(), scope };
    let option = |id: &str, name: String, kind| PermissionOption::new(id.to_owned(), name, kind);
    let once = option(ALLOW_ONCE, "Allow once".to_owned(), PermissionOptionKind::AllowOnce);
    let mut choices = vec![(once, allow(GrantScope::Once))];
    let always = |id: &str, name: String, scope| {
        (option(id, name, PermissionOptionKind::AllowAlways), allow(scope))
    };
    if let Some(rule) = session_rule(suggestions) {
        let name = format!("Allow for this session: {rule}");
        choices.push(always("allow_session", name, GrantScope::Session(rule.clone())));
    }
    for Suggestion { coverage, rule } in suggestions {
        let id = match coverage {
            RuleCoverage::Arguments => "allow_always_arguments",
            RuleCoverage::Tool => "allow_always_tool",
            RuleCoverage::Server => "allow_always_server",
        };
        let name = format!("Always allow {rule}");
        choices.push(always(id, name, GrantScope::Always(rule.clone())));
    }
    let reject = option(REJECT, "Reject".to_owned(), PermissionOptionKind::RejectOnce);
    choices.push((reject, PermissionDecision::DeniedByUser));
    choices
}

/// The rule of a session grant: for the tool rather than its whole server.
fn session_rule(suggestions: &[Suggestion]) -> Option<&ToolRule> {
    let for_tool = suggestions.iter().find(|it| it.coverage == RuleCoverage::Tool);
    for_tool.or(suggestions.first()).map(|it| &it.rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(suggestions: &[(RuleCoverage, &str)]) -> Vec<String> {
        let suggestion = |(coverage, rule): &(RuleCoverage, &str)| Suggestion {
            coverage: *coverage,
            rule: ToolRule::parse(rule).expect("a rule"),
        };
        let suggestions: Vec<Suggestion> = suggestions.iter().map(suggestion).collect();
        let label = |(option, decision): (PermissionOption, PermissionDecision)| {
            let scope = match decision {
                PermissionDecision::Allow { scope: GrantScope::Once, .. } => "once",
                PermissionDecision::Allow { scope: GrantScope::Session(_), .. } => "session",
                PermissionDecision::Allow { scope: GrantScope::Always(_), .. } => "always",
                PermissionDecision::DeniedByUser => "denied",
                PermissionDecision::AllowChanged { .. }
                | PermissionDecision::Deny(_)
                | PermissionDecision::NoAnswer => "other",
            };
            format!("{} = {scope}", option.name)
        };
        choices(&suggestions).into_iter().map(label).collect()
    }

    #[test]
    fn each_suggested_rule_is_an_option_and_the_session_gets_the_tool() {
        let suggestions = [
            (RuleCoverage::Arguments, "mcp__s__echo(text=\"a\")"),
            (RuleCoverage::Tool, "mcp__s__echo"),
            (RuleCoverage::Server, "mcp__s"),
        ];
        assert_eq!(
            labels(&suggestions),
            [
                "Allow once = once",
                "Allow for this session: mcp__s__echo = session",
                "Always allow mcp__s__echo(text=a) = always",
                "Always allow mcp__s__echo = always",
                "Always allow mcp__s = always",
                "Reject = denied",
            ]
        );
        assert_eq!(labels(&[]), ["Allow once = once", "Reject = denied"]);
    }
}
