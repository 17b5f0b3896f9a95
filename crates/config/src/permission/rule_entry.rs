//! A rule in a list of a settings file or of the session: its effect, its position, and its condition on what the session
//! has seen. `rule` parses and compares the rule itself.

use super::approver::Approver;
use super::call::CallRequest;
use super::effect::PermissionEffect;
use super::rule::{MatchResult, ToolRule};
use super::seen_tools::{SeenOfServer, SeenTools};
use crate::pattern::MatchMode;
use crate::source::{Authority, Origin};

/// A rule in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleEntry {
    /// The list that it is in.
    pub effect: PermissionEffect,
    /// The rule.
    pub rule: ToolRule,
    /// The position of the rule.
    pub origin: Origin,
    /// The author of the rule.
    pub authority: Authority,
    /// The approver of calls of a gateway's clients, if the rule or its file names one.
    pub approver: Option<Approver>,
    /// The rule applies only in a session that has seen a result of a tool that one of these names. Without any, it
    /// applies in every session.
    pub after: Vec<ToolRule>,
}

impl RuleEntry {
    /// Compares the rule with a call, and its condition with what the session has seen.
    pub fn match_call(&self, request: &CallRequest<'_>) -> MatchResult {
        let result = self.rule.match_call(request, self.effect.match_mode());
        if matches!(result, MatchResult::Matches) && !self.applies_after(request.seen) {
            let after = self.after.iter().map(ToString::to_string).collect();
            return MatchResult::NotSeen { after };
        }
        result
    }

    fn applies_after(&self, seen: &SeenTools) -> bool {
        self.after.is_empty() || self.after.iter().any(|rule| rule.names_any(seen))
    }

    /// Does it apply whatever the arguments are, and whatever the session has seen?
    pub fn is_unconditional(&self) -> bool {
        self.after.is_empty() && self.rule.is_unconditional()
    }

    /// The rule with its effect and its condition: "deny rule `mcp__a` after results of `mcp__b`".
    pub fn description(&self) -> String {
        let rule = self.rule.to_printable();
        let mut text = [self.effect.id(), " rule `", &rule, "`"].concat();
        for (index, source) in self.after.iter().enumerate() {
            let separator = if index == 0 { " after results of" } else { " or" };
            text.push_str(&format!("{separator} `{}`", source.to_printable()));
        }
        text
    }
}

impl ToolRule {
    /// Does the rule name one of these tools? Its conditions on arguments do not count.
    pub fn names_any(&self, seen: &SeenTools) -> bool {
        seen.servers().any(|(server, seen)| {
            let tools = self.tools_of(server, MatchMode::Broad);
            tools.is_some_and(|named| match seen {
                SeenOfServer::Tools(tools) => tools.iter().any(|it| named.matches(it)),
                SeenOfServer::EveryTool => true,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_a_server_or_some_of_its_tools() {
        let mut seen = SeenTools::default();
        let names =
            |seen: &SeenTools, rule: &str| ToolRule::parse(rule).expect("a rule").names_any(seen);
        assert!(!names(&seen, "mcp__crm"));
        seen.insert("crm", "get_customer");
        assert!(names(&seen, "mcp__crm") && names(&seen, "mcp__crm__get_*"));
        assert!(!names(&seen, "mcp__crm__list") && !names(&seen, "mcp__cr"));
        for number in 0..2000 {
            seen.insert("crm", &format!("t{number}"));
        }
        assert!(names(&seen, "mcp__crm__anything"), "too many to list");
    }
}
