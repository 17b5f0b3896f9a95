//! What may be decided about a call whose arguments nobody knows any more: for asking of past calls what other
//! rules would have said. Follows `decision` step by step; a test holds the two together.

use super::decision::{Because, Decision, asked};
use super::request::{Claim, Hints, Mode, Trust};
use super::rules::{Effect, Listed, Rules, by_weight};
use crate::policy::Authority;

/// A call without its arguments.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The server's name as tool names hold it.
    pub server: &'a str,
    /// The tool's name, likewise.
    pub tool: &'a str,
    /// What the server says of the tool, where that is known.
    pub hints: Option<Hints>,
    /// Are the server's tools approved beforehand?
    pub trust: Trust,
}

/// Every decision that some arguments lead to, the strictest first; several of one verdict where several rules
/// may be what decides. What `decide` says is always among them.
pub fn possible(rules: &Rules, subject: &Subject<'_>, chosen: Mode) -> Vec<Decision> {
    let mode = rules.mode_that_counts(chosen);
    let said = |read_only, destructive, open_world| Hints { read_only, destructive, open_world };
    let every = [
        said(Claim::Unsaid, Claim::Unsaid, Claim::Unsaid),
        said(Claim::Yes, Claim::No, Claim::Unsaid),
        said(Claim::No, Claim::No, Claim::No),
        said(Claim::Yes, Claim::No, Claim::No),
    ];
    let matters = matches!(mode, Mode::Plan | Mode::AcceptEdits);
    let hints = match (&subject.hints, matters) {
        (Some(known), _) => std::slice::from_ref(known),
        (None, true) => &every[..],
        (None, false) => &every[..1],
    };
    let mut decisions = Vec::new();
    for hints in hints {
        for decision in with_hints(rules, subject, *hints, mode) {
            if !decisions.contains(&decision) {
                decisions.push(decision);
            }
        }
    }
    decisions.sort_by_key(|decision| std::cmp::Reverse(decision.verdict));
    decisions
}

fn with_hints(rules: &Rules, subject: &Subject<'_>, hints: Hints, mode: Mode) -> Vec<Decision> {
    let mut decisions = Vec::new();
    let rule =
        |verdict, listed: &Listed| Decision { verdict, because: Because::Rule(listed.clone()) };
    let (may, must) = rules.split(Effect::Deny, subject, mode);
    decisions.extend(may.into_iter().map(|listed| rule(Effect::Deny, listed)));
    if let Some(listed) = must {
        decisions.push(rule(Effect::Deny, listed));
        return decisions;
    }
    if mode == Mode::Plan && hints.read_only != Claim::Yes {
        decisions.push(Decision { verdict: Effect::Deny, because: Because::Mode(mode) });
        return decisions;
    }
    let (may, must) = rules.split(Effect::Ask, subject, mode);
    let ask = |listed: &Listed| asked(Because::Rule(listed.clone()), mode);
    decisions.extend(may.into_iter().map(ask));
    let lost = || rules.first_lost().cloned().map(Because::Lost);
    let broken = || rules.first_broken(subject.server).cloned().map(Because::Broken);
    let must = must.map(|listed| Because::Rule(listed.clone())).or_else(lost).or_else(broken);
    if let Some(because) = must {
        decisions.push(asked(because, mode));
        return decisions;
    }
    if mode == Mode::Bypass {
        decisions.push(Decision { verdict: Effect::Allow, because: Because::Mode(mode) });
        return decisions;
    }
    let (may, must) = rules.split(Effect::Allow, subject, mode);
    decisions.extend(may.into_iter().map(|listed| rule(Effect::Allow, listed)));
    decisions.push(match (must, subject.trust) {
        (Some(listed), _) => rule(Effect::Allow, listed),
        (None, _) if mode == Mode::AcceptEdits && hints.is_gentle() => {
            Decision { verdict: Effect::Allow, because: Because::Mode(mode) }
        }
        (None, Trust::Given) => Decision { verdict: Effect::Allow, because: Because::Trust },
        (None, Trust::Withheld) => asked(Because::Nothing, mode),
    });
    decisions
}

impl Rules {
    /// The rules of a list that may be about the subject, and the weightiest that is about it in any case.
    fn split(
        &self,
        effect: Effect,
        subject: &Subject<'_>,
        mode: Mode,
    ) -> (Vec<&Listed>, Option<&Listed>) {
        let counts = |listed: &&Listed| {
            effect != Effect::Ask
                || mode != Mode::Bypass
                || listed.authority == Authority::Administrator
        };
        let is_about = |listed: &&Listed| {
            let tools = listed.rule.tools_of(subject.server, effect.reading());
            listed.effect == effect && tools.is_some_and(|tools| tools.matches(subject.tool))
        };
        let about = self.listed.iter().filter(is_about).filter(counts);
        let (must, mut may): (Vec<&Listed>, Vec<&Listed>) =
            about.partition(|listed| listed.rule.is_unconditional());
        may.sort_by(|one, other| by_weight(one, other));
        (may, must.into_iter().min_by(|one, other| by_weight(one, other)))
    }
}
