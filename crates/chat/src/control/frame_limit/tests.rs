//! Frames and requests that are too long for one line, as the SDKs read them.

use super::*;

#[track_caller]
fn read(frame: &Json) -> Json {
    let line = bounded_line(frame);
    assert!(line.len() <= MAX_LINE_BYTES + 1, "{}", line.len());
    let read: Json = serde_json::from_str(&line).expect("one JSON object");
    assert_eq!(read["type"], frame["type"]);
    read
}

#[track_caller]
fn check(frame: &Json, expected: &str) {
    let line = read(frame).to_string();
    assert!(line.contains(expected), "{}", &line[..200]);
}

/// More than a million bytes in values that are too short to cut.
fn many() -> Json {
    vec!["x".repeat(500); 2200].into()
}

/// The same with names.
fn many_members() -> Json {
    (0..20_000)
        .map(|at| (format!("name_{at}"), json!({"value": "x".repeat(30)})))
        .collect::<Map<_, _>>()
        .into()
}

#[test]
fn a_line_stays_below_the_limit_and_says_what_was_cut() {
    let long = "ü".repeat(MAX_LINE_BYTES);
    check(&json!({"type": "user", "message": {"content": [{"text": long}]}}), CUT_MARK);
    let picture = json!({"type": "image", "source": {"media_type": "image/png", "data": long}});
    check(&json!({"type": "user", "message": {"content": [picture]}}), "image/png, left out");
    let control_characters = "\u{1}".repeat(MAX_LINE_BYTES / 2);
    check(&json!({"type": "user", "message": {"content": control_characters}}), CUT_MARK);
}

#[test]
fn a_small_frame_is_printed_as_it_is() {
    assert_eq!(
        bounded_line(&json!({"type": "user", "a": "b\nc"})),
        "{\"type\":\"user\",\"a\":\"b\\nc\"}\n"
    );
}

#[test]
fn an_answer_of_many_small_values_is_an_error_for_the_same_request() {
    let response = json!({"subtype": "success", "request_id": "r1", "response": {"rows": many()}});
    let read = read(&json!({"type": "control_response", "response": response}));
    assert_eq!(read["response"]["request_id"], "r1");
    assert_eq!(read["response"]["subtype"], "error");
    assert_eq!(read["response"]["error"], TOO_LARGE);
}

#[test]
fn a_call_of_many_small_values_is_still_a_call() {
    for input in [many(), many_members()] {
        let call = json!({"type": "tool_use", "id": "t1", "name": "Write", "input": input});
        let message = json!({"id": "m", "model": "n", "role": "assistant", "content": [call]});
        let read = read(&json!({"type": "assistant", "message": message, "session_id": "s",
            "parent_tool_use_id": null}));
        let expected = json!([{"type": "tool_use", "id": "t1", "name": "Write", "input": {}}]);
        assert_eq!(read["message"]["content"], expected);
        assert_eq!(read["message"]["model"], "n");
        assert_eq!((&read["session_id"], &read["parent_tool_use_id"]), (&json!("s"), &Json::Null));
    }
}

#[test]
fn a_result_of_many_blocks_still_answers_its_call() {
    let blocks: Vec<Json> = vec![json!({"type": "text", "text": "x".repeat(500)}); 4000];
    let result =
        json!({"type": "tool_result", "tool_use_id": "t1", "content": blocks, "is_error": false});
    let read = read(&json!({"type": "user", "message": {"role": "user", "content": [result]}}));
    let block = &read["message"]["content"][0];
    assert_eq!((&block["type"], &block["tool_use_id"]), (&json!("tool_result"), &json!("t1")));
    assert_eq!(block["content"], json!([{"type": "text", "text": CUT_MARK}]));
}

#[test]
fn a_streamed_call_of_many_small_values_keeps_its_event() {
    let block = json!({"type": "tool_use", "id": "t1", "name": "Write", "input": many()});
    let event = json!({"type": "content_block_start", "index": 0, "content_block": block});
    let read =
        read(&json!({"type": "stream_event", "uuid": "u", "session_id": "s", "event": event}));
    assert_eq!(read["event"]["content_block"]["name"], "Write");
    assert_eq!(read["event"]["index"], 0);
}

#[test]
fn the_init_frame_of_many_tools_and_the_result_of_many_denials_keep_their_members() {
    let init = json!({"type": "system", "subtype": "init", "tools": many(), "model": "m",
        "mcp_servers": [{"name": "a", "status": "connected"}], "session_id": "s"});
    let init = read(&init);
    assert_eq!((&init["subtype"], &init["model"]), (&json!("init"), &json!("m")));
    assert_eq!(init["mcp_servers"][0]["name"], "a");
    assert!(init["tools"].as_array().is_some_and(|it| it.len() > 10));
    let denial = json!({"tool_name": "Write", "tool_use_id": "t1", "tool_input": many()});
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 1,
        "duration_ms": 1, "duration_api_ms": 1, "session_id": "s", "permission_denials": [denial]});
    let result = read(&result);
    assert_eq!((&result["num_turns"], &result["is_error"]), (&json!(1), &json!(false)));
    let expected = json!([{"tool_name": "Write", "tool_use_id": "t1", "tool_input": {}}]);
    assert_eq!(result["permission_denials"], expected);
    assert!(result.get("message").is_none() && result.get("event").is_none());
}

#[test]
fn a_part_of_a_structured_output_is_not_passed_off_as_the_whole() {
    let result = read(&json!({"type": "result", "subtype": "success", "is_error": false,
        "structured_output": {"rows": many()}}));
    assert_eq!((&result["structured_output"], &result["is_error"]), (&Json::Null, &json!(true)));
    assert_eq!(result["errors"], json!([OUTPUT_TOO_LARGE]));
}

#[test]
fn what_a_server_says_for_programs_is_whole_or_absent() {
    let frame = |size: usize| {
        json!({"type": "user", "message": {"content": []},
        "tool_use_result": {"structuredContent": {"text": "x".repeat(size)}}})
    };
    assert_eq!(read(&frame(900_000)), frame(900_000));
    let read = read(&frame(1_200_000));
    assert_eq!(read, json!({"type": "user", "message": {"content": []}}));
}

#[test]
fn a_structured_output_is_whole_or_an_error() {
    let frame = |output: &Json, text: &str| {
        json!({"type": "result", "subtype": "success",
        "is_error": false, "result": text, "structured_output": output})
    };
    let long = json!({"text": "x".repeat(MAX_LINE_BYTES)});
    let result = read(&frame(&long, ""));
    assert_eq!((&result["structured_output"], &result["is_error"]), (&Json::Null, &json!(true)));
    assert_eq!(result["errors"], json!([OUTPUT_TOO_LARGE]));
    let fitting = json!({"text": "x".repeat(MAX_LINE_BYTES - RESULT_BYTES - 100)});
    let result = read(&frame(&fitting, &"y".repeat(MAX_LINE_BYTES)));
    assert_eq!((&result["structured_output"], &result["is_error"]), (&fitting, &json!(false)));
    assert!(result["result"].as_str().is_some_and(|it| it.ends_with(CUT_MARK)));
}

#[test]
fn every_request_fits_and_keeps_what_it_is_about() {
    let mut deep = json!("x".repeat(200));
    for _ in 0..20 {
        deep = json!([deep.clone(), deep]);
        if deep.to_string().len() > MAX_LINE_BYTES {
            break;
        }
    }
    let name = "n".repeat(MAX_LINE_BYTES);
    for input in [many(), many_members(), deep, json!({(name): 1}), json!("\u{1}".repeat(200_000))]
    {
        let body =
            json!({"subtype": "can_use_tool", "tool_name": "Write", "input": {"content": input}});
        let fitted = fitted_request(&body);
        assert!(fitted.to_string().len() < MAX_LINE_BYTES, "{}", fitted.to_string().len());
        assert_eq!(fitted["tool_name"], "Write");
        assert!(fitted.to_string().contains(CUT_MARK));
    }
}
