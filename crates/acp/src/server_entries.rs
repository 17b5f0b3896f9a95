//! The editor's MCP servers as entries of a configuration. Values are literal: no variable or secret in them is
//! expanded.

use agent_client_protocol_schema::v1::{HttpHeader, McpServer};
use serde_json::{Map, Value as Json, json};
use switchboard::pool::naming::sanitise;

/// The most servers of one session.
const MAX_SERVERS: usize = 100;

/// Why the editor's servers cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServerEntriesError {
    /// Two have the same name.
    #[error("two servers are named `{0}`; rename one of them in the editor's settings")]
    Duplicate(String),
    /// There are too many.
    #[error("there are more than {MAX_SERVERS} servers")]
    TooMany,
    /// The kind of server is unknown.
    #[error("a server has a transport other than stdio, http and sse")]
    UnknownTransport,
}

/// The entries of the servers, by name. A character that names cannot contain becomes `_`.
pub(crate) fn server_entries(
    servers: &[McpServer],
) -> Result<Map<String, Json>, ServerEntriesError> {
    if servers.len() > MAX_SERVERS {
        return Err(ServerEntriesError::TooMany);
    }
    let mut entries = Map::new();
    for server in servers {
        let (name, entry) = match server {
            McpServer::Stdio(it) => {
                let args: Vec<String> = it.args.iter().map(|it| literal(it)).collect();
                let env = it.env.iter().map(|it| (it.name.clone(), literal(&it.value).into()));
                let command = literal(&it.command.to_string_lossy());
                let entry = json!({
                    "type": "stdio",
                    "command": command,
                    "args": args,
                    "env": env.collect::<Map<String, Json>>(),
                });
                (&it.name, entry)
            }
            McpServer::Http(it) => (&it.name, remote("http", &it.url, &it.headers)),
            McpServer::Sse(it) => (&it.name, remote("sse", &it.url, &it.headers)),
            _ => return Err(ServerEntriesError::UnknownTransport),
        };
        let name = sanitise(name);
        if entries.insert(name.clone(), entry).is_some() {
            return Err(ServerEntriesError::Duplicate(name));
        }
    }
    Ok(entries)
}

fn remote(kind: &str, url: &str, headers: &[HttpHeader]) -> Json {
    let headers = headers.iter().map(|it| (it.name.clone(), literal(&it.value).into()));
    json!({"type": kind, "url": literal(url), "headers": headers.collect::<Map<String, Json>>()})
}

/// A text in which nothing is expanded.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(servers: Json) -> Result<Json, ServerEntriesError> {
        let servers: Vec<McpServer> = serde_json::from_value(servers).expect("servers");
        server_entries(&servers).map(Json::Object)
    }

    #[test]
    fn every_transport_becomes_an_entry_whose_values_are_literal() {
        let servers = json!([
            {"name": "my files", "command": "/bin/files", "args": ["$HOME", "a$$b"], "env": [{"name": "KEY", "value": "${SECRET}"}]},
            {"type": "http", "name": "h", "url": "https://example.com/mcp", "headers": [{"name": "X", "value": "a$b"}]},
            {"type": "sse", "name": "s", "url": "https://example.com/sse", "headers": []},
        ]);
        let expected = json!({
            "my_files": {"type": "stdio", "command": "/bin/files", "args": ["$$HOME", "a$$$$b"], "env": {"KEY": "$${SECRET}"}},
            "h": {"type": "http", "url": "https://example.com/mcp", "headers": {"X": "a$$b"}},
            "s": {"type": "sse", "url": "https://example.com/sse", "headers": {}},
        });
        assert_eq!(entries(servers), Ok(expected));
    }

    #[test]
    fn two_servers_of_one_name_are_refused() {
        let server = |name: &str| json!({"name": name, "command": "/bin/a", "args": [], "env": []});
        let servers = json!([server("a b"), server("a_b")]);
        assert_eq!(entries(servers), Err(ServerEntriesError::Duplicate("a_b".to_owned())));
        let many: Vec<Json> = (0..=MAX_SERVERS).map(|at| server(&at.to_string())).collect();
        assert_eq!(entries(many.into()), Err(ServerEntriesError::TooMany));
    }
}
