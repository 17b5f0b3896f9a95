//! Reads `principals` of a settings file: what clients of a gateway may do, each by the name that it shows itself with.
//! Rules that hold for everybody hold for them too; these are added.

use std::collections::BTreeMap;

use crate::document::{Member, Value};
use crate::file::entry_decoder;
use crate::file::layer::find_member;
use crate::permission::PermissionRules;
use crate::policy::Authority;
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
use crate::settings::{SettingsKey, settings_key};

/// The key of a settings file that holds all this.
pub(crate) const KEY: &str = "principals";
/// The name that stands for everybody.
const ANY_PRINCIPAL: &str = "*";

/// Every key of one of the `principals`.
pub const PRINCIPAL_KEYS: &[SettingsKey] = &[settings_key(
    "permissions",
    "object",
    true,
    "rules for this one, besides those for everybody",
)];

/// Rules by name.
#[derive(Debug, Clone, Default)]
pub struct Principals(BTreeMap<String, PermissionRules>);

impl Principals {
    /// The rules for one name, besides those for everybody: its own, and those of `*`.
    pub fn rules(&self, name: &str) -> Option<PermissionRules> {
        let of = |name: &str| self.0.get(name).cloned();
        match (of(ANY_PRINCIPAL), of(name).filter(|_| name != ANY_PRINCIPAL)) {
            (Some(all), Some(own)) => Some(all.merge(own)),
            (all, own) => all.or(own),
        }
    }

    /// These and others together.
    pub fn merge(mut self, other: Principals) -> Principals {
        for (name, rules) in other.0 {
            let before = self.0.remove(&name).unwrap_or_default();
            self.0.insert(name, before.merge(rules));
        }
        self
    }

    /// Only what restricts.
    pub fn restrictions(self) -> Principals {
        let one = |(name, rules): (String, PermissionRules)| (name, rules.restrictions());
        Principals(self.0.into_iter().map(one).collect())
    }
}

/// Reads it out of a settings file's members. A principal of whom nothing can be made out is asked about everything.
pub(crate) fn read(
    members: &[Member],
    authority: Authority,
    reporter: &mut Reporter<'_>,
) -> Principals {
    let Some(member) = find_member(members, KEY).filter(|it| it.node.value != Value::Null) else {
        return Principals::default();
    };
    let wrong_type = |kind| ProblemKind::WrongType { expected: "an object", found: kind };
    let Value::Object(all) = &member.node.value else {
        let subject = ProblemSubject { server: None, key: KEY };
        reporter.report(member.node.span, subject, wrong_type(member.node.kind()));
        let unreadable = PermissionRules::unreadable(&reporter.origin(member.node.span).source);
        return Principals(BTreeMap::from([(ANY_PRINCIPAL.to_owned(), unreadable)]));
    };
    let mut principals = Principals::default();
    for one in all {
        let key = format!("{KEY}.{}", one.key);
        let subject = ProblemSubject { server: None, key: &key };
        let rules = match &one.node.value {
            Value::Object(inner) => {
                report_unknown_keys(inner, &key, reporter);
                crate::settings::permissions::read(inner, authority, reporter)
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                reporter.report(one.node.span, subject, wrong_type(one.node.kind()));
                PermissionRules::unreadable(&reporter.origin(one.node.span).source)
            }
        };
        let named = Principals(BTreeMap::from([(one.key.clone(), rules)]));
        principals = principals.merge(named);
    }
    principals
}

fn report_unknown_keys(members: &[Member], key: &str, reporter: &mut Reporter<'_>) {
    for member in
        members.iter().filter(|it| !PRINCIPAL_KEYS.iter().any(|known| known.name == it.key))
    {
        let nearest =
            entry_decoder::nearest(&member.key, PRINCIPAL_KEYS.iter().map(|known| known.name));
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
        CallRequest, PermissionEffect, PermissionMode, ToolHints, Trust, decide,
    };
    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::source::Source;

    fn read(text: &str) -> Settings {
        let source = Source::file(Scope::User, "settings.json");
        Settings::read(&source, text, Authority::User)
    }

    #[track_caller]
    fn check(principals: &Principals, name: &str, tool: &str, expected: PermissionEffect) {
        let arguments = json!({});
        let (hints, trust) = (ToolHints::default(), Trust::Untrusted);
        let request = CallRequest { server: "git", tool, arguments: &arguments, hints, trust };
        let rules = principals.rules(name).unwrap_or_default();
        assert_eq!(
            decide(&rules, &request, PermissionMode::Default).effect,
            expected,
            "{name}, {tool}"
        );
    }

    #[test]
    fn everybody_has_the_rules_of_all_and_their_own() {
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
    fn what_cannot_be_made_out_is_said_and_asks() {
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
        check(&whole.principals, "anybody", "status", PermissionEffect::Ask);
    }
}
