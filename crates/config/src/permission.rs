//! Which calls may be made: rules of settings and session, modes and trust, decided by a pure function.
//! Who is asked, and what becomes of the answer, is left to the host.

mod decision;
mod glob;
mod possible;
mod predicate;
#[cfg(test)]
mod proofs;
pub(crate) mod reading;
mod request;
mod rule;
mod rules;
mod suggestion;

pub use decision::{
    ConsideredRule, DecisionReason, Explanation, RuleDecision, decide, explain, server_hidden_by,
    tool_hidden_by,
};
pub use glob::Glob;
pub use possible::{CallWithoutArguments, possible_decisions};
pub use predicate::{Comparison, Predicate, PredicateMismatch};
pub use reading::PERMISSIONS_KEYS;
pub use request::{CallRequest, HintValue, PermissionMode, ToolHints, Trust};
pub use rule::{AffectedServers, MatchResult, RuleError, RuleErrorKind, ToolRule};
pub use rules::{InvalidRule, PermissionEffect, PermissionRules, RuleEntry};
pub use suggestion::{RuleCoverage, Suggestion, suggestions};
