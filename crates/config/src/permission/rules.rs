//! The rules of every settings file and of the session, each with its position.
//! Their order has no meaning: a search returns the same rule in whatever order they were merged.

use std::cmp::Ordering;
use std::sync::Arc;

use super::approver::Approver;
use super::call::CallRequest;
use super::effect::PermissionEffect;
use super::mode::PermissionMode;
use super::rule::{AffectedServers, MatchResult, ToolRule};
use super::rule_entry::RuleEntry;
use super::rule_list::RuleList;
use crate::scope::Scope;
use crate::source::{Authority, Origin, Source};

/// An entry of a list that is not a valid rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRule {
    /// The list that it is in.
    pub effect: PermissionEffect,
    /// The servers that it may apply to.
    pub affected: AffectedServers,
    /// The position of the entry.
    pub origin: Origin,
}

/// The permission settings of all files and of the session.
#[derive(Debug, Clone, Default)]
pub struct PermissionRules {
    pub(crate) entries: RuleList,
    pub(crate) invalid: Vec<InvalidRule>,
    /// Files with rules that could not be read.
    pub(crate) unreadable: Vec<Arc<Source>>,
    pub(crate) default_modes: Vec<(PermissionMode, Origin)>,
    pub(crate) bypass_disabled: Vec<Origin>,
    /// The approver if no rule names one.
    pub(crate) default_approvers: Vec<(Approver, Origin)>,
}

impl PermissionRules {
    /// Creates the rules of a file that cannot be read: they are unknown, so every call needs a prompt.
    pub fn unreadable(source: &Arc<Source>) -> PermissionRules {
        PermissionRules { unreadable: vec![source.clone()], ..PermissionRules::default() }
    }

    /// Returns every rule.
    pub fn entries(&self) -> &[RuleEntry] {
        &self.entries
    }

    /// Merges two sets of rules.
    pub fn merge(mut self, other: PermissionRules) -> PermissionRules {
        self.entries.extend(other.entries);
        self.invalid.extend(other.invalid);
        self.unreadable.extend(other.unreadable);
        self.default_modes.extend(other.default_modes);
        self.bypass_disabled.extend(other.bypass_disabled);
        self.default_approvers.extend(other.default_approvers);
        self
    }

    /// Keeps only rules that restrict, for settings of an enclosing project, which must not allow anything
    /// here.
    pub fn restrictions(mut self) -> PermissionRules {
        self.entries.retain(|entry| entry.effect != PermissionEffect::Allow);
        self.default_modes.clear();
        self.default_approvers.clear();
        self
    }

    /// Keeps no approver, for a project's file: it could name the client where the user names the operator.
    pub(crate) fn without_approvers(mut self) -> PermissionRules {
        self.entries.clear_approvers();
        self.default_approvers.clear();
        self
    }

    /// Keeps only the rules of administrators, for simulating other rules of the user.
    pub fn administrator_only(mut self) -> PermissionRules {
        let is_administrators = |origin: &Origin| origin.scope() == Scope::Enterprise;
        self.entries.retain(|entry| entry.authority == Authority::Administrator);
        self.invalid.retain(|invalid_rule| is_administrators(&invalid_rule.origin));
        self.unreadable.retain(|source| source.scope == Scope::Enterprise);
        self.default_modes.retain(|(_, origin)| is_administrators(origin));
        self.default_approvers.retain(|(_, origin)| is_administrators(origin));
        self
    }

    /// Finds a rule that makes this one redundant: one with a stricter effect that covers it, or a broader one
    /// with the same effect.
    pub fn find_overriding(&self, effect: PermissionEffect, rule: &ToolRule) -> Option<&RuleEntry> {
        self.entries
            .iter()
            .filter(|entry| entry.after.is_empty())
            .filter(|entry| entry.effect >= effect && entry.rule.covers(rule))
            .filter(|entry| entry.effect > effect || entry.rule != *rule)
            .min_by(|one, other| other.effect.cmp(&one.effect).then(by_precedence(one, other)))
    }

    /// Adds a rule of the organisation that provides a server, for one tool. It counts like an administrator's rule.
    pub fn add_of_organisation(
        &mut self,
        effect: PermissionEffect,
        (server, tool): (&str, &str),
        source: &Arc<Source>,
    ) {
        self.entries.push(RuleEntry {
            effect,
            rule: ToolRule::for_tool(server, tool, Vec::new()),
            origin: Origin { source: source.clone(), position: None },
            authority: Authority::Administrator,
            approver: None,
            after: Vec::new(),
        });
    }

    /// Adds a rule that applies until the session ends.
    pub fn add_for_session(&mut self, effect: PermissionEffect, rule: ToolRule) {
        let source = Source::program(Scope::Dynamic, "this session");
        let origin = Origin { source, position: None };
        let authority = Authority::User;
        let (approver, after) = (None, Vec::new());
        self.entries.push(RuleEntry { effect, rule, origin, authority, approver, after });
    }

    /// Adds a rule of an option of the command line.
    pub fn add_from_option(&mut self, option: &str, effect: PermissionEffect, rule: ToolRule) {
        let origin = Origin { source: Source::program(Scope::Dynamic, option), position: None };
        let authority = Authority::User;
        let (approver, after) = (None, Vec::new());
        self.entries.push(RuleEntry { effect, rule, origin, authority, approver, after });
    }

    /// Returns the initial mode and its position; that of the highest scope counts.
    pub fn default_mode(&self) -> Option<(PermissionMode, &Origin)> {
        let rank = |(mode, origin): &(PermissionMode, Origin)| (origin.scope(), *mode);
        let (mode, origin) = self
            .default_modes
            .iter()
            .min_by(|one, other| rank(one).cmp(&rank(other)).then(by_origin(&one.1, &other.1)))?;
        Some((*mode, origin))
    }

    /// Returns the approver that an administrator's settings name.
    pub(super) fn administrators_default_approver(&self) -> Option<Approver> {
        let is_administrators =
            |(_, origin): &&(Approver, Origin)| origin.scope() == Scope::Enterprise;
        self.default_approvers
            .iter()
            .filter(is_administrators)
            .map(|it| it.0)
            .reduce(Approver::union)
    }

    /// Returns who is asked where no rule says so; the setting of the highest scope counts.
    pub(super) fn default_approver(&self) -> Approver {
        let by_scope = |one: &&(Approver, Origin), other: &&(Approver, Origin)| {
            one.1.scope().cmp(&other.1.scope()).then(by_origin(&one.1, &other.1))
        };
        self.default_approvers.iter().min_by(by_scope).map_or(Approver::default(), |it| it.0)
    }

    /// Returns where an administrator disabled `bypass`.
    pub fn bypass_disabled(&self) -> Option<&Origin> {
        self.bypass_disabled.iter().min_by(|one, other| by_origin(one, other))
    }

    /// Returns the effective mode for a chosen one.
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

    /// Returns the rule with the highest precedence among those of this effect that match the call.
    pub(super) fn first_match(
        &self,
        effect: PermissionEffect,
        request: &CallRequest<'_>,
    ) -> Option<&RuleEntry> {
        self.entries
            .candidates(effect, request.server)
            .filter(|entry| entry.match_call(request) == MatchResult::Matches)
            .min_by(|one, other| by_precedence(one, other))
    }

    /// Does any rule depend on what the session has seen?
    pub fn depend_on_seen(&self) -> bool {
        self.entries.iter().any(|entry| !entry.after.is_empty())
    }

    /// Returns the first invalid deny or ask rule that may apply to this server.
    pub(super) fn first_invalid(&self, server: &str) -> Option<&InvalidRule> {
        self.invalid
            .iter()
            .filter(|invalid_rule| {
                invalid_rule.effect != PermissionEffect::Allow
                    && invalid_rule.affected.includes(server)
            })
            .min_by(|one, other| invalid_by_origin(one, other))
    }

    /// Returns the first file with rules that could not be read.
    pub(super) fn first_unreadable(&self) -> Option<&Arc<Source>> {
        self.unreadable.iter().min()
    }
}

/// Rules of administrators first, then by position, so that the rule that is named does not depend on the order
/// of rules.
pub(super) fn by_precedence(one: &RuleEntry, other: &RuleEntry) -> Ordering {
    let is_user = |entry: &RuleEntry| entry.authority == Authority::User;
    is_user(one)
        .cmp(&is_user(other))
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
