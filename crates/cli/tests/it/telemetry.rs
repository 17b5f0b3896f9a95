//! A gateway as its operator watches it: traces, metrics and the audit log of the real program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use serde_json::Value as Json;

use crate::approvals::GatewayProcess;
use crate::support::{json, scene};

/// Takes one message of spans. Gives its head and its body.
fn trace_collector() -> (String, JoinHandle<(String, Json)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let taking = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("somebody sends");
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
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        reader.get_mut().write_all(answer.as_bytes()).expect("it is read");
        (head, serde_json::from_slice(&body).expect("JSON"))
    });
    (address, taking)
}

#[test]
fn a_call_is_found_in_the_traces_the_metrics_and_the_audit_log() {
    let mut scene = scene();
    let (address, collected) = trace_collector();
    scene
        .set_env("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{address}"))
        .set_env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=canary")
        .set_env("OTEL_SERVICE_NAME", "front-door")
        .set_env("OTEL_BSP_SCHEDULE_DELAY", "100");
    let gateway = GatewayProcess::start(&scene, &["--mode", "bypass"]);
    let response = gateway.call("hello").join().expect("it answers");
    assert!(response.contains(r#""text":"hello""#), "{response}");
    let (head, sent) = collected.join().expect("spans are sent");
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(head.contains("x-key: canary"), "{head}");
    let told = &sent["resourceSpans"][0];
    assert_eq!(told["resource"]["attributes"][0]["value"]["stringValue"], "front-door");
    let spans = told["scopeSpans"][0]["spans"].as_array().expect("spans");
    assert_eq!(spans.len(), 2, "{spans:#?}");
    let mut stream = TcpStream::connect(&gateway.address).expect("it listens");
    let line =
        format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gateway.address);
    stream.write_all(line.as_bytes()).expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    let sample = r#"switchboard_tool_calls_total{server="s",outcome="ok"} 1"#;
    assert!(page.lines().any(|it| it == sample), "{page}");
    let said = gateway.end();
    assert!(!said.contains("canary"), "{said}");
    let call = &json(&scene, &["audit", "--json"])["calls"][0];
    assert_eq!(call["trace"], spans[0]["traceId"]);
    assert_eq!(call["request"], "1");
    let caller = call["caller"].as_str().expect("a caller");
    let found = scene.swb(&["audit", "--caller", caller]);
    assert_eq!(found.expect_success().lines().count(), 2, "{}", found.to_snapshot());
}

#[test]
fn a_collector_that_is_no_address_is_said_before_anything_is_served() {
    let mut scene = scene();
    scene.set_env("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
    let refused = scene.swb(&["serve", "--pool", "--http", "127.0.0.1:0", "--no-auth"]);
    insta::assert_snapshot!(refused.expect_failure(3), @"error: OTEL_EXPORTER_OTLP_ENDPOINT: `collector:4317/v1/traces` is not an http or https URL");
}
