//! Tests of decisions through settings files, and properties that hold for any rules.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::pattern::MatchMode;
use crate::scope::Scope;
use crate::settings::Settings;
use crate::source::{Authority, Source};

const NO_HINTS: ToolHints = ToolHints {
    read_only: HintValue::Unspecified,
    destructive: HintValue::Unspecified,
    open_world: HintValue::Unspecified,
};

/// Reads settings, one file per line: `managed deny mcp__a` puts one rule into the managed file, and `user:
/// {…}` is the value of `permissions`.
fn rules(lines: &str) -> PermissionRules {
    let mut rules = PermissionRules::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (scope, rest) = line.split_once(' ').expect("a scope and a rule");
        if let Some(scope) = scope.strip_suffix(':') {
            rules = rules.merge(file(scope, rest));
            continue;
        }
        let (list, rule) = rest.split_once(' ').expect("a list and a rule");
        let effect = [PermissionEffect::Allow, PermissionEffect::Ask, PermissionEffect::Deny];
        let effect = effect.into_iter().find(|effect| effect.id() == list).expect("a list");
        match scope {
            "session" => rules.add_for_session(effect, ToolRule::parse(rule).expect("a rule")),
            _ => rules = rules.merge(file(scope, &json!({list: [rule]}).to_string())),
        }
    }
    rules
}

fn file(scope: &str, permissions: &str) -> PermissionRules {
    let (kind, authority) = match scope {
        "managed" => (Scope::Enterprise, Authority::Administrator),
        "local" => (Scope::Local, Authority::User),
        "user" => (Scope::User, Authority::User),
        other => panic!("{other} has no settings"),
    };
    let text = format!("{{\"permissions\": {permissions}}}");
    Settings::read(&Source::file(kind, scope), &text, authority).permissions
}

/// Checks a call such as `files read {"path": "/x"}`, with the prefixes `trusted`, `readonly` and `safe-edit`.
#[track_caller]
fn check(lines: &str, mode: PermissionMode, call: &str, expected: &str) {
    let (mut hints, mut trust, mut call) = (NO_HINTS, Trust::Untrusted, call);
    while let Some((word, rest)) = call.split_once(": ") {
        match word {
            "trusted" => trust = Trust::Trusted,
            "readonly" => hints.read_only = HintValue::Yes,
            "safe-edit" => (hints.destructive, hints.open_world) = (HintValue::No, HintValue::No),
            _ => break,
        }
        call = rest;
    }
    let mut words = call.splitn(3, ' ');
    let (server, tool) = (words.next().expect("a server"), words.next().expect("a tool"));
    let arguments: Json = serde_json::from_str(words.next().unwrap_or("{}")).expect("JSON");
    let request =
        CallRequest { server, tool, arguments: &arguments, hints, trust, seen: &NOTHING_SEEN };
    let RuleDecision { effect, reason } = decide(&rules(lines), &request, mode);
    assert_eq!(format!("{effect}: {reason}"), expected);
}

#[test]
fn without_rules_every_call_asks() {
    check("", PermissionMode::Default, "files read", "ask: no matching rule");
}

#[test]
fn deny_goes_before_ask_and_ask_before_allow_in_whatever_scope() {
    let all = "managed allow mcp__files\nuser ask mcp__files__read\nlocal deny mcp__files__rea*";
    check(
        all,
        PermissionMode::Default,
        "files read",
        "deny: the deny rule `mcp__files__rea*` (local:1)",
    );
    let two = "managed allow mcp__files\nuser ask mcp__files__read";
    check(
        two,
        PermissionMode::Default,
        "files read",
        "ask: the ask rule `mcp__files__read` (user:1)",
    );
    check(
        two,
        PermissionMode::Default,
        "files write",
        "allow: the allow rule `mcp__files` (managed:1)",
    );
    check(
        "session allow mcp__files",
        PermissionMode::Default,
        "files read",
        "allow: the allow rule `mcp__files` (this session)",
    );
}

#[test]
fn predicates_narrow_a_rule() {
    let lines = "user allow mcp__files__read(path=/srv/*)\nuser deny mcp__files(path=/srv/key*)";
    let allowed = "allow: the allow rule `mcp__files__read(path=/srv/*)` (user:1)";
    check(lines, PermissionMode::Default, r#"files read {"path": "/srv/a"}"#, allowed);
    let denied = "deny: the deny rule `mcp__files(path=/srv/key*)` (user:1)";
    check(lines, PermissionMode::Default, r#"files read {"path": "/srv/key.pem"}"#, denied);
    check(lines, PermissionMode::Default, r#"files read {"path": "/srv/a/../key.pem"}"#, denied);
    let asked = "ask: no matching rule";
    check(lines, PermissionMode::Default, r#"files read {"path": "/srv/../etc/x"}"#, asked);
    check(lines, PermissionMode::Default, "files read", asked);
}

#[test]
fn server_and_tool_are_compared_one_by_one() {
    for effect in ["allow", "deny"] {
        let lines = format!("user {effect} mcp__a___x");
        let named = format!("{effect}: the {effect} rule `mcp__a___x` (user:1)");
        check(&lines, PermissionMode::Default, "a _x", &named);
        check(&lines, PermissionMode::Default, "a_ x", "ask: no matching rule");
        let whole = format!("user {effect} mcp__a_");
        let named = format!("{effect}: the {effect} rule `mcp__a_` (user:1)");
        check(&whole, PermissionMode::Default, "a_ x", &named);
        check(&whole, PermissionMode::Default, "a _x", "ask: no matching rule");
        // A slash says where the name of the server ends.
        let explicit = format!("user {effect} mcp__a_/x");
        let named = format!("{effect}: the {effect} rule `mcp__a_/x` (user:1)");
        check(&explicit, PermissionMode::Default, "a_ x", &named);
        for other in ["a_ y", "a _x", "a__ x", "a x"] {
            check(&explicit, PermissionMode::Default, other, "ask: no matching rule");
        }
    }
}

#[test]
fn a_suggested_rule_permits_the_call_whatever_the_name_of_the_server() {
    for server in ["a", "a_", "a__", "a__b", "_a", "a__b_"] {
        let arguments = json!({"path": "/srv/x"});
        let request = CallRequest {
            server,
            tool: "read",
            arguments: &arguments,
            hints: ToolHints::default(),
            trust: Trust::Untrusted,
            seen: &NOTHING_SEEN,
        };
        for suggestion in suggestions(&request) {
            let text = suggestion.rule.to_string();
            assert_eq!(ToolRule::parse(&text).as_ref(), Ok(&suggestion.rule), "{text}");
            let found = suggestion.rule.match_call(&request, MatchMode::Strict);
            assert_eq!(found, MatchResult::Matches, "{text}");
        }
    }
}

#[test]
fn trust_allows_unless_a_rule_asks_or_denies() {
    check("", PermissionMode::Default, "trusted: files read", "allow: the server is trusted");
    for scope in ["managed", "user", "local", "session"] {
        let place = match scope {
            "session" => "this session".to_owned(),
            file => format!("{file}:1"),
        };
        let asked = format!("ask: the ask rule `mcp__files` ({place})");
        check(
            &format!("{scope} ask mcp__files"),
            PermissionMode::Default,
            "trusted: files read",
            &asked,
        );
    }
}

#[test]
fn plan_denies_every_tool_that_is_not_read_only() {
    let lines = "managed allow mcp__files";
    check(lines, PermissionMode::Plan, "trusted: files write", "deny: the mode `plan`");
    check(lines, PermissionMode::Plan, "safe-edit: files write", "deny: the mode `plan`");
    check(
        lines,
        PermissionMode::Plan,
        "readonly: files read",
        "allow: the allow rule `mcp__files` (managed:1)",
    );
    check("", PermissionMode::Plan, "readonly: files read", "ask: no matching rule");
}

#[test]
fn accept_edits_allows_non_destructive_tools_without_external_access() {
    check(
        "",
        PermissionMode::AcceptEdits,
        "safe-edit: files write",
        "allow: the mode `acceptEdits`",
    );
    check("", PermissionMode::AcceptEdits, "files write", "ask: no matching rule");
    check("", PermissionMode::AcceptEdits, "readonly: web fetch", "ask: no matching rule");
    check(
        "user ask mcp__files",
        PermissionMode::AcceptEdits,
        "safe-edit: files write",
        "ask: the ask rule `mcp__files` (user:1)",
    );
}

#[test]
fn dont_ask_denies_instead_of_asking_and_names_the_reason() {
    check(
        "",
        PermissionMode::DontAsk,
        "files read",
        "deny: no matching rule, and the mode `dontAsk` allows no prompts",
    );
    check(
        "user ask mcp__files",
        PermissionMode::DontAsk,
        "trusted: files read",
        "deny: the ask rule `mcp__files` (user:1), and the mode `dontAsk` allows no prompts",
    );
    check("", PermissionMode::DontAsk, "trusted: files read", "allow: the server is trusted");
}

#[test]
fn bypass_skips_ask_rules_but_neither_deny_rules_nor_rules_of_an_administrator() {
    check("", PermissionMode::Bypass, "files read", "allow: the mode `bypass`");
    check("user ask mcp__files", PermissionMode::Bypass, "files read", "allow: the mode `bypass`");
    check(
        "user deny mcp__files",
        PermissionMode::Bypass,
        "files read",
        "deny: the deny rule `mcp__files` (user:1)",
    );
    check(
        "managed ask mcp__files",
        PermissionMode::Bypass,
        "files read",
        "ask: the ask rule `mcp__files` (managed:1)",
    );
    check(
        r#"managed: {"disableBypass": true}"#,
        PermissionMode::Bypass,
        "files read",
        "ask: no matching rule",
    );
}

#[test]
fn an_invalid_deny_or_ask_rule_asks_for_its_server_in_every_mode() {
    let lines = "user allow mcp__files\nuser allow mcp__web\nlocal deny mcp__files__read(";
    let asked = "ask: the deny rule in local:1 is not valid";
    check(lines, PermissionMode::Default, "trusted: files write", asked);
    check(lines, PermissionMode::Bypass, "files write", asked);
    check(
        lines,
        PermissionMode::DontAsk,
        "files write",
        "deny: the deny rule in local:1 is not valid, and the mode `dontAsk` allows no prompts",
    );
    check(lines, PermissionMode::Default, "web get", "allow: the allow rule `mcp__web` (user:1)");
    let every = "user allow mcp__web\nlocal ask Web(x)";
    check(every, PermissionMode::Default, "web get", "ask: the ask rule in local:1 is not valid");
}

#[test]
fn an_invalid_allow_rule_allows_nothing() {
    check(
        "user allow mcp__files__read(",
        PermissionMode::Default,
        "files read",
        "ask: no matching rule",
    );
}

#[test]
fn an_unreadable_list_asks_for_every_call() {
    check(
        "user allow mcp__files\nlocal: {\"deny\": \"mcp__web\"}",
        PermissionMode::Bypass,
        "files read",
        "ask: the rules in local cannot be read",
    );
}

#[test]
fn the_default_mode_is_that_of_the_highest_scope() {
    let rules = rules(
        "user: {\"defaultMode\": \"bypass\"}\nmanaged: {\"defaultMode\": \"acceptEdits\"}\nlocal: {\"defaultMode\": \"plan\"}",
    );
    let (mode, origin) = rules.default_mode().expect("three were given");
    assert_eq!((mode, origin.to_string()), (PermissionMode::AcceptEdits, "managed:1".to_owned()));
}

#[track_caller]
fn check_hidden_by(lines: &str, server: &str, tool: &str, expected: [Option<&str>; 2]) {
    let rules = rules(lines);
    let found = [tool_hidden_by(&rules, server, tool), server_hidden_by(&rules, server)];
    let found = found.map(|reason| reason.map(|it| it.to_string()));
    assert_eq!(found.each_ref().map(Option::as_deref), expected, "{lines}");
}

#[test]
fn only_an_unconditional_deny_hides_a_tool() {
    let by = "the deny rule `mcp__files` (user:1)";
    check_hidden_by("user deny mcp__files", "files", "read", [Some(by), Some(by)]);
    let by = "the deny rule `mcp__files__*` (user:1)";
    check_hidden_by("user deny mcp__files__*", "files", "read", [Some(by), Some(by)]);
    let by = "the deny rule `mcp__files__re*` (user:1)";
    check_hidden_by("user deny mcp__files__re*", "files", "read", [Some(by), None]);
    check_hidden_by("user deny mcp__files__re*", "files", "write", [None, None]);
    check_hidden_by("user deny mcp__files(path=*)", "files", "read", [None, None]);
    check_hidden_by("user ask mcp__files", "files", "read", [None, None]);
    check_hidden_by("user deny mcp__files", "files2", "read", [None, None]);
}

#[test]
fn an_explanation_says_for_every_rule_whether_it_matches() {
    let rules = rules(
        "user allow mcp__files__read(path=/srv/*)\nlocal allow mcp__files__read(mode=x)\nmanaged allow mcp__files__write\nuser ask mcp__web\nuser deny mcp__files__read(path=/etc/*)\nlocal allow mcp__files(",
    );
    let arguments = json!({"path": "/srv/a"});
    let request = CallRequest {
        server: "files",
        tool: "read",
        arguments: &arguments,
        hints: NO_HINTS,
        trust: Trust::Untrusted,
        seen: &NOTHING_SEEN,
    };
    let explanation = explain(&rules, &request, PermissionMode::Default);
    let found: Vec<String> = explanation
        .considered
        .iter()
        .map(|it| format!("{} {} {:?}", it.entry.effect, it.entry.rule, it.result))
        .collect();
    assert_eq!(
        found,
        [
            "deny mcp__files__read(path=/etc/*) PredicateNotMet { predicate: \"path=/etc/*\", mismatch: Differs }",
            "ask mcp__web OtherServer",
            "allow mcp__files__write OtherTool",
            "allow mcp__files__read(mode=x) PredicateNotMet { predicate: \"mode=x\", mismatch: Absent }",
            "allow mcp__files__read(path=/srv/*) Matches",
        ]
    );
    assert_eq!(explanation.invalid.len(), 1);
    assert_eq!(explanation.decision.effect, PermissionEffect::Allow);
}

fn a_rule() -> impl Strategy<Value = String> {
    let target = prop_oneof!["[ab]", "[ab]__[cd]", "[ab]__[cd]?\\*"];
    let predicates = prop_oneof![
        3 => Just(String::new()),
        2 => "\\([pq]!?=[xy]\\)",
        1 => "\\(p=[xy]\\*,q!=[xy]\\)",
        1 => Just("(".to_owned()),
    ];
    (target, predicates).prop_map(|(target, predicates)| format!("mcp__{target}{predicates}"))
}

fn a_line(scopes: &'static [&'static str]) -> impl Strategy<Value = String> {
    let list = prop::sample::select(vec!["allow", "ask", "deny"]);
    (prop::sample::select(scopes), list, a_rule())
        .prop_map(|(scope, list, rule)| format!("{scope} {list} {rule}"))
}

fn lines(scopes: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(a_line(scopes), 0..5)
}

#[derive(Debug, Clone)]
struct Call {
    server: String,
    tool: String,
    arguments: Json,
    hints: ToolHints,
    trust: Trust,
}

impl Call {
    fn request(&self) -> CallRequest<'_> {
        let Call { server, tool, arguments, hints, trust } = self;
        CallRequest { server, tool, arguments, hints: *hints, trust: *trust, seen: &NOTHING_SEEN }
    }
}

fn a_hint() -> impl Strategy<Value = HintValue> {
    prop::sample::select(vec![HintValue::Yes, HintValue::No, HintValue::Unspecified])
}

fn a_call() -> impl Strategy<Value = Call> {
    let value =
        prop_oneof!["[xy]{1,2}".prop_map(Json::String), Just(Json::Null), Just(json!(["x"]))];
    let arguments = prop::collection::hash_map("[pq]", value, 0..3);
    let hints = (a_hint(), a_hint(), a_hint()).prop_map(|(read_only, destructive, open_world)| {
        ToolHints { read_only, destructive, open_world }
    });
    let trust = prop::sample::select(vec![Trust::Trusted, Trust::Untrusted]);
    ("[ab]", "[cd]{1,2}", arguments, hints, trust).prop_map(
        |(server, tool, arguments, hints, trust)| {
            let arguments = Json::Object(arguments.into_iter().collect());
            Call { server, tool, arguments, hints, trust }
        },
    )
}

fn a_mode() -> impl Strategy<Value = PermissionMode> {
    prop::sample::select(PermissionMode::ALL.to_vec())
}

const OWN: &[&str] = &["user", "local"];
const ALL: &[&str] = &["managed", "user", "local"];

proptest! {
    /// No file, mode or trust weakens a deny or ask rule of an administrator.
    #[test]
    fn no_setting_of_a_user_weakens_managed_rules(
        managed in lines(&["managed"]), own in lines(OWN), call in a_call(), mode in a_mode(),
    ) {
        let alone = rules(&managed.join("\n"));
        let untrusted = Call { trust: Trust::Untrusted, hints: NO_HINTS, ..call.clone() };
        let before = decide(&alone, &untrusted.request(), PermissionMode::Default);
        let together = rules(&[managed, own].concat().join("\n"));
        let after = decide(&together, &call.request(), mode);
        if matches!(before.reason, DecisionReason::Rule(_) | DecisionReason::InvalidRule(_)) && before.effect != PermissionEffect::Allow {
            prop_assert!(after.effect >= before.effect, "{before:?} became {after:?}");
        }
    }

    /// Another deny or ask rule, valid or not, never makes a decision weaker.
    #[test]
    fn another_deny_or_ask_rule_never_weakens_a_decision(
        lines in lines(ALL), scope in prop::sample::select(ALL), list in prop::sample::select(vec!["deny", "ask"]),
        rule in a_rule(), (call, mode) in (a_call(), a_mode()),
    ) {
        let before = decide(&rules(&lines.join("\n")), &call.request(), mode);
        let more = [lines, vec![format!("{scope} {list} {rule}")]].concat();
        let after = decide(&rules(&more.join("\n")), &call.request(), mode);
        prop_assert!(after.effect >= before.effect, "{before:?} became {after:?}");
    }

    /// The decision is among the possible decisions without arguments, with and without known hints.
    #[test]
    fn the_decision_is_among_the_possible_ones(lines in lines(ALL), call in a_call(), mode in a_mode()) {
        let rules = rules(&lines.join("\n"));
        let request = call.request();
        let decided = decide(&rules, &request, mode);
        for hints in [None, Some(request.hints)] {
            let subject =
                CallWithoutArguments { server: request.server, tool: request.tool, hints, trust: request.trust };
            let possible = possible_decisions(&rules, &subject, mode);
            prop_assert!(possible.iter().any(|it| it.effect == decided.effect), "{possible:?}");
        }
        let bare = CallWithoutArguments {
            server: request.server, tool: request.tool, hints: Some(request.hints), trust: request.trust,
        };
        if rules.entries().iter().all(RuleEntry::is_unconditional) {
            prop_assert_eq!(possible_decisions(&rules, &bare, mode), vec![decided]);
        }
    }

    /// A matching deny rule takes precedence over every other rule, mode and trust.
    #[test]
    fn a_deny_that_matches_always_wins(
        lines in lines(ALL), scope in prop::sample::select(ALL), call in a_call(), mode in a_mode(),
    ) {
        let deny = format!("{scope} deny mcp__{}__{}", call.server, call.tool);
        let decision = decide(&rules(&[lines, vec![deny]].concat().join("\n")), &call.request(), mode);
        prop_assert_eq!(decision.effect, PermissionEffect::Deny);
        prop_assert!(matches!(decision.reason, DecisionReason::Rule(_)));
    }

    /// The order of rules and files has no effect, not even on which rule is named.
    #[test]
    fn order_has_no_effect(
        (lines, shuffled) in lines(ALL).prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
        call in a_call(),
        mode in a_mode(),
    ) {
        let [one, other] = [lines, shuffled].map(|lines| rules(&lines.join("\n")));
        prop_assert_eq!(explain(&one, &call.request(), mode), explain(&other, &call.request(), mode));
    }

    /// A suggested rule allows the same call, unless a rule denies it or asks.
    #[test]
    fn every_suggestion_reads_back_and_allows_its_request(
        server in "[a-zA-Z0-9_-]{1,8}",
        tool in "[a-zA-Z0-9_-]{1,8}",
        arguments in prop::collection::hash_map("[a-z.]{1,3}", any::<String>(), 0..3),
    ) {
        let arguments = Json::Object(arguments.into_iter().map(|(name, text)| (name, text.into())).collect());
        let call = Call { server, tool, arguments, hints: NO_HINTS, trust: Trust::Untrusted };
        for suggestion in suggestions(&call.request()) {
            let rule = ToolRule::parse(&suggestion.rule.to_string());
            prop_assert_eq!(rule.as_ref(), Ok(&suggestion.rule));
            let mut rules = PermissionRules::default();
            rules.add_for_session(PermissionEffect::Allow, suggestion.rule);
            prop_assert_eq!(decide(&rules, &call.request(), PermissionMode::Default).effect, PermissionEffect::Allow);
        }
    }

    /// A hidden tool is denied, whatever the arguments and the mode.
    #[test]
    fn a_hidden_tool_is_denied(lines in lines(ALL), call in a_call(), mode in a_mode()) {
        let rules = rules(&lines.join("\n"));
        if tool_hidden_by(&rules, &call.server, &call.tool).is_some() {
            prop_assert_eq!(decide(&rules, &call.request(), mode).effect, PermissionEffect::Deny);
        }
        if server_hidden_by(&rules, &call.server).is_some() {
            prop_assert!(tool_hidden_by(&rules, &call.server, &call.tool).is_some());
        }
    }
}

#[test]
fn a_rule_with_a_condition_applies_in_sessions_that_have_seen_such_results() {
    let text = r#"{"permissions": {
        "allow": ["mcp__slack", "mcp__crm"],
        "ask": [{"rule": "mcp__slack__upload", "after": ["mcp__wiki", "mcp__drive__read*"]}],
        "deny": [{"rule": "mcp__slack", "after": "mcp__crm"}]
    }}"#;
    let source = Source::file(Scope::User, "settings.json");
    let settings = Settings::read(&source, text, Authority::User);
    assert!(settings.layer.problems.is_empty(), "{:?}", settings.layer.problems);
    let decision = |tool: &str, seen: &[(&str, &str)]| {
        let mut tools = SeenTools::default();
        seen.iter().for_each(|(server, tool)| tools.insert(server, tool));
        let request = CallRequest {
            server: "slack",
            tool,
            arguments: &json!({}),
            hints: NO_HINTS,
            trust: Trust::Untrusted,
            seen: &tools,
        };
        let decided = decide(&settings.permissions, &request, PermissionMode::Default);
        format!("{}: {}", decided.effect, decided.reason.without_paths())
    };
    let allowed = "allow: the allow rule `mcp__slack` (user settings)";
    assert_eq!(decision("post", &[]), allowed);
    assert_eq!(decision("post", &[("wiki", "read"), ("slack", "list")]), allowed);
    assert_eq!(
        decision("post", &[("crm", "get")]),
        "deny: the deny rule `mcp__slack` after results of `mcp__crm` (user settings)"
    );
    assert_eq!(decision("upload", &[("drive", "list")]), allowed);
    assert_eq!(
        decision("upload", &[("drive", "read_file")]),
        "ask: the ask rule `mcp__slack__upload` after results of `mcp__wiki` or `mcp__drive__read*` (user settings)"
    );
    // The server stays visible: not every session has seen such results.
    assert_eq!(server_hidden_by(&settings.permissions, "slack"), None);
    assert!(settings.permissions.depend_on_seen());
    // An allow rule with a condition would say nothing about other sessions, so it is no rule.
    let allow = r#"{"permissions": {"allow": [{"rule": "mcp__slack", "after": "mcp__crm"}]}}"#;
    assert_eq!(Settings::read(&source, allow, Authority::User).layer.problems.len(), 1);
}

#[test]
fn a_condition_that_cannot_be_read_makes_calls_ask() {
    let source = Source::file(Scope::User, "settings.json");
    for after in ["5", "[]", "[5]", "\"crm\"", "\"mcp__crm(id=5)\""] {
        let text = format!(
            r#"{{"permissions": {{"allow": ["mcp__slack"], "deny": [{{"rule": "mcp__slack", "after": {after}}}]}}}}"#
        );
        let settings = Settings::read(&source, &text, Authority::User);
        assert_eq!(settings.layer.problems.len(), 1, "{after}");
        let request = CallRequest {
            server: "slack",
            tool: "post",
            arguments: &json!({}),
            hints: NO_HINTS,
            trust: Trust::Untrusted,
            seen: &NOTHING_SEEN,
        };
        let decided = decide(&settings.permissions, &request, PermissionMode::Default);
        assert_eq!(decided.effect, PermissionEffect::Ask, "{after}: {}", decided.reason);
    }
}

#[test]
fn an_explanation_says_which_results_a_rule_waits_for() {
    let source = Source::file(Scope::User, "settings.json");
    let text =
        r#"{"permissions": {"deny": [{"rule": "mcp__slack", "after": ["mcp__crm", "mcp__hr"]}]}}"#;
    let settings = Settings::read(&source, text, Authority::User);
    let request = CallRequest {
        server: "slack",
        tool: "post",
        arguments: &json!({}),
        hints: NO_HINTS,
        trust: Trust::Untrusted,
        seen: &NOTHING_SEEN,
    };
    let explanation = explain(&settings.permissions, &request, PermissionMode::Default);
    let result = explanation.considered[0].result.to_string();
    assert_eq!(result, "it applies only after results of `mcp__crm` or `mcp__hr`");
}
