//! Codex's `config.toml` of a user or a project. Codex expands no variables in values; separate keys name them.

use serde_json::{Map, Value};

use crate::import::entry_builder::{
    ConvertedEntry, EntryBuilder, FlagMeaning, TimeUnit, wrong_type,
};
use crate::import::host_app::FileScope;
use crate::import::note::{ExpectedType, ImportNote, SkipReason};
use crate::import::oauth::OauthKey;
use crate::import::outcome::ImportOutcome;
use crate::import::variable_syntax::VariableSyntax;

const OAUTH: [(&str, OauthKey); 3] = [
    ("client_id", OauthKey::ClientId),
    ("callback_port", OauthKey::CallbackPort),
    ("scopes", OauthKey::Scopes),
];

/// Reads the servers of a file.
pub(crate) fn read(mut root: Map<String, Value>, scope: FileScope) -> ImportOutcome {
    let mut found = ImportOutcome::default();
    let servers = root.shift_remove("mcp_servers");
    found.add_servers("mcp_servers", servers, scope.into(), |_, server| convert_server(server));
    found
}

fn convert_server(server: Value) -> Result<ConvertedEntry, SkipReason> {
    let mut builder = EntryBuilder::new(server, &VariableSyntax::None)?;
    match (builder.has("command"), builder.has("url")) {
        (true, false) => copy_stdio(&mut builder)?,
        (false, true) => copy_remote(&mut builder)?,
        (true, true) => return Err(SkipReason::CommandAndUrl),
        (false, false) => return Err(SkipReason::NoTransport),
    }
    builder.copy_timeout("tool_timeout_sec", TimeUnit::Seconds)?;
    builder.copy_connect_timeout("startup_timeout_ms", TimeUnit::Milliseconds)?;
    builder.copy_connect_timeout("startup_timeout_sec", TimeUnit::Seconds)?;
    builder.copy_tools("enabled_tools", "disabled_tools")?;
    builder.copy_enabled_flag("enabled", FlagMeaning::Enables)?;
    Ok(builder.build())
}

fn copy_stdio(builder: &mut EntryBuilder<'_>) -> Result<(), SkipReason> {
    builder.set("type", "stdio");
    builder.copy_string("command")?;
    builder.copy_strings("args")?;
    let written = builder.take_object("env")?;
    let is_written = written.is_some();
    let mut env = builder.translate_string_map("env", written.unwrap_or_default())?;
    add_env_vars(builder, &mut env)?;
    if is_written || !env.is_empty() {
        builder.set("env", env);
    }
    builder.copy_string("cwd")
}

/// Adds the variables of `env_vars`, which come from Codex's own environment; a value in `env` overrides them.
fn add_env_vars(
    builder: &mut EntryBuilder<'_>,
    env: &mut Map<String, Value>,
) -> Result<(), SkipReason> {
    let Some(names) = builder.take("env_vars") else {
        return Ok(());
    };
    let Value::Array(names) = names else {
        return Err(wrong_type("env_vars", ExpectedType::StringArray));
    };
    for (index, name) in names.iter().enumerate() {
        let key = format!("env_vars[{index}]");
        // An element may also be `{ name, source }`, and a remote source is not this machine.
        let source = name.get("source").and_then(Value::as_str);
        if source.is_some_and(|source| source != "local") {
            builder.note(ImportNote::KeyDropped { key });
            continue;
        }
        let name = name.as_str().or_else(|| name.get("name").and_then(Value::as_str));
        let name = name.ok_or_else(|| wrong_type(&key, ExpectedType::VariableName))?;
        if !env.contains_key(name) {
            env.insert(name.to_owned(), builder.variable_reference(&key, name)?.into());
        }
    }
    Ok(())
}

fn copy_remote(builder: &mut EntryBuilder<'_>) -> Result<(), SkipReason> {
    builder.copy_url("http", "url")?;
    let written = builder.take_object("http_headers")?.unwrap_or_default();
    let mut headers = builder.translate_string_map("http_headers", written)?;
    for (header, variable) in builder.take_object("env_http_headers")?.unwrap_or_default() {
        let key = format!("env_http_headers.{header}");
        let variable =
            variable.as_str().ok_or_else(|| wrong_type(&key, ExpectedType::VariableName))?;
        let value = builder.variable_reference(&key, variable)?;
        set_header(&mut headers, &header, value);
    }
    if let Some(variable) = builder.take_string("bearer_token_env_var")? {
        let token = builder.variable_reference("bearer_token_env_var", &variable)?;
        set_header(&mut headers, "Authorization", format!("Bearer {token}"));
    }
    if !headers.is_empty() {
        builder.set("headers", headers);
    }
    if let Some(command) = builder.take_string("http_headers_helper")? {
        builder.set("headersHelper", command);
    }
    builder.move_into("scopes", "oauth");
    builder.copy_oauth("oauth", &OAUTH)
}

/// In Codex the later of two headers wins, whatever their case.
fn set_header(headers: &mut Map<String, Value>, name: &str, value: String) {
    headers.retain(|other, _| !other.eq_ignore_ascii_case(name));
    headers.insert(name.to_owned(), value.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::HostApp;
    use crate::import::tests::outcome;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(outcome(HostApp::Codex, FileScope::User, text), expected);
    }

    #[test]
    fn every_key_finds_its_place_or_is_noted() {
        check(
            r#"
model = "gpt-5" # not ours

[mcp_servers.docs]
command = "docs-server"
args = ["--price", "5$", "${HOME}"]
env_vars = ["TOKEN", { name = "REGION", source = "local" }, { name = "FAR", source = "remote" }, "MODE"]
cwd = "/srv"
startup_timeout_sec = 20
tool_timeout_sec = 1.5
enabled = false
required = true
default_tools_approval_mode = "approve"
enabled_tools = ["search", "read"]
disabled_tools = ["write"]

[mcp_servers.docs.env]
MODE = "fast"

[mcp_servers.docs.tools.search]
approval_mode = "approve"

[mcp_servers.figma]
url = "https://mcp.example.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
http_headers = { "X-Region" = "us$east", "X-Team" = "a", "authorization" = "replaced" }
env_http_headers = { "X-Team" = "TEAM" }
http_headers_helper = "print-headers $X"
scopes = ["read", "write"]
oauth = { client_id = "abc", callback_port = 4321, callback_url = "http://localhost/cb" }
oauth_resource = "https://mcp.example.com"
enabled = true
"#,
            r#"docs (User) {"type":"stdio","command":"docs-server","args":["--price","5$$","$${HOME}"],"env":{"MODE":"fast","TOKEN":"${TOKEN}","REGION":"${REGION}"},"cwd":"/srv","timeout":1500,"connectTimeout":20000,"tools":{"allow":["search","read"],"deny":["write"]},"disabled":true}
  `args[1]`: `$` became `$$` to stay a literal dollar sign
  `args[2]`: `$` became `$$` to stay a literal dollar sign
  `TOKEN` must be set
  `REGION` must be set
  `env_vars[2]` has no counterpart and was left out
  `required` has no counterpart and was left out
  `default_tools_approval_mode` has no counterpart and was left out
  `tools` has no counterpart and was left out
figma (User) {"type":"http","url":"https://mcp.example.com/mcp","headers":{"X-Region":"us$$east","X-Team":"${TEAM}","Authorization":"Bearer ${FIGMA_TOKEN}"},"headersHelper":"print-headers $X","oauth":{"clientId":"abc","callbackPort":4321,"scopes":"read write"}}
  `http_headers.X-Region`: `$` became `$$` to stay a literal dollar sign
  `TEAM` must be set
  `FIGMA_TOKEN` must be set
  `oauth.callback_url` has no counterpart and was left out
  `oauth_resource` has no counterpart and was left out
"#,
        );
    }

    #[test]
    fn keys_of_another_transport_are_noted() {
        check(
            "[mcp_servers.a]\ncommand = 'x'\nscopes = ['s']\nheaders = {}\nenv = {}\n",
            r#"a (User) {"type":"stdio","command":"x","env":{}}
  `scopes` has no counterpart and was left out
  `headers` has no counterpart and was left out
"#,
        );
    }

    #[test]
    fn scopes_need_no_other_oauth_settings() {
        check(
            "[mcp_servers.a]\nurl = 'https://x'\nscopes = ['s', 't']\n",
            "a (User) {\"type\":\"http\",\"url\":\"https://x\",\"oauth\":{\"scopes\":\"s t\"}}\n",
        );
    }

    #[test]
    fn one_bad_server_never_drops_the_others() {
        check(
            r#"
[mcp_servers.both]
command = "x"
url = "https://x"
[mcp_servers.neither]
enabled = true
[mcp_servers.variable]
url = "https://x"
bearer_token_env_var = "not a name"
[mcp_servers.vars]
command = "x"
env_vars = [1]
[mcp_servers.time]
command = "x"
tool_timeout_sec = nan
[mcp_servers."a.b/c"]
command = "x"
[mcp_servers.oauth]
url = "https://x"
oauth = "yes"
scopes = []
"#,
            r#"a.b/c (User) {"type":"stdio","command":"x"}
`both` was skipped: it has both a command and a URL
`neither` was skipped: it has neither a command nor a URL
`variable` was skipped: `bearer_token_env_var` should be the name of a variable
`vars` was skipped: `env_vars[0]` should be the name of a variable
`time` was skipped: `tool_timeout_sec` should be a duration
`oauth` was skipped: `oauth` should be an object of strings
"#,
        );
    }
}
