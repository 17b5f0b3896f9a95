//! `swb add-json`.

use std::io::Write;
use std::process::Stdio;

use crate::support::{USER, scene};

#[test]
fn an_entry_is_added_as_its_documentation_shows_it() {
    let scene = scene();
    scene
        .swb(&[
            "add-json",
            "-s",
            "user",
            "s",
            r#"{"command": "npx", "args": ["-y", "x"], "alwaysLoad": true}"#,
        ])
        .expect_success();
    insta::assert_snapshot!(scene.read(USER), @r#"
    {
      "mcpServers": {
        "s": {
          "command": "npx",
          "args": ["-y", "x"],
          "alwaysLoad": true
        }
      }
    }
    "#);
}

#[test]
fn unknown_keys_are_kept_with_a_warning() {
    let ran = scene().swb(&["add-json", "s", r#"{"command": "x", "alwaysLoad": true}"#]);
    assert_eq!(ran.stderr, "warning: unknown key, kept but without effect\n");
    ran.expect_success();
}

#[test]
fn a_whole_file_from_a_readme_works_too() {
    let scene = scene();
    scene
        .swb(&[
            "add-json",
            "-s",
            "user",
            "s",
            r#"{"mcpServers": {"other": {"type": "ws", "url": "wss://h/"}}}"#,
        ])
        .expect_success();
    assert!(scene.read(USER).contains("\"url\": \"wss://h/\""));
    let two = r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#;
    let ran = scene.swb(&["add-json", "c", two]);
    assert!(
        ran.expect_failure(2).contains("the JSON holds 2 servers, none of them named `c`"),
        "{}",
        ran.to_snapshot()
    );
    scene.swb(&["add-json", "-s", "user", "b", two]).expect_success();
}

#[test]
fn it_can_come_from_standard_input() {
    let scene = scene();
    let mut child = scene
        .command(&scene.project(), &["add-json", "-s", "user", "s", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program can be run");
    let mut stdin = child.stdin.take().expect("it has a standard input");
    stdin.write_all(br#"{"command": "x"}"#).expect("it listens");
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
    assert!(scene.read(USER).contains("\"command\": \"x\""));
}

#[test]
fn an_error_is_shown_with_its_position() {
    let scene = scene();
    insta::assert_snapshot!(scene.swb(&["add-json", "s", "{\"command\": \"x\" \"args\": []}"]).expect_failure(2), @r#"
    error: the entry is not JSON
    error: not valid JSON: expected comma
      --> the JSON given:1:16
       1 | {"command": "•" "args": []}
         |                ^
    "#);
    insta::assert_snapshot!(scene.swb(&["add-json", "s", r#"{"command": "x", "args": ["a", 5]}"#]).expect_failure(3), @r#"
    error: `s` cannot be added: its entry is invalid
    error: `s`, `args[1]`: expected a string, found a number
      --> the new entry:7:9
       7 |         5
         |         ^
    "#);
    for (json, code, said) in [
        ("[]", 2, "the entry is not a JSON object"),
        ("", 2, "the entry is not a JSON object"),
        (r#"{"type": "sdk"}"#, 3, "servers of type `sdk` are registered by a running program"),
        (
            r#"{"type": "ws-ide", "url": "ws://127.0.0.1:1/"}"#,
            3,
            "servers of type `ws-ide` are registered by a running program",
        ),
        (
            r#"{"type": "claudeai-proxy", "url": "https://h/"}"#,
            3,
            "servers of type `connector-proxy` are registered",
        ),
        (r#"{"command": "x", "url": "https://h/"}"#, 3, "has both `command` and `url`"),
        (
            r#"{"url": "https://h/"}"#,
            3,
            "hint: add `\"type\": \"http\"` (or `sse`, `ws`) to the entry",
        ),
        (
            r#"{"type": "grpc", "url": "https://h/"}"#,
            3,
            "hint: known types: stdio, http (or streamable-http), sse, ws",
        ),
        (
            r#"{"type": "http", "url": "https://h/", "oauth": {"authServerMetadataUrl": "http://as/"}}"#,
            3,
            "must be a URL that begins with `https://`",
        ),
    ] {
        let ran = scene.swb(&["add-json", "s", json]);
        assert!(ran.expect_failure(code).contains(said), "{json}\n{}", ran.to_snapshot());
    }
    assert!(!scene.home().join(".config").exists());
}
