//! Prompts, turns, results and interrupts.

use serde_json::json;
use testkit::model_service::{Reply, ReplyPart};

use crate::sdk_support::{Sdk, call, one_prompt, run, sandbox, service, start};

/// Both SDKs end the input right behind a plain prompt, before any output.
pub fn one_prompt_is_answered_and_the_run_ends(sdk: Sdk) {
    let service = service([Reply::text("hello")]);
    let observed = run(sdk, &sandbox(&service), &one_prompt(json!({})));
    observed.expect_success();
    assert_eq!(observed.system("init").len(), 1, "{}", observed.report());
    let said = observed.messages("assistant");
    assert_eq!(said.len(), 1, "{}", observed.report());
    assert_eq!(said[0]["content"][0]["text"], "hello");
    let result = observed.result();
    for (key, value) in [
        ("subtype", json!("success")),
        ("is_error", json!(false)),
        ("result", json!("hello")),
        ("num_turns", json!(1)),
        ("stop_reason", json!("end_turn")),
        ("session_id", observed.system("init")[0]["session_id"].clone()),
    ] {
        assert_eq!(result[key], value, "{key}: {}", observed.report());
    }
    assert_eq!(service.request_body(0)["messages"][0]["role"], "user");
    assert!(service.request_body(0)["messages"].to_string().contains("go"));
}

pub fn several_turns_run_in_one_process_and_each_begins_with_init(sdk: Sdk) {
    let service = service([Reply::text("first"), Reply::text("second"), Reply::text("third")]);
    let plan = json!({"client": true, "prompts": ["one", "two", "three"]});
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.results(), ["first", "second", "third"], "{}", observed.report());
    let inits = observed.system("init");
    assert_eq!(inits.len(), 3, "{}", observed.report());
    assert!(inits.iter().all(|it| it["session_id"] == inits[0]["session_id"]));
    let last = service.request_body(2)["messages"].to_string();
    for text in ["one", "first", "two", "second", "three"] {
        assert!(last.contains(text), "{text}: {last}");
    }
}

/// anthropics/claude-agent-sdk-python#295, laurigates/claude-plugins#777: the input stays usable until nothing is owed.
pub fn a_stream_of_prompts_is_answered_while_a_server_of_the_sdk_is_used(sdk: Sdk) {
    let add = |id: &str| call(id, "mcp__tools__add", &json!({"a": 2, "b": 3}));
    let service = service([add("t1"), Reply::text("five")]);
    let plan = json!({
        "stream": true, "prompts": ["one"], "servers": ["tools"],
        "options": {"allowed_tools": ["mcp__tools__add"]},
    });
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.tool_result().text, "5", "{}", observed.report());
    assert_eq!(observed.results(), ["five"], "{}", observed.report());
}

pub fn partial_messages_come_before_the_whole_message(sdk: Sdk) {
    let service = service([Reply::message([ReplyPart::text("he"), ReplyPart::text("llo")])]);
    let plan = one_prompt(json!({"include_partial_messages": true}));
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let kinds: Vec<&str> = observed
        .messages("stream_event")
        .iter()
        .map(|it| it["event"]["type"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(kinds.first(), Some(&"message_start"), "{}", observed.report());
    assert_eq!(kinds.last(), Some(&"message_stop"), "{}", observed.report());
    let texts: String = observed
        .messages("stream_event")
        .iter()
        .filter_map(|it| it["event"]["delta"]["text"].as_str())
        .collect();
    assert_eq!(texts, "hello", "{}", observed.report());
    let of_type = |kind: &str, event: &str| {
        observed.lines.iter().position(|it| {
            it["message"]["type"] == kind
                && (event.is_empty() || it["message"]["event"]["type"] == event)
        })
    };
    let whole = of_type("assistant", "");
    assert!(of_type("stream_event", "content_block_delta") < whole, "{}", observed.report());
    assert!(whole < of_type("stream_event", "content_block_stop"), "{}", observed.report());
    assert_eq!(observed.results(), ["hello"]);
}

pub fn a_failure_of_the_model_service_is_an_error_result(sdk: Sdk) {
    let refusal = || {
        Reply::error(400, "invalid_request_error", "the model is out of order")
            .with_header("x-should-retry", "false")
    };
    let service = service([refusal(), refusal()]);
    let observed = run(sdk, &sandbox(&service), &one_prompt(json!({})));
    let error = observed.expect_error();
    let text = error["text"].as_str().unwrap_or_default();
    assert!(text.contains("the model is out of order"), "{}", observed.report());
    if sdk == Sdk::Python {
        assert_eq!(error["raised"], "ResultError", "{}", observed.report());
    }
    let result = observed.result();
    assert_eq!(result["is_error"], true);
    assert_eq!(result["subtype"], "success");
    assert_eq!(result["api_error_status"], 400, "{}", observed.report());
    let said = observed.messages("assistant");
    assert_eq!(said.last().map(|it| &it["model"]), Some(&json!("<synthetic>")));
}

pub fn the_turn_limit_ends_the_run_with_an_error_result(sdk: Sdk) {
    let add = |id: &str| call(id, "mcp__tools__add", &json!({"a": 1, "b": 1}));
    let service = service([add("t1"), add("t2"), add("t3")]);
    let plan = json!({
        "prompts": ["go"], "stream": true, "servers": ["tools"],
        "options": {"max_turns": 2, "allowed_tools": ["mcp__tools__add"]},
    });
    let observed = run(sdk, &sandbox(&service), &plan);
    let result = observed.result();
    assert_eq!(result["subtype"], "error_max_turns", "{}", observed.report());
    assert_eq!(result["is_error"], true);
    let errors = result["errors"].to_string();
    assert!(errors.contains("maximum number of turns (2)"), "{errors}");
    assert_eq!(service.requests().len(), 2, "{}", observed.report());
}

/// A plan whose answer is a JSON object with a whole number.
fn structured() -> serde_json::Value {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    one_prompt(json!({"output_format": {"type": "json_schema", "schema": schema}}))
}

pub fn an_answer_that_matches_the_schema_is_the_structured_output(sdk: Sdk) {
    let give = |id: &str, value| call(id, "StructuredOutput", &value);
    let service = service([
        Reply::text("seven"),
        give("t1", json!({"n": "seven"})),
        give("t2", json!({"n": 7})),
    ]);
    let observed = run(sdk, &sandbox(&service), &structured());
    observed.expect_success();
    let result = observed.result();
    assert_eq!(result["subtype"], "success", "{}", observed.report());
    assert_eq!(result["structured_output"], json!({"n": 7}), "{}", observed.report());
}

pub fn answers_that_never_match_the_schema_are_an_error_result(sdk: Sdk) {
    let wrong = |id: &str| call(id, "StructuredOutput", &json!({"n": "seven"}));
    let replies = [Reply::text("no"), wrong("t1"), wrong("t2"), Reply::text("no"), wrong("t3")];
    let service = service(replies);
    let observed = run(sdk, &sandbox(&service), &structured());
    let result = observed.result();
    assert_eq!(result["subtype"], "error_max_structured_output_retries", "{}", observed.report());
    assert_eq!(result["is_error"], true);
    assert!(result["errors"][0].is_string(), "{}", observed.report());
    assert_eq!(service.requests().len(), 5, "{}", observed.report());
}

pub fn a_limit_without_effect_is_said_to_the_program(sdk: Sdk) {
    let service = service([Reply::text("done")]);
    let observed = run(sdk, &sandbox(&service), &one_prompt(json!({"max_budget_usd": 1.5})));
    observed.expect_success();
    let notices = observed.system("informational");
    assert_eq!(notices.len(), 1, "{}", observed.report());
    let text = notices[0]["content"].as_str().unwrap_or_default();
    assert!(text.contains("--max-budget-usd has no effect"), "{text}");
}

pub fn an_unknown_flag_is_a_warning_on_stderr(sdk: Sdk) {
    let service = service([Reply::text("hello")]);
    let plan = one_prompt(json!({"extra_args": {"no-such-flag": "value"}}));
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.results(), ["hello"], "{}", observed.report());
    let stderr = observed.with_key("stderr");
    let names_flag = |it: &&serde_json::Value| {
        it["stderr"].as_str().is_some_and(|it| it.contains("no-such-flag"))
    };
    assert!(stderr.iter().any(names_flag), "{}", observed.report());
}

pub fn an_interrupt_ends_a_streaming_answer_and_the_next_turn_runs(sdk: Sdk) {
    let service = service([
        Reply::message([ReplyPart::text("I begin"), ReplyPart::Stall]),
        Reply::text("I am back"),
    ]);
    let plan = json!({
        "client": true, "prompts": ["count", "again"],
        "options": {"include_partial_messages": true},
        "commands": [{"at": "partial", "call": "interrupt"}],
    });
    let sandbox = sandbox(&service);
    let mut run = start(sdk, &sandbox, &plan);
    let answer = run.wait_for("command");
    assert!(answer.get("error").is_none(), "{answer}");
    let observed = run.finish();
    observed.expect_success();
    let results = observed.messages("result");
    assert_eq!(results.len(), 2, "{}", observed.report());
    assert_eq!(results[0]["subtype"], "error_during_execution", "{}", observed.report());
    assert_eq!(results[0]["is_error"], true);
    assert_eq!(results[1]["result"], "I am back");
    service.wait_for_disconnect();
    if sdk == Sdk::TypeScript {
        assert_eq!(results[0]["terminal_reason"], "aborted_streaming");
    }
}

pub fn an_interrupt_ends_a_running_tool(sdk: Sdk) {
    let service =
        service([call("t1", "mcp__tools__slow", &json!({"seconds": 600})), Reply::text("back")]);
    let plan = json!({
        "client": true, "prompts": ["wait", "again"], "servers": ["tools"],
        "options": {"allowed_tools": ["mcp__tools__slow"]},
        "commands": [{"at": "tool", "call": "interrupt"}],
    });
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let results = observed.messages("result");
    assert_eq!(results[0]["subtype"], "error_during_execution", "{}", observed.report());
    assert_eq!(results[1]["result"], "back", "{}", observed.report());
    assert!(observed.tool_result().is_error, "{}", observed.report());
    assert_eq!(observed.with_key("cancelled").len(), 1, "{}", observed.report());
    if sdk == Sdk::TypeScript {
        assert_eq!(results[0]["terminal_reason"], "aborted_tools");
    }
}
