//! Windsurf's `mcp_config.json` of a user.

use std::path::Path;

use serde_json::{Map, Value};

use crate::import::editor_variables::{EditorVariables, Workspace};
use crate::import::entry_builder::{EntryBuilder, FlagMeaning};
use crate::import::host_app::FileScope;
use crate::import::note::SkipReason;
use crate::import::outcome::ImportOutcome;
use crate::import::variable_syntax::VariableSyntax;

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
        copy_transport(&mut builder)?;
        builder.copy_tools("enabledTools", "disabledTools")?;
        builder.copy_enabled_flag("disabled", FlagMeaning::Disables)?;
        Ok(builder.build())
    });
    found
}

/// The URL is `serverUrl`, in newer versions also `url`.
fn copy_transport(builder: &mut EntryBuilder<'_>) -> Result<(), SkipReason> {
    if let (true, Some(url)) = (!builder.has("url"), builder.take("serverUrl")) {
        builder.put_back("url", url);
    }
    let written = builder.take_string("type")?;
    match (builder.has("command"), builder.has("url")) {
        (true, true) => Err(SkipReason::CommandAndUrl),
        (true, false) => builder.copy_stdio("env"),
        (false, true) => {
            let transport = match written.as_deref() {
                Some("sse") => "sse",
                Some("http" | "streamable-http" | "streamableHttp") => "http",
                Some(_) => return Err(SkipReason::UnknownType),
                None => builder.assume_transport(),
            };
            builder.copy_remote(transport, "url")
        }
        (false, false) => Err(SkipReason::NoTransport),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::HostApp;
    use crate::import::tests::outcome;

    #[test]
    fn programs_and_urls_are_read_with_their_lists_of_tools() {
        let text = r#"{
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "files"], "env": { "T": "${env:TOKEN}" }, "disabledTools": ["drop"] },
    "web": { "serverUrl": "https://w.example.com/sse", "headers": { "A": "b" }, "alwaysAllow": ["x"] },
    "new": { "url": "https://n.example.com/mcp", "type": "http", "disabled": true },
    "both": { "command": "x", "serverUrl": "https://b" },
    "odd": { "serverUrl": "https://o", "type": "pipe" },
    "none": {}
  }
}"#;
        assert_eq!(
            outcome(HostApp::Windsurf, FileScope::User, text),
            r#"files (User) {"type":"stdio","command":"npx","args":["-y","files"],"env":{"T":"${TOKEN}"},"tools":{"deny":["drop"]}}
  `TOKEN` must be set
web (User) {"type":"sse","url":"https://w.example.com/sse","headers":{"A":"b"}}
  no transport is given: assumed `sse`
  `alwaysAllow` has no counterpart and was left out
new (User) {"type":"http","url":"https://n.example.com/mcp","disabled":true}
`both` was skipped: it has both a command and a URL
`odd` was skipped: its `type` cannot be imported
`none` was skipped: it has neither a command nor a URL
"#,
        );
    }
}
