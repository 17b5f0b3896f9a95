//! The server on the official SDK: what the official suite cannot see of it, since it talks to it over HTTP only.

use std::process::Command;

use serde_json::{Value, json};

use crate::client::{
    Client, MODERN_VERSION, initialize_params, names, request, text, with_modern_meta,
};
use crate::stdio_client::StdioClient;

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const UNSUPPORTED_VERSION: i64 = -32022;

fn upstream(era: &str) -> StdioClient {
    let mut command = Command::new(testkit::scripted::example_program("conformance_upstream"));
    StdioClient::run(command.args(["--stdio", "--era", era]))
}

fn error_code(answer: &Value) -> Option<i64> {
    answer["error"]["code"].as_i64()
}

#[test]
fn a_server_of_the_old_protocol_has_never_heard_of_the_new_one() {
    let mut server = upstream("legacy");
    let answer = server.call(7, "server/discover", with_modern_meta(json!({})));
    assert_eq!(error_code(&answer), Some(METHOD_NOT_FOUND));
    assert_eq!(server.open()["protocolVersion"], "2025-11-25");
    let answer = server.call(2, "tools/list", json!({}));
    let tools = names(&answer["result"]["tools"]);
    assert!(tools.contains(&"slow_compute"));
    assert!(!tools.contains(&"failing_job"), "there are no tasks");
}

#[test]
fn a_server_of_the_new_protocol_refuses_the_old_handshake() {
    let mut server = upstream("modern");
    let answer = server.call(7, "server/discover", with_modern_meta(json!({})));
    assert_eq!(answer["result"]["supportedVersions"], json!([MODERN_VERSION]));
    let answer = server.call(1, "initialize", initialize_params("2025-11-25"));
    assert_eq!(error_code(&answer), Some(UNSUPPORTED_VERSION));
}

#[test]
fn an_older_client_is_asked_by_a_request() {
    let mut server = upstream("both");
    server.open();
    let params = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
    server.send(&request(2, "tools/call", params));
    let question = server.next();
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Who?");
    let answer = json!({"action": "accept", "content": {"username": "ada", "email": "a@b.c"}});
    server.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    let answer = server.response_to(2);
    assert_eq!(
        text(&answer["result"]),
        r#"User response: action=accept, content={"username":"ada","email":"a@b.c"}"#
    );
}

#[test]
fn a_newer_client_is_asked_by_the_result() {
    let mut server = upstream("modern");
    let arguments = json!({"message": "Who?"});
    let result = server.modern_tool(1, "test_elicitation", arguments.clone());
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["inputRequests"]["answer"]["method"], "elicitation/create");
    let answers = json!({"answer": {"action": "decline"}});
    let params =
        json!({"name": "test_elicitation", "arguments": arguments, "inputResponses": answers});
    let answer = server.call(2, "tools/call", with_modern_meta(params));
    assert_eq!(text(&answer["result"]), "User response: action=decline, content=null");
}

#[test]
fn a_state_is_worth_nothing_in_another_call() {
    let mut server = upstream("modern");
    let other = "test_input_required_result_tampered_state";
    let state = &server.modern_tool(1, other, json!({}))["requestState"];
    let answers = json!({"confirm": {"action": "accept", "content": {"ok": true}}});
    let mut params = json!({"inputResponses": answers, "requestState": state});
    params["name"] = json!("test_input_required_result_request_state");
    let answer = server.call(2, "tools/call", with_modern_meta(params.clone()));
    assert_eq!(error_code(&answer), Some(INVALID_PARAMS));
    params["name"] = json!(other);
    let answer = server.call(3, "tools/call", with_modern_meta(params));
    assert_eq!(text(&answer["result"]), "nobody has changed the state");
}

#[test]
fn skills_come_one_a_page() {
    let mut server = upstream("both");
    let first = server.call(1, "skills/list", with_modern_meta(json!({})))["result"].clone();
    assert_eq!(first["skills"].as_array().map(Vec::len), Some(1));
    let params = with_modern_meta(json!({"cursor": first["nextCursor"]}));
    let second = server.call(2, "skills/list", params)["result"].clone();
    assert_ne!(first["skills"], second["skills"]);
    assert_eq!(second.get("nextCursor"), None);
    let answer = server.call(3, "skills/list", with_modern_meta(json!({"cursor": "soon"})));
    assert_eq!(error_code(&answer), Some(INVALID_PARAMS));
}

#[test]
fn an_older_client_hears_of_the_watched_resource_only_when_it_subscribed() {
    let mut server = upstream("legacy");
    server.open();
    let call = |tool: &str| request(10, "tools/call", json!({"name": tool}));
    server.send(&call("test_trigger_resource_change"));
    server.send(&call("test_trigger_tool_change"));
    assert_eq!(next_notification(&mut server)["method"], "notifications/tools/list_changed");
    let uri = json!({"uri": "test://watched-resource"});
    server.send(&request(20, "resources/subscribe", uri.clone()));
    next_with(&mut server, |message| message["id"] == 20);
    server.send(&call("test_trigger_resource_change"));
    let heard = next_notification(&mut server);
    assert_eq!(heard["method"], "notifications/resources/updated");
    assert_eq!(heard["params"], uri);
}

fn next_notification(server: &mut StdioClient) -> Value {
    next_with(server, |message| message.get("method").is_some())
}

fn next_with(server: &mut StdioClient, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let message = server.next();
        if is_it(&message) {
            return message;
        }
    }
}
