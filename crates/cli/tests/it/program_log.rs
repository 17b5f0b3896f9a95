//! `--log`, `--log-file` and `SWB_LOG`: what is logged and where, and that the log contains no secret.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use testkit::{Sandbox, Script, ScriptedProgram, ScriptedServer, Size, Terminal};

use crate::http_gateway::{GatewayClient, HttpGateway, LegacySession, write_token_file};
use crate::serve::StdioClient;
use crate::support::{USER, scene, wait_for};

const TOKEN: &str = "token-canary-0123456789abcdef0123";
const LOG: &str = "~/own/swb.log";

/// A sandbox with a server that works and one that cannot be started.
fn scene_with_two() -> Sandbox {
    let scene = scene();
    let good = ScriptedProgram::config_entry(&Script::legacy());
    let servers = format!(r#""good": {good}, "gone": {{"command": "no-such-program"}}"#);
    let rules = r#"{"allow": ["mcp__good"], "deny": ["mcp__good__echo(text=no)"]}"#;
    scene.write(USER, &format!(r#"{{"permissions": {rules}, "mcpServers": {{{servers}}}}}"#));
    scene
}

/// The distinct levels of a log, in order.
fn levels(log: &str) -> Vec<&str> {
    let mut levels: Vec<&str> =
        log.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

fn mode(scene: &Sandbox, path: &str) -> u32 {
    fs::metadata(scene.path(path)).expect("a file").permissions().mode() & 0o777
}

#[test]
fn nothing_is_logged_by_default() {
    let scene = scene_with_two();
    let ran = scene.swb(&["call", "mcp__good__echo", "text=x"]);
    ran.expect_success();
    assert_eq!(ran.stderr, "");
    assert!(!scene.path("~/.local/state/switchboard/swb.log").exists());
}

#[test]
fn a_level_selects_events_and_the_option_wins_over_the_variable() {
    let mut scene = scene_with_two();
    let stderr = |scene: &Sandbox, options: &[&str]| {
        scene.swb(&[options, &["status", "--json"]].concat()).stderr
    };
    assert_eq!(levels(&stderr(&scene, &["--log", "warn"])), ["WARN"]);
    assert_eq!(levels(&stderr(&scene, &["--log", "info"])), ["INFO", "WARN"]);
    assert_eq!(levels(&stderr(&scene, &["--log", "trace"])), ["DEBUG", "INFO", "TRACE", "WARN"]);
    assert_eq!(stderr(&scene, &["--log", "off"]), "");
    scene.set_env("SWB_LOG", "wire=info,off");
    let wire_only = stderr(&scene, &[]);
    assert!(!wire_only.is_empty(), "the wire crate logs connections");
    assert!(wire_only.lines().all(|it| it.contains(" INFO  switchboard_wire::")), "{wire_only}");
    // The span of a connection names its server, if the filter enables the level of `host`.
    scene.set_env("SWB_LOG", "info");
    let opened = stderr(&scene, &[]);
    let opened = opened.lines().find(|it| it.contains("connection opened")).expect("an event");
    assert!(opened.ends_with("connection opened transport=stdio server=good"), "{opened}");
    assert_eq!(levels(&stderr(&scene, &["--log", "error"])), [""; 0]);
}

#[test]
fn an_invalid_filter_names_its_bad_part_and_shows_good_ones() {
    let mut scene = scene();
    insta::assert_snapshot!(scene.swb(&["list", "--log", "gates=debug,info"]).to_snapshot(), @"
    exit: 2
    --- stderr
    error: --log: `gates` is not a part of this program: auth, chat, cli, gateway, host, share, wire, or a module path

    hint: for example `--log debug`, `--log gateway=trace,info` or `--log switchboard::connection=debug`; the levels are off, error, warn, info, debug and trace
    ");
    scene.set_env("SWB_LOG", "loud");
    insta::assert_snapshot!(scene.swb(&["list"]).to_snapshot(), @"
    exit: 2
    --- stderr
    error: SWB_LOG: `loud` is not a level

    hint: for example `--log debug`, `--log gateway=trace,info` or `--log switchboard::connection=debug`; the levels are off, error, warn, info, debug and trace
    ");
}

#[test]
fn a_log_file_is_private_and_the_terminal_stays_quiet() {
    let scene = scene_with_two();
    let path = scene.path(LOG).display().to_string();
    let ran = scene.swb(&["call", "mcp__good__echo", "text=x", "--log-file", &path]);
    ran.expect_success();
    assert_eq!(ran.stderr, "");
    assert_eq!(mode(&scene, LOG), 0o600);
    assert_eq!(mode(&scene, "~/own"), 0o700);
    let first = scene.read(LOG);
    assert!(
        first.contains(" INFO  switchboard::connection::actor: connected server=good"),
        "{first}"
    );
    scene.swb(&["call", "mcp__good__echo", "text=x", "--log", "debug", "--log-file", &path]);
    let both = scene.read(LOG);
    assert!(both.starts_with(&first), "a second run appends");
    assert!(both.contains("rules evaluated server=good tool=echo verdict=allow"), "{both}");
    assert!(both.contains("call finished caller=cli server=good tool=echo"), "{both}");
    scene.swb(&["call", "mcp__good__echo", "text=no", "--log-file", &path]).expect_failure(4);
    let denied = "call denied caller=cli server=good tool=echo because=\"the deny rule `mcp__good__echo(text=no)`";
    assert!(scene.read(LOG).contains(denied), "{}", scene.read(LOG));
    let ran = scene.swb(&["list", "--log-file", &scene.home().display().to_string()]);
    assert!(
        ran.expect_failure(1).contains("the log file [ROOT]/person cannot be opened"),
        "{}",
        ran.stderr
    );
}

#[test]
fn serve_prints_only_warnings_by_default() {
    let scene = scene_with_two();
    for (options, expected) in [(&[][..], &["WARN"][..]), (&["--log", "off"], &[])] {
        let mut raw = StdioClient::legacy(&scene, &[&["--pool"], options].concat());
        // The list waits until both servers were tried.
        raw.request("tools/list", json!({}));
        raw.input = None;
        let (code, stderr) = raw.wait_exit();
        assert_eq!(code, Some(0));
        let (notes, log): (Vec<&str>, Vec<&str>) =
            stderr.lines().partition(|it| it.starts_with("note: "));
        assert_eq!(
            notes,
            ["note: 1 of 2 servers are served; missing: gone (its program was not found)"]
        );
        assert_eq!(levels(&log.join("\n")), expected, "{stderr}");
        assert_eq!(stderr.contains("not connected; `swb doctor`"), !expected.is_empty());
    }
}

#[test]
fn the_log_of_a_gateway_has_sessions_and_refusals_and_no_secret() {
    let remote = ScriptedServer::http(Script::modern());
    let scene = scene();
    let url = remote.url().replace("http://", "http://user-canary:password-canary@");
    let local: serde_json::Value =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    let mut servers = json!({
        "remote": {
            "type": "http", "url": format!("{url}?key=query-canary"),
            "headers": {"Authorization": "Bearer header-canary", "X-Key": "header-canary"},
        },
        "local": local,
    });
    servers["local"]["env"]["API_TOKEN"] = json!("variable-canary");
    scene.write(USER, &json!({"mcpServers": servers}).to_string());
    let log = scene.path(LOG).display().to_string();
    let tokens = write_token_file(&scene, &[("ada", TOKEN)]);
    let options = ["--token-file", &tokens, "--log", "trace", "--log-file", &log];
    let gateway = HttpGateway::start_pool(&scene, &options);
    let session = LegacySession::initialize(&gateway, Some(TOKEN));
    let clients = [
        GatewayClient::Legacy(&session),
        GatewayClient::Modern { gateway: &gateway, token: Some(TOKEN) },
    ];
    for client in clients {
        for server in ["local", "remote"] {
            let name = format!("mcp__{server}__echo");
            let output = client.call(&name, json!({"text": "argument-canary"}));
            assert!(output.to_string().contains("argument-canary"), "{output}");
        }
    }
    // A method name with terminal control characters.
    GatewayClient::Legacy(&session).request("\u{1b}[2Jx", json!({}));
    let refused = gateway.request(Some("wrong-canary"), "tools/list", json!({}));
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    let session_id = session.id().to_owned();
    session.end();
    gateway.terminate();
    let logged = scene.read(LOG);
    for expected in [
        "HTTP server started address=127.0.0.1:",
        "session opened principal=ada session=",
        "reason=\"closed by the client\"",
        "client rejected reason=token cause=\"the token is unknown\"",
        "request answered principal=ada",
        "method=tools/call",
        "call finished caller=ada server=remote tool=echo",
        "HTTP connection opened host=127.0.0.1",
        "method=\"\\u{1b}[2Jx\"",
    ] {
        assert!(logged.contains(expected), "{expected} is not in the log:\n{logged}");
    }
    assert!(!logged.contains("canary"), "{logged}");
    assert!(!logged.contains(&session_id), "{logged}");
    assert!(!logged.chars().any(|c| c.is_control() && c != '\n'), "{logged}");
}

#[test]
fn the_screen_logs_to_its_file_and_not_to_the_terminal() {
    let scene = scene_with_two();
    let mut command = scene.command(&scene.project(), &["--log", "debug"]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::with_size(&command, Size::STANDARD);
    terminal.wait_for_screen("1/2 servers (not: gone)");
    let shown = terminal.stable_screen();
    assert!(!shown.contains("switchboard::"), "{shown}");
    terminal.send_keys("\x03").wait_for_screen("Ctrl-C again quits").send_keys("\x03");
    let (code, output) = terminal.wait_for_exit();
    assert_eq!(code, 0);
    assert!(!output.contains("switchboard::"), "{output}");
    let log = "~/.local/state/switchboard/swb.log";
    wait_for(|| scene.path(log).exists());
    let logged = scene.read(log);
    assert!(logged.contains("connected server=good"), "{logged}");
    assert!(logged.contains("not connected; `swb doctor` shows the cause server=gone"), "{logged}");
    assert_eq!(mode(&scene, log), 0o600);
}
