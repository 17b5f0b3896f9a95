//! Selects who is asked about a call of a gateway's client, from the ask rules that match it.

use super::approver::Approver;
use super::call::CallRequest;
use super::effect::PermissionEffect;
use super::mode::PermissionMode;
use super::rule::MatchResult;
use super::rule_entry::RuleEntry;
use super::rules::PermissionRules;
use crate::scope::Scope;
use crate::source::Authority;

/// Returns who is asked about a call that needs a prompt. An ask rule of an administrator is the operator's, unless it
/// says otherwise, and an administrator's setting counts where no rule of an administrator does. Several approvers add
/// up, so that no rule of a user takes the operator out.
pub fn approver(
    rules: &PermissionRules,
    request: &CallRequest<'_>,
    chosen: PermissionMode,
) -> Approver {
    let administrators = administrators_rules(rules, request)
        .reduce(Approver::union)
        .or_else(|| rules.administrators_default_approver());
    let users = match rules.effective_mode(chosen) {
        PermissionMode::Bypass => None,
        PermissionMode::Plan
        | PermissionMode::DontAsk
        | PermissionMode::Default
        | PermissionMode::AcceptEdits => matching(rules, request, Authority::User)
            .filter_map(|entry| entry.approver)
            .reduce(Approver::union),
    };
    let named = administrators.into_iter().chain(users).reduce(Approver::union);
    named.unwrap_or_else(|| rules.default_approver())
}

/// The approvers of the administrator's rules that match a call. Rules that cannot be read may be ask rules.
fn administrators_rules<'a>(
    rules: &'a PermissionRules,
    request: &'a CallRequest<'_>,
) -> impl Iterator<Item = Approver> + 'a {
    let named = matching(rules, request, Authority::Administrator)
        .map(|entry| entry.approver.unwrap_or(Approver::Operator));
    let has_unknown = rules.unreadable.iter().any(|it| it.scope == Scope::Enterprise)
        || rules.invalid.iter().any(|it| {
            it.origin.scope() == Scope::Enterprise
                && it.effect != PermissionEffect::Allow
                && it.affected.includes(request.server)
        });
    named.chain(has_unknown.then_some(Approver::Operator))
}

fn matching<'a>(
    rules: &'a PermissionRules,
    request: &'a CallRequest<'_>,
    authority: Authority,
) -> impl Iterator<Item = &'a RuleEntry> {
    let matches = move |entry: &&RuleEntry| {
        entry.authority == authority && entry.match_call(request) == MatchResult::Matches
    };
    rules.entries.candidates(PermissionEffect::Ask, request.server).filter(matches)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::permission::{NOTHING_SEEN, ToolHints, Trust};
    use crate::settings::Settings;
    use crate::source::Source;

    /// The approver of `mcp__git__push` with these managed and user settings.
    #[track_caller]
    fn check(managed: &str, user: &str, expected: Approver) {
        let read = |scope, text: &str, authority| {
            Settings::read(&Source::file(scope, "settings.json"), text, authority)
        };
        let managed = read(Scope::Enterprise, managed, Authority::Administrator);
        let user = read(Scope::User, user, Authority::User);
        assert_eq!(approver_of_push(&managed.permissions.merge(user.permissions)), expected);
    }

    fn approver_of_push(rules: &PermissionRules) -> Approver {
        let arguments = json!({});
        let (hints, trust) = (ToolHints::default(), Trust::Untrusted);
        let request = CallRequest {
            server: "git",
            tool: "push",
            arguments: &arguments,
            hints,
            trust,
            seen: &NOTHING_SEEN,
        };
        approver(rules, &request, PermissionMode::Default)
    }

    #[test]
    fn an_administrators_ask_is_the_operators_unless_it_says_otherwise() {
        let ask = r#"{"permissions": {"ask": ["mcp__git"]}}"#;
        check(ask, "{}", Approver::Operator);
        check("{\"$schema\": \"\"}", ask, Approver::Client);
        check(ask, ask, Approver::Operator);
        let client = r#"{"permissions": {"ask": [{"rule": "mcp__git", "approver": "client"}]}}"#;
        check(client, "{}", Approver::Client);
        check(ask, client, Approver::Both);
        let both = r#"{"permissions": {"ask": [{"rule": "mcp__git__push", "approver": "both"}]}}"#;
        check("{\"$schema\": \"\"}", both, Approver::Both);
    }

    #[test]
    fn the_setting_of_a_file_applies_to_its_rules_and_to_calls_without_a_rule() {
        let setting = r#"{"permissions": {"ask": ["mcp__git"], "approver": "both"}}"#;
        check(setting, "{}", Approver::Both);
        let none = r#"{"permissions": {"approver": "operator"}}"#;
        check("{\"$schema\": \"\"}", none, Approver::Operator);
        // An administrator's setting is not replaced by a user's.
        let client = r#"{"permissions": {"approver": "client"}}"#;
        check(none, client, Approver::Operator);
    }

    #[test]
    fn an_administrators_setting_is_not_loosened_by_a_rule_of_a_user() {
        let operator = r#"{"permissions": {"approver": "operator"}}"#;
        let client = r#"{"permissions": {"ask": [{"rule": "mcp__git", "approver": "client"}]}}"#;
        check(operator, client, Approver::Both);
        let section = r#"{"permissions": {"ask": ["mcp__git"], "approver": "client"}}"#;
        check(operator, section, Approver::Both);
        // A rule of the administrator is more specific than the setting.
        let own = r#"{"permissions": {"approver": "operator",
            "ask": [{"rule": "mcp__git", "approver": "client"}]}}"#;
        check(own, "{}", Approver::Client);
    }

    #[test]
    fn a_project_does_not_say_who_is_asked() {
        let user = r#"{"permissions": {"approver": "operator"}}"#;
        let user = Settings::read(&Source::file(Scope::User, "u"), user, Authority::User);
        let project = r#"{"permissions": {"approver": "client", "ask": ["mcp__git__push",
            {"rule": "mcp__git", "approver": "client"}]}}"#;
        let project = Settings::read_project(&Source::file(Scope::Project, "p"), project);
        let rules = user.permissions.merge(project.permissions);
        assert_eq!(approver_of_push(&rules), Approver::Operator);
        let keys = project.layer.problems.iter().filter_map(|it| it.key.as_deref());
        assert_eq!(keys.collect::<Vec<_>>(), ["permissions.approver"]);
    }

    #[test]
    fn rules_of_an_administrator_that_cannot_be_read_are_the_operators() {
        check("{", "{}", Approver::Operator);
        check(r#"{"permissions": {"ask": ["mcp__git("]}}"#, "{}", Approver::Operator);
        let invalid = r#"{"permissions": {"ask": [{"rule": "mcp__git", "approver": "me"}]}}"#;
        check(invalid, "{}", Approver::Both);
    }
}
