//! The possible decisions about a call whose arguments are unknown, for simulating rules on past calls.
//! The steps are those of `decision`; a property test compares the two.

use super::call::{HintValue, ToolHints, Trust};
use super::decision::{DecisionReason, RuleDecision, ask_or_deny, without_rule};
use super::effect::PermissionEffect;
use super::mode::PermissionMode;
use super::rule_entry::RuleEntry;
use super::rules::{PermissionRules, by_precedence};
use crate::source::Authority;

/// A call without its arguments.
#[derive(Debug, Clone, Copy)]
pub struct CallWithoutArguments<'a> {
    /// The server's name as it is in tool names.
    pub server: &'a str,
    /// The tool's name, in the same form.
    pub tool: &'a str,
    /// The server's hints about the tool, if they are known.
    pub hints: Option<ToolHints>,
    /// Is the server trusted?
    pub trust: Trust,
}

/// Returns every decision that some arguments lead to, the strictest first; several with one effect if several
/// rules may decide. The result of `decide` is always among them.
pub fn possible_decisions(
    rules: &PermissionRules,
    call: &CallWithoutArguments<'_>,
    chosen: PermissionMode,
) -> Vec<RuleDecision> {
    let mode = rules.effective_mode(chosen);
    let hint_set =
        |read_only, destructive, open_world| ToolHints { read_only, destructive, open_world };
    let every = [
        hint_set(HintValue::Unspecified, HintValue::Unspecified, HintValue::Unspecified),
        hint_set(HintValue::Yes, HintValue::No, HintValue::Unspecified),
        hint_set(HintValue::No, HintValue::No, HintValue::No),
        hint_set(HintValue::Yes, HintValue::No, HintValue::No),
    ];
    let hints_matter = matches!(mode, PermissionMode::Plan | PermissionMode::AcceptEdits)
        || call.trust == Trust::BuiltIn;
    let hints = match (&call.hints, hints_matter) {
        (Some(known), _) => std::slice::from_ref(known),
        (None, true) => &every[..],
        (None, false) => &every[..1],
    };
    let mut decisions = Vec::new();
    for hints in hints {
        for decision in with_hints(rules, call, *hints, mode) {
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
    call: &CallWithoutArguments<'_>,
    hints: ToolHints,
    mode: PermissionMode,
) -> Vec<RuleDecision> {
    let mut decisions = Vec::new();
    let rule = |effect, entry: &RuleEntry| RuleDecision {
        effect,
        reason: DecisionReason::Rule(entry.clone()),
    };
    let (conditional, unconditional) = rules.split_by_condition(PermissionEffect::Deny, call, mode);
    decisions.extend(conditional.into_iter().map(|entry| rule(PermissionEffect::Deny, entry)));
    if let Some(entry) = unconditional {
        decisions.push(rule(PermissionEffect::Deny, entry));
        return decisions;
    }
    if mode == PermissionMode::Plan && hints.read_only != HintValue::Yes {
        decisions.push(RuleDecision {
            effect: PermissionEffect::Deny,
            reason: DecisionReason::Mode(mode),
        });
        return decisions;
    }
    let (conditional, unconditional) = rules.split_by_condition(PermissionEffect::Ask, call, mode);
    let ask = |entry: &RuleEntry| ask_or_deny(DecisionReason::Rule(entry.clone()), mode);
    decisions.extend(conditional.into_iter().map(ask));
    let unreadable = || rules.first_unreadable().cloned().map(DecisionReason::Unreadable);
    let invalid = || rules.first_invalid(call.server).cloned().map(DecisionReason::InvalidRule);
    let unconditional = unconditional
        .map(|entry| DecisionReason::Rule(entry.clone()))
        .or_else(unreadable)
        .or_else(invalid);
    if let Some(reason) = unconditional {
        decisions.push(ask_or_deny(reason, mode));
        return decisions;
    }
    if mode == PermissionMode::Bypass {
        decisions.push(RuleDecision {
            effect: PermissionEffect::Allow,
            reason: DecisionReason::Mode(mode),
        });
        return decisions;
    }
    let (conditional, unconditional) =
        rules.split_by_condition(PermissionEffect::Allow, call, mode);
    decisions.extend(conditional.into_iter().map(|entry| rule(PermissionEffect::Allow, entry)));
    decisions.push(match (unconditional, call.trust) {
        (Some(entry), _) => rule(PermissionEffect::Allow, entry),
        (None, trust) if mode == PermissionMode::AcceptEdits && trust.accepts_edit(hints) => {
            RuleDecision { effect: PermissionEffect::Allow, reason: DecisionReason::Mode(mode) }
        }
        (None, trust) => without_rule((hints, trust), mode),
    });
    decisions
}

impl PermissionRules {
    /// Returns the conditional rules that may match the call, and the first unconditional rule that does.
    fn split_by_condition(
        &self,
        effect: PermissionEffect,
        call: &CallWithoutArguments<'_>,
        mode: PermissionMode,
    ) -> (Vec<&RuleEntry>, Option<&RuleEntry>) {
        let applies = |entry: &&RuleEntry| {
            effect != PermissionEffect::Ask
                || mode != PermissionMode::Bypass
                || entry.authority == Authority::Administrator
        };
        let matches = |entry: &&RuleEntry| {
            let tools = entry.rule.tools_of(call.server, effect.match_mode());
            tools.is_some_and(|tools| tools.matches(call.tool))
        };
        let matching = self.entries.candidates(effect, call.server).filter(matches).filter(applies);
        let (unconditional, mut conditional): (Vec<&RuleEntry>, Vec<&RuleEntry>) =
            matching.partition(|entry| entry.is_unconditional());
        conditional.sort_by(|one, other| by_precedence(one, other));
        (conditional, unconditional.into_iter().min_by(|one, other| by_precedence(one, other)))
    }
}
