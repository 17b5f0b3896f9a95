//! Zed's `settings.json` of a user or a project: the servers under `context_servers`.

use serde_json::{Map, Value};

use crate::import::entry_builder::{ConvertedEntry, EntryBuilder, FlagMeaning, TimeUnit};
use crate::import::host_app::FileScope;
use crate::import::note::SkipReason;
use crate::import::outcome::ImportOutcome;
use crate::import::variable_syntax::VariableSyntax;

/// Reads the servers of a file. Zed expands no variables.
pub(crate) fn read(mut root: Map<String, Value>, scope: FileScope) -> ImportOutcome {
    let mut found = ImportOutcome::default();
    let servers = root.shift_remove("context_servers");
    found.add_servers("context_servers", servers, scope.into(), |_, server| convert_server(server));
    found
}

fn convert_server(server: Value) -> Result<ConvertedEntry, SkipReason> {
    let mut builder = EntryBuilder::new(unfold_command(server), &VariableSyntax::None)?;
    let source = builder.take_string("source")?;
    match (builder.has("command"), builder.has("url")) {
        (true, true) => return Err(SkipReason::CommandAndUrl),
        (true, false) => builder.copy_stdio("env")?,
        (false, true) => {
            let transport = builder.assume_transport();
            builder.copy_remote(transport, "url")?;
        }
        // An extension of Zed knows the command; the file holds only its settings.
        (false, false) if source.as_deref() == Some("extension") || builder.has("settings") => {
            return Err(SkipReason::ProvidedByExtension);
        }
        (false, false) => return Err(SkipReason::NoTransport),
    }
    if builder.get("settings").and_then(Value::as_object).is_some_and(Map::is_empty) {
        builder.take("settings");
    }
    builder.copy_timeout("timeout", TimeUnit::Milliseconds)?;
    builder.copy_enabled_flag("enabled", FlagMeaning::Enables)?;
    Ok(builder.build())
}

/// Older versions write the command as `{"path": …, "args": …, "env": …}`.
fn unfold_command(server: Value) -> Value {
    let Value::Object(mut server) = server else { return server };
    let Some(Value::Object(command)) = server.get("command").cloned() else {
        return Value::Object(server);
    };
    for (key, value) in command {
        let key = if key == "path" { "command".to_owned() } else { key };
        server.insert(key, value);
    }
    Value::Object(server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::HostApp;
    use crate::import::tests::outcome;

    #[test]
    fn servers_with_a_command_or_a_url_are_read_and_those_of_extensions_are_not() {
        let text = r#"{
  "theme": "One Dark", // not ours
  "context_servers": {
    "files": { "source": "custom", "enabled": true, "command": "npx", "args": ["$HOME"], "env": {} },
    "old": { "command": { "path": "old-server", "args": ["-v"], "env": { "A": "b" } }, "settings": {} },
    "web": { "url": "https://w.example.com/mcp", "headers": { "A": "b" }, "enabled": false },
    "ext": { "source": "extension", "enabled": true, "settings": { "key": "x" } },
    "ext-old": { "settings": {} },
    "empty": {},
  },
}"#;
        assert_eq!(
            outcome(HostApp::Zed, FileScope::User, text),
            r#"files (User) {"type":"stdio","command":"npx","args":["$$HOME"],"env":{}}
  `args[0]`: `$` became `$$` to stay a literal dollar sign
old (User) {"type":"stdio","command":"old-server","args":["-v"],"env":{"A":"b"}}
web (User) {"type":"http","url":"https://w.example.com/mcp","headers":{"A":"b"},"disabled":true}
`ext` was skipped: an extension of the program provides it
`ext-old` was skipped: an extension of the program provides it
`empty` was skipped: it has neither a command nor a URL
"#,
        );
    }
}
