//! Permission rules for the clients of a gateway, by the name each client authenticates with.
//! They are added to the rules that apply to every client.

use std::collections::BTreeMap;

use super::rules::PermissionRules;

/// The name that applies to every client.
pub(crate) const ANY_PRINCIPAL: &str = "*";

/// Permission rules by client name.
#[derive(Debug, Clone, Default)]
pub struct Principals(BTreeMap<String, PermissionRules>);

impl Principals {
    /// Returns the additional rules of a client: its own, and those of `*`.
    pub fn rules(&self, name: &str) -> Option<PermissionRules> {
        let of = |name: &str| self.0.get(name).cloned();
        match (of(ANY_PRINCIPAL), of(name).filter(|_| name != ANY_PRINCIPAL)) {
            (Some(all), Some(own)) => Some(all.merge(own)),
            (all, own) => all.or(own),
        }
    }

    /// The rules of each name, as they are written. `*` stands for every client.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PermissionRules)> {
        self.0.iter().map(|(name, rules)| (name.as_str(), rules))
    }

    /// Merges two sets.
    pub fn merge(mut self, other: Principals) -> Principals {
        for (name, rules) in other.0 {
            self.insert(name, rules);
        }
        self
    }

    /// Adds rules for a name to those that it has.
    pub(crate) fn insert(&mut self, name: String, rules: PermissionRules) {
        let before = self.0.remove(&name).unwrap_or_default();
        self.0.insert(name, before.merge(rules));
    }

    /// Keeps only rules that restrict.
    pub fn restrictions(self) -> Principals {
        let one = |(name, rules): (String, PermissionRules)| (name, rules.restrictions());
        Principals(self.0.into_iter().map(one).collect())
    }
}
