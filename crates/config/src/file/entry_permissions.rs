//! Reads `permissions` of a server's entry. A server with an invalid rule in its own entry is left out.

use std::collections::HashSet;

use super::listed_rule::ListedRule;
use super::permission_section::{EFFECTS, KEY, dotted, span_of};
use crate::document::{Node, Value, find_member};
use crate::permission::{PermissionEffect, RuleEntry, ToolRule};
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
use crate::schema::nearest;
use crate::scope::Scope;
use crate::source::Authority;

/// Reads the section of a server's entry. Its rules name a tool of the server, `tool(argument=value)`, or are written as in
/// settings. What others than the user or an administrator wrote only restricts.
pub(crate) fn read_entry(
    server: &EntryServer<'_>,
    node: &Node,
    reporter: &mut Reporter<'_>,
) -> Vec<RuleEntry> {
    let Value::Object(members) = &node.value else { return Vec::new() };
    let Some(member) = find_member(members, KEY) else { return Vec::new() };
    let Value::Object(lists) = &member.node.value else {
        let subject = ProblemSubject { server: Some(server.key), key: KEY };
        reporter.report_wrong_type(&member.node, subject, "an object");
        return Vec::new();
    };
    let mut rules = Vec::new();
    let mut seen = HashSet::new();
    for list in lists {
        let key = dotted(&list.key);
        let subject = ProblemSubject { server: Some(server.key), key: &key };
        let Some(effect) = EFFECTS.into_iter().find(|effect| effect.id() == list.key) else {
            let nearest = nearest(&list.key, EFFECTS.iter().map(|effect| effect.id()));
            reporter.report(list.key_span, subject, ProblemKind::UnknownKey { nearest });
            continue;
        };
        if !seen.insert(list.key.as_str()) {
            reporter.report(list.key_span, subject, ProblemKind::AmbiguousRules);
            continue;
        }
        let Value::Array(nodes) = &list.node.value else {
            reporter.report_wrong_type(&list.node, subject, "an array of rules");
            continue;
        };
        if effect == PermissionEffect::Allow && !server.may_allow() {
            reporter.report(list.key_span, subject, ProblemKind::UserOnly);
        }
        for (index, node) in nodes.iter().enumerate() {
            let key = format!("{key}[{index}]");
            rules.extend(read_entry_rule(server, node, (effect, &key), reporter));
        }
    }
    rules.retain(|rule| rule.effect != PermissionEffect::Allow || server.may_allow());
    rules
}

fn read_entry_rule(
    server: &EntryServer<'_>,
    node: &Node,
    (effect, key): (PermissionEffect, &str),
    reporter: &mut Reporter<'_>,
) -> Option<RuleEntry> {
    let subject = ProblemSubject { server: Some(server.key), key };
    let ListedRule { node, key, approver, after, duplicate } =
        ListedRule::read(node, effect, subject, reporter);
    let subject = ProblemSubject { server: Some(server.key), key: &key };
    if let Some(duplicate) = duplicate {
        reporter.report(duplicate.key_span, subject, ProblemKind::AmbiguousRules);
        return None;
    }
    let Value::String(text) = &node.value else {
        reporter.report_wrong_type(node, subject, "a string");
        return None;
    };
    let after = after?;
    // Who is asked is not the decision of those who may not allow.
    let approver = approver.filter(|_| server.may_allow());
    match ToolRule::parse_in_entry(text, &server.rule_name) {
        Ok(rule) => {
            let (origin, authority) = (reporter.origin(node.span), server.authority());
            Some(RuleEntry { effect, rule, origin, authority, approver, after })
        }
        Err(error) => {
            let span = span_of(&error, node.span, text);
            reporter.report(span, subject, ProblemKind::InvalidEntryRule(error.kind));
            None
        }
    }
}

/// The server whose entry contains rules.
pub(crate) struct EntryServer<'a> {
    /// Its key in the file.
    pub(crate) key: &'a str,
    /// Its name in rules.
    pub(crate) rule_name: String,
    /// The scope of the file.
    pub(crate) scope: Scope,
}

impl EntryServer<'_> {
    /// Only a user and an administrator may allow calls.
    fn may_allow(&self) -> bool {
        match self.scope {
            Scope::Enterprise | Scope::Dynamic | Scope::Local | Scope::User => true,
            Scope::Connectors | Scope::Project | Scope::Plugin => false,
        }
    }

    fn authority(&self) -> Authority {
        match self.scope {
            Scope::Enterprise => Authority::Administrator,
            Scope::Dynamic
            | Scope::Local
            | Scope::User
            | Scope::Connectors
            | Scope::Project
            | Scope::Plugin => Authority::User,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::file::{FileShape, Layer, Naming};
    use crate::scope::Scope;
    use crate::source::Source;

    /// Lists the approvers of the rules of an entry, and the problems.
    #[track_caller]
    fn check(scope: Scope, permissions: &str, expected: &[&str]) {
        let text = format!(
            r#"{{"mcpServers": {{"s": {{"command": "x", "permissions": {permissions}}}}}}}"#
        );
        let source = Source::file(scope, "f");
        let layer = Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped);
        let definition = &layer.definitions[0];
        let mut found: Vec<String> = Vec::new();
        for it in &definition.rules {
            let approver = it.approver.map_or("-", |it| it.id());
            found.push(format!("{} {} {approver}", it.effect, it.rule));
        }
        for problem in &definition.problems {
            let key = problem.key.as_deref().unwrap_or_default();
            found.push(format!("{:?} {key}: {}", problem.severity(), problem.kind));
        }
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn an_entry_says_who_is_asked_as_settings_do() {
        let operator = r#"{"ask": ["read", {"rule": "push", "approver": "operator"}]}"#;
        check(Scope::User, operator, &["ask mcp__s__read -", "ask mcp__s__push operator"]);
        // A project's file may ask, but not say that the client answers.
        let client = r#"{"ask": [{"rule": "mcp__s__push", "approver": "client"}]}"#;
        check(Scope::User, client, &["ask mcp__s__push client"]);
        check(Scope::Project, client, &["ask mcp__s__push -"]);
    }

    #[test]
    fn an_object_that_cannot_be_read_leaves_the_server_out() {
        check(
            Scope::User,
            r#"{"ask": [{"rule": "push", "approver": "me"}]}"#,
            &[
                "ask mcp__s__push both",
                "Error permissions.ask[0].approver: expected `client`, `operator` or `both`, found a string",
            ],
        );
        check(
            Scope::User,
            r#"{"ask": [{"approver": "client"}], "deny": [{"rule": "push"}]}"#,
            &[
                "deny mcp__s__push -",
                "Error permissions.ask[0].rule: expected a string, found an object",
            ],
        );
        check(
            Scope::User,
            r#"{"ask": [{"rule": "push", "rule": "pull"}]}"#,
            &[
                "Error permissions.ask[0].rule: duplicate key; until one is removed, the server is left out",
            ],
        );
    }
}
