//! How scores are shown: a line while the suite runs, a summary at the end, the table of the docs.

use std::fmt::Write;

use super::scenarios::Group;
use super::score::Score;

const BEGIN: &str = "<!-- begin: written by `cargo xtask conformance` -->";
const END: &str = "<!-- end -->";

/// One scenario in a line.
pub fn line(score: &Score) -> String {
    let word = if score.is_good() { "good" } else { "BAD " };
    let group = score.planned.group.title();
    let mut line = format!("{word} {group:<10} {:<44}", score.planned.scenario);
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

/// One row a group, for the terminal and for the docs.
pub fn summary(scores: &[Score]) -> String {
    let mut text =
        "| | scenarios | SUCCESS | FAILURE | WARNING | SKIPPED | expected SKIPPED |\n".to_owned();
    text.push_str("|---|---|---|---|---|---|---|\n");
    for group in Group::ALL {
        let those: Vec<&Score> = scores.iter().filter(|it| it.planned.group == group).collect();
        if those.is_empty() {
            continue;
        }
        let good = those.iter().filter(|it| it.is_good()).count();
        let sum = |count: fn(&Score) -> usize| those.iter().map(|it| count(it)).sum::<usize>();
        let _writes_to_memory = writeln!(
            text,
            "| {} | {good} of {} | {} | {} | {} | {} | {} |",
            group.title(),
            those.len(),
            sum(|it| it.successes),
            sum(|it| it.failures.len()),
            sum(|it| it.warnings.len()),
            sum(|it| it.skipped.len()),
            sum(|it| it.expected_skips),
        );
    }
    text
}

/// The page with its tables written again; a page without marks gets them at its end.
pub fn with_table(page: &str, scores: &[Score]) -> String {
    let (before, after) = match (page.find(BEGIN), page.find(END)) {
        (Some(begin), Some(end)) if begin < end => (&page[..begin], &page[end + END.len()..]),
        (Some(_) | None, Some(_) | None) => (page, "\n"),
    };
    format!("{before}{BEGIN}\n\n{}\n{}\n{END}{after}", summary(scores), by_scenario(scores))
}

/// One row a scenario: the checks that succeeded in each group, or a cross.
fn by_scenario(scores: &[Score]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for score in scores {
        if !names.contains(&score.planned.scenario.as_str()) {
            names.push(&score.planned.scenario);
        }
    }
    let titles = Group::ALL.map(Group::title).join(" | ");
    let mut text = format!("| scenario | {titles} |\n|---|{}\n", "---|".repeat(Group::ALL.len()));
    for name in names {
        let cells = Group::ALL.map(|group| {
            let is_it = |it: &&Score| it.planned.group == group && it.planned.scenario == name;
            match scores.iter().find(is_it) {
                None => String::new(),
                Some(score) if score.is_good() => score.successes.to_string(),
                Some(_) => "✗".to_owned(),
            }
        });
        let _writes_to_memory = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conformance::scenarios::Planned;

    fn score(group: Group, scenario: &str, status: &str) -> Score {
        let planned = Planned { group, scenario: scenario.to_owned() };
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
            by_scenario(&scores),
            "| scenario | 2025-06-18 | 2025-11-25 | 2026-07-28 | backcompat | extensions | skills |\n\
             |---|---|---|---|---|---|---|\n\
             | a |  | 1 | ✗ |  |  |  |\n\
             | b |  |  |  |  |  | 1 |\n"
        );
        assert!(summary(&scores).contains("| 2026-07-28 | 0 of 1 | 0 | 0 | 1 | 0 | 0 |"));
        assert!(line(&scores[1]).ends_with("  0 ok, warned: x"));
    }

    #[test]
    fn what_people_wrote_around_the_tables_stays() {
        let scores = [score(Group::Skills, "b", "SUCCESS")];
        let once = with_table("# Title\n\nBefore.\n\n", &scores);
        assert!(once.starts_with("# Title\n\nBefore.\n\n<!-- begin"));
        assert_eq!(with_table(&once, &scores), once);
        let more = once.clone() + "After.\n";
        assert_eq!(with_table(&more, &[]).lines().last(), Some("After."));
    }
}
