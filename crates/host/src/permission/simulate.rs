//! What other rules would have said of the calls that were made: the audit log is replayed, and nothing is called.
//! The log holds digests of arguments, not arguments: what depends on them is reported as just that.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_config::permission::{
    CallWithoutArguments, DecisionReason, PermissionEffect, PermissionMode, PermissionRules,
    RuleDecision, Trust, possible_decisions,
};

use crate::audit::log::AuditRecord;
use crate::pool::naming::{NameOrigin, prefix, sanitise};

/// What past calls are held against.
#[derive(Debug)]
pub struct SimulatedRules<'a> {
    /// The rules.
    pub rules: &'a PermissionRules,
    /// How much is asked.
    pub mode: PermissionMode,
    /// Servers whose tools are approved beforehand.
    pub trusted_servers: &'a BTreeSet<String>,
}

/// What would have become of past calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Simulation {
    /// Calls that would have been decided otherwise, by tool.
    pub changes: Vec<SimulationRow>,
    /// Calls of which only the arguments, or what the server says of the tool, tell what would have been decided.
    pub uncertain: Vec<SimulationRow>,
    /// How many calls would have been decided as they were.
    pub same: usize,
    /// How many calls never came to a decision: there was no such tool, or the arguments did not fit.
    pub undecided: usize,
}

/// Calls of one tool that would all fare alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimulationRow {
    /// The tool's exposed name.
    pub exposed_name: String,
    /// The server.
    pub server: String,
    /// What the rules said then.
    pub before: PermissionEffect,
    /// What may be said now, the strictest first; one of them where that is sure.
    pub after: Vec<PermissionEffect>,
    /// What it depends on where it is not sure.
    pub depends_on: DependsOn,
    /// What would say so, in words: a rule and its place, a mode.
    pub because: Vec<String>,
    /// How many calls.
    pub calls: usize,
}

/// What the log does not hold, and a decision hangs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DependsOn {
    /// Nothing: it is sure.
    Nothing,
    /// The arguments, of which there is only a digest.
    Arguments,
    /// What the server says of the tool.
    Hints,
}

impl DependsOn {
    fn of(decisions: &[RuleDecision], now: &[PermissionEffect]) -> DependsOn {
        let is_conditional = |because: &DecisionReason| match because {
            DecisionReason::Rule(listed) => !listed.rule.is_unconditional(),
            DecisionReason::PromptsDisabled(inner) => match inner.as_ref() {
                DecisionReason::Rule(listed) => !listed.rule.is_unconditional(),
                DecisionReason::InvalidRule(_)
                | DecisionReason::Unreadable(_)
                | DecisionReason::Mode(_)
                | DecisionReason::TrustedServer
                | DecisionReason::NoMatchingRule
                | DecisionReason::PromptsDisabled(_) => false,
            },
            DecisionReason::InvalidRule(_)
            | DecisionReason::Unreadable(_)
            | DecisionReason::Mode(_)
            | DecisionReason::TrustedServer
            | DecisionReason::NoMatchingRule => false,
        };
        match (now.len(), decisions.iter().any(|it| is_conditional(&it.reason))) {
            (1, _) => DependsOn::Nothing,
            (_, true) => DependsOn::Arguments,
            (_, false) => DependsOn::Hints,
        }
    }
}

/// Replays records.
pub fn simulate(records: &[AuditRecord], simulated: &SimulatedRules<'_>) -> Simulation {
    let mut simulation = Simulation::default();
    let mut rows: BTreeMap<SimulationRow, usize> = BTreeMap::new();
    let mut known: BTreeMap<(&str, &str), Vec<RuleDecision>> = BTreeMap::new();
    for record in records {
        let Some(before) = verdict(record) else {
            simulation.undecided += 1;
            continue;
        };
        let place = known.entry((&record.server, &record.tool));
        let decisions = place.or_insert_with(|| simulated.decisions(record));
        match row(record, before, decisions) {
            Some(row) => *rows.entry(row).or_default() += 1,
            None => simulation.same += 1,
        }
    }
    for (row, calls) in rows {
        let rows = match row.after.len() {
            1 => &mut simulation.changes,
            _ => &mut simulation.uncertain,
        };
        rows.push(SimulationRow { calls, ..row });
    }
    simulation
}

impl SimulatedRules<'_> {
    fn decisions(&self, record: &AuditRecord) -> Vec<RuleDecision> {
        let is_trusted = self.trusted_servers.contains(&record.server);
        let subject = CallWithoutArguments {
            server: &prefix(&record.server, NameOrigin::guess(&record.server)),
            tool: &sanitise(&record.tool),
            hints: None,
            trust: if is_trusted { Trust::Trusted } else { Trust::Untrusted },
        };
        possible_decisions(self.rules, &subject, self.mode)
    }
}

/// What the rules said of a call. Older records only tell how it ended.
fn verdict(record: &AuditRecord) -> Option<PermissionEffect> {
    let was_decided = !record.server.is_empty() && record.outcome != "invalid";
    let word = match record.verdict.as_str() {
        "" => &record.decision,
        verdict => verdict,
    };
    let all = [PermissionEffect::Allow, PermissionEffect::Ask, PermissionEffect::Deny];
    all.into_iter().find(|effect| was_decided && effect.id() == word)
}

/// How a call would fare now; nothing where that is as before.
fn row(
    record: &AuditRecord,
    before: PermissionEffect,
    decisions: &[RuleDecision],
) -> Option<SimulationRow> {
    let mut now: Vec<PermissionEffect> = decisions.iter().map(|it| it.effect).collect();
    now.dedup();
    if now == [before] {
        return None;
    }
    let reasons = match now.len() {
        // Of several reasons for one thing, the last is the one that holds whatever the arguments.
        1 => &decisions[decisions.len() - 1..],
        _ => decisions,
    };
    let because = reasons.iter().map(|it| it.reason.to_string()).collect();
    Some(SimulationRow {
        exposed_name: record.exposed.clone(),
        server: record.server.clone(),
        before,
        depends_on: DependsOn::of(decisions, &now),
        after: now,
        because,
        calls: 0,
    })
}

#[cfg(test)]
mod tests {
    use switchboard_config::policy::Authority;
    use switchboard_config::scope::Scope;
    use switchboard_config::settings::Settings;
    use switchboard_config::source::Source;

    use super::*;

    /// Replays `tool verdict`, a call a word pair, and says what came of it, a line a row.
    #[track_caller]
    fn check(permissions: &str, mode: PermissionMode, calls: &str, expected: &[&str]) {
        let source = Source::file(Scope::User, "s");
        let text = format!("{{\"permissions\": {permissions}}}");
        let rules = Settings::read(&source, &text, Authority::User).permissions;
        let words: Vec<&str> = calls.split(' ').collect();
        let record = |pair: &[&str]| AuditRecord {
            server: "s".to_owned(),
            tool: pair[0].to_owned(),
            verdict: pair[1].to_owned(),
            outcome: "ok".to_owned(),
            ..AuditRecord::begin("cli", pair[0])
        };
        let records: Vec<AuditRecord> = words.chunks(2).map(record).collect();
        let trusted = BTreeSet::new();
        let simulation =
            simulate(&records, &SimulatedRules { rules: &rules, mode, trusted_servers: &trusted });
        let line = |row: &SimulationRow| {
            let now: Vec<&str> = row.after.iter().map(|it| it.id()).collect();
            let because = row.because.join("; ");
            let on = match row.depends_on {
                DependsOn::Nothing => "",
                DependsOn::Arguments => " by arguments",
                DependsOn::Hints => " by hints",
            };
            let now = now.join("/");
            format!("{} {} -> {now}{on} x{}: {because}", row.exposed_name, row.before, row.calls)
        };
        let mut found: Vec<String> = simulation.changes.iter().map(line).collect();
        found.extend(simulation.uncertain.iter().map(line));
        found.push(format!("same {}", simulation.same));
        assert_eq!(found, expected);
    }

    #[test]
    fn calls_are_gathered_by_tool_and_those_that_stay_are_counted() {
        check(
            r#"{"deny": ["mcp__s__drop"], "allow": ["mcp__s__read"]}"#,
            PermissionMode::Default,
            "read allow read ask drop ask drop ask write ask",
            &[
                "drop ask -> deny x2: the deny rule `mcp__s__drop` (s:1)",
                "read ask -> allow x1: the allow rule `mcp__s__read` (s:1)",
                "same 2",
            ],
        );
    }

    #[test]
    fn what_the_arguments_decide_is_said_to_depend_on_them() {
        check(
            r#"{"allow": ["mcp__s__read(path=/srv/*)"], "deny": ["mcp__s__drop(all=true)", "mcp__s__drop"]}"#,
            PermissionMode::Default,
            "read allow drop deny",
            &[
                "read allow -> ask/allow by arguments x1: no matching rule; the allow rule `mcp__s__read(path=/srv/*)` (s:1)",
                "same 1",
            ],
        );
    }

    #[test]
    fn a_mode_that_goes_by_what_the_server_says_is_unsure_too() {
        check(
            "{}",
            PermissionMode::Plan,
            "read allow",
            &["read allow -> deny/ask by hints x1: the mode `plan`; no matching rule", "same 0"],
        );
    }

    #[test]
    fn what_was_never_decided_is_counted_apart() {
        let invalid =
            AuditRecord { outcome: "invalid".to_owned(), ..AuditRecord::begin("cli", "x") };
        let (rules, trusted) = (PermissionRules::default(), BTreeSet::new());
        let simulated = SimulatedRules {
            rules: &rules,
            mode: PermissionMode::Default,
            trusted_servers: &trusted,
        };
        assert_eq!(simulate(&[invalid], &simulated).undecided, 1);
    }
}
