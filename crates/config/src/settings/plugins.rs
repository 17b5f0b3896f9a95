//! Reads what a settings file says about plugins: `enabledPlugins`, `extraKnownMarketplaces`, `pluginConfigs`, and an
//! administrator's `strictKnownMarketplaces` and `blockedMarketplaces`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::document::{LineIndex, Member, Node, Value, find_member, strip_bom};
use crate::file::{OptionValues, read_top_level};
use crate::plugin::{
    MarketplaceMatcher, MarketplaceSource, OfferedMarketplace, PluginId, PluginProblem,
    PluginSettings, PluginSwitch, PluginValues, SwitchAuthority, SwitchState,
    check_marketplace_name,
};
use crate::problem::{Problem, ProblemKind, ProblemSubject, Reporter};
use crate::source::{Authority, Source};

/// The keys that a project's file may have too.
pub(crate) const SHARED_KEYS: [&str; 2] = ["enabledPlugins", "extraKnownMarketplaces"];

/// Reads a settings file of another application for these two keys. Its other keys are not looked at.
pub fn read_foreign(
    source: &Arc<Source>,
    text: &str,
    authority: SwitchAuthority,
) -> (PluginSettings<OptionValues>, Vec<Problem>) {
    let text = strip_bom(text);
    let lines = LineIndex::new(text);
    let mut reporter = Reporter::new(source, &lines);
    let settings = match read_top_level(text, &mut reporter) {
        Some(members) => read_shared(&members, authority, &mut reporter),
        None => PluginSettings::default(),
    };
    (settings, reporter.problems)
}

/// Reads what a project's file may say too.
pub(crate) fn read_shared(
    members: &[Member],
    authority: SwitchAuthority,
    reporter: &mut Reporter<'_>,
) -> PluginSettings<OptionValues> {
    PluginSettings {
        switches: read_switches(members, authority, reporter),
        marketplaces: read_marketplaces(members, authority, reporter),
        ..PluginSettings::default()
    }
}

/// Reads everything from a file of a user or an administrator.
pub(crate) fn read(
    members: &[Member],
    authority: Authority,
    reporter: &mut Reporter<'_>,
) -> PluginSettings<OptionValues> {
    let mut settings = read_shared(members, SwitchAuthority::User, reporter);
    settings.values = read_values(members, reporter);
    const STRICT: &str = "strictKnownMarketplaces";
    const BLOCKED: &str = "blockedMarketplaces";
    for key in [STRICT, BLOCKED] {
        let Some(member) = find_member(members, key).filter(|it| it.node.value != Value::Null)
        else {
            continue;
        };
        let subject = ProblemSubject { server: None, key };
        if authority == Authority::User {
            reporter.report(member.key_span, subject, ProblemKind::ManagedOnly);
            continue;
        }
        let origin = reporter.origin(member.key_span);
        let mut matchers = Vec::new();
        match &member.node.value {
            Value::Array(items) => {
                for item in items {
                    let matcher = MarketplaceMatcher::read(&item.to_json());
                    if matches!(matcher, MarketplaceMatcher::Invalid) {
                        let problem = match key {
                            STRICT => PluginProblem::InvalidAllowedMarketplace,
                            _ => PluginProblem::InvalidBlockedMarketplace,
                        };
                        reporter.report(item.span, subject, ProblemKind::Plugin(problem));
                    }
                    matchers.push((matcher, reporter.origin(item.span)));
                }
            }
            // The file wants a restriction, so that no marketplace is the safe reading.
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => {
                reporter.report_wrong_type(&member.node, subject, "an array");
                settings.policy.allowed = Some((Vec::new(), origin.clone()));
                continue;
            }
        }
        match key {
            STRICT => {
                let matchers = matchers.into_iter().map(|(it, _)| it).collect();
                settings.policy.allowed = Some((matchers, origin));
            }
            _ => settings.policy.blocked = matchers,
        }
    }
    settings
}

/// The members of the object under a key.
fn object<'m>(members: &'m [Member], key: &str, reporter: &mut Reporter<'_>) -> &'m [Member] {
    match find_member(members, key).map(|it| &it.node) {
        None => &[],
        Some(Node { value: Value::Null, .. }) => &[],
        Some(Node { value: Value::Object(inner), .. }) => inner,
        Some(node) => {
            reporter.report_wrong_type(node, ProblemSubject { server: None, key }, "an object");
            &[]
        }
    }
}

fn read_id(key: &str, member: &Member, reporter: &mut Reporter<'_>) -> Option<PluginId> {
    let id = PluginId::parse(&member.key);
    if id.is_none() {
        let key = format!("{key}.{}", member.key);
        let subject = ProblemSubject { server: None, key: &key };
        reporter.report(member.key_span, subject, ProblemKind::Plugin(PluginProblem::InvalidId));
    }
    id
}

fn read_switches(
    members: &[Member],
    authority: SwitchAuthority,
    reporter: &mut Reporter<'_>,
) -> Vec<PluginSwitch> {
    const KEY: &str = SHARED_KEYS[0];
    let mut switches: Vec<PluginSwitch> = Vec::new();
    for member in object(members, KEY, reporter) {
        let Some(id) = read_id(KEY, member, reporter) else { continue };
        let state = match &member.node.value {
            Value::Bool(true) => SwitchState::On,
            Value::Bool(false) => SwitchState::Off,
            // Other applications list versions here.
            Value::Array(_) => SwitchState::On,
            Value::Null => continue,
            Value::Number(_) | Value::String(_) | Value::Object(_) => {
                let key = format!("{KEY}.{id}");
                let subject = ProblemSubject { server: None, key: &key };
                reporter.report_wrong_type(&member.node, subject, "true or false");
                SwitchState::Off
            }
        };
        let origin = reporter.origin(member.key_span);
        // Of duplicate keys, the last one counts.
        switches.retain(|it| it.id != id);
        switches.push(PluginSwitch { id, state, authority, origin });
    }
    switches
}

fn read_marketplaces(
    members: &[Member],
    authority: SwitchAuthority,
    reporter: &mut Reporter<'_>,
) -> Vec<OfferedMarketplace> {
    const KEY: &str = SHARED_KEYS[1];
    let mut offered: Vec<OfferedMarketplace> = Vec::new();
    for member in object(members, KEY, reporter) {
        let name = member.key.clone();
        let key = format!("{KEY}.{name}");
        let subject = ProblemSubject { server: None, key: &key };
        if let Err(fault) = check_marketplace_name(&name) {
            let kind = ProblemKind::Plugin(PluginProblem::MarketplaceName(fault));
            reporter.report(member.key_span, subject, kind);
            continue;
        }
        let json = member.node.to_json();
        match MarketplaceSource::parse(json.get("source").unwrap_or(&Json::Null)) {
            Ok(source) => {
                let origin = reporter.origin(member.key_span);
                offered.retain(|it| it.name != name);
                offered.push(OfferedMarketplace { name, source, authority, origin });
            }
            Err(fault) => {
                let kind = ProblemKind::Plugin(PluginProblem::MarketplaceSource(fault));
                reporter.report(member.node.span, subject, kind);
            }
        }
    }
    offered
}

fn read_values(
    members: &[Member],
    reporter: &mut Reporter<'_>,
) -> BTreeMap<PluginId, PluginValues<OptionValues>> {
    const KEY: &str = "pluginConfigs";
    let mut values = BTreeMap::new();
    for member in object(members, KEY, reporter) {
        let Some(id) = read_id(KEY, member, reporter) else { continue };
        let json = member.node.to_json();
        let one = |json: Option<&Json>| {
            OptionValues(json.and_then(Json::as_object).cloned().unwrap_or_default())
        };
        let servers = json.get("mcpServers").and_then(Json::as_object);
        let servers = servers.into_iter().flatten();
        let servers = servers.map(|(name, json)| (name.clone(), one(Some(json)))).collect();
        values.insert(id, PluginValues { options: one(json.get("options")), servers });
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::settings::test_reader::{problem_keys, read as read_settings};

    #[test]
    fn switches_marketplaces_and_values_are_read_and_what_is_invalid_is_reported() {
        let settings = read_settings(
            r#"{"enabledPlugins": {"a@lab": true, "b@lab": false, "../x@lab": true, "c@lab": 1},
                "extraKnownMarketplaces": {"lab": {"source": {"source": "directory", "path": "/m"}}, "..": {}, "bad": {"source": 1}},
                "pluginConfigs": {"a@lab": {"options": {"k": "v"}, "mcpServers": {"s": {"k": 1}}}}}"#,
        );
        assert_eq!(
            problem_keys(&settings),
            [
                "enabledPlugins.../x@lab",
                "enabledPlugins.c@lab",
                "extraKnownMarketplaces...",
                "extraKnownMarketplaces.bad",
            ]
        );
        let plugins = settings.plugins;
        let states: Vec<_> =
            plugins.switches.iter().map(|it| (it.id.to_string(), it.state)).collect();
        let state = |id: &str, state| (id.to_owned(), state);
        assert_eq!(
            states,
            [
                state("a@lab", SwitchState::On),
                state("b@lab", SwitchState::Off),
                state("c@lab", SwitchState::Off)
            ]
        );
        assert_eq!(plugins.marketplaces.len(), 1);
        let id = PluginId::parse("a@lab").expect("an id");
        assert_eq!(
            (plugins.values[&id].options.0["k"].as_str(), plugins.values[&id].servers.len()),
            (Some("v"), 1)
        );
    }

    #[test]
    fn lists_of_marketplaces_are_an_administrators_and_an_unreadable_one_allows_nothing() {
        let text = r#"{"strictKnownMarketplaces": 1, "blockedMarketplaces": [{"source": "github", "repo": "a/b"}, 1]}"#;
        let user = read_settings(text);
        assert_eq!(problem_keys(&user), ["strictKnownMarketplaces", "blockedMarketplaces"]);
        assert!(user.plugins.policy.allowed.is_none() && user.plugins.policy.blocked.is_empty());
        let source = Source::file(Scope::Enterprise, "m");
        let managed = Settings::read(&source, text, Authority::Administrator);
        assert_eq!(problem_keys(&managed), ["strictKnownMarketplaces", "blockedMarketplaces"]);
        let (allowed, _) = managed.plugins.policy.allowed.expect("there is a list");
        assert!(allowed.is_empty());
        assert_eq!(managed.plugins.policy.blocked.len(), 2);
    }

    #[test]
    fn a_project_file_gives_no_values_and_speaks_with_its_own_authority() {
        let text = r#"{"enabledPlugins": {"a@lab": true}, "pluginConfigs": {"a@lab": {"options": {"k": "v"}}}}"#;
        let source = Source::file(Scope::Project, "p");
        let settings = Settings::read_project(&source, text);
        assert_eq!(settings.plugins.switches[0].authority, SwitchAuthority::Project);
        assert!(settings.plugins.values.is_empty());
        assert_eq!(problem_keys(&settings), ["pluginConfigs"]);
    }
}
