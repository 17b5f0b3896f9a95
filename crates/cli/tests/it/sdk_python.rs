//! The program under the public Python agent SDK, and under the example programs that it is published with.

use std::os::unix::fs::symlink;

use serde_json::{Value as Json, json};
use testkit::model_service::{Reply, ReplyPart};
use testkit::{ModelService, Sandbox, Script, ScriptedProgram, real_servers};

use crate::sdk_scenarios;
use crate::sdk_support::{Observed, Sdk, SdkRun, call, run, sandbox, sdk_program, service};

sdk_scenarios::scenarios!(crate::sdk_support::Sdk::Python);

#[test]
fn a_hook_that_must_not_fail_blocks_the_call_when_it_fails() {
    let service =
        service([call("t1", "mcp__tools__add", &json!({"a": 1, "b": 1})), Reply::text("no sum")]);
    let plan = json!({
        "client": true, "prompts": ["go"], "servers": ["tools"],
        "options": {"allowed_tools": ["mcp__tools__add"]},
        "hooks": {"PreToolUse": [{"raises": "a bug in a hook", "on_failure": "block"}]},
    });
    let observed = run(Sdk::Python, &sandbox(&service), &plan);
    observed.expect_success();
    assert!(observed.tool_result().is_error, "{}", observed.report());
    assert_eq!(observed.results(), ["no sum"]);
}

#[test]
fn a_hook_after_a_call_or_at_the_end_that_must_not_fail_has_an_effect() {
    for event in ["PostToolUse", "Stop"] {
        let add = call("t1", "mcp__tools__add", &json!({"a": 2, "b": 2}));
        let service = service([add, Reply::text("done"), Reply::text("not reached")]);
        let plan = json!({
            "client": true, "prompts": ["go"], "servers": ["tools"],
            "options": {"allowed_tools": ["mcp__tools__add"]},
            "hooks": {event: [{"raises": "a bug in a hook", "on_failure": "block"}]},
        });
        let observed = run(Sdk::Python, &sandbox(&service), &plan);
        observed.expect_success();
        assert_eq!(
            observed.tool_result().is_error,
            event == "PostToolUse",
            "{}",
            observed.report()
        );
        assert_eq!(observed.results(), ["done"], "{}", observed.report());
        assert_eq!(service.requests().len(), 2, "{}", observed.report());
    }
}

#[test]
fn an_elicitation_that_the_sdk_cannot_answer_is_declined() {
    let service = service([call("t1", "mcp__s__ask", &json!({})), Reply::text("declined")]);
    let entry: Json = serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy()))
        .expect("an entry is JSON");
    let plan = json!({
        "client": true, "prompts": ["go"],
        "hooks": {"Stop": [{}]},
        "options": {"allowed_tools": ["mcp__s__ask"], "mcp_servers": {"s": entry}},
    });
    let observed = run(Sdk::Python, &sandbox(&service), &plan);
    observed.expect_success();
    let result = observed.tool_result();
    assert!(
        result.text.contains("decline") || result.text.contains("cancel"),
        "{}",
        observed.report()
    );
    assert_eq!(observed.results(), ["declined"]);
}

/// Runs an example of the SDK's source package. It finds the program as `claude` in the search path.
fn example(
    name: &str,
    arguments: &[&str],
    replies: impl IntoIterator<Item = Reply>,
) -> (Observed, ModelService, Sandbox) {
    let service = service(replies);
    let mut sandbox = sandbox(&service);
    let programs = sandbox.root().join("programs");
    std::fs::create_dir_all(&programs).expect("a folder can be made");
    symlink(sdk_program(), programs.join("claude")).expect("a link can be made");
    let path = std::env::var("PATH").unwrap_or_default();
    sandbox.set_env("PATH", &format!("{}:{path}", programs.display()));
    let script = real_servers::python_agent_sdk_source().join("examples").join(name);
    let mut command = real_servers::python_script(&script, arguments);
    // The sandbox's search path holds.
    command.env.clear();
    let observed = SdkRun::spawn(&sandbox, &command).finish();
    assert_eq!(observed.code, 0, "{}", observed.report());
    assert!(!observed.stderr.contains("Traceback"), "{}", observed.report());
    (observed, service, sandbox)
}

/// Fails unless these lines are in the output, in this order.
#[track_caller]
fn assert_prints(observed: &Observed, lines: &[&str]) {
    let mut printed = observed.text.lines();
    for line in lines {
        let is_there = printed.any(|it| it.trim_end() == *line);
        assert!(is_there, "`{line}` is missing: {}", observed.report());
    }
}

fn texts<const N: usize>(texts: [&str; N]) -> [Reply; N] {
    texts.map(Reply::text)
}

fn bash(id: &str, command: &str) -> Reply {
    call(id, "Bash", &json!({"command": command, "description": "Runs it"}))
}

fn write(id: &str, path: &str) -> Reply {
    call(id, "Write", &json!({"file_path": path, "content": "print('Hello, World!')\n"}))
}

/// A reply that stops after a text.
fn stalled(text: &str) -> Reply {
    Reply::message([ReplyPart::text(text), ReplyPart::Stall])
}

#[test]
fn the_example_quick_start_runs() {
    let file = "hello.txt";
    let (observed, service, sandbox) = example(
        "quick_start.py",
        &[],
        [Reply::text("4"), Reply::text("A language."), write("t1", file), Reply::text("Created.")],
    );
    assert_prints(&observed, &["Claude: 4", "Claude: A language.", "Claude: Created."]);
    let system = service.request_body(1)["system"].to_string();
    assert!(system.contains("explains things simply"), "{system}");
    assert_eq!(service.requests().len(), 4, "{}", observed.report());
    assert!(sandbox.path(file).is_file(), "{}", service.request_body(3)["messages"]);
}

#[test]
fn the_example_of_streaming_mode_runs_turns_and_options() {
    let run = |name: &str, replies: Vec<Reply>| example("streaming_mode.py", &[name], replies);
    let (observed, ..) = run("basic_streaming", texts(["4"]).into());
    assert_prints(&observed, &["User: What is 2+2?", "Claude: 4", "Result ended"]);
    let (observed, ..) = run("multi_turn_conversation", texts(["Paris.", "Two million."]).into());
    assert_prints(&observed, &["Claude: Paris.", "Result ended", "Claude: Two million."]);
    let (observed, ..) = run("manual_message_handling", texts(["Rust and Python"]).into());
    assert_prints(&observed, &["Found language: Rust", "Result ended"]);
    let (observed, _, sandbox) =
        run("with_options", vec![write("t1", "hello.txt"), Reply::text("Created.")]);
    assert_prints(&observed, &["Claude: Created.", "Tools used: Write"]);
    assert!(sandbox.path("hello.txt").is_file(), "{}", observed.report());
}

#[test]
fn the_example_of_streaming_mode_interrupts() {
    let run = |name: &str, replies: Vec<Reply>| example("streaming_mode.py", &[name], replies);
    let (observed, service, _) =
        run("with_interrupt", vec![stalled("1, 2"), Reply::text("A joke.")]);
    assert_prints(&observed, &["Result ended", "Claude: A joke.", "Result ended"]);
    service.wait_for_disconnect();
    let (observed, ..) = run("control_protocol", vec![stalled("1, 2"), Reply::text("Hello!")]);
    assert_prints(&observed, &["✓ Interrupt sent successfully", "Claude: Hello!"]);
    assert!(observed.text.contains("Server info retrieved"), "{}", observed.report());
    let (observed, ..) = run("error_handling", vec![stalled("I sleep")]);
    assert!(observed.text.contains("demonstrating graceful handling"), "{}", observed.report());
}

#[test]
fn the_example_of_streaming_mode_sends_while_it_receives() {
    let run = |name: &str, replies: Vec<Reply>| example("streaming_mode.py", &[name], replies);
    let (observed, ..) = run("concurrent_responses", texts(["4", "12", "8"]).into());
    assert_prints(&observed, &["Claude: 4", "Claude: 12", "Claude: 8", "Result ended"]);
    let replies = vec![bash("t1", "echo 'Hello from bash!'"), Reply::text("It ran.")];
    let (observed, ..) = run("bash_command", replies);
    assert_prints(&observed, &["Tool Use: Bash (id: t1)", "Claude: It ran.", "Result ended"]);
}

#[test]
fn the_example_of_streaming_mode_sends_a_stream_of_prompts() {
    let replies = texts(["Hello.", "Tokyo.", "30."]);
    let (observed, ..) = example("streaming_mode.py", &["async_iterable_prompt"], replies);
    assert_prints(&observed, &["Claude: Hello.", "Claude: Tokyo.", "Claude: 30."]);
}

#[test]
fn the_example_of_hooks_runs() {
    let (observed, service, sandbox) = example(
        "hooks.py",
        &["all"],
        [
            bash("t1", "./foo.sh --help"),
            Reply::text("It was blocked."),
            bash("t2", "echo 'Hello from hooks example!'"),
            Reply::text("It ran."),
            Reply::text("Hot pink."),
            bash("t3", "ls /nonexistent_directory"),
            Reply::text("There was an error."),
            write("t4", "important_config.txt"),
            Reply::text("It is protected."),
            write("t5", "regular_file.txt"),
            Reply::text("It is written."),
            bash("t6", "echo 'CRITICAL ERROR: system failure'"),
        ],
    );
    let expected = [
        "Claude: It was blocked.",
        "Claude: It ran.",
        "Claude: Hot pink.",
        "Claude: There was an error.",
        "Claude: It is protected.",
        "Claude: It is written.",
        "=== Continue/Stop Control Example ===",
        "Result ended",
    ];
    assert_prints(&observed, &expected);
    assert_eq!(service.requests().len(), 12, "{}", observed.report());
    let of_request = |at: usize| service.request_body(at)["messages"].to_string();
    assert!(of_request(1).contains("Command contains invalid pattern: foo.sh"));
    assert!(of_request(3).contains("Hello from hooks example!"));
    assert!(of_request(6).contains("nonexistent_directory"));
    assert!(!sandbox.path("important_config.txt").exists());
    assert!(sandbox.path("regular_file.txt").is_file(), "{}", of_request(10));
}

#[test]
fn the_example_of_a_calculator_runs() {
    let calculate = |tool: &str, arguments: Json| {
        [call("t1", &format!("mcp__calc__{tool}"), &arguments), Reply::text("Done.")]
    };
    let replies = [Reply::text("Six tools.")]
        .into_iter()
        .chain(calculate("add", json!({"a": 15, "b": 27})))
        .chain(calculate("divide", json!({"a": 100, "b": 7})))
        .chain(calculate("sqrt", json!({"n": 144})))
        .chain(calculate("power", json!({"base": 2, "exponent": 8})))
        .chain(calculate("multiply", json!({"a": 20, "b": 3})));
    let (observed, service, _) = example("mcp_calculator.py", &[], replies);
    let expected =
        ["Claude: Six tools.", "Using tool: mcp__calc__add", "Claude: Done.", "Result ended"];
    assert_prints(&observed, &expected);
    for (request, text) in [(2, "15 + 27 = 42"), (6, "√144 = 12"), (8, "2^8 = 256")] {
        let sent = service.request_body(request)["messages"].to_string();
        assert!(sent.contains(text), "{sent}");
    }
}

#[test]
fn the_example_of_a_permission_callback_runs() {
    let (observed, service, sandbox) = example(
        "tool_permission_callback.py",
        &[],
        [
            bash("t1", "ls -la"),
            write("t2", "hello.py"),
            bash("t3", "cat safe_output/hello.py"),
            Reply::text("All is done."),
        ],
    );
    assert!(observed.text.contains("Claude: All is done."), "{}", observed.report());
    assert!(observed.text.contains("Redirecting write from"), "{}", observed.report());
    assert!(sandbox.path("safe_output/hello.py").is_file(), "{}", observed.report());
    assert!(service.request_body(3)["messages"].to_string().contains("Hello, World!"));
}

#[test]
fn the_example_of_system_prompts_runs() {
    let (observed, service, _) =
        example("system_prompt.py", &[], texts(["4", "Four, matey.", "4.", "4. A fact."]));
    assert_prints(
        &observed,
        &["Claude: 4", "Claude: Four, matey.", "Claude: 4.", "Claude: 4. A fact."],
    );
    let system = |at: usize| service.request_body(at)["system"].to_string();
    assert!(system(1).contains("You are a pirate assistant."), "{}", system(1));
    assert!(!system(2).contains("pirate") && system(2).len() > system(1).len(), "{}", system(2));
    assert!(system(3).contains("Always end your response with a fun fact."), "{}", system(3));
}

#[test]
fn the_example_of_tools_runs() {
    let (observed, service, _) =
        example("tools_option.py", &[], texts(["Three.", "None.", "All."]));
    assert_prints(&observed, &["Claude: Three.", "Claude: None.", "Claude: All."]);
    let names = |at: usize| -> Vec<String> {
        let body = service.request_body(at);
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().filter_map(|it| it["name"].as_str().map(str::to_owned)).collect()
    };
    for name in ["Read", "Glob", "Grep"] {
        assert!(names(0).iter().any(|it| it == name), "{name}: {:?}", names(0));
    }
    assert!(!names(0).iter().any(|it| it == "Bash"), "{:?}", names(0));
    assert!(!names(1).iter().any(|it| ["Read", "Bash", "Write"].contains(&it.as_str())));
    assert!(names(2).iter().any(|it| it == "Bash"), "{:?}", names(2));
}

#[test]
fn the_small_examples_run() {
    let text = Reply::text("Hello there, friend.");
    for (name, arguments, replies, printed) in [
        ("include_partial_messages.py", &[][..], 1, "StreamEvent("),
        ("stderr_callback_example.py", &[], 1, "Captured "),
        ("agents.py", &[], 3, "Claude: Hello there, friend."),
        ("plugin_example.py", &[], 1, "Plugin successfully configured!"),
        ("filesystem_agents.py", &[], 1, "SUCCESS: Received full response"),
        ("streaming_mode_trio.py", &[], 3, "Conversation complete!"),
        ("max_budget_usd.py", &[], 3, "Status: success"),
    ] {
        let (observed, ..) = example(name, arguments, vec![text.clone(); replies]);
        assert!(observed.text.contains(printed), "{name}: {}", observed.report());
    }
}

#[test]
fn the_example_of_setting_sources_runs() {
    let (observed, ..) = example("setting_sources.py", &["all"], texts(["4", "4", "4", "4"]));
    assert_eq!(
        observed.text.matches("Available slash commands:").count(),
        4,
        "{}",
        observed.report()
    );
    assert!(observed.text.contains("(expected: sources disabled)"), "{}", observed.report());
}
