//! Decides whether a call may be made: deny before ask before allow, whatever the scope and order of the rules.

use std::fmt;
use std::sync::Arc;

use super::call::{CallRequest, HintValue, ToolHints, Trust};
use super::effect::PermissionEffect;
use super::mode::PermissionMode;
use super::rule_entry::RuleEntry;
use super::rules::{InvalidRule, PermissionRules, by_precedence};
use crate::pattern::MatchMode;
use crate::source::{Authority, Source};

/// The decision about a call, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleDecision {
    /// Whether the call is allowed, needs a prompt, or is denied.
    pub effect: PermissionEffect,
    /// The reason.
    pub reason: DecisionReason,
}

/// Why a call is allowed, needs a prompt, or is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionReason {
    /// A rule matches.
    Rule(RuleEntry),
    /// An entry of a deny or ask list is not a valid rule, and it may apply to this server.
    InvalidRule(InvalidRule),
    /// The rules of a file could not be read.
    Unreadable(Arc<Source>),
    /// The permission mode decides.
    Mode(PermissionMode),
    /// The server is trusted.
    TrustedServer,
    /// The tool is a part of this program and only reads.
    ReadOnlyBuiltIn,
    /// No rule matches, so the user is asked.
    NoMatchingRule,
    /// The tool's definition changed since it was approved, so the user is asked again.
    ChangedDefinition,
    /// The user would be asked, for the inner reason, but the mode allows no prompts.
    PromptsDisabled(Box<DecisionReason>),
}

impl DecisionReason {
    /// The reason for a client of a gateway: without the paths of the operator's files.
    pub fn without_paths(&self) -> String {
        match self {
            DecisionReason::Rule(entry) => {
                format!("the {} ({} settings)", entry.description(), entry.origin.scope())
            }
            DecisionReason::InvalidRule(InvalidRule { effect, origin, .. }) => {
                format!("a {effect} rule in the {} settings is not valid", origin.scope())
            }
            DecisionReason::Unreadable(source) => {
                format!("the rules in the {} settings cannot be read", source.scope)
            }
            DecisionReason::PromptsDisabled(inner) => {
                let mode = PermissionMode::DontAsk;
                format!("{}, and the mode `{mode}` allows no prompts", inner.without_paths())
            }
            DecisionReason::Mode(_)
            | DecisionReason::TrustedServer
            | DecisionReason::ReadOnlyBuiltIn
            | DecisionReason::NoMatchingRule
            | DecisionReason::ChangedDefinition => self.to_string(),
        }
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecisionReason::Rule(entry) => {
                write!(f, "the {} ({})", entry.description(), entry.origin)
            }
            DecisionReason::InvalidRule(invalid) => {
                write!(f, "the {} rule in {} is not valid", invalid.effect, invalid.origin)
            }
            DecisionReason::Unreadable(source) => {
                write!(f, "the rules in {source} cannot be read")
            }
            DecisionReason::Mode(mode) => write!(f, "the mode `{mode}`"),
            DecisionReason::TrustedServer => f.write_str("the server is trusted"),
            DecisionReason::ReadOnlyBuiltIn => f.write_str("a read-only built-in tool"),
            DecisionReason::NoMatchingRule => f.write_str("no matching rule"),
            DecisionReason::ChangedDefinition => {
                f.write_str("its definition changed since it was approved")
            }
            DecisionReason::PromptsDisabled(inner) => {
                write!(f, "{inner}, and the mode `{}` allows no prompts", PermissionMode::DontAsk)
            }
        }
    }
}

/// Decides about a call. No setting, mode or trust of a user weakens a deny or ask rule of an administrator.
pub fn decide(
    rules: &PermissionRules,
    request: &CallRequest<'_>,
    chosen: PermissionMode,
) -> RuleDecision {
    let mode = rules.effective_mode(chosen);
    let allow = |reason| RuleDecision { effect: PermissionEffect::Allow, reason };
    let deny = |reason| RuleDecision { effect: PermissionEffect::Deny, reason };
    if let Some(entry) = rules.first_match(PermissionEffect::Deny, request) {
        return deny(DecisionReason::Rule(entry.clone()));
    }
    if mode == PermissionMode::Plan && request.hints.read_only != HintValue::Yes {
        return deny(DecisionReason::Mode(mode));
    }
    if let Some(reason) = must_ask(rules, request, mode) {
        return ask_or_deny(reason, mode);
    }
    if mode == PermissionMode::Bypass {
        return allow(DecisionReason::Mode(mode));
    }
    if let Some(entry) = rules.first_match(PermissionEffect::Allow, request) {
        return allow(DecisionReason::Rule(entry.clone()));
    }
    if mode == PermissionMode::AcceptEdits && request.trust.accepts_edit(request.hints) {
        return allow(DecisionReason::Mode(mode));
    }
    without_rule((request.hints, request.trust), mode)
}

/// Returns why the user must be asked, even if something else allows the call. The mode `bypass` skips a user's
/// own ask rules, but neither those of an administrator nor rules that could not be read.
fn must_ask(
    rules: &PermissionRules,
    request: &CallRequest<'_>,
    mode: PermissionMode,
) -> Option<DecisionReason> {
    let applies = |entry: &&RuleEntry| {
        mode != PermissionMode::Bypass || entry.authority == Authority::Administrator
    };
    let rule = rules
        .first_match(PermissionEffect::Ask, request)
        .filter(applies)
        .cloned()
        .map(DecisionReason::Rule);
    let unreadable = || rules.first_unreadable().cloned().map(DecisionReason::Unreadable);
    let invalid = || rules.first_invalid(request.server).cloned().map(DecisionReason::InvalidRule);
    rule.or_else(unreadable).or_else(invalid)
}

/// The decision about a call that no rule matches and no mode allows.
pub(super) fn without_rule(
    (hints, trust): (ToolHints, Trust),
    mode: PermissionMode,
) -> RuleDecision {
    let allow = |reason| RuleDecision { effect: PermissionEffect::Allow, reason };
    match trust {
        Trust::Trusted => allow(DecisionReason::TrustedServer),
        Trust::BuiltIn if hints.read_only == HintValue::Yes => {
            allow(DecisionReason::ReadOnlyBuiltIn)
        }
        Trust::BuiltIn | Trust::Untrusted => ask_or_deny(DecisionReason::NoMatchingRule, mode),
    }
}

pub(super) fn ask_or_deny(reason: DecisionReason, mode: PermissionMode) -> RuleDecision {
    match mode {
        PermissionMode::DontAsk => RuleDecision {
            effect: PermissionEffect::Deny,
            reason: DecisionReason::PromptsDisabled(Box::new(reason)),
        },
        PermissionMode::Plan
        | PermissionMode::Default
        | PermissionMode::AcceptEdits
        | PermissionMode::Bypass => RuleDecision { effect: PermissionEffect::Ask, reason },
    }
}

/// The decision about a tool whose definition changed since it was approved: what the rules allow needs a prompt, except
/// in the mode `bypass`. `mode` is the effective mode.
pub fn for_changed_definition(decision: RuleDecision, mode: PermissionMode) -> RuleDecision {
    match (decision.effect, mode) {
        (PermissionEffect::Deny | PermissionEffect::Ask, _)
        | (PermissionEffect::Allow, PermissionMode::Bypass) => decision,
        (
            PermissionEffect::Allow,
            PermissionMode::Plan
            | PermissionMode::Default
            | PermissionMode::AcceptEdits
            | PermissionMode::DontAsk,
        ) => ask_or_deny(DecisionReason::ChangedDefinition, mode),
    }
}

/// Is the tool denied whatever its arguments are? Then it is not in the pool.
pub fn tool_hidden_by(rules: &PermissionRules, server: &str, tool: &str) -> Option<DecisionReason> {
    unconditional_deny(rules, server, |entry| {
        entry.rule.tools_of(server, MatchMode::Broad).is_some_and(|tools| tools.matches(tool))
    })
}

/// Does one rule deny every tool of the server? Then none of them is in the pool, whatever their names are.
pub fn server_hidden_by(rules: &PermissionRules, server: &str) -> Option<DecisionReason> {
    let covers_every_tool = |entry: &RuleEntry| {
        let tools = entry.rule.tools_of(server, MatchMode::Broad);
        tools.is_some_and(|tools| {
            tools.pieces().iter().all(String::is_empty) && tools.has_wildcard()
        })
    };
    unconditional_deny(rules, server, covers_every_tool)
}

fn unconditional_deny(
    rules: &PermissionRules,
    server: &str,
    matches: impl Fn(&RuleEntry) -> bool,
) -> Option<DecisionReason> {
    rules
        .entries
        .candidates(PermissionEffect::Deny, server)
        .filter(|entry| entry.is_unconditional())
        .filter(|entry| matches(entry))
        .min_by(|one, other| by_precedence(one, other))
        .map(|entry| DecisionReason::Rule(entry.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::permission::NOTHING_SEEN;

    /// The decision about a built-in tool with these values of `readOnlyHint` and `openWorldHint`, by mode.
    #[track_caller]
    fn check(read_only: HintValue, open_world: HintValue, expected: [&str; 5]) {
        let hints = ToolHints { read_only, destructive: HintValue::Yes, open_world };
        let request = CallRequest {
            server: "switchboard",
            tool: "t",
            arguments: &json!({}),
            hints,
            trust: Trust::BuiltIn,
            seen: &NOTHING_SEEN,
        };
        let effect =
            |mode| decide(&PermissionRules::default(), &request, mode).effect.id().to_owned();
        assert_eq!(PermissionMode::ALL.map(effect), expected);
    }

    #[test]
    fn a_built_in_tool_that_reads_is_allowed_and_one_that_edits_in_the_mode_for_that() {
        use HintValue::{No, Yes};
        // The modes are plan, dontAsk, default, acceptEdits and bypass.
        check(Yes, No, ["allow", "allow", "allow", "allow", "allow"]);
        check(No, No, ["deny", "deny", "ask", "allow", "allow"]);
        check(No, Yes, ["deny", "deny", "ask", "ask", "allow"]);
    }
}
