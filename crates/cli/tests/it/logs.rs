//! `swb logs`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use testkit::{Quirk, Script, ScriptedProgram};

use crate::support::{USER, json, scene};

#[test]
fn standard_error_is_stored_and_shown_without_control_characters() {
    let scene = scene();
    let loud = r#"{"command": "sh", "args": ["-c", "printf 'one\\n\\033[2Jtwo\\n' >&2; exit 1"]}"#;
    let lines =
        ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::StderrLines { n: 500 }));
    scene.write_servers(USER, &format!("\"loud\": {loud}, \"lines\": {lines}"));
    scene.swb(&["ping", "loud"]);
    let shown = scene.swb(&["logs", "loud"]);
    let text = shown.expect_success();
    assert!(text.starts_with("one\n") && text.contains("[2Jtwo\n"), "{text}");
    assert!(!text.contains('\u{1b}') && text.contains("the program exited with code 1"), "{text}");
    scene.swb(&["ping", "lines"]).expect_success();
    let all = scene.swb(&["logs", "lines", "-n", "0"]);
    assert!(all.expect_success().lines().count() > 500, "{}", all.stdout.lines().count());
    assert_eq!(scene.swb(&["logs", "lines", "-n", "3"]).expect_success().lines().count(), 3);
    let some = json(&scene, &["logs", "lines", "-n", "2", "--json"]);
    assert_eq!(some["lines"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_missing_log_and_an_unknown_server_are_different_errors() {
    let scene = scene();
    scene.write_servers(USER, r#""quiet": {"command": "x"}"#);
    insta::assert_snapshot!(scene.swb(&["logs", "quiet"]).to_snapshot());
    insta::assert_snapshot!("unknown_server", scene.swb(&["logs", "nobody"]).expect_failure(5));
}

#[test]
fn a_log_can_be_followed() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    scene.swb(&["ping", "s"]).expect_success();
    let mut command = scene.command(&scene.project(), &["logs", "s", "-f", "-n", "1"]);
    let mut following = command.stdout(Stdio::piped()).spawn().expect("it can be started");
    let mut lines = BufReader::new(following.stdout.take().expect("it is piped")).lines();
    lines.next().expect("a first line").expect("text");
    scene.swb(&["ping", "s"]).expect_success();
    let next = lines.next().expect("a line that was added").expect("text");
    assert!(!next.is_empty());
    following.kill().expect("it can be killed");
    following.wait().expect("it ends");
}
