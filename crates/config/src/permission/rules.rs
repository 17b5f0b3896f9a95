//! The rules of every settings file and of the session, each with the line it stands on.
//! Their order never matters: whoever looks for one gets the same one however they were put together.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::request::{Mode, Request};
use super::rule::{Concern, Fit, ToolRule};
use crate::policy::Authority;
use crate::scope::Scope;
use crate::source::{Origin, Source};
use crate::url_pattern::Reading;

/// What a list of rules, and in the end a decision, says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// It may be made.
    Allow,
    /// Somebody must say yes first.
    Ask,
    /// It may not be made.
    Deny,
}

impl Effect {
    /// The list's key in settings.
    pub fn id(self) -> &'static str {
        match self {
            Effect::Allow => "allow",
            Effect::Ask => "ask",
            Effect::Deny => "deny",
        }
    }

    /// How a list of this effect is read: a doubt never lets a call through.
    pub(super) fn reading(self) -> Reading {
        match self {
            Effect::Allow => Reading::Strict,
            Effect::Ask | Effect::Deny => Reading::Broad,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

/// A rule in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The list it stands in.
    pub effect: Effect,
    /// The rule.
    pub rule: ToolRule,
    /// Where it stands.
    pub origin: Origin,
    /// Whose word it is.
    pub authority: Authority,
}

/// An entry of a list that is no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The list it stands in.
    pub effect: Effect,
    /// The servers it may have been about.
    pub concern: Concern,
    /// Where it stands.
    pub origin: Origin,
}

/// Everything that settings and the session say of permissions.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub(super) listed: Vec<Listed>,
    pub(super) broken: Vec<Broken>,
    /// Files whose rules could not all be made out.
    pub(super) lost: Vec<Arc<Source>>,
    pub(super) modes: Vec<(Mode, Origin)>,
    pub(super) without_bypass: Vec<Origin>,
}

impl Rules {
    /// The rules of a file that cannot be read: nobody knows what they were, so every call asks.
    pub fn lost(source: &Arc<Source>) -> Rules {
        Rules { lost: vec![source.clone()], ..Rules::default() }
    }

    /// Every rule there is.
    pub fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// These rules and others together.
    pub fn and(mut self, other: Rules) -> Rules {
        self.listed.extend(other.listed);
        self.broken.extend(other.broken);
        self.lost.extend(other.lost);
        self.modes.extend(other.modes);
        self.without_bypass.extend(other.without_bypass);
        self
    }

    /// Only what restricts: for settings of a project around this one, which loosen nothing here.
    pub fn restrictions(mut self) -> Rules {
        self.listed.retain(|listed| listed.effect != Effect::Allow);
        self.modes.clear();
        self
    }

    /// Only what an administrator said: for asking what other rules of a person's own would do.
    pub fn of_administrators(mut self) -> Rules {
        let is_theirs = |origin: &Origin| origin.scope() == Scope::Enterprise;
        self.listed.retain(|listed| listed.authority == Authority::Administrator);
        self.broken.retain(|broken| is_theirs(&broken.origin));
        self.lost.retain(|source| source.scope == Scope::Enterprise);
        self.modes.retain(|(_, origin)| is_theirs(origin));
        self
    }

    /// A rule that decides wherever this one would: a stronger one about at least as much, or the same said
    /// more broadly.
    pub fn overshadowing(&self, effect: Effect, rule: &ToolRule) -> Option<&Listed> {
        self.listed
            .iter()
            .filter(|listed| listed.effect >= effect && listed.rule.covers(rule))
            .filter(|listed| listed.effect > effect || listed.rule != *rule)
            .min_by(|one, other| other.effect.cmp(&one.effect).then(by_weight(one, other)))
    }

    /// Adds a rule that holds as long as the session does.
    pub fn add_for_session(&mut self, effect: Effect, rule: ToolRule) {
        let source = Source::program(Scope::Dynamic, "this session");
        let origin = Origin { source, position: None };
        self.listed.push(Listed { effect, rule, origin, authority: Authority::Person });
    }

    /// The mode to begin with, and where it was said; the highest scope counts.
    pub fn default_mode(&self) -> Option<(Mode, &Origin)> {
        let rank = |(mode, origin): &(Mode, Origin)| (origin.scope(), *mode);
        let (mode, origin) = self
            .modes
            .iter()
            .min_by(|one, other| rank(one).cmp(&rank(other)).then(by_place(&one.1, &other.1)))?;
        Some((*mode, origin))
    }

    /// Where an administrator forbade `bypass`.
    pub fn bypass_disabled(&self) -> Option<&Origin> {
        self.without_bypass.iter().min_by(|one, other| by_place(one, other))
    }

    /// The mode that counts where this one was chosen.
    pub fn mode_that_counts(&self, chosen: Mode) -> Mode {
        match chosen {
            Mode::Bypass if !self.without_bypass.is_empty() => Mode::Default,
            Mode::Bypass | Mode::Plan | Mode::DontAsk | Mode::Default | Mode::AcceptEdits => chosen,
        }
    }

    /// Of the rules in lists of this effect that are about the request, the weightiest.
    pub(super) fn first(&self, effect: Effect, request: &Request<'_>) -> Option<&Listed> {
        self.listed
            .iter()
            .filter(|listed| listed.effect == effect)
            .filter(|listed| listed.rule.fit(request, effect.reading()) == Fit::Matches)
            .min_by(|one, other| by_weight(one, other))
    }

    /// Of the entries that are no rules and may have been about this server, the first that matters.
    pub(super) fn first_broken(&self, server: &str) -> Option<&Broken> {
        self.broken
            .iter()
            .filter(|broken| broken.effect != Effect::Allow && broken.concern.is_about(server))
            .min_by(|one, other| by_damage(one, other))
    }

    /// Of the files whose rules could not be made out, the first.
    pub(super) fn first_lost(&self) -> Option<&Arc<Source>> {
        self.lost.iter().min()
    }
}

/// Administrators first, then by place: which of several rules is named must not depend on their order.
pub(super) fn by_weight(one: &Listed, other: &Listed) -> Ordering {
    let is_person = |listed: &Listed| listed.authority == Authority::Person;
    is_person(one)
        .cmp(&is_person(other))
        .then_with(|| by_place(&one.origin, &other.origin))
        .then_with(|| one.rule.to_string().cmp(&other.rule.to_string()))
}

fn by_place(one: &Origin, other: &Origin) -> Ordering {
    (&one.source, one.position).cmp(&(&other.source, other.position))
}

pub(super) fn by_damage(one: &Broken, other: &Broken) -> Ordering {
    by_place(&one.origin, &other.origin)
        .then_with(|| (one.effect, &one.concern).cmp(&(other.effect, &other.concern)))
}
