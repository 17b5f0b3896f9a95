//! What other rules would have said of the calls that were made: the audit log is replayed, and nothing is called.
//! The log holds digests of arguments, not arguments: what depends on them is reported as just that.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_config::permission::{
    Because, Decision, Effect, Mode, Rules, Subject, Trust, possible,
};

use crate::audit::Record;
use crate::pool::naming::{Origin, prefix, sanitised};

/// What past calls are held against.
#[derive(Debug)]
pub struct Play<'a> {
    /// The rules.
    pub rules: &'a Rules,
    /// How much is asked.
    pub mode: Mode,
    /// Servers whose tools are approved beforehand.
    pub trusted: &'a BTreeSet<String>,
}

/// What would have become of past calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rehearsal {
    /// Calls that would have been decided otherwise, by tool.
    pub changes: Vec<Row>,
    /// Calls of which only the arguments, or what the server says of the tool, tell what would have been decided.
    pub unsure: Vec<Row>,
    /// How many calls would have been decided as they were.
    pub same: usize,
    /// How many calls never came to a decision: there was no such tool, or the arguments did not fit.
    pub undecided: usize,
}

/// Calls of one tool that would all fare alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// The tool's exposed name.
    pub exposed: String,
    /// The server.
    pub server: String,
    /// What the rules said then.
    pub was: Effect,
    /// What may be said now, the strictest first; one of them where that is sure.
    pub now: Vec<Effect>,
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
    fn of(decisions: &[Decision], now: &[Effect]) -> DependsOn {
        let is_conditional = |because: &Because| match because {
            Because::Rule(listed) => !listed.rule.is_unconditional(),
            Because::NotAsked(inner) => match inner.as_ref() {
                Because::Rule(listed) => !listed.rule.is_unconditional(),
                Because::Broken(_)
                | Because::Lost(_)
                | Because::Mode(_)
                | Because::Trust
                | Because::Nothing
                | Because::NotAsked(_) => false,
            },
            Because::Broken(_)
            | Because::Lost(_)
            | Because::Mode(_)
            | Because::Trust
            | Because::Nothing => false,
        };
        match (now.len(), decisions.iter().any(|it| is_conditional(&it.because))) {
            (1, _) => DependsOn::Nothing,
            (_, true) => DependsOn::Arguments,
            (_, false) => DependsOn::Hints,
        }
    }
}

/// Replays records.
pub fn rehearse(records: &[Record], play: &Play<'_>) -> Rehearsal {
    let mut rehearsal = Rehearsal::default();
    let mut rows: BTreeMap<Row, usize> = BTreeMap::new();
    let mut known: BTreeMap<(&str, &str), Vec<Decision>> = BTreeMap::new();
    for record in records {
        let Some(was) = verdict(record) else {
            rehearsal.undecided += 1;
            continue;
        };
        let place = known.entry((&record.server, &record.tool));
        let decisions = place.or_insert_with(|| play.decisions(record));
        match row(record, was, decisions) {
            Some(row) => *rows.entry(row).or_default() += 1,
            None => rehearsal.same += 1,
        }
    }
    for (row, calls) in rows {
        let rows = match row.now.len() {
            1 => &mut rehearsal.changes,
            _ => &mut rehearsal.unsure,
        };
        rows.push(Row { calls, ..row });
    }
    rehearsal
}

impl Play<'_> {
    fn decisions(&self, record: &Record) -> Vec<Decision> {
        let is_trusted = self.trusted.contains(&record.server);
        let subject = Subject {
            server: &prefix(&record.server, Origin::guessed(&record.server)),
            tool: &sanitised(&record.tool),
            hints: None,
            trust: if is_trusted { Trust::Given } else { Trust::Withheld },
        };
        possible(self.rules, &subject, self.mode)
    }
}

/// What the rules said of a call. Older records only tell how it ended.
fn verdict(record: &Record) -> Option<Effect> {
    let was_decided = !record.server.is_empty() && record.outcome != "invalid";
    let word = match record.verdict.as_str() {
        "" => &record.decision,
        verdict => verdict,
    };
    let all = [Effect::Allow, Effect::Ask, Effect::Deny];
    all.into_iter().find(|effect| was_decided && effect.id() == word)
}

/// How a call would fare now; nothing where that is as before.
fn row(record: &Record, was: Effect, decisions: &[Decision]) -> Option<Row> {
    let mut now: Vec<Effect> = decisions.iter().map(|it| it.verdict).collect();
    now.dedup();
    if now == [was] {
        return None;
    }
    let reasons = match now.len() {
        // Of several reasons for one thing, the last is the one that holds whatever the arguments.
        1 => &decisions[decisions.len() - 1..],
        _ => decisions,
    };
    let because = reasons.iter().map(|it| it.because.to_string()).collect();
    Some(Row {
        exposed: record.exposed.clone(),
        server: record.server.clone(),
        was,
        depends_on: DependsOn::of(decisions, &now),
        now,
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
    fn check(permissions: &str, mode: Mode, calls: &str, expected: &[&str]) {
        let source = Source::file(Scope::User, "s");
        let text = format!("{{\"permissions\": {permissions}}}");
        let rules = Settings::read(&source, &text, Authority::Person).permissions;
        let words: Vec<&str> = calls.split(' ').collect();
        let record = |pair: &[&str]| Record {
            server: "s".to_owned(),
            tool: pair[0].to_owned(),
            verdict: pair[1].to_owned(),
            outcome: "ok".to_owned(),
            ..Record::begin("cli", pair[0])
        };
        let records: Vec<Record> = words.chunks(2).map(record).collect();
        let trusted = BTreeSet::new();
        let rehearsal = rehearse(&records, &Play { rules: &rules, mode, trusted: &trusted });
        let line = |row: &Row| {
            let now: Vec<&str> = row.now.iter().map(|it| it.id()).collect();
            let because = row.because.join("; ");
            let on = match row.depends_on {
                DependsOn::Nothing => "",
                DependsOn::Arguments => " by arguments",
                DependsOn::Hints => " by hints",
            };
            let now = now.join("/");
            format!("{} {} -> {now}{on} x{}: {because}", row.exposed, row.was, row.calls)
        };
        let mut found: Vec<String> = rehearsal.changes.iter().map(line).collect();
        found.extend(rehearsal.unsure.iter().map(line));
        found.push(format!("same {}", rehearsal.same));
        assert_eq!(found, expected);
    }

    #[test]
    fn calls_are_gathered_by_tool_and_those_that_stay_are_counted() {
        check(
            r#"{"deny": ["mcp__s__drop"], "allow": ["mcp__s__read"]}"#,
            Mode::Default,
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
            Mode::Default,
            "read allow drop deny",
            &[
                "read allow -> ask/allow by arguments x1: no rule is about it; the allow rule `mcp__s__read(path=/srv/*)` (s:1)",
                "same 1",
            ],
        );
    }

    #[test]
    fn a_mode_that_goes_by_what_the_server_says_is_unsure_too() {
        check(
            "{}",
            Mode::Plan,
            "read allow",
            &["read allow -> deny/ask by hints x1: the mode `plan`; no rule is about it", "same 0"],
        );
    }

    #[test]
    fn what_was_never_decided_is_counted_apart() {
        let invalid = Record { outcome: "invalid".to_owned(), ..Record::begin("cli", "x") };
        let (rules, trusted) = (Rules::default(), BTreeSet::new());
        let play = Play { rules: &rules, mode: Mode::Default, trusted: &trusted };
        assert_eq!(rehearse(&[invalid], &play).undecided, 1);
    }
}
