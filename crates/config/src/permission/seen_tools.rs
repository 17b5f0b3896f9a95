//! The tools whose results a session has seen, for rules that apply only after such results (`after`). What a session has
//! seen may be in any argument of its later calls, so nothing less than the session is tracked.

use std::collections::{BTreeMap, BTreeSet};

/// The most tools that are listed by name for one server. Beyond it, every tool of the server counts as seen.
const MAX_TOOLS: usize = 1000;

/// The tools whose results a session has seen, by the names of rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenTools {
    by_server: BTreeMap<String, SeenOfServer>,
}

/// The tools of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SeenOfServer {
    /// These.
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

    /// Adds the tools of another session.
    pub fn extend(&mut self, other: &SeenTools) {
        for (server, seen) in &other.by_server {
            match seen {
                SeenOfServer::Tools(tools) => tools.iter().for_each(|it| self.insert(server, it)),
                SeenOfServer::EveryTool => {
                    self.by_server.insert(server.clone(), SeenOfServer::EveryTool);
                }
            }
        }
    }

    /// Forgets the tools of a server.
    pub fn remove_server(&mut self, server: &str) {
        self.by_server.remove(server);
    }

    /// The tools of each server.
    pub(super) fn servers(&self) -> impl Iterator<Item = (&str, &SeenOfServer)> {
        self.by_server.iter().map(|(server, seen)| (server.as_str(), seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_tools_of_a_server_to_list_count_as_all_of_them() {
        let mut seen = SeenTools::default();
        seen.insert("crm", "get_customer");
        assert!(seen.contains("crm", "get_customer") && !seen.contains("crm", "list"));
        for number in 0..=MAX_TOOLS {
            seen.insert("crm", &format!("t{number}"));
        }
        assert!(seen.contains("crm", "list") && !seen.contains("git", "list"));
        let mut both = SeenTools::default();
        both.insert("wiki", "read");
        both.extend(&seen);
        assert!(both.contains("crm", "anything") && both.contains("wiki", "read"));
        seen.remove_server("crm");
        assert_eq!(seen, NOTHING_SEEN);
    }
}
