//! Explains a decision: every rule that was considered, and whether it matches the call.

use std::sync::Arc;

use super::call::CallRequest;
use super::decision::{RuleDecision, decide};
use super::mode::PermissionMode;
use super::rule::MatchResult;
use super::rule_entry::RuleEntry;
use super::rules::{InvalidRule, PermissionRules, by_precedence, invalid_by_origin};
use crate::source::{Origin, Source};

/// A decision and everything that was considered for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The decision.
    pub decision: RuleDecision,
    /// The effective mode.
    pub mode: PermissionMode,
    /// The source in which an administrator disabled the chosen mode, if any.
    pub mode_forbidden_by: Option<Origin>,
    /// Files whose rules could not be read.
    pub unreadable: Vec<Arc<Source>>,
    /// Entries of all lists that are not valid rules and may apply to the server.
    pub invalid: Vec<InvalidRule>,
    /// Every rule: deny, ask, allow, and in each group those of administrators first.
    pub considered: Vec<ConsideredRule>,
}

/// A rule that was considered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsideredRule {
    /// The rule and its position.
    pub entry: RuleEntry,
    /// Whether it matches the call, and if not, why.
    pub result: MatchResult,
}

/// Decides about a call and says for every rule whether it matches.
pub fn explain(
    rules: &PermissionRules,
    request: &CallRequest<'_>,
    chosen: PermissionMode,
) -> Explanation {
    let mode = rules.effective_mode(chosen);
    let consider = |entry: &RuleEntry| ConsideredRule {
        result: entry.match_call(request),
        entry: entry.clone(),
    };
    let mut considered: Vec<ConsideredRule> = rules.entries.iter().map(consider).collect();
    considered.sort_by(|one, other| {
        let by_effect = other.entry.effect.cmp(&one.entry.effect);
        by_effect.then_with(|| by_precedence(&one.entry, &other.entry))
    });
    let affects_server = |invalid: &&InvalidRule| invalid.affected.includes(request.server);
    let mut invalid: Vec<InvalidRule> =
        rules.invalid.iter().filter(affects_server).cloned().collect();
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
