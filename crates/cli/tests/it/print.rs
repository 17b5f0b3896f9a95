//! `swb -p`.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use testkit::model_service::{API_KEY, Reply, ReplyEnd, ReplyPart};
use testkit::{CommandOutput, ModelService, Sandbox, Script, ScriptedProgram, Terminal};

use crate::support::{USER, scene};

/// A sandbox with a server `s` and this model service.
fn with_model(service: &ModelService) -> Sandbox {
    let mut scene = scene();
    scene.write_servers(
        USER,
        &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
    scene
}

fn service(replies: impl IntoIterator<Item = Reply>) -> ModelService {
    ModelService::start(replies).expect("it starts")
}

fn echo(id: &str, text: &str) -> ReplyPart {
    ReplyPart::tool_call(id, "mcp__s__echo", &json!({"text": text}))
}

fn object(ran: &CommandOutput, code: i32) -> Json {
    assert_eq!(ran.code, code, "{}", ran.to_snapshot());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.to_snapshot()))
}

/// Runs the program with this text on standard input.
fn piped(scene: &Sandbox, arguments: &[&str], input: &[u8]) -> CommandOutput {
    let mut command: Command = scene.command(&scene.project(), arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input).expect("it is read");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    scene.normalized_output(output.status.code(), &output.stdout, &output.stderr)
}

#[test]
fn only_the_response_is_printed_and_allowed_tools_are_called() {
    let call = Reply::message([ReplyPart::text("I ask."), echo("1", "tea, please")]);
    let service =
        service([call, Reply::message([ReplyPart::text("It says "), ReplyPart::text("tea.")])]);
    let scene = with_model(&service);
    let rules = "mcp__s__add, mcp__s__echo(text=\"tea, *\")";
    let ran = scene.swb(&["-p", "what?", "--allowed-tools", rules]);
    assert_eq!(ran.expect_success(), "It says tea.\n");
    assert_eq!(ran.stderr, "");
    let sent = service.request_body(1);
    assert_eq!(sent["messages"][2]["content"][0]["content"][0]["text"], "tea, please");
    assert_eq!(sent["model"], "claude-sonnet-4-5");
    assert!(sent["system"][0]["text"].as_str().is_some_and(|it| it.contains("Switchboard")));
    assert!(sent["tools"].to_string().contains("mcp__s__echo"));
    let audit = scene.swb(&["audit", "--json"]);
    let audit: Json = serde_json::from_str(audit.expect_success()).expect("JSON");
    assert_eq!(
        (&audit["calls"][0]["caller"], &audit["calls"][0]["outcome"]),
        (&json!("chat"), &json!("ok"))
    );
}

#[test]
fn a_call_without_an_allow_rule_is_denied_and_the_model_continues() {
    let service = service([Reply::message([echo("1", "x")]), Reply::text("I may not.")]);
    let scene = with_model(&service);
    let ran = scene.swb(&["-p", "go", "--output-format", "json"]);
    let said = object(&ran, 0);
    assert_eq!((&said["result"], &said["is_error"]), (&json!("I may not."), &json!(false)));
    assert_eq!((&said["num_turns"], &said["stop_reason"]), (&json!(2), &json!("end_turn")));
    let usage = json!({"input_tokens": 200, "cached_input_tokens": 60, "output_tokens": 14});
    assert_eq!(said["usage"], usage);
    assert_eq!(said["permission_denials"][0]["tool"], "mcp__s__echo");
    let result = service.request_body(1)["messages"][2]["content"][0].clone();
    assert_eq!(result["is_error"], true);
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("`mcp__s__echo` is not permitted"), "{text}");
}

#[test]
fn a_missing_server_is_named_before_the_model_is_asked_and_a_required_one_ends_the_run() {
    let service = service([Reply::text("hello"), Reply::text("hello")]);
    let scene = with_model(&service);
    let good = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(
        USER,
        &format!(r#""s": {good}, "gone": {{"command": "no-such-program-here"}}"#),
    );
    for format in ["text", "json"] {
        let ran = scene.swb(&["-p", "hi", "--output-format", format]);
        assert_eq!(ran.code, 0, "{}", ran.to_snapshot());
        assert!(ran.stderr.contains("error: `gone`: "), "{}", ran.to_snapshot());
    }
    let ran = scene.swb(&["-p", "hi", "--require", "s", "--require", "gone"]);
    let text = ran.expect_failure(9);
    assert!(text.contains("the required server `gone` is not connected"), "{text}");
    assert_eq!(service.requests().len(), 2, "the model was asked");
}

#[test]
fn a_changed_tool_is_refused_with_the_difference_and_the_command_that_accepts_it() {
    let ask = || Reply::message([echo("1", "x")]);
    let service = service([ask(), Reply::text("done"), ask(), Reply::text("I may not.")]);
    let scene = with_model(&service);
    scene.write("~/about", "Returns its text.");
    let script = Script::legacy().echo_description(scene.path("~/about"));
    let entry = ScriptedProgram::config_entry(&script);
    let rules = r#""permissions": {"allow": ["mcp__s"]}"#;
    scene.write(USER, &format!(r#"{{{rules}, "mcpServers": {{"s": {entry}}}}}"#));
    scene.swb(&["-p", "go"]).expect_success();
    scene.write("~/about", "Returns its text twice.");
    let said = object(&scene.swb(&["-p", "go", "--output-format", "json"]), 0);
    let reason = said["permission_denials"][0]["reason"].as_str().unwrap_or_default();
    for part in [
        "`swb permissions accept mcp__s__echo` accepts the new definition\n",
        "\n-   \"description\": \"Returns its text.\",",
        "\n+   \"description\": \"Returns its text twice.\",",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn the_model_is_told_which_resources_there_are() {
    let service = service([Reply::text("hello")]);
    let scene = with_model(&service);
    let entry = |count| ScriptedProgram::config_entry(&Script::legacy().resources(count));
    let servers = format!(r#"{{"many": {}, "hidden": {}}}"#, entry(40), entry(1));
    scene.write(
        USER,
        &format!(r#"{{"permissions": {{"deny": ["mcp__hidden"]}}, "mcpServers": {servers}}}"#),
    );
    scene.swb(&["-p", "hi"]).expect_success();
    let sent = service.request_body(0);
    let system = sent["system"][0]["text"].as_str().unwrap_or_default();
    let (_, list) = system.split_once("# Resources\n").expect("a list of resources");
    assert!(list.contains("\n## many\n- resource_0: scripted://resource/0\n"), "{list}");
    assert!(list.contains("\n- … and 10 more"), "{list}");
    assert!(!list.contains("hidden"), "{list}");
}

#[test]
fn the_permission_mode_of_the_command_line_holds() {
    for option in ["--permission-mode", "--mode"] {
        let service = service([Reply::message([echo("1", "x")]), Reply::text("done")]);
        let scene = with_model(&service);
        scene.swb(&["-p", "go", option, "bypass"]).expect_success();
        let result = service.request_body(1)["messages"][2]["content"][0].clone();
        assert_eq!(result["content"][0]["text"], "x", "{result}");
    }
}

#[test]
fn retries_are_one_line_on_standard_error_that_says_what_to_do() {
    let busy =
        || Reply::error(529, "overloaded_error", "Overloaded").with_header("retry-after", "0.01");
    let service = service([busy(), busy(), Reply::text("hello")]);
    let ran = with_model(&service).swb(&["-p", "hi"]);
    assert_eq!(ran.expect_success(), "hello\n");
    assert_eq!(ran.stderr.matches("The model failed").count(), 1, "{}", ran.to_snapshot());
    assert!(
        ran.stderr.contains("Overloaded (529). Retry 1 in ")
            && ran.stderr.contains("; Ctrl+C stops it, `--model` chooses another model.\n"),
        "{}",
        ran.to_snapshot()
    );
}

#[test]
fn every_provider_responds_and_a_flag_selects_one() {
    for (provider, path) in [
        ("anthropic", "/v1/messages"),
        ("openai", "/v1/chat/completions"),
        ("openai-responses", "/v1/responses"),
    ] {
        let service = service([Reply::text("hello")]);
        let mut scene = with_model(&service);
        scene
            .set_env("OPENAI_API_KEY", API_KEY)
            .set_env("OPENAI_BASE_URL", &service.openai_base_url());
        let ran = scene.swb(&["-p", "hi", "--model", &format!("{provider}/some/model")]);
        assert_eq!(ran.expect_success(), "hello\n");
        assert_eq!(service.requests()[0].path, path);
        assert_eq!(service.request_body(0)["model"], "some/model");
    }
}

#[test]
fn the_model_of_the_settings_is_used_with_its_key_and_a_project_file_cannot_change_it() {
    let of_settings = service([Reply::text("settings"), Reply::text("settings")]);
    let of_environment = service([]);
    let mut scene = with_model(&of_environment);
    let model = json!({
        "provider": "openai", "name": "m", "baseUrl": of_settings.openai_base_url(), "apiKey": "${MY_KEY}",
        "maxTokens": 99,
    });
    scene.write(USER, &json!({"model": model}).to_string());
    scene.write(".mcp.json", &json!({"mcpServers": {}, "model": {"provider": "anthropic", "baseUrl": of_environment.origin()}}).to_string());
    let ran = scene.swb(&["-p", "hi"]);
    assert!(
        ran.expect_failure(3).contains("the variable MY_KEY is not set"),
        "{}",
        ran.to_snapshot()
    );
    scene.set_env("MY_KEY", API_KEY);
    assert_eq!(scene.swb(&["-p", "hi"]).expect_success(), "settings\n");
    assert_eq!(of_settings.request_body(0)["max_completion_tokens"], 99);
    // The API key is only sent to the base URL that it was configured with.
    scene.write(
        USER,
        &json!({"model": {"provider": "anthropic", "baseUrl": of_settings.origin()}}).to_string(),
    );
    let ran = scene.swb(&["-p", "hi"]);
    assert!(ran.expect_failure(12).contains("it does not accept the key"), "{}", ran.to_snapshot());
    assert!(of_settings.requests().iter().all(|it| it.header("x-api-key").is_none()));
    assert!(of_environment.requests().is_empty());
    // Misspelt keys are reported.
    scene.write(USER, r#"{"model": {"provider": "anthropic", "nmae": "m"}}"#); // misspelt on purpose
    let checked = scene.swb(&["config", "check"]);
    assert!(checked.to_snapshot().contains("model.nmae"), "{}", checked.to_snapshot()); // misspelt on purpose
}

#[test]
fn without_a_model_the_error_names_the_setting() {
    let scene = scene();
    insta::assert_snapshot!("no_model", scene.swb(&["-p", "hi"]).expect_failure(3));
    insta::assert_snapshot!(
        "no_key",
        scene.swb(&["-p", "hi", "--model", "openai/x"]).expect_failure(3)
    );
}

#[test]
fn a_conversation_is_stored_and_continued() {
    let service = service((0..9).map(|at| Reply::text(&format!("answer {at}"))));
    let scene = with_model(&service);
    let first = object(&scene.swb(&["-p", "one", "--output-format", "json"]), 0);
    let id = first["session_id"].as_str().expect("it is kept").to_owned();
    assert_eq!(scene.swb(&["-p", "two", "--continue"]).expect_success(), "answer 1\n");
    let texts = |at: usize| -> Vec<String> {
        let body = service.request_body(at);
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        messages
            .iter()
            .map(|it| it["content"][0]["text"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(texts(1), ["one", "answer 0", "two"]);
    assert_eq!(scene.swb(&["-p", "another"]).expect_success(), "answer 2\n");
    assert_eq!(scene.swb(&["-p", "three", "--resume", &id]).expect_success(), "answer 3\n");
    assert_eq!(texts(3), ["one", "answer 0", "two", "answer 1", "three"]);
    let ran = scene.swb(&["-p", "x", "--resume", "../nobody"]);
    assert!(ran.expect_failure(5).contains("there is no conversation"), "{}", ran.to_snapshot());
    // Conversations belong to one project.
    let elsewhere = scene.root().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).expect("a folder");
    let ran = scene.swb_in(&elsewhere, &["-p", "x", "--continue"]);
    assert!(
        ran.expect_failure(5).contains("there is no conversation in this project yet"),
        "{}",
        ran.to_snapshot()
    );
}

#[test]
fn piped_input_is_added_and_invalid_input_is_an_error() {
    let service = service([Reply::text("a"), Reply::text("b")]);
    let scene = with_model(&service);
    assert_eq!(piped(&scene, &["-p", "sum up"], b"a long text\n").expect_success(), "a\n");
    assert_eq!(
        service.request_body(0)["messages"][0]["content"][0]["text"],
        "sum up\n\na long text\n"
    );
    assert_eq!(piped(&scene, &["-p"], b"only this").expect_success(), "b\n");
    assert_eq!(service.request_body(1)["messages"][0]["content"][0]["text"], "only this");
    assert!(
        piped(&scene, &["-p", "x"], b"\xff\xfe").expect_failure(2).contains("is not valid UTF-8")
    );
    assert!(scene.swb(&["-p"]).expect_failure(2).contains("the prompt is empty"));
    assert!(
        scene
            .swb(&["-p", "x", "--allowed-tools", "???"])
            .expect_failure(2)
            .contains("is not a valid rule")
    );
    assert!(
        scene
            .swb(&["--model", "x", "list"])
            .expect_failure(2)
            .contains("cannot be combined with a command")
    );
    assert_eq!(service.requests().len(), 2);
}

#[test]
fn events_are_printed_as_json_lines() {
    let service = service([
        Reply::message([ReplyPart::thinking("hmm"), ReplyPart::text("I ask."), echo("1", "tea")]),
        Reply::text("Done."),
    ]);
    let scene = with_model(&service);
    let ran =
        scene.swb(&["-p", "go", "--output-format", "stream-json", "--allowed-tools", "mcp__s"]);
    let lines: Vec<Json> =
        ran.expect_success().lines().map(|it| serde_json::from_str(it).expect("JSON")).collect();
    let kinds: Vec<&str> = lines.iter().map(|it| it["type"].as_str().unwrap_or_default()).collect();
    assert_eq!(
        kinds,
        [
            "init",
            "thought",
            "thought",
            "text",
            "answer_ended",
            "usage",
            "call",
            "call_ended",
            "text",
            "answer_ended",
            "usage",
            "result"
        ]
    );
    assert_eq!(lines[0]["servers"], json!([{"name": "s", "status": "connected"}]));
    assert_eq!(lines[6]["arguments"], json!({"text": "tea"}));
    assert_eq!((&lines[7]["outcome"], &lines[7]["text"]), (&json!("ok"), &json!("tea")));
    assert_eq!(lines[11]["result"], "Done.");
}

#[test]
fn a_model_that_fails_has_a_code_of_its_own() {
    let wrong = service([Reply::error(404, "not_found_error", "model: nobody")]);
    let scene = with_model(&wrong);
    insta::assert_snapshot!(
        "unknown_model",
        scene.swb(&["-p", "hi", "--model", "nobody"]).expect_failure(12)
    );
    let busy = service([Reply::error(400, "invalid_request_error", "prompt is too long: 9 > 8")]);
    let scene = with_model(&busy);
    let said = object(&scene.swb(&["-p", "hi", "--output-format", "json"]), 12);
    assert_eq!((&said["is_error"], &said["stop_reason"]), (&json!(true), &json!("error")));
    assert!(said["result"].as_str().is_some_and(|it| it.contains("too long for it")), "{said}");
    let cut = service([Reply::Message(vec![ReplyPart::text("I was")], ReplyEnd::MaxTokens)]);
    let ran = with_model(&cut).swb(&["-p", "hi"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (12, "I was\n"), "{}", ran.to_snapshot());
    assert!(ran.stderr.contains("the answer was truncated"), "{}", ran.to_snapshot());
    let endless = service((0..9).map(|_| Reply::message([echo("1", "x")])));
    let arguments =
        ["-p", "hi", "--max-turns", "2", "--allowed-tools", "mcp__s", "--output-format", "json"];
    let said = object(&with_model(&endless).swb(&arguments), 12);
    assert_eq!((&said["stop_reason"], &said["num_turns"]), (&json!("max_turns"), &json!(2)));
    // The API key of the environment is not printed.
    let mut scene = with_model(&wrong);
    scene.set_env("ANTHROPIC_API_KEY", "sk-wrong-canary");
    let ran = scene.swb(&["-p", "hi"]);
    assert!(ran.expect_failure(12).contains("it does not accept the key"), "{}", ran.to_snapshot());
    assert!(!ran.to_snapshot().contains("canary"), "{}", ran.to_snapshot());
}

#[test]
fn responses_are_escaped_and_no_prompt_is_shown_at_a_terminal() {
    let reply = || Reply::text("a\u{1b}[2Jb\tc\u{7}");
    let service = service([Reply::message([echo("1", "x")]), reply(), reply()]);
    let scene = with_model(&service);
    let terminal = Terminal::start(&scene.command(&scene.project(), &["-p", "hi"]));
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("\u{1b}[2J") && !shown.contains('\u{7}'), "{shown:?}");
    assert!(!shown.contains("to run"), "{shown}");
    let ran = scene.swb(&["-p", "hi"]);
    assert!(!ran.expect_success().contains('\u{1b}'), "{}", ran.to_snapshot());
}

#[test]
fn sampling_runs_if_the_user_permits_it() {
    let service = service([Reply::text("forty-two")]);
    let scene = with_model(&service);
    let call = ["call", "mcp__s__ask", "kind=sampling", "--mode", "bypass"];
    let declined = scene.swb(&call);
    assert!(
        declined.to_snapshot().contains("there is no user to ask"),
        "{}",
        declined.to_snapshot()
    );
    assert!(service.requests().is_empty());
    let mut terminal = Terminal::start(&scene.command(&scene.project(), &call));
    terminal.wait_for_output("asks").wait_for_output("? ").send_keys("y\r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("forty-two"), "{shown}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_run_and_the_conversation_can_be_continued() {
    let service =
        service([Reply::message([ReplyPart::text("I"), ReplyPart::Stall]), Reply::text("on")]);
    let scene = with_model(&service);
    let mut command = scene.command(&scene.project(), &["-p", "hi"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    service.wait_for_requests(1);
    let pid = child.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().expect("it is pressed");
    let output = child.wait_with_output().expect("it ends");
    let ran = scene.normalized_output(output.status.code(), &output.stdout, &output.stderr);
    assert!(ran.expect_failure(130).contains("interrupted"), "{}", ran.to_snapshot());
    assert_eq!(scene.swb(&["-p", "again", "--continue"]).expect_success(), "on\n");
}
