//! Asks the client's user for permission to make a call, where the client supports form elicitation. Otherwise the
//! gateway's own prompt decides.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard::call::pipeline::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use switchboard::permission::tool_pins::LineChange;
use switchboard_wire::client::RequestHandler;

use crate::downstream::request_context::RequestContext;
use crate::json::payload;

/// The most of the arguments to show to the user, in characters.
const MAX_ARGUMENT_CHARS: usize = 2000;

/// Prompts the client before the fallback.
pub(crate) struct ClientPermissionPrompt<'a> {
    pub(crate) context: &'a Arc<RequestContext>,
    pub(crate) fallback: &'a dyn PermissionPrompt,
}

impl PermissionPrompt for ClientPermissionPrompt<'_> {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        if self.context.is_approved() {
            let who = format!("{} approved this call", self.context.client.principal);
            return Box::pin(async {
                PermissionDecision::Allow { decided_by: who, scope: GrantScope::Once }
            });
        }
        match self.context.client.capabilities().form_elicitation {
            true => Box::pin(self.prompt_client(request)),
            false => self.fallback.decide(request),
        }
    }

    fn warn(&self, text: &str) {
        self.fallback.warn(text);
    }
}

#[derive(Deserialize)]
struct ElicitResult {
    #[serde(default)]
    action: String,
    #[serde(default)]
    content: Json,
}

impl ClientPermissionPrompt<'_> {
    async fn prompt_client(&self, request: &PermissionRequest<'_>) -> PermissionDecision {
        let params = payload(&elicitation_params(request));
        let response = self.context.respond("elicitation/create", Some(params)).await;
        let response = response.ok().and_then(|it| it.decode::<ElicitResult>().ok());
        let who = self.context.client.principal.to_string();
        let denied =
            |why: &str| PermissionDecision::Deny(format!("{}, and {who} {why}", request.because));
        let Some(response) = response else { return denied("could not be prompted") };
        if response.action != "accept" {
            return denied("declined");
        }
        let scope = match response.content["decision"].as_str() {
            Some("once") => GrantScope::Once,
            Some("session") => match request.suggestions.first() {
                Some(suggestion) => GrantScope::Session(suggestion.rule.clone()),
                None => GrantScope::Once,
            },
            Some(_) | None => return denied("declined"),
        };
        self.context.approve();
        PermissionDecision::Allow { decided_by: who, scope }
    }
}

fn elicitation_params(request: &PermissionRequest<'_>) -> Json {
    let tool = request.tool;
    let arguments = serde_json::to_string_pretty(request.arguments).unwrap_or_default();
    let mut shown: String = arguments.chars().take(MAX_ARGUMENT_CHARS).collect();
    if shown.len() < arguments.len() {
        shown.push('…');
    }
    let mut message =
        format!("May `{}` of `{}` run? ({})\n{shown}", tool.name, tool.server, request.because);
    if let Some(diff) = &request.definition_diff {
        message.push_str("\nIts definition changed since it was approved:");
        for (change, line) in &diff.lines {
            let mark = match change {
                LineChange::Added => '+',
                LineChange::Removed => '-',
                LineChange::Unchanged => ' ',
            };
            message.push_str(&format!("\n{mark} {line}"));
        }
    }
    let mut options = vec![("once", "Yes, this once".to_owned())];
    if let Some(suggestion) = request.suggestions.first() {
        options.push(("session", format!("Yes, and from now on: {}", suggestion.rule)));
    }
    options.push(("no", "No".to_owned()));
    let (values, labels): (Vec<_>, Vec<_>) = options.into_iter().unzip();
    json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "required": ["decision"], "properties": {
            "decision": {"type": "string", "title": "Decision", "enum": values, "enumNames": labels},
        }},
    })
}
