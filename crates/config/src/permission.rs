//! Which calls may be made: rules of settings and session, modes and trust, decided by a pure function.
//! Reading rules from files is left to `settings`, asking a user to `host`.

mod approver;
mod approver_selection;
mod call;
mod command;
mod decision;
mod effect;
mod explanation;
mod mode;
mod possible_decisions;
mod predicate;
mod principals;
mod rule;
mod rule_entry;
mod rule_error;
mod rule_list;
mod rule_parser;
mod rules;
mod sdk_notation;
mod seen_tools;
mod suggestion;
#[cfg(test)]
mod tests;

pub use crate::pattern::Glob;
pub use crate::schema::PERMISSIONS_KEYS;
pub use approver::Approver;
pub use approver_selection::approver;
pub use call::{CallRequest, HintValue, ToolHints, Trust};
pub use decision::{
    DecisionReason, RuleDecision, decide, for_changed_definition, server_hidden_by, tool_hidden_by,
};
pub use effect::PermissionEffect;
pub use explanation::{ConsideredRule, Explanation, explain};
pub use mode::PermissionMode;
pub use possible_decisions::{CallWithoutArguments, possible_decisions};
pub use predicate::{Comparison, Predicate, PredicateMismatch};
pub(crate) use principals::ANY_PRINCIPAL;
pub use principals::Principals;
pub use rule::{AffectedServers, MatchResult, ToolRule, rule_name};
pub use rule_entry::RuleEntry;
pub use rule_error::{RuleError, RuleErrorKind};
pub use rules::{InvalidRule, PermissionRules};
pub(crate) use sdk_notation::RuleNotation;
pub use sdk_notation::{
    BUILT_IN_SERVER, RulePaths, SdkRule, SdkRuleText, parse_sdk_rule, sdk_rule_text, to_sdk_rule,
};
pub use seen_tools::{NOTHING_SEEN, SeenTools};
pub use suggestion::{RuleCoverage, Suggestion, suggestions};
