//! The capabilities and instructions that the gateway declares: those of its servers, combined.

use serde_json::{Map, Value as Json, json};
use switchboard_wire::protocol::era::Era;

use crate::exposed::server::ExposedServer;

/// Are there tools to list or call?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolPresence {
    Present,
    Absent,
}

/// Combines the capabilities of all servers.
pub(crate) fn aggregate(
    servers: &[ExposedServer],
    tools: ToolPresence,
    era: Era,
) -> Map<String, Json> {
    let mut declared = Map::new();
    let any = |name: &str| servers.iter().any(|it| it.has_capability(name));
    if any("tools") || tools == ToolPresence::Present {
        declared.insert("tools".to_owned(), json!({"listChanged": true}));
    }
    if any("resources") {
        let can_subscribe = servers.iter().any(|it| {
            let resources = it.capabilities.get("resources");
            resources.is_some_and(|it| it["subscribe"] == true)
        });
        let mut settings = json!({"listChanged": true});
        if can_subscribe {
            settings["subscribe"] = true.into();
        }
        declared.insert("resources".to_owned(), settings);
    }
    if any("prompts") {
        declared.insert("prompts".to_owned(), json!({"listChanged": true}));
    }
    for name in ["completions", "logging"] {
        if any(name) {
            declared.insert(name.to_owned(), json!({}));
        }
    }
    for name in ["extensions", "experimental"] {
        let all = combined(servers, name);
        if !all.is_empty() {
            declared.insert(name.to_owned(), Json::Object(all));
        }
    }
    // Tasks are a capability in the legacy era, and an extension in the modern one.
    if era == Era::Legacy
        && let Some(tasks) = servers.iter().find_map(|it| it.capabilities.get("tasks"))
    {
        declared.insert("tasks".to_owned(), tasks.clone());
    }
    declared
}

/// The members of an object that several servers declare. The first server wins.
fn combined(servers: &[ExposedServer], name: &str) -> Map<String, Json> {
    let mut all = Map::new();
    for server in servers {
        let members = server.capabilities.get(name).and_then(Json::as_object);
        for (member, settings) in members.into_iter().flatten() {
            all.entry(member.clone()).or_insert_with(|| settings.clone());
        }
    }
    all
}

/// The instructions of the visible servers, each under the server's name if there are several.
pub(crate) fn instructions(
    servers: &[ExposedServer],
    is_visible: impl Fn(&str) -> bool,
) -> Option<String> {
    let visible: Vec<&ExposedServer> = servers.iter().filter(|it| is_visible(&it.server)).collect();
    if let [only] = visible.as_slice() {
        return only.instructions.clone();
    }
    let section =
        |it: &&ExposedServer| Some(format!("# {}\n{}", it.server, it.instructions.as_ref()?));
    let sections: Vec<String> = visible.iter().filter_map(section).collect();
    (!sections.is_empty()).then(|| sections.join("\n\n"))
}
