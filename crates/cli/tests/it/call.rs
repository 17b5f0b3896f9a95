//! `swb call`.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::{Sandbox, Script, ScriptedProgram, ScriptedServer, processes};

use crate::support::{USER, json as json_of, scene};

/// A server `s` whose tools may all be called.
fn scene_allowing(script: &Script) -> Sandbox {
    let scene = scene();
    let entry = ScriptedProgram::config_entry(script);
    scene.write(
        USER,
        &format!(r#"{{"permissions": {{"allow": ["mcp__s"]}}, "mcpServers": {{"s": {entry}}}}}"#),
    );
    scene
}

fn audit_outcomes(scene: &Sandbox) -> Vec<(String, String)> {
    let audit = json_of(scene, &["audit", "--json"]);
    let calls = audit["calls"].as_array().expect("a list");
    let word = |it: &Json, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    calls.iter().map(|it| (word(it, "exposed"), word(it, "outcome"))).collect()
}

#[test]
fn a_tool_is_called_in_either_era_and_the_call_is_recorded() {
    for script in [Script::legacy(), Script::modern()] {
        let scene = scene_allowing(&script);
        assert_eq!(scene.swb(&["call", "mcp__s__echo", "text=hello"]).expect_success(), "hello\n");
        let sum = json_of(&scene, &["call", "mcp__s__add", "a:=1", "b:=2", "--json"]);
        assert!(sum["content"][0]["text"].as_str().is_some_and(|text| text.contains('3')), "{sum}");
        let calls = audit_outcomes(&scene);
        assert_eq!(
            calls,
            [("mcp__s__echo".into(), "ok".into()), ("mcp__s__add".into(), "ok".into())]
        );
        assert!(!scene.read("~/.local/state/switchboard/audit.jsonl").contains("hello"));
    }
}

#[test]
fn every_way_to_fail_has_its_own_code_and_is_recorded() {
    let scene = scene_allowing(&Script::legacy());
    assert_eq!(scene.swb(&["call", "mcp__s__fail", "text=no"]).code, 11);
    assert_eq!(scene.swb(&["call", "mcp__s__explode", "code:=-32000"]).code, 10);
    assert_eq!(scene.swb(&["call", "mcp__s__crash"]).code, 10);
    insta::assert_snapshot!(
        "near",
        scene.swb(&["call", "mcp__s__ech", "text=x"]).expect_failure(5)
    );
    insta::assert_snapshot!(
        "unfit",
        scene.swb(&["call", "mcp__s__add", "a=one"]).expect_failure(2)
    );
    scene.write(
        "managed/managed-settings.json",
        r#"{"permissions": {"deny": ["mcp__s__echo(text=secret)"]}}"#,
    );
    insta::assert_snapshot!(
        "denied",
        scene.swb(&["call", "mcp__s__echo", "text=secret"]).expect_failure(4)
    );
    let audit = json_of(&scene, &["audit", "--outcome", "denied", "--json"]);
    assert!(
        audit["calls"][0]["because"].as_str().is_some_and(|it| it.contains("the deny rule")),
        "{audit}"
    );
    let outcomes: Vec<String> = audit_outcomes(&scene).into_iter().map(|it| it.1).collect();
    assert_eq!(outcomes, ["tool-error", "failed", "failed", "invalid", "invalid", "denied"]);
}

#[test]
fn what_nobody_allowed_is_not_run_where_nobody_can_be_asked() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    insta::assert_snapshot!(scene.swb(&["call", "mcp__s__echo", "text=x"]).expect_failure(4));
    let ran = scene.swb(&["call", "mcp__s__echo", "text=x", "--mode", "bypass"]);
    assert_eq!(ran.expect_success(), "x\n");
    let mut entry: Json =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    entry["trust"] = json!(true);
    scene.write_servers(USER, &format!("\"s\": {entry}"));
    assert_eq!(scene.swb(&["call", "mcp__s__echo", "text=trusted"]).expect_success(), "trusted\n");
}

#[test]
fn a_long_result_is_cut_and_the_rest_can_be_read() {
    let scene = scene_allowing(&Script::legacy());
    let ran = scene.swb(&["call", "mcp__s__big", "bytes:=300000"]);
    assert!(ran.expect_success().len() < 110_000, "{}", ran.stdout.len());
    let command = ran.stderr.split('`').nth(1).expect("a command to type");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert!(words[0] == "result" && !scene.swb(&words).expect_success().is_empty(), "{words:?}");
    scene.swb(&["result", "../../etc/passwd"]).expect_failure(2);
    scene.swb(&["result", "0123456789abcdef01234567"]).expect_failure(5);
}

#[test]
fn arguments_that_a_server_wants_in_headers_are_there() {
    let scene = scene();
    let served = ScriptedServer::http(Script::modern());
    scene.write(
        USER,
        &format!(r#"{{"permissions": {{"allow": ["mcp__far"]}}, "mcpServers": {{"far": {{"type": "http", "url": "{}"}}}}}}"#, served.url()),
    );
    scene.swb(&["call", "mcp__far__route", "region=eu"]).expect_success();
    let calls = served.requests();
    let call =
        calls.iter().find(|it| it.header("mcp-name") == Some("route")).expect("it was called");
    assert_eq!(call.header("mcp-param-region"), Some("eu"));
}

#[test]
fn nothing_of_a_result_moves_the_cursor() {
    let scene = scene_allowing(&Script::legacy());
    let ran = scene.swb(&["call", "mcp__s__echo", "text=\u{1b}[2J\u{202e}x"]);
    assert!(!ran.expect_success().contains(['\u{1b}', '\u{202e}']), "{}", ran.to_snapshot());
    let json = scene.swb(&["call", "mcp__s__echo", "text=\u{1b}[2J", "--json"]);
    assert!(!json.expect_success().contains('\u{1b}'));
}

const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the program at a terminal of eighty columns, whose keys are the child's standard input.
fn at_a_terminal(scene: &Sandbox, words: &str) -> Child {
    let program = crate::support::program().display().to_string();
    let ours = scene.command(&scene.project(), &[]);
    let mut command = Command::new("script");
    command.env_clear();
    for (name, value) in ours.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
        .args(["-qefc", &format!("stty cols 80; exec {program} {words}"), "/dev/null"])
        .env("TERM", "xterm")
        .current_dir(scene.project())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script can be run")
}

/// Everything that a terminal showed from now on until the text came.
fn read_until(child: &mut Child, text: &str) -> String {
    let shown = child.stdout.as_mut().expect("it is piped");
    let mut seen = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&seen).contains(text) {
        let count = shown.read(&mut byte).expect("it can be read");
        assert_eq!(count, 1, "it ended: {}", String::from_utf8_lossy(&seen));
        seen.extend(byte);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

fn press_interrupt(child: &mut Child) {
    let keys = child.stdin.as_mut().expect("it is piped");
    keys.write_all(b"\x03").and_then(|()| keys.flush()).expect("a key can be pressed");
}

fn read_to_end(mut child: Child) -> (Option<i32>, String) {
    let mut text = Vec::new();
    child.stdout.take().expect("it is piped").read_to_end(&mut text).expect("it can be read");
    let code = child.wait().expect("it ends").code();
    (code, String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn an_interrupt_cancels_the_call_and_the_server_hears_of_it_before_it_is_stopped() {
    for script in [Script::legacy(), Script::modern()] {
        let home = scene();
        let journal = home.path("journal");
        let scene = scene_allowing(&script.journal(&journal));
        let mut child = at_a_terminal(&scene, "call mcp__s__slow ms:=600000 steps:=6000");
        read_until(&mut child, "step 2 of 6000");
        press_interrupt(&mut child);
        let (code, shown) = read_to_end(child);
        assert_eq!(code, Some(130), "{shown}");
        assert!(shown.contains("the call was cancelled"), "{shown}");
        let heard = home.read("journal");
        assert!(heard.contains("notifications/cancelled"), "{heard}");
        let outcomes: Vec<String> = audit_outcomes(&scene).into_iter().map(|it| it.1).collect();
        assert_eq!(outcomes, ["cancelled"]);
    }
}

#[test]
fn a_remote_server_hears_of_it_too() {
    for script in [Script::legacy(), Script::modern()] {
        let scene = scene();
        let served = ScriptedServer::http(script);
        scene.write(
            USER,
            &format!(r#"{{"permissions": {{"allow": ["mcp__far"]}}, "mcpServers": {{"far": {{"type": "http", "url": "{}"}}}}}}"#, served.url()),
        );
        let mut child = at_a_terminal(&scene, "call mcp__far__slow ms:=600000 steps:=6000");
        read_until(&mut child, "step 2 of 6000");
        press_interrupt(&mut child);
        assert_eq!(read_to_end(child).0, Some(130));
        let is_heard = || (served.counts()["cancelled"][0] == "slow").then_some(());
        processes::wait_until(TIMEOUT, "the server hears of it", is_heard);
    }
}

#[test]
fn a_terminal_sees_one_line_that_goes_away_and_a_pipe_sees_none() {
    let scene = scene_allowing(&Script::legacy());
    let (code, shown) = read_to_end(at_a_terminal(&scene, "call mcp__s__slow ms:=300 steps:=3"));
    assert_eq!(code, Some(0), "{shown}");
    let (bar, result) = shown.rsplit_once("\r\u{1b}[K").expect("the bar is cleared");
    assert_eq!(result, "took 300 ms\r\n");
    let line = bar.rsplit("\u{1b}[K").next().unwrap_or_default();
    // The last step may come together with the answer, and is then not drawn any more.
    assert!(bar.contains("step 1 of 3") && bar.contains(" 33 %"), "{shown:?}");
    assert!(line.contains("of 3") && line.contains(" %"), "{shown:?}");
    assert!(bar[bar.find("█").expect("a bar")..].find('\n').is_none(), "{shown:?}");
    let ran = scene.swb(&["call", "mcp__s__slow", "ms:=30", "steps:=3"]);
    assert_eq!((ran.expect_success(), ran.stderr.as_str()), ("took 30 ms\n", ""));
}

#[test]
fn our_own_tools_are_called_without_a_rule() {
    let scene = scene();
    let some = ScriptedProgram::config_entry(&Script::modern().resources(1));
    let hidden = ScriptedProgram::config_entry(&Script::modern().resources(1));
    let servers = format!(r#"{{"some": {some}, "hidden": {hidden}}}"#);
    scene.write(
        USER,
        &format!(r#"{{"permissions": {{"deny": ["mcp__hidden"]}}, "mcpServers": {servers}}}"#),
    );
    let listed = scene.swb(&["call", "ListMcpResources"]);
    let listed: Json = serde_json::from_str(listed.expect_success()).expect("JSON");
    let expected = json!([{
        "uri": "scripted://resource/0", "server": "some", "name": "resource_0", "mimeType": "text/plain",
    }]);
    assert_eq!(listed, expected);
    let of = |server: &str| {
        let server = format!("server={server}");
        scene.swb(&["call", "ReadMcpResource", &server, "uri=scripted://resource/0"])
    };
    assert_eq!(of("some").expect_success(), "the text of resource 0\n");
    assert_eq!(of("hidden").code, 11);
    assert_eq!(scene.swb(&["call", "ReadMcpResult", "id=../../etc/passwd"]).code, 11);
    assert_eq!(audit_outcomes(&scene)[0], ("ListMcpResources".into(), "ok".into()));
}
