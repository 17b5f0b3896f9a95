//! The rules with an index, so that a decision reads only the rules whose target begins with the name of the server,
//! however many there are. What a rule matches is for `rule` to say.

use std::ops::Deref;

use super::effect::PermissionEffect;
use super::rule_entry::RuleEntry;

/// The rules in the order in which they were added.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleList {
    entries: Vec<RuleEntry>,
    /// Positions in `entries`, ordered by effect and target.
    by_target: Vec<usize>,
}

impl RuleList {
    pub(crate) fn push(&mut self, entry: RuleEntry) {
        let position = self.first_not_before(entry.effect, entry.rule.target());
        self.by_target.insert(position, self.entries.len());
        self.entries.push(entry);
    }

    pub(crate) fn extend(&mut self, entries: impl IntoIterator<Item = RuleEntry>) {
        self.entries.extend(entries);
        self.index();
    }

    pub(crate) fn retain(&mut self, keeps: impl FnMut(&RuleEntry) -> bool) {
        self.entries.retain(keeps);
        self.index();
    }

    pub(crate) fn clear_approvers(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.approver = None);
    }

    /// The rules of this effect that may name the server: a rule whose target does not begin with the server's name names
    /// another server.
    pub(super) fn candidates<'rules, 'name>(
        &'rules self,
        effect: PermissionEffect,
        server: &'name str,
    ) -> impl Iterator<Item = &'rules RuleEntry> + use<'rules, 'name> {
        self.by_target[self.first_not_before(effect, server)..]
            .iter()
            .map(|position| &self.entries[*position])
            .take_while(move |entry| {
                entry.effect == effect && entry.rule.target().starts_with(server)
            })
    }

    fn first_not_before(&self, effect: PermissionEffect, target: &str) -> usize {
        self.by_target.partition_point(|position| key(&self.entries[*position]) < (effect, target))
    }

    fn index(&mut self) {
        self.by_target = (0..self.entries.len()).collect();
        let entries = &self.entries;
        self.by_target.sort_by(|one, other| key(&entries[*one]).cmp(&key(&entries[*other])));
    }
}

fn key(entry: &RuleEntry) -> (PermissionEffect, &str) {
    (entry.effect, entry.rule.target())
}

impl Deref for RuleList {
    type Target = [RuleEntry];

    fn deref(&self) -> &[RuleEntry] {
        &self.entries
    }
}

impl IntoIterator for RuleList {
    type Item = RuleEntry;
    type IntoIter = std::vec::IntoIter<RuleEntry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl FromIterator<RuleEntry> for RuleList {
    fn from_iter<Entries: IntoIterator<Item = RuleEntry>>(entries: Entries) -> RuleList {
        let mut list = RuleList::default();
        list.extend(entries);
        list
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pattern::MatchMode;
    use crate::permission::{PermissionRules, ToolRule};

    fn list(rules: &[(PermissionEffect, String)]) -> RuleList {
        let mut all = PermissionRules::default();
        for (effect, rule) in rules {
            all.add_for_session(*effect, ToolRule::parse(rule).expect("a rule"));
        }
        all.entries
    }

    fn texts<'a>(entries: impl Iterator<Item = &'a RuleEntry>) -> Vec<String> {
        let mut texts: Vec<String> = entries.map(|entry| entry.rule.to_string()).collect();
        texts.sort();
        texts
    }

    fn effect() -> impl Strategy<Value = PermissionEffect> {
        prop::sample::select(vec![
            PermissionEffect::Allow,
            PermissionEffect::Ask,
            PermissionEffect::Deny,
        ])
    }

    proptest! {
        /// Every rule that names the server is a candidate, however the list was made.
        #[test]
        fn the_index_misses_no_rule(
            rules in prop::collection::vec((effect(), "mcp__[ab]{1,2}(_|__[ab]|__\\*|/[ab])?"), 0..12),
            wanted in effect(),
            server in "[ab]{1,2}(_|__a)?",
        ) {
            let rules: Vec<_> = rules.into_iter().filter(|(_, it)| ToolRule::parse(it).is_ok()).collect();
            let pushed = list(&rules);
            let mut shortened = RuleList::from_iter(pushed.to_vec());
            shortened.extend(pushed.to_vec());
            let mut seen = 0;
            shortened.retain(|_| { seen += 1; seen <= pushed.len() });
            for list in [&pushed, &shortened] {
                let names = |entry: &&RuleEntry| {
                    entry.effect == wanted && entry.rule.tools_of(&server, MatchMode::Broad).is_some()
                };
                prop_assert_eq!(
                    texts(list.candidates(wanted, &server).filter(names)),
                    texts(list.iter().filter(names))
                );
            }
        }
    }

    #[test]
    fn rules_of_other_servers_and_effects_are_not_candidates() {
        let rules = [
            (PermissionEffect::Deny, "mcp__files__delete".to_owned()),
            (PermissionEffect::Deny, "mcp__git".to_owned()),
            (PermissionEffect::Allow, "mcp__files".to_owned()),
            (PermissionEffect::Deny, "mcp__files".to_owned()),
            (PermissionEffect::Deny, "mcp__file".to_owned()),
        ];
        let list = list(&rules);
        assert_eq!(
            texts(list.candidates(PermissionEffect::Deny, "files")),
            ["mcp__files", "mcp__files__delete"]
        );
    }
}
