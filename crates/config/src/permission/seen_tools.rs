//! The tools whose results a session has seen, for rules that apply only after such results (`after`). What a session has
//! seen may be in any argument of its later calls, so nothing less than the session is tracked.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::ToolRule;
use crate::pattern::MatchMode;

/// The most tools that are listed by name for one server. Beyond it, every tool of the server counts as seen.
const MAX_TOOLS: usize = 1000;

/// The tools whose results a session has seen, by the names of rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenTools {
    by_server: BTreeMap<String, SeenOfServer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SeenOfServer {
    Tools(BTreeSet<String>),
    /// Any tool may be among them.
    EveryTool,
}

/// A session that has seen nothing.
pub static NOTHING_SEEN: SeenTools = SeenTools { by_server: BTreeMap::new() };

impl SeenTools {
    /// Is the tool among them?
    pub fn contains(&self, server: &str, tool: &str) -> bool {
        match self.by_server.get(server) {
            Some(SeenOfServer::Tools(tools)) => tools.contains(tool),
            Some(SeenOfServer::EveryTool) => true,
            None => false,
        }
    }

    /// Adds a tool.
    pub fn insert(&mut self, server: &str, tool: &str) {
        let seen = self
            .by_server
            .entry(server.to_owned())
            .or_insert_with(|| SeenOfServer::Tools(BTreeSet::new()));
        if let SeenOfServer::Tools(tools) = seen {
            tools.insert(tool.to_owned());
            if tools.len() > MAX_TOOLS {
                *seen = SeenOfServer::EveryTool;
            }
        }
    }

    /// Forgets the tools of a server.
    pub fn remove_server(&mut self, server: &str) {
        self.by_server.remove(server);
    }

    /// Does a rule name one of the tools? Its conditions on arguments do not count.
    pub fn matches(&self, rule: &ToolRule) -> bool {
        self.by_server.iter().any(|(server, seen)| {
            let tools = rule.tools_of(server, MatchMode::Broad);
            tools.is_some_and(|named| match seen {
                SeenOfServer::Tools(tools) => tools.iter().any(|it| named.matches(it)),
                SeenOfServer::EveryTool => true,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_a_server_or_some_of_its_tools() {
        let mut seen = SeenTools::default();
        let matches =
            |seen: &SeenTools, rule: &str| seen.matches(&ToolRule::parse(rule).expect("a rule"));
        assert!(!matches(&seen, "mcp__crm"));
        seen.insert("crm", "get_customer");
        assert!(matches(&seen, "mcp__crm") && matches(&seen, "mcp__crm__get_*"));
        assert!(!matches(&seen, "mcp__crm__list") && !matches(&seen, "mcp__cr"));
        assert!(seen.contains("crm", "get_customer") && !seen.contains("crm", "list"));
        for number in 0..=MAX_TOOLS {
            seen.insert("crm", &format!("t{number}"));
        }
        assert!(matches(&seen, "mcp__crm__anything"), "too many to list");
        seen.remove_server("crm");
        assert_eq!(seen, NOTHING_SEEN);
    }
}
