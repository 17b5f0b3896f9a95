//! Permission rules: `config::permission`. The input's first line is a call, `server tool {"arguments": …}`; every
//! other line is a rule behind the list it stands in, `deny mcp__files__write`. An `!` in front makes it an
//! administrator's.

use serde_json::{Map, Value as Json, json};
use switchboard_config::permission::{
    Claim, Effect, Fit, Hints, Mode, Request, Rules, Subject, ToolRule, Trust, decide, explain,
    hides, hides_server, possible, suggestions,
};
use switchboard_config::policy::Authority;
use switchboard_config::scope::Scope;
use switchboard_config::settings::Settings;
use switchboard_config::shown::is_deceptive;
use switchboard_config::source::Source;
use switchboard_config::url_pattern::Reading;

/// - A rule that is read is written as a text that reads as the same rule, and shown without anything that a
///   terminal acts on. What is no rule is refused at a place in it.
/// - A deny that fits wins in every mode; a deny or ask that nobody understands lets nothing through.
/// - More denies and asks never loosen, more allows never tighten, and the order of rules never matters.
/// - What is allowed for sure fits broadly too. What hides a tool denies every call of it.
/// - What is suggested allows the call, where nothing else is said.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.lines();
    let Some(call) = lines.next().and_then(Call::read) else { return };
    let lines: Vec<Line<'_>> = lines.filter_map(Line::read).take(12).collect();
    lines.iter().for_each(|line| reads_as_written(line.rule));
    let sets = Sets::of(&lines);
    for (hints, trust) in SAID {
        let request = call.request(hints, trust);
        lines.iter().for_each(|line| strictly_is_broadly(line.rule, &request));
        for mode in Mode::ALL {
            decides_soundly(&lines, &sets, &request, mode);
        }
    }
    let (hints, trust) = SAID[0];
    suggestions_allow(&call.request(hints, trust));
}

/// The rules, and others to compare them with.
struct Sets {
    all: Rules,
    backwards: Rules,
    /// All but the line of that number.
    without: Vec<Rules>,
}

impl Sets {
    fn of(lines: &[Line<'_>]) -> Sets {
        let without = |left_out: usize| {
            let others = lines.iter().enumerate().filter(move |(index, _)| *index != left_out);
            rules(others.map(|(_, line)| line))
        };
        Sets {
            all: rules(lines.iter()),
            backwards: rules(lines.iter().rev()),
            without: (0..lines.len()).map(without).collect(),
        }
    }
}

const fn said(read_only: Claim, destructive: Claim, open_world: Claim) -> Hints {
    Hints { read_only, destructive, open_world }
}

/// What a server may say of its tool, and a person of the server.
const SAID: [(Hints, Trust); 3] = [
    (said(Claim::Unsaid, Claim::Unsaid, Claim::Unsaid), Trust::Withheld),
    (said(Claim::Yes, Claim::No, Claim::No), Trust::Given),
    (said(Claim::No, Claim::No, Claim::No), Trust::Withheld),
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

    fn request(&self, hints: Hints, trust: Trust) -> Request<'_> {
        let Call { server, tool, arguments } = self;
        Request { server, tool, arguments, hints, trust }
    }
}

#[derive(Clone, Copy)]
struct Line<'t> {
    authority: Authority,
    effect: Effect,
    rule: &'t str,
}

impl<'t> Line<'t> {
    fn read(line: &'t str) -> Option<Line<'t>> {
        let (authority, line) = match line.strip_prefix('!') {
            Some(line) => (Authority::Administrator, line),
            None => (Authority::Person, line),
        };
        let (effect, rule) = line.split_once(' ')?;
        let all = [Effect::Allow, Effect::Ask, Effect::Deny];
        let effect = all.into_iter().find(|it| it.id() == effect)?;
        Some(Line { authority, effect, rule })
    }

    fn fits(&self, request: &Request<'_>) -> bool {
        let reading = match self.effect {
            Effect::Allow => Reading::Strict,
            Effect::Ask | Effect::Deny => Reading::Broad,
        };
        ToolRule::parse(self.rule).is_ok_and(|rule| rule.fit(request, reading) == Fit::Matches)
    }
}

/// The lines as the settings files that they might stand in.
fn rules<'t>(lines: impl Iterator<Item = &'t Line<'t>> + Clone) -> Rules {
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
    managed.and(read(Authority::Person, Scope::User, "settings.json"))
}

fn reads_as_written(text: &str) {
    match ToolRule::parse(text) {
        Ok(rule) => {
            let written = rule.to_string();
            assert_eq!(ToolRule::parse(&written).as_ref(), Ok(&rule), "{written}");
            assert!(
                !rule.shown().contains(is_deceptive),
                "{:?} is not for a terminal",
                rule.shown()
            );
        }
        Err(fault) => {
            assert!(text.is_char_boundary(fault.at), "a fault at {} of {text:?}", fault.at);
        }
    }
}

fn strictly_is_broadly(text: &str, request: &Request<'_>) {
    let Ok(rule) = ToolRule::parse(text) else { return };
    if rule.fit(request, Reading::Strict) == Fit::Matches {
        assert_eq!(rule.fit(request, Reading::Broad), Fit::Matches, "{rule} fits strictly only");
        assert!(rule.names_tool(request.server, request.tool) && rule.names_server(request.server));
    }
}

fn suggestions_allow(request: &Request<'_>) {
    for suggestion in suggestions(request) {
        let text = suggestion.rule.to_string();
        assert!(!text.contains(is_deceptive), "{text:?} is not for a terminal");
        let line = Line { authority: Authority::Person, effect: Effect::Allow, rule: &text };
        let decision = decide(&rules([line].iter()), request, Mode::Default);
        assert_eq!(decision.verdict, Effect::Allow, "{text} was suggested");
    }
}

fn decides_soundly(lines: &[Line<'_>], sets: &Sets, request: &Request<'_>, mode: Mode) {
    let all = &sets.all;
    let decision = decide(all, request, mode);
    let verdict = decision.verdict;

    let denies = |line: &Line<'_>| line.effect == Effect::Deny && line.fits(request);
    if lines.iter().any(denies) {
        assert_eq!(verdict, Effect::Deny, "a deny fits, and the mode is {mode}");
    }
    let asks = |line: &Line<'_>| {
        let counts = mode != Mode::Bypass || line.authority == Authority::Administrator;
        line.effect == Effect::Ask && counts && line.fits(request)
    };
    if lines.iter().any(asks) {
        assert_ne!(verdict, Effect::Allow, "an ask fits, and the mode is {mode}");
    }
    let explained = explain(all, request, mode);
    assert_eq!(explained.decision, decision, "it is explained otherwise");
    if explained.broken.iter().any(|broken| broken.effect != Effect::Allow) {
        assert_ne!(verdict, Effect::Allow, "a rule that nobody understands may have forbidden it");
    }
    if hides(all, request.server, request.tool).is_some() {
        assert_eq!(verdict, Effect::Deny, "the tool is hidden and not denied");
    }
    if hides_server(all, request.server).is_some() {
        assert!(hides(all, request.server, request.tool).is_some(), "a server is half hidden");
    }
    let backwards = decide(&sets.backwards, request, mode).verdict;
    assert_eq!(backwards, verdict, "the order of rules matters in {mode}");
    for (Line { effect, rule, .. }, without) in lines.iter().zip(&sets.without) {
        let without = decide(without, request, mode).verdict;
        match effect {
            Effect::Allow => assert!(without >= verdict, "allow {rule} tightens in {mode}"),
            Effect::Ask | Effect::Deny => {
                assert!(without <= verdict, "{effect} {rule} loosens in {mode}");
            }
        }
    }

    let Request { server, tool, hints, trust, .. } = *request;
    let subject = Subject { server, tool, hints: Some(hints), trust };
    let might = possible(all, &subject, mode);
    assert!(might.contains(&decision), "{decision:?} is not possible");
}
