//! `swb doctor`.

use serde_json::json;

use testkit::{CommandOutput, Cursors, Quirk, Script, ScriptedProgram, ScriptedServer};

use crate::support::{USER, json as json_of, scene};

/// The report of a run that ended with this code.
#[track_caller]
fn expect_exit(ran: &CommandOutput, code: i32) -> &str {
    assert_eq!(ran.code, code, "{}", ran.to_snapshot());
    &ran.stdout
}

#[test]
fn a_failure_is_shown_with_evidence_and_a_remedy() {
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
fn failures_of_remote_servers_are_distinguished() {
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
    assert_eq!(
        (&report["verdict"], &report["counts"]["trouble"]),
        (&json!("trouble"), &json!(cases.len()))
    );
    for (index, (_, expected)) in cases.iter().enumerate() {
        let server = &report["servers"][index];
        assert_eq!(server["cause"]["id"], *expected, "{server}");
        assert!(server["cause"]["fix"].as_str().is_some_and(|fix| !fix.is_empty()));
    }
}

#[test]
fn a_healthy_server_is_reported_with_its_fallback() {
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
fn a_server_that_waits_for_approval_needs_attention_and_is_not_started() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""theirs": {"command": "touch", "args": ["ran"]}"#);
    let ran = scene.swb(&["doctor"]);
    let shown = expect_exit(&ran, 1);
    assert!(shown.contains("swb approve theirs"), "{}", ran.to_snapshot());
    assert!(shown.ends_with("\n1 server: 1 needs attention.\n"), "{shown}");
    assert!(!scene.path("ran").exists());
    let ran = scene.swb(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    assert_eq!((ran.code, &report["verdict"]), (1, &json!("attention")));
    assert_eq!(report["servers"][0]["verdict"], "attention");
}

#[test]
fn what_a_connected_server_does_wrong_has_a_verdict() {
    let scene = scene();
    let server = |quirk: Quirk| ScriptedProgram::config_entry(&Script::legacy().quirk(quirk));
    let loops = server(Quirk::EndlessPages { cursors: Cursors::Same });
    let fails = server(Quirk::FailsToolList);
    let invalid = server(Quirk::BadToolSchema);
    scene.write_servers(USER, &format!(r#""loops": {loops}"#));
    let ran = scene.swb(&["doctor"]);
    assert!(
        expect_exit(&ran, 1).contains("  attention: the pages of tools go round in a circle\n"),
        "{}",
        ran.to_snapshot()
    );
    scene.write_servers(USER, &format!(r#""invalid": {invalid}"#));
    let ran = scene.swb(&["doctor"]);
    assert!(expect_exit(&ran, 1).contains("  attention: the tool `"), "{}", ran.to_snapshot());
    scene.write_servers(USER, &format!(r#""loops": {loops}, "fails": {fails}"#));
    let ran = scene.swb(&["doctor"]);
    let shown = expect_exit(&ran, 10);
    assert!(shown.contains("  trouble: tools could not be listed: "), "{shown}");
    assert!(shown.ends_with("\n2 servers: 1 in trouble, 1 needs attention.\n"), "{shown}");
}

#[test]
fn problems_of_the_configuration_are_part_of_the_verdict() {
    let scene = scene();
    let well = ScriptedProgram::config_entry(&Script::modern());
    scene.write(USER, &format!(r#"{{"mcpServers": {{"well": {well}}}, "modle": 1}}"#)); // misspelt on purpose
    let ran = scene.swb(&["doctor"]);
    assert!(
        expect_exit(&ran, 1).ends_with("\n1 server: 1 problem in the configuration.\n"),
        "{}",
        ran.to_snapshot()
    );
    scene.write(USER, &format!(r#"{{"mcpServers": {{"well": {well}, "bad": {{}}}}}}"#));
    assert_eq!(scene.swb(&["doctor"]).code, 3);
}
