//! May a call be made? Deny before ask before allow, whatever the scope and the order of the rules.

use std::fmt;
use std::sync::Arc;

use super::request::{Claim, Mode, Request, Trust};
use super::rule::Fit;
use super::rules::{Broken, Effect, Listed, Rules, by_damage, by_weight};
use crate::policy::Authority;
use crate::source::{Origin, Source};
use crate::url_pattern::Reading;

/// What is to happen with a call, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What.
    pub verdict: Effect,
    /// Why.
    pub because: Because,
}

/// Why a call is allowed, asked about or denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Because {
    /// A rule says so.
    Rule(Listed),
    /// An entry of a deny or ask list makes no sense; it may have been about this server.
    Broken(Broken),
    /// The rules of a file could not be made out.
    Lost(Arc<Source>),
    /// The mode says so.
    Mode(Mode),
    /// The server's tools are approved beforehand.
    Trust,
    /// Nothing says anything, and then somebody is asked.
    Nothing,
    /// It would ask, for the reason inside, but nothing may ask in this mode.
    NotAsked(Box<Because>),
}

/// Decides. Nothing that a person writes, chooses or trusts loosens what an administrator denies or wants asked.
pub fn decide(rules: &Rules, request: &Request<'_>, chosen: Mode) -> Decision {
    let mode = rules.mode_that_counts(chosen);
    let allow = |because| Decision { verdict: Effect::Allow, because };
    let deny = |because| Decision { verdict: Effect::Deny, because };
    if let Some(listed) = rules.first(Effect::Deny, request) {
        return deny(Because::Rule(listed.clone()));
    }
    if mode == Mode::Plan && request.hints.read_only != Claim::Yes {
        return deny(Because::Mode(mode));
    }
    if let Some(because) = must_ask(rules, request, mode) {
        return asked(because, mode);
    }
    if mode == Mode::Bypass {
        return allow(Because::Mode(mode));
    }
    if let Some(listed) = rules.first(Effect::Allow, request) {
        return allow(Because::Rule(listed.clone()));
    }
    if mode == Mode::AcceptEdits && request.hints.is_gentle() {
        return allow(Because::Mode(mode));
    }
    match request.trust {
        Trust::Given => allow(Because::Trust),
        Trust::Withheld => asked(Because::Nothing, mode),
    }
}

/// What wants the call asked about, however much else allows it. A person who bypasses also bypasses the
/// person's own ask rules; an administrator's hold, and so does what nobody can read.
fn must_ask(rules: &Rules, request: &Request<'_>, mode: Mode) -> Option<Because> {
    let counts =
        |listed: &&Listed| mode != Mode::Bypass || listed.authority == Authority::Administrator;
    let rule = rules.first(Effect::Ask, request).filter(counts).cloned().map(Because::Rule);
    let lost = || rules.first_lost().cloned().map(Because::Lost);
    let broken = || rules.first_broken(request.server).cloned().map(Because::Broken);
    rule.or_else(lost).or_else(broken)
}

pub(super) fn asked(because: Because, mode: Mode) -> Decision {
    match mode {
        Mode::DontAsk => {
            Decision { verdict: Effect::Deny, because: Because::NotAsked(Box::new(because)) }
        }
        Mode::Plan | Mode::Default | Mode::AcceptEdits | Mode::Bypass => {
            Decision { verdict: Effect::Ask, because }
        }
    }
}

/// Is the tool denied whatever its arguments are? Then it does not come into the pool.
pub fn hides(rules: &Rules, server: &str, tool: &str) -> Option<Because> {
    unconditional_deny(rules, |listed| {
        listed.rule.tools_of(server, Reading::Broad).is_some_and(|tools| tools.matches(tool))
    })
}

/// Is every tool of the server denied by one rule? Then none comes into the pool, whatever they are called.
pub fn hides_server(rules: &Rules, server: &str) -> Option<Because> {
    let is_every = |listed: &Listed| {
        let tools = listed.rule.tools_of(server, Reading::Broad);
        tools.is_some_and(|tools| tools.pieces().iter().all(String::is_empty) && tools.has_star())
    };
    unconditional_deny(rules, is_every)
}

fn unconditional_deny(rules: &Rules, is_about: impl Fn(&Listed) -> bool) -> Option<Because> {
    rules
        .listed
        .iter()
        .filter(|listed| listed.effect == Effect::Deny && listed.rule.is_unconditional())
        .filter(|listed| is_about(listed))
        .min_by(|one, other| by_weight(one, other))
        .map(|listed| Because::Rule(listed.clone()))
}

/// A decision, and everything that was looked at for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What was decided.
    pub decision: Decision,
    /// The mode that counted.
    pub mode: Mode,
    /// Where an administrator forbade the mode that was chosen, where that is so.
    pub forbidden_by: Option<Origin>,
    /// Files whose rules could not be made out.
    pub lost: Vec<Arc<Source>>,
    /// Entries of every list that are no rules and may have been about the server.
    pub broken: Vec<Broken>,
    /// Every rule: deny, ask, allow, and of each an administrator's first.
    pub considered: Vec<Considered>,
}

/// A rule that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// The rule and its place.
    pub listed: Listed,
    /// Is it about the request, and if not, why?
    pub fit: Fit,
}

/// Decides, and tells of every rule whether it is about the request.
pub fn explain(rules: &Rules, request: &Request<'_>, chosen: Mode) -> Explanation {
    let mode = rules.mode_that_counts(chosen);
    let consider = |listed: &Listed| Considered {
        fit: listed.rule.fit(request, listed.effect.reading()),
        listed: listed.clone(),
    };
    let mut considered: Vec<Considered> = rules.listed.iter().map(consider).collect();
    considered.sort_by(|one, other| {
        let by_effect = other.listed.effect.cmp(&one.listed.effect);
        by_effect.then_with(|| by_weight(&one.listed, &other.listed))
    });
    let is_about = |broken: &&Broken| broken.concern.is_about(request.server);
    let mut broken: Vec<Broken> = rules.broken.iter().filter(is_about).cloned().collect();
    broken.sort_by(by_damage);
    let mut lost = rules.lost.clone();
    lost.sort();
    Explanation {
        decision: decide(rules, request, chosen),
        mode,
        forbidden_by: rules.bypass_disabled().filter(|_| mode != chosen).cloned(),
        lost,
        broken,
        considered,
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::Rule(listed) => {
                let Listed { effect, rule, origin, .. } = listed;
                write!(f, "the {effect} rule `{}` ({origin})", rule.shown())
            }
            Because::Broken(broken) => {
                write!(f, "the {} rule in {} makes no sense", broken.effect, broken.origin)
            }
            Because::Lost(source) => write!(f, "the rules in {source} cannot be made out"),
            Because::Mode(mode) => write!(f, "the mode `{mode}`"),
            Because::Trust => f.write_str("the server is trusted"),
            Because::Nothing => f.write_str("no rule is about it"),
            Because::NotAsked(inner) => {
                write!(f, "{inner}, and nothing asks in the mode `{}`", Mode::DontAsk)
            }
        }
    }
}
