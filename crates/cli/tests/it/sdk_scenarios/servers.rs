//! MCP servers that the process of the SDK hosts.

use std::time::Instant;

use serde_json::{Value as Json, json};
use testkit::model_service::{Reply, ReplyPart};
use testkit::{Script, ScriptedProgram};

use crate::sdk_support::{Sdk, ToolResult, call, results_for_model, run, sandbox, service};

fn plan(options: &Json) -> Json {
    json!({"client": true, "prompts": ["go"], "servers": ["tools"], "options": options})
}

fn allowed() -> Json {
    json!({"allowed_tools": [
        "mcp__tools__add", "mcp__tools__fail", "mcp__tools__crash", "mcp__tools__image",
        "mcp__tools__measure", "mcp__tools__slow", "mcp__tools__big",
    ]})
}

pub fn tools_of_the_sdk_are_called_with_results_errors_and_images(sdk: Sdk) {
    let service = service([
        call("t1", "mcp__tools__add", &json!({"a": 2, "b": 3})),
        call("t2", "mcp__tools__fail", &json!({})),
        call("t3", "mcp__tools__crash", &json!({})),
        call("t4", "mcp__tools__image", &json!({})),
        call("t5", "mcp__tools__add", &json!({"a": "no number"})),
        Reply::text("done"),
    ]);
    let observed = run(sdk, &sandbox(&service), &plan(&allowed()));
    observed.expect_success();
    let results = observed.tool_results();
    let is = |at: usize, text: &str, is_error: bool| {
        results[at].text.contains(text) && results[at].is_error == is_error
    };
    assert_eq!(results.len(), 5, "{}", observed.report());
    assert!(is(0, "5", false), "{}", observed.report());
    assert!(is(1, "it failed", true), "{}", observed.report());
    assert!(is(2, "it crashed", true), "{}", observed.report());
    assert!(results[4].is_error, "{}", observed.report());
    let image = &results_for_model(&service, 4)[0]["content"][0];
    assert_eq!(image["type"], "image", "{image}");
    assert_eq!(image["source"]["media_type"], "image/png", "{image}");
    let servers = &observed.system("init")[0]["mcp_servers"];
    let own = servers.as_array().into_iter().flatten().find(|it| it["name"] == "tools");
    assert_eq!(own.map(|it| &it["status"]), Some(&json!("connected")), "{servers}");
}

/// anthropics/claude-agent-sdk-typescript#41.
pub fn twenty_overlapping_calls_with_large_arguments_lose_nothing(sdk: Sdk) {
    const CALLS: usize = 20;
    const BYTES: usize = 200_000;
    let texts: Vec<String> = (0..CALLS).map(|at| format!("{at:02}").repeat(BYTES / 2)).collect();
    let calls = texts.iter().enumerate().map(|(at, text)| {
        let arguments = json!({"text": text, "peers": CALLS});
        ReplyPart::tool_call(&format!("t{at}"), "mcp__tools__measure", &arguments)
    });
    let service = service([Reply::message(calls), Reply::text("done")]);
    let observed = run(sdk, &sandbox(&service), &plan(&allowed()));
    observed.expect_success();
    let mut results = observed.tool_results();
    results.sort_by_key(|it| it.id[1..].parse::<usize>().unwrap_or_default());
    let expected: Vec<ToolResult> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| ToolResult {
            id: format!("t{at}"),
            text: format!("{BYTES} {}", &text[..2]),
            is_error: false,
        })
        .collect();
    assert_eq!(results, expected);
    assert_eq!(observed.with_key("peak")[0]["peak"], CALLS);
}

pub fn what_a_server_says_for_programs_comes_with_the_result(sdk: Sdk) {
    let service = service([
        call("t1", "mcp__s__add", &json!({"a": 2, "b": 3})),
        call("t2", "mcp__s__echo", &json!({"text": "tea"})),
        Reply::text("done"),
    ]);
    let entry: Json = serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy()))
        .expect("an entry is JSON");
    let plan = json!({"client": true, "prompts": ["go"], "options": {
        "mcp_servers": {"s": entry}, "allowed_tools": ["mcp__s__add", "mcp__s__echo"],
    }});
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let results = observed.messages("user");
    let details: Vec<&Json> = results.iter().map(|it| &it["tool_use_result"]).collect();
    assert_eq!(details.len(), 2, "{}", observed.report());
    let sum = details[0]["structuredContent"]["sum"].as_f64();
    assert_eq!((sum, details[1]), (Some(5.0), &Json::Null), "{}", observed.report());
}

pub fn a_call_that_is_longer_than_the_tool_timeout_fails_and_the_server_stays(sdk: Sdk) {
    let service = service([
        call("t1", "mcp__tools__slow", &json!({"seconds": 600})),
        call("t2", "mcp__tools__slow", &json!({"seconds": 1})),
        call("t3", "mcp__tools__add", &json!({"a": 1, "b": 1})),
        Reply::text("done"),
    ]);
    let mut sandbox = sandbox(&service);
    sandbox.set_env("MCP_TOOL_TIMEOUT", "3000");
    let started = Instant::now();
    let observed = run(sdk, &sandbox, &plan(&allowed()));
    observed.expect_success();
    let results = observed.tool_results();
    assert_eq!(results.len(), 3, "{}", observed.report());
    assert!(results[0].is_error, "{}", observed.report());
    assert!(!results[1].is_error && results[1].text.contains("slept"), "{}", observed.report());
    assert!(results[2].text.starts_with('2'), "{}", observed.report());
    assert!(started.elapsed().as_secs() >= 4, "the calls ended early");
}

pub fn a_call_of_many_small_values_does_not_end_the_session(sdk: Sdk) {
    let rows = vec!["x".repeat(500); 4000];
    let arguments = json!({"a": 2, "b": 2, "rows": rows});
    let service = service([call("t1", "mcp__tools__add", &arguments), Reply::text("done")]);
    let plan = json!({
        "client": true, "prompts": ["go"], "servers": ["tools"],
        "options": {"allowed_tools": ["mcp__tools__add"], "include_partial_messages": true},
    });
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.tool_result().id, "t1", "{}", observed.report());
    assert_eq!(observed.results(), ["done"], "{}", observed.report());
}

/// A longer line than 1 MiB ends the Python SDK's session.
pub fn a_result_larger_than_a_frame_does_not_end_the_session(sdk: Sdk) {
    let service =
        service([call("t1", "mcp__tools__big", &json!({"bytes": 1_500_000})), Reply::text("done")]);
    let observed = run(sdk, &sandbox(&service), &plan(&allowed()));
    observed.expect_success();
    assert_eq!(observed.results(), ["done"], "{}", observed.report());
    assert_eq!(observed.tool_results().len(), 1);
}
