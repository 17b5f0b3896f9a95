//! The servers that a program names: in its first request, as those that it hosts, and later. Pure: they become a layer of
//! the configuration, and what the program says about single tools becomes rules.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::permission::{PermissionEffect, PermissionRules};
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard::pool::naming::sanitise;

/// The program in the origin of its servers.
const PROGRAM: &str = "the program that runs this session";
/// Shorter timeouts of servers that the program hosts do not count, as their authors expect.
const MIN_TIMEOUT_MS: u64 = 1_000;

/// Servers by their names.
pub(super) type Entries = Map<String, Json>;

/// The servers that a program has named so far. A later list wins over an earlier one.
#[derive(Debug, Clone, Default)]
pub(super) struct ProgramEntries {
    /// Those of its first request.
    pub(super) launched: Entries,
    /// Those that it hosts since it started.
    pub(super) hosted: Entries,
    /// Those that it added since.
    pub(super) added: Entries,
}

impl ProgramEntries {
    fn all(&self) -> Entries {
        let lists = [&self.launched, &self.hosted, &self.added];
        lists.into_iter().flatten().map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    /// The entries as a layer of the configuration.
    pub(super) fn layers(&self) -> Vec<Layer> {
        let entries = self.all();
        if entries.is_empty() {
            return Vec::new();
        }
        let entries: Entries =
            entries.into_iter().map(|(name, entry)| (name, without_policies(entry))).collect();
        let text = json!({"mcpServers": entries}).to_string();
        let source = Source::program(Scope::Dynamic, PROGRAM);
        vec![Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped)]
    }

    /// Adds what the program wants to happen to calls of single tools. It holds in every mode, like an administrator's rules.
    pub(super) fn add_rules(&self, rules: &mut PermissionRules) {
        let source: Arc<Source> = Source::program(Scope::Dynamic, PROGRAM);
        for (server, entry) in &self.all() {
            for tool in entry["tools"].as_array().into_iter().flatten() {
                if let (Some(name), Some(effect)) = (tool["name"].as_str(), effect_of(tool)) {
                    let names = (&*sanitise(server), &*sanitise(name));
                    rules.add_of_organisation(effect, names, &source);
                }
            }
        }
    }
}

/// What happens to calls of a tool. A permission is no answer: only rules of the user and the permission callback allow. A
/// word that is not known asks.
fn effect_of(tool: &Json) -> Option<PermissionEffect> {
    match tool["permission_policy"].as_str() {
        Some("always_allow") => None,
        Some("always_deny") => Some(PermissionEffect::Deny),
        Some(_) => Some(PermissionEffect::Ask),
        None if tool["permission_policy"].is_null() => None,
        None => Some(PermissionEffect::Ask),
    }
}

/// An entry as configuration has it.
fn without_policies(mut entry: Json) -> Json {
    let is_hosted = entry["type"] == "sdk";
    if let Some(members) = entry.as_object_mut() {
        if members.get("tools").is_some_and(Json::is_array) {
            members.remove("tools");
        }
        let is_short = |it: &Json| it.as_u64().is_none_or(|it| it < MIN_TIMEOUT_MS);
        if is_hosted && members.get("timeout").is_some_and(is_short) {
            members.remove("timeout");
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(json: Json) -> Entries {
        json.as_object().cloned().expect("an object")
    }

    /// The rules of policies for the tools of a server.
    #[track_caller]
    fn check(policies: &Json, expected: &[&str]) {
        let hosted = entries(json!({"calc": {"type": "sdk", "name": "calc", "tools": policies}}));
        let mut rules = PermissionRules::default();
        ProgramEntries { hosted, ..ProgramEntries::default() }.add_rules(&mut rules);
        let found: Vec<String> =
            rules.entries().iter().map(|it| format!("{} {}", it.effect.id(), it.rule)).collect();
        assert_eq!(found, expected, "{policies}");
    }

    #[test]
    fn a_policy_denies_or_asks_and_an_unknown_one_asks() {
        let policy = |name: &str, policy: &str| json!({"name": name, "permission_policy": policy});
        check(&json!([policy("a", "always_deny")]), &["deny mcp__calc__a"]);
        check(&json!([policy("a", "always_ask")]), &["ask mcp__calc__a"]);
        check(&json!([policy("a b", "sometimes")]), &["ask mcp__calc__a_b"]);
        check(&json!([{"name": "a", "permission_policy": 5}]), &["ask mcp__calc__a"]);
        check(
            &json!([policy("a", "always_allow"), {"name": "b"}, {"permission_policy": "always_deny"}]),
            &[],
        );
        check(&json!({"deny": ["a"]}), &[]);
    }

    #[test]
    fn a_policy_is_no_part_of_the_entry_and_a_filter_of_tools_is() {
        let entry = json!({"type": "sdk", "tools": [{"name": "a"}], "timeout": 5});
        assert_eq!(without_policies(entry), json!({"type": "sdk"}));
        let filtered = json!({"command": "x", "tools": {"deny": ["a"]}, "timeout": 5});
        assert_eq!(without_policies(filtered.clone()), filtered);
        let long = json!({"type": "sdk", "timeout": 5000});
        assert_eq!(without_policies(long.clone()), long);
    }

    #[test]
    fn a_later_list_wins() {
        let named = |timeout: u64| entries(json!({"s": {"command": "x", "timeout": timeout}}));
        let all = ProgramEntries { launched: named(1), hosted: Map::new(), added: named(2) }.all();
        assert_eq!(all["s"]["timeout"], 2);
    }
}
