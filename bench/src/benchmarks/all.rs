//! Runs all benchmarks in turn, and writes the index page: which budgets this run met, and on which machine.

use std::fs;

use crate::effort::Effort;
use crate::failure::Failure;
use crate::machine;
use crate::output::report::Report;
use crate::output::table;
use crate::workspace::Workspace;
use crate::{BENCHMARKS, Benchmark};

/// A benchmark and its report.
type Outcome = (&'static Benchmark, Result<Report, Failure>);

/// Runs all benchmarks. A failure is printed and listed on the page, and the others still run.
pub fn run(workspace: &Workspace) -> Result<(), Failure> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for benchmark in BENCHMARKS {
        eprintln!("==> {}: {}", benchmark.name, benchmark.about);
        let report = (benchmark.run)(workspace, &[]).and_then(|report| {
            report.save(workspace)?;
            Ok(report)
        });
        if let Err(failure) = &report {
            failure.print();
        }
        outcomes.push((benchmark, report));
    }
    let page = page(&outcomes);
    print!("{page}");
    if Effort::chosen() == Effort::Full {
        let path = workspace.report_path("README.md");
        fs::write(&path, page).map_err(|error| Failure::file(&path, error))?;
    }
    let failed = outcomes.iter().filter(|(_, it)| it.is_err()).map(|(it, _)| it.name);
    let failed: Vec<&str> = failed.collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::BenchmarksFailed(failed.join(", "))),
    }
}

fn page(outcomes: &[Outcome]) -> String {
    let link = |it: &Benchmark| format!("[{}]({}.md)", it.name, it.name);
    let pages: Vec<Vec<String>> = outcomes
        .iter()
        .map(|(benchmark, report)| {
            let problem = match report {
                Ok(_) => String::new(),
                Err(failure) => format!("**could not be measured**: {failure}"),
            };
            vec![link(benchmark), benchmark.about.to_owned(), problem]
        })
        .collect();
    let budgets: Vec<Vec<String>> = outcomes
        .iter()
        .filter_map(|(benchmark, report)| Some((benchmark, report.as_ref().ok()?)))
        .flat_map(|(benchmark, report)| {
            report.budgets.iter().map(|row| [vec![link(benchmark)], row.clone()].concat())
        })
        .collect();
    let of = |verdict: &str| budgets.iter().filter(|row| row[4] == verdict).count();
    let (met, missed) = (of("met"), of("**missed**"));
    format!(
        "\
# Benchmarks

Written by `cargo xtask bench`, which runs all benchmarks in turn. Machine: {}.

{}
`cargo xtask instructions` compares the instructions of each hot path with `bench/instructions.json`;
[performance](../development/performance.md) explains the results.

## Budgets

{met} met, {missed} missed, {} not measured, all in this run.

{}",
        machine::describe(),
        table::markdown(&["page", "about", ""], &[1, 2], &pages),
        budgets.len() - met - missed,
        table::markdown(&["page", "budget", "limit", "measured", ""], &[1, 4], &budgets),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::report::Extent;

    #[test]
    fn the_page_counts_what_was_met_and_says_what_could_not_be_measured() {
        let row = |verdict: &str| ["it", "≤ 1", "1", verdict].map(str::to_owned).to_vec();
        let report = Report {
            name: "calls",
            text: String::new(),
            pictures: Vec::new(),
            budgets: vec![row("met"), row("**missed**"), row("unknown: not measured"), row("met")],
            extent: Extent::Whole,
        };
        let page =
            page(&[(&BENCHMARKS[0], Ok(report)), (&BENCHMARKS[1], Err(Failure::InvalidRequest))]);
        assert!(page.contains("2 met, 1 missed, 1 not measured"), "{page}");
        assert!(page.contains("| [calls](calls.md) | it | ≤ 1 | 1 | **missed** |"), "{page}");
        assert!(page.contains("**could not be measured**: expected"), "{page}");
    }
}
