//! The result of a scenario: its checks counted by status, and whether the scenario passed.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value as Json;

use super::scenarios::ScenarioRun;

/// The file with the checks, which the suite writes to a separate folder for each scenario.
const CHECKS_FILE: &str = "checks.json";

/// Checks that are expected to be skipped, each with the reason. Any other skipped check is a failure.
const EXPECTED_SKIPS: &[ExpectedSkips] = &[ExpectedSkips {
    scenario: "http-standard-headers",
    check: "sep-2243-client-includes-standard-headers",
    // A modern client sends neither `initialize` nor `notifications/initialized`.
    limit: 2,
}];

struct ExpectedSkips {
    scenario: &'static str,
    check: &'static str,
    limit: usize,
}

/// The result of one scenario.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Score {
    /// The scenario and its group.
    pub run: ScenarioRun,
    /// Checks that passed.
    pub successes: usize,
    /// Checks that failed.
    pub failures: Vec<String>,
    /// Checks that ended with a warning.
    pub warnings: Vec<String>,
    /// Checks that were skipped unexpectedly.
    pub skipped: Vec<String>,
    /// Checks that were skipped as expected.
    pub expected_skips: usize,
    /// Whether the suite reported success.
    suite_succeeded: bool,
}

impl Score {
    /// Counts the checks of a scenario.
    pub fn new(run: ScenarioRun, checks: &[Json], suite_succeeded: bool) -> Score {
        let of = |status: &str| -> Vec<String> {
            let those = checks.iter().filter(|check| check["status"] == status);
            those.map(|check| check["id"].as_str().unwrap_or("?").to_owned()).collect()
        };
        let mut skipped = of("SKIPPED");
        let all = skipped.len();
        for expected in EXPECTED_SKIPS.iter().filter(|it| it.scenario == run.scenario) {
            let mut left = expected.limit;
            skipped.retain(|id| {
                let is_expected = id == expected.check && left > 0;
                left -= usize::from(is_expected);
                !is_expected
            });
        }
        Score {
            run,
            successes: of("SUCCESS").len(),
            failures: of("FAILURE"),
            warnings: of("WARNING"),
            expected_skips: all - skipped.len(),
            skipped,
            suite_succeeded,
        }
    }

    /// Whether at least one check passed and none failed. A scenario that only skips does not pass.
    pub fn passed(&self) -> bool {
        let bad = [&self.failures, &self.warnings, &self.skipped];
        self.suite_succeeded && self.successes > 0 && bad.iter().all(|it| it.is_empty())
    }
}

/// The checks of one scenario in a folder with several: `server-SCENARIO-TIME`, with a time like
/// `2026-11-16T06-58-52-570Z`.
pub fn server_checks(folder: &Path, scenario: &str) -> io::Result<Vec<Json>> {
    const TIME: usize = "-2026-11-16T06-58-52-570Z".len();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let scenario_name =
            name.strip_prefix("server-").and_then(|it| it.get(..it.len().checked_sub(TIME)?));
        if scenario_name == Some(scenario) {
            found.extend(checks_below(&path)?);
        }
    }
    Ok(found)
}

/// The checks below a folder that was empty before the scenario ran.
pub fn checks_below(folder: &Path) -> io::Result<Vec<Json>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(checks_below(&path)?);
        } else if path.file_name().is_some_and(|name| name == CHECKS_FILE) {
            let text = fs::read_to_string(&path)?;
            found.extend(serde_json::from_str::<Vec<Json>>(&text).map_err(io::Error::other)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::conformance::scenarios::Group;

    fn score(scenario: &str, checks: &[(&str, &str)]) -> Score {
        let run = ScenarioRun { group: Group::V20260728, scenario: scenario.to_owned() };
        let checks: Vec<Json> =
            checks.iter().map(|(id, status)| json!({"id": id, "status": status})).collect();
        Score::new(run, &checks, true)
    }

    #[test]
    fn one_failed_check_fails_the_scenario() {
        assert!(score("a", &[("x", "SUCCESS"), ("y", "INFO")]).passed());
        for bad in ["FAILURE", "WARNING", "SKIPPED"] {
            assert!(!score("a", &[("x", "SUCCESS"), ("y", bad)]).passed(), "{bad}");
        }
    }

    #[test]
    fn a_scenario_without_passed_checks_fails() {
        assert!(!score("a", &[]).passed());
        assert!(!score("a", &[("x", "INFO")]).passed());
    }

    #[test]
    fn only_so_many_skips_are_expected_and_only_where_they_are() {
        let id = "sep-2243-client-includes-standard-headers";
        let (good, skip) = (("x", "SUCCESS"), (id, "SKIPPED"));
        let both = score("http-standard-headers", &[good, skip, skip]);
        assert!(both.passed());
        assert_eq!(both.expected_skips, 2);
        assert!(!score("http-standard-headers", &[good, skip, skip, skip]).passed());
        assert!(!score("tools_call", &[good, skip]).passed());
    }

    #[test]
    fn a_client_that_exits_with_an_error_fails() {
        let run = ScenarioRun { group: Group::V20260728, scenario: "a".to_owned() };
        let checks = [json!({"id": "x", "status": "SUCCESS"})];
        assert!(!Score::new(run, &checks, false).passed());
    }

    #[test]
    fn scenarios_of_one_run_are_told_apart_by_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        for (scenario, id) in [("ping", "a"), ("server-ping", "b"), ("ping-2025-12", "c")] {
            let own = folder.path().join(format!("server-{scenario}-2026-11-16T06-58-52-570Z"));
            fs::create_dir(&own).unwrap();
            fs::write(own.join(CHECKS_FILE), format!(r#"[{{"id": "{id}"}}]"#)).unwrap();
        }
        let ids = |scenario| server_checks(folder.path(), scenario).unwrap();
        assert_eq!(ids("ping"), [json!({"id": "a"})]);
        assert_eq!(ids("ping-2025-12"), [json!({"id": "c"})]);
        assert!(ids("pong").is_empty());
    }

    #[test]
    fn checks_are_found_however_deep_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("auth").join("x-2026");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join(CHECKS_FILE), r#"[{"id": "a", "status": "SUCCESS"}]"#).unwrap();
        fs::write(deep.join("stdout.txt"), "not JSON").unwrap();
        assert_eq!(checks_below(folder.path()).unwrap().len(), 1);
    }
}
