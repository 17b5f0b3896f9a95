//! VS Code's `mcp.json` of a profile or a workspace.
//! Its `inputs`, which VS Code prompts for, become variables.

use std::path::Path;

use serde_json::{Map, Value};

use crate::import::editor_variables::{EditorVariables, Input, Workspace, variable_name_for};
use crate::import::entry_builder::{EntryBuilder, ImportedTransport};
use crate::import::host_app::FileScope;
use crate::import::note::ImportNote;
use crate::import::oauth::OauthKey;
use crate::import::outcome::ImportOutcome;
use crate::import::variable_syntax::VariableSyntax;

/// Reads the servers of a file.
pub(crate) fn read(
    mut root: Map<String, Value>,
    scope: FileScope,
    project: &Path,
) -> ImportOutcome {
    let mut found = ImportOutcome::default();
    let inputs = match root.shift_remove("inputs") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(inputs)) => inputs_from(&inputs),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            found.notes.push(ImportNote::KeyNotRead { key: "inputs".to_owned() });
            Vec::new()
        }
    };
    let syntax = VariableSyntax::Editor(EditorVariables {
        workspace: Workspace::for_file(scope, project),
        inputs,
    });
    found.add_servers("servers", root.shift_remove("servers"), scope.into(), |_, server| {
        let mut builder = EntryBuilder::new(server, &syntax)?;
        match builder.transport()? {
            ImportedTransport::Stdio => builder.copy_stdio("env")?,
            ImportedTransport::Remote(transport) => {
                builder.copy_remote(transport, "url")?;
                builder.copy_oauth("oauth", &[("clientId", OauthKey::ClientId)])?;
            }
        }
        Ok(builder.build())
    });
    found.notes.extend(root.into_iter().map(|(key, _)| ImportNote::KeyDropped { key }));
    found
}

/// Assigns each input a variable of its own.
fn inputs_from(inputs: &[Value]) -> Vec<Input> {
    let mut made: Vec<Input> = Vec::new();
    for input in inputs {
        let Some(id) = input.get("id").and_then(Value::as_str) else {
            continue;
        };
        let preferred = variable_name_for(id);
        let mut variable = preferred.clone();
        let mut count = 1;
        while made.iter().any(|other| other.variable == variable) {
            count += 1;
            variable = format!("{preferred}_{count}");
        }
        made.push(Input { id: id.to_owned(), variable, default: default_of(input) });
    }
    made
}

/// The default of an input, unless it is secret or could be read as a reference.
fn default_of(input: &Value) -> Option<String> {
    let is_secret = input.get("password") == Some(&Value::Bool(true));
    let default = input.get("default").and_then(Value::as_str).filter(|_| !is_secret)?;
    (!default.contains(['$', '{', '}'])).then(|| default.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::HostApp;
    use crate::import::tests::outcome;

    #[track_caller]
    fn check(scope: FileScope, text: &str, expected: &str) {
        assert_eq!(outcome(HostApp::VsCode, scope, text), expected);
    }

    #[test]
    fn a_workspace_file_with_inputs_becomes_entries_with_variables() {
        check(
            FileScope::Project,
            r#"{
  "inputs": [
    { "type": "promptString", "id": "api-key", "description": "API key", "password": true, "default": "x" },
    { "type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu" },
    { "type": "promptString", "id": "api_key" },
  ],
  /* servers */
  "servers": {
    "search": {
      "type": "stdio", "command": "npx", "args": ["-y", "search", "--region=${input:region}"],
      "env": { "API_KEY": "${input:api-key}", "OTHER": "${input:api_key}", "RETRIES": 3, "UNSET": null },
      "envFile": "${workspaceFolder}/.env", "cwd": "${workspaceFolder}",
      "dev": { "watch": "src/**" }, "sandboxEnabled": true,
    },
    "remote": {
      "url": "https://${env:HOST}/mcp", "headers": { "X-Key": "${input:api-key}" },
      "oauth": { "clientId": "abc" }, "gallery": true, "version": "1.0.0",
    },
  },
  "sandbox": { "network": {} },
}"#,
            r#"search (Project) {"type":"stdio","command":"npx","args":["-y","search","--region=${REGION:-eu}"],"env":{"API_KEY":"${API_KEY}","OTHER":"${API_KEY_2}","RETRIES":"3"},"cwd":"${PWD:-.}"}
  the input `region` became the variable `REGION`: set it
  the input `api-key` became the variable `API_KEY`: set it
  the input `api_key` became the variable `API_KEY_2`: set it
  `env.RETRIES`: a number became a string
  `env.UNSET` has no counterpart and was left out
  `cwd`: ${workspaceFolder} became ${PWD:-.}
  `envFile` has no counterpart and was left out
  `dev` has no counterpart and was left out
  `sandboxEnabled` has no counterpart and was left out
remote (Project) {"type":"http","url":"https://${HOST}/mcp","headers":{"X-Key":"${API_KEY}"},"oauth":{"clientId":"abc"}}
  `HOST` must be set
  the input `api-key` became the variable `API_KEY`: set it
  `gallery` has no counterpart and was left out
  `version` has no counterpart and was left out
`sandbox` has no counterpart and was left out
"#,
        );
    }

    #[test]
    fn a_users_file_is_read_the_same_way() {
        check(
            FileScope::User,
            r#"{"servers": {"a": {"command": "sh", "args": ["-c", "echo $PATH ${command:pick}"]}, "pipe": {"url": "pipe://./x"}}, "inputs": {}}"#,
            r#"a (User) {"type":"stdio","command":"sh","args":["-c","echo $$PATH $${command:pick}"]}
  `args[1]`: `$` became `$$` to stay a literal dollar sign
  `args[1]`: a reference has no counterpart and is plain text now
`inputs` has an unexpected type and was not read
`pipe` was skipped: the scheme of its URL is not supported
"#,
        );
    }

    #[test]
    fn an_offered_value_is_kept_unless_it_is_secret_or_looks_like_a_reference() {
        check(
            FileScope::User,
            r#"{"inputs": [{"id": "a", "default": "${cmd:x}"}, {"id": "b", "default": 1}, {"no": "id"}],
                "servers": {"s": {"command": "${input:a}${input:b}${input:c}"}}}"#,
            r#"s (User) {"type":"stdio","command":"${A}${B}${C}"}
  the input `a` became the variable `A`: set it
  the input `b` became the variable `B`: set it
  the input `c` became the variable `C`: set it
"#,
        );
    }
}
