//! No output of any command shows a secret, for valid and malformed configurations alike.

use std::path::PathBuf;

use serde_json::{Value as Json, json};
use testkit::{Quirk, Sandbox, Script, ScriptedServer};

use crate::support::{USER, scene};

/// The marker that every secret value contains, and no other text.
const CANARY: &str = "canary7f3a";

/// Configurations with secrets in every place that can hold one.
fn configurations() -> Vec<String> {
    let whole = r#"{"mcpServers": {
      "env": {"command": "run", "args": ["--api-key", "CANARY", "--token=CANARY", "-e", "DB_PASSWORD=CANARY", "https://u:CANARY@h.example/?k=CANARY#CANARY", "Authorization: Bearer CANARY"], "env": {"PLAIN": "CANARY", "DEFAULT": "${NOT_SET:-CANARY}"}},
      "url": {"type": "http", "url": "https://CANARY:CANARY@h.example/mcp?key=CANARY&CANARY#CANARY", "headers": {"Authorization": "Bearer CANARY", "X": "${NOT_SET:-CANARY}"}, "headersHelper": "helper --token CANARY", "oauth": {"clientId": "id", "clientSecret": "CANARY"}},
      "unknown": {"command": "run", "secretThing": "CANARY", "nested": {"deep": ["CANARY"]}}
    }}"#;
    let broken = [
        r#"{"mcpServers": {"s": {"command": "run", "env": {"K": CANARY}}}}"#,
        r#"{"mcpServers": {"s": {"command": "run", "env": {"K": "CANARY}}}}"#,
        r#"{"mcpServers": {"s": {"command": "run", "env": {"K": "CANARY" "L": "CANARY"}}}}"#,
        r#"{"mcpServers": {"s": {"command": "run", "env": "CANARY"}}}"#,
        r#"{"mcpServers": {"s": {"command": "run", "env": ["CANARY"]}}}"#,
        r#"{"mcpServers": {"s": {"command": "run", "args": "CANARY"}}}"#,
        r#"{"mcpServers": {"s": {"command": "run", "args": [{"k": "CANARY"}]}}}"#,
        r#"{"mcpServers": {"s": {"type": "http", "url": "CANARY"}}}"#,
        r#"{"mcpServers": {"s": {"type": "http", "url": "ftp://h/?CANARY"}}}"#,
        r#"{"mcpServers": {"s": {"type": "http", "url": "https://h/", "headers": {"A": "CANARY\r\nB: c"}}}}"#,
        r#"{"mcpServers": {"s": {"type": "http", "url": "https://h/", "headers": "CANARY"}}}"#,
        r#"{"mcpServers": {"s": {"type": "http", "url": "https://h/", "oauth": {"clientSecret": 5, "scopes": {"k": "CANARY"}}}}}"#,
        r#"{"mcpServers": {"s": "CANARY"}}"#,
        r#"{"mcpServers": "CANARY"}"#,
        r#""CANARY""#,
        r#"{"mcpServers": {"s": {"command": npx", "env": {"T": "CANARY"}}}}"#,
        r#"{"mcpServers": {"s": {"command": "npx, "env": {"T": "CANARY"}}}}"#,
        r#"{"mcpServers": {"s": {"type": "http", url": "https://h/?t=CANARY"}}}"#,
        r#"{"mcpServers": {"s": {"disabled": true, env": {"T": "CANARY"}}}}"#,
        r#"{"mcpServers": {"s": {"command": "x", "cwd": "C:\tmp\", "env": {"T": "CANARY"}}}}"#,
        r#"{"mcpServers": {"s": {"cwd": "/x" "TOKEN=CANARY"}}}"#,
        r#"{"mcpServers": {"s": {"command": "x", "env": {"TOKEN":"CANARY": 1}}}}"#,
        r#"{"mcpServers": {"s": {"command": "x", "arg": 1, "env": {"name": "CANARY"}}}}"#,
        r#"{"mcpServers": {"s": {"command": ["npx", "--token", "CANARY"]}}}"#,
        r#"{"mcpServers": {"s": {"command": "TOKEN=CANARY npx --token CANARY", "args": ["postgresql://u:CANARY@db.amazonaws.com/x", "redis://:CANARY@news:6379", "-u", "a:CANARY"]}}}"#,
        r#"[{"env": "CANARY"}]"#,
        r#"{"mcpServers": {"s": {"type": "http", "url": "https://h/", "headers": {"Authorization: Bearer CANARY": ""}}}}"#,
        r#"{"mcpServers": {"s": {"command": "x", "env": {"TOKEN=CANARY": ""}}}}"#,
        r#"{"mcpServers": {"s": {"command": "x", "env": {"A": "Tr0ub4dor$CANARY"}}}}"#,
        r#"{"mcpServers": {"s": {"command": "sh", "args": ["-c", "T_TOKEN=CANARY x https://h/ -H 'X: CANARY'", "--env=A=CANARY", "{\"token\":\"CANARY\"}"]}}}"#,
        r#"{"mcpServers": {"s": {"command": "run" /* "K": "CANARY" */ CANARY}}}"#,
        "{\"mcpServers\": {\"s\": {\"command\": \"run\", // \"CANARY\"\n \"env\": {\"K\" \"CANARY\"}}}}",
    ];
    std::iter::once(whole).chain(broken).map(|text| text.replace("CANARY", CANARY)).collect()
}

#[test]
fn no_output_shows_a_secret() {
    let inline =
        format!(r#"{{"mcpServers": {{"d": {{"command": "x", "env": {{"K": "{CANARY}"}}}}}}}}"#);
    let commands: Vec<Vec<&str>> = vec![
        vec![],
        vec!["list", "--all"],
        vec!["list", "--require", "s"],
        vec!["list", "--mcp-config", &inline],
        vec!["get", "env"],
        vec!["get", "url"],
        vec!["get", "unknown"],
        vec!["get", "s"],
        vec!["config", "explain", "env"],
        vec!["config", "check"],
        vec!["policy", "why", "url"],
        vec!["import", "--dry-run"],
        vec!["approve", "--all"],
        vec!["disable", "env"],
        vec!["enable", "env"],
        vec!["reject", "env"],
        vec!["remove", "env"],
        vec!["paths"],
    ];
    let few: Vec<Vec<&str>> = vec![
        vec!["list", "--all"],
        vec!["get", "s"],
        vec!["config", "check"],
        vec!["import", "--dry-run"],
        vec!["add", "-s", "user", "new", "--", "x"],
    ];
    let places = [
        USER,
        ".mcp.json",
        "managed/managed-mcp.json",
        "managed/managed-settings.json",
        "~/.claude.json",
        "~/.cursor/mcp.json",
        "~/.config/opencode/opencode.json",
    ];
    for (index, text) in configurations().into_iter().enumerate() {
        for place in places {
            let scene = scene();
            scene.write(place, &text);
            for command in if index == 0 { &commands } else { &few } {
                // Plain text in a project's file is not a secret of the user, who must see the command before
                // approving it.
                let shows_all = place == ".mcp.json"
                    && command.first().is_some_and(|it| ["get", "approve"].contains(it));
                for extra in [&[][..], &["--json"]] {
                    let arguments: Vec<&str> = command.iter().chain(extra).copied().collect();
                    let ran = scene.swb(&arguments);
                    let shown = ran.to_snapshot();
                    let is_masked = !shown.contains(CANARY) || shows_all;
                    assert!(is_masked, "{place} {arguments:?}\n{text}\n{shown}");
                    assert_ne!(ran.code, 101, "{shown}");
                }
            }
        }
    }
}

#[test]
fn values_in_a_policy_are_shown_but_not_their_secrets() {
    let scene = scene();
    scene.write(
        USER,
        &r#"{"mcpServers": {"a": {"command": "x", "args": ["--token", "CANARY"]}}, "deniedMcpServers": [{"serverCommand": ["x", "--token", "CANARY"]}]}"#
            .replace("CANARY", CANARY),
    );
    for arguments in
        [&["policy", "why", "a"][..], &["policy", "why", "a", "--json"], &["list"], &["get", "a"]]
    {
        let ran = scene.swb(arguments);
        assert!(!ran.to_snapshot().contains(CANARY), "{}", ran.to_snapshot());
    }
    assert!(
        scene.swb(&["policy", "why", "a"]).expect_success().contains("serverCommand x --token •••")
    );
}

#[test]
fn an_added_secret_is_not_echoed() {
    let scene = scene();
    let env = format!("K={CANARY}");
    let header = format!("Authorization: Bearer {CANARY}");
    let url = format!("https://u:{CANARY}@h.example/?k={CANARY}");
    for arguments in [
        &["add", "a", "-e", &env, "--", "x"][..],
        &["add", "b", &url, "-H", &header],
        &["add", "b", &url, "-H", &header],
        &["add", "b c", &url],
    ] {
        let ran = scene.swb(arguments);
        assert!(!ran.to_snapshot().contains(CANARY), "{}", ran.to_snapshot());
    }
}

/// Every file that the program wrote, in its folders and in the project; files written by the test are excluded.
fn written_files(scene: &Sandbox) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![
        scene.path("~/.local"),
        scene.path("~/.cache"),
        scene.path("~/.config/switchboard/projects"),
        scene.project(),
    ];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default())
                        .into_owned();
                    found.push((path, text));
                }
            }
        }
    }
    found
}

/// Servers with secrets in every place that can hold one. They work, reject the login, crash or are unreachable.
fn servers_with_secrets(refusing: &ScriptedServer, taking: &ScriptedServer) -> Json {
    let program = testkit::scripted::program();
    let started = |script: &Script| {
        json!({
            "command": "sh",
            "args": ["-c", "exec \"$0\" \"$1\"", program, script.to_json(), "--token", CANARY],
            "env": {
                "PLAIN_TOKEN": CANARY,
                "FROM_FILE": "${file:~/secret}",
                "FROM_COMMAND": "${cmd:cat ~/secret}",
            },
        })
    };
    let remote = |url: &str| json!({"type": "http", "url": url, "headers": {"Authorization": format!("Bearer {CANARY}"), "X-Key": "${file:~/secret}"}});
    let gone = format!("http://user:{CANARY}@127.0.0.1:9/mcp?key={CANARY}");
    json!({
        "s": started(&Script::legacy().tools(1).resources(1).prompts(1)),
        "modern": started(&Script::modern()),
        "crashing": started(&Script::legacy().quirk(Quirk::ExitsAtOnce { code: 3 })),
        "dying": started(&Script::legacy().quirk(Quirk::CrashesMidCall)),
        "taking": remote(taking.url()),
        "refusing": remote(refusing.url()),
        "unreachable": remote(&gone),
        "secretless": {"command": "x", "env": {"A": "${cmd:cat ~/secret; cat ~/secret >&2; exit 1}"}},
        "absent": {"command": "x", "args": ["--key", CANARY], "env": {"A": "${file:~/not-there}"}},
    })
}

#[test]
fn no_call_and_no_failure_leaves_a_secret_in_a_file_or_output() {
    let refused = Quirk::HttpStatus {
        status: 401,
        body: "no".to_owned(),
        headers: Default::default(),
        after: 0,
        times: None,
    };
    let refusing = ScriptedServer::http(Script::legacy().quirk(refused));
    let taking = ScriptedServer::http(Script::legacy().resources(1));
    let mut scene = scene();
    scene.set_env("MCP_TOOL_TIMEOUT", "700");
    scene.write("~/secret", CANARY).write("~/answers.json", &json!({"name": CANARY}).to_string());
    let hook = json!([{"matcher": "modern", "hooks": [{"command": format!("false --token {CANARY}; echo '{{\"action\": \"{CANARY}\"}}'")}]}]);
    let settings = json!({
        "mcpServers": servers_with_secrets(&refusing, &taking),
        "permissions": {"allow": ["mcp__s", "mcp__modern", "mcp__dying", "mcp__taking"], "deny": ["mcp__s__fail"]},
        "hooks": {"Elicitation": hook},
    });
    scene.write(USER, &settings.to_string());
    let secret = format!("token={CANARY}");
    let unfit = format!("limit={CANARY}");
    let broken = format!("a:={CANARY}");
    let twice = format!("token.x={CANARY}");
    let log = scene.path("~/swb.log").display().to_string();
    for words in [
        &["status"][..],
        &["doctor"],
        &["tools"],
        &["search", "text"],
        &["resources"],
        &["prompts"],
        &["ping", "s"],
        &["ping", "unreachable"],
        &["ping", "refusing"],
        &["ping", "secretless"],
        &["ping", "absent"],
        &["ping", "crashing"],
        &["call", "mcp__s__add", "a:=1", "b:=2", &secret],
        &["call", "mcp__taking__add", "a:=1", "b:=2", &secret],
        &["call", "mcp__s__tool_0", &unfit],
        &["call", "mcp__s__add", &broken],
        &["call", "mcp__s__add", &secret, &secret],
        &["call", "mcp__s__add", &secret, &twice],
        &["call", "mcp__s__nothing", &secret],
        &["call", "mcp__s__fail", &secret],
        &["call", "mcp__s__explode", &secret],
        &["call", "mcp__s__slow", "ms:=5000", "steps:=1", &secret],
        &["call", "mcp__dying__echo", &secret],
        &["call", "mcp__crashing__echo", &secret],
        &["call", "mcp__modern__ask", "kind=elicitation"],
        &["read", "s", "scripted://resource/0"],
        &["read", "refusing", "scripted://resource/0"],
        &["complete", "s", "--prompt", "prompt_0", "topic", "a"],
        &["prompt", "s", "prompt_0"],
        &["subscribe", "refusing", "scripted://resource/0", "--once"],
        &["permissions", "explain", "mcp__s__add", &secret],
        &["permissions", "simulate"],
        &["permissions", "list"],
        &["audit"],
        &["logs", "s"],
        &["logs", "modern"],
        &["logs", "crashing"],
        &["logs", "unreachable"],
        &["logs", "secretless"],
        &["logs", "refusing"],
        &["__complete", "words", "swb", "call", ""],
        &["__complete", "words", "swb", "call", "mcp__s__tool_0", ""],
        &["completions", "bash"],
        &["get", "s"],
        &["list"],
    ] {
        for extra in [&[][..], &["--json", "--log", "trace", "--log-file", &log]] {
            if words[0].starts_with("__") && !extra.is_empty() {
                continue;
            }
            let ran = scene.swb(&[words, extra].concat());
            assert!(!ran.to_snapshot().contains(CANARY), "{words:?}\n{}", ran.to_snapshot());
            assert_ne!(ran.code, 101, "{}", ran.to_snapshot());
        }
    }
    // The user's input is part of the server's result, which is shown, but it is not stored.
    let answers = scene.path("~/answers.json").display().to_string();
    let asked = scene.swb(&["call", "mcp__s__ask", "kind=elicitation", "--answers", &answers]);
    assert!(asked.expect_success().contains(CANARY), "{}", asked.to_snapshot());
    assert!(!asked.stderr.contains(CANARY), "{}", asked.stderr);
    let logged = scene.read("~/swb.log");
    for expected in
        ["call finished", "elicitation answered", "connecting", "not connected", "request sent"]
    {
        assert!(logged.contains(expected), "{expected} is not in the log:\n{logged}");
    }
    let kept = written_files(&scene);
    let is_there = |name: &str| kept.iter().any(|(path, _)| path.ends_with(name));
    assert!(is_there("audit.jsonl") && is_there("pins.json"), "{kept:?}");
    assert!(
        kept.iter().any(|(path, _)| path.extension().is_some_and(|it| it == "log")),
        "{kept:?}"
    );
    for (path, text) in &kept {
        assert!(!text.contains(CANARY), "{}\n{text}", path.display());
    }
    let digest = "sha256:";
    let audit = scene.read("~/.local/state/switchboard/audit.jsonl");
    assert!(audit.lines().count() > 15 && audit.contains(digest), "{audit}");
}
