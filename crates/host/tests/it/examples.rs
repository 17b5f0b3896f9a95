//! Runs the example programs and checks their output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value as Json;
use testkit::{Quirk, Script, ScriptedProgram, ScriptedServer};

/// The path of an example, built beside the running tests.
fn example(name: &str) -> PathBuf {
    let running = std::env::current_exe().expect("a test knows its own program");
    let beside = running.ancestors().map(|folder| folder.join("examples").join(name));
    beside.into_iter().find(|it| it.is_file()).expect("examples are built with `--workspace`")
}

#[track_caller]
fn run(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(example(name)).args(arguments).output().expect("it can be run");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn an_example_connects_to_a_program_and_calls_a_tool() {
    let entry: Json =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    let mut arguments = vec!["echo", r#"{"text": "hello"}"#];
    arguments.push(entry["command"].as_str().expect("a command"));
    let more = entry["args"].as_array().into_iter().flatten();
    arguments.extend(more.map(|it| it.as_str().expect("an argument")));
    assert_eq!(run("connect_and_call", &arguments), "hello\n");
}

#[test]
fn an_example_is_a_server_itself() {
    assert_eq!(run("in_process_server", &[]), "Hello, Ada!\n");
}

#[test]
fn an_example_watches_the_catalogue_change() {
    assert_eq!(
        run("watch_catalogue", &[]),
        "11 tools, notes: []\n11 tools, notes: [\"note://1\"]\n11 tools, notes: [\"note://1\", \"note://2\"]\n"
    );
}

#[test]
fn an_example_answers_questions_and_permits_by_itself() {
    let output = run("custom_elicitor", &[]);
    assert!(output.starts_with("inn asks: "), "{output}");
    assert!(output.contains("Ada") && output.contains('4'), "{output}");
    assert!(output.ends_with("not permitted: only tables are booked here\n"), "{output}");
}

#[test]
fn an_example_reads_resources_prompts_and_completions() {
    assert_eq!(
        run("typed_requests", &[]),
        "resource: Buy milk\nprompt: summarise_notes []\nprompt: write_about [\"topic\", \"tone\"]\n\
         topics: [\"Buy milk\"]\nUser: Write five lines about milk, in a plain tone.\n"
    );
}

#[test]
fn an_example_applies_changed_configurations() {
    assert_eq!(
        run("apply_changes", &[]),
        "started [\"a\"], stopped [], unchanged []\nstarted [], stopped [], unchanged [\"a\"]\n\
         started [\"b\"], stopped [\"a\"], unchanged []\nproblem: must not be empty\n"
    );
}

#[test]
fn an_example_calls_with_options_and_prints_log_events() {
    let output = Command::new(example("call_options")).output().expect("it can be run");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "progress: 1\nprogress: 2\nprogress: 3\nCounted to 3.\n"
    );
    let events = String::from_utf8_lossy(&output.stderr);
    assert!(events.lines().any(|it| it.contains("switchboard::call")), "{events}");
}

#[test]
fn the_conformance_client_continues_after_denied_calls() {
    // Some tools of a scripted server are meant to crash it, so all calls are denied.
    let refusal = Quirk::HttpStatus {
        status: 400,
        body: "no".to_owned(),
        headers: BTreeMap::new(),
        after: 0,
        times: None,
    };
    for script in [Script::legacy(), Script::modern()] {
        let script = script.resources(2).prompts(1).quirk(refusal.clone()).quirks_on("tools/call");
        let server = ScriptedServer::http(script);
        let output = run("conformance_client", &["a word of the suite", server.url()]);
        assert_eq!(output.matches("resources/read: ").count(), 2, "{output}");
        assert_eq!(output.matches("prompts/get: ").count(), 1, "{output}");
        let received = server.requests();
        let called = received.iter().filter(|it| it.rpc_method() == Some("tools/call"));
        let called = called.filter_map(|it| it.body.as_ref()?["params"]["name"].as_str());
        assert!(called.into_iter().any(|name| name == "echo"));
    }
}
