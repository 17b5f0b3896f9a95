//! Reads an item of a list of rules: the text of a rule or, in `ask` and `deny`, an object with a rule, its condition and,
//! in `ask`, its approver.

use std::collections::HashSet;

use crate::document::{Member, Node, Value, find_member};
use crate::permission::{Approver, PermissionEffect, ToolRule};
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
use crate::schema::nearest;

/// The keys of an item that is an object.
fn keys(effect: PermissionEffect) -> &'static [&'static str] {
    match effect {
        PermissionEffect::Ask => &["rule", "approver", "after"],
        PermissionEffect::Deny | PermissionEffect::Allow => &["rule", "after"],
    }
}

/// An item of a list of rules.
pub(super) struct ListedRule<'n> {
    /// The text of the rule; the item itself if there is none.
    pub(super) node: &'n Node,
    /// The key of the text, for messages.
    pub(super) key: String,
    /// The approver that the item names.
    pub(super) approver: Option<Approver>,
    /// The condition of the item: the results after which it applies. `None` if it cannot be read, so that the item is
    /// not a valid rule. What is wrong was reported.
    pub(super) after: Option<Vec<ToolRule>>,
    /// A key that is there twice, so that the item is ambiguous. The caller reports it.
    pub(super) duplicate: Option<&'n Member>,
}

impl<'n> ListedRule<'n> {
    /// Reads an item of the list of an effect.
    pub(super) fn read(
        node: &'n Node,
        effect: PermissionEffect,
        subject: ProblemSubject<'_>,
        reporter: &mut Reporter<'_>,
    ) -> ListedRule<'n> {
        let Some(members) = object_of(node, effect) else {
            let key = subject.key.to_owned();
            return ListedRule {
                node,
                key,
                approver: None,
                after: Some(Vec::new()),
                duplicate: None,
            };
        };
        let duplicate = check_keys(members, effect, subject, reporter);
        let after = match find_member(members, "after") {
            Some(member) => read_after(&member.node, effect, subject, reporter),
            None => Some(Vec::new()),
        };
        let approver = find_member(members, "approver").map(|it| {
            let key = format!("{}.approver", subject.key);
            read_approver(&it.node, ProblemSubject { key: &key, ..subject }, reporter)
        });
        let node = find_member(members, "rule").map_or(node, |it| &it.node);
        ListedRule { node, key: format!("{}.rule", subject.key), approver, after, duplicate }
    }
}

/// Reads an approver. A value that cannot be read means both.
pub(super) fn read_approver(
    node: &Node,
    subject: ProblemSubject<'_>,
    reporter: &mut Reporter<'_>,
) -> Approver {
    let approver = match &node.value {
        Value::String(text) => Approver::parse(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    };
    if approver.is_none() {
        reporter.report_wrong_type(node, subject, Approver::EXPECTED);
    }
    approver.unwrap_or(Approver::Both)
}

/// Reads the rules that name the tools after whose results an item applies: one, or an array of some.
fn read_after(
    node: &Node,
    effect: PermissionEffect,
    subject: ProblemSubject<'_>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<ToolRule>> {
    let key = format!("{}.after", subject.key);
    let subject = ProblemSubject { key: &key, ..subject };
    let nodes = match &node.value {
        Value::Array(nodes) if !nodes.is_empty() => nodes.as_slice(),
        Value::String(_) => std::slice::from_ref(node),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            reporter.report_wrong_type(node, subject, "a rule, or an array of rules");
            return None;
        }
    };
    let mut rules = Vec::new();
    for node in nodes {
        let Value::String(text) = &node.value else {
            reporter.report_wrong_type(node, subject, "a rule");
            return None;
        };
        match ToolRule::parse(text) {
            Ok(rule) if rule.is_unconditional() => rules.push(rule),
            // Arguments of earlier calls are not remembered.
            Ok(_) => {
                reporter.report_wrong_type(node, subject, "a rule without conditions on arguments");
                return None;
            }
            Err(error) => {
                let kind = ProblemKind::InvalidPermissionRule { effect, error: error.kind };
                reporter.report(node.span, subject, kind);
                return None;
            }
        }
    }
    Some(rules)
}

fn object_of(node: &Node, effect: PermissionEffect) -> Option<&[Member]> {
    match &node.value {
        Value::Object(members) if effect != PermissionEffect::Allow => Some(members),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => None,
    }
}

/// Reports unknown keys, and returns the first key that is there twice.
fn check_keys<'n>(
    members: &'n [Member],
    effect: PermissionEffect,
    subject: ProblemSubject<'_>,
    reporter: &mut Reporter<'_>,
) -> Option<&'n Member> {
    let mut seen = HashSet::new();
    let mut duplicate = None;
    for member in members {
        let known = keys(effect);
        if !known.contains(&member.key.as_str()) {
            let key = format!("{}.{}", subject.key, member.key);
            let nearest = nearest(&member.key, known.iter().copied());
            let kind = ProblemKind::UnknownKey { nearest };
            reporter.report(member.key_span, ProblemSubject { key: &key, ..subject }, kind);
        } else if !seen.insert(member.key.as_str()) {
            duplicate = duplicate.or(Some(member));
        }
    }
    duplicate
}
