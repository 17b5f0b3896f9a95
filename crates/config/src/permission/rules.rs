//! The rules of every settings file and of the session, each with the line it stands on.
//! Their order never matters: whoever looks for one gets the same one however they were put together.

use std::cmp::Ordering;
use std::sync::Arc;

use super::call::CallRequest;
use super::effect::PermissionEffect;
use super::mode::PermissionMode;
use super::rule::{AffectedServers, MatchResult, ToolRule};
use crate::scope::Scope;
use crate::source::{Authority, Origin, Source};

/// A rule in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleEntry {
    /// The list it stands in.
    pub effect: PermissionEffect,
    /// The rule.
    pub rule: ToolRule,
    /// Where it stands.
    pub origin: Origin,
    /// Whose word it is.
    pub authority: Authority,
}

/// An entry of a list that is no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRule {
    /// The list it stands in.
    pub effect: PermissionEffect,
    /// The servers it may have been about.
    pub affected: AffectedServers,
    /// Where it stands.
    pub origin: Origin,
}

/// Everything that settings and the session say of permissions.
#[derive(Debug, Clone, Default)]
pub struct PermissionRules {
    pub(crate) entries: Vec<RuleEntry>,
    pub(crate) invalid: Vec<InvalidRule>,
    /// Files whose rules could not all be made out.
    pub(crate) unreadable: Vec<Arc<Source>>,
    pub(crate) default_modes: Vec<(PermissionMode, Origin)>,
    pub(crate) bypass_disabled: Vec<Origin>,
}

impl PermissionRules {
    /// The rules of a file that cannot be read: nobody knows what they were, so every call asks.
    pub fn unreadable(source: &Arc<Source>) -> PermissionRules {
        PermissionRules { unreadable: vec![source.clone()], ..PermissionRules::default() }
    }

    /// Every rule there is.
    pub fn entries(&self) -> &[RuleEntry] {
        &self.entries
    }

    /// These rules and others together.
    pub fn merge(mut self, other: PermissionRules) -> PermissionRules {
        self.entries.extend(other.entries);
        self.invalid.extend(other.invalid);
        self.unreadable.extend(other.unreadable);
        self.default_modes.extend(other.default_modes);
        self.bypass_disabled.extend(other.bypass_disabled);
        self
    }

    /// Only what restricts: for settings of a project around this one, which loosen nothing here.
    pub fn restrictions(mut self) -> PermissionRules {
        self.entries.retain(|entry| entry.effect != PermissionEffect::Allow);
        self.default_modes.clear();
        self
    }

    /// Only what an administrator said: for asking what other rules of a person's own would do.
    pub fn administrator_only(mut self) -> PermissionRules {
        let is_administrators = |origin: &Origin| origin.scope() == Scope::Enterprise;
        self.entries.retain(|entry| entry.authority == Authority::Administrator);
        self.invalid.retain(|invalid_rule| is_administrators(&invalid_rule.origin));
        self.unreadable.retain(|source| source.scope == Scope::Enterprise);
        self.default_modes.retain(|(_, origin)| is_administrators(origin));
        self
    }

    /// A rule that decides wherever this one would: a stronger one about at least as much, or the same said
    /// more broadly.
    pub fn find_overriding(&self, effect: PermissionEffect, rule: &ToolRule) -> Option<&RuleEntry> {
        self.entries
            .iter()
            .filter(|entry| entry.effect >= effect && entry.rule.covers(rule))
            .filter(|entry| entry.effect > effect || entry.rule != *rule)
            .min_by(|one, other| other.effect.cmp(&one.effect).then(by_precedence(one, other)))
    }

    /// Adds a rule that holds as long as the session does.
    pub fn add_for_session(&mut self, effect: PermissionEffect, rule: ToolRule) {
        let source = Source::program(Scope::Dynamic, "this session");
        let origin = Origin { source, position: None };
        self.entries.push(RuleEntry { effect, rule, origin, authority: Authority::User });
    }

    /// The mode to begin with, and where it was said; the highest scope counts.
    pub fn default_mode(&self) -> Option<(PermissionMode, &Origin)> {
        let rank = |(mode, origin): &(PermissionMode, Origin)| (origin.scope(), *mode);
        let (mode, origin) = self
            .default_modes
            .iter()
            .min_by(|one, other| rank(one).cmp(&rank(other)).then(by_origin(&one.1, &other.1)))?;
        Some((*mode, origin))
    }

    /// Where an administrator forbade `bypass`.
    pub fn bypass_disabled(&self) -> Option<&Origin> {
        self.bypass_disabled.iter().min_by(|one, other| by_origin(one, other))
    }

    /// The mode that counts where this one was chosen.
    pub fn effective_mode(&self, chosen: PermissionMode) -> PermissionMode {
        match chosen {
            PermissionMode::Bypass if !self.bypass_disabled.is_empty() => PermissionMode::Default,
            PermissionMode::Bypass
            | PermissionMode::Plan
            | PermissionMode::DontAsk
            | PermissionMode::Default
            | PermissionMode::AcceptEdits => chosen,
        }
    }

    /// Of the rules in lists of this effect that are about the request, the weightiest.
    pub(super) fn first_match(
        &self,
        effect: PermissionEffect,
        request: &CallRequest<'_>,
    ) -> Option<&RuleEntry> {
        self.entries
            .iter()
            .filter(|entry| entry.effect == effect)
            .filter(|entry| {
                entry.rule.match_call(request, effect.match_mode()) == MatchResult::Matches
            })
            .min_by(|one, other| by_precedence(one, other))
    }

    /// Of the entries that are no rules and may have been about this server, the first that matters.
    pub(super) fn first_invalid(&self, server: &str) -> Option<&InvalidRule> {
        self.invalid
            .iter()
            .filter(|invalid_rule| {
                invalid_rule.effect != PermissionEffect::Allow
                    && invalid_rule.affected.includes(server)
            })
            .min_by(|one, other| invalid_by_origin(one, other))
    }

    /// Of the files whose rules could not be made out, the first.
    pub(super) fn first_unreadable(&self) -> Option<&Arc<Source>> {
        self.unreadable.iter().min()
    }
}

/// Administrators first, then by place: which of several rules is named must not depend on their order.
pub(super) fn by_precedence(one: &RuleEntry, other: &RuleEntry) -> Ordering {
    let is_person = |entry: &RuleEntry| entry.authority == Authority::User;
    is_person(one)
        .cmp(&is_person(other))
        .then_with(|| by_origin(&one.origin, &other.origin))
        .then_with(|| one.rule.to_string().cmp(&other.rule.to_string()))
}

fn by_origin(one: &Origin, other: &Origin) -> Ordering {
    (&one.source, one.position).cmp(&(&other.source, other.position))
}

pub(super) fn invalid_by_origin(one: &InvalidRule, other: &InvalidRule) -> Ordering {
    by_origin(&one.origin, &other.origin)
        .then_with(|| (one.effect, &one.affected).cmp(&(other.effect, &other.affected)))
}
