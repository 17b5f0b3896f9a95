//! goose's `config.yaml` of a user: the servers under `extensions`, next to extensions that are part of goose.

use serde_json::{Map, Value};

use crate::import::entry_builder::{ConvertedEntry, EntryBuilder, FlagMeaning, TimeUnit};
use crate::import::host_app::FileScope;
use crate::import::note::SkipReason;
use crate::import::outcome::ImportOutcome;
use crate::import::variable_syntax::VariableSyntax;

/// Reads the servers of a file.
pub(crate) fn read(mut root: Map<String, Value>, scope: FileScope) -> ImportOutcome {
    let mut found = ImportOutcome::default();
    let servers = root.shift_remove("extensions");
    found.add_servers("extensions", servers, scope.into(), |_, server| convert_server(server));
    found
}

fn convert_server(server: Value) -> Result<ConvertedEntry, SkipReason> {
    // goose expands variables in headers only.
    let syntax = match server.get("type").and_then(Value::as_str) {
        Some("streamable_http" | "sse") => VariableSyntax::Braces,
        Some(_) | None => VariableSyntax::None,
    };
    let mut builder = EntryBuilder::new(server, &syntax)?;
    match builder.take_string("type")?.as_deref() {
        Some("stdio") => {
            let command = builder.take("cmd").ok_or(SkipReason::NoTransport)?;
            builder.put_back("command", command);
            builder.copy_stdio("envs")?;
        }
        Some("streamable_http") => builder.copy_remote("http", "uri")?,
        Some("sse") => builder.copy_remote("sse", "uri")?,
        Some("builtin" | "platform" | "frontend" | "inline_python") => {
            return Err(SkipReason::PartOfProgram);
        }
        Some(_) => return Err(SkipReason::UnknownType),
        None => return Err(SkipReason::NoTransport),
    }
    if !builder.take_strings("env_keys")?.unwrap_or_default().is_empty() {
        return Err(SkipReason::SecretsElsewhere { key: "env_keys" });
    }
    drop_empty(&mut builder, "envs");
    drop_empty(&mut builder, "available_tools");
    builder.copy_tools("available_tools", "denied_tools")?;
    builder.copy_timeout("timeout", TimeUnit::Seconds)?;
    builder.copy_enabled_flag("enabled", FlagMeaning::Enables)?;
    // The name is the key again; `bundled` says whether goose brought the entry.
    builder.take("name");
    builder.take("bundled");
    builder.take("display_name");
    if let Some(text) = builder.take_string("description")?.filter(|text| !text.is_empty()) {
        builder.set("description", text);
    }
    Ok(builder.build())
}

/// goose writes empty lists and objects for keys without a value.
fn drop_empty(builder: &mut EntryBuilder<'_>, key: &str) {
    let is_empty = match builder.get(key) {
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(members)) => members.is_empty(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => false,
    };
    if is_empty {
        builder.take(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::HostApp;
    use crate::import::tests::outcome;

    #[test]
    fn programs_and_urls_are_read_and_parts_of_goose_are_not() {
        let text = "\
GOOSE_PROVIDER: anthropic  # not ours
extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
    timeout: 300
    bundled: true
  files:
    enabled: false
    type: stdio
    name: files
    description: Files of $5
    cmd: npx
    args: [-y, \"files\", $HOME]
    envs:
      MODE: fast
      LEVEL: 3
    env_keys: []
    timeout: 300
    bundled: null
    available_tools: []
  web:
    enabled: true
    type: streamable_http
    name: web
    uri: https://w.example.com/mcp
    envs: {}
    env_keys: []
    headers:
      Authorization: Bearer ${TOKEN}
    available_tools:
    - read
  keyed:
    type: stdio
    cmd: x
    env_keys:
    - API_KEY
  odd: text
";
        assert_eq!(
            outcome(HostApp::Goose, FileScope::User, text),
            r#"files (User) {"type":"stdio","command":"npx","args":["-y","files","$$HOME"],"env":{"MODE":"fast","LEVEL":"3"},"timeout":300000,"disabled":true,"description":"Files of $5"}
  `args[2]`: `$` became `$$` to stay a literal dollar sign
  `envs.LEVEL`: a number became a string
web (User) {"type":"http","url":"https://w.example.com/mcp","headers":{"Authorization":"Bearer ${TOKEN}"},"tools":{"allow":["read"]}}
  `TOKEN` must be set
`developer` was skipped: it is a part of the program itself
`keyed` was skipped: only the program can read the values of its `env_keys`
`odd` was skipped: it is not an object
"#,
        );
    }
}
