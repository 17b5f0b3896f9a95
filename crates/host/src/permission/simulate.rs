//! Simulates other permission rules on past calls: replays the audit log without calling anything. The log holds
//! digests of arguments, so decisions that depend on arguments are reported as uncertain.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_config::permission::{
    CallWithoutArguments, DecisionReason, PermissionEffect, PermissionMode, PermissionRules,
    RuleDecision, Trust, for_changed_definition, possible_decisions,
};

use crate::audit::log::AuditRecord;
use crate::pool::naming::{NameOrigin, prefix, sanitise};

/// The rules to simulate.
#[derive(Debug)]
pub struct SimulatedRules<'a> {
    /// The rules.
    pub rules: &'a PermissionRules,
    /// The permission mode.
    pub mode: PermissionMode,
    /// Servers whose tools are trusted.
    pub trusted_servers: &'a BTreeSet<String>,
    /// Tools whose definition changed since it was approved: server, and the tool's own name.
    pub changed_tools: &'a BTreeSet<(String, String)>,
}

/// The result of a simulation.
#[derive(Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Simulation {
    /// Calls with a different decision, grouped by tool.
    pub changes: Vec<SimulationRow>,
    /// Calls whose decision depends on their arguments or on the tool's annotations.
    pub uncertain: Vec<SimulationRow>,
    /// The number of calls with the same decision.
    pub same: usize,
    /// The number of calls without a decision: the tool did not exist or the arguments were invalid.
    pub undecided: usize,
}

/// Calls of one tool with the same result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct SimulationRow {
    /// The tool's exposed name.
    pub exposed_name: String,
    /// The server.
    pub server: String,
    /// The verdict at the time of the call.
    pub before: PermissionEffect,
    /// The possible verdicts now, strictest first; one if the result is certain.
    pub after: Vec<PermissionEffect>,
    /// The unknown inputs that an uncertain result depends on.
    pub depends_on: DependsOn,
    /// The reasons in words: a rule with its position, a mode.
    pub because: Vec<String>,
    /// The number of calls.
    pub calls: usize,
}

/// An input of a decision that the audit log does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DependsOn {
    /// The result is certain.
    Nothing,
    /// The arguments, of which the log holds only a digest.
    Arguments,
    /// The tool's annotations.
    Hints,
}

impl DependsOn {
    fn of(decisions: &[RuleDecision], after: &[PermissionEffect]) -> DependsOn {
        let is_conditional = |because: &DecisionReason| match because {
            DecisionReason::Rule(listed) => !listed.is_unconditional(),
            DecisionReason::PromptsDisabled(inner) => match inner.as_ref() {
                DecisionReason::Rule(listed) => !listed.is_unconditional(),
                DecisionReason::InvalidRule(_)
                | DecisionReason::Unreadable(_)
                | DecisionReason::Mode(_)
                | DecisionReason::TrustedServer
                | DecisionReason::ReadOnlyBuiltIn
                | DecisionReason::NoMatchingRule
                | DecisionReason::ChangedDefinition
                | DecisionReason::PromptsDisabled(_) => false,
            },
            DecisionReason::InvalidRule(_)
            | DecisionReason::Unreadable(_)
            | DecisionReason::Mode(_)
            | DecisionReason::TrustedServer
            | DecisionReason::ReadOnlyBuiltIn
            | DecisionReason::NoMatchingRule
            | DecisionReason::ChangedDefinition => false,
        };
        match (after.len(), decisions.iter().any(|it| is_conditional(&it.reason))) {
            (1, _) => DependsOn::Nothing,
            (_, true) => DependsOn::Arguments,
            (_, false) => DependsOn::Hints,
        }
    }
}

/// Replays the records of an audit log.
pub fn simulate(records: &[AuditRecord], simulated: &SimulatedRules<'_>) -> Simulation {
    let mut simulation = Simulation::default();
    let mut rows: BTreeMap<SimulationRow, usize> = BTreeMap::new();
    let mut decisions_by_tool: BTreeMap<(&str, &str), Vec<RuleDecision>> = BTreeMap::new();
    for record in records {
        let Some(before) = verdict(record) else {
            simulation.undecided += 1;
            continue;
        };
        let entry = decisions_by_tool.entry((&record.server, &record.tool));
        let decisions = entry.or_insert_with(|| simulated.decisions(record));
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
        let decisions = possible_decisions(self.rules, &subject, self.mode);
        if !self.changed_tools.contains(&(record.server.clone(), record.tool.clone())) {
            return decisions;
        }
        let mode = self.rules.effective_mode(self.mode);
        let mut decisions: Vec<RuleDecision> =
            decisions.into_iter().map(|it| for_changed_definition(it, mode)).collect();
        decisions.dedup();
        decisions
    }
}

/// The rules' verdict on a call. Older records hold only the final decision.
fn verdict(record: &AuditRecord) -> Option<PermissionEffect> {
    let has_decision = !record.server.is_empty() && record.outcome != "invalid";
    let word = match record.verdict.as_str() {
        "" => &record.decision,
        verdict => verdict,
    };
    let all = [PermissionEffect::Allow, PermissionEffect::Ask, PermissionEffect::Deny];
    all.into_iter().find(|effect| has_decision && effect.id() == word)
}

/// The result for one call, or `None` if the verdict is unchanged.
fn row(
    record: &AuditRecord,
    before: PermissionEffect,
    decisions: &[RuleDecision],
) -> Option<SimulationRow> {
    let mut after: Vec<PermissionEffect> = decisions.iter().map(|it| it.effect).collect();
    after.dedup();
    if after == [before] {
        return None;
    }
    let reasons = match after.len() {
        // With one possible verdict, the last reason is the one that holds for all arguments.
        1 => &decisions[decisions.len() - 1..],
        _ => decisions,
    };
    let because = reasons.iter().map(|it| it.reason.to_string()).collect();
    Some(SimulationRow {
        exposed_name: record.exposed.clone(),
        server: record.server.clone(),
        before,
        depends_on: DependsOn::of(decisions, &after),
        after,
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

    /// Replays calls, given as pairs of tool and verdict, and compares the rows of the result.
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
        let changed = BTreeSet::from([("s".to_owned(), "changed".to_owned())]);
        let simulated = SimulatedRules {
            rules: &rules,
            mode,
            trusted_servers: &BTreeSet::new(),
            changed_tools: &changed,
        };
        let simulation = simulate(&records, &simulated);
        let line = |row: &SimulationRow| {
            let after: Vec<&str> = row.after.iter().map(|it| it.id()).collect();
            let because = row.because.join("; ");
            let dependency = match row.depends_on {
                DependsOn::Nothing => "",
                DependsOn::Arguments => " by arguments",
                DependsOn::Hints => " by hints",
            };
            let after = after.join("/");
            format!(
                "{} {} -> {after}{dependency} x{}: {because}",
                row.exposed_name, row.before, row.calls
            )
        };
        let mut found: Vec<String> = simulation.changes.iter().map(line).collect();
        found.extend(simulation.uncertain.iter().map(line));
        found.push(format!("same {}", simulation.same));
        assert_eq!(found, expected);
    }

    #[test]
    fn changes_are_grouped_by_tool_and_unchanged_calls_are_counted() {
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
    fn decisions_on_arguments_are_uncertain() {
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
    fn decisions_on_annotations_are_uncertain() {
        check(
            "{}",
            PermissionMode::Plan,
            "read allow",
            &["read allow -> deny/ask by hints x1: the mode `plan`; no matching rule", "same 0"],
        );
    }

    #[test]
    fn a_tool_whose_definition_changed_would_be_asked_about() {
        let permissions = r#"{"allow": ["mcp__s"]}"#;
        let because = "its definition changed since it was approved";
        let row = |effect: &str, because: &str| format!("changed allow -> {effect} x1: {because}");
        let calls = "changed allow other allow";
        check(permissions, PermissionMode::Default, calls, &[&row("ask", because), "same 1"]);
        let because = format!("{because}, and the mode `dontAsk` allows no prompts");
        check(permissions, PermissionMode::DontAsk, calls, &[&row("deny", &because), "same 1"]);
        check(permissions, PermissionMode::Bypass, calls, &["same 2"]);
    }

    #[test]
    fn calls_without_a_decision_are_counted_separately() {
        let invalid =
            AuditRecord { outcome: "invalid".to_owned(), ..AuditRecord::begin("cli", "x") };
        let (rules, trusted) = (PermissionRules::default(), BTreeSet::new());
        let simulated = SimulatedRules {
            rules: &rules,
            mode: PermissionMode::Default,
            trusted_servers: &trusted,
            changed_tools: &BTreeSet::new(),
        };
        assert_eq!(simulate(&[invalid], &simulated).undecided, 1);
    }
}
