//! The server on the official SDK: behaviour that the official suite cannot see, because it tests only HTTP.

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

fn error_code(response: &Value) -> Option<i64> {
    response["error"]["code"].as_i64()
}

#[test]
fn a_legacy_server_does_not_know_the_modern_protocol() {
    let mut server = upstream("legacy");
    let response = server.call(7, "server/discover", with_modern_meta(json!({})));
    assert_eq!(error_code(&response), Some(METHOD_NOT_FOUND));
    assert_eq!(server.open()["protocolVersion"], "2025-11-25");
    let response = server.call(2, "tools/list", json!({}));
    let tools = names(&response["result"]["tools"]);
    assert!(tools.contains(&"slow_compute"));
    assert!(!tools.contains(&"failing_job"), "there are no tasks");
}

#[test]
fn a_modern_server_rejects_the_legacy_handshake() {
    let mut server = upstream("modern");
    let response = server.call(7, "server/discover", with_modern_meta(json!({})));
    assert_eq!(response["result"]["supportedVersions"], json!([MODERN_VERSION]));
    let response = server.call(1, "initialize", initialize_params("2025-11-25"));
    assert_eq!(error_code(&response), Some(UNSUPPORTED_VERSION));
}

#[test]
fn a_legacy_client_is_elicited_by_a_request() {
    let mut server = upstream("both");
    server.open();
    let params = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
    server.send(&request(2, "tools/call", params));
    let elicitation = server.next();
    assert_eq!(elicitation["method"], "elicitation/create");
    assert_eq!(elicitation["params"]["message"], "Who?");
    let response = json!({"action": "accept", "content": {"username": "ada", "email": "a@b.c"}});
    server.send(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": response}));
    let response = server.response_to(2);
    assert_eq!(
        text(&response["result"]),
        r#"User response: action=accept, content={"username":"ada","email":"a@b.c"}"#
    );
}

#[test]
fn a_modern_client_is_elicited_by_the_result() {
    let mut server = upstream("modern");
    let arguments = json!({"message": "Who?"});
    let result = server.modern_tool(1, "test_elicitation", arguments.clone());
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["inputRequests"]["answer"]["method"], "elicitation/create");
    let responses = json!({"answer": {"action": "decline"}});
    let params =
        json!({"name": "test_elicitation", "arguments": arguments, "inputResponses": responses});
    let response = server.call(2, "tools/call", with_modern_meta(params));
    assert_eq!(text(&response["result"]), "User response: action=decline, content=null");
}

#[test]
fn a_request_state_is_invalid_in_another_call() {
    let mut server = upstream("modern");
    let other = "test_input_required_result_tampered_state";
    let state = &server.modern_tool(1, other, json!({}))["requestState"];
    let responses = json!({"confirm": {"action": "accept", "content": {"ok": true}}});
    let mut params = json!({"inputResponses": responses, "requestState": state});
    params["name"] = json!("test_input_required_result_request_state");
    let response = server.call(2, "tools/call", with_modern_meta(params.clone()));
    assert_eq!(error_code(&response), Some(INVALID_PARAMS));
    params["name"] = json!(other);
    let response = server.call(3, "tools/call", with_modern_meta(params));
    assert_eq!(text(&response["result"]), "nobody has changed the state");
}

#[test]
fn skills_are_listed_one_per_page() {
    let mut server = upstream("both");
    let first = server.call(1, "skills/list", with_modern_meta(json!({})))["result"].clone();
    assert_eq!(first["skills"].as_array().map(Vec::len), Some(1));
    let params = with_modern_meta(json!({"cursor": first["nextCursor"]}));
    let second = server.call(2, "skills/list", params)["result"].clone();
    assert_ne!(first["skills"], second["skills"]);
    assert_eq!(second.get("nextCursor"), None);
    let response = server.call(3, "skills/list", with_modern_meta(json!({"cursor": "soon"})));
    assert_eq!(error_code(&response), Some(INVALID_PARAMS));
}

#[test]
fn a_legacy_client_is_notified_only_after_it_subscribed() {
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
    let notification = next_notification(&mut server);
    assert_eq!(notification["method"], "notifications/resources/updated");
    assert_eq!(notification["params"], uri);
}

fn next_notification(server: &mut StdioClient) -> Value {
    next_with(server, |message| message.get("method").is_some())
}

fn next_with(server: &mut StdioClient, matches: impl Fn(&Value) -> bool) -> Value {
    loop {
        let message = server.next();
        if matches(&message) {
            return message;
        }
    }
}
