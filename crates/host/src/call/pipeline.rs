//! The steps of one call, from the tool's name to its bounded result.

use std::sync::Arc;
use std::time::Instant;

use crate::audit::log;
use crate::audit::log::{AuditLog, AuditRecord, CallOutcome};
use crate::builtin_tools;
use crate::call::executor;
use crate::call::services::CallServices;
use crate::permission::permit::obtain_permit;
use crate::pool::Pool;
use crate::pool::tool::Tool;
use crate::tool_result::{ToolOutput, offload};

pub use crate::call::context::CallContext;
pub use crate::call::relay::RelayedCall;
pub use crate::call::tool_call::{ToolCall, ToolCallError};
pub use crate::permission::permit::{Permit, rule_request};
pub use crate::permission::prompt::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};

/// Runs a call, and records it whatever its outcome.
pub(crate) async fn call(
    services: &CallServices,
    context: &CallContext,
    call: ToolCall,
) -> Result<ToolOutput, ToolCallError> {
    let mut pending = PendingRecord::begin(&context.audit, &call.caller, &call.exposed_name);
    let result = run(services, context, call, &mut pending.record).await;
    let outcome = match &result {
        Ok(it) if it.is_error => CallOutcome::ToolError,
        Ok(_) => CallOutcome::Succeeded,
        Err(error) => error.into(),
    };
    pending.set_outcome(outcome, result.as_ref().err());
    result
}

async fn run(
    services: &CallServices,
    context: &CallContext,
    call: ToolCall,
    record: &mut AuditRecord,
) -> Result<ToolOutput, ToolCallError> {
    let tool = resolve(&context.pool.borrow(), &call.exposed_name)?;
    record.server.clone_from(&tool.server);
    record.tool.clone_from(&tool.name);
    record.arguments = log::digest(&call.arguments);
    tool.check_arguments(&call.arguments).map_err(|faults| ToolCallError::InvalidArguments {
        tool: tool.exposed_name.clone(),
        faults,
    })?;
    let view = services.engine().connection(&tool.server).map(|it| it.view());
    let fingerprint = view.as_ref().map(|it| &it.fingerprint);
    let check = context.permission_check(&call.caller, &*context.prompt);
    let permit = obtain_permit(check, &tool, fingerprint, &call.arguments, &mut record.verdict)
        .await
        .map_err(|denied| ToolCallError::denied(&tool, denied))?;
    "allow".clone_into(&mut record.decision);
    permit.because().clone_into(&mut record.because);
    let response = executor::execute(services, permit, (context, &tool), call).await?;
    let mut limits = context.limits;
    if tool.is_built_in() {
        limits.characters = limits.characters.min(builtin_tools::MAX_CHARACTERS);
    }
    let storage = (limits, &context.spill);
    Ok(offload::bound_response(services.image_slots(), &tool.server, storage, response).await)
}

fn resolve(pool: &Pool, name: &str) -> Result<Arc<Tool>, ToolCallError> {
    const MAX_SUGGESTIONS: usize = 3;
    pool.find(name).cloned().ok_or_else(|| ToolCallError::UnknownTool {
        name: name.to_owned(),
        nearest: pool
            .nearest(name, MAX_SUGGESTIONS)
            .into_iter()
            .map(|it| it.exposed_name.clone())
            .collect(),
    })
}

fn check_arguments(tool: &Tool, arguments: &Json) -> Result<(), ToolCallError> {
    argument_check::check(tool, arguments).map_err(|faults| ToolCallError::InvalidArguments {
        tool: tool.exposed_name.clone(),
        faults,
    })
}

/// Who wants to call, what that depends on, and who is asked.
#[derive(Clone, Copy)]
pub(crate) struct PermissionCheck<'a> {
    pub(crate) caller: &'a str,
    pub(crate) context: &'a CallContext,
    pub(crate) prompt: &'a dyn PermissionPrompt,
}

/// Rules first, then somebody. A tool that changed since it was approved is not the one that was approved.
pub(crate) async fn obtain_permit(
    check: PermissionCheck<'_>,
    tool: &Arc<Tool>,
    fingerprint: Option<&Fingerprint>,
    arguments: &Json,
    rule_verdict: &mut String,
) -> Result<Permit, ToolCallError> {
    let PermissionCheck { caller, context: context, prompt: prompt } = check;
    let (server, name) = (tool.prefix.as_str(), naming::sanitise_borrowed(&tool.name));
    let rules = context.rules.current();
    match tool.kind {
        ToolKind::BuiltIn => {
            // It only reads what other rules let the person's servers say; what they hide, it hides too.
            return Ok(Permit { because: "a read-only built-in tool".to_owned() });
        }
        ToolKind::LoginPlaceholder => return permit_login(&rules, tool),
        ToolKind::Server => {}
    }
    let request = rule_request(context, tool, (server, &name), arguments);
    let RuleDecision { effect: verdict, reason: because } =
        permission::decide(&rules, &request, context.mode);
    verdict.id().clone_into(rule_verdict);
    let pin_status =
        fingerprint.map_or(PinStatus::Unchanged, |it| context.tool_pins.status(it, tool));
    let denied = |because| ToolCallError::Denied { tool: tool.exposed_name.clone(), because };
    let because = because.to_string();
    let (because, definition_diff) = match (verdict, pin_status) {
        (PermissionEffect::Deny, _) => return Err(denied(because)),
        (PermissionEffect::Allow, PinStatus::Unchanged) => return Ok(Permit { because }),
        (PermissionEffect::Allow, PinStatus::New) => {
            pin_definition(check, fingerprint, tool).await;
            return Ok(Permit { because });
        }
        (PermissionEffect::Allow, PinStatus::Changed(definition_diff)) => {
            match rules.effective_mode(context.mode) {
                PermissionMode::Bypass => return Ok(Permit { because }),
                PermissionMode::DontAsk => {
                    return Err(denied(format!(
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
    let suggestions = useful_suggestions(&rules, &request, context.mode);
    let permission_request =
        PermissionRequest { caller, tool, arguments, because, suggestions, definition_diff };
    match prompt.decide(&permission_request).await {
        PermissionDecision::Allow { decided_by: decided_by, scope: scope } => {
            pin_definition(check, fingerprint, tool).await;
            record_grant(check, scope).await;
            Ok(Permit { because: decided_by })
        }
        PermissionDecision::Deny(because) => Err(denied(because)),
    }
}

/// Signing in is the person's own doing, in a browser: there is nothing to ask. A rule against the server holds.
fn permit_login(rules: &PermissionRules, tool: &Tool) -> Result<Permit, ToolCallError> {
    match permission::tool_hidden_by(rules, &tool.prefix, &tool.name) {
        None => Ok(Permit { because: "it only shows where to sign in".to_owned() }),
        Some(because) => Err(ToolCallError::Denied {
            tool: tool.exposed_name.clone(),
            because: because.to_string(),
        }),
    }
}

/// The rules that would really answer next time: none helps where another rule wants it asked.
fn useful_suggestions(
    rules: &PermissionRules,
    request: &CallRequest<'_>,
    mode: PermissionMode,
) -> Vec<Suggestion> {
    let helps = |suggestion: &Suggestion| {
        let mut with = rules.clone();
        with.add_for_session(PermissionEffect::Allow, suggestion.rule.clone());
        permission::decide(&with, request, mode).effect == PermissionEffect::Allow
    };
    permission::suggestions(request).into_iter().filter(helps).collect()
}

/// A definition that cannot be remembered is asked about once more than needed, or not noticed when it changes.
async fn pin_definition(
    PermissionCheck { context: context, prompt: prompt, .. }: PermissionCheck<'_>,
    fingerprint: Option<&Fingerprint>,
    tool: &Arc<Tool>,
) {
    let Some(fingerprint) = fingerprint.cloned() else { return };
    let (pins, tool) = (context.tool_pins.clone(), tool.clone());
    let work = move || pins.pin(&fingerprint, &tool);
    if let Ok(Err(error)) = tokio::task::spawn_blocking(work).await {
        prompt.warn(&format!("what the tool looks like could not be remembered: {error}"));
    }
}

async fn record_grant(
    PermissionCheck { context: context, prompt: prompt, .. }: PermissionCheck<'_>,
    scope: GrantScope,
) {
    let rules = context.rules.clone();
    match scope {
        GrantScope::Once => {}
        GrantScope::Session(rule) => rules.allow_for_session(rule),
        GrantScope::Always(rule) => {
            let written = tokio::task::spawn_blocking(move || rules.allow_always(rule)).await;
            if let Ok(Err(error)) = written {
                prompt.warn(&format!("the rule holds for this session only: {error}"));
            }
        }
    }
}

/// A call as the rules see it.
pub fn rule_request<'a>(
    context: &CallContext,
    tool: &Tool,
    names: (&'a str, &'a str),
    arguments: &'a Json,
) -> CallRequest<'a> {
    let claim = |rule_verdict: bool| if rule_verdict { HintValue::Yes } else { HintValue::No };
    let is_trusted = context.trusted_servers.contains(&tool.server);
    CallRequest {
        server: names.0,
        tool: names.1,
        arguments,
        hints: ToolHints {
            read_only: claim(tool.annotations.read_only),
            destructive: claim(tool.annotations.destructive),
            open_world: claim(tool.annotations.open_world),
        },
        trust: if is_trusted { Trust::Trusted } else { Trust::Untrusted },
    }
}

impl From<&ToolCallError> for CallOutcome {
    fn from(failure: &ToolCallError) -> CallOutcome {
        match failure {
            ToolCallError::UnknownTool { .. } | ToolCallError::InvalidArguments { .. } => {
                CallOutcome::Invalid
            }
            ToolCallError::Denied { .. } => CallOutcome::Denied,
            ToolCallError::Request(RequestError::Timeout { .. }) => CallOutcome::Timeout,
            ToolCallError::Request(_) => CallOutcome::Failed,
        }
    }
}

/// A record that is written when the call is over, also where nobody waits for it any more.
pub(crate) struct PendingRecord {
    pub(crate) record: AuditRecord,
    audit: AuditLog,
    began: Instant,
}

impl PendingRecord {
    pub(super) fn begin(audit: &AuditLog, caller: &str, exposed_name: &str) -> PendingRecord {
        let record = AuditRecord::begin(caller, exposed_name);
        PendingRecord { record, audit: audit.clone(), began: Instant::now() }
    }

    pub(super) fn set_outcome(&mut self, outcome: CallOutcome, error: Option<&ToolCallError>) {
        outcome.id().clone_into(&mut self.record.outcome);
        if let Some(ToolCallError::Denied { because, .. }) = error {
            self.record.because.clone_from(because);
        }
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        let record = std::mem::take(&mut self.record);
        self.audit.record(record.with_duration(self.began.elapsed()));
    }
}
