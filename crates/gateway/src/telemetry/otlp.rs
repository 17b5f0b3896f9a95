//! Exports spans to a collector in batches, as OTLP over HTTP with JSON. Spans that the collector does not accept are
//! dropped and counted; requests never wait for the export.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde_json::{Value as Json, json};
use switchboard_auth::fetch::origin_guard::AllowedAddresses;
use switchboard_auth::fetch::{Fetch, FetchRequest};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use crate::telemetry::spans::{Sampler, Span, SpanKind, SpanRecorder, Tracer};
use crate::telemetry::trace_context::hex;

/// The capacity of the span queue, and the largest batch.
const QUEUE_CAPACITY: usize = 2048;
const MAX_BATCH: usize = 512;
/// The number of attempts to send a batch, and the delay between them.
const MAX_ATTEMPTS: u32 = 3;
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Where and how to export spans.
pub struct TraceExport {
    /// Sends the HTTP requests.
    pub fetch: Arc<dyn Fetch>,
    /// The collector's URL.
    pub endpoint: Url,
    /// Headers for the collector. May hold secrets.
    pub headers: HeaderMap,
    /// The attributes of this program, by OpenTelemetry's names.
    pub resource: Vec<(String, String)>,
    /// Decides which traces are recorded.
    pub sampler: Sampler,
    /// How long to collect spans before a batch is sent.
    pub batch_delay: Duration,
}

impl TraceExport {
    /// The default of [`TraceExport::batch_delay`].
    pub const DEFAULT_BATCH_DELAY: Duration = Duration::from_secs(5);

    /// Headers with values that are never printed. None if a name or value is not valid.
    pub fn headers(pairs: Vec<(String, String)>) -> Option<HeaderMap> {
        let header = |(name, value): (String, String)| {
            let name = HeaderName::try_from(name).ok()?;
            let mut value = HeaderValue::try_from(value).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        };
        pairs.into_iter().map(header).collect()
    }
}

impl fmt::Debug for TraceExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceExport")
            .field("endpoint", &self.endpoint.host_str())
            .field("sampler", &self.sampler)
            .finish_non_exhaustive()
    }
}

impl Tracer {
    /// A tracer, and the future that exports its spans. It ends when the last clone is dropped and all spans are sent.
    pub fn with_export(export: TraceExport) -> (Tracer, impl Future<Output = ()> + Send + 'static) {
        let (sender, spans) = mpsc::channel(QUEUE_CAPACITY);
        let dropped = Arc::new(AtomicU64::new(0));
        let recorder = SpanRecorder { sampler: export.sampler, sender, dropped: dropped.clone() };
        (Tracer::with_recorder(recorder), run(export, spans, dropped))
    }
}

async fn run(export: TraceExport, mut spans: mpsc::Receiver<Box<Span>>, dropped: Arc<AtomicU64>) {
    while let Some(first) = spans.recv().await {
        let mut batch = vec![first];
        let deadline = Instant::now() + export.batch_delay;
        while batch.len() < MAX_BATCH {
            match timeout_at(deadline, spans.recv()).await {
                Ok(Some(span)) => batch.push(span),
                Ok(None) | Err(_) => break,
            }
        }
        if !export.send_batch(&batch).await {
            dropped.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    }
}

impl TraceExport {
    async fn send_batch(&self, batch: &[Box<Span>]) -> bool {
        let body = to_otlp(batch, &self.resource).to_string();
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = FetchRequest {
            method: Method::POST,
            url: self.endpoint.clone(),
            headers,
            body: body.into(),
            // The administrator configured the endpoint.
            allowed: AllowedAddresses::Any,
        };
        for attempt in 1..=MAX_ATTEMPTS {
            match self.fetch.fetch(request.clone()).await {
                Ok(response) if response.is_success() => return true,
                Ok(response) if !matches!(response.status, 429 | 502 | 503 | 504) => return false,
                Ok(_) | Err(_) if attempt < MAX_ATTEMPTS => sleep(RETRY_DELAY * attempt).await,
                Ok(_) | Err(_) => {}
            }
        }
        false
    }
}

/// Spans as OTLP JSON: ids in hexadecimal, 64-bit numbers as strings.
fn to_otlp(batch: &[Box<Span>], resource: &[(String, String)]) -> Json {
    let attributes: Vec<Json> =
        resource.iter().map(|(name, value)| attribute(name, value)).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes},
        "scopeSpans": [{
            "scope": {"name": "switchboard", "version": env!("CARGO_PKG_VERSION")},
            "spans": batch.iter().map(|it| span_to_otlp(it)).collect::<Vec<_>>(),
        }],
    }]})
}

fn span_to_otlp(span: &Span) -> Json {
    let mut attributes: Vec<Json> =
        span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    if let Some(error) = &span.error {
        attributes.push(attribute("error.type", error));
    }
    let mut json = json!({
        "traceId": span.context.trace_id(), "spanId": hex(&span.context.span), "name": span.name,
        "kind": match span.kind { SpanKind::Server => 2, SpanKind::Client => 3 },
        "startTimeUnixNano": nanoseconds(span.start),
        "endTimeUnixNano": nanoseconds(span.start + span.duration),
        "attributes": attributes, "flags": 1,
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = hex(&parent).into();
    }
    if span.error.is_some() {
        json["status"] = json!({"code": 2});
    }
    json
}

fn attribute(name: &str, value: &str) -> Json {
    json!({"key": name, "value": {"stringValue": value}})
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::trace_context::TraceContext;

    #[test]
    fn a_span_is_encoded_as_otlp_json() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa00b90277-01";
        let parent = TraceContext::parse(parent).expect("it is good");
        let it = Span {
            context: parent,
            parent: Some(parent.span),
            name: "tools/call echo".to_owned(),
            kind: SpanKind::Client,
            start: UNIX_EPOCH + Duration::from_secs(1),
            duration: Duration::from_millis(2),
            attributes: vec![("mcp.method.name", "tools/call".to_owned())],
            error: Some("timeout".to_owned()),
        };
        let expected = json!({
            "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa00b90277",
            "parentSpanId": "00f067aa00b90277", "name": "tools/call echo", "kind": 3, "flags": 1,
            "startTimeUnixNano": "1000000000", "endTimeUnixNano": "1002000000",
            "attributes": [
                {"key": "mcp.method.name", "value": {"stringValue": "tools/call"}},
                {"key": "error.type", "value": {"stringValue": "timeout"}},
            ],
            "status": {"code": 2},
        });
        assert_eq!(span_to_otlp(&it), expected);
    }
}
