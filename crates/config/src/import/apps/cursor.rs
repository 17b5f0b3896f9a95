//! Cursor's `mcp.json` of a user or a project.

use std::path::Path;

use serde_json::{Map, Value};

use crate::import::editor_variables::{EditorVariables, Workspace};
use crate::import::entry_builder::{EntryBuilder, FlagMeaning, ImportedTransport};
use crate::import::host_app::FileScope;
use crate::import::oauth::OauthKey;
use crate::import::outcome::ImportOutcome;
use crate::import::variable_syntax::VariableSyntax;

const OAUTH: [(&str, OauthKey); 3] = [
    ("CLIENT_ID", OauthKey::ClientId),
    ("CLIENT_SECRET", OauthKey::ClientSecret),
    ("scopes", OauthKey::Scopes),
];

/// Reads the servers of a file.
pub(crate) fn read(
    mut root: Map<String, Value>,
    scope: FileScope,
    project: &Path,
) -> ImportOutcome {
    let workspace = Workspace::for_file(scope, project);
    let syntax = VariableSyntax::Editor(EditorVariables { workspace, inputs: Vec::new() });
    let mut found = ImportOutcome::default();
    found.add_servers("mcpServers", root.shift_remove("mcpServers"), scope.into(), |_, server| {
        let mut builder = EntryBuilder::new(server, &syntax)?;
        match builder.transport()? {
            ImportedTransport::Stdio => builder.copy_stdio("env")?,
            ImportedTransport::Remote(transport) => {
                builder.copy_remote(transport, "url")?;
                builder.copy_oauth("auth", &OAUTH)?;
            }
        }
        builder.copy_enabled_flag("disabled", FlagMeaning::Disables)?;
        Ok(builder.build())
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::HostApp;
    use crate::import::tests::outcome;

    #[track_caller]
    fn check(scope: FileScope, text: &str, expected: &str) {
        assert_eq!(outcome(HostApp::Cursor, scope, text), expected);
    }

    #[test]
    fn in_a_users_file_the_workspace_is_the_current_folder() {
        check(
            FileScope::User,
            r#"{
  // shared between projects
  "mcpServers": {
    "notes": {
      "type": "stdio", "command": "python", "args": ["${workspaceFolder}/tools/server.py"],
      "env": { "API_KEY": "${env:API_KEY}", "PRICE": "5$", "DATA": "${userHome}/notes" },
      "envFile": ".env",
    },
    "tickets": {
      "url": "https://tickets.example.com/mcp",
      "headers": { "Authorization": "Bearer ${env:TICKETS}" },
      "auth": { "CLIENT_ID": "id", "CLIENT_SECRET": "${env:SECRET}", "scopes": ["read", "write"] },
    },
    "legacy": { "url": "http://localhost:8000/sse?x=1" },
  },
}"#,
            r#"notes (User) {"type":"stdio","command":"python","args":["${PWD:-.}/tools/server.py"],"env":{"API_KEY":"${API_KEY}","PRICE":"5$$","DATA":"${HOME:-${USERPROFILE}}/notes"}}
  `args[0]`: ${workspaceFolder} became ${PWD:-.}
  `API_KEY` must be set
  `env.PRICE`: `$` became `$$` to stay a literal dollar sign
  `env.DATA`: ${userHome} became ${HOME:-${USERPROFILE}}
  `envFile` has no counterpart and was left out
tickets (User) {"type":"http","url":"https://tickets.example.com/mcp","headers":{"Authorization":"Bearer ${TICKETS}"},"oauth":{"clientId":"id","clientSecret":"${SECRET}","scopes":"read write"}}
  `TICKETS` must be set
  `SECRET` must be set
legacy (User) {"type":"sse","url":"http://localhost:8000/sse?x=1"}
  no transport is given: assumed `sse`
"#,
        );
    }

    #[test]
    fn in_a_projects_file_the_workspace_is_the_project() {
        check(
            FileScope::Project,
            r#"{"mcpServers": {"a": {"command": "${workspaceFolder}/x", "args": ["${input:key} ${TOKEN}"], "disabled": true}}}"#,
            r#"a (Project) {"type":"stdio","command":"${PWD:-.}/x","args":["${KEY} $${TOKEN}"],"disabled":true}
  `command`: ${workspaceFolder} became ${PWD:-.}
  the input `key` became the variable `KEY`: set it
  `args[0]`: a reference has no counterpart and is plain text now
"#,
        );
    }
}
