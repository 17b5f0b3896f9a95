//! Traces, metrics and the audit log of a running gateway.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::Value as Json;
use testkit::real_servers;
use testkit::store_server::StoreServer;
use testkit::{Script, ScriptedProgram};

use crate::approvals::GatewayProcess;
use crate::docs::docs;
use crate::http_gateway::{GatewayClient, HttpGateway};
use crate::serve_tls;
use crate::support::{USER, json, scene};

/// Receives one export request. Returns its head and its body.
fn trace_collector() -> (String, JoinHandle<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let receiving = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("an exporter connects");
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).expect("a line") > 0, "{head}");
        }
        let head = head.to_lowercase();
        let length = head.split("content-length: ").nth(1).expect("a length");
        let length = length.lines().next().and_then(|it| it.parse().ok()).expect("a number");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("all of it");
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        reader.get_mut().write_all(response.as_bytes()).expect("it is read");
        (head, body)
    });
    (address, receiving)
}

/// Decodes an exported body with OpenTelemetry's own library.
fn decode(content_type: &str, body: &[u8]) -> Json {
    let decoder = real_servers::otlp_decoder(content_type);
    let mut command = Command::new(&decoder.command);
    command.args(&decoder.args).env_clear().envs(decoder.env.iter().cloned());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("Python can be run");
    child.stdin.take().expect("it is piped").write_all(body).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
fn check_traces(protocol: Option<&str>, content_type: &str) {
    let mut scene = scene();
    let (address, collected) = trace_collector();
    scene
        .set_env("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{address}"))
        .set_env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=canary")
        .set_env("OTEL_SERVICE_NAME", "front-door")
        .set_env("OTEL_BSP_SCHEDULE_DELAY", "100");
    if let Some(protocol) = protocol {
        scene.set_env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
    }
    let gateway = GatewayProcess::start(&scene, &["--mode", "bypass"]);
    let response = gateway.call("hello").join().expect("it answers");
    assert!(response.contains(r#""text":"hello""#), "{response}");
    let (head, body) = collected.join().expect("spans are sent");
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(head.contains("x-key: canary"), "{head}");
    assert!(head.contains(&format!("content-type: {content_type}\r\n")), "{head}");
    let is_in_body = |text: &str| contains(&body, text.as_bytes());
    assert!(is_in_body("front-door") && !is_in_body("canary"));
    let sent = decode(content_type, &body);
    let resource = &sent["resourceSpans"][0];
    let attributes = resource["resource"]["attributes"].as_array().expect("attributes");
    let service = attributes.iter().find(|it| it["key"] == "service.name").expect("a name");
    assert_eq!(service["value"]["stringValue"], "front-door");
    let spans = resource["scopeSpans"][0]["spans"].as_array().expect("spans");
    assert_eq!(spans.len(), 2, "{spans:#?}");
    let of = |kind: u64| spans.iter().find(|it| it["kind"] == kind).expect("a span");
    let (server, client) = (of(2), of(3));
    assert_eq!(server["name"], "tools/call mcp__s__echo");
    assert_eq!(client["name"], "tools/call echo");
    assert_eq!(client["parentSpanId"], server["spanId"]);
    assert_eq!(client["traceId"], server["traceId"]);
    assert_eq!((&server["flags"], &client["flags"]), (&0x101.into(), &0x101.into()));
    let nanoseconds = |name: &str| server[name].as_str().and_then(|it| it.parse::<u64>().ok());
    assert!(nanoseconds("endTimeUnixNano") > nanoseconds("startTimeUnixNano"), "{server:#}");
    let mut stream = TcpStream::connect(&gateway.address).expect("it listens");
    let line =
        format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gateway.address);
    stream.write_all(line.as_bytes()).expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    for sample in [
        r#"switchboard_tool_calls_total{server="s",outcome="ok"} 1"#,
        "switchboard_trace_spans_dropped_total 0",
    ] {
        assert!(page.lines().any(|it| it == sample), "{page}");
    }
    let said = gateway.end();
    assert!(!said.contains("canary"), "{said}");
    let call = &json(&scene, &["audit", "--json"])["calls"][0];
    assert_eq!(call["trace"], spans[0]["traceId"]);
    assert_eq!(call["request"], "1");
    let caller = call["caller"].as_str().expect("a caller");
    let found = scene.swb(&["audit", "--caller", caller]);
    assert_eq!(found.expect_success().lines().count(), 2, "{}", found.to_snapshot());
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|it| it == part)
}

#[test]
fn a_call_is_in_the_traces_the_metrics_and_the_audit_log() {
    check_traces(None, "application/x-protobuf");
}

#[test]
fn traces_are_sent_as_json_where_the_protocol_says_so() {
    check_traces(Some("http/json"), "application/json");
}

#[test]
fn an_unknown_protocol_for_traces_is_refused_before_anything_is_served() {
    let mut scene = scene();
    scene
        .set_env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
        .set_env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "thrift");
    let refused = scene.swb(&["serve", "--pool", "--http", "127.0.0.1:0", "--no-auth"]);
    insta::assert_snapshot!(refused.expect_failure(3), @"error: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is invalid: use http/protobuf or http/json");
}

#[test]
fn an_invalid_collector_address_is_an_error_before_serving() {
    let mut scene = scene();
    scene.set_env("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
    let refused = scene.swb(&["serve", "--pool", "--http", "127.0.0.1:0", "--no-auth"]);
    insta::assert_snapshot!(refused.expect_failure(3), @"error: OTEL_EXPORTER_OTLP_ENDPOINT: `collector:4317/v1/traces` is not an http or https URL");
}

/// The names of metrics in a text.
fn metric_names(text: &str) -> BTreeSet<String> {
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let words = text.split(|it| !is_part(it));
    let is_metric = |it: &&str| {
        (it.starts_with("switchboard_") && it.len() > "switchboard_".len())
            || it.starts_with("process_")
    };
    words.filter(is_metric).map(str::to_owned).collect()
}

#[test]
fn every_metric_in_the_example_dashboard_and_alerts_is_on_the_metrics_page() {
    let scene = scene();
    let syslog = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let place = syslog.local_addr().expect("an address");
    let entry = ScriptedProgram::config_entry(&Script::modern().name("one"));
    scene.write(
        USER,
        &format!(r#"{{"audit": {{"syslog": "udp://{place}"}}, "mcpServers": {{"one": {entry}}}}}"#),
    );
    let authority = serve_tls::write_pair(&scene);
    let arguments = serve_tls::arguments(&scene);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Those of replicas are there with a store.
    let store = StoreServer::start();
    let (url, keys) = (store.url(), scene.project().join("seal.key"));
    std::fs::write(&keys, "00".repeat(32)).expect("it can be written");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    arguments.extend(["--mode", "bypass", "--store", &url, "--seal-key", "seal.key"]);
    let gateway = HttpGateway::start(&scene, &arguments);
    // Metrics of calls are there after the first one.
    let called = serve_tls::call(&gateway, &authority, "mcp__one__echo");
    assert!(called.contains("\"content\""), "{called}");
    let page = serve_tls::get(&gateway, &authority, "/metrics").expect("a page");
    let samples: BTreeSet<&str> = page
        .lines()
        .filter(|it| !it.starts_with('#'))
        .filter_map(|it| it.split(['{', ' ']).next())
        .collect();
    let examples = docs().join("admin/examples");
    let mut named = 0;
    for file in ["grafana-gateway.json", "prometheus-alerts.yaml"] {
        let text = std::fs::read_to_string(examples.join(file)).expect("the example");
        for name in metric_names(&text) {
            assert!(
                samples.contains(name.as_str()),
                "{file}: `{name}` is not on the page:\n{page}"
            );
            named += 1;
        }
    }
    assert!(named > 20, "the examples name {named} metrics");
    let dashboard = std::fs::read(examples.join("grafana-gateway.json")).expect("the example");
    let dashboard: Json = serde_json::from_slice(&dashboard).expect("JSON");
    let ids: BTreeSet<u64> = dashboard["panels"]
        .as_array()
        .expect("panels")
        .iter()
        .map(|it| it["id"].as_u64().expect("an id"))
        .collect();
    assert_eq!(ids.len(), dashboard["panels"].as_array().expect("panels").len(), "ids are unique");
    gateway.terminate();
    let mut message = [0; 4096];
    let count = syslog.recv(&mut message).expect("a record");
    let text = String::from_utf8_lossy(&message[..count]);
    assert!(text.starts_with("<110>1 ") && text.contains("\"tool\":\"echo\""), "{text}");
}

#[test]
fn audit_records_are_sent_as_logs_that_the_library_of_a_collector_decodes() {
    for (protocol, content_type) in
        [("http/protobuf", "application/x-protobuf"), ("http/json", "application/json")]
    {
        let mut scene = scene();
        let (address, collected) = trace_collector();
        scene
            .set_env("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", &format!("http://{address}/v1/logs"))
            .set_env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
        let entry = ScriptedProgram::config_entry(&Script::modern().name("s"));
        scene.write(
            USER,
            &format!(r#"{{"audit": {{"otlp": true}}, "mcpServers": {{"s": {entry}}}}}"#),
        );
        let gateway = HttpGateway::start_pool(&scene, &["--no-auth"]);
        let client = GatewayClient::Modern { gateway: &gateway, token: None };
        client.call("mcp__s__echo", serde_json::json!({"text": "canary"}));
        let (head, body) = collected.join().expect("records are sent");
        assert!(head.starts_with("post /v1/logs "), "{head}");
        assert!(head.contains(&format!("content-type: {content_type}\r\n")), "{head}");
        assert!(!contains(&body, b"canary"), "arguments are never sent");
        if content_type == "application/json" {
            let sent: Json = serde_json::from_slice(&body).expect("JSON");
            let log = &sent["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
            let attributes = log["attributes"].as_array().expect("attributes");
            let tool = attributes.iter().find(|it| it["key"] == "mcp.tool.name").expect("a tool");
            assert_eq!(tool["value"]["stringValue"], "echo");
        }
        gateway.terminate();
    }
}

#[test]
fn audit_records_as_logs_need_a_collector() {
    let scene = scene();
    scene.write(USER, r#"{"audit": {"otlp": true}}"#);
    let refused = scene.swb(&["serve", "--pool", "--http", "127.0.0.1:0", "--no-auth"]);
    insta::assert_snapshot!(refused.expect_failure(3), @r"
    error: the setting `audit.otlp` needs the URL of a collector

    hint: set OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_LOGS_ENDPOINT
    ");
}
