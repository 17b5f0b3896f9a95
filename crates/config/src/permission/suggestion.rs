//! Suggests rules to a user who is asked about a call, so that the next such call needs no prompt.

use serde_json::Value as Json;

use super::call::CallRequest;
use super::predicate::{Comparison, Predicate};
use super::rule::{MatchResult, ToolRule};
use crate::display;
use crate::pattern::{Glob, MatchMode};

/// The maximum number of arguments in a suggested rule.
const MAX_ARGUMENTS: usize = 2;
/// The maximum length of a value in a suggested rule, in characters.
const MAX_VALUE_LENGTH: usize = 80;

/// A rule that allows the call next time, unless another rule asks or denies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// How much the rule covers.
    pub coverage: RuleCoverage,
    /// The rule.
    pub rule: ToolRule,
}

/// How much a suggested rule covers, from the narrowest to the broadest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleCoverage {
    /// The tool with these arguments.
    Arguments,
    /// The tool.
    Tool,
    /// Every tool of the server.
    Server,
}

/// Returns the rules that allow the call next time, the narrowest first.
pub fn suggestions(request: &CallRequest<'_>) -> Vec<Suggestion> {
    let CallRequest { server, tool, .. } = *request;
    let exact = argument_predicates(request.arguments)
        .map(|predicates| (RuleCoverage::Arguments, ToolRule::for_tool(server, tool, predicates)));
    let tool = (RuleCoverage::Tool, ToolRule::for_tool(server, tool, Vec::new()));
    let server = (RuleCoverage::Server, ToolRule::for_server(server));
    let allows_request = |rule: &ToolRule| {
        let read = ToolRule::parse(&rule.to_string());
        read.is_ok_and(|read| {
            read == *rule && read.match_call(request, MatchMode::Strict) == MatchResult::Matches
        })
    };
    exact
        .into_iter()
        .chain([tool, server])
        // Some names cannot be written in a rule.
        .filter(|(_, rule)| allows_request(rule))
        .map(|(coverage, rule)| Suggestion { coverage, rule })
        .collect()
}

/// Returns predicates for exactly these arguments, if they are few short strings.
fn argument_predicates(arguments: &Json) -> Option<Vec<Predicate>> {
    let members = arguments.as_object()?;
    if members.is_empty() || members.len() > MAX_ARGUMENTS {
        return None;
    }
    members.iter().map(|(name, value)| argument_predicate(name, value)).collect()
}

fn argument_predicate(name: &str, value: &Json) -> Option<Predicate> {
    let text = value.as_str()?;
    let is_plain_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let is_short = text.chars().take(MAX_VALUE_LENGTH + 1).count() <= MAX_VALUE_LENGTH;
    // A rule is written to a file and shown, so it must contain no invisible characters and no secrets.
    let is_visible = display::printable(text) == text && !text.contains(char::is_control);
    let is_secret = display::is_secret_name(name) || display::looks_like_token(text);
    (is_plain_name && is_short && is_visible && !is_secret).then(|| Predicate {
        key: vec![name.to_owned()],
        comparison: Comparison::Equal,
        value: Glob::literal(text),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::permission::NOTHING_SEEN;
    use crate::permission::call::{ToolHints, Trust};

    #[track_caller]
    fn check((server, tool): (&str, &str), arguments: Json, expected: &[&str]) {
        let (hints, trust) = (ToolHints::default(), Trust::Untrusted);
        let request =
            CallRequest { server, tool, arguments: &arguments, hints, trust, seen: &NOTHING_SEEN };
        let found: Vec<String> =
            suggestions(&request).iter().map(|suggestion| suggestion.rule.to_string()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_narrowest_rule_comes_first() {
        check(
            ("files", "read"),
            json!({"path": "/srv/a, b"}),
            &[r#"mcp__files__read(path="/srv/a, b")"#, "mcp__files__read", "mcp__files"],
        );
    }

    #[test]
    fn many_long_secret_or_non_string_arguments_are_not_suggested() {
        for arguments in [
            json!({}),
            json!({"a": "1", "b": "2", "c": "3"}),
            json!({"a": "x".repeat(81)}),
            json!({"a": "x", "b": 5}),
            json!({"a": "two\nlines"}),
            json!({"password": "x"}),
            json!({"a": "ghp_0123456789abcdef"}),
            json!({"a.b": "x"}),
            json!([]),
        ] {
            check(("files", "read"), arguments, &["mcp__files__read", "mcp__files"]);
        }
    }

    #[test]
    fn a_star_in_an_argument_is_escaped() {
        check(
            ("sql", "run"),
            json!({"query": "select *"}),
            &[r#"mcp__sql__run(query="select \*")"#, "mcp__sql__run", "mcp__sql"],
        );
    }

    #[test]
    fn a_rule_for_a_server_with_the_separator_in_its_name_ends_with_a_wildcard() {
        check(("plugin_x__y", "run"), json!({}), &["mcp__plugin_x__y__run", "mcp__plugin_x__y__*"]);
    }

    #[test]
    fn names_that_a_rule_cannot_contain_get_no_suggestion() {
        check(("files", "read me"), json!({}), &["mcp__files"]);
        check(("", ""), json!({}), &[]);
    }
}
