//! `swb call`.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::{Quirk, Sandbox, Script, ScriptedProgram, ScriptedServer, processes};

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
fn a_tool_is_called_in_both_eras_and_the_call_is_recorded() {
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
fn every_kind_of_failure_has_its_exit_code_and_is_recorded() {
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
fn a_call_to_an_unavailable_server_fails_with_its_cause() {
    let scene = scene();
    let refusing = ScriptedServer::http(Script::legacy());
    let closed = refusing.url().to_owned();
    drop(refusing);
    let good = ScriptedProgram::config_entry(&Script::legacy());
    let mute = ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::FailsToolList));
    let walled = Quirk::RequiresBearer { token: "t".to_owned() };
    let locked = ScriptedServer::http(Script::legacy().quirk(walled));
    let locked = locked.url();
    scene.write_servers(
        USER,
        &format!(
            r#""s": {good}, "gone": {{"command": "no-such-program-here"}},
               "far": {{"type": "http", "url": "{closed}"}}, "off": {{"command": "x", "disabled": true}},
               "bad": {{"command": 5}}, "locked": {{"type": "http", "url": "{locked}"}}, "banned": {good},
               "mute": {mute}"#
        ),
    );
    scene.write(
        ".mcp.json",
        r#"{"mcpServers": {"team": {"command": "x"}, "never": {"command": "x"}}}"#,
    );
    scene.swb(&["reject", "never"]).expect_success();
    scene.write(
        "managed/managed-settings.json",
        r#"{"deniedMcpServers": [{"serverName": "banned"}]}"#,
    );
    for (tool, code, message) in [
        ("mcp__gone__echo", 9, "could not connect to `gone`"),
        ("gone/echo", 9, "could not connect to `gone`"),
        ("mcp__far__echo", 10, "could not connect to `far`"),
        ("mcp__team__echo", 7, "the server `team` is not ready"),
        ("mcp__off__echo", 7, "the server `off` is not ready"),
        ("mcp__never__echo", 7, "the server `never` is not ready: rejected"),
        ("mcp__locked__echo", 8, "could not connect to `locked`"),
        ("mcp__bad__echo", 3, "the server `bad` is not ready: invalid"),
        ("mcp__banned__echo", 4, "the server `banned` is not ready"),
        ("mcp__mute__echo", 10, "the tools of `mute` are not known"),
    ] {
        let ran = scene.swb(&["call", tool, "text=x"]);
        let text = ran.expect_failure(code);
        assert!(text.contains(message) && !text.contains("there is no tool"), "{tool}: {text}");
    }
}

#[test]
fn a_tool_that_a_rule_or_its_entry_leaves_out_is_not_permitted_rather_than_unknown() {
    let scene = scene();
    let mut entry: Json =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    let open = entry.clone();
    entry["tools"] = json!({"deny": ["add"]});
    let rules = json!({"deny": ["mcp__s__echo", "mcp__whole"]});
    let servers = json!({"s": entry, "whole": open});
    scene.write(USER, &json!({"permissions": rules, "mcpServers": servers}).to_string());
    for (tool, message) in [
        ("mcp__s__echo", "`mcp__s__echo` is not permitted: the deny rule `mcp__s__echo`"),
        ("s/echo", "`mcp__s__echo` is not permitted: the deny rule `mcp__s__echo`"),
        ("mcp__whole__add", "`mcp__whole__add` is not permitted: the deny rule `mcp__whole`"),
        ("mcp__s__add", "`add` of `s` is left out by `tools.deny` of its entry"),
    ] {
        let ran = scene.swb(&["call", tool]);
        let text = ran.expect_failure(4);
        assert!(text.contains(message) && !text.contains("there is no tool"), "{tool}: {text}");
    }
}

#[test]
fn the_schema_of_the_tool_gives_arguments_their_types_and_unknown_ones_are_named() {
    let scene = scene_allowing(&Script::legacy().tools(1));
    let ran = scene.swb(&["call", "mcp__s__tool_0", "limit=3", "subject=3"]);
    let expected = "tool_0 got {\"limit\":3,\"subject\":\"3\"}\n";
    assert_eq!((ran.expect_success(), ran.stderr.as_str()), (expected, ""));
    let ran = scene.swb(&["call", "mcp__s__tool_0", "limt=3"]); // misspelt on purpose
    let warning = "warning: `mcp__s__tool_0` has no argument `limt`; did you mean `limit`?\n"; // misspelt on purpose
    assert_eq!((ran.code, ran.stderr.as_str()), (0, warning));
    scene.write("more.json", r#"{"limit": 1, "subject": "from the file"}"#);
    let words = ["call", "mcp__s__tool_0", "--args-file", "more.json", "limit=2"];
    let expected = "tool_0 got {\"limit\":2,\"subject\":\"from the file\"}\n";
    assert_eq!(scene.swb(&words).expect_success(), expected);
}

#[test]
fn json_output_has_the_structured_content_and_the_metadata_of_the_result() {
    let scene = scene_allowing(&Script::legacy().quirk(Quirk::HasSayTool));
    let result = json!({"content": [], "structuredContent": {"a": 1}, "_meta": {"x/y": [2]}});
    let said = json_of(&scene, &["call", "mcp__s__say", &format!("result={result}"), "--json"]);
    assert_eq!(said["structuredContent"], json!({"a": 1}), "{said}");
    assert_eq!(said["_meta"], json!({"x/y": [2]}), "{said}");
}

#[test]
fn a_call_fails_without_a_required_server_and_does_not_wait_longer_than_it_is_told() {
    let scene = scene();
    let good = ScriptedProgram::config_entry(&Script::legacy());
    let hung = ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::NeverAnswers));
    let servers =
        format!(r#"{{"s": {good}, "gone": {{"command": "no-such-program"}}, "hung": {hung}}}"#);
    scene.write(
        USER,
        &format!(r#"{{"permissions": {{"allow": ["mcp__s"]}}, "mcpServers": {servers}}}"#),
    );
    let call = ["call", "mcp__s__echo", "text=x"];
    assert_eq!(scene.swb(&[&call[..], &["--require", "s"]].concat()).expect_success(), "x\n");
    let ran = scene.swb(&[&call[..], &["--require", "gone"]].concat());
    let text = ran.expect_failure(9);
    assert!(text.contains("the required server `gone` is not connected"), "{text}");
    let ran = scene.swb(&[&call[..], &["--require", "hung", "--ready-timeout", "0.2"]].concat());
    assert!(ran.expect_failure(7).contains("the required server `hung` is not connected"));
    let ran = scene.swb(&["call", "mcp__hung__echo", "--ready-timeout", "0.2"]);
    assert!(ran.expect_failure(7).contains("`hung` is still connecting"), "{}", ran.stderr);
    assert_eq!(scene.swb(&[&call[..], &["--require", "nothing"]].concat()).code, 5);
}

#[test]
fn a_failure_with_json_is_one_object_on_standard_output() {
    let scene = scene();
    scene.write_servers(USER, r#""gone": {"command": "no-such-program-here"}"#);
    for (words, exit, code) in [
        (&["call", "mcp__gone__echo", "--json"][..], 9, "start-failed"),
        (&["get", "nothing", "--json"], 5, "not-found"),
        (&["list", "--jsno", "--json"], 2, "usage"),
    ] {
        let ran = scene.swb(words);
        assert_eq!(ran.code, exit, "{}", ran.to_snapshot());
        let printed: Json = serde_json::from_str(&ran.stdout).expect("one JSON object");
        let error = &printed["error"];
        assert_eq!((&error["code"], &error["exit"]), (&json!(code), &json!(exit)), "{printed}");
        assert!(error["message"].is_string() && error["hint"].is_string(), "{printed}");
    }
}

#[test]
fn a_tool_can_be_named_by_its_server_and_its_own_name() {
    let scene = scene_allowing(&Script::legacy());
    for tool in ["s/echo", "s.echo"] {
        assert_eq!(scene.swb(&["call", tool, "text=hello"]).expect_success(), "hello\n");
    }
}

#[test]
fn a_call_without_an_allow_rule_is_not_run_where_no_prompt_is_possible() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    insta::assert_snapshot!(scene.swb(&["call", "mcp__s__echo", "text=x"]).expect_failure(4));
    for option in ["--mode", "--permission-mode"] {
        let ran = scene.swb(&["call", "mcp__s__echo", "text=x", option, "bypass"]);
        assert_eq!(ran.expect_success(), "x\n");
    }
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
fn arguments_that_a_server_requires_in_headers_are_sent() {
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
fn a_result_cannot_move_the_cursor() {
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

/// Reads the terminal's output up to and including the text.
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
fn an_interrupt_cancels_the_call_before_the_server_is_stopped() {
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
fn an_interrupt_cancels_the_call_at_a_remote_server() {
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
fn a_terminal_shows_one_temporary_progress_line_and_a_pipe_none() {
    let scene = scene_allowing(&Script::legacy());
    let (code, shown) = read_to_end(at_a_terminal(&scene, "call mcp__s__slow ms:=300 steps:=3"));
    assert_eq!(code, Some(0), "{shown}");
    let (bar, result) = shown.rsplit_once("\r\u{1b}[K").expect("the bar is cleared");
    assert_eq!(result, "took 300 ms\r\n");
    let line = bar.rsplit("\u{1b}[K").next().unwrap_or_default();
    // The last step may arrive together with the response and is then not drawn.
    assert!(bar.contains("step 1 of 3") && bar.contains(" 33 %"), "{shown:?}");
    assert!(line.contains("of 3") && line.contains(" %"), "{shown:?}");
    assert!(bar[bar.find("█").expect("a bar")..].find('\n').is_none(), "{shown:?}");
    let ran = scene.swb(&["call", "mcp__s__slow", "ms:=30", "steps:=3"]);
    assert_eq!((ran.expect_success(), ran.stderr.as_str()), ("took 30 ms\n", ""));
}

#[test]
fn a_call_starts_only_the_server_of_its_tool_and_reports_no_other() {
    let scene = scene();
    let journal = scene.path("other.journal");
    let called = ScriptedProgram::config_entry(&Script::modern());
    let other = ScriptedProgram::config_entry(&Script::modern().journal(&journal));
    let servers = format!(
        r#"{{"s": {called}, "other": {other}, "broken": {{"command": "no-such-program"}}}}"#
    );
    scene.write(
        USER,
        &format!(r#"{{"permissions": {{"allow": ["mcp__s"]}}, "mcpServers": {servers}}}"#),
    );
    let ran = scene.swb(&["call", "mcp__s__echo", "text=hello"]);
    assert_eq!((ran.expect_success(), ran.stderr.as_str()), ("hello\n", ""));
    let ran = scene.swb(&["call", "mcp__s__ecco", "text=hello"]);
    assert_eq!(ran.code, 5, "{}", ran.stderr);
    assert!(ran.stderr.contains("did you mean `mcp__s__echo`?"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("broken"), "{}", ran.stderr);
    assert!(!journal.exists(), "the other server was started");
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
    let read: Json = serde_json::from_str(of("some").expect_success()).expect("JSON");
    assert_eq!(read["contents"][0]["text"], "the text of resource 0", "{read}");
    assert_eq!(of("hidden").code, 11);
    assert_eq!(scene.swb(&["call", "ReadMcpResult", "id=../../etc/passwd"]).code, 11);
    assert_eq!(audit_outcomes(&scene)[0], ("ListMcpResources".into(), "ok".into()));
}

#[test]
fn a_name_that_no_server_owns_is_not_found_before_any_server_is_started() {
    let scene = scene();
    let journal = scene.path("~/journal");
    let entry = ScriptedProgram::config_entry(&Script::legacy().journal(&journal));
    scene.write_servers(USER, &format!("\"one\": {entry}"));
    scene.write(".mcp.json", r#"{"mcpServers": {"team": {"command": "x"}}}"#);
    scene.swb(&["reject", "team"]).expect_success();
    for (tool, code, message) in [
        ("mcp__nope__echo", 5, "error: there is no tool `mcp__nope__echo`"),
        ("nope/echo", 5, "error: there is no tool `nope/echo`"),
        ("ecko", 5, "error: there is no tool `ecko`"),
        ("mcp__team__echo", 7, "error: the server `team` is not ready"),
    ] {
        let ran = scene.swb(&["call", tool]);
        let text = ran.expect_failure(code);
        assert!(text.starts_with(message), "{tool}: {text}");
    }
    assert!(!journal.exists(), "no server was started");
    scene.swb(&["tools"]).expect_success();
    let ran = scene.swb(&["call", "mcp__on__echo"]);
    let text = ran.expect_failure(5);
    assert!(text.contains("did you mean `mcp__one__echo`?"), "{text}");
}
