//! Which scenarios are run, and in which version of the protocol: what the suite lists, in groups of a known size.

use super::SuiteError;

/// Scenarios that say nothing yet: this one is skipped whatever a server does, until it is written anew.
const UNIMPLEMENTED: &[&str] = &["tasks-status-notifications"];

/// Whom the suite tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// What connects to servers.
    Client,
    /// What clients connect to.
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

    /// How the suite's list of its scenarios begins.
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
    /// Signing in to servers of March 2025.
    Backcompat,
    /// Ways to sign in that are extensions.
    Extensions,
    /// Calls that take long.
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

    /// How many scenarios it has in the suite that is pinned. Fewer would be a test that silently went away.
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

    /// The version that the suite is told to speak; extensions choose their own.
    pub fn version(self) -> Option<&'static str> {
        match self {
            Group::V20250618 | Group::V20251125 | Group::V20260728 => Some(self.title()),
            Group::Backcompat => Some("2025-03-26"),
            Group::Extensions | Group::Tasks | Group::Skills => None,
        }
    }

    /// Does a scenario belong here that the suite lists with these words in brackets?
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
    /// Where it counts.
    pub group: Group,
    /// The suite's name for it.
    pub scenario: String,
}

impl ScenarioRun {
    /// What the person in front of the client wants, in words for it. A server cannot say so: whether skills are only
    /// listed or also used is nobody's choice but theirs.
    pub fn client_arguments(&self) -> &'static [&'static str] {
        match self.scenario.starts_with("sep-2640-client-verify") {
            true => &["--load-skills"],
            false => &[],
        }
    }
}

/// What to run, from the suite's own list.
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
    fn a_suite_that_lost_scenarios_is_not_run() {
        let said = |side| plan_runs(LIST, side).unwrap_err().to_string();
        assert_eq!(
            said(Side::Client),
            "the suite lists 1 scenarios for 2025-06-18, and should list 5"
        );
        assert_eq!(
            said(Side::Server),
            "the suite lists 1 scenarios for 2025-06-18, and should list 27"
        );
    }
}
