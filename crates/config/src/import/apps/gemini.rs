//! Gemini CLI's `settings.json` of a user or a project.

use serde_json::{Map, Value};

use crate::import::entry_builder::{EntryBuilder, TimeUnit};
use crate::import::host_app::FileScope;
use crate::import::note::{ImportNote, SkipReason};
use crate::import::oauth::OauthKey;
use crate::import::outcome::ImportOutcome;
use crate::import::variable_syntax::VariableSyntax;

const OAUTH: [(&str, OauthKey); 3] = [
    ("clientId", OauthKey::ClientId),
    ("clientSecret", OauthKey::ClientSecret),
    ("scopes", OauthKey::Scopes),
];

/// Reads the servers of a file.
pub(crate) fn read(mut root: Map<String, Value>, scope: FileScope) -> ImportOutcome {
    let mut found = ImportOutcome::default();
    let lists = root.shift_remove("mcp").unwrap_or_default();
    for key in ["allowed", "excluded"] {
        if lists.get(key).is_some_and(|list| !list.is_array()) {
            found.notes.push(ImportNote::KeyNotRead { key: format!("mcp.{key}") });
        }
    }
    found.add_servers(
        "mcpServers",
        root.shift_remove("mcpServers"),
        scope.into(),
        |name, server| {
            let mut builder = EntryBuilder::new(server, &VariableSyntax::Shell)?;
            copy_transport(&mut builder)?;
            copy_trust(&mut builder, scope)?;
            builder.copy_timeout("timeout", TimeUnit::Milliseconds)?;
            builder.copy_tools("includeTools", "excludeTools")?;
            if let Some(key) = disabled_by(&lists, name) {
                builder.set("disabled", true);
                builder.note(ImportNote::DisabledBy { key });
            }
            if let Some(text) = builder.take_string("description")? {
                builder.set("description", text);
            }
            Ok(builder.build())
        },
    );
    found
}

/// Gemini has two lists of names: `allowed` starts only those servers, `excluded` all others.
fn disabled_by(lists: &Value, name: &str) -> Option<&'static str> {
    let names = |key| lists.get(key).and_then(Value::as_array);
    let has = |names: &Vec<Value>| names.iter().any(|listed| listed == name);
    if names("excluded").is_some_and(has) {
        return Some("mcp.excluded");
    }
    names("allowed").is_some_and(|names| !has(names)).then_some("mcp.allowed")
}

/// A URL takes precedence over a command, and `httpUrl` over `url`.
fn copy_transport(builder: &mut EntryBuilder<'_>) -> Result<(), SkipReason> {
    let (transport, url) = if builder.has("httpUrl") {
        builder.take("type");
        ("http", "httpUrl")
    } else if builder.has("url") {
        let transport = match builder.take_string("type")?.as_deref() {
            Some("sse") => "sse",
            Some("http") => "http",
            Some(_) => return Err(SkipReason::UnknownType),
            // The manual calls this SSE; the code tries HTTP first (gemini-cli#13803).
            None => builder.assume_transport(),
        };
        (transport, "url")
    } else if builder.has("command") {
        builder.take("type");
        return builder.copy_stdio("env");
    } else {
        return Err(SkipReason::NoTransport);
    };
    builder.copy_remote(transport, url)?;
    builder.copy_oauth("oauth", &OAUTH)
}

/// A project's file must not mark its own servers as trusted.
fn copy_trust(builder: &mut EntryBuilder<'_>, scope: FileScope) -> Result<(), SkipReason> {
    match (builder.take_bool("trust")?, scope) {
        (None, _) => {}
        (Some(true), FileScope::Project) => builder.note(ImportNote::TrustDropped),
        (Some(trust), FileScope::User | FileScope::Project) => builder.set("trust", trust),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::HostApp;
    use crate::import::tests::outcome;

    #[track_caller]
    fn check(scope: FileScope, text: &str, expected: &str) {
        assert_eq!(outcome(HostApp::Gemini, scope, text), expected);
    }

    #[test]
    fn a_users_file_may_trust_its_servers() {
        check(
            FileScope::User,
            r#"{
  "ui": { "theme": "Dark" }, // not ours
  "mcp": { "excluded": ["cloud"] },
  "mcpServers": {
    "python": {
      "command": "python", "args": ["-m", "server", "$1"], "cwd": "./mcp",
      "env": { "KEY": "$MY_API_KEY", "URL": "${DB_URL:-local}", "COST": "$$5" },
      "timeout": 15000, "trust": true, "description": "For $5",
      "includeTools": ["safe(path)", "read"], "excludeTools": ["drop"],
    },
    "http": {
      "httpUrl": "https://h.example.com/mcp", "url": "https://ignored.example.com",
      "headers": { "Authorization": "Bearer $TOKEN" }, "trust": false,
      "oauth": { "enabled": true, "clientId": "id", "clientSecret": "$SECRET", "scopes": ["a", "b"], "tokenUrl": "https://t" },
    },
    "cloud": { "url": "https://c.example.com", "type": "sse", "authProviderType": "google_credentials" },
    "typed": { "url": "https://t.example.com/sse", "type": "http" },
    "bare": { "url": "https://b.example.com" },
    "old": { "url": "https://o.example.com/sse/" },
  },
}"#,
            r#"python (User) {"type":"stdio","command":"python","args":["-m","server","$$1"],"env":{"KEY":"$MY_API_KEY","URL":"${DB_URL:-local}","COST":"$$$$5"},"cwd":"./mcp","trust":true,"timeout":15000,"tools":{"allow":["safe","read"],"deny":["drop"]},"description":"For $5"}
  `args[2]`: `$` became `$$` to stay a literal dollar sign
  `MY_API_KEY` must be set
  `env.COST`: `$` became `$$` to stay a literal dollar sign
  `includeTools`: safe(…) became safe
http (User) {"type":"http","url":"https://h.example.com/mcp","headers":{"Authorization":"Bearer $TOKEN"},"oauth":{"clientId":"id","clientSecret":"$SECRET","scopes":"a b"},"trust":false}
  `TOKEN` must be set
  `oauth.enabled` has no counterpart and was left out
  `SECRET` must be set
  `oauth.tokenUrl` has no counterpart and was left out
  `url` has no counterpart and was left out
cloud (User) {"type":"sse","url":"https://c.example.com","disabled":true}
  disabled by `mcp.excluded`
  `authProviderType` has no counterpart and was left out
typed (User) {"type":"http","url":"https://t.example.com/sse"}
bare (User) {"type":"http","url":"https://b.example.com"}
old (User) {"type":"sse","url":"https://o.example.com/sse/"}
  no transport is given: assumed `sse`
"#,
        );
    }

    #[test]
    fn a_projects_file_may_not_trust_its_servers() {
        check(
            FileScope::Project,
            r#"{"mcpServers": {"a": {"command": "x", "trust": true}, "b": {"command": "x", "trust": false}}}"#,
            r#"a (Project) {"type":"stdio","command":"x"}
  `trust` was left out because the file belongs to a project
b (Project) {"type":"stdio","command":"x","trust":false}
"#,
        );
    }

    #[test]
    fn a_list_of_allowed_servers_turns_the_others_off() {
        check(
            FileScope::User,
            r#"{"mcp": {"allowed": ["a"], "excluded": "b"}, "mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}, "c": {"tcp": "x"}}}"#,
            r#"a (User) {"type":"stdio","command":"x"}
b (User) {"type":"stdio","command":"x","disabled":true}
  disabled by `mcp.allowed`
`mcp.excluded` has an unexpected type and was not read
`c` was skipped: it has neither a command nor a URL
"#,
        );
    }
}
