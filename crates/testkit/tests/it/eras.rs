//! Both eras over every transport, with the same exchange each time.

use serde_json::{Value, json};
use testkit::{ResponseFormat, Script, ScriptedServer};

use crate::client::{
    Client, initialize_params, names, notification, request, text, with_modern_meta,
};
use crate::http_client::{HttpClient, SseClient};
use crate::stdio_client::StdioClient;
use crate::websocket_client::WebSocketClient;

fn script(script: Script) -> Script {
    script.name("zoo").instructions("Feed nobody.").tools(2).resources(1).prompts(1)
}

#[track_caller]
fn check_legacy(client: &mut dyn Client) {
    let hello = client.open();
    assert_eq!(hello["protocolVersion"], "2025-11-25");
    assert_eq!(hello["serverInfo"], json!({"name": "zoo", "version": "1.0.0"}));
    assert_eq!(hello["instructions"], "Feed nobody.");
    assert_eq!(hello["capabilities"]["tools"], json!({"listChanged": true}));
    assert_eq!(client.call(2, "ping", json!({}))["result"], json!({}));

    let tools = client.call(3, "tools/list", json!({}))["result"].clone();
    assert_eq!(&names(&tools["tools"])[..3], ["echo", "add", "slow"]);
    assert_eq!(names(&tools["tools"]).last(), Some(&"tool_1"));
    assert_eq!(tools.get("ttlMs"), None);
    assert_eq!(text(&client.tool(4, "echo", json!({"text": "hé"}))), "hé");
    check_progress(client, json!({}));
    check_legacy_input(client);
    let whoami = client.tool(8, "whoami", json!({}))["structuredContent"].clone();
    assert_eq!((&whoami["era"], &whoami["client"]["name"]), (&json!("legacy"), &json!("by hand")));
    let counts = client.tool(9, "count", json!({}))["structuredContent"].clone();
    assert_eq!(counts["tools"], json!({"ask": 1, "count": 1, "echo": 1, "slow": 1, "whoami": 1}));
    assert_eq!(
        (&counts["methods"]["initialize"], &counts["methods"]["ping"]),
        (&json!(1), &json!(1))
    );
}

fn check_progress(client: &mut dyn Client, meta: Value) {
    let mut params = json!({"name": "slow", "arguments": {"ms": 2, "steps": 2}, "_meta": meta});
    params["_meta"]["progressToken"] = json!("mine");
    client.send(&request(5, "tools/call", params));
    for step in 1..=2 {
        let progress = client.next();
        assert_eq!(progress["method"], "notifications/progress");
        assert_eq!(progress["params"]["progressToken"], "mine");
        assert_eq!(progress["params"]["progress"], step);
    }
    assert_eq!(text(&client.response_to(5)["result"]), "took 2 ms");
}

fn check_legacy_input(client: &mut dyn Client) {
    client.send(&request(6, "tools/call", json!({"name": "ask", "arguments": {"kind": "all"}})));
    for (method, result) in [
        ("elicitation/create", json!({"action": "accept", "content": {"name": "Ada"}})),
        ("sampling/createMessage", json!({"role": "assistant"})),
        ("roots/list", json!({"roots": []})),
    ] {
        let server_request = client.next();
        assert_eq!(server_request["method"], method);
        client.send(&json!({"jsonrpc": "2.0", "id": server_request["id"], "result": result}));
    }
    let responses = client.response_to(6)["result"]["structuredContent"]["rounds"][0].clone();
    assert_eq!(responses["elicitation"]["content"]["name"], "Ada");
    assert_eq!(responses["roots"], json!({"roots": []}));
}

#[track_caller]
fn check_modern(client: &mut dyn Client) {
    let result = client.call(1, "server/discover", with_modern_meta(json!({})))["result"].clone();
    let server = json!({"io.modelcontextprotocol/serverInfo": {"name": "zoo", "version": "1.0.0"}});
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(result["_meta"], server);
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(result["instructions"], "Feed nobody.");

    let tools = client.call(3, "tools/list", with_modern_meta(json!({})))["result"].clone();
    assert_eq!(names(&tools["tools"]).last(), Some(&"tool_1"));
    assert_eq!((&tools["ttlMs"], &tools["cacheScope"]), (&json!(0), &json!("private")));
    let echo = client.modern_tool(4, "echo", json!({"text": "hé"}));
    assert_eq!((text(&echo), &echo["resultType"]), ("hé", &json!("complete")));
    check_progress(client, with_modern_meta(json!({}))["_meta"].clone());
    check_modern_input(client);
    let whoami = client.modern_tool(8, "whoami", json!({}))["structuredContent"].clone();
    assert_eq!((&whoami["era"], &whoami["client"]["name"]), (&json!("modern"), &json!("by hand")));
}

fn check_modern_input(client: &mut dyn Client) {
    let params = with_modern_meta(json!({"name": "ask", "arguments": {"kind": "elicitation"}}));
    let result = client.call(6, "tools/call", params.clone())["result"].clone();
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["inputRequests"]["elicitation"]["method"], "elicitation/create");
    let mut retry = params;
    retry["requestState"] = result["requestState"].clone();
    retry["inputResponses"] = json!({"elicitation": {"action": "decline"}});
    let result = client.call(7, "tools/call", retry)["result"].clone();
    assert_eq!(result["resultType"], "complete");
    let rounds = json!([{"elicitation": {"action": "decline"}}]);
    assert_eq!(result["structuredContent"]["rounds"], rounds);
}

#[test]
fn the_legacy_era_works_over_stdio() {
    check_legacy(&mut StdioClient::start(&script(Script::legacy())));
}

#[test]
fn the_modern_era_works_over_stdio() {
    check_modern(&mut StdioClient::start(&script(Script::modern())));
}

#[test]
fn the_legacy_era_works_over_http() {
    let test_server = ScriptedServer::http(script(Script::legacy()));
    check_legacy(&mut HttpClient::new(test_server.url()));
}

#[test]
fn the_modern_era_works_over_http() {
    let test_server = ScriptedServer::http(script(Script::modern()));
    check_modern(&mut HttpClient::new(test_server.url()));
}

#[test]
fn the_legacy_era_works_over_sse() {
    let test_server = ScriptedServer::sse(script(Script::legacy()));
    check_legacy(&mut SseClient::open(test_server.url()));
}

#[test]
fn the_modern_era_works_over_sse() {
    let test_server = ScriptedServer::sse(script(Script::modern()));
    check_modern(&mut SseClient::open(test_server.url()));
}

#[test]
fn the_legacy_era_works_over_websocket() {
    let test_server = ScriptedServer::ws(script(Script::legacy()));
    check_legacy(&mut WebSocketClient::open(test_server.url()));
}

#[test]
fn the_modern_era_works_over_websocket() {
    let test_server = ScriptedServer::ws(script(Script::modern()));
    check_modern(&mut WebSocketClient::open(test_server.url()));
}

#[test]
fn a_server_of_both_eras_responds_in_the_clients_era() {
    let test_server = ScriptedServer::http(script(Script::both()));
    check_modern(&mut HttpClient::new(test_server.url()));
    assert_eq!(HttpClient::new(test_server.url()).open()["protocolVersion"], "2025-11-25");
    let mut lines = StdioClient::start(&script(Script::both()));
    check_modern(&mut lines);
    assert_eq!(lines.open()["protocolVersion"], "2025-11-25");
    assert_eq!(text(&lines.tool(12, "echo", json!({"text": "a"}))), "a");
}

#[test]
fn without_sessions_legacy_requests_are_stateless() {
    let test_server = ScriptedServer::http(script(Script::legacy()).without_sessions());
    let mut client = HttpClient::new(test_server.url());
    check_legacy(&mut client);
    let probe = client.call(20, "server/discover", json!({}));
    assert_eq!(probe["error"]["code"], -32601);
    assert_eq!(crate::http_client::http_request("GET", test_server.url(), &[], "").status, 405);
}

#[test]
fn json_responses_match_event_streams() {
    for (script, is_modern) in [(Script::legacy(), false), (Script::modern(), true)] {
        let test_server = ScriptedServer::http(script.response_format(ResponseFormat::Json));
        let mut client = HttpClient::new(test_server.url());
        let arguments = json!({"a": 2, "b": 0.5});
        let result = match is_modern {
            true => client.modern_tool(2, "add", arguments),
            false => {
                client.open();
                client.tool(2, "add", arguments)
            }
        };
        assert_eq!(result["structuredContent"], json!({"sum": 2.5}));
    }
}

#[test]
fn each_era_rejects_the_other_with_its_own_error() {
    let mut legacy = StdioClient::start(&Script::legacy());
    let probe = legacy.call(1, "server/discover", with_modern_meta(json!({})));
    assert_eq!(probe["error"]["code"], -32601);
    let early = legacy.call(2, "tools/list", json!({}));
    assert_eq!(early["error"]["code"], -32600);

    let mut lines = StdioClient::start(&Script::modern());
    assert_eq!(
        lines.call(1, "initialize", initialize_params("2025-11-25"))["error"]["code"],
        -32601
    );
    let bare = lines.call(2, "tools/list", json!({}));
    assert_eq!(bare["error"]["code"], -32602);
    assert_eq!(lines.call(3, "ping", with_modern_meta(json!({})))["error"]["code"], -32601);
    let mut params = with_modern_meta(json!({}));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2027-01-01");
    let newer = lines.call(4, "tools/list", params);
    assert_eq!(newer["error"]["code"], -32022);
    assert_eq!(newer["error"]["data"]["supported"], json!(["2026-07-28"]));
    let mut params = with_modern_meta(json!({"name": "ask", "arguments": {"kind": "sampling"}}));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let poor = lines.call(5, "tools/call", params);
    assert_eq!(poor["error"]["code"], -32021);
    assert_eq!(poor["error"]["data"]["requiredCapabilities"], json!({"sampling": {}}));
}

#[test]
fn the_requested_version_is_used_if_supported_otherwise_the_newest() {
    let script = Script::legacy().versions(&["2024-11-05", "2025-06-18"]);
    for (requested, negotiated) in [("2024-11-05", "2024-11-05"), ("2025-11-25", "2025-06-18")] {
        let mut lines = StdioClient::start(&script);
        let result = lines.call(1, "initialize", initialize_params(requested))["result"].clone();
        assert_eq!(result["protocolVersion"], negotiated);
    }
}

#[test]
fn notifications_reach_modern_subscribers_and_all_legacy_clients() {
    let mut lines = StdioClient::start(&Script::legacy());
    lines.open();
    lines.send(&request(2, "tools/call", json!({"name": "change_tools"})));
    assert_eq!(lines.next()["method"], "notifications/tools/list_changed");
    assert_eq!(lines.response_to(2)["result"]["structuredContent"]["added"], "added_0");
    let tools = lines.call(3, "tools/list", json!({}))["result"].clone();
    assert_eq!(names(&tools["tools"]).last(), Some(&"added_0"));

    let mut lines = StdioClient::start(&Script::modern());
    let params = with_modern_meta(json!({"notifications": {"toolsListChanged": true}}));
    lines.send(&request(7, "subscriptions/listen", params));
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 7});
    let first = lines.next();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["_meta"], meta);
    assert_eq!(first["params"]["notifications"], json!({"toolsListChanged": true}));
    lines.send(&request(8, "tools/call", with_modern_meta(json!({"name": "change_tools"}))));
    let notification = lines.next();
    assert_eq!(notification["method"], "notifications/tools/list_changed");
    assert_eq!(notification["params"]["_meta"], meta);
    lines.response_to(8);
    lines.send(&request(9, "tools/call", with_modern_meta(json!({"name": "end_listening"}))));
    let mut ids = [lines.next()["id"].clone(), lines.next()["id"].clone()];
    ids.sort_by_key(Value::as_u64);
    assert_eq!(ids, [json!(7), json!(9)]);
}

#[test]
fn a_cancelled_subscription_gets_no_notifications() {
    let mut lines = StdioClient::start(&Script::modern());
    let params = with_modern_meta(json!({"notifications": {"toolsListChanged": true}}));
    lines.send(&request(7, "subscriptions/listen", params));
    lines.next();
    lines.send(&notification("notifications/cancelled", json!({"requestId": 7})));
    let result = lines.modern_tool(8, "count", json!({}));
    assert_eq!(result["structuredContent"]["cancelled"], json!(["subscriptions/listen"]));
    lines.send(&request(9, "tools/call", with_modern_meta(json!({"name": "change_tools"}))));
    assert_eq!(lines.next()["id"], 9);
}
