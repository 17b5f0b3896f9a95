//! Reads an item of a list of rules: the text of a rule or, in `ask`, an object with a rule and its approver.

use std::collections::HashSet;

use crate::document::{Member, Node, Value, find_member};
use crate::permission::{Approver, PermissionEffect};
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
use crate::schema::nearest;

/// The keys of an item of `ask` that is an object.
const ASK_KEYS: [&str; 2] = ["rule", "approver"];

/// An item of a list of rules.
pub(super) struct ListedRule<'n> {
    /// The text of the rule; the item itself if there is none.
    pub(super) node: &'n Node,
    /// The key of the text, for messages.
    pub(super) key: String,
    /// The approver that the item names.
    pub(super) approver: Option<Approver>,
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
            return ListedRule { node, key, approver: None, duplicate: None };
        };
        let duplicate = check_keys(members, subject, reporter);
        let approver = find_member(members, "approver").map(|it| {
            let key = format!("{}.approver", subject.key);
            read_approver(&it.node, ProblemSubject { key: &key, ..subject }, reporter)
        });
        let node = find_member(members, "rule").map_or(node, |it| &it.node);
        ListedRule { node, key: format!("{}.rule", subject.key), approver, duplicate }
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

fn object_of(node: &Node, effect: PermissionEffect) -> Option<&[Member]> {
    match &node.value {
        Value::Object(members) if effect == PermissionEffect::Ask => Some(members),
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
    subject: ProblemSubject<'_>,
    reporter: &mut Reporter<'_>,
) -> Option<&'n Member> {
    let mut seen = HashSet::new();
    let mut duplicate = None;
    for member in members {
        if !ASK_KEYS.contains(&member.key.as_str()) {
            let key = format!("{}.{}", subject.key, member.key);
            let kind =
                ProblemKind::UnknownKey { nearest: nearest(&member.key, ASK_KEYS.into_iter()) };
            reporter.report(member.key_span, ProblemSubject { key: &key, ..subject }, kind);
        } else if !seen.insert(member.key.as_str()) {
            duplicate = duplicate.or(Some(member));
        }
    }
    duplicate
}
