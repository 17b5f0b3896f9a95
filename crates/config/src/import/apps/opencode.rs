//! opencode's `opencode.json` of a user or a project, in its first and its second version.

use serde_json::{Map, Value};

use crate::import::entry_builder::{
    ConvertedEntry, EntryBuilder, FlagMeaning, TimeUnit, to_millis, wrong_type,
};
use crate::import::host_app::HostAppFile;
use crate::import::note::{ExpectedType, ImportNote, SkipReason};
use crate::import::oauth::OauthKey;
use crate::import::outcome::ImportOutcome;
use crate::import::variable_syntax::VariableSyntax;

/// The second version uses underscores.
const OAUTH: [(&str, OauthKey); 6] = [
    ("clientId", OauthKey::ClientId),
    ("clientSecret", OauthKey::ClientSecret),
    ("scope", OauthKey::Scopes),
    ("client_id", OauthKey::ClientId),
    ("client_secret", OauthKey::ClientSecret),
    ("callback_port", OauthKey::CallbackPort),
];

/// Reads the servers of a file.
pub(crate) fn read(mut root: Map<String, Value>, file: &HostAppFile) -> ImportOutcome {
    let mut found = ImportOutcome::default();
    let folder = file.path.parent().unwrap_or(&file.path).to_owned();
    let syntax = VariableSyntax::Substitution { folder };
    let (section, servers) = servers_of(root.shift_remove("mcp"), &mut found.notes);
    found.add_servers(section, servers, file.scope.into(), |_, server| {
        convert_server(server, &syntax)
    });
    found
}

/// The first version has the servers directly under `mcp`, the second under `mcp.servers`, next to common
/// settings.
fn servers_of(mcp: Option<Value>, notes: &mut Vec<ImportNote>) -> (&'static str, Option<Value>) {
    let is_second = mcp
        .as_ref()
        .and_then(|mcp| mcp.get("servers"))
        .is_some_and(|servers| servers.get("type").is_none_or(Value::is_object));
    match mcp {
        Some(Value::Object(mut mcp)) if is_second => {
            let servers = mcp.shift_remove("servers");
            notes.extend(
                mcp.into_iter()
                    .map(|(key, _)| ImportNote::KeyDropped { key: format!("mcp.{key}") }),
            );
            ("mcp.servers", servers)
        }
        mcp => ("mcp", mcp),
    }
}

fn convert_server(server: Value, syntax: &VariableSyntax) -> Result<ConvertedEntry, SkipReason> {
    let mut builder = EntryBuilder::new(server, syntax)?;
    match builder.take_string("type")?.as_deref() {
        Some("local") => copy_stdio(&mut builder)?,
        Some("remote") => copy_remote(&mut builder)?,
        Some(_) => return Err(SkipReason::UnknownType),
        None if builder.has("command") => copy_stdio(&mut builder)?,
        None if builder.has("url") => copy_remote(&mut builder)?,
        // Such an entry only enables or disables a server of an organization.
        None => return Err(SkipReason::NoTransport),
    }
    copy_timeout(&mut builder)?;
    builder.copy_enabled_flag("enabled", FlagMeaning::Enables)?;
    builder.copy_enabled_flag("disabled", FlagMeaning::Disables)?;
    Ok(builder.build())
}

/// The command and its arguments are one array.
fn copy_stdio(builder: &mut EntryBuilder<'_>) -> Result<(), SkipReason> {
    let words = builder.take_strings("command")?.unwrap_or_default();
    let words = builder.translate_each("command", &words);
    let Some((command, arguments)) = words.split_first() else {
        return Err(SkipReason::NoTransport);
    };
    builder.set("type", "stdio");
    builder.set("command", command.as_str());
    builder.set("args", arguments);
    builder.copy_string_map("environment", "env")?;
    builder.copy_string("cwd")
}

fn copy_remote(builder: &mut EntryBuilder<'_>) -> Result<(), SkipReason> {
    let transport = builder.assume_transport();
    builder.copy_remote(transport, "url")?;
    if builder.get("oauth") == Some(&Value::Bool(false)) {
        // This disables OAuth discovery, for which we have no setting.
        builder.take("oauth");
        builder.note(ImportNote::KeyDropped { key: "oauth".to_owned() });
    }
    builder.copy_oauth("oauth", &OAUTH)
}

/// The second version has separate timeouts for the start and for requests.
fn copy_timeout(builder: &mut EntryBuilder<'_>) -> Result<(), SkipReason> {
    match builder.take("timeout") {
        None => {}
        Some(Value::Object(times)) => {
            for (name, time) in times {
                let key = format!("timeout.{name}");
                let target = match name.as_str() {
                    "request" => "timeout",
                    "startup" => "connectTimeout",
                    _ => {
                        builder.note(ImportNote::KeyDropped { key });
                        continue;
                    }
                };
                builder.set(target, to_millis(&key, &time, TimeUnit::Milliseconds)?);
            }
        }
        Some(time @ Value::Number(_)) => {
            builder.set("timeout", to_millis("timeout", &time, TimeUnit::Milliseconds)?);
        }
        Some(Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_)) => {
            return Err(wrong_type("timeout", ExpectedType::Duration));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::import::tests::outcome;
    use crate::import::{FileScope, HostApp};

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(outcome(HostApp::Opencode, FileScope::User, text), expected);
    }

    #[test]
    fn the_first_version_is_read() {
        check(
            r#"{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    // a process
    "local": {
      "type": "local", "command": ["bun", "x", "server", "$HOME"], "enabled": false, "timeout": 5000,
      "environment": { "KEY": "{env:API_KEY}", "CERT": "{file:./cert.pem}", "JSON": "{\"a\": 1}" },
    },
    "remote": {
      "type": "remote", "url": "https://{env:HOST}/mcp", "enabled": true,
      "headers": { "Authorization": "Bearer {file:~/.token}" },
      "oauth": { "clientId": "{env:ID}", "clientSecret": "{env:SECRET}", "scope": "a b", "redirectUri": "http://x" },
    },
    "open": { "type": "remote", "url": "https://o.example.com/sse", "oauth": false },
    "override": { "enabled": true },
    "empty": { "type": "local", "command": [] },
    "strange": { "type": "stdio", "command": ["x"] },
    "shell": { "type": "local", "command": "npx x" },
  },
}"#,
            r#"local (User) {"type":"stdio","command":"bun","args":["x","server","$$HOME"],"env":{"KEY":"${API_KEY}","CERT":"${file:/h/ada/.xdg/opencode/cert.pem}","JSON":"{\"a\": 1}"},"timeout":5000,"disabled":true}
  `command[3]`: `$` became `$$` to stay a literal dollar sign
  `API_KEY` must be set
  `environment.CERT` is read from `/h/ada/.xdg/opencode/cert.pem`
remote (User) {"type":"http","url":"https://${HOST}/mcp","headers":{"Authorization":"Bearer ${file:~/.token}"},"oauth":{"clientId":"${ID}","clientSecret":"${SECRET}","scopes":"a b"}}
  `HOST` must be set
  `headers.Authorization` is read from `~/.token`
  `ID` must be set
  `SECRET` must be set
  `oauth.redirectUri` has no counterpart and was left out
open (User) {"type":"sse","url":"https://o.example.com/sse"}
  no transport is given: assumed `sse`
  `oauth` has no counterpart and was left out
`override` was skipped: it has neither a command nor a URL
`empty` was skipped: it has neither a command nor a URL
`strange` was skipped: its `type` cannot be imported
`shell` was skipped: `command` should be an array of strings
"#,
        );
    }

    #[test]
    fn the_second_version_is_read() {
        check(
            r#"{"mcp": {"timeout": 9, "servers": {
  "type": {"type": "local", "command": ["x"], "cwd": ".", "disabled": true, "timeout": {"startup": 1, "request": 2}},
  "b": {"type": "remote", "url": "https://b", "oauth": {"client_id": "i", "client_secret": "s", "callback_port": 99}},
  "c": {"type": "remote", "url": "https://c", "timeout": "soon"}
}}}"#,
            r#"type (User) {"type":"stdio","command":"x","args":[],"cwd":".","connectTimeout":1,"timeout":2,"disabled":true}
b (User) {"type":"http","url":"https://b","oauth":{"clientId":"i","clientSecret":"s","callbackPort":99}}
`mcp.timeout` has no counterpart and was left out
`c` was skipped: `timeout` should be a duration
"#,
        );
    }

    #[test]
    fn a_server_may_be_called_servers() {
        check(
            r#"{"mcp": {"servers": {"type": "local", "command": ["x"]}, "a": {"type": "local", "command": ["y"]}}}"#,
            r#"servers (User) {"type":"stdio","command":"x","args":[]}
a (User) {"type":"stdio","command":"y","args":[]}
"#,
        );
        check(r#"{"mcp": 1}"#, "`mcp` has an unexpected type and was not read\n");
    }
}
