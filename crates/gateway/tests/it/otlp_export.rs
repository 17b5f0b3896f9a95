//! Spans as a collector receives them, and the trace context that servers receive.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value as Json, json};
use switchboard_auth::fetch::{Fetch, FetchError, FetchFuture, FetchRequest, FetchResponse};
use switchboard_gateway::{MetricsAccess, Sampler, TraceEncoding, TraceExport, Tracer};
use testkit::Script;
use testkit::scripted::read_journal;
use tokio::sync::mpsc;

use crate::telemetry_fixture::{Admission, TelemetryFixture};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa00b90277-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A collector that keeps all spans.
struct Collector(mpsc::UnboundedSender<FetchRequest>); // as many as a test makes

impl Fetch for Collector {
    fn fetch<'a>(&'a self, request: FetchRequest) -> FetchFuture<'a> {
        let _test_over = self.0.send(request);
        let answer = FetchResponse { status: 200, headers: HeaderMap::new(), body: "{}".into() };
        Box::pin(async { Ok(answer) })
    }
}

/// A collector that cannot be reached.
struct Absent;

impl Fetch for Absent {
    fn fetch<'a>(&'a self, _request: FetchRequest) -> FetchFuture<'a> {
        Box::pin(async { Err(FetchError::TimedOut { origin: "collector".to_owned() }) })
    }
}

fn export(fetch: impl Fetch + 'static, sampler: Sampler) -> TraceExport {
    let secret = [("x-key".to_owned(), "canary".to_owned())];
    TraceExport {
        fetch: Arc::new(fetch),
        endpoint: "http://collector.example/v1/traces".parse().expect("a URL"),
        encoding: TraceEncoding::Json,
        headers: TraceExport::headers(secret.to_vec()).expect("a header"),
        timeout: TraceExport::DEFAULT_TIMEOUT,
        resource: vec![("service.name".to_owned(), "test".to_owned())],
        sampler,
        batch_delay: Duration::ZERO,
    }
}

/// Makes calls, and returns all exported spans and the messages that the server received.
async fn spans(
    sampler: Sampler,
    calls: &[(Json, &[(&str, &str)])],
) -> (Vec<Json>, Vec<Json>, Vec<String>) {
    let (sender, mut requests) = mpsc::unbounded_channel();
    let (tracer, sending) =
        Tracer::with_export(export(Collector(sender), sampler)).expect("an exporter");
    let sending = tokio::spawn(sending);
    let script = |path: &std::path::Path| Script::legacy().journal(path.join("journal"));
    let everybody = (Admission::Everybody, MetricsAccess::Authenticated);
    let fixture = TelemetryFixture::start(script, tracer, everybody).await;
    for (meta, headers) in calls {
        let answer = fixture.call("mcp__s__echo", meta.clone(), headers).await;
        assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    }
    let traces = fixture.records().await.into_iter().map(|it| it.origin.trace).collect();
    let messages = read_journal(&fixture.folder.path().join("journal"));
    let params = |it: Json| (it["method"] == "tools/call").then(|| it["params"].clone());
    let received = messages.into_iter().filter_map(params).collect();
    fixture.stop().await;
    sending.await.expect("it ends with the gateway");
    let mut spans = Vec::new();
    while let Some(request) = requests.recv().await {
        assert_eq!(request.headers["x-key"], "canary");
        assert_eq!(request.headers["content-type"], "application/json");
        let sent: Json = serde_json::from_slice(&request.body).expect("JSON");
        let resource = &sent["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "test");
        let sent_spans = resource["scopeSpans"][0]["spans"].as_array().expect("spans");
        spans.extend(sent_spans.iter().cloned());
    }
    (spans, received, traces)
}

fn attribute<'a>(span: &'a Json, name: &str) -> Option<&'a str> {
    let attributes = span["attributes"].as_array()?;
    attributes.iter().find(|it| it["key"] == name)?["value"]["stringValue"].as_str()
}

#[tokio::test]
async fn a_call_has_a_span_and_a_child_span_that_the_server_receives() {
    let meta = json!({"traceparent": PARENT, "tracestate": "a=b", "baggage": "k=v"});
    let (spans, received, traces) = spans(Sampler::default(), &[(meta, &[])]).await;
    let of = |kind: u64| spans.iter().find(|it| it["kind"] == kind).expect("a span");
    assert_eq!(spans.len(), 2, "{spans:#?}");
    let (server, client) = (of(2), of(3));
    assert_eq!(server["traceId"], TRACE);
    assert_eq!(server["parentSpanId"], "00f067aa00b90277");
    assert_eq!(server["name"], "tools/call mcp__s__echo");
    assert_eq!(attribute(server, "mcp.method.name"), Some("tools/call"));
    assert_eq!(attribute(server, "gen_ai.tool.name"), Some("mcp__s__echo"));
    assert_eq!(attribute(server, "jsonrpc.request.id"), Some("7"));
    assert_eq!(attribute(server, "error.type"), None);
    assert_eq!(client["traceId"], TRACE);
    assert_eq!(client["parentSpanId"], server["spanId"]);
    assert_eq!(client["name"], "tools/call echo");
    assert_eq!(attribute(client, "switchboard.server"), Some("s"));
    let expected = format!("00-{TRACE}-{}-01", client["spanId"].as_str().expect("an id"));
    assert_eq!(received[0]["_meta"]["traceparent"], expected);
    assert_eq!(received[0]["_meta"]["tracestate"], "a=b");
    assert_eq!(received[0]["_meta"]["baggage"], "k=v");
    assert_eq!(traces, [TRACE]);
}

#[tokio::test]
async fn a_trace_in_a_header_is_continued_and_others_start_here() {
    let header = ("traceparent", PARENT);
    let calls: [(Json, &[(&str, &str)]); 2] = [(json!({}), &[header]), (json!({}), &[])];
    let (spans, _, traces) = spans(Sampler::default(), &calls).await;
    let servers: Vec<&Json> = spans.iter().filter(|it| it["kind"] == 2).collect();
    assert_eq!(servers.len(), 2);
    assert_eq!(servers[0]["traceId"], TRACE);
    assert_eq!(servers[1]["parentSpanId"].as_str().unwrap_or_default(), "");
    assert_eq!(servers[1]["traceId"], traces[1].as_str());
    assert_ne!(servers[1]["traceId"], TRACE);
}

#[tokio::test]
async fn a_trace_that_is_not_sampled_is_passed_on_unchanged() {
    let unsampled = PARENT.replace("-01", "-00");
    let meta = json!({"traceparent": unsampled});
    let (spans, received, traces) = spans(Sampler::default(), &[(meta, &[])]).await;
    assert_eq!(spans, Vec::<Json>::new());
    assert_eq!(received[0]["_meta"]["traceparent"], unsampled);
    assert_eq!(traces, [TRACE]);
    let never = Sampler { ratio: 0.0, ..Sampler::default() };
    let (spans, received, traces) = super::otlp_export::spans(never, &[(json!({}), &[])]).await;
    assert_eq!((spans.len(), &received[0]["_meta"]["traceparent"]), (0, &Json::Null));
    assert_eq!(traces, [""]);
}

#[tokio::test]
async fn an_unreachable_collector_only_loses_spans() {
    let (tracer, sending) =
        Tracer::with_export(export(Absent, Sampler::default())).expect("an exporter");
    let sending = tokio::spawn(sending);
    let everybody = (Admission::Everybody, MetricsAccess::Authenticated);
    let fixture = TelemetryFixture::start(|_| Script::legacy(), tracer, everybody).await;
    let answer = fixture.call("mcp__s__echo", json!({}), &[]).await;
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    let records = fixture.records().await;
    assert_eq!((records[0].origin.request.as_str(), records.len()), ("7", 1));
    fixture.stop().await;
    sending.await.expect("it ends");
}
