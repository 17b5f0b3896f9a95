//! `swb doctor`.

use serde_json::json;
use testkit::{Quirk, Script, ScriptedProgram, ScriptedServer};

use crate::support::{USER, json as json_of, scene};

#[test]
fn a_cause_comes_with_its_evidence_and_the_way_to_mend_it() {
    let mut scene = scene();
    let exits = r#"{"command": "sh", "args": ["-c", "echo 'ACME_TOKEN is not set' >&2; exit 4"]}"#;
    scene.write_servers(
        USER,
        &format!(r#""exits": {exits}, "gone": {{"command": "no-such-program"}}"#),
    );
    scene.set_env("ACME_TOKEN", "s3cret").set_env("PATH", "/usr/bin:/bin");
    let ran = scene.swb(&["doctor"]);
    assert_eq!(ran.code, 9);
    insta::assert_snapshot!(ran.to_snapshot());
    assert!(!ran.to_snapshot().contains("s3cret"));
}

#[test]
fn remote_servers_are_told_apart_by_what_is_wrong_with_them() {
    let scene = scene();
    let status = |status: u16, body: &str| Quirk::HttpStatus {
        status,
        body: body.to_owned(),
        headers: std::collections::BTreeMap::new(),
        after: 0,
        times: None,
    };
    let cases = [
        (status(403, "no"), "forbidden"),
        (status(404, "<html>"), "not-found"),
        (status(429, ""), "overloaded"),
        (status(500, "oops"), "server-error"),
        (status(503, "\u{1b}[2Jodd"), "server-error"),
        (Quirk::RequiresBearer { token: "t".to_owned() }, "needs-auth"),
        (Quirk::RedirectsTo { url: "http://127.0.0.1:9/mcp".to_owned() }, "redirected"),
    ];
    let served: Vec<ScriptedServer> = cases
        .iter()
        .map(|(quirk, _)| ScriptedServer::http(Script::legacy().quirk(quirk.clone())))
        .collect();
    let members: Vec<String> = served
        .iter()
        .enumerate()
        .map(|(index, it)| format!(r#""s{index}": {{"type": "http", "url": "{}"}}"#, it.url()))
        .collect();
    scene.write_servers(USER, &members.join(", "));
    let ran = scene.swb(&["doctor", "--json"]);
    assert!(!ran.stdout.contains('\u{1b}'));
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    assert_eq!(report["sick"], cases.len());
    for (index, (_, expected)) in cases.iter().enumerate() {
        let server = &report["servers"][index];
        assert_eq!(server["cause"]["id"], *expected, "{server}");
        assert!(server["cause"]["fix"].as_str().is_some_and(|fix| !fix.is_empty()));
    }
}

#[test]
fn what_is_well_is_said_to_be_well_and_a_detour_is_told() {
    let scene = scene();
    let older = ScriptedServer::sse(Script::legacy());
    let exits_on_probe =
        ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::ExitsOnProbe));
    scene.write_servers(
        USER,
        &format!(
            r#""older": {{"type": "http", "url": "{}"}}, "shy": {exits_on_probe}"#,
            older.url()
        ),
    );
    let text = scene.swb(&["doctor"]);
    let shown = text.expect_success();
    assert!(shown.contains("it refused streamable HTTP"), "{shown}");
    assert!(shown.contains("was restarted; this is remembered"), "{shown}");
    assert!(shown.ends_with("\n2 servers, no problems.\n"), "{shown}");
    let again = json_of(&scene, &["doctor", "shy", "--json"]);
    assert_eq!(again["servers"][0]["detour"], json!(null), "it is remembered");
}

#[test]
fn what_may_not_run_is_named_and_not_tried() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""theirs": {"command": "touch", "args": ["ran"]}"#);
    let ran = scene.swb(&["doctor"]);
    assert!(ran.expect_success().contains("swb approve theirs"), "{}", ran.to_snapshot());
    assert!(!scene.path("ran").exists());
}
