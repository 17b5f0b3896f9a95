//! Asks the client's user for permission to make a call, where the client supports form elicitation. Otherwise the
//! gateway's own prompt decides.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard::permission::LineChange;
use switchboard::permission::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use switchboard_config::permission::{Approver, Suggestion};
use switchboard_wire::client::RequestHandler;

use crate::downstream::approvals::Approvals;
use crate::downstream::request_context::RequestContext;
use crate::json::payload;

/// The most of the arguments to show to the user, in characters.
const MAX_ARGUMENT_CHARS: usize = 2000;

/// Prompts the client's user, the operator, or both, as the rules say.
pub(crate) struct ClientPermissionPrompt<'a> {
    pub(crate) context: &'a Arc<RequestContext>,
    /// Prompts the operator.
    pub(crate) operator: &'a dyn PermissionPrompt,
}

impl PermissionPrompt for ClientPermissionPrompt<'_> {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        let can_prompt_client = self.context.client.capabilities().form_elicitation;
        let missing = missing_approvals(
            request.approver,
            self.context.approvals(),
            if can_prompt_client { ClientPrompts::Supported } else { ClientPrompts::Unsupported },
        );
        Box::pin(self.prompt(request, missing))
    }

    fn warn(&self, text: &str) {
        self.operator.warn(text);
    }
}

#[derive(Deserialize)]
struct ElicitResult {
    #[serde(default)]
    action: String,
    #[serde(default)]
    content: Json,
}

/// Can the gateway prompt the client's user?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientPrompts {
    Supported,
    Unsupported,
}

/// Whose approval a call still needs. None if it needs one that cannot be had.
fn missing_approvals(
    approver: Approver,
    given: Approvals,
    client_prompts: ClientPrompts,
) -> Option<Approvals> {
    let needed = match (approver, client_prompts) {
        (Approver::Client, _) if given != Approvals::default() => Approvals::default(),
        (Approver::Client, ClientPrompts::Supported) => Approvals::CLIENT,
        (Approver::Client, ClientPrompts::Unsupported) | (Approver::Operator, _) => {
            Approvals::OPERATOR
        }
        (Approver::Both, _) => Approvals::CLIENT.union(Approvals::OPERATOR),
    };
    let missing = Approvals {
        client: needed.client && !given.client,
        operator: needed.operator && !given.operator,
    };
    (!missing.client || client_prompts == ClientPrompts::Supported).then_some(missing)
}

impl ClientPermissionPrompt<'_> {
    /// Gets the approvals that are missing, the client's first.
    async fn prompt(
        &self,
        request: &PermissionRequest<'_>,
        missing: Option<Approvals>,
    ) -> PermissionDecision {
        let who = &self.context.client.principal;
        let Some(missing) = missing else {
            let why = format!("{}, and {who} must agree but cannot be prompted", request.because);
            return PermissionDecision::Deny(why);
        };
        let decided_by = format!("{who} approved this call");
        let mut decision = PermissionDecision::Allow { decided_by, scope: GrantScope::Once };
        if missing.client {
            decision = self.prompt_client(request).await;
        }
        if missing.operator && matches!(decision, PermissionDecision::Allow { .. }) {
            decision = self.operator.decide(request).await;
            if matches!(decision, PermissionDecision::Allow { .. }) {
                self.context.add_approvals(Approvals::OPERATOR);
            }
        }
        decision
    }

    async fn prompt_client(&self, request: &PermissionRequest<'_>) -> PermissionDecision {
        // Without a session, a grant would hold for other programs with the same credentials.
        let suggestion =
            request.suggestions.first().filter(|_| self.context.client.has_own_context());
        let params = payload(&elicitation_params(request, suggestion));
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
            Some("session") => match suggestion {
                Some(suggestion) => GrantScope::Session(suggestion.rule.clone()),
                None => GrantScope::Once,
            },
            Some(_) | None => return denied("declined"),
        };
        self.context.add_approvals(Approvals::CLIENT);
        PermissionDecision::Allow { decided_by: who, scope }
    }
}

fn elicitation_params(request: &PermissionRequest<'_>, suggestion: Option<&Suggestion>) -> Json {
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
    if let Some(suggestion) = suggestion {
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

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Approvals = Approvals { client: true, operator: true };
    const NONE: Approvals = Approvals { client: false, operator: false };

    #[test]
    fn the_rules_say_whose_approval_a_call_needs() {
        use Approver::{Both, Client, Operator};
        use ClientPrompts::{Supported, Unsupported};
        let check = |approver, given, prompts, expected| {
            assert_eq!(
                missing_approvals(approver, given, prompts),
                expected,
                "{approver} {given:?}"
            );
        };
        check(Client, NONE, Supported, Some(Approvals::CLIENT));
        check(Client, NONE, Unsupported, Some(Approvals::OPERATOR));
        check(Client, Approvals::OPERATOR, Unsupported, Some(NONE));
        check(Operator, NONE, Supported, Some(Approvals::OPERATOR));
        check(Operator, Approvals::CLIENT, Supported, Some(Approvals::OPERATOR));
        check(Both, NONE, Supported, Some(BOTH));
        check(Both, Approvals::CLIENT, Supported, Some(Approvals::OPERATOR));
        check(Both, NONE, Unsupported, None);
        check(Both, BOTH, Unsupported, Some(NONE));
    }
}
