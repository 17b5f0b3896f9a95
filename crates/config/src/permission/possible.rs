//! What may be decided about a call whose arguments nobody knows any more: for asking of past calls what other
//! rules would have said. Follows `decision` step by step; a test holds the two together.

use super::decision::{DecisionReason, RuleDecision, ask_or_deny};
use super::request::{HintValue, PermissionMode, ToolHints, Trust};
use super::rules::{PermissionEffect, PermissionRules, RuleEntry, by_precedence};
use crate::policy::Authority;

/// A call without its arguments.
#[derive(Debug, Clone, Copy)]
pub struct CallWithoutArguments<'a> {
    /// The server's name as tool names hold it.
    pub server: &'a str,
    /// The tool's name, likewise.
    pub tool: &'a str,
    /// What the server says of the tool, where that is known.
    pub hints: Option<ToolHints>,
    /// Are the server's tools approved beforehand?
    pub trust: Trust,
}

/// Every decision that some arguments lead to, the strictest first; several of one verdict where several rules
/// may be what decides. What `decide` says is always among them.
pub fn possible_decisions(
    rules: &PermissionRules,
    subject: &CallWithoutArguments<'_>,
    chosen: PermissionMode,
) -> Vec<RuleDecision> {
    let mode = rules.effective_mode(chosen);
    let said =
        |read_only, destructive, open_world| ToolHints { read_only, destructive, open_world };
    let every = [
        said(HintValue::Unspecified, HintValue::Unspecified, HintValue::Unspecified),
        said(HintValue::Yes, HintValue::No, HintValue::Unspecified),
        said(HintValue::No, HintValue::No, HintValue::No),
        said(HintValue::Yes, HintValue::No, HintValue::No),
    ];
    let matters = matches!(mode, PermissionMode::Plan | PermissionMode::AcceptEdits);
    let hints = match (&subject.hints, matters) {
        (Some(known), _) => std::slice::from_ref(known),
        (None, true) => &every[..],
        (None, false) => &every[..1],
    };
    let mut decisions = Vec::new();
    for hints in hints {
        for decision in with_hints(rules, subject, *hints, mode) {
            if !decisions.contains(&decision) {
                decisions.push(decision);
            }
        }
    }
    decisions.sort_by_key(|decision| std::cmp::Reverse(decision.effect));
    decisions
}

fn with_hints(
    rules: &PermissionRules,
    subject: &CallWithoutArguments<'_>,
    hints: ToolHints,
    mode: PermissionMode,
) -> Vec<RuleDecision> {
    let mut decisions = Vec::new();
    let rule = |verdict, listed: &RuleEntry| RuleDecision {
        effect: verdict,
        reason: DecisionReason::Rule(listed.clone()),
    };
    let (may, must) = rules.split_by_condition(PermissionEffect::Deny, subject, mode);
    decisions.extend(may.into_iter().map(|listed| rule(PermissionEffect::Deny, listed)));
    if let Some(listed) = must {
        decisions.push(rule(PermissionEffect::Deny, listed));
        return decisions;
    }
    if mode == PermissionMode::Plan && hints.read_only != HintValue::Yes {
        decisions.push(RuleDecision {
            effect: PermissionEffect::Deny,
            reason: DecisionReason::Mode(mode),
        });
        return decisions;
    }
    let (may, must) = rules.split_by_condition(PermissionEffect::Ask, subject, mode);
    let ask = |listed: &RuleEntry| ask_or_deny(DecisionReason::Rule(listed.clone()), mode);
    decisions.extend(may.into_iter().map(ask));
    let lost = || rules.first_unreadable().cloned().map(DecisionReason::Unreadable);
    let broken = || rules.first_invalid(subject.server).cloned().map(DecisionReason::InvalidRule);
    let must =
        must.map(|listed| DecisionReason::Rule(listed.clone())).or_else(lost).or_else(broken);
    if let Some(because) = must {
        decisions.push(ask_or_deny(because, mode));
        return decisions;
    }
    if mode == PermissionMode::Bypass {
        decisions.push(RuleDecision {
            effect: PermissionEffect::Allow,
            reason: DecisionReason::Mode(mode),
        });
        return decisions;
    }
    let (may, must) = rules.split_by_condition(PermissionEffect::Allow, subject, mode);
    decisions.extend(may.into_iter().map(|listed| rule(PermissionEffect::Allow, listed)));
    decisions.push(match (must, subject.trust) {
        (Some(listed), _) => rule(PermissionEffect::Allow, listed),
        (None, _) if mode == PermissionMode::AcceptEdits && hints.is_safe_edit() => {
            RuleDecision { effect: PermissionEffect::Allow, reason: DecisionReason::Mode(mode) }
        }
        (None, Trust::Trusted) => {
            RuleDecision { effect: PermissionEffect::Allow, reason: DecisionReason::TrustedServer }
        }
        (None, Trust::Untrusted) => ask_or_deny(DecisionReason::NoMatchingRule, mode),
    });
    decisions
}

impl PermissionRules {
    /// The rules of a list that may be about the subject, and the weightiest that is about it in any case.
    fn split_by_condition(
        &self,
        effect: PermissionEffect,
        subject: &CallWithoutArguments<'_>,
        mode: PermissionMode,
    ) -> (Vec<&RuleEntry>, Option<&RuleEntry>) {
        let counts = |listed: &&RuleEntry| {
            effect != PermissionEffect::Ask
                || mode != PermissionMode::Bypass
                || listed.authority == Authority::Administrator
        };
        let is_about = |listed: &&RuleEntry| {
            let tools = listed.rule.tools_of(subject.server, effect.match_mode());
            listed.effect == effect && tools.is_some_and(|tools| tools.matches(subject.tool))
        };
        let about = self.entries.iter().filter(is_about).filter(counts);
        let (must, mut may): (Vec<&RuleEntry>, Vec<&RuleEntry>) =
            about.partition(|listed| listed.rule.is_unconditional());
        may.sort_by(|one, other| by_precedence(one, other));
        (may, must.into_iter().min_by(|one, other| by_precedence(one, other)))
    }
}
