//! Explains a decision: every rule that was considered, and whether it matches the call.

use std::sync::Arc;

use super::call::CallRequest;
use super::decision::{RuleDecision, decide};
use super::mode::PermissionMode;
use super::rule::MatchResult;
use super::rules::{InvalidRule, PermissionRules, RuleEntry, by_precedence, invalid_by_origin};
use crate::source::{Origin, Source};

/// A decision, and everything that was looked at for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What was decided.
    pub decision: RuleDecision,
    /// The mode that counted.
    pub mode: PermissionMode,
    /// Where an administrator forbade the mode that was chosen, where that is so.
    pub mode_forbidden_by: Option<Origin>,
    /// Files whose rules could not be made out.
    pub unreadable: Vec<Arc<Source>>,
    /// Entries of every list that are no rules and may have been about the server.
    pub invalid: Vec<InvalidRule>,
    /// Every rule: deny, ask, allow, and of each an administrator's first.
    pub considered: Vec<ConsideredRule>,
}

/// A rule that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsideredRule {
    /// The rule and its place.
    pub entry: RuleEntry,
    /// Is it about the request, and if not, why?
    pub result: MatchResult,
}

/// Decides, and tells of every rule whether it is about the request.
pub fn explain(
    rules: &PermissionRules,
    request: &CallRequest<'_>,
    chosen: PermissionMode,
) -> Explanation {
    let mode = rules.effective_mode(chosen);
    let consider = |entry: &RuleEntry| ConsideredRule {
        result: entry.rule.match_call(request, entry.effect.match_mode()),
        entry: entry.clone(),
    };
    let mut considered: Vec<ConsideredRule> = rules.entries.iter().map(consider).collect();
    considered.sort_by(|one, other| {
        let by_effect = other.entry.effect.cmp(&one.entry.effect);
        by_effect.then_with(|| by_precedence(&one.entry, &other.entry))
    });
    let is_about = |invalid: &&InvalidRule| invalid.affected.includes(request.server);
    let mut invalid: Vec<InvalidRule> = rules.invalid.iter().filter(is_about).cloned().collect();
    invalid.sort_by(invalid_by_origin);
    let mut unreadable = rules.unreadable.clone();
    unreadable.sort();
    Explanation {
        decision: decide(rules, request, chosen),
        mode,
        mode_forbidden_by: rules.bypass_disabled().filter(|_| mode != chosen).cloned(),
        unreadable,
        invalid,
        considered,
    }
}
