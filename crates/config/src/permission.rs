//! Which calls may be made: rules of settings and session, modes and trust, decided by a pure function.
//! Who is asked, and what becomes of the answer, is left to the host.

pub(crate) mod call;
mod decision;
mod possible_decisions;
mod predicate;
pub(crate) mod rule;
pub(crate) mod rules;
mod suggestion;
#[cfg(test)]
mod tests;

pub use crate::pattern::glob::Glob;
pub use crate::settings::permissions::PERMISSIONS_KEYS;
pub use call::{CallRequest, HintValue, PermissionMode, ToolHints, Trust};
pub use decision::{
    ConsideredRule, DecisionReason, Explanation, RuleDecision, decide, explain, server_hidden_by,
    tool_hidden_by,
};
pub use possible_decisions::{CallWithoutArguments, possible_decisions};
pub use predicate::{Comparison, Predicate, PredicateMismatch};
pub use rule::{AffectedServers, MatchResult, RuleError, RuleErrorKind, ToolRule};
pub use rules::{InvalidRule, PermissionEffect, PermissionRules, RuleEntry};
pub use suggestion::{RuleCoverage, Suggestion, suggestions};
