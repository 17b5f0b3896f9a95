//! Renders scores: one line per scenario while the suite runs, a summary at the end, the tables of the docs.

use std::fmt::Write;

use super::scenarios::{Group, Side};
use super::score::Score;

const END_MARK: &str = "<!-- end -->";
const FAILED_MARK: &str = "✗";

/// A generated part of the docs, between two markers.
#[derive(Debug)]
pub struct DocsBlock {
    begin: &'static str,
}

impl DocsBlock {
    /// The results of the client's scenarios.
    pub const CLIENT: DocsBlock =
        DocsBlock { begin: "<!-- begin: written by `cargo xtask conformance` -->" };
    /// The results of the server's scenarios.
    pub const SERVER: DocsBlock =
        DocsBlock { begin: "<!-- begin: written by `cargo xtask conformance server` -->" };

    /// The results of the server's scenarios through a load balancer, with two replicas.
    pub const REPLICAS: DocsBlock = DocsBlock {
        begin: "<!-- begin: written by `cargo xtask conformance server --replicas` -->",
    };

    /// The page with this block replaced; a page without its markers gets the block at its end.
    pub fn replace_in(&self, page: &str, text: &str) -> String {
        let begin = self.begin;
        let marks = page.find(begin).and_then(|from| {
            let length = page[from..].find(END_MARK)?;
            Some((from, from + length + END_MARK.len()))
        });
        let (before, after) = match marks {
            Some((from, to)) => (page[..from].to_owned(), &page[to..]),
            None => (format!("{}\n\n", page.trim_end()), "\n"),
        };
        format!("{before}{begin}\n\n{text}\n{END_MARK}{after}")
    }
}

/// The results of one server.
#[derive(Debug)]
pub struct ServerScores {
    /// Its title.
    pub title: String,
    /// Its scenarios.
    pub scores: Vec<Score>,
}

/// One scenario as a line.
pub fn progress_line(score: &Score) -> String {
    let word = if score.passed() { "good" } else { "BAD " };
    let group = score.run.group.title();
    let mut line = format!("{word} {group:<10} {:<44}", score.run.scenario);
    let _writes_to_memory = write!(line, " {:>3} ok", score.successes);
    for (word, checks) in
        [("failed", &score.failures), ("warned", &score.warnings), ("skipped", &score.skipped)]
    {
        if !checks.is_empty() {
            let _writes_to_memory = write!(line, ", {word}: {}", checks.join(" "));
        }
    }
    line
}

/// One row per group, for the terminal and for the docs.
pub fn summary(side: Side, scores: &[Score]) -> String {
    let mut text =
        "| | scenarios | SUCCESS | FAILURE | WARNING | SKIPPED | expected SKIPPED |\n".to_owned();
    text.push_str("|---|---|---|---|---|---|---|\n");
    for group in side.groups() {
        let group_scores: Vec<&Score> = scores.iter().filter(|it| it.run.group == *group).collect();
        if group_scores.is_empty() {
            continue;
        }
        let good = group_scores.iter().filter(|it| it.passed()).count();
        let sum =
            |count: fn(&Score) -> usize| group_scores.iter().map(|it| count(it)).sum::<usize>();
        let _writes_to_memory = writeln!(
            text,
            "| {} | {good} of {} | {} | {} | {} | {} | {} |",
            group.title(),
            group_scores.len(),
            sum(|it| it.successes),
            sum(|it| it.failures.len()),
            sum(|it| it.warnings.len()),
            sum(|it| it.skipped.len()),
            sum(|it| it.expected_skips),
        );
    }
    text
}

/// The client's block of the docs.
pub fn client_tables(scores: &[Score]) -> String {
    format!("{}\n{}", summary(Side::Client, scores), by_scenario(Side::Client, scores))
}

/// The server's block of the docs: one row per server, then the failures, then every scenario of the first server.
pub fn server_tables(results: &[ServerScores]) -> String {
    let groups = Side::Server.groups();
    let mut text = table_heading("", groups);
    for ServerScores { title: subject, scores } in results {
        let cells = groups.iter().map(|group| {
            let group_scores = scores.iter().filter(|it| it.run.group == *group);
            match (group_scores.clone().filter(|it| it.passed()).count(), group_scores.count()) {
                (_, 0) => String::new(),
                (good, all) => format!("{good} of {all}"),
            }
        });
        let cells: Vec<String> = cells.collect();
        let _writes_to_memory = writeln!(text, "| {subject} | {} |", cells.join(" | "));
    }
    let bad: Vec<String> = results.iter().flat_map(failed_scenarios).collect();
    if !bad.is_empty() {
        let _writes_to_memory = write!(text, "\n{}", bad.concat());
    }
    if let Some(first) = results.first() {
        let _writes_to_memory = write!(text, "\n{}", by_scenario(Side::Server, &first.scores));
    }
    text
}

/// One list item for each scenario that did not pass.
fn failed_scenarios(result: &ServerScores) -> impl Iterator<Item = String> {
    result.scores.iter().filter(|it| !it.passed()).map(|score| {
        let (group, scenario) = (score.run.group.title(), &score.run.scenario);
        format!("- {}: `{scenario}` ({group})\n", result.title)
    })
}

fn table_heading(first: &str, groups: &[Group]) -> String {
    let titles: Vec<&str> = groups.iter().map(|group| group.title()).collect();
    let first = if first.is_empty() { String::new() } else { format!(" {first}") };
    format!("|{first} | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(groups.len()))
}

/// One row per scenario: the number of passed checks in each group, or a cross.
fn by_scenario(side: Side, scores: &[Score]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for score in scores {
        if !names.contains(&score.run.scenario.as_str()) {
            names.push(&score.run.scenario);
        }
    }
    let mut text = table_heading("scenario", side.groups());
    for name in names {
        let cells = side.groups().iter().map(|group| {
            let is_it = |it: &&Score| it.run.group == *group && it.run.scenario == name;
            match scores.iter().find(is_it) {
                None => String::new(),
                Some(score) if score.passed() => score.successes.to_string(),
                Some(_) => FAILED_MARK.to_owned(),
            }
        });
        let cells: Vec<String> = cells.collect();
        let _writes_to_memory = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::conformance::scenarios::ScenarioRun;

    fn score(group: Group, scenario: &str, status: &str) -> Score {
        let planned = ScenarioRun { group, scenario: scenario.to_owned() };
        Score::new(planned, &[json!({"id": "x", "status": status})], true)
    }

    #[test]
    fn a_bad_scenario_is_a_cross_and_a_line_that_says_why() {
        let scores = [
            score(Group::V20251125, "a", "SUCCESS"),
            score(Group::V20260728, "a", "WARNING"),
            score(Group::Skills, "b", "SUCCESS"),
        ];
        assert_eq!(
            by_scenario(Side::Client, &scores),
            "| scenario | 2025-06-18 | 2025-11-25 | 2026-07-28 | backcompat | extensions | skills |\n\
             |---|---|---|---|---|---|---|\n\
             | a |  | 1 | ✗ |  |  |  |\n\
             | b |  |  |  |  |  | 1 |\n"
        );
        assert!(
            summary(Side::Client, &scores).contains("| 2026-07-28 | 0 of 1 | 0 | 0 | 1 | 0 | 0 |")
        );
        assert!(progress_line(&scores[1]).ends_with("  0 ok, warned: x"));
    }

    #[test]
    fn each_server_is_a_row_and_its_failures_are_listed() {
        let good = score(Group::V20251125, "a", "SUCCESS");
        let bad = score(Group::Tasks, "b", "FAILURE");
        let results = [
            ServerScores { title: "http, both".to_owned(), scores: vec![good.clone()] },
            ServerScores { title: "stdio, both".to_owned(), scores: vec![good, bad] },
        ];
        assert_eq!(
            server_tables(&results),
            "| | 2025-06-18 | 2025-11-25 | 2026-07-28 | tasks | skills |\n\
             |---|---|---|---|---|---|\n\
             | http, both |  | 1 of 1 |  |  |  |\n\
             | stdio, both |  | 1 of 1 |  | 0 of 1 |  |\n\
             \n\
             - stdio, both: `b` (tasks)\n\
             \n\
             | scenario | 2025-06-18 | 2025-11-25 | 2026-07-28 | tasks | skills |\n\
             |---|---|---|---|---|---|\n\
             | a |  | 1 |  |  |  |\n"
        );
    }

    #[test]
    fn text_around_the_tables_and_other_tables_are_kept() {
        let once = DocsBlock::CLIENT.replace_in("# Title\n\nBefore.\n", "one\n");
        assert!(once.starts_with("# Title\n\nBefore.\n\n<!-- begin"));
        assert_eq!(DocsBlock::CLIENT.replace_in(&once, "one\n"), once);
        let both = DocsBlock::SERVER.replace_in(&(once.clone() + "Between.\n"), "two\n");
        assert!(both.starts_with(&once));
        let again = DocsBlock::CLIENT.replace_in(&both, "three\n");
        assert_eq!(again, both.replace("one", "three"));
        assert_eq!(DocsBlock::SERVER.replace_in(&both, "four\n"), both.replace("two", "four"));
    }
}
