//! Permits for tool calls: the rules decide first, then the user. A call is sent only with a [`Permit`], and only this
//! file makes one.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value as Json;
use switchboard_config::entry::server::Fingerprint;
use switchboard_config::permission::{
    self, CallRequest, HintValue, NOTHING_SEEN, PermissionEffect, PermissionMode, PermissionRules,
    RuleDecision, Suggestion, ToolHints, Trust,
};
use tracing::{debug, info, warn};

use crate::elicitation::elicitor::DENIED_BY_USER;
use crate::permission::active_rules::ActiveRules;
use crate::permission::batch_items::{BatchItem, batch_items};
use crate::permission::definition_diff::DefinitionDiff;
use crate::permission::link_targets;
use crate::permission::prompt::{
    GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use crate::permission::tool_pins::{PinStatus, ToolPins};
use crate::pool::tool::{Tool, ToolKind};

/// Why the user is asked about a tool that a rule allows.
const CHANGED_SINCE_APPROVAL: &str = "its definition changed since it was approved";

/// The permission for one call. Sending the call consumes it.
#[derive(Debug)]
pub struct Permit {
    because: String,
    /// The arguments to send instead of the original ones, if the permission changed them.
    changed_arguments: Option<Json>,
}

impl Permit {
    /// Why the call is permitted.
    pub(crate) fn because(&self) -> &str {
        &self.because
    }

    /// The arguments that replace those of the call, if the call is permitted only with others.
    pub(crate) fn take_changed_arguments(&mut self) -> Option<Json> {
        self.changed_arguments.take()
    }

    fn unchanged(because: impl Into<String>) -> Permit {
        Permit { because: because.into(), changed_arguments: None }
    }
}

/// Why a call is not permitted.
#[derive(Debug)]
pub(crate) struct PermitDenial {
    pub(crate) because: String,
    /// The change of the tool's definition that needs an approval, if that is why.
    pub(crate) definition_diff: Option<DefinitionDiff>,
}

impl PermitDenial {
    pub(crate) fn by(because: impl Into<String>) -> PermitDenial {
        PermitDenial { because: because.into(), definition_diff: None }
    }

    /// The denial of a tool whose changed definition no user could approve.
    fn of_change(because: &str, tool: &Tool, definition_diff: DefinitionDiff) -> PermitDenial {
        let command = format!("swb permissions accept {}", tool.exposed_name);
        let because = format!("{because}; `{command}` accepts the new definition");
        PermitDenial { because, definition_diff: Some(definition_diff) }
    }
}

/// The detail of denial reasons. The caller gets the reason of a denial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReasonDetail {
    /// Rules with the file and line that they are in, for the user whose files they are.
    #[default]
    WithPaths,
    /// Rules with the scope of their settings, for other programs.
    WithoutPaths,
}

/// The caller, and what the decision depends on.
#[derive(Clone, Copy)]
pub(crate) struct PermissionCheck<'a> {
    pub(crate) caller: &'a str,
    pub(crate) call_id: Option<&'a str>,
    pub(crate) rules: &'a ActiveRules,
    pub(crate) pins: &'a ToolPins,
    pub(crate) mode: PermissionMode,
    pub(crate) trusted_servers: &'a BTreeSet<String>,
    pub(crate) prompt: &'a dyn PermissionPrompt,
    pub(crate) reason_detail: ReasonDetail,
}

/// Decides about a call. A tool whose definition changed since it was approved counts as not approved. Writes the
/// rules' verdict to `verdict` before it asks the user, so that a call that is cancelled meanwhile is recorded with it.
pub(crate) async fn obtain_permit(
    check: PermissionCheck<'_>,
    tool: &Arc<Tool>,
    fingerprint: Option<&Fingerprint>,
    arguments: &Json,
    verdict: &mut String,
) -> Result<Permit, PermitDenial> {
    let (server, name) = (tool.prefix.as_str(), tool.rule_name());
    let rules = check.rules.current();
    match tool.kind {
        ToolKind::BuiltIn => {
            // It reads only from servers that no rule denies as a whole.
            return Ok(Permit::unchanged("a read-only built-in tool"));
        }
        ToolKind::LoginPlaceholder => return permit_login(&rules, tool, check.reason_detail),
        ToolKind::Server | ToolKind::Embedded | ToolKind::ExtensionMethod => {}
    }
    // The definitions of embedded servers change only with this program.
    let fingerprint = fingerprint.filter(|_| tool.kind != ToolKind::Embedded);
    let seen = check.rules.seen();
    let whole = CallRequest {
        seen: &seen,
        ..rule_request(check.trusted_servers, tool, (server, &name), arguments)
    };
    let items = batch_items(tool, arguments);
    let (RuleDecision { effect, reason }, request) =
        decide_with_items(&rules, tool.kind, whole, &items, check.mode).await;
    effect.id().clone_into(verdict);
    let pin_status = fingerprint.map_or(PinStatus::Unchanged, |it| check.pins.status(it, tool));
    let because = match check.reason_detail {
        ReasonDetail::WithPaths => reason.to_string(),
        ReasonDetail::WithoutPaths => reason.without_paths(),
    };
    let (verdict, mode) = (effect.id(), check.mode.id());
    debug!(server = tool.server, tool = tool.name, verdict, because, mode, "rules evaluated");
    let (because, definition_diff) = match (effect, pin_status) {
        (PermissionEffect::Deny, _) => return Err(PermitDenial::by(because)),
        (PermissionEffect::Allow, PinStatus::Unchanged) => {
            // The tool has its approved definition again.
            if fingerprint.is_some_and(|it| check.pins.has_change(it, tool)) {
                pin_definition(check, fingerprint, tool).await;
            }
            return Ok(Permit::unchanged(because));
        }
        (PermissionEffect::Allow, PinStatus::New) => {
            pin_definition(check, fingerprint, tool).await;
            return Ok(Permit::unchanged(because));
        }
        (PermissionEffect::Allow, PinStatus::Changed) => {
            match rules.effective_mode(check.mode) {
                PermissionMode::Bypass => return Ok(Permit::unchanged(because)),
                PermissionMode::DontAsk => {
                    record_change(check, fingerprint, tool).await;
                    let because =
                        format!("{CHANGED_SINCE_APPROVAL}, and nothing asks in the mode `dontAsk`");
                    let diff = definition_diff(check, fingerprint, tool).await.unwrap_or_default();
                    return Err(PermitDenial::of_change(&because, tool, diff));
                }
                PermissionMode::Plan | PermissionMode::Default | PermissionMode::AcceptEdits => {}
            }
            (CHANGED_SINCE_APPROVAL.to_owned(), definition_diff(check, fingerprint, tool).await)
        }
        (PermissionEffect::Ask, PinStatus::Changed) => (
            format!("{because}, and {CHANGED_SINCE_APPROVAL}"),
            definition_diff(check, fingerprint, tool).await,
        ),
        (PermissionEffect::Ask, PinStatus::Unchanged | PinStatus::New) => (because, None),
    };
    if definition_diff.is_some() {
        warn!(server = tool.server, tool = tool.name, "the tool's definition has changed");
        record_change(check, fingerprint, tool).await;
    }
    let suggestions = useful_suggestions(&rules, &request, check.mode);
    let (caller, call_id) = (check.caller, check.call_id);
    let approver = permission::approver(&rules, &request, check.mode);
    // The pins are the operator's and apply to every client, so no client replaces one alone.
    let approver = match &definition_diff {
        Some(_) => approver.without_client_alone(),
        None => approver,
    };
    let prompted = PermissionRequest {
        caller,
        call_id,
        tool,
        arguments,
        because,
        suggestions,
        approver,
        definition_diff,
    };
    let decision = check.prompt.decide(&prompted).await;
    let (server, tool_name) = (&*tool.server, &*tool.name);
    let label = decision.log_label();
    info!(caller, server, tool = tool_name, decision = label, "permission requested and decided");
    match decision {
        PermissionDecision::Allow { decided_by, scope } => {
            pin_definition(check, fingerprint, tool).await;
            record_grant(check, scope).await;
            Ok(Permit::unchanged(decided_by))
        }
        PermissionDecision::AllowChanged { decided_by, arguments } => {
            let changed = CallRequest { arguments: &arguments, ..whole };
            let rules = check.rules.current();
            let items = batch_items(tool, &arguments);
            let (RuleDecision { effect, reason }, _strictest) =
                decide_with_items(&rules, tool.kind, changed, &items, check.mode).await;
            if effect == PermissionEffect::Deny {
                return Err(PermitDenial::by(match check.reason_detail {
                    ReasonDetail::WithPaths => reason.to_string(),
                    ReasonDetail::WithoutPaths => reason.without_paths(),
                }));
            }
            pin_definition(check, fingerprint, tool).await;
            Ok(Permit { because: decided_by, changed_arguments: Some(arguments) })
        }
        PermissionDecision::Deny(because) => Err(match prompted.definition_diff {
            Some(diff) => PermitDenial::of_change(&because, tool, diff),
            None => PermitDenial::by(because),
        }),
        PermissionDecision::DeniedByUser => Err(PermitDenial::by(DENIED_BY_USER)),
        PermissionDecision::NoAnswer => Err(PermitDenial::by("you did not answer")),
    }
}

/// What the rules say about a call and the calls inside it: the strictest decision counts for all of it. Also returns
/// what that decision is about.
async fn decide_with_items<'a>(
    rules: &PermissionRules,
    kind: ToolKind,
    whole: CallRequest<'a>,
    items: &'a [BatchItem],
    mode: PermissionMode,
) -> (RuleDecision, CallRequest<'a>) {
    let mut strictest = (decide_call(rules, kind, &whole, mode).await, whole);
    for item in items {
        let inner = CallRequest { tool: &item.tool, arguments: &item.arguments, ..whole };
        let decided = decide_call(rules, kind, &inner, mode).await;
        if decided.effect > strictest.0.effect {
            strictest = (decided, inner);
        }
    }
    strictest
}

/// What the rules say about a call. For the tools of an embedded server, a rule about a file also denies where a link leads
/// to it.
async fn decide_call(
    rules: &PermissionRules,
    kind: ToolKind,
    request: &CallRequest<'_>,
    mode: PermissionMode,
) -> RuleDecision {
    let decided = permission::decide(rules, request, mode);
    if kind != ToolKind::Embedded || decided.effect == PermissionEffect::Deny {
        return decided;
    }
    let Some(followed) = link_targets::follow(request.arguments).await else { return decided };
    let of_target =
        permission::decide(rules, &CallRequest { arguments: &followed, ..*request }, mode);
    // An allow rule for the path as written is enough: the tool itself stays inside its folders.
    match of_target.effect {
        PermissionEffect::Deny => of_target,
        PermissionEffect::Allow | PermissionEffect::Ask => decided,
    }
}

/// Signing in is the user's own act in a browser, so there is nothing to ask. A rule against the server still denies.
fn permit_login(
    rules: &PermissionRules,
    tool: &Tool,
    detail: ReasonDetail,
) -> Result<Permit, PermitDenial> {
    match permission::tool_hidden_by(rules, &tool.prefix, &tool.name) {
        None => Ok(Permit::unchanged("it only shows where to sign in")),
        Some(because) => Err(PermitDenial::by(match detail {
            ReasonDetail::WithPaths => because.to_string(),
            ReasonDetail::WithoutPaths => because.without_paths(),
        })),
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

/// What changed in a tool's definition. Comparing takes time that a server chooses, so no worker of the runtime does it.
async fn definition_diff(
    check: PermissionCheck<'_>,
    fingerprint: Option<&Fingerprint>,
    tool: &Arc<Tool>,
) -> Option<DefinitionDiff> {
    let fingerprint = fingerprint?.clone();
    let (pins, tool) = (check.pins.clone(), tool.clone());
    let comparing = move || pins.difference(&fingerprint, &tool);
    // Without a difference to show, the tool still counts as changed.
    Some(tokio::task::spawn_blocking(comparing).await.unwrap_or_default())
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
        warn!(cause = %error, "the tool's definition could not be stored");
        check.prompt.warn(&format!("the tool's definition could not be stored: {error}"));
    }
}

/// Stores the changed definition, so that `swb permissions` can show and accept it.
async fn record_change(
    check: PermissionCheck<'_>,
    fingerprint: Option<&Fingerprint>,
    tool: &Arc<Tool>,
) {
    let Some(fingerprint) = fingerprint.cloned() else { return };
    let (pins, tool) = (check.pins.clone(), tool.clone());
    let work = move || pins.record_change(&fingerprint, &tool);
    if let Ok(Err(error)) = tokio::task::spawn_blocking(work).await {
        warn!(cause = %error, "the tool's changed definition could not be stored");
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
                warn!(cause = %error, "the permission rule could not be stored");
                check.prompt.warn(&format!("the rule holds for this session only: {error}"));
            }
        }
    }
}

/// A call as the rules see it, in a session that has seen nothing. `names` are those of the server and the tool in rules.
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
        trust: if tool.kind == ToolKind::Embedded {
            Trust::BuiltIn
        } else if is_trusted {
            Trust::Trusted
        } else {
            Trust::Untrusted
        },
        seen: &NOTHING_SEEN,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchboard_config::permission::Approver;
    use switchboard_config::scope::Scope;
    use switchboard_config::settings::Settings;
    use switchboard_config::source::{Authority, Source};
    use tokio::sync::mpsc;

    use super::*;
    use crate::permission::prompt::DecisionFuture;
    use crate::permission::tool_pins::tests::tool;

    /// Permits every call and tells who would have been asked.
    struct Recorder(mpsc::UnboundedSender<Approver>);

    impl PermissionPrompt for Recorder {
        fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
            self.0.send(request.approver).expect("the test listens");
            let allow =
                PermissionDecision::Allow { decided_by: "test".into(), scope: GrantScope::Once };
            Box::pin(std::future::ready(allow))
        }
    }

    /// The approvers of three calls: of a new tool, of the same one, and of one with another description.
    async fn check(permissions: &Json, expected: &[Approver]) {
        let folder = tempfile::tempdir().expect("a temp folder");
        let text = json!({"permissions": permissions}).to_string();
        let source = Source::file(Scope::User, "settings.json");
        let rules = Settings::read(&source, &text, Authority::User).permissions;
        let (sender, mut asked) = mpsc::unbounded_channel();
        let check = PermissionCheck {
            caller: "client",
            call_id: None,
            rules: &ActiveRules::new(rules),
            pins: &ToolPins::open(&folder.path().join("pins.json")),
            mode: PermissionMode::Default,
            trusted_servers: &BTreeSet::new(),
            prompt: &Recorder(sender),
            reason_detail: ReasonDetail::WithPaths,
        };
        let fingerprint = Fingerprint::from_stored("sha256:1");
        for description in ["Sends mail.", "Sends mail.", "Sends mail to eve@example.com."] {
            let tool = tool(&json!({"name": "send", "description": description}));
            let arguments = json!({});
            obtain_permit(check, &tool, Some(&fingerprint), &arguments, &mut String::new())
                .await
                .expect("it is permitted");
        }
        let mut found = Vec::new();
        while let Ok(approver) = asked.try_recv() {
            found.push(approver);
        }
        assert_eq!(found, expected, "{permissions}");
    }

    #[tokio::test]
    async fn a_changed_definition_is_never_the_decision_of_a_client_alone() {
        use Approver::{Both, Client, Operator};
        check(&json!({"allow": ["mcp__mail"]}), &[Operator]).await;
        check(&json!({"ask": ["mcp__mail"]}), &[Client, Client, Operator]).await;
        check(&json!({"ask": ["mcp__mail"], "approver": "both"}), &[Both, Both, Both]).await;
    }
}
