//! Claude Code's `~/.claude.json` and Claude Desktop's `claude_desktop_config.json`.
//! Claude Code's `.mcp.json` is not read here: it is our own project file too.

use std::path::Path;

use serde_json::{Map, Value};

use crate::import::entry_builder::{
    ConvertedEntry, EntryBuilder, FlagMeaning, ImportedTransport, TimeUnit,
};
use crate::import::note::{ImportNote, SkipReason};
use crate::import::oauth::OauthKey;
use crate::import::outcome::{ImportOutcome, ImportedScope};
use crate::import::variable_syntax::VariableSyntax;

const OAUTH: [(&str, OauthKey); 6] = [
    ("clientId", OauthKey::ClientId),
    ("clientSecret", OauthKey::ClientSecret),
    ("callbackPort", OauthKey::CallbackPort),
    ("authServerMetadataUrl", OauthKey::MetadataUrl),
    ("scopes", OauthKey::Scopes),
    ("xaa", OauthKey::Xaa),
];

/// Reads the servers of a user, and those of the user in this project.
pub(crate) fn read_code(mut root: Map<String, Value>, project: &Path) -> ImportOutcome {
    let mut found = ImportOutcome::default();
    let mut project_settings = Map::new();
    let mut other_project_servers = 0;
    if let Some(Value::Object(projects)) = root.shift_remove("projects") {
        for (folder, settings) in projects {
            let Value::Object(settings) = settings else {
                continue;
            };
            if is_same_folder(&folder, project) {
                project_settings = settings;
            } else {
                let servers = settings.get("mcpServers").and_then(Value::as_object);
                other_project_servers += servers.map_or(0, Map::len);
            }
        }
    }
    let disabled = project_settings.shift_remove("disabledMcpServers");
    let is_disabled = |name: &str| {
        let names = disabled.as_ref().and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|disabled| disabled == name))
    };
    let user = root.shift_remove("mcpServers");
    found.add_servers("mcpServers", user, ImportedScope::User, |name, server| {
        let mut converted = convert_code_server(server)?;
        if is_disabled(name) {
            converted.notes.push(ImportNote::DisabledInProject);
        }
        Ok(converted)
    });
    let local = project_settings.shift_remove("mcpServers");
    found.add_servers("projects.mcpServers", local, ImportedScope::Local, |name, server| {
        let mut converted = convert_code_server(server)?;
        if is_disabled(name) {
            converted.entry.insert("disabled".to_owned(), Value::Bool(true));
        }
        Ok(converted)
    });
    if other_project_servers > 0 {
        found.notes.push(ImportNote::OtherProjects { servers: other_project_servers });
    }
    found
}

/// Claude Code ignores `cwd`, `trust` and `disabled` in a server, so they are dropped.
fn convert_code_server(server: Value) -> Result<ConvertedEntry, SkipReason> {
    let mut builder = EntryBuilder::new(server, &VariableSyntax::Braces)?;
    let is_written = builder.has("type");
    match builder.transport()? {
        ImportedTransport::Stdio => {
            builder.set("type", "stdio");
            builder.copy_string("command")?;
            builder.copy_strings("args")?;
            builder.copy_string_map("env", "env")?;
        }
        ImportedTransport::Remote(transport) => {
            if !is_written {
                builder.note(ImportNote::TransportAssumed { transport });
            }
            builder.copy_remote(transport, "url")?;
            if let Some(command) = builder.take_string("headersHelper")? {
                builder.set("headersHelper", command);
            }
            builder.copy_oauth("oauth", &OAUTH)?;
        }
    }
    builder.copy_timeout("timeout", TimeUnit::Milliseconds)?;
    Ok(builder.build())
}

/// Reads the servers of a user. Claude Desktop expands no variables.
pub(crate) fn read_desktop(mut root: Map<String, Value>) -> ImportOutcome {
    let mut found = ImportOutcome::default();
    let servers = root.shift_remove("mcpServers");
    found.add_servers("mcpServers", servers, ImportedScope::User, |_, server| {
        let mut builder = EntryBuilder::new(server, &VariableSyntax::None)?;
        match builder.transport()? {
            ImportedTransport::Stdio => builder.copy_stdio("env")?,
            ImportedTransport::Remote(transport) => builder.copy_remote(transport, "url")?,
        }
        builder.copy_enabled_flag("disabled", FlagMeaning::Disables)?;
        Ok(builder.build())
    });
    found
}

/// Claude Code writes folders with slashes on every system.
pub(crate) fn is_same_folder(written: &str, project: &Path) -> bool {
    let canonical = |folder: &str| {
        let is_windows = folder.as_bytes().get(1) == Some(&b':');
        let slashes = if is_windows { folder.replace('\\', "/") } else { folder.to_owned() };
        let trimmed = slashes.trim_end_matches('/');
        if is_windows { trimmed.to_lowercase() } else { trimmed.to_owned() }
    };
    project.to_str().is_some_and(|project| canonical(project) == canonical(written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::outcome;
    use crate::import::{FileScope, HostApp};

    #[track_caller]
    fn check(app: HostApp, text: &str, expected: &str) {
        assert_eq!(outcome(app, FileScope::User, text), expected);
    }

    #[test]
    fn servers_of_the_user_and_of_this_project_are_imported() {
        check(
            HostApp::ClaudeCode,
            r#"{
  "numStartups": 12, // the rest of the file is not imported
  "mcpServers": {
    "github": {
      "type": "http", "url": "https://api.example.com/mcp?org=${ORG:-acme}",
      "headers": { "Authorization": "Bearer ${GITHUB_TOKEN}" },
      "headersHelper": "pass show \"$NAME\"",
      "oauth": { "clientId": "abc", "callbackPort": 8080, "scopes": "repo user", "xaa": true },
      "timeout": 60000, "alwaysLoad": true,
    },
    "files": { "type": "stdio", "command": "npx", "args": ["-y", "files", "$HOME"], "env": {} },
    "events": { "type": "streamable-http", "url": "https://e.example.com" },
  },
  "projects": {
    "/w/app": {
      "allowedTools": [],
      "mcpServers": {
        "db": { "command": "pg-mcp", "env": { "URL": "${DB_URL}" } },
        "old": { "type": "sse", "url": "https://old.example.com/sse" },
      },
      "disabledMcpServers": ["old", "files"],
    },
    "/w/other": { "mcpServers": { "x": { "command": "x" } } },
  },
}"#,
            r#"github (User) {"type":"http","url":"https://api.example.com/mcp?org=${ORG:-acme}","headers":{"Authorization":"Bearer ${GITHUB_TOKEN}"},"headersHelper":"pass show \"$NAME\"","oauth":{"clientId":"abc","callbackPort":8080,"scopes":"repo user","xaa":true},"timeout":60000}
  `GITHUB_TOKEN` must be set
  `alwaysLoad` has no counterpart and was left out
files (User) {"type":"stdio","command":"npx","args":["-y","files","$$HOME"],"env":{}}
  `args[2]`: `$` became `$$` to stay a literal dollar sign
  disabled in this project, but not elsewhere
events (User) {"type":"http","url":"https://e.example.com"}
db (Local) {"type":"stdio","command":"pg-mcp","env":{"URL":"${DB_URL}"}}
  `DB_URL` must be set
old (Local) {"type":"sse","url":"https://old.example.com/sse","disabled":true}
1 server of another project
"#,
        );
    }

    #[test]
    fn keys_that_claude_code_ignores_are_dropped() {
        check(
            HostApp::ClaudeCode,
            r#"{"mcpServers": {"a": {"command": "x", "cwd": "/", "trust": true, "disabled": true, "url": null}}}"#,
            r#"a (User) {"type":"stdio","command":"x"}
  `cwd` has no counterpart and was left out
  `trust` has no counterpart and was left out
  `disabled` has no counterpart and was left out
"#,
        );
    }

    #[test]
    fn one_bad_server_never_drops_the_others() {
        check(
            HostApp::ClaudeCode,
            r#"{"mcpServers": {
  "text": "npx x", "empty": {}, "ide": {"type": "sse-ide", "url": "http://x"},
  "args": {"command": "x", "args": "--flag"}, "env": {"command": "x", "env": {"A": {}}},
  "port": {"type": "http", "url": "https://x", "oauth": {"callbackPort": 70000}},
  "time": {"command": "x", "timeout": -1}, "nowhere": {"type": "http"},
  "socket": {"type": "http", "url": "unix:///run/x.sock"},
  "untyped": {"url": "https://x"}, "good": {"command": "x"}
}}"#,
            r#"untyped (User) {"type":"http","url":"https://x"}
  no transport is given: assumed `http`
good (User) {"type":"stdio","command":"x"}
`text` was skipped: it is not an object
`empty` was skipped: it has neither a command nor a URL
`ide` was skipped: its `type` cannot be imported
`args` was skipped: `args` should be an array of strings
`env` was skipped: `env.A` should be a string
`port` was skipped: `oauth.callbackPort` should be a port
`time` was skipped: `timeout` should be a duration
`nowhere` was skipped: it has neither a command nor a URL
`socket` was skipped: the scheme of its URL is not supported
"#,
        );
        check(
            HostApp::ClaudeCode,
            r#"{"mcpServers": []}"#,
            "`mcpServers` has an unexpected type and was not read\n",
        );
        check(HostApp::ClaudeCode, "{}", "");
    }

    #[test]
    fn claude_desktop_expands_nothing() {
        check(
            HostApp::ClaudeDesktop,
            r#"{
  "globalShortcut": "",
  "mcpServers": {
    "My Files": { "command": "npx", "args": ["-y", "files", "C:\\Users\\ada"], "env": { "A": "${B}", "N": 1 } },
    "off": { "command": "x", "disabled": true, "autoApprove": [] },
  },
}"#,
            r#"My Files (User) {"type":"stdio","command":"npx","args":["-y","files","C:\\Users\\ada"],"env":{"A":"$${B}","N":"1"}}
  `env.A`: `$` became `$$` to stay a literal dollar sign
  `env.N`: a number became a string
off (User) {"type":"stdio","command":"x","disabled":true}
  `autoApprove` has no counterpart and was left out
"#,
        );
    }

    #[test]
    fn a_project_is_the_same_however_its_folder_is_written() {
        for (written, project, expected) in [
            ("/w/app/", "/w/app", true),
            ("/w/App", "/w/app", false),
            ("/w/app2", "/w/app", false),
            ("C:/people/ada", "c:\\people\\ada\\", true),
            ("/a\\b", "/a/b", false),
        ] {
            assert_eq!(
                is_same_folder(written, Path::new(project)),
                expected,
                "{written} {project}"
            );
        }
    }
}
