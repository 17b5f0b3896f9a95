//! Streamable HTTP, the SSE transport of 2024 and WebSocket, as far as they differ from stdio.

use serde_json::{Value, json};
use testkit::{ResponseFormat, Script, ScriptedServer};

use crate::client::{
    Client, MODERN_VERSION, initialize_params, names, notification, request, text, with_modern_meta,
};
use crate::http_client::{ACCEPT, HttpClient, JSON, SseClient, http_request, post, post_modern};
use crate::websocket_client::WebSocketClient;

#[test]
fn a_session_is_opened_required_and_ended() {
    let server = ScriptedServer::http(Script::legacy());
    let mut client = HttpClient::new(server.url());
    client.open();
    let list = request(2, "tools/list", json!({}));
    let mut without = post(server.url(), None, &list);
    assert_eq!((without.status, &without.json()["error"]["code"]), (400, &json!(-32000)));
    let mut unknown = post(server.url(), Some("unknown"), &list);
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (404, &json!(-32001)));
    assert_eq!(post(server.url(), Some(client.session()), &list).status, 200);
    let headers = [("mcp-session-id", client.session())];
    assert_eq!(http_request("DELETE", server.url(), &headers, "").status, 200);
    assert_eq!(post(server.url(), Some(client.session()), &list).status, 404);
}

#[test]
fn a_legacy_server_rejects_a_modern_probe() {
    let server = ScriptedServer::http(Script::legacy());
    let probe = request(1, "server/discover", with_modern_meta(json!({})));
    let mut reply = post_modern(server.url(), &probe);
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(-32000)));
}

#[test]
fn requests_that_violate_the_specification_are_rejected() {
    let server = ScriptedServer::http(Script::legacy());
    let body = request(1, "initialize", initialize_params("2025-11-25")).to_string();
    let status = |headers: &[(&str, &str)], body: &str| {
        http_request("POST", server.url(), headers, body).status
    };
    assert_eq!(status(&[JSON], &body), 406);
    assert_eq!(status(&[("accept", "application/json"), JSON], &body), 406);
    assert_eq!(status(&[ACCEPT], &body), 415);
    assert_eq!(status(&[ACCEPT, JSON], "{"), 400);
    assert_eq!(status(&[ACCEPT, JSON], "[]"), 400);
    assert_eq!(status(&[ACCEPT, JSON, ("mcp-protocol-version", "1999-01-01")], &body), 400);
    assert_eq!(status(&[ACCEPT, JSON], &body), 200);
    let elsewhere = server.url().replace("/mcp", "/elsewhere");
    assert_eq!(http_request("POST", &elsewhere, &[ACCEPT, JSON], &body).status, 404);
}

#[test]
fn notifications_come_over_the_get_stream_and_are_replayed() {
    let server = ScriptedServer::http(Script::legacy());
    let mut client = HttpClient::new(server.url());
    client.open();
    let mut get_stream = client.open_get_stream(None);
    server.change_tools();
    server.change_tools();
    let first = get_stream.event().unwrap().unwrap();
    assert!(first.data.contains("list_changed"), "{first:?}");
    drop(get_stream);
    server.change_tools();
    let mut again = client.open_get_stream(first.id.as_deref());
    let ids: Vec<Option<String>> = (0..2).map(|_| again.event().unwrap().unwrap().id).collect();
    assert_eq!(ids, [Some("standing/2".to_owned()), Some("standing/3".to_owned())]);
    assert_eq!(client.open_get_stream(Some("unknown/7")).status, 400);
}

#[test]
fn with_json_responses_server_requests_come_over_the_get_stream() {
    let server = ScriptedServer::http(Script::legacy().response_format(ResponseFormat::Json));
    let mut client = HttpClient::new(server.url());
    client.open();
    let session = client.session().to_owned();
    let url = server.url().to_owned();
    let call = request(2, "tools/call", json!({"name": "ask"}));
    let asking = std::thread::spawn(move || post(&url, Some(&session), &call).json());
    let elicitation = client.open_get_stream(None).message();
    assert_eq!(elicitation["method"], "elicitation/create");
    client
        .send(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": {"action": "cancel"}}));
    let response = asking.join().unwrap();
    let rounds = &response["result"]["structuredContent"]["rounds"];
    assert_eq!(*rounds, json!([{"elicitation": {"action": "cancel"}}]));
}

#[test]
fn the_modern_era_has_no_sessions_and_no_get_stream() {
    let server = ScriptedServer::http(Script::modern());
    let reply =
        post_modern(server.url(), &request(1, "server/discover", with_modern_meta(json!({}))));
    assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
    let accept = [("accept", "text/event-stream")];
    assert_eq!(http_request("GET", server.url(), &accept, "").status, 405);
    assert_eq!(http_request("DELETE", server.url(), &[], "").status, 405);
    let note = notification("notifications/cancelled", with_modern_meta(json!({"requestId": 9})));
    assert_eq!(post_modern(server.url(), &note).status, 202);
}

/// Posts a modern call with additional headers.
fn rejection(server: &ScriptedServer, message: &Value, headers: &[(&str, &str)]) -> (u16, Value) {
    let headers = [&[ACCEPT, JSON], headers].concat();
    let mut reply = http_request("POST", server.url(), &headers, &message.to_string());
    match reply.header("content-type") {
        Some("application/json") => (reply.status, reply.json()["error"]["code"].clone()),
        _ => (reply.status, Value::Null),
    }
}

#[test]
fn modern_headers_must_match_the_body() {
    let server = ScriptedServer::http(Script::modern());
    let version = ("mcp-protocol-version", MODERN_VERSION);
    let method = ("mcp-method", "tools/call");
    let call = request(1, "tools/call", with_modern_meta(json!({"name": "echo", "arguments": {}})));
    let mismatch = (400, json!(-32020));
    assert_eq!(rejection(&server, &call, &[]), mismatch);
    assert_eq!(rejection(&server, &call, &[version]), mismatch);
    assert_eq!(rejection(&server, &call, &[version, method]), mismatch);
    assert_eq!(rejection(&server, &call, &[version, method, ("mcp-name", "add")]), mismatch);
    let twice = [version, method, ("mcp-name", "echo"), ("mcp-name", "echo")];
    assert_eq!(rejection(&server, &call, &twice), mismatch);
    let older = ("mcp-protocol-version", "2025-11-25");
    assert_eq!(rejection(&server, &call, &[older, method, ("mcp-name", "echo")]), mismatch);
    let right = [version, method, ("mcp-name", "echo")];
    assert_eq!(rejection(&server, &call, &right), (200, Value::Null));
    let encoded = [version, method, ("mcp-name", "=?base64?ZWNobw==?=")];
    assert_eq!(rejection(&server, &call, &encoded), (200, Value::Null));
}

#[test]
fn an_argument_may_have_to_be_repeated_in_a_header() {
    let server = ScriptedServer::http(Script::modern());
    let usual = [
        ("mcp-protocol-version", MODERN_VERSION),
        ("mcp-method", "tools/call"),
        ("mcp-name", "route"),
    ];
    let call = |arguments: Value| {
        request(1, "tools/call", with_modern_meta(json!({"name": "route", "arguments": arguments})))
    };
    let with = |region| [&usual[..], &[("mcp-param-region", region)]].concat();
    let there = call(json!({"region": "north"}));
    assert_eq!(rejection(&server, &there, &usual), (400, json!(-32020)));
    assert_eq!(rejection(&server, &there, &with("south")), (400, json!(-32020)));
    assert_eq!(rejection(&server, &there, &with("north")), (200, Value::Null));
    assert_eq!(rejection(&server, &call(json!({})), &usual), (200, Value::Null));
    assert_eq!(rejection(&server, &call(json!({})), &with("north")), (400, json!(-32020)));
}

#[test]
fn modern_rejections_have_http_statuses() {
    let server = ScriptedServer::http(Script::modern());
    let check = |message: Value, version: &str, expected: (u16, i64)| {
        let method = message["method"].as_str().unwrap();
        let headers = [("mcp-protocol-version", version), ("mcp-method", method)];
        let found = rejection(&server, &message, &headers);
        assert_eq!(found, (expected.0, json!(expected.1)));
    };
    check(request(1, "ping", with_modern_meta(json!({}))), MODERN_VERSION, (404, -32601));
    check(request(1, "initialize", initialize_params("2025-11-25")), MODERN_VERSION, (404, -32601));
    check(request(1, "tools/list", json!({})), MODERN_VERSION, (400, -32602));
    let mut newer = with_modern_meta(json!({}));
    newer["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2027-01-01");
    check(request(1, "tools/list", newer), "2027-01-01", (400, -32022));
}

#[test]
fn a_subscription_over_http_is_a_request_that_stays_open() {
    let server = ScriptedServer::http(Script::modern().response_format(ResponseFormat::Json));
    let params = with_modern_meta(json!({"notifications": {"toolsListChanged": true}}));
    let mut reply = post_modern(server.url(), &request(5, "subscriptions/listen", params));
    assert_eq!(reply.message()["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(server.change_tools(), "added_0");
    let notification = reply.message();
    assert_eq!(notification["method"], "notifications/tools/list_changed");
    assert_eq!(notification["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5);
    server.end_subscriptions();
    assert_eq!(reply.message()["id"], 5);
    assert_eq!(reply.event().unwrap(), None);
}

#[test]
fn clients_with_the_same_request_ids_are_independent() {
    let server = ScriptedServer::http(Script::modern());
    let params = with_modern_meta(json!({"notifications": {"toolsListChanged": true}}));
    let listen = || post_modern(server.url(), &request(1, "subscriptions/listen", params.clone()));
    let (mut one, mut other) = (listen(), listen());
    one.message();
    other.message();
    let mut third = HttpClient::new(server.url());
    assert_eq!(text(&third.modern_tool(1, "echo", json!({"text": "a"}))), "a");
    server.change_tools();
    assert_eq!(one.message()["method"], "notifications/tools/list_changed");
    assert_eq!(other.message()["method"], "notifications/tools/list_changed");
}

#[test]
fn every_request_is_recorded() {
    let server = ScriptedServer::http(Script::modern());
    let call = request(1, "tools/call", with_modern_meta(json!({"name": "whoami"})));
    let whoami = post_modern(server.url(), &call).message();
    let seen = &whoami["result"]["structuredContent"]["headers"];
    assert_eq!(seen["mcp-name"], "whoami");
    let requests = server.wait_for(|it| !it.is_empty());
    let [one] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((one.method.as_str(), one.path.as_str()), ("POST", "/mcp"));
    assert_eq!((one.header("mcp-name"), one.rpc_method()), (Some("whoami"), Some("tools/call")));
    assert_eq!(one.body, Some(call));
}

#[test]
fn a_dropped_server_can_be_replaced_at_its_port() {
    let server = ScriptedServer::http(Script::legacy());
    let mut client = HttpClient::new(server.url());
    client.open();
    let mut get_stream = client.open_get_stream(None);
    let server = server.restart(Script::legacy().name("second"));
    assert!(!matches!(get_stream.event(), Ok(Some(_))));
    let list = request(2, "tools/list", json!({}));
    assert_eq!(post(server.url(), Some(client.session()), &list).status, 404);
    assert_eq!(HttpClient::new(server.url()).open()["serverInfo"]["name"], "second");
    assert_eq!(server.requests().len(), 3);
    let url = server.url().to_owned();
    drop(server);
    let host = url.strip_prefix("http://").and_then(|it| it.strip_suffix("/mcp")).unwrap();
    assert!(std::net::TcpStream::connect(host).is_err());
}

#[test]
fn the_sse_transport_takes_messages_only_at_its_endpoint() {
    let server = ScriptedServer::sse(Script::legacy());
    assert_eq!(http_request("POST", server.url(), &[JSON], "{}").status, 405);
    let stray = server.url().replace("/sse", "/messages?session=none");
    assert_eq!(http_request("POST", &stray, &[JSON], "{}").status, 404);
    let mut client = SseClient::open(server.url());
    client.open();
    server.change_tools();
    assert_eq!(client.next()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_websocket_has_its_subprotocol_and_is_recorded() {
    let server = ScriptedServer::ws(Script::legacy());
    let (status, _) = WebSocketClient::handshake(server.url(), "");
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    let mut client = WebSocketClient::open(server.url());
    client.open();
    let tools = client.call(2, "tools/list", json!({}))["result"].clone();
    assert!(names(&tools["tools"]).contains(&"echo"));
    assert_eq!(text(&client.tool(3, "echo", json!({"text": "a"}))), "a");
    let methods: Vec<String> =
        server.requests().iter().filter_map(|it| it.rpc_method().map(str::to_owned)).collect();
    let expected = ["initialize", "notifications/initialized", "tools/list", "tools/call"];
    assert_eq!(methods, expected);
}
