//! Reads `quotas` of a settings file: how many tools the clients of a gateway may call.

use super::section::Section;
use crate::document::{Member, Value, find_member};
use crate::permission::ToolRule;
use crate::problem::{ProblemSubject, Reporter};
pub use crate::schema::QUOTA_KEYS;

/// The key of the section.
pub(crate) const KEY: &str = "quotas";
/// The principal of a quota that every principal has.
const EVERY_PRINCIPAL: &str = "*";

/// A limit for the calls of a gateway's clients. All quotas that apply to a call hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallQuota {
    /// The principal; `None` if every principal has this quota for itself.
    pub principal: Option<String>,
    /// The tools whose calls count together; `None` for all.
    pub calls: Option<ToolRule>,
    /// The most calls per minute, with bursts of the same size.
    pub per_minute: Option<u64>,
    /// The most calls per day (UTC).
    pub per_day: Option<u64>,
    /// The most calls at the same time.
    pub concurrent: Option<u64>,
}

impl CallQuota {
    /// Does it apply to the calls of a principal?
    pub fn is_of(&self, principal: &str) -> bool {
        self.principal.as_ref().is_none_or(|it| it == principal)
    }

    /// Does a call of this tool count? Both names are those of rules.
    pub fn counts(&self, server: &str, tool: &str) -> bool {
        self.calls.as_ref().is_none_or(|rule| rule.names(server, tool))
    }

    /// What it counts, for messages: `all tools` or a rule.
    pub fn subject(&self) -> String {
        match &self.calls {
            Some(rule) => format!("`{rule}`"),
            None => "all tools".to_owned(),
        }
    }

    /// Identifies its counters. Changes of its limits do not change it.
    pub fn id(&self) -> String {
        let principal = self.principal.as_deref().unwrap_or(EVERY_PRINCIPAL);
        let calls = self.calls.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{principal} {calls}")
    }
}

/// Reads the section from the members of a settings file. A quota that cannot be read is reported and left out.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Vec<CallQuota> {
    let Some(member) = find_member(members, KEY).filter(|it| it.node.value != Value::Null) else {
        return Vec::new();
    };
    let Value::Array(items) = &member.node.value else {
        let subject = ProblemSubject { server: None, key: KEY };
        reporter.report_wrong_type(&member.node, subject, "an array of objects");
        return Vec::new();
    };
    let mut quotas = Vec::new();
    for item in items {
        let before = reporter.problems.len();
        let Some(mut section) = Section::of_item((KEY, member), item, QUOTA_KEYS, reporter) else {
            continue;
        };
        let principal = section.string("principal").filter(|it| it != EVERY_PRINCIPAL);
        let expected = "a rule without conditions on arguments, such as `mcp__server`";
        let rule = |text: &str| ToolRule::parse(text).ok().filter(ToolRule::is_unconditional);
        let calls = section.optional_one_of("calls", expected, rule);
        let per_minute = section.positive_integer("perMinute");
        let per_day = section.positive_integer("perDay");
        let concurrent = section.positive_integer("concurrent");
        let quota = CallQuota { principal, calls, per_minute, per_day, concurrent };
        // Without what is wrong, a quota would count other calls.
        if reporter.problems.len() > before {
            continue;
        }
        if quota.per_minute.is_none() && quota.per_day.is_none() && quota.concurrent.is_none() {
            let subject = ProblemSubject { server: None, key: KEY };
            let expected = "`perMinute`, `perDay` or `concurrent`";
            reporter.report_wrong_type(item, subject, expected);
            continue;
        }
        quotas.push(quota);
    }
    quotas
}

#[cfg(test)]
mod tests {
    use crate::settings::test_reader::{problem_keys, read};

    #[test]
    fn a_quota_is_of_a_principal_or_of_each_and_counts_some_calls_or_all() {
        let settings = read(
            r#"{"quotas": [
                {"perMinute": 60, "concurrent": 4},
                {"principal": "ci", "calls": "mcp__github__create_*", "perDay": 100},
                {"principal": "*", "calls": "mcp__github", "perDay": 500}
            ]}"#,
        );
        assert!(settings.layer.problems.is_empty(), "{:?}", settings.layer.problems);
        let [all, ci, github] = &settings.quotas[..] else { panic!("{:?}", settings.quotas) };
        assert_eq!((all.per_minute, all.per_day, all.concurrent), (Some(60), None, Some(4)));
        assert!(all.is_of("ada") && all.counts("github", "x") && all.counts("git", "x"));
        assert!(ci.is_of("ci") && !ci.is_of("ada"));
        assert!(ci.counts("github", "create_issue") && !ci.counts("github", "list"));
        assert!(github.counts("github", "list") && !github.counts("git", "list"));
        assert_eq!(github.subject(), "`mcp__github`");
    }

    #[test]
    fn invalid_quotas_are_reported_and_left_out() {
        let settings = read(
            r#"{"quotas": [
                {"perMinute": 0}, {"perminute": 5}, {"calls": "github", "perDay": 5},
                {"calls": "mcp__a(b=c)", "perDay": 5}, {"principal": "ci"}, 7, {"perDay": 5}
            ]}"#,
        );
        assert_eq!(
            problem_keys(&settings),
            [
                "quotas.perMinute",
                "quotas.perminute",
                "quotas.calls",
                "quotas.calls",
                "quotas",
                "quotas",
            ]
        );
        assert_eq!(settings.quotas.len(), 1);
        assert_eq!(problem_keys(&read(r#"{"quotas": {"perDay": 5}}"#)), ["quotas"]);
    }
}
