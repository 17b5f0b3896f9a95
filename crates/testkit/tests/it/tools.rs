//! The built-in tools, pages, resources and prompts.

use serde_json::{Value, json};
use testkit::processes::wait_until;
use testkit::{Script, ScriptedProgram, ScriptedServer, scripted};

use crate::client::{Client, TIMEOUT, names, notification, request, text, with_modern_meta};
use crate::http_client::{HttpClient, post_modern};
use crate::stdio_client::StdioClient;

fn initialized_client(script: &Script) -> StdioClient {
    let mut lines = StdioClient::start(script);
    lines.open();
    lines
}

#[test]
fn simple_tools_work() {
    let mut lines = initialized_client(&Script::legacy().tools(1));
    assert_eq!(lines.tool(2, "add", json!({"a": 1, "b": 2}))["structuredContent"]["sum"], 3.0);
    assert_eq!(text(&lines.tool(3, "big", json!({"bytes": 100_000}))).len(), 100_000);
    let failure = lines.tool(4, "fail", json!({"text": "no luck"}));
    assert_eq!((text(&failure), &failure["isError"]), ("no luck", &json!(true)));
    let error = lines.call(5, "tools/call", json!({"name": "explode", "arguments": {"code": -5}}));
    assert_eq!(error["error"], json!({"code": -5, "message": "it exploded"}));
    assert_eq!(text(&lines.tool(6, "tool_0", json!({"limit": 1}))), "tool_0 got {\"limit\":1}");
    let unknown = lines.call(7, "tools/call", json!({"name": "tool_1"}));
    assert_eq!(unknown["error"]["code"], -32602);
}

#[test]
fn responses_do_not_wait_for_slower_ones() {
    let mut lines = initialized_client(&Script::legacy());
    let slow = json!({"name": "slow", "arguments": {"ms": 60_000}});
    lines.send(&request(2, "tools/call", slow));
    assert_eq!(text(&lines.tool(3, "echo", json!({"text": "quick"}))), "quick");
}

#[test]
fn a_cancelled_call_gets_no_response_and_is_recorded() {
    let mut lines = initialized_client(&Script::legacy());
    let slow = json!({"name": "slow", "arguments": {"ms": 60_000}});
    lines.send(&request(2, "tools/call", slow));
    lines.send(&notification("notifications/cancelled", json!({"requestId": 2})));
    let counts = lines.tool(3, "count", json!({}))["structuredContent"].clone();
    assert_eq!(counts["cancelled"], json!(["slow"]));
}

#[test]
fn a_disconnect_cancels_in_the_modern_era() {
    let server = ScriptedServer::http(Script::modern());
    let slow = with_modern_meta(json!({"name": "slow", "arguments": {"ms": 60_000}}));
    drop(post_modern(server.url(), &request(1, "tools/call", slow)));
    let cancelled = wait_until(TIMEOUT, "it is written down", || {
        Some(server.counts()["cancelled"].clone()).filter(|it| *it != json!([]))
    });
    assert_eq!(cancelled, json!(["slow"]));
}

#[test]
fn a_crash_ends_the_program_and_inside_a_test_the_connection() {
    let mut lines = initialized_client(&Script::legacy());
    lines.send(&request(2, "tools/call", json!({"name": "crash"})));
    assert_eq!(lines.line(), None);
    assert_eq!(lines.exit().code(), Some(70));

    let server = ScriptedServer::http(Script::modern());
    let crash = request(1, "tools/call", with_modern_meta(json!({"name": "crash"})));
    let error = post_modern(server.url(), &crash).event().expect_err("it breaks off");
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(
        text(&HttpClient::new(server.url()).modern_tool(2, "echo", json!({"text": "a"}))),
        "a"
    );
}

#[test]
fn a_request_state_must_be_exact_and_is_valid_once() {
    let mut lines = StdioClient::start(&Script::modern());
    let params = with_modern_meta(json!({"name": "ask", "arguments": {"rounds": 2}}));
    let first = lines.call(1, "tools/call", params.clone())["result"].clone();
    let state = first["requestState"].as_str().expect("it has a state").to_owned();
    let retry = |state: &str| {
        let mut params = params.clone();
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({"elicitation": {"action": "cancel"}});
        params
    };
    let trimmed = lines.call(2, "tools/call", retry(state.trim()));
    assert_eq!(trimmed["error"]["code"], -32602);
    let second = lines.call(3, "tools/call", retry(&state))["result"].clone();
    assert_eq!(second["resultType"], "input_required");
    let replayed = lines.call(4, "tools/call", retry(&state));
    assert_eq!(replayed["error"]["code"], -32602);
    let state = second["requestState"].as_str().expect("it has a state");
    let mut without = retry(state);
    without["inputResponses"] = json!({});
    let unanswered = lines.call(5, "tools/call", without);
    assert_eq!(unanswered["error"]["message"], "`inputResponses` lacks `elicitation`");
}

#[test]
fn a_retry_needs_a_new_id() {
    let mut lines = StdioClient::start(&Script::modern());
    let mut params = with_modern_meta(json!({"name": "ask", "arguments": {"kind": "roots"}}));
    let first = lines.call(1, "tools/call", params.clone())["result"].clone();
    assert_eq!(first["inputRequests"], json!({"roots": {"method": "roots/list"}}));
    params["requestState"] = first["requestState"].clone();
    params["inputResponses"] = json!({"roots": {"roots": []}});
    assert_eq!(lines.call(1, "tools/call", params)["error"]["code"], -32600);
}

#[test]
fn a_legacy_client_may_reject_an_elicitation() {
    let mut lines = initialized_client(&Script::legacy());
    lines.send(&request(2, "tools/call", json!({"name": "ask", "arguments": {"kind": "url"}})));
    let elicitation = lines.next();
    assert_eq!(elicitation["params"]["mode"], "url");
    let error = json!({"code": -32601, "message": "no"});
    lines.send(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "error": error}));
    let rounds = lines.response_to(2)["result"]["structuredContent"]["rounds"].clone();
    assert_eq!(rounds, json!([{"url": {"error": error}}]));
}

#[test]
fn the_environment_lists_names_over_stdio_only() {
    let mut lines =
        StdioClient::start_with_env(&Script::legacy(), &[("SWB_SECRET_MARK", "hidden")]);
    lines.open();
    let result = lines.tool(2, "env", json!({}));
    let names = result["structuredContent"]["names"].as_array().expect("a list").clone();
    assert!(names.contains(&json!("SWB_SECRET_MARK")));
    assert!(!result.to_string().contains("hidden"));
    let server = ScriptedServer::http(Script::modern());
    assert_eq!(HttpClient::new(server.url()).modern_tool(1, "env", json!({}))["isError"], true);
}

#[test]
fn lists_come_in_pages() {
    let mut lines =
        initialized_client(&Script::legacy().tools(10).page_size(10).resources(2).prompts(1));
    let mut seen: Vec<String> = Vec::new();
    let mut params = json!({});
    let mut pages = 0;
    loop {
        pages += 1;
        let page = lines.call(10 + pages, "tools/list", params)["result"].clone();
        seen.extend(names(&page["tools"]).into_iter().map(str::to_owned));
        match page.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!((pages, seen.len()), (3, 25));
    seen.dedup();
    assert_eq!(seen.len(), 25);
    let wrong = lines.call(20, "tools/list", json!({"cursor": "mine"}));
    assert_eq!(wrong["error"]["code"], -32602);
}

#[test]
fn resources_and_prompts_exist_in_the_configured_number() {
    let mut lines = initialized_client(&Script::legacy().resources(2).prompts(1));
    let listed = lines.call(2, "resources/list", json!({}))["result"]["resources"].clone();
    assert_eq!(names(&listed), ["resource_0", "resource_1"]);
    let uri = "scripted://resource/1";
    let read = lines.call(3, "resources/read", json!({"uri": uri}))["result"].clone();
    assert_eq!(read["contents"][0]["text"], "the text of resource 1");
    let gone = lines.call(4, "resources/read", json!({"uri": "scripted://resource/2"}));
    assert_eq!(gone["error"]["code"], -32002);
    let prompt = json!({"name": "prompt_0", "arguments": {"topic": "tea"}});
    let got = lines.call(5, "prompts/get", prompt)["result"]["messages"][0].clone();
    assert_eq!(got["content"]["text"], "Let us talk about tea.");
    let argument = json!({"argument": {"name": "topic", "value": "ap"}});
    let completed = lines.call(6, "completion/complete", argument)["result"].clone();
    assert_eq!(completed["completion"]["values"], json!(["apple", "apricot"]));

    lines.call(7, "resources/subscribe", json!({"uri": uri}));
    lines.send(&request(8, "tools/call", json!({"name": "touch", "arguments": {"uri": uri}})));
    let notification = lines.next();
    assert_eq!(notification["method"], "notifications/resources/updated");
    assert_eq!(notification["params"]["uri"], uri);
}

#[test]
fn a_journal_holds_every_message_of_every_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    assert_eq!(scripted::read_journal(&path), Vec::<Value>::new());
    let script = Script::legacy().journal(&path);
    for _ in 0..2 {
        let mut lines = initialized_client(&script);
        lines.tool(2, "echo", json!({}));
    }
    let methods: Vec<Value> =
        scripted::read_journal(&path).iter().map(|it| it["method"].clone()).collect();
    let once = ["initialize", "notifications/initialized", "tools/call"];
    assert_eq!(methods, [once, once].concat());
}

#[test]
fn an_entry_starts_the_program() {
    let entry: Value =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::modern())).unwrap();
    assert_eq!(entry["command"], json!(scripted::program()));
    let script: Script = serde_json::from_str(entry["args"][0].as_str().unwrap()).unwrap();
    assert_eq!(script, Script::modern());
}

#[test]
fn requests_before_the_end_of_input_get_responses() {
    let mut lines = StdioClient::start(&Script::modern());
    lines.send(&request(1, "tools/list", with_modern_meta(json!({}))));
    lines.close();
    lines.response_to(1);
    assert_eq!(lines.line(), None);
    assert_eq!(lines.exit().code(), Some(0));
}

#[test]
fn invalid_json_gets_an_error_with_a_null_id() {
    let mut lines = initialized_client(&Script::legacy());
    lines.write("{not json");
    let response = lines.next();
    assert_eq!((&response["id"], &response["error"]["code"]), (&Value::Null, &json!(-32700)));
}
