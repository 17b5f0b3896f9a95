//! Reads the keys that decide which servers may run: `allowedMcpServers`, `deniedMcpServers`,
//! `allowManagedMcpServersOnly` and `disabledMcpServers`.

use super::DisabledServer;
use crate::document::{Member, Node, Span, Value, find_member};
use crate::pattern::UrlPattern;
use crate::policy::{AllowList, Matcher, MatcherKind, Policy, PolicyRule};
use crate::problem::{PolicyList, Problem, ProblemKind, ProblemSubject, Reporter};
use crate::source::{Authority, Origin};
use crate::template::Template;

/// Keys that must be valid, because otherwise a server might run that should not.
pub(super) const POLICY_LIST_KEYS: [&str; 4] =
    ["allowedMcpServers", "deniedMcpServers", "allowManagedMcpServersOnly", "disabledMcpServers"];

/// Is a whole list unreadable? A single invalid entry does not count: the others still apply.
pub(super) fn is_list_unreadable(problem: &Problem) -> bool {
    let is_list = problem.key.as_deref().is_some_and(|key| POLICY_LIST_KEYS.contains(&key));
    is_list && matches!(problem.kind, ProblemKind::WrongType { .. } | ProblemKind::DuplicateKey)
}

/// Reads the policy lists of a settings file.
pub(super) fn read(
    members: &[Member],
    authority: Authority,
    reporter: &mut Reporter<'_>,
) -> Policy {
    Reader { authority, reporter }.policy(members)
}

/// Reads `disabledMcpServers` of a settings file.
pub(super) fn read_disabled(
    members: &[Member],
    authority: Authority,
    reporter: &mut Reporter<'_>,
) -> Vec<DisabledServer> {
    Reader { authority, reporter }.disabled(members)
}

struct Reader<'r, 'l> {
    authority: Authority,
    reporter: &'r mut Reporter<'l>,
}

impl Reader<'_, '_> {
    fn policy(&mut self, members: &[Member]) -> Policy {
        let mut policy = Policy::default();
        if let Some((member, nodes)) = self.list(members, "allowedMcpServers") {
            policy.allow.push(AllowList {
                rules: self.rules(&nodes, "allowedMcpServers", PolicyList::Allowed),
                origin: self.reporter.origin(member.key_span),
                authority: self.authority,
            });
        }
        if let Some((_, nodes)) = self.list(members, "deniedMcpServers") {
            policy.deny = self.rules(&nodes, "deniedMcpServers", PolicyList::Denied);
        }
        policy.managed_only = self.managed_only(members);
        policy.command_path = self.command_path(members);
        policy
    }

    fn command_path(&mut self, members: &[Member]) -> Option<String> {
        const KEY: &str = "commandPath";
        let member = find_member(members, KEY)?;
        if self.authority == Authority::User {
            let subject = ProblemSubject { server: None, key: KEY };
            self.reporter.report(member.key_span, subject, ProblemKind::ManagedOnly);
            return None;
        }
        let Value::String(path) = &member.node.value else {
            self.report_wrong_type(&member.node, KEY, "a string");
            return None;
        };
        Some(path.clone())
    }

    fn managed_only(&mut self, members: &[Member]) -> Option<Origin> {
        const KEY: &str = "allowManagedMcpServersOnly";
        let member = find_member(members, KEY)?;
        if self.authority == Authority::User {
            let subject = ProblemSubject { server: None, key: KEY };
            self.reporter.report(member.key_span, subject, ProblemKind::ManagedOnly);
            return None;
        }
        let Value::Bool(value) = member.node.value else {
            self.report_wrong_type(&member.node, KEY, "true or false");
            return None;
        };
        value.then(|| self.reporter.origin(member.key_span))
    }

    fn disabled(&mut self, members: &[Member]) -> Vec<DisabledServer> {
        const KEY: &str = "disabledMcpServers";
        let Some((_, nodes)) = self.list(members, KEY) else { return Vec::new() };
        let mut names = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            match &node.value {
                Value::String(name) => {
                    let origin = self.reporter.origin(node.span);
                    names.push(DisabledServer { name: name.clone(), origin });
                }
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => {
                    self.report_wrong_type(node, &format!("{KEY}[{index}]"), "a string")
                }
            }
        }
        names
    }

    fn list<'m>(
        &mut self,
        members: &'m [Member],
        key: &str,
    ) -> Option<(&'m Member, Vec<&'m Node>)> {
        let member = find_member(members, key)?;
        if self.authority == Authority::User && member.node.value == Value::Null {
            return None;
        }
        let Value::Array(elements) = &member.node.value else {
            self.report_wrong_type(&member.node, key, "an array");
            return None;
        };
        Some((member, elements.iter().collect()))
    }

    fn rules(&mut self, nodes: &[&Node], key: &str, list: PolicyList) -> Vec<PolicyRule> {
        let mut rules = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let matcher = parse_matcher(node).unwrap_or_else(|span| {
                let key = format!("{key}[{index}]");
                let subject = ProblemSubject { server: None, key: &key };
                self.reporter.report(span, subject, ProblemKind::InvalidPolicyEntry(list));
                Matcher::Invalid(intended_kinds(node))
            });
            rules.push(PolicyRule { matcher, origin: self.reporter.origin(node.span) });
        }
        rules
    }

    fn report_wrong_type(&mut self, node: &Node, key: &str, expected: &'static str) {
        self.reporter.report_wrong_type(node, ProblemSubject { server: None, key }, expected);
    }
}

/// Returns the kinds of matcher that an invalid entry was meant for.
fn intended_kinds(node: &Node) -> Vec<MatcherKind> {
    let Value::Object(members) = &node.value else { return Vec::new() };
    let intended_kind = |member: &Member| match member.key.as_str() {
        "serverCommand" => Some(MatcherKind::Command),
        "serverUrl" => Some(MatcherKind::Url),
        _ => None,
    };
    members.iter().filter_map(intended_kind).collect()
}

/// Parses one policy entry, or returns the position of the error.
fn parse_matcher(node: &Node) -> Result<Matcher, Span> {
    let Value::Object(members) = &node.value else { return Err(node.span) };
    let [member] = &members[..] else { return Err(node.span) };
    match (member.key.as_str(), &member.node.value) {
        ("serverName", Value::String(name)) => Ok(Matcher::Name(name.clone())),
        ("serverCommand", Value::Array(parts)) if !parts.is_empty() => {
            let part = |part: &Node| match &part.value {
                Value::String(text) => Ok(Template::parse(text)),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => Err(part.span),
            };
            Ok(Matcher::Command(parts.iter().map(part).collect::<Result<_, _>>()?))
        }
        ("serverUrl", Value::String(pattern)) => {
            UrlPattern::parse(pattern).map(Matcher::Url).ok_or(member.node.span)
        }
        _ => Err(member.key_span),
    }
}
