//! Permits for tool calls: the rules decide first, then the user. A call is sent only with a [`Permit`], and only this
//! file makes one.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value as Json;
use switchboard_config::entry::server::Fingerprint;
use switchboard_config::permission::{
    self, CallRequest, HintValue, PermissionEffect, PermissionMode, PermissionRules, RuleDecision,
    Suggestion, ToolHints, Trust,
};

use crate::permission::active_rules::ActiveRules;
use crate::permission::prompt::{
    GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use crate::permission::tool_pins::{PinStatus, ToolPins};
use crate::pool::naming;
use crate::pool::tool::{Tool, ToolKind};

/// Why the user is asked about a tool that a rule allows.
const CHANGED_SINCE_APPROVAL: &str = "its definition changed since it was approved";

/// The permission for one call. Sending the call consumes it.
#[derive(Debug)]
pub struct Permit {
    because: String,
}

impl Permit {
    /// Why the call is permitted.
    pub(crate) fn because(&self) -> &str {
        &self.because
    }
}

/// Why a call is not permitted.
#[derive(Debug)]
pub(crate) struct PermitDenied(pub(crate) String);

/// The caller, and what the decision depends on.
#[derive(Clone, Copy)]
pub(crate) struct PermissionCheck<'a> {
    pub(crate) caller: &'a str,
    pub(crate) rules: &'a ActiveRules,
    pub(crate) pins: &'a ToolPins,
    pub(crate) mode: PermissionMode,
    pub(crate) trusted_servers: &'a BTreeSet<String>,
    pub(crate) prompt: &'a dyn PermissionPrompt,
}

/// Decides about a call. A tool whose definition changed since it was approved counts as not approved. Writes the
/// rules' verdict to `verdict` before it asks the user, so that a call that is cancelled meanwhile is recorded with it.
pub(crate) async fn obtain_permit(
    check: PermissionCheck<'_>,
    tool: &Arc<Tool>,
    fingerprint: Option<&Fingerprint>,
    arguments: &Json,
    verdict: &mut String,
) -> Result<Permit, PermitDenied> {
    let (server, name) = (tool.prefix.as_str(), naming::sanitise_borrowed(&tool.name));
    let rules = check.rules.current();
    match tool.kind {
        ToolKind::BuiltIn => {
            // It only reads what the rules let servers say, and hides what the rules hide.
            return Ok(Permit { because: "a read-only built-in tool".to_owned() });
        }
        ToolKind::LoginPlaceholder => return permit_login(&rules, tool),
        ToolKind::Server => {}
    }
    let request = rule_request(check.trusted_servers, tool, (server, &name), arguments);
    let RuleDecision { effect, reason } = permission::decide(&rules, &request, check.mode);
    effect.id().clone_into(verdict);
    let pin_status = fingerprint.map_or(PinStatus::Unchanged, |it| check.pins.status(it, tool));
    let because = reason.to_string();
    let (because, definition_diff) = match (effect, pin_status) {
        (PermissionEffect::Deny, _) => return Err(PermitDenied(because)),
        (PermissionEffect::Allow, PinStatus::Unchanged) => return Ok(Permit { because }),
        (PermissionEffect::Allow, PinStatus::New) => {
            pin_definition(check, fingerprint, tool).await;
            return Ok(Permit { because });
        }
        (PermissionEffect::Allow, PinStatus::Changed(definition_diff)) => {
            match rules.effective_mode(check.mode) {
                PermissionMode::Bypass => return Ok(Permit { because }),
                PermissionMode::DontAsk => {
                    return Err(PermitDenied(format!(
                        "{CHANGED_SINCE_APPROVAL}, and nothing asks in the mode `dontAsk`"
                    )));
                }
                PermissionMode::Plan | PermissionMode::Default | PermissionMode::AcceptEdits => {}
            }
            (CHANGED_SINCE_APPROVAL.to_owned(), Some(definition_diff))
        }
        (PermissionEffect::Ask, PinStatus::Changed(definition_diff)) => {
            (format!("{because}, and {CHANGED_SINCE_APPROVAL}"), Some(definition_diff))
        }
        (PermissionEffect::Ask, PinStatus::Unchanged | PinStatus::New) => (because, None),
    };
    let suggestions = useful_suggestions(&rules, &request, check.mode);
    let caller = check.caller;
    let request =
        PermissionRequest { caller, tool, arguments, because, suggestions, definition_diff };
    match check.prompt.decide(&request).await {
        PermissionDecision::Allow { decided_by, scope } => {
            pin_definition(check, fingerprint, tool).await;
            record_grant(check, scope).await;
            Ok(Permit { because: decided_by })
        }
        PermissionDecision::Deny(because) => Err(PermitDenied(because)),
    }
}

/// Signing in is the user's own act in a browser, so there is nothing to ask. A rule against the server still denies.
fn permit_login(rules: &PermissionRules, tool: &Tool) -> Result<Permit, PermitDenied> {
    match permission::tool_hidden_by(rules, &tool.prefix, &tool.name) {
        None => Ok(Permit { because: "it only shows where to sign in".to_owned() }),
        Some(because) => Err(PermitDenied(because.to_string())),
    }
}

/// The suggested rules that would permit the call; none does where another rule wants the user asked.
fn useful_suggestions(
    rules: &PermissionRules,
    request: &CallRequest<'_>,
    mode: PermissionMode,
) -> Vec<Suggestion> {
    let permits = |suggestion: &Suggestion| {
        let mut with = rules.clone();
        with.add_for_session(PermissionEffect::Allow, suggestion.rule.clone());
        permission::decide(&with, request, mode).effect == PermissionEffect::Allow
    };
    permission::suggestions(request).into_iter().filter(permits).collect()
}

/// Stores the definition that was approved. Where that fails, the user is asked once more than needed, or a later change
/// is not noticed.
async fn pin_definition(
    check: PermissionCheck<'_>,
    fingerprint: Option<&Fingerprint>,
    tool: &Arc<Tool>,
) {
    let Some(fingerprint) = fingerprint.cloned() else { return };
    let (pins, tool) = (check.pins.clone(), tool.clone());
    let work = move || pins.pin(&fingerprint, &tool);
    if let Ok(Err(error)) = tokio::task::spawn_blocking(work).await {
        check.prompt.warn(&format!("the tool's definition could not be stored: {error}"));
    }
}

async fn record_grant(check: PermissionCheck<'_>, scope: GrantScope) {
    let rules = check.rules.clone();
    match scope {
        GrantScope::Once => {}
        GrantScope::Session(rule) => rules.allow_for_session(rule),
        GrantScope::Always(rule) => {
            let written = tokio::task::spawn_blocking(move || rules.allow_always(rule)).await;
            if let Ok(Err(error)) = written {
                check.prompt.warn(&format!("the rule holds for this session only: {error}"));
            }
        }
    }
}

/// A call as the rules see it. `names` are those of the server and the tool in rules.
pub fn rule_request<'a>(
    trusted_servers: &BTreeSet<String>,
    tool: &Tool,
    names: (&'a str, &'a str),
    arguments: &'a Json,
) -> CallRequest<'a> {
    let hint = |is_set: bool| if is_set { HintValue::Yes } else { HintValue::No };
    let is_trusted = trusted_servers.contains(&tool.server);
    CallRequest {
        server: names.0,
        tool: names.1,
        arguments,
        hints: ToolHints {
            read_only: hint(tool.annotations.read_only),
            destructive: hint(tool.annotations.destructive),
            open_world: hint(tool.annotations.open_world),
        },
        trust: if is_trusted { Trust::Trusted } else { Trust::Untrusted },
    }
}
