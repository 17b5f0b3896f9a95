//! No output of any command shows a secret, whatever shape the configuration is in.

use crate::support::{USER, scene};

/// Every value that is secret holds this word, and nothing else does.
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
                for extra in [&[][..], &["--json"]] {
                    let arguments: Vec<&str> = command.iter().chain(extra).copied().collect();
                    let ran = scene.swb(&arguments);
                    let shown = ran.shown();
                    assert!(!shown.contains(CANARY), "{place} {arguments:?}\n{text}\n{shown}");
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
        assert!(!ran.shown().contains(CANARY), "{}", ran.shown());
    }
    assert!(scene.swb(&["policy", "why", "a"]).ok().contains("serverCommand x --token •••"));
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
        assert!(!ran.shown().contains(CANARY), "{}", ran.shown());
    }
}
