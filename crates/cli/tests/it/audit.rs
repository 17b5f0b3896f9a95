//! `swb audit`.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::Value as Json;
use testkit::processes::wait_until;
use testkit::{Sandbox, Script, ScriptedProgram};

use crate::approvals::GatewayProcess;
use crate::support::{USER, json, scene};

const LOG: &str = "~/.local/state/switchboard/audit.jsonl";
const MANAGED: &str = "managed/managed-settings.json";

/// Redirects the audit log to a disk that is always full.
fn fill_disk(scene: &Sandbox) {
    let log = scene.path(LOG);
    fs::create_dir_all(log.parent().expect("a folder")).expect("made");
    symlink("/dev/full", &log).expect("a link");
}

/// A server whose tools need no permission.
fn add_trusted_server(scene: &Sandbox) {
    let mut entry: Json =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    entry["trust"] = true.into();
    scene.write_servers(USER, &format!("\"s\": {entry}"));
}

#[test]
fn the_last_calls_are_listed_and_filtered_by_server_or_outcome() {
    let scene = scene();
    assert_eq!(scene.swb(&["audit"]).expect_success(), "No calls.\n");
    let line = |server: &str, outcome: &str| {
        format!(
            r#"{{"time":"2026-11-16T00:00:00Z","caller":"cli","server":"{server}","tool":"t\u001b[2J","exposed":"mcp__{server}__t","arguments":"sha256:0","decision":"allow","because":"a rule","durationMs":5,"outcome":"{outcome}"}}"#
        )
    };
    let log = [line("a", "ok"), line("b", "tool-error"), "damaged".to_owned(), line("b", "ok")]
        .join("\n");
    scene.write("~/.local/state/switchboard/audit.jsonl", &log);
    insta::assert_snapshot!(scene.swb(&["audit"]).expect_success());
    assert_eq!(
        scene.swb(&["audit", "--server", "b", "--outcome", "ok"]).expect_success().lines().count(),
        2
    );
    assert_eq!(scene.swb(&["audit", "--caller", "cli"]).expect_success().lines().count(), 4);
    assert_eq!(scene.swb(&["audit", "--caller", "ada"]).expect_success(), "No calls.\n");
    assert_eq!(scene.swb(&["audit", "-n", "1"]).expect_success().lines().count(), 2);
    assert!(!scene.swb(&["audit", "--json"]).expect_success().contains('\u{1b}'));
}

#[test]
fn under_managed_settings_a_call_that_cannot_be_recorded_does_not_run() {
    let scene = scene();
    add_trusted_server(&scene);
    fill_disk(&scene);
    let call = ["call", "mcp__s__echo", "text=hello"];
    let ran = scene.swb(&call);
    assert_eq!(ran.expect_success(), "hello\n");
    let warning =
        format!("warning: 1 call is not in the audit log: {LOG} could not be written: No");
    assert!(ran.stderr.contains(&warning), "{}", ran.to_snapshot());
    scene.write(MANAGED, r#"{"permissions": {"deny": ["mcp__other"]}}"#);
    insta::assert_snapshot!(scene.swb(&call).expect_failure(4));
    scene.write(MANAGED, r#"{"audit": {"unrecordedCalls": "allow"}}"#);
    assert_eq!(scene.swb(&call).expect_success(), "hello\n");
    fs::remove_file(scene.path(LOG)).expect("only the link");
    scene.write(MANAGED, r#"{"audit": {"unrecordedCalls": "refuse"}}"#);
    let ran = scene.swb(&call);
    assert_eq!(ran.expect_success(), "hello\n");
    assert_eq!(ran.stderr, "", "{}", ran.to_snapshot());
    let calls = json(&scene, &["audit", "--json"]);
    let outcomes: Vec<_> =
        calls["calls"].as_array().expect("a list").iter().map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, ["ok"], "the start of a call is shown only until its end is recorded");
    let lines = fs::read_to_string(scene.path(LOG)).expect("a file");
    assert_eq!(lines.lines().count(), 2, "the start and the end: {lines}");
}

#[test]
fn a_gateway_reports_unrecorded_and_refused_calls() {
    for (settings, status, said, result) in [
        ("allow", "200 ", "calls are not recorded", r#""text":"hello""#),
        ("refuse", "503 ", "calls are refused", r#""isError":true"#),
    ] {
        let scene = scene();
        scene.write(MANAGED, &format!(r#"{{"audit": {{"unrecordedCalls": "{settings}"}}}}"#));
        fill_disk(&scene);
        let gateway = GatewayProcess::start(&scene, &["--mode", "bypass"]);
        let is_ready = || gateway.get("/readyz").contains("ready\n").then_some(());
        wait_until(Duration::from_secs(20), "it is ready", is_ready);
        let response = gateway.call("hello").join().expect("it answers");
        assert!(response.contains(result), "{response}");
        assert!(!response.contains("audit.jsonl"), "{response}");
        let ready = wait_until(Duration::from_secs(20), "it says so", || {
            let ready = gateway.get("/readyz");
            ready.contains("audit log").then_some(ready)
        });
        assert!(ready.contains(said) && ready.contains(&format!("HTTP/1.1 {status}")), "{ready}");
        let metrics = gateway.get("/metrics");
        assert!(metrics.contains("\nswitchboard_audit_log_writable 0\n"), "{metrics}");
        assert!(!metrics.contains("switchboard_audit_records_lost_total 0\n"), "{metrics}");
        let stderr = gateway.end();
        let warning = "warning: the audit log cannot be written, so calls ";
        assert_eq!(stderr.matches(warning).count(), 1, "{stderr}");
    }
}

#[test]
fn a_flood_of_calls_cannot_remove_records_that_are_younger_than_the_floor() {
    let scene = scene();
    add_trusted_server(&scene);
    scene.write(MANAGED, r#"{"audit": {"unrecordedCalls": "allow", "maxMegabytes": 1}}"#);
    let call = ["call", "mcp__s__echo", "text=hello"];
    scene.swb(&call).expect_success();
    let first = fs::read_to_string(scene.path(LOG)).expect("a file");
    let flood = first.repeat((1024 * 1024 - 50) / first.len());
    fs::write(scene.path(LOG), flood).expect("written");
    let ran = scene.swb(&call);
    assert_eq!(ran.expect_success(), "hello\n");
    assert!(ran.stderr.contains("the log has reached 1 MB"), "{}", ran.to_snapshot());
    let stored = json(&scene, &["audit", "-n", "0", "--json"]);
    assert!(stored["calls"].as_array().is_some_and(|it| it.len() > 1000), "no record is removed");
}

#[test]
fn a_signed_chain_is_verified_and_a_change_is_found() {
    let scene = scene();
    let entry = ScriptedProgram::config_entry(&Script::modern().name("one"));
    scene.write(
        USER,
        &format!("{{\"audit\": {{\"chain\": \"signed\"}}, \"mcpServers\": {{\"one\": {entry}}}}}"),
    );
    let unsigned = scene.swb(&["audit", "verify"]);
    assert!(unsigned.expect_success().contains("has no chain"), "{}", unsigned.stdout);
    for text in ["a", "b", "c"] {
        let text = format!("text={text}");
        scene.swb(&["call", "mcp__one__echo", &text, "--mode", "bypass"]).expect_success();
    }
    let ok = scene.swb(&["audit", "verify"]);
    assert!(ok.expect_success().starts_with("3 records in the chain, with signatures\nlast: 3:"));
    assert!(ok.stdout.ends_with("\nok\n"), "{}", ok.stdout);
    let key = scene.swb(&["audit", "key"]).expect_success().trim().to_owned();
    let log = scene.path(LOG);
    let text = std::fs::read_to_string(&log).expect("the log");
    let anchor = json(&scene, &["audit", "verify", "--json"])["last"].clone();
    let anchor = format!("{}:{}", anchor["number"], anchor["digest"].as_str().expect("a digest"));
    std::fs::write(&log, text.replacen("\"ok\"", "\"denied\"", 1)).expect("written");
    let changed = scene.swb(&["audit", "verify"]);
    assert_eq!(changed.code, 1, "{}", changed.stdout);
    assert!(changed.stdout.contains(":2: record 1 was changed"), "{}", changed.stdout);
    let json: Json =
        serde_json::from_str(&scene.swb(&["audit", "verify", "--json"]).stdout).expect("JSON");
    assert!(!json["problems"].as_array().expect("a list").is_empty());
    assert_eq!(json["error"]["exit"], 1);
    // Elsewhere, with the public key and a record that was noted before.
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(&log, format!("{}\n", lines[..2].join("\n"))).expect("written");
    let log = log.display().to_string();
    let shorter =
        scene.swb(&["audit", "verify", "--file", &log, "--key", &key, "--anchor", &anchor]);
    assert!(shorter.stdout.contains("record 3 is missing"), "{}", shorter.to_snapshot());
    assert!(shorter.stdout.contains("record 3 is not the one"), "{}", shorter.to_snapshot());
    let usage = scene.swb(&["audit", "verify", "--anchor", "3"]);
    assert_eq!(usage.code, 2);
}
