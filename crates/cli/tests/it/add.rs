//! `swb add`.

use std::os::unix::fs::PermissionsExt;

use crate::support::{USER, local_settings, scene};

/// Adds a server with these arguments and returns the entry that was written to the user settings.
#[track_caller]
fn added(arguments: &[&str]) -> serde_json::Value {
    let scene = scene();
    let all: Vec<&str> = ["add", "--scope", "user"].iter().chain(arguments).copied().collect();
    scene.swb(&all).expect_success();
    let json: serde_json::Value = serde_json::from_str(&scene.read(USER)).expect("it is JSON");
    json["mcpServers"]["s"].clone()
}

#[track_caller]
fn check(arguments: &[&str], entry: serde_json::Value) {
    assert_eq!(added(arguments), entry, "{arguments:?}");
}

#[test]
fn every_usual_form_of_a_command_is_added() {
    use serde_json::json;
    let plain = json!({"type": "stdio", "command": "npx", "args": ["-y", "x"]});
    check(&["s", "--", "npx", "-y", "x"], plain.clone());
    check(&["s", "npx", "-y", "x"], plain.clone());
    check(&["--transport", "stdio", "s", "--", "npx", "-y", "x"], plain.clone());
    check(&["s", "--command", "npx", "-y", "x"], plain.clone());
    check(&["s", "--command", "npx", "--", "-y", "x"], plain.clone());
    check(&["-t", "stdio", "s", "npx", "-y", "x"], plain);
    // A relative path means the folder where it is typed, wherever the server is used.
    let relative = added(&["-t", "stdio", "s", "a.b/c"]);
    let command = relative["command"].as_str().expect("a command");
    assert!(command.starts_with('/') && command.ends_with("/project/a.b/c"), "{relative}");
    let env = json!({"type": "stdio", "command": "npx", "args": ["x", "-e", "C=3"], "env": {"A": "1", "B": "2=2"}});
    check(&["s", "-e", "A=1", "-e", "B=2=2", "--", "npx", "x", "-e", "C=3"], env.clone());
    check(&["--env", "A=1", "--env", "B=2=2", "s", "npx", "x", "-e", "C=3"], env.clone());
    check(&["s", "-e", "A=1", "B=2=2", "--", "npx", "x", "-e", "C=3"], env);
}

#[test]
fn every_usual_form_of_a_url_is_added() {
    use serde_json::json;
    let plain = json!({"type": "http", "url": "https://h.example/mcp"});
    check(&["s", "https://h.example/mcp"], plain.clone());
    check(&["--transport", "http", "s", "https://h.example/mcp"], plain.clone());
    check(&["--transport", "streamable-http", "s", "https://h.example/mcp"], plain.clone());
    check(&["s", "--url", "https://h.example/mcp"], plain);
    check(&["s", "wss://h.example/"], json!({"type": "ws", "url": "wss://h.example/"}));
    let headers = json!({"type": "sse", "url": "https://h.example/sse", "headers": {"X-Key": "a:b", "Y": "c"}});
    check(
        &[
            "--transport",
            "sse",
            "s",
            "https://h.example/sse",
            "--header",
            "X-Key: a:b",
            "-H",
            "Y:c",
        ],
        headers.clone(),
    );
    check(&["-H", "X-Key: a:b", "-H", "Y:c", "-t", "sse", "s", "https://h.example/sse"], headers);
    check(
        &[
            "s",
            "--url",
            "https://h.example/",
            "--bearer-token-env-var",
            "TOK",
            "--oauth-client-id",
            "c",
        ],
        json!({"type": "http", "url": "https://h.example/", "headers": {"Authorization": "Bearer ${TOK}"}, "oauth": {"clientId": "c"}}),
    );
    check(
        &[
            "-t",
            "http",
            "s",
            "https://h.example/",
            "--timeout",
            "5000",
            "--trust",
            "--description",
            "d",
            "--include-tools",
            "a,b",
            "--exclude-tools",
            "c",
            "--client-id",
            "id",
            "--callback-port",
            "3118",
        ],
        json!({"type": "http", "url": "https://h.example/", "oauth": {"clientId": "id", "callbackPort": 3118}, "timeout": 5000, "trust": true,
            "tools": {"allow": ["a", "b"], "deny": ["c"]}, "description": "d"}),
    );
}

#[test]
fn the_default_is_the_local_scope_in_a_private_file_outside_the_tree() {
    let scene = scene();
    insta::assert_snapshot!(scene.swb(&["add", "s", "--", "x"]).to_snapshot());
    let file = local_settings(&scene);
    assert!(!file.starts_with(scene.project()));
    let mode = file.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let text = std::fs::read_to_string(&file)
        .expect("it can be read")
        .replace(&scene.root().display().to_string(), "[ROOT]");
    insta::assert_snapshot!(text, @r#"
    {
      "project": "[ROOT]/person/project",
      "mcpServers": {
        "s": {
          "type": "stdio",
          "command": "x"
        }
      }
    }
    "#);
}

#[test]
fn comments_order_and_style_of_the_file_stay() {
    let scene = scene();
    scene.write(".mcp.json", "// ours\n{\n\t\"mcpServers\": {\n\t\t\"z\": { \"command\": \"z\" }, // last letter\n\t},\n}\n");
    scene.swb(&["add", "-s", "project", "a", "--", "a"]).expect_success();
    assert_eq!(
        scene.read(".mcp.json"),
        "// ours\n{\n\t\"mcpServers\": {\n\t\t\"z\": { \"command\": \"z\" }, // last letter\n\t\t\"a\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"a\"\n\t\t},\n\t},\n}\n"
    );
}

#[test]
fn a_secret_that_the_shell_put_in_is_written_as_its_variable() {
    let mut scene = scene();
    scene.set_env("GITHUB_TOKEN", "canary-0123456789");
    let ran = scene.swb(&[
        "add",
        "-s",
        "project",
        "gh",
        "https://h.example/?t=canary-0123456789",
        "-H",
        "Authorization: Bearer canary-0123456789",
    ]);
    insta::assert_snapshot!(ran.to_snapshot());
    assert!(!scene.read(".mcp.json").contains("canary"), "{}", scene.read(".mcp.json"));
}

#[test]
fn a_literal_secret_in_a_shared_file_causes_a_warning() {
    let scene = scene();
    let ran =
        scene.swb(&["add", "-s", "project", "db", "-e", "DB_PASSWORD=hunter2hunter2", "--", "db"]);
    assert!(
        ran.stderr.contains("warning: everyone with access to the project can read"),
        "{}",
        ran.to_snapshot()
    );
    assert!(!ran.to_snapshot().contains("hunter2"), "{}", ran.to_snapshot());
}

#[test]
fn invalid_arguments_are_refused_before_any_write() {
    let scene = scene();
    for (arguments, code, said) in [
        (&["add", "bad name", "x"][..], 2, "`bad name` cannot be a server's name"),
        (&["add", "a__b", "x"], 2, "`__` is not allowed in a server name"),
        (&["add", "browser", "x"], 2, "the name is reserved for a built-in server"),
        (&["add", "s"], 2, "there is neither a command nor a URL"),
        (&["add", "-t", "stdio", "s"], 2, "there is no command to start"),
        (
            &["add", "-t", "http", "s", "--", "npx", "-y", "x"],
            2,
            "an http server needs a URL, and `npx` is not one",
        ),
        (&["add", "-t", "http", "s", "npx"], 2, "leave out `--transport http`"),
        (&["add", "-t", "http", "s", "ftp://h/"], 2, "type `https://h/`"),
        (&["add", "s", "--url", "h.example/mcp"], 2, "type `https://h.example/mcp`"),
        (
            &["add", "-t", "http", "s", "ws://h/"],
            3,
            "must be a URL that begins with `http://` or `https://`",
        ),
        (&["add", "s", "htp://h.example/mcp"], 2, "type `swb add s https://h.example/mcp`"),
        (&["add", "s", "h.example/mcp?k=CANARY"], 2, "type `swb add s https://h.example/mcp?…`"),
        (&["add", "s", "--scop", "user", "--", "x"], 2, "did you mean `--scope`?"),
        (&["add", "s", "--scop=CANARY", "x"], 2, "did you mean `--scope`?"),
        (&["add", "--scop", "user", "s", "x"], 2, "--scope"),
        (&["add", "s", "--verbose", "x"], 2, "`swb add` has no option `--verbose`"),
        (&["add", "s", "--account", "work", "--", "x"], 2, "has no option `--account`"),
        (&["add", "s", "-y", "x"], 2, "`swb add` has no option `-y`"),
        (&["add", "s", "https://h/", "--scop", "user"], 2, "did you mean `--scope`?"),
        (&["add", "s", "--command", "x", "--url", "https://h/"], 2, "cannot be used with"),
        (&["add", "-t", "http", "s", "--command", "x"], 2, "leave out `--transport http`"),
        (&["add", "-e", "CANARY", "s", "x"], 2, "--env number 1 is not KEY=VALUE"),
        (
            &["add", "-e", "A=1", "-e", "=CANARY", "s", "--", "x"],
            2,
            "--env number 2 is not KEY=VALUE",
        ),
        (&["add", "s", "https://h/", "-H", "CANARY"], 2, "--header number 1 is not `Name: value`"),
        (&["add", "s", "https://h/", "-H", "A b: c"], 3, "is not the name of a header"),
        (&["add", "s", "https://h/", "-e", "A=CANARY"], 2, "--env does not apply to a URL"),
        (&["add", "-H", "A: CANARY", "s", "x"], 2, "--header does not apply to a command"),
        (&["add", "s", "https://h/", "extra"], 2, "only options may follow a URL"),
        (&["add", "-s", "nowhere", "s", "x"], 2, "invalid value 'nowhere'"),
        (&["add", "-t", "carrier-pigeon", "s", "x"], 2, "invalid value 'carrier-pigeon'"),
        (
            &["add", "--client-secret", "s", "https://h/"],
            2,
            "the client secret cannot be asked for without a terminal",
        ),
        (
            &["add", "s", "https://h/${cmd:id}", "-s", "project"],
            3,
            "refers to a secret, which the project scope does not allow",
        ),
    ] {
        let ran = scene.swb(arguments);
        assert!(ran.expect_failure(code).contains(said), "{arguments:?}\n{}", ran.to_snapshot());
        assert!(!ran.to_snapshot().contains("CANARY"), "{}", ran.to_snapshot());
    }
    assert!(!scene.path(".mcp.json").exists() && !scene.home().join(".config").exists());
}

#[test]
fn a_name_that_exists_in_the_scope_is_a_conflict_without_overwrite() {
    let scene = scene();
    scene.swb(&["add", "-s", "project", "s", "one"]).expect_success();
    insta::assert_snapshot!(scene.swb(&["add", "-s", "project", "s", "two"]).expect_failure(6), @r"
    error: `s` is already in the project scope (.mcp.json:3)

    hint: add --overwrite, or first: swb remove s --scope project
    ");
    scene.swb(&["add", "-s", "project", "--overwrite", "s", "two"]).expect_success();
    assert!(
        scene.read(".mcp.json").contains("\"two\"") && !scene.read(".mcp.json").contains("\"one\"")
    );
}

#[test]
fn a_server_of_the_same_name_in_another_scope_is_noted() {
    let scene = scene();
    scene.swb(&["add", "-s", "user", "s", "one"]).expect_success();
    let ran = scene.swb(&["add", "s", "two"]);
    assert_eq!(
        ran.stderr,
        "note: it overrides `s` of the user scope (~/.config/switchboard/settings.json:3)\n"
    );
    let ran = scene.swb(&["add", "-s", "user", "--overwrite", "s", "three"]);
    assert!(ran.stderr.starts_with("note: `s` of the local scope"), "{}", ran.to_snapshot());
}

#[test]
fn a_client_secret_in_a_variable_is_named_not_copied() {
    let mut scene = scene();
    scene.set_env("MCP_CLIENT_SECRET", "canary-0123456789");
    scene
        .swb(&["add", "-s", "user", "s", "https://h/", "--client-id", "c", "--client-secret"])
        .expect_success();
    assert!(
        scene.read(USER).contains("\"clientSecret\": \"${MCP_CLIENT_SECRET}\""),
        "{}",
        scene.read(USER)
    );
}

#[test]
fn a_server_that_a_policy_refuses_is_not_added() {
    let scene = scene();
    scene.write(
        "managed/managed-settings.json",
        "{\n  \"deniedMcpServers\": [{\"serverUrl\": \"https://*.evil.example/*\"}]\n}",
    );
    insta::assert_snapshot!(scene.swb(&["add", "s", "https://a.evil.example/x"]).expect_failure(4), @r"
    error: `s` may not be added: a policy refuses it

    hint: denied by /etc/switchboard/managed-settings.json:2 (serverUrl https://*.evil.example/*)
    ");
}

#[test]
fn a_secret_is_recognized_by_its_form_and_an_ordinary_word_is_not() {
    let mut scene = scene();
    scene
        .set_env("OPENAI", "sk-canary0123456789abcdef")
        .set_env("DATABASE_URL", "postgres://u:canary@h/db")
        .set_env("PGPASSWORD", "password");
    scene
        .swb(&[
            "add",
            "-s",
            "user",
            "s",
            "-e",
            "A=sk-canary0123456789abcdef",
            "-e",
            "B=postgres://u:canary@h/db",
            "--",
            "x",
            "--password",
            "foo",
        ])
        .expect_success();
    let text = scene.read(USER);
    assert!(!text.contains("canary") && text.contains("\"--password\", \"foo\""), "{text}");
    assert!(
        text.contains("\"A\": \"${OPENAI}\"") && text.contains("\"B\": \"${DATABASE_URL}\""),
        "{text}"
    );
}

#[test]
fn global_options_and_more_headers_may_follow_a_url() {
    let scene = scene();
    let ran = scene.swb(&["add", "-s", "user", "s", "https://h/", "-H", "A: b", "C: d", "--json"]);
    assert!(ran.expect_success().starts_with('{'), "{}", ran.to_snapshot());
    assert!(scene.read(USER).contains("\"C\": \"d\""), "{}", scene.read(USER));
    assert!(
        scene
            .swb(&["add", "s", "https://h/", "--help"])
            .expect_success()
            .contains("--bearer-token-env-var")
    );
}

#[test]
fn the_added_server_is_printed_as_it_runs_without_its_secrets() {
    let scene = scene();
    let ran = scene.swb(&["add", "s", "--", "npx", "-y", "x", "--token", "canary-0123456789"]);
    assert!(ran.expect_success().contains("\n  runs: npx -y x --token "), "{}", ran.to_snapshot());
    assert!(!ran.to_snapshot().contains("canary"), "{}", ran.to_snapshot());
    let ran = scene.swb(&["add", "web", "https://h.example/mcp"]);
    assert!(
        ran.expect_success().ends_with("\n  connects to: https://h.example/mcp\n"),
        "{}",
        ran.to_snapshot()
    );
}
