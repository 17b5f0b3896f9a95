//! The capabilities and instructions that the gateway declares: those of its servers, combined.

use serde_json::{Map, Value as Json, json};
use switchboard_wire::protocol::era::Era;

use crate::exposed::server::ExposedServer;

/// Are there servers whose capabilities are not known yet?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoreServers {
    Connecting,
    None,
}

/// Combines the capabilities of all servers. A client asks once and servers come and go, so lists are always declared
/// as lists that change, and the rest also while a server is connecting.
pub(crate) fn aggregate(
    servers: &[ExposedServer],
    more: MoreServers,
    era: Era,
) -> Map<String, Json> {
    let mut declared = Map::new();
    let any = |name: &str| servers.iter().any(|it| it.has_capability(name));
    let can_subscribe = servers.iter().any(|it| {
        let resources = it.capabilities.get("resources");
        resources.is_some_and(|it| it["subscribe"] == true)
    });
    for name in ["tools", "resources", "prompts"] {
        declared.insert(name.to_owned(), json!({"listChanged": true}));
    }
    if can_subscribe || more == MoreServers::Connecting {
        declared["resources"]["subscribe"] = true.into();
    }
    for name in ["completions", "logging"] {
        if any(name) || more == MoreServers::Connecting {
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

/// The most characters of all instructions together. Clients cut longer ones, at places of their own.
const MAX_INSTRUCTION_CHARS: usize = 3900;
/// Marks instructions that were cut.
const TRUNCATED: &str = "… [truncated]";

/// The instructions of the visible servers, each under the server's name if there are several. All together are bounded,
/// and each server gets a fair share.
pub(crate) fn instructions(
    servers: &[ExposedServer],
    is_visible: impl Fn(&str) -> bool,
) -> Option<String> {
    let visible: Vec<&ExposedServer> = servers.iter().filter(|it| is_visible(&it.server)).collect();
    let mut sections: Vec<String> = match visible.as_slice() {
        [only] => only.instructions.iter().cloned().collect(),
        several => several
            .iter()
            .filter_map(|it| Some(format!("# {}\n{}", it.server, it.instructions.as_ref()?)))
            .collect(),
    };
    const SEPARATOR: &str = "\n\n";
    let lengths: Vec<usize> = sections.iter().map(|it| it.chars().count()).collect();
    let separators = SEPARATOR.len() * sections.len();
    let share = fair_share(&lengths, MAX_INSTRUCTION_CHARS.saturating_sub(separators));
    for (section, length) in sections.iter_mut().zip(&lengths) {
        if *length > share {
            truncate(section, share);
        }
    }
    // So many servers that not even their names fit.
    sections.retain(|it| !it.is_empty());
    (!sections.is_empty()).then(|| sections.join(SEPARATOR))
}

/// The largest share for each text so that all together have at most `budget` characters. Shorter texts leave the rest of
/// their share to the others.
fn fair_share(lengths: &[usize], budget: usize) -> usize {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let mut rest = budget;
    for (index, length) in sorted.iter().enumerate() {
        let share = rest / (sorted.len() - index);
        if *length > share {
            return share;
        }
        rest -= length;
    }
    budget
}

/// Cuts a text to a number of characters, with a mark at its end. Empty if the mark alone is longer.
fn truncate(text: &mut String, max_chars: usize) {
    let kept = max_chars.saturating_sub(TRUNCATED.chars().count());
    let end = text.char_indices().nth(kept).map_or(text.len(), |it| it.0);
    text.truncate(end);
    match kept {
        0 => text.clear(),
        _ => text.push_str(TRUNCATED),
    }
}

#[cfg(test)]
mod tests {
    use switchboard::connection::ClientIsolation;
    use switchboard_config::entry::server::TransportKind;

    use super::*;

    fn server(name: &str, instructions: &str) -> ExposedServer {
        ExposedServer {
            server: name.into(),
            prefix: name.to_owned(),
            era: Era::Legacy,
            transport: TransportKind::Stdio,
            is_local_process: true,
            isolation: ClientIsolation::Shareable,
            capabilities: Map::new(),
            instructions: Some(instructions.to_owned()),
        }
    }

    fn joined(servers: &[ExposedServer]) -> String {
        instructions(servers, |_| true).expect("instructions")
    }

    #[test]
    fn short_instructions_stay_and_long_ones_share_the_rest() {
        let servers = [
            server("short", "Ask first."),
            server("long", &"ä".repeat(9000)),
            server("longer", &"ö".repeat(90_000)),
        ];
        let text = joined(&servers);
        assert!(text.chars().count() < 4000, "{}", text.chars().count());
        assert!(text.starts_with("# short\nAsk first.\n\n# long\nää"), "{text}");
        assert_eq!(text.matches(TRUNCATED).count(), 2);
        let counts = ['ä', 'ö'].map(|letter| text.chars().filter(|it| *it == letter).count());
        assert!(counts[0].abs_diff(counts[1]) < 10 && counts[0] > 1800, "{counts:?}");
        assert_eq!(joined(&servers[..1]), "Ask first.");
        assert!(joined(&servers[1..2]).ends_with(TRUNCATED));
    }

    #[test]
    fn the_instructions_of_very_many_servers_are_bounded() {
        let servers: Vec<_> =
            (0..5000).map(|it| server(&format!("server-{it}"), &"x".repeat(100))).collect();
        let chars = instructions(&servers, |_| true).map_or(0, |it| it.chars().count());
        assert!(chars < 4000, "{chars}");
    }
}
