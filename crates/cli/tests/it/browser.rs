//! `--browser` and the browser server in commands.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::json;
use testkit::model_service::Reply;
use testkit::{Sandbox, Size, Terminal};

use crate::sdk_frames::{Frames, with_model};
use crate::support::{USER, program, scene};

/// A site of one page, on a port of this machine.
fn site() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let Ok(copy) = stream.try_clone() else { return };
                let mut lines = BufReader::new(copy).lines();
                while let Some(Ok(first)) = lines.next() {
                    while lines.next().is_some_and(|it| it.is_ok_and(|it| !it.is_empty())) {}
                    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
                    let body = format!(
                        "<title>Site {path}</title><button onclick=\"document.title='pressed'\">Press me</button>"
                    );
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
                        body.len()
                    );
                    if stream.write_all((head + &body).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// A sandbox whose programs find Chromium.
fn browser_scene() -> Sandbox {
    let mut scene = scene();
    let path = std::env::var("PATH").expect("a path");
    scene.set_env("PATH", &path);
    scene
}

#[test]
fn a_command_opens_a_page_without_a_question() {
    let (scene, port) = (browser_scene(), site());
    let origins = format!("--browser-origins=127.0.0.1:{port}");
    let url = format!("url=http://127.0.0.1:{port}/");
    let ran = scene.swb(&["call", "mcp__browser__navigate", &url, "--browser", &origins]);
    assert_eq!(ran.code, 0, "{}", ran.to_snapshot());
    assert!(ran.stdout.contains("\"Site /\" (200)"), "{}", ran.to_snapshot());
    // Nothing but the named host of this machine is reached.
    let other = format!("url=http://localhost:{port}/");
    let ran = scene.swb(&["call", "mcp__browser__navigate", &other, "--chrome", &origins]);
    assert_ne!(ran.code, 0);
    assert!(ran.to_snapshot().contains("the user has not allowed it"), "{}", ran.to_snapshot());
    let ran = scene.swb(&["list", "--browser"]);
    assert!(ran.stdout.contains("browser"), "{}", ran.to_snapshot());
    assert!(!scene.swb(&["list"]).stdout.contains("browser"));
}

#[test]
fn scripts_uploads_and_saving_need_a_permission_alone_and_in_a_batch() {
    let (scene, port) = (browser_scene(), site());
    let origins = format!("--browser-origins=127.0.0.1:{port}");
    let navigate =
        json!({"tool": "navigate", "arguments": {"url": format!("http://127.0.0.1:{port}/")}});
    let batch = |second: serde_json::Value| format!("steps:={}", json!([navigate, second]));
    let check = |tool: &str, arguments: &str, expected: Result<&str, &str>| {
        let ran = scene.swb(&[
            "call",
            &format!("mcp__browser__{tool}"),
            arguments,
            "--browser",
            &origins,
        ]);
        match expected {
            Ok(text) => {
                assert_eq!(ran.code, 0, "{}", ran.to_snapshot());
                assert!(ran.stdout.contains(text), "{}", ran.to_snapshot());
            }
            Err(text) => {
                assert_ne!(ran.code, 0, "{}", ran.to_snapshot());
                assert!(ran.to_snapshot().contains(text), "{}", ran.to_snapshot());
            }
        }
    };
    check("evaluate", "script=1", Err("no matching rule"));
    check("upload", "paths:=[\"x\"]", Err("no matching rule"));
    check("downloads", "action=list", Ok("no downloads"));
    let save = scene.swb(&[
        "call",
        "mcp__browser__downloads",
        "action=save",
        "id:=1",
        "--browser",
        &origins,
    ]);
    assert!(save.to_snapshot().contains("no matching rule"), "{}", save.to_snapshot());
    check(
        "batch",
        &batch(json!({"tool": "find", "arguments": {"role": "button"}})),
        Ok("button \"Press me\""),
    );
    check(
        "batch",
        &batch(json!({"tool": "evaluate", "arguments": {"script": "document.title"}})),
        Err("no matching rule"),
    );
    // A rule against one tool holds inside a batch.
    scene.write(
        USER,
        r#"{"permissions": {"deny": ["mcp__browser__find"], "allow": ["mcp__browser__evaluate"]}}"#,
    );
    check(
        "batch",
        &batch(json!({"tool": "find", "arguments": {"role": "button"}})),
        Err("deny rule `mcp__browser__find`"),
    );
    check(
        "batch",
        &batch(json!({"tool": "evaluate", "arguments": {"script": "document.title"}})),
        Ok("Site /"),
    );
}

#[test]
fn a_setting_gives_every_command_the_browser_and_its_limits() {
    let (scene, port) = (browser_scene(), site());
    let settings = json!({"browser": {"enabled": true, "origins": [format!("127.0.0.1:{port}")], "scripts": false}});
    scene.write(USER, &settings.to_string());
    let url = format!("url=http://127.0.0.1:{port}/set");
    let ran = scene.swb(&["call", "mcp__browser__navigate", &url]);
    assert_eq!(ran.code, 0, "{}", ran.to_snapshot());
    assert!(ran.stdout.contains("\"Site /set\" (200)"), "{}", ran.to_snapshot());
    let tools = scene.swb(&["tools", "browser"]);
    assert!(
        tools.stdout.contains("read_page") && !tools.stdout.contains("evaluate"),
        "{}",
        tools.to_snapshot()
    );
    scene.write(USER, r#"{"browser": {"enabled": true, "blocked": ["a b"]}}"#);
    let ran = scene.swb(&["tools", "browser"]);
    assert_ne!(ran.code, 0);
    assert!(ran.to_snapshot().contains("`a b` is not an origin"), "{}", ran.to_snapshot());
}

#[test]
fn a_prompt_a_program_and_a_conversation_use_the_browser_without_a_question() {
    let port = site();
    let url = format!("http://127.0.0.1:{port}/said");
    let navigate = || crate::sdk_frames::call("t1", "mcp__browser__navigate", &json!({"url": url}));
    let path = std::env::var("PATH").expect("a path");
    let origins = format!("--browser-origins=127.0.0.1:{port}");
    // A prompt.
    let (mut scene, service) = with_model([navigate(), Reply::text("done")]);
    scene.set_env("PATH", &path);
    let ran = scene.swb(&["-p", "open it", "--browser", &origins]);
    assert_eq!(ran.expect_success(), "done\n");
    let sent = service.request_body(1)["messages"].to_string();
    assert!(sent.contains("Site /said"), "{sent}");
    // A program, where only a setting asks for the browser.
    let (mut scene, service) = with_model([navigate(), Reply::text("done")]);
    scene.set_env("PATH", &path);
    let settings = json!({"browser": {"enabled": true, "origins": [format!("127.0.0.1:{port}")]}});
    scene.write(USER, &settings.to_string());
    let mut session = Frames::start(&scene, &[]);
    session.initialize(json!({}));
    session.wait_for_server("browser connected");
    session.say("open it");
    session.until(|it| it["type"] == "result");
    let sent = service.request_body(1)["messages"].to_string();
    assert!(sent.contains("Site /said"), "{sent}");
    session.finish();
    // A conversation.
    let scene = browser_scene();
    let mut command = scene.command(&scene.project(), &["--browser", &origins]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::with_size(&command, Size::STANDARD);
    terminal.wait_for_screen("1/1 server");
    terminal
        .send_keys(&format!("/call mcp__browser__navigate url={url}\r"))
        .wait_for_screen("\"Site /said\" (200)");
}

#[test]
fn a_profile_keeps_cookies_and_a_running_browser_is_used() {
    let (scene, port) = (browser_scene(), site());
    let origins = format!("--browser-origins=127.0.0.1:{port}");
    let url = format!("url=http://127.0.0.1:{port}/");
    let navigate = |options: &[&str]| {
        let call = ["call", "mcp__browser__navigate", &url, "--browser", &origins];
        scene.swb(&[&call[..], options].concat())
    };
    let ran = navigate(&["--browser-profile", "work"]);
    assert!(ran.expect_success().contains("\"Site /\" (200)"), "{}", ran.to_snapshot());
    let profile = scene.path("~/.local/share/switchboard/browser/profiles/work");
    assert!(profile.is_dir(), "{}", profile.display());
    let ran = navigate(&["--browser-profile", "../work"]);
    assert_ne!(ran.code, 0);
    assert!(ran.to_snapshot().contains("is not the name of a profile"), "{}", ran.to_snapshot());
    let ran = navigate(&["--cdp-endpoint", "http://127.0.0.1:1"]);
    assert_ne!(ran.code, 0);
    assert!(
        ran.to_snapshot().contains("no browser answers at http://127.0.0.1:1"),
        "{}",
        ran.to_snapshot()
    );
    let folder = tempfile::tempdir().expect("a folder");
    let mut program = Command::new("setpriv");
    program.args(["--pdeathsig", "KILL", "chromium-headless-shell", "--headless", "--no-sandbox"]);
    program.args(["--disable-gpu", "--remote-debugging-port=0"]);
    program.arg(format!("--user-data-dir={}", folder.path().display()));
    let mut running =
        program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a browser");
    let stderr = BufReader::new(running.stderr.take().expect("it is piped"));
    let line = stderr.lines().map_while(Result::ok).find(|it| it.contains("DevTools listening on"));
    let socket = line.expect("an address").split(' ').next_back().expect("an address").to_owned();
    let ran = navigate(&["--cdp-endpoint", &socket]);
    assert!(ran.expect_success().contains("\"Site /\" (200)"), "{}", ran.to_snapshot());
    assert!(running.try_wait().expect("a state").is_none(), "it still runs");
    running.kill().expect("it runs");
    running.wait().expect("it ends");
}

#[test]
fn what_an_administrator_sets_holds_against_options() {
    let (scene, port) = (browser_scene(), site());
    let managed = |browser: serde_json::Value| {
        scene.write("managed/managed-settings.json", &json!({"browser": browser}).to_string());
    };
    let url = format!("url=http://127.0.0.1:{port}/");
    let origins = format!("--browser-origins=127.0.0.1:{port}");
    let navigate = || scene.swb(&["call", "mcp__browser__navigate", &url, "--browser", &origins]);
    managed(json!({"enabled": false}));
    let ran = navigate();
    assert_ne!(ran.code, 0, "{}", ran.to_snapshot());
    assert!(!ran.to_snapshot().contains("Site /"), "{}", ran.to_snapshot());
    managed(json!({"origins": ["example.org"], "scripts": false}));
    let ran = navigate();
    assert_ne!(ran.code, 0, "{}", ran.to_snapshot());
    assert!(ran.to_snapshot().contains("the user has not allowed it"), "{}", ran.to_snapshot());
    let tools = scene.swb(&["tools", "browser", "--browser"]);
    assert!(tools.expect_success().contains("navigate"), "{}", tools.to_snapshot());
    assert!(!tools.stdout.contains("evaluate"), "{}", tools.to_snapshot());
}

#[test]
fn an_entry_with_the_other_name_adds_the_server_without_its_permissions() {
    let (scene, port) = (browser_scene(), site());
    let entry =
        r#"{"mcpServers": {"claude-in-chrome": {"type": "sdk", "name": "claude-in-chrome"}}}"#;
    let origins = format!("--browser-origins=127.0.0.1:{port}");
    let url = format!("url=http://127.0.0.1:{port}/");
    scene.write(USER, &json!({"browser": {"origins": [format!("127.0.0.1:{port}")]}}).to_string());
    let call = |more: &[&str]| {
        let call = ["--mcp-config", entry, "call", "mcp__claude-in-chrome__navigate", &url];
        scene.swb(&[&call[..], more].concat())
    };
    let ran = call(&[]);
    assert_ne!(ran.code, 0, "{}", ran.to_snapshot());
    assert!(ran.to_snapshot().contains("no matching rule"), "{origins} {}", ran.to_snapshot());
    let ran = call(&["--mode", "bypass"]);
    assert!(ran.expect_success().contains("\"Site /\" (200)"), "{}", ran.to_snapshot());
}

#[test]
fn a_server_of_a_user_cannot_take_the_names() {
    let scene = scene();
    for name in ["browser", "claude-in-chrome"] {
        let ran = scene.swb(&["add", name, "--", "true"]);
        assert_ne!(ran.code, 0, "{}", ran.to_snapshot());
        assert!(ran.stderr.contains("reserved for a built-in server"), "{}", ran.to_snapshot());
    }
}

#[test]
fn a_gateway_serves_the_browser_with_the_pool_and_with_the_workspace() {
    let (scene, port) = (browser_scene(), site());
    let origins = format!("--browser-origins=127.0.0.1:{port}");
    for more in [&["--pool"][..], &[]] {
        let command = program().display().to_string();
        let arguments: Vec<&str> =
            ["serve", "--browser", &origins].into_iter().chain(more.iter().copied()).collect();
        let outer =
            json!({"mcpServers": {"inner": {"command": command, "args": arguments}}}).to_string();
        let tools = scene.swb(&["tools", "inner", "--mcp-config", &outer]);
        let name = tools
            .stdout
            .split_whitespace()
            .find(|it| it.ends_with("navigate"))
            .unwrap_or_else(|| panic!("{}", tools.to_snapshot()));
        let name = if name.starts_with("mcp__inner") {
            name.to_owned()
        } else {
            format!("mcp__inner__{name}")
        };
        let url = format!("url=http://127.0.0.1:{port}/gateway");
        let ran = scene.swb(&["call", &name, &url, "--mcp-config", &outer, "--mode", "bypass"]);
        assert_eq!(ran.code, 0, "{}", ran.to_snapshot());
        assert!(ran.stdout.contains("\"Site /gateway\" (200)"), "{}", ran.to_snapshot());
    }
}

#[test]
fn doctor_says_what_is_missing_and_which_package_has_it() {
    let mut scene = scene();
    scene.set_env("PATH", "/nowhere");
    let ran = scene.swb(&["doctor", "browser"]);
    assert_eq!(ran.code, 7, "{}", ran.to_snapshot());
    assert!(
        ran.stdout.starts_with("missing  browser: no Chromium was found in PATH\n"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("install the package chromium-headless-shell"), "{}", ran.stdout);
    let ran = scene.swb(&["doctor", "claude-in-chrome", "--json", "--browser-window"]);
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(found["browser"][1]["name"], "screen");
    assert_eq!(found["browser"][1]["state"], "missing");
    let scene = browser_scene();
    let ran = scene.swb(&["doctor", "browser"]);
    assert_eq!(ran.code, 0, "{}", ran.to_snapshot());
    assert!(
        ran.stdout.starts_with("ok       browser: /usr/bin/chromium-headless-shell"),
        "{}",
        ran.stdout
    );
}
