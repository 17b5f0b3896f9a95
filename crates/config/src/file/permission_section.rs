//! Reads `permissions` of a settings file. An invalid rule is reported, and calls that it may apply to need a prompt: an
//! invalid deny rule must not count as a missing one.

use std::collections::HashSet;

use super::listed_rule::{ListedRule, read_approver};
use crate::document::{Member, Node, Span, Value, find_member};
use crate::permission::{
    AffectedServers, Approver, InvalidRule, PermissionEffect, PermissionMode, PermissionRules,
    RuleEntry, RuleError, RuleNotation, ToolRule,
};
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
use crate::schema::{PERMISSIONS_KEYS, nearest};
use crate::source::{Authority, Origin};

/// The key of the section.
pub(crate) const KEY: &str = "permissions";

/// Reads the section from the members of a settings file.
pub(crate) fn read(
    members: &[Member],
    authority: Authority,
    reporter: &mut Reporter<'_>,
) -> PermissionRules {
    read_in(RuleNotation::Own, members, authority, reporter)
}

/// Reads the section, with rules in this notation.
pub(crate) fn read_in(
    notation: RuleNotation<'_>,
    members: &[Member],
    authority: Authority,
    reporter: &mut Reporter<'_>,
) -> PermissionRules {
    let Some(member) = find_member(members, KEY) else { return PermissionRules::default() };
    let rules = PermissionRules::default();
    let mut reader = Reader { notation, authority, reporter, rules, approver: None };
    if members.iter().filter(|member| member.key == KEY).count() > 1 {
        reader.mark_unreadable(member.key_span); // `read_top_level` has reported it.
    }
    match &member.node.value {
        Value::Object(members) => reader.read_members(members),
        Value::Null if authority == Authority::User => {}
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            reader.report_wrong_type(&member.node, KEY, "an object");
            reader.mark_unreadable(member.node.span);
        }
    }
    reader.rules
}

/// Reads the section of a project's file, where only rules that restrict count.
pub(crate) fn read_project(members: &[Member], reporter: &mut Reporter<'_>) -> PermissionRules {
    let rules = read(members, Authority::User, reporter).restrictions().without_approvers();
    if let Some(Value::Object(members)) = find_member(members, KEY).map(|member| &member.node.value)
    {
        for key in [PermissionEffect::Allow.id(), "defaultMode", "approver"] {
            if let Some(member) = find_member(members, key) {
                let subject = ProblemSubject { server: None, key: &dotted(key) };
                reporter.report(member.key_span, subject, ProblemKind::UserOnly);
            }
        }
    }
    rules
}

/// The lists of the section.
pub(super) const EFFECTS: [PermissionEffect; 3] =
    [PermissionEffect::Allow, PermissionEffect::Ask, PermissionEffect::Deny];

struct Reader<'r, 'l> {
    notation: RuleNotation<'r>,
    authority: Authority,
    reporter: &'r mut Reporter<'l>,
    rules: PermissionRules,
    /// The approver of calls that match a rule of this section, unless the rule names one.
    approver: Option<Approver>,
}

impl Reader<'_, '_> {
    fn read_members(&mut self, members: &[Member]) {
        self.check_keys(members);
        if let Some(member) = self.non_null_member(members, "approver") {
            let key = dotted("approver");
            let subject = ProblemSubject { server: None, key: &key };
            let approver = read_approver(&member.node, subject, self.reporter);
            self.approver = Some(approver);
            let origin = self.reporter.origin(member.node.span);
            self.rules.default_approvers.push((approver, origin));
        }
        for effect in EFFECTS {
            if let Some(member) = self.non_null_member(members, effect.id()) {
                self.list(member, effect);
            }
        }
        if let Some(member) = self.non_null_member(members, "defaultMode") {
            self.mode(member);
        }
        if let Some(member) = self.non_null_member(members, "disableBypass") {
            self.disable_bypass(member);
        }
    }

    fn check_keys(&mut self, members: &[Member]) {
        let mut seen = HashSet::new();
        for member in members {
            let key = dotted(&member.key);
            let subject = ProblemSubject { server: None, key: &key };
            if !PERMISSIONS_KEYS.iter().any(|known| known.name == member.key) {
                let nearest = nearest(&member.key, PERMISSIONS_KEYS.iter().map(|known| known.name));
                let kind = ProblemKind::UnknownKey { nearest };
                self.reporter.report(member.key_span, subject, kind);
            } else if !seen.insert(member.key.as_str()) {
                self.reporter.report(member.key_span, subject, ProblemKind::DuplicateKey);
                if member.key != PermissionEffect::Allow.id() {
                    self.mark_unreadable(member.key_span);
                }
            }
        }
    }

    /// Returns the member, unless a user wrote `null` there.
    fn non_null_member<'m>(&self, members: &'m [Member], key: &str) -> Option<&'m Member> {
        let is_user_null = |member: &&Member| {
            self.authority == Authority::User && member.node.value == Value::Null
        };
        find_member(members, key).filter(|member| !is_user_null(member))
    }

    fn list(&mut self, member: &Member, effect: PermissionEffect) {
        let Value::Array(nodes) = &member.node.value else {
            self.report_wrong_type(&member.node, &dotted(effect.id()), "an array of rules");
            if effect != PermissionEffect::Allow {
                self.mark_unreadable(member.node.span);
            }
            return;
        };
        for (index, node) in nodes.iter().enumerate() {
            let key = format!("{KEY}.{effect}[{index}]");
            self.rule(node, effect, &key);
        }
    }

    /// Reads an entry of a list: a rule, or in `ask` and `deny` an object with a rule.
    fn rule(&mut self, node: &Node, effect: PermissionEffect, key: &str) {
        let subject = ProblemSubject { server: None, key };
        let rule = ListedRule::read(node, effect, subject, self.reporter);
        if let Some(duplicate) = rule.duplicate {
            let key = format!("{key}.{}", duplicate.key);
            let subject = ProblemSubject { server: None, key: &key };
            self.reporter.report(duplicate.key_span, subject, ProblemKind::DuplicateKey);
            self.mark_unreadable(duplicate.key_span);
        }
        let Some(after) = rule.after else {
            // Without its condition, the rule may apply to every call that it names.
            let affected = match &rule.node.value {
                Value::String(text) => AffectedServers::of_invalid_rule(text),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => AffectedServers::EveryServer,
            };
            let origin = self.reporter.origin(rule.node.span);
            return self.rules.invalid.push(InvalidRule { effect, affected, origin });
        };
        let approver = rule.approver.or(self.approver);
        self.rule_text(rule.node, effect, (&rule.key, approver, after));
    }

    fn rule_text(
        &mut self,
        node: &Node,
        effect: PermissionEffect,
        (key, approver, after): (&str, Option<Approver>, Vec<ToolRule>),
    ) {
        let origin = self.reporter.origin(node.span);
        let Value::String(text) = &node.value else {
            self.report_wrong_type(node, key, "a string");
            let affected = AffectedServers::EveryServer;
            return self.rules.invalid.push(InvalidRule { effect, affected, origin });
        };
        match self.notation.parse(text, effect) {
            Ok(rules) => {
                let authority = self.authority;
                self.rules.entries.extend(rules.into_iter().map(|rule| RuleEntry {
                    effect,
                    rule,
                    origin: origin.clone(),
                    authority,
                    approver,
                    after: after.clone(),
                }));
            }
            Err(error) => {
                let subject = ProblemSubject { server: None, key };
                let span = span_of(&error, node.span, text);
                let kind = ProblemKind::InvalidPermissionRule { effect, error: error.kind };
                self.reporter.report(span, subject, kind);
                let affected = AffectedServers::of_invalid_rule(text);
                self.rules.invalid.push(InvalidRule { effect, affected, origin });
            }
        }
    }

    fn mode(&mut self, member: &Member) {
        let key = dotted("defaultMode");
        let origin: Origin = self.reporter.origin(member.node.span);
        let Value::String(text) = &member.node.value else {
            self.report_wrong_type(&member.node, &key, "a string");
            return self.mark_unreadable(member.node.span);
        };
        match PermissionMode::parse(text) {
            Some(mode) => self.rules.default_modes.push((mode, origin)),
            None => {
                let nearest = nearest(text, PermissionMode::ALL.iter().map(|mode| mode.id()));
                let subject = ProblemSubject { server: None, key: &key };
                let kind = ProblemKind::UnknownMode { nearest };
                self.reporter.report(member.node.span, subject, kind);
                self.mark_unreadable(member.node.span);
            }
        }
    }

    fn disable_bypass(&mut self, member: &Member) {
        let key = dotted("disableBypass");
        if self.authority == Authority::User {
            let subject = ProblemSubject { server: None, key: &key };
            return self.reporter.report(member.key_span, subject, ProblemKind::ManagedOnly);
        }
        match member.node.value {
            Value::Bool(true) => {
                self.rules.bypass_disabled.push(self.reporter.origin(member.key_span));
            }
            Value::Bool(false) => {}
            Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => {
                self.report_wrong_type(&member.node, &key, "true or false");
                self.mark_unreadable(member.node.span);
            }
        }
    }

    /// Marks the file as one with deny or ask rules that could not be read.
    fn mark_unreadable(&mut self, span: Span) {
        let source = self.reporter.origin(span).source;
        if !self.rules.unreadable.contains(&source) {
            self.rules.unreadable.push(source);
        }
    }

    fn report_wrong_type(&mut self, node: &Node, key: &str, expected: &'static str) {
        self.reporter.report_wrong_type(node, ProblemSubject { server: None, key }, expected);
    }
}

pub(super) fn dotted(key: &str) -> String {
    format!("{KEY}.{key}")
}

/// Returns the position of an error in the file. A string with escapes is longer in the file than its value, so
/// then the whole string is marked.
pub(super) fn span_of(error: &RuleError, node: Span, text: &str) -> Span {
    let is_as_written = node.end - node.start == text.len() + 2;
    match is_as_written {
        true => Span { start: node.start + 1 + error.at, end: node.end },
        false => node,
    }
}

#[cfg(test)]
mod tests {
    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::source::{Authority, Source};

    /// Lists the rules and the problems, one per line.
    #[track_caller]
    fn check(authority: Authority, text: &str, expected: &[&str]) {
        let source = Source::file(Scope::User, "s");
        let settings = Settings::read(&source, text, authority);
        let rules = &settings.permissions;
        let mut found: Vec<String> = Vec::new();
        for it in rules.entries.iter() {
            found.push(format!("{} {}", it.effect, it.rule));
        }
        found.extend(
            rules.invalid.iter().map(|it| format!("invalid {} {:?}", it.effect, it.affected)),
        );
        found.extend(rules.default_modes.iter().map(|(mode, _)| format!("mode {mode}")));
        found.extend(rules.bypass_disabled.iter().map(|_| "no bypass".to_owned()));
        found.extend(rules.unreadable.iter().map(|_| "unreadable".to_owned()));
        for problem in &settings.layer.problems {
            let column = problem.origin.position.map_or(0, |position| position.column);
            let key = problem.key.as_deref().unwrap_or_default();
            found.push(format!("{:?} {column} {key}: {}", problem.severity(), problem.kind));
        }
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn every_key_is_read() {
        check(
            Authority::Administrator,
            r#"{"permissions": {"allow": ["mcp__a"], "ask": ["mcp__b__*"], "deny": ["mcp__c__d(e=f)"],
                "defaultMode": "plan", "disableBypass": true}}"#,
            &["allow mcp__a", "ask mcp__b__*", "deny mcp__c__d(e=f)", "mode plan", "no bypass"],
        );
        check(Authority::User, r#"{"permissions": null}"#, &[]);
        check(Authority::User, r#"{"permissions": {"deny": null}}"#, &[]);
    }

    #[test]
    fn an_invalid_rule_is_an_error_with_its_column_and_drops_no_other() {
        check(
            Authority::User,
            r#"{"permissions": {"deny": ["mcp__a__b(c", "mcp__d", 5], "allow": ["x"]}}"#,
            &[
                "deny mcp__d",
                "invalid allow EveryServer",
                "invalid deny Named(\"a__b\")",
                "invalid deny EveryServer",
                "Error 67 permissions.allow[0]: is not a valid rule: a rule must begin with `mcp__`; it allows nothing",
                "Error 39 permissions.deny[0]: is not a valid rule: a predicate must be `argument=value` or `argument!=value`; until it is fixed, calls to its server ask",
                "Error 52 permissions.deny[2]: expected a string, found a number",
            ],
        );
    }

    #[test]
    fn in_a_string_with_escapes_the_whole_string_is_marked() {
        check(
            Authority::User,
            r#"{"permissions": {"allow": ["mcp__a(b=\"c)"]}}"#,
            &[
                "invalid allow Named(\"a\")",
                "Error 28 permissions.allow[0]: is not a valid rule: a quote is not closed; it allows nothing",
            ],
        );
    }

    #[test]
    fn unreadable_deny_and_ask_lists_are_marked() {
        check(
            Authority::User,
            r#"{"permissions": {"deny": "mcp__a"}}"#,
            &[
                "unreadable",
                "Error 26 permissions.deny: expected an array of rules, found a string",
            ],
        );
        check(
            Authority::User,
            r#"{"permissions": {"ask": [], "ask": []}}"#,
            &["unreadable", "Warning 29 permissions.ask: duplicate key; the last one counts"],
        );
        check(
            Authority::User,
            r#"{"permissions": {}, "permissions": {}}"#,
            &["unreadable", "Warning 21 permissions: duplicate key; the last one counts"],
        );
        check(
            Authority::User,
            r#"{"permissions": []}"#,
            &["unreadable", "Error 17 permissions: expected an object, found an array"],
        );
        check(
            Authority::User,
            r#"{"permissions": {"defaultMode": "Plan"}}"#,
            &[
                "unreadable",
                "Error 33 permissions.defaultMode: unknown mode; until it is fixed, every call asks",
            ],
        );
        check(
            Authority::Administrator,
            r#"{"permissions": {"disableBypass": "yes"}}"#,
            &[
                "unreadable",
                "Error 35 permissions.disableBypass: expected true or false, found a string",
            ],
        );
        check(
            Authority::User,
            "{",
            &["unreadable", "Error 1 : not valid JSON: unterminated object"],
        );
        check(
            Authority::User,
            r#"{"permissions": {"allow": {}}}"#,
            &["Error 27 permissions.allow: expected an array of rules, found an object"],
        );
    }

    #[test]
    fn a_projects_file_may_deny_and_ask_but_not_allow() {
        let source = Source::file(Scope::Project, "s");
        let text = r#"{"permissions": {"allow": ["mcp__a"], "ask": ["mcp__b"], "deny": ["mcp__c", "x"],
            "defaultMode": "bypass"}, "mcpServers": {"b": {"command": "x"}}}"#;
        let settings = Settings::read_project(&source, text);
        let rules = &settings.permissions;
        let listed: Vec<String> =
            rules.entries.iter().map(|it| format!("{} {}", it.effect, it.rule)).collect();
        assert_eq!(listed, ["ask mcp__b", "deny mcp__c"]);
        assert_eq!((rules.invalid.len(), rules.default_modes.len()), (1, 0));
        assert_eq!(settings.layer.definitions.len(), 1);
        let keys: Vec<_> =
            settings.layer.problems.iter().filter_map(|it| it.key.as_deref()).collect();
        assert_eq!(keys, ["permissions.deny[1]", "permissions.allow", "permissions.defaultMode"]);
        let unreadable = Settings::read_project(&source, r#"{"permissions": "#);
        assert_eq!(unreadable.permissions.unreadable.len(), 1);
        assert_eq!(Settings::read_project(&source, "{").permissions.unreadable.len(), 0);
    }

    #[test]
    fn a_user_cannot_disable_bypass_and_unknown_keys_are_reported() {
        check(
            Authority::User,
            r#"{"permissions": {"disableBypass": true, "denny": []}}"#,
            &[
                "Warning 41 permissions.denny: unknown key, kept but without effect",
                "Warning 18 permissions.disableBypass: has an effect in managed settings only",
            ],
        );
    }
}
