//! Permission rules: `config::permission`. The input's first line is a call, `server tool {"arguments": …}`; every
//! other line is a rule after the name of its list, `deny mcp__files__write`. An `!` in front makes it a managed
//! rule.

use serde_json::{Map, Value as Json, json};
use switchboard_config::display::is_unprintable;
use switchboard_config::pattern::url_pattern::MatchMode;
use switchboard_config::permission::{
    CallRequest, CallWithoutArguments, HintValue, MatchResult, NOTHING_SEEN, PermissionEffect,
    PermissionMode, PermissionRules, ToolHints, ToolRule, Trust, decide, explain,
    possible_decisions, server_hidden_by, suggestions, tool_hidden_by,
};
use switchboard_config::policy::Authority;
use switchboard_config::scope::Scope;
use switchboard_config::settings::Settings;
use switchboard_config::source::Source;

/// - A parsed rule is formatted as a text that parses to the same rule, and displayed without control characters. A
///   text that is not a rule is rejected with a position.
/// - A matching deny rule wins in every mode; a deny or ask rule that cannot be parsed allows nothing.
/// - More deny and ask rules never loosen, more allow rules never tighten, and the order of rules never matters.
/// - A call that is allowed by a strict match also matches loosely. A rule that hides a tool denies every call of it.
/// - A suggested rule allows the call, unless another rule applies.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.lines();
    let Some(call) = lines.next().and_then(Call::read) else { return };
    let lines: Vec<Line<'_>> = lines.filter_map(Line::read).take(12).collect();
    lines.iter().for_each(|line| rule_round_trips(line.rule));
    let sets = RuleSets::of(&lines);
    for (hints, trust) in HINT_CASES {
        let request = call.request(hints, trust);
        lines.iter().for_each(|line| strict_implies_broad(line.rule, &request));
        for mode in PermissionMode::ALL {
            decision_is_sound(&lines, &sets, &request, mode);
        }
    }
    let (hints, trust) = HINT_CASES[0];
    suggestions_permit(&call.request(hints, trust));
}

/// The rules, and others to compare them with.
struct RuleSets {
    all: PermissionRules,
    backwards: PermissionRules,
    /// All rules except that of one line.
    without: Vec<PermissionRules>,
}

impl RuleSets {
    fn of(lines: &[Line<'_>]) -> RuleSets {
        let without = |left_out: usize| {
            let others = lines.iter().enumerate().filter(move |(index, _)| *index != left_out);
            rules(others.map(|(_, line)| line))
        };
        RuleSets {
            all: rules(lines.iter()),
            backwards: rules(lines.iter().rev()),
            without: (0..lines.len()).map(without).collect(),
        }
    }
}

const fn hints(read_only: HintValue, destructive: HintValue, open_world: HintValue) -> ToolHints {
    ToolHints { read_only, destructive, open_world }
}

/// The annotations of a tool, and the trust of its server.
const HINT_CASES: [(ToolHints, Trust); 3] = [
    (
        hints(HintValue::Unspecified, HintValue::Unspecified, HintValue::Unspecified),
        Trust::Untrusted,
    ),
    (hints(HintValue::Yes, HintValue::No, HintValue::No), Trust::Trusted),
    (hints(HintValue::No, HintValue::No, HintValue::No), Trust::Untrusted),
];

struct Call<'t> {
    server: &'t str,
    tool: &'t str,
    arguments: Json,
}

impl<'t> Call<'t> {
    fn read(line: &'t str) -> Option<Call<'t>> {
        let (server, rest) = line.split_once(' ')?;
        let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
        Some(Call { server, tool, arguments: serde_json::from_str(arguments).ok()? })
    }

    fn request(&self, hints: ToolHints, trust: Trust) -> CallRequest<'_> {
        let Call { server, tool, arguments } = self;
        CallRequest { server, tool, arguments, hints, trust, seen: &NOTHING_SEEN }
    }
}

#[derive(Clone, Copy)]
struct Line<'t> {
    authority: Authority,
    effect: PermissionEffect,
    rule: &'t str,
}

impl<'t> Line<'t> {
    fn read(line: &'t str) -> Option<Line<'t>> {
        let (authority, line) = match line.strip_prefix('!') {
            Some(line) => (Authority::Administrator, line),
            None => (Authority::User, line),
        };
        let (effect, rule) = line.split_once(' ')?;
        let all = [PermissionEffect::Allow, PermissionEffect::Ask, PermissionEffect::Deny];
        let effect = all.into_iter().find(|it| it.id() == effect)?;
        Some(Line { authority, effect, rule })
    }

    fn fits(&self, request: &CallRequest<'_>) -> bool {
        let reading = match self.effect {
            PermissionEffect::Allow => MatchMode::Strict,
            PermissionEffect::Ask | PermissionEffect::Deny => MatchMode::Broad,
        };
        ToolRule::parse(self.rule)
            .is_ok_and(|rule| rule.match_call(request, reading) == MatchResult::Matches)
    }
}

/// The lines as settings files.
fn rules<'t>(lines: impl Iterator<Item = &'t Line<'t>> + Clone) -> PermissionRules {
    let read = |authority, scope, name: &str| {
        let mut lists = Map::new();
        for line in lines.clone().filter(|line| line.authority == authority) {
            let list = lists.entry(line.effect.id()).or_insert_with(|| json!([]));
            list.as_array_mut().expect("it was made one").push(line.rule.into());
        }
        let text = json!({"permissions": lists}).to_string();
        Settings::read(&Source::file(scope, name), &text, authority).permissions
    };
    let managed = read(Authority::Administrator, Scope::Enterprise, "managed-settings.json");
    managed.merge(read(Authority::User, Scope::User, "settings.json"))
}

fn rule_round_trips(text: &str) {
    match ToolRule::parse(text) {
        Ok(rule) => {
            let written = rule.to_string();
            assert_eq!(ToolRule::parse(&written).as_ref(), Ok(&rule), "{written}");
            assert!(
                !rule.to_printable().contains(is_unprintable),
                "{:?} is not for a terminal",
                rule.to_printable()
            );
        }
        Err(fault) => {
            assert!(text.is_char_boundary(fault.at), "a fault at {} of {text:?}", fault.at);
        }
    }
}

fn strict_implies_broad(text: &str, request: &CallRequest<'_>) {
    let Ok(rule) = ToolRule::parse(text) else { return };
    if rule.match_call(request, MatchMode::Strict) == MatchResult::Matches {
        assert_eq!(
            rule.match_call(request, MatchMode::Broad),
            MatchResult::Matches,
            "{rule} fits strictly only"
        );
        assert!(rule.names_tool(request.server, request.tool) && rule.names_server(request.server));
    }
}

fn suggestions_permit(request: &CallRequest<'_>) {
    for suggestion in suggestions(request) {
        let text = suggestion.rule.to_string();
        assert!(!text.contains(is_unprintable), "{text:?} is not for a terminal");
        let line =
            Line { authority: Authority::User, effect: PermissionEffect::Allow, rule: &text };
        let decision = decide(&rules([line].iter()), request, PermissionMode::Default);
        assert_eq!(decision.effect, PermissionEffect::Allow, "{text} was suggested");
    }
}

fn decision_is_sound(
    lines: &[Line<'_>],
    sets: &RuleSets,
    request: &CallRequest<'_>,
    mode: PermissionMode,
) {
    let all = &sets.all;
    let decision = decide(all, request, mode);
    let verdict = decision.effect;

    let denies = |line: &Line<'_>| line.effect == PermissionEffect::Deny && line.fits(request);
    if lines.iter().any(denies) {
        assert_eq!(verdict, PermissionEffect::Deny, "a deny fits, and the mode is {mode}");
    }
    let asks = |line: &Line<'_>| {
        let counts = mode != PermissionMode::Bypass || line.authority == Authority::Administrator;
        line.effect == PermissionEffect::Ask && counts && line.fits(request)
    };
    if lines.iter().any(asks) {
        assert_ne!(verdict, PermissionEffect::Allow, "an ask fits, and the mode is {mode}");
    }
    let explained = explain(all, request, mode);
    assert_eq!(explained.decision, decision, "it is explained otherwise");
    if explained.invalid.iter().any(|broken| broken.effect != PermissionEffect::Allow) {
        assert_ne!(
            verdict,
            PermissionEffect::Allow,
            "a rule that cannot be parsed may have denied it"
        );
    }
    if tool_hidden_by(all, request.server, request.tool).is_some() {
        assert_eq!(verdict, PermissionEffect::Deny, "the tool is hidden and not denied");
    }
    if server_hidden_by(all, request.server).is_some() {
        assert!(
            tool_hidden_by(all, request.server, request.tool).is_some(),
            "a server is half hidden"
        );
    }
    let backwards = decide(&sets.backwards, request, mode).effect;
    assert_eq!(backwards, verdict, "the order of rules matters in {mode}");
    for (Line { effect, rule, .. }, without) in lines.iter().zip(&sets.without) {
        let without = decide(without, request, mode).effect;
        match effect {
            PermissionEffect::Allow => {
                assert!(without >= verdict, "allow {rule} tightens in {mode}")
            }
            PermissionEffect::Ask | PermissionEffect::Deny => {
                assert!(without <= verdict, "{effect} {rule} loosens in {mode}");
            }
        }
    }

    let CallRequest { server, tool, hints, trust, .. } = *request;
    let subject = CallWithoutArguments { server, tool, hints: Some(hints), trust };
    let might = possible_decisions(all, &subject, mode);
    assert!(might.contains(&decision), "{decision:?} is not possible");
}
