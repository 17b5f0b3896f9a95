//! The health, readiness and metrics routes, over a real socket.

use serde_json::json;
use switchboard_gateway::{MetricsAccess, Tracer};
use testkit::Script;

use crate::telemetry_fixture::{Admission, TOKEN, TelemetryFixture};

async fn fixture(admission: Admission, metrics: MetricsAccess) -> TelemetryFixture {
    TelemetryFixture::start(|_| Script::legacy(), Tracer::disabled(), (admission, metrics)).await
}

/// The value of a sample.
#[track_caller]
fn value(page: &str, sample: &str) -> f64 {
    let line = page.lines().find_map(|it| it.strip_prefix(sample)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no {sample} in\n{page}"));
    line.parse().expect("a number")
}

#[tokio::test]
async fn calls_sessions_and_refusals_are_counted() {
    let fixture = fixture(Admission::Everybody, MetricsAccess::Authenticated).await;
    let answer = fixture.call("mcp__s__echo", json!({}), &[]).await;
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    let answer = fixture.call("mcp__s__nothing", json!({}), &[]).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let initialize_request = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }});
    let headers_json =
        [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    assert_eq!(
        fixture.send("POST /mcp", &headers_json, &initialize_request.to_string()).await.status,
        200
    );
    assert_eq!(fixture.get("/healthz", &[("Host", "evil.example")]).await.status, 403);
    let reply = fixture.get("/metrics", &[]).await;
    assert_eq!(reply.status, 200);
    assert!(reply.head.contains("content-type: text/plain; version=0.0.4"), "{}", reply.head);
    let page = &reply.body;
    let calls = "switchboard_tool_calls_total";
    assert_eq!(value(page, &format!(r#"{calls}{{server="s",outcome="ok"}}"#)), 1.0);
    assert_eq!(value(page, &format!(r#"{calls}{{server="s",outcome="denied"}}"#)), 0.0);
    let took = "switchboard_tool_call_duration_seconds";
    assert_eq!(value(page, &format!(r#"{took}_bucket{{server="s",le="+Inf"}}"#)), 1.0);
    assert_eq!(value(page, &format!(r#"{took}_count{{server="s"}}"#)), 1.0);
    assert!(value(page, &format!(r#"{took}_sum{{server="s"}}"#)) > 0.0);
    assert_eq!(value(page, r#"switchboard_tool_calls_in_flight{server="s"}"#), 0.0);
    assert_eq!(value(page, r#"switchboard_requests_total{method="tools/call"}"#), 2.0);
    assert_eq!(value(page, r#"switchboard_refused_total{reason="host"}"#), 1.0);
    assert_eq!(value(page, r#"switchboard_http_responses_total{status="4xx"}"#), 1.0);
    assert_eq!(value(page, "switchboard_sessions"), 1.0);
    assert_eq!(value(page, "switchboard_connections"), 1.0);
    assert_eq!(value(page, "switchboard_parked_calls"), 0.0);
    assert_eq!(value(page, r#"switchboard_server_up{server="s"}"#), 1.0);
    assert_eq!(value(page, r#"switchboard_server_state{server="s",state="failed"}"#), 0.0);
    assert!(page.contains("switchboard_build_info{version=\""), "{page}");
    #[cfg(target_os = "linux")]
    assert!(value(page, "process_resident_memory_bytes") > 1_000_000.0);
    fixture.stop().await;
}

#[tokio::test]
async fn a_page_is_well_formed_in_either_format() {
    let fixture = fixture(Admission::Everybody, MetricsAccess::Authenticated).await;
    fixture.call("mcp__s__echo", json!({}), &[]).await;
    let open = ("Accept", "application/openmetrics-text; version=1.0.0");
    for headers in [&[][..], &[open]] {
        let page = fixture.get("/metrics", headers).await.body;
        let mut family = "";
        let mut seen = Vec::new();
        for line in page.lines().filter(|it| *it != "# EOF") {
            if let Some(name) = line.strip_prefix("# HELP ") {
                family = name.split(' ').next().expect("a name");
                assert!(!seen.contains(&family), "{family} twice");
                seen.push(family);
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                assert!(kind.starts_with(&format!("{family} ")), "{line}");
            } else {
                let (name, number) = line.rsplit_once(' ').expect("a number");
                assert!(name.starts_with(family) && number.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert_eq!(page.ends_with("# EOF\n"), !headers.is_empty());
    }
    fixture.stop().await;
}

#[tokio::test]
async fn metrics_require_a_token_unless_access_is_public() {
    let bearer = format!("Bearer {TOKEN}");
    let closed = fixture(Admission::Listed, MetricsAccess::Authenticated).await;
    let refused = closed.get("/metrics", &[]).await;
    assert_eq!(refused.status, 401);
    assert!(refused.head.contains("www-authenticate: bearer"), "{}", refused.head);
    assert!(!refused.body.contains("switchboard_"), "{}", refused.body);
    let read = closed.get("/metrics", &[("Authorization", &bearer)]).await;
    assert_eq!(read.status, 200);
    assert_eq!(value(&read.body, r#"switchboard_refused_total{reason="no-token"}"#), 1.0);
    assert_eq!(closed.get("/healthz", &[]).await.status, 200);
    closed.stop().await;
    let open = fixture(Admission::Listed, MetricsAccess::Public).await;
    assert_eq!(open.get("/metrics", &[]).await.status, 200);
    let foreign = open.get("/metrics", &[("Origin", "https://evil.example")]).await;
    assert_eq!(foreign.status, 403, "the check covers every request");
    open.stop().await;
}

#[tokio::test]
async fn health_and_readiness_need_no_token() {
    let fixture = fixture(Admission::Listed, MetricsAccess::Authenticated).await;
    let health = fixture.get("/healthz", &[]).await;
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    let ready = fixture.get("/readyz", &[]).await;
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    assert_eq!(fixture.send("POST /healthz", &[], "").await.status, 404);
    fixture.stop().await;
}
