//! Decides whether a call may be made: deny before ask before allow, whatever the scope and order of the rules.

use std::fmt;
use std::sync::Arc;

use super::call::{CallRequest, HintValue, Trust};
use super::effect::PermissionEffect;
use super::mode::PermissionMode;
use super::rules::{InvalidRule, PermissionRules, RuleEntry, by_precedence};
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
            DecisionReason::Rule(RuleEntry { effect, rule, origin, .. }) => {
                format!("the {effect} rule `{}` ({} settings)", rule.to_printable(), origin.scope())
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
            | DecisionReason::NoMatchingRule
            | DecisionReason::ChangedDefinition => self.to_string(),
        }
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecisionReason::Rule(entry) => {
                let RuleEntry { effect, rule, origin, .. } = entry;
                write!(f, "the {effect} rule `{}` ({origin})", rule.to_printable())
            }
            DecisionReason::InvalidRule(invalid) => {
                write!(f, "the {} rule in {} is not valid", invalid.effect, invalid.origin)
            }
            DecisionReason::Unreadable(source) => {
                write!(f, "the rules in {source} cannot be read")
            }
            DecisionReason::Mode(mode) => write!(f, "the mode `{mode}`"),
            DecisionReason::TrustedServer => f.write_str("the server is trusted"),
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
    if mode == PermissionMode::AcceptEdits && request.hints.is_safe_edit() {
        return allow(DecisionReason::Mode(mode));
    }
    match request.trust {
        Trust::Trusted => allow(DecisionReason::TrustedServer),
        Trust::Untrusted => ask_or_deny(DecisionReason::NoMatchingRule, mode),
    }
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
    unconditional_deny(rules, |entry| {
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
    unconditional_deny(rules, covers_every_tool)
}

fn unconditional_deny(
    rules: &PermissionRules,
    matches: impl Fn(&RuleEntry) -> bool,
) -> Option<DecisionReason> {
    rules
        .entries
        .iter()
        .filter(|entry| entry.effect == PermissionEffect::Deny && entry.rule.is_unconditional())
        .filter(|entry| matches(entry))
        .min_by(|one, other| by_precedence(one, other))
        .map(|entry| DecisionReason::Rule(entry.clone()))
}
