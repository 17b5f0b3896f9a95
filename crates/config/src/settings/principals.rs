//! Reads `principals` of a settings file: permission rules for the clients of a gateway, by name.

use crate::document::{Member, Value, find_member};
use crate::file::permission_section as permissions;
pub use crate::permission::Principals;
use crate::permission::{ANY_PRINCIPAL, PermissionRules};
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
pub use crate::schema::PRINCIPAL_KEYS;
use crate::schema::nearest;
use crate::source::Authority;

/// The key of the section.
pub(crate) const KEY: &str = "principals";

/// Reads the section from the members of a settings file. If the rules of a client cannot be read, all of its
/// calls need a prompt.
pub(crate) fn read(
    members: &[Member],
    authority: Authority,
    reporter: &mut Reporter<'_>,
) -> Principals {
    let mut principals = Principals::default();
    let Some(member) = find_member(members, KEY).filter(|it| it.node.value != Value::Null) else {
        return principals;
    };
    let Value::Object(all) = &member.node.value else {
        let subject = ProblemSubject { server: None, key: KEY };
        reporter.report_wrong_type(&member.node, subject, "an object");
        let unreadable = PermissionRules::unreadable(&reporter.origin(member.node.span).source);
        principals.insert(ANY_PRINCIPAL.to_owned(), unreadable);
        return principals;
    };
    for one in all {
        let key = format!("{KEY}.{}", one.key);
        let subject = ProblemSubject { server: None, key: &key };
        let rules = match &one.node.value {
            Value::Object(inner) => {
                report_unknown_keys(inner, &key, reporter);
                permissions::read(inner, authority, reporter)
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                reporter.report_wrong_type(&one.node, subject, "an object");
                PermissionRules::unreadable(&reporter.origin(one.node.span).source)
            }
        };
        principals.insert(one.key.clone(), rules);
    }
    principals
}

fn report_unknown_keys(members: &[Member], key: &str, reporter: &mut Reporter<'_>) {
    for member in
        members.iter().filter(|it| !PRINCIPAL_KEYS.iter().any(|known| known.name == it.key))
    {
        let nearest = nearest(&member.key, PRINCIPAL_KEYS.iter().map(|known| known.name));
        let key = format!("{key}.{}", member.key);
        let subject = ProblemSubject { server: None, key: &key };
        reporter.report(member.key_span, subject, ProblemKind::UnknownKey { nearest });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::permission::{
        CallRequest, NOTHING_SEEN, PermissionEffect, PermissionMode, ToolHints, Trust, decide,
    };
    use crate::settings::test_reader::read;

    #[track_caller]
    fn check(principals: &Principals, name: &str, tool: &str, expected: PermissionEffect) {
        let arguments = json!({});
        let (hints, trust) = (ToolHints::default(), Trust::Untrusted);
        let request = CallRequest {
            server: "git",
            tool,
            arguments: &arguments,
            hints,
            trust,
            seen: &NOTHING_SEEN,
        };
        let rules = principals.rules(name).unwrap_or_default();
        assert_eq!(
            decide(&rules, &request, PermissionMode::Default).effect,
            expected,
            "{name}, {tool}"
        );
    }

    #[test]
    fn a_client_has_its_own_rules_and_those_of_every_client() {
        let text = r#"{"principals": {
            "*": {"permissions": {"deny": ["mcp__git__push"]}},
            "ci": {"permissions": {"allow": ["mcp__git"]}}
        }}"#;
        let settings = read(text);
        assert!(settings.layer.problems.is_empty(), "{:?}", settings.layer.problems);
        let principals = &settings.principals;
        check(principals, "ci", "status", PermissionEffect::Allow);
        check(principals, "ci", "push", PermissionEffect::Deny);
        check(principals, "ada", "status", PermissionEffect::Ask);
        check(principals, "ada", "push", PermissionEffect::Deny);
        check(&settings.principals.clone().restrictions(), "ci", "status", PermissionEffect::Ask);
    }

    #[test]
    fn unreadable_rules_are_reported_and_need_a_prompt() {
        let text = r#"{"principals": {
            "ci": {"permissions": {"allow": ["mcp__git"], "deny": 5}, "permission": {}},
            "ada": 7
        }}"#;
        let settings = read(text);
        assert_eq!(settings.layer.problems.len(), 3, "{:?}", settings.layer.problems);
        check(&settings.principals, "ci", "status", PermissionEffect::Ask);
        check(&settings.principals, "ada", "status", PermissionEffect::Ask);
        let whole = read(r#"{"principals": [], "permissions": {"allow": ["mcp__git"]}}"#);
        assert_eq!(whole.layer.problems.len(), 1);
        check(&whole.principals, "eve", "status", PermissionEffect::Ask);
    }
}
