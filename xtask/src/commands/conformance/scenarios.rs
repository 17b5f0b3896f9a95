//! Selects the scenarios to run, and the protocol version of each: the suite's list, in groups of a known size.

use super::SuiteError;

/// Scenarios without meaning yet: this one is always skipped, until the suite rewrites it.
const UNIMPLEMENTED: &[&str] = &["tasks-status-notifications"];

/// Which side of the protocol the suite tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Side {
    /// The groups of its scenarios, in the order of the table.
    pub fn groups(self) -> &'static [Group] {
        match self {
            Side::Client => &[
                Group::V20250618,
                Group::V20251125,
                Group::V20260728,
                Group::Backcompat,
                Group::Extensions,
                Group::Skills,
            ],
            Side::Server => {
                &[Group::V20250618, Group::V20251125, Group::V20260728, Group::Tasks, Group::Skills]
            }
        }
    }

    /// The line that starts the suite's list of scenarios for this side.
    fn list_heading(self) -> &'static str {
        match self {
            Side::Client => "Client scenarios",
            Side::Server => "Server scenarios",
        }
    }
}

/// Scenarios that are counted together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Group {
    /// The protocol of June 2025.
    V20250618,
    /// The protocol of November 2025.
    V20251125,
    /// The protocol of July 2026.
    V20260728,
    /// Authorization with servers of March 2025.
    Backcompat,
    /// Authorization methods that are extensions.
    Extensions,
    /// Tasks: calls that take long.
    Tasks,
    /// Skills.
    Skills,
}

impl Group {
    /// The group's name.
    pub fn title(self) -> &'static str {
        match self {
            Group::V20250618 => "2025-06-18",
            Group::V20251125 => "2025-11-25",
            Group::V20260728 => "2026-07-28",
            Group::Backcompat => "backcompat",
            Group::Extensions => "extensions",
            Group::Tasks => "tasks",
            Group::Skills => "skills",
        }
    }

    /// The number of scenarios in the pinned suite. Fewer would mean that a test silently disappeared.
    pub fn size(self, side: Side) -> usize {
        match (side, self) {
            (Side::Client, Group::V20250618) => 5,
            (Side::Client, Group::V20251125) => 19,
            (Side::Client, Group::V20260728) => 33,
            (Side::Client, Group::Backcompat) => 2,
            (Side::Client, Group::Extensions) => 6,
            (Side::Client, Group::Skills) => 4,
            (Side::Server, Group::V20250618) => 27,
            (Side::Server, Group::V20251125) => 33,
            (Side::Server, Group::V20260728) => 40,
            (Side::Server, Group::Tasks) => 9,
            (Side::Server, Group::Skills) => 3,
            (Side::Client, Group::Tasks)
            | (Side::Server, Group::Backcompat | Group::Extensions) => 0,
        }
    }

    /// The protocol version to pass to the suite; extensions choose their own.
    pub fn version(self) -> Option<&'static str> {
        match self {
            Group::V20250618 | Group::V20251125 | Group::V20260728 => Some(self.title()),
            Group::Backcompat => Some("2025-03-26"),
            Group::Extensions | Group::Tasks | Group::Skills => None,
        }
    }

    /// Whether a scenario belongs to this group, given the words in brackets in the suite's list.
    fn includes(self, scenario: &str, versions: &[&str]) -> bool {
        let is_extension = versions == ["extension"];
        match self {
            Group::V20250618 | Group::V20251125 | Group::V20260728 | Group::Backcompat => {
                self.version().is_some_and(|version| versions.contains(&version))
            }
            Group::Extensions => is_extension && scenario.starts_with("auth/"),
            Group::Tasks => is_extension && scenario.starts_with("tasks-"),
            Group::Skills => is_extension && scenario.starts_with("sep-2640-"),
        }
    }
}

/// One run of one scenario.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ScenarioRun {
    /// The group in which it counts.
    pub group: Group,
    /// The suite's name of the scenario.
    pub scenario: String,
}

impl ScenarioRun {
    /// What the user of the client intends, as an argument. A server cannot tell: only the user decides whether skills are
    /// only listed or also used.
    pub fn client_arguments(&self) -> &'static [&'static str] {
        match self.scenario.starts_with("sep-2640-client-verify") {
            true => &["--load-skills"],
            false => &[],
        }
    }
}

/// The scenarios to run, from the suite's list.
pub fn plan_runs(list: &str, side: Side) -> Result<Vec<ScenarioRun>, SuiteError> {
    let lines = list.lines().skip_while(|line| !line.starts_with(side.list_heading())).skip(1);
    let implemented = |(name, _): &(&str, Vec<&str>)| !UNIMPLEMENTED.contains(name);
    let listed: Vec<(&str, Vec<&str>)> =
        lines.map_while(parse_scenario).filter(implemented).collect();
    let mut planned = Vec::new();
    for group in side.groups().iter().copied() {
        let before = planned.len();
        let members = listed.iter().filter(|(name, versions)| group.includes(name, versions));
        planned
            .extend(members.map(|(name, _)| ScenarioRun { group, scenario: (*name).to_owned() }));
        let listed = planned.len() - before;
        let wanted = group.size(side);
        if listed != wanted {
            return Err(SuiteError::ScenarioCount { group, listed, expected: wanted });
        }
    }
    Ok(planned)
}

/// `  - name [version,version]`
fn parse_scenario(line: &str) -> Option<(&str, Vec<&str>)> {
    let (name, versions) = line.trim().strip_prefix("- ")?.split_once(" [")?;
    Some((name, versions.trim_end_matches(']').split(',').collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(side: Side, scenario: &str, versions: &[&str]) -> Vec<&'static str> {
        let holds = side.groups().iter().filter(|group| group.includes(scenario, versions));
        holds.map(|group| group.title()).collect()
    }

    #[test]
    fn a_scenario_counts_in_every_version_that_it_is_listed_for() {
        let versions = ["2025-11-25", "2026-07-28"];
        assert_eq!(groups(Side::Client, "tools_call", &versions), versions);
        assert_eq!(groups(Side::Server, "tools-list", &versions), versions);
    }

    #[test]
    fn an_extension_counts_once_by_its_name() {
        assert_eq!(groups(Side::Client, "auth/dpop", &["extension"]), ["extensions"]);
        assert_eq!(groups(Side::Client, "sep-2640-client-x", &["extension"]), ["skills"]);
        assert_eq!(groups(Side::Server, "sep-2640-skills-x", &["extension"]), ["skills"]);
        assert_eq!(groups(Side::Server, "tasks-lifecycle", &["extension"]), ["tasks"]);
    }

    const LIST: &str = "Server scenarios (x):\n  - ping [2025-06-18]\n\nClient scenarios (y):\n  \
                        - initialize [2025-06-18,2025-11-25]\n\nAuthorization (z):\n  - a [2025-06-18]\n";

    #[test]
    fn a_suite_with_missing_scenarios_is_an_error() {
        let said = |side| plan_runs(LIST, side).unwrap_err().to_string();
        assert_eq!(said(Side::Client), "the suite lists 1 scenarios for 2025-06-18, expected 5");
        assert_eq!(said(Side::Server), "the suite lists 1 scenarios for 2025-06-18, expected 27");
    }
}
