//! Which scenarios are run, and in which version of the protocol: what the suite lists, in groups of a known size.

use super::SuiteError;

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
    /// Skills.
    Skills,
}

impl Group {
    /// Every group, in the order of the table.
    pub const ALL: [Group; 6] = [
        Group::V20250618,
        Group::V20251125,
        Group::V20260728,
        Group::Backcompat,
        Group::Extensions,
        Group::Skills,
    ];

    /// The group's name.
    pub fn title(self) -> &'static str {
        match self {
            Group::V20250618 => "2025-06-18",
            Group::V20251125 => "2025-11-25",
            Group::V20260728 => "2026-07-28",
            Group::Backcompat => "backcompat",
            Group::Extensions => "extensions",
            Group::Skills => "skills",
        }
    }

    /// How many scenarios it has in the suite that is pinned. Fewer would be a test that silently went away.
    pub fn size(self) -> usize {
        match self {
            Group::V20250618 => 5,
            Group::V20251125 => 19,
            Group::V20260728 => 33,
            Group::Backcompat => 2,
            Group::Extensions => 6,
            Group::Skills => 4,
        }
    }

    /// The version that the suite is told to speak; extensions choose their own.
    pub fn version(self) -> Option<&'static str> {
        match self {
            Group::V20250618 | Group::V20251125 | Group::V20260728 => Some(self.title()),
            Group::Backcompat => Some("2025-03-26"),
            Group::Extensions | Group::Skills => None,
        }
    }

    /// Does a scenario belong here that the suite lists with these words in brackets?
    fn holds(self, scenario: &str, versions: &[&str]) -> bool {
        let is_extension = versions == ["extension"];
        match self {
            Group::V20250618 | Group::V20251125 | Group::V20260728 | Group::Backcompat => {
                self.version().is_some_and(|version| versions.contains(&version))
            }
            Group::Extensions => is_extension && scenario.starts_with("auth/"),
            Group::Skills => is_extension && !scenario.starts_with("auth/"),
        }
    }
}

/// One run of one scenario.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Planned {
    /// Where it counts.
    pub group: Group,
    /// The suite's name for it.
    pub scenario: String,
}

impl Planned {
    /// What the person in front of the client wants, in words for it. A server cannot say so: whether skills are only
    /// listed or also used is nobody's choice but theirs.
    pub fn wishes(&self) -> &'static [&'static str] {
        match self.scenario.starts_with("sep-2640-client-verify") {
            true => &["--load-skills"],
            false => &[],
        }
    }
}

/// What to run, from the suite's own list.
pub fn planned(list: &str) -> Result<Vec<Planned>, SuiteError> {
    let lines = list.lines().skip_while(|line| !line.starts_with("Client scenarios")).skip(1);
    let listed: Vec<(&str, Vec<&str>)> = lines.map_while(scenario).collect();
    let mut planned = Vec::new();
    for group in Group::ALL {
        let before = planned.len();
        let members = listed.iter().filter(|(name, versions)| group.holds(name, versions));
        planned.extend(members.map(|(name, _)| Planned { group, scenario: (*name).to_owned() }));
        let listed = planned.len() - before;
        if listed != group.size() {
            return Err(SuiteError::OtherScenarios { group, listed });
        }
    }
    Ok(planned)
}

/// `  - name [version,version]`
fn scenario(line: &str) -> Option<(&str, Vec<&str>)> {
    let (name, versions) = line.trim().strip_prefix("- ")?.split_once(" [")?;
    Some((name, versions.trim_end_matches(']').split(',').collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_counts_in_every_version_that_it_is_listed_for() {
        let versions = ["2025-11-25", "2026-07-28"];
        let groups = Group::ALL.map(|group| group.holds("tools_call", &versions));
        assert_eq!(groups, [false, true, true, false, false, false]);
        let groups = Group::ALL.map(|group| group.holds("auth/dpop", &["extension"]));
        assert_eq!(groups, [false, false, false, false, true, false]);
        let groups = Group::ALL.map(|group| group.holds("sep-2640-client", &["extension"]));
        assert_eq!(groups, [false, false, false, false, false, true]);
    }

    #[test]
    fn a_suite_that_lost_scenarios_is_not_run() {
        let list = "Server scenarios (x):\n  - ping [2025-06-18]\n\nClient scenarios (y):\n  \
                    - initialize [2025-06-18,2025-11-25]\n\nAuthorization (z):\n  - a [2025-06-18]\n";
        let error = planned(list).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the suite lists 1 scenarios for 2025-06-18, and should list 5"
        );
    }
}
