//! `swb -p` with the options that agent SDKs pass: built-in tools, rules in their notation, settings and sessions.

use serde_json::{Value as Json, json};
use testkit::model_service::{API_KEY, Reply, ReplyPart};
use testkit::{ModelService, Sandbox, Script, ScriptedProgram};

use crate::support::{USER, scene};

/// A sandbox with a server `s`, and a model service with these replies.
fn sandbox(replies: impl IntoIterator<Item = Reply>) -> (Sandbox, ModelService) {
    let service = ModelService::start(replies).expect("it starts");
    let mut scene = scene();
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(USER, &format!("\"s\": {entry}"));
    scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
    (scene, service)
}

/// Replies that make these calls, one after the other.
fn calls(calls: &[(&str, Json)]) -> Vec<Reply> {
    let call = |(index, (tool, arguments)): (usize, &(&str, Json))| {
        Reply::message([ReplyPart::tool_call(&index.to_string(), tool, arguments)])
    };
    calls.iter().enumerate().map(call).chain([Reply::text("done")]).collect()
}

/// What the model got for the last call of a request.
fn result(service: &ModelService, request: usize) -> (bool, String) {
    let body = service.request_body(request);
    let messages = body["messages"].as_array().expect("messages");
    let result = &messages.last().expect("a message")["content"][0];
    (result["is_error"] == true, result["content"].to_string())
}

#[track_caller]
fn check(found: (bool, String), is_error: bool, part: &str) {
    assert_eq!(found.0, is_error, "{}", found.1);
    assert!(found.1.contains(part), "{part} is not in {}", found.1);
}

/// The tools that the model was offered.
fn offered(service: &ModelService) -> Vec<String> {
    let body = service.request_body(0);
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().filter_map(|it| it["name"].as_str()).map(str::to_owned).collect()
}

#[test]
fn built_in_tools_have_plain_names_and_read_without_a_rule_inside_the_folders_only() {
    let outside = |scene: &Sandbox| scene.path("~/secret.txt").display().to_string();
    let (scene, service) = sandbox([]);
    let added = scene.path("~/more").display().to_string();
    let replies = calls(&[
        ("Read", json!({"file_path": "a.txt"})),
        ("Read", json!({"file_path": outside(&scene)})),
        ("Read", json!({"file_path": format!("{added}/b.txt")})),
        ("Write", json!({"file_path": "new.txt", "content": "x"})),
        ("Bash", json!({"command": "echo hi"})),
    ]);
    replies.into_iter().for_each(|it| service.add_reply(it));
    scene.write("a.txt", "in the project").write("~/secret.txt", "canary");
    scene.write("~/more/b.txt", "in the added folder");
    let options = ["--tools", "default", "--add-dir", &added, "--output-format", "stream-json"];
    let ran = scene.swb(&[&["-p", "go"], &options[..]].concat());
    let init: Json =
        serde_json::from_str(ran.expect_success().lines().next().expect("a line")).expect("JSON");
    let tools = init["tools"].to_string();
    assert!(tools.contains(r#""KillBash","LS""#) && !tools.contains("switchboard"), "{tools}");
    assert_eq!(init["servers"], json!([{"name": "s", "status": "connected"}]));
    assert!(offered(&service).contains(&"Read".to_owned()));
    check(result(&service, 1), false, "in the project");
    let (is_error, text) = result(&service, 2);
    assert!(is_error && !text.contains("canary"), "{text}");
    check(result(&service, 3), false, "in the added folder");
    check(result(&service, 4), true, "not permitted");
    check(result(&service, 5), true, "not permitted");
    assert!(!scene.path("new.txt").exists());
}

#[test]
fn edits_are_accepted_in_the_mode_for_that_and_commands_are_not() {
    let (scene, service) = sandbox(calls(&[
        ("Write", json!({"file_path": "new.txt", "content": "written"})),
        ("Bash", json!({"command": "echo hi"})),
    ]));
    let mode = ["--permission-mode", "acceptEdits", "--tools=Write,Bash,WebFetch"];
    let ran = scene.swb(&[&["-p", "go"], &mode[..]].concat());
    assert_eq!(ran.expect_success(), "done\n");
    assert_eq!(ran.stderr, "note: there are no such built-in tools: WebFetch\n");
    assert_eq!(scene.read("new.txt"), "written");
    check(result(&service, 2), true, "not permitted");
    let tools = offered(&service);
    assert!(tools.contains(&"Bash".to_owned()) && !tools.contains(&"Read".to_owned()), "{tools:?}");
}

#[test]
fn without_the_option_there_are_no_built_in_tools_and_no_definition_reaches_them() {
    for options in [&[][..], &["--tools", ""]] {
        let (scene, service) = sandbox([Reply::text("done")]);
        scene.swb(&[&["-p", "go"], options].concat()).expect_success();
        assert!(offered(&service).iter().all(|it| !it.starts_with("Read")), "{options:?}");
    }
    let (scene, service) = sandbox([Reply::text("done")]);
    let config = r#"{"mcpServers": {"x": {"type": "sdk", "name": "switchboard"}}}"#;
    let ran = scene.swb(&["-p", "go", "--tools", "Read", "--mcp-config", config]);
    assert!(ran.stderr.contains("`x`"), "{}", ran.to_snapshot());
    assert!(!offered(&service).iter().any(|it| it.starts_with("mcp__x")));
}

#[test]
fn rules_allow_one_command_and_deny_tools_as_a_whole() {
    let (scene, service) = sandbox(calls(&[
        ("Bash", json!({"command": "echo one"})),
        ("Bash", json!({"command": "echo two; touch made"})),
        ("Bash", json!({"command": "echo three && touch made"})),
        ("mcp__s__echo", json!({"text": "four"})),
    ]));
    let rules = ["--allowedTools", "Bash(echo:*),mcp__s,Skill", "--disallowedTools", "Write"];
    let ran = scene.swb(&[&["-p", "go", "--tools", "default"], &rules[..]].concat());
    ran.expect_success();
    assert_eq!(ran.stderr, "note: there are no such built-in tools: Skill\n");
    check(result(&service, 1), false, "one");
    check(result(&service, 2), true, "not permitted");
    check(result(&service, 3), true, "not permitted");
    check(result(&service, 4), false, "four");
    assert!(!scene.path("made").exists());
    let tools = offered(&service);
    assert!(tools.contains(&"Edit".to_owned()) && !tools.contains(&"Write".to_owned()));
}

#[test]
fn settings_of_the_command_line_count_and_those_that_are_left_out_do_not() {
    let (scene, service) = sandbox(calls(&[("Bash", json!({"command": "git --version"}))]));
    let settings = r#"{"permissions": {"allow": ["Bash(git:*)"]}, "sandbox": {"enabled": false}}"#;
    let options = ["--tools", "Bash", "--setting-sources=", "--settings", settings];
    scene.swb(&[&["-p", "go"], &options[..]].concat()).expect_success();
    check(result(&service, 1), false, "git version");
    assert!(offered(&service).iter().all(|it| !it.starts_with("mcp__")));
    for broken in ["{", "missing.json"] {
        let text = scene.swb(&["-p", "go", "--settings", broken]).expect_failure(3).to_owned();
        assert!(text.contains("--settings cannot be used"), "{text}");
    }
}

#[test]
fn a_conversation_has_the_chosen_id_is_copied_or_is_not_stored() {
    let (scene, service) = sandbox((0..4).map(|_| Reply::text("yes")));
    let run = |options: &[&str]| {
        let ran = scene.swb(&[&["-p", "hi", "--output-format", "json"], options].concat());
        let text = ran.expect_success().to_owned();
        serde_json::from_str::<Json>(&text).expect("JSON")["session_id"].clone()
    };
    assert_eq!(run(&["--session-id=first"]), "first");
    let again = scene.swb(&["-p", "hi", "--session-id", "first"]);
    assert!(again.expect_failure(2).contains("there is already a conversation `first`"));
    let copy = run(&["--resume=first", "--fork-session", "--session-id", "second"]);
    assert_eq!(copy, "second");
    assert_eq!(service.request_body(1)["messages"].as_array().map(Vec::len), Some(3));
    run(&["--resume", "first"]);
    assert_eq!(service.request_body(2)["messages"].as_array().map(Vec::len), Some(3));
    assert_eq!(run(&["--no-session-persistence"]), Json::Null);
}

#[test]
fn a_system_prompt_may_be_in_a_file_and_thinking_has_a_budget() {
    let (scene, service) = sandbox([Reply::text("yes")]);
    scene.write("prompt.md", "You count sheep.");
    let prompt = ["--system-prompt-file", "prompt.md", "--append-system-prompt", "- slowly"];
    let model = ["--max-thinking-tokens", "2000", "--effort", "low"];
    scene.swb(&[&["-p", "go"], &prompt[..], &model].concat()).expect_success();
    let body = service.request_body(0);
    let system = body["system"][0]["text"].as_str().unwrap_or_default();
    assert!(system.starts_with("You count sheep.\n\n- slowly"), "{system}");
    assert_eq!(body["thinking"]["budget_tokens"], 2000);
    assert_eq!(body["output_config"]["effort"], "low");
    let missing = scene.swb(&["-p", "go", "--system-prompt-file", "no.md"]);
    let text = missing.expect_failure(2);
    assert!(text.contains("no.md` cannot be read") && text.contains("no such file"), "{text}");
}
