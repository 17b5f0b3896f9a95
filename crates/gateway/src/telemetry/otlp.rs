//! Exports spans to a collector in batches, as OTLP over HTTP in protobuf or JSON. `opentelemetry-otlp` encodes and
//! retries; the queue is ours, so that dropped spans are counted and requests never wait for the export.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind as OtelSpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, RetryPolicy, SpanExporter as OtlpExporter, WithExportConfig,
    WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter, SpanLinks};
use switchboard_auth::fetch::origin_guard::AllowedAddresses;
use switchboard_auth::fetch::{Fetch, FetchRequest};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;
use url::Url;

use crate::telemetry::spans::{Sampler, Span, SpanKind, SpanRecorder, Tracer};

/// The capacity of the span queue, and the largest batch.
const QUEUE_CAPACITY: usize = 2048;
const MAX_BATCH: usize = 512;
/// How often a batch is sent again, and the delay before the first time. The delay doubles.
const MAX_RETRIES: usize = 2;
const RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(4);

/// Where and how to export spans.
pub struct TraceExport {
    /// Sends the HTTP requests.
    pub fetch: Arc<dyn Fetch>,
    /// The collector's URL.
    pub endpoint: Url,
    /// The encoding of the spans.
    pub encoding: TraceEncoding,
    /// Headers for the collector. May hold secrets.
    pub headers: HeaderMap,
    /// How long the collector may take for one batch, retries included.
    pub timeout: Duration,
    /// The attributes of this program, by OpenTelemetry's names.
    pub resource: Vec<(String, String)>,
    /// Decides which traces are recorded.
    pub sampler: Sampler,
    /// How long to collect spans before a batch is sent.
    pub batch_delay: Duration,
}

/// The encoding of exported spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceEncoding {
    /// Binary protobuf: `http/protobuf`.
    #[default]
    Protobuf,
    /// JSON: `http/json`.
    Json,
}

/// The exporter could not be created.
#[derive(Debug, Error)]
#[error("the exporter could not be created")]
pub struct TraceExportError(#[from] ExporterBuildError);

impl TraceExport {
    /// The default of [`TraceExport::batch_delay`].
    pub const DEFAULT_BATCH_DELAY: Duration = Duration::from_secs(5);
    /// The default of [`TraceExport::timeout`].
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

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

    /// Everything that the library would otherwise take from environment variables is set here or in
    /// [`CollectorClient`].
    fn exporter(&self) -> Result<OtlpExporter, TraceExportError> {
        let protocol = match self.encoding {
            TraceEncoding::Protobuf => Protocol::HttpBinary,
            TraceEncoding::Json => Protocol::HttpJson,
        };
        let retry_policy = RetryPolicy::recommended()
            .with_max_retries(MAX_RETRIES)
            .with_initial_delay(RETRY_DELAY)
            .with_max_delay(MAX_RETRY_DELAY);
        let client = CollectorClient {
            fetch: self.fetch.clone(),
            endpoint: self.endpoint.clone(),
            headers: self.headers.clone(),
            last_status: Arc::default(),
        };
        let mut exporter = OtlpExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(self.endpoint.as_str())
            .with_protocol(protocol)
            .with_timeout(self.timeout)
            .with_retry_policy(retry_policy)
            .build()
            .map_err(TraceExportError)?;
        let attributes =
            self.resource.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
        exporter.set_resource(&Resource::builder_empty().with_attributes(attributes).build());
        Ok(exporter)
    }
}

impl fmt::Debug for TraceExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceExport")
            .field("endpoint", &self.endpoint.host_str())
            .field("encoding", &self.encoding)
            .field("sampler", &self.sampler)
            .finish_non_exhaustive()
    }
}

impl Tracer {
    /// A tracer, and the future that exports its spans. It ends when the last clone is dropped and all spans are sent.
    pub fn with_export(
        export: TraceExport,
    ) -> Result<(Tracer, impl Future<Output = ()> + Send + 'static), TraceExportError> {
        let exporter = export.exporter()?;
        let (sender, spans) = mpsc::channel(QUEUE_CAPACITY);
        let dropped = Arc::new(AtomicU64::new(0));
        let recorder = SpanRecorder { sampler: export.sampler, sender, dropped: dropped.clone() };
        Ok((Tracer::with_recorder(recorder), run(export, exporter, spans, dropped)))
    }
}

async fn run(
    export: TraceExport,
    exporter: OtlpExporter,
    mut spans: mpsc::Receiver<Box<Span>>,
    dropped: Arc<AtomicU64>,
) {
    while let Some(first) = spans.recv().await {
        let mut batch = vec![to_span_data(*first)];
        let deadline = Instant::now() + export.batch_delay;
        while batch.len() < MAX_BATCH {
            match timeout_at(deadline, spans.recv()).await {
                Ok(Some(span)) => batch.push(to_span_data(*span)),
                Ok(None) | Err(_) => break,
            }
        }
        let span_count = batch.len() as u64;
        // The library does not interrupt a request that is under way.
        let exported = timeout(export.timeout, exporter.export(batch)).await;
        if !matches!(exported, Ok(Ok(()))) {
            warn!(spans = span_count, "traces could not be exported");
            dropped.fetch_add(span_count, Ordering::Relaxed);
        }
    }
}

/// Sends the library's requests through our own HTTP client.
pub(crate) struct CollectorClient {
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) endpoint: Url,
    pub(crate) headers: HeaderMap,
    /// The status of the last response.
    pub(crate) last_status: Arc<AtomicU16>,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient")
            .field("endpoint", &self.endpoint.host_str())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    /// Of the request's headers, only the content type counts: the library adds headers that it reads from the
    /// environment, which may be meant for another collector.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut headers = self.headers.clone();
        if let Some(content_type) = request.headers().get(header::CONTENT_TYPE) {
            headers.insert(header::CONTENT_TYPE, content_type.clone());
        }
        let fetched = self
            .fetch
            .fetch(FetchRequest {
                method: Method::POST,
                url: self.endpoint.clone(),
                headers,
                body: request.into_body(),
                // The administrator configured the endpoint.
                allowed: AllowedAddresses::Any,
            })
            .await?;
        self.last_status.store(fetched.status, Ordering::Relaxed);
        let mut response = Response::builder().status(fetched.status).body(fetched.body)?;
        *response.headers_mut() = fetched.headers;
        Ok(response)
    }
}

fn to_span_data(span: Span) -> SpanData {
    let Span { context, parent, name, kind, start, duration, attributes, error } = span;
    let mut attributes: Vec<KeyValue> =
        attributes.into_iter().map(|(name, value)| KeyValue::new(name, value)).collect();
    let status = match error {
        Some(error) => {
            attributes.push(KeyValue::new("error.type", error));
            Status::error("")
        }
        None => Status::Unset,
    };
    let (trace, span) = (TraceId::from_bytes(context.trace), SpanId::from_bytes(context.span));
    let version = env!("CARGO_PKG_VERSION");
    SpanData {
        span_context: SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from_bytes),
        // The parent of a client's request is the client's span.
        parent_span_is_remote: kind == SpanKind::Server && parent.is_some(),
        span_kind: match kind {
            SpanKind::Server => OtelSpanKind::Server,
            SpanKind::Client => OtelSpanKind::Client,
        },
        name: name.into(),
        start_time: start,
        end_time: start + duration,
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: InstrumentationScope::builder("switchboard")
            .with_version(version)
            .build(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use switchboard_auth::fetch::{FetchFuture, FetchResponse};

    use super::*;
    use crate::telemetry::trace_context::TraceContext;

    /// A collector that responds with these status codes in turn, and keeps the requests.
    struct Collector {
        statuses: Vec<u16>,
        requests: mpsc::UnboundedSender<FetchRequest>, // as many as a test makes
        attempts: AtomicU64,
    }

    impl Fetch for Collector {
        fn fetch<'a>(&'a self, request: FetchRequest) -> FetchFuture<'a> {
            let _test_over = self.requests.send(request);
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) as usize;
            let status = self.statuses.get(attempt).copied();
            Box::pin(async move {
                let Some(status) = status else { return std::future::pending().await };
                Ok(FetchResponse { status, headers: HeaderMap::new(), body: Bytes::new() })
            })
        }
    }

    fn export(statuses: &[u16]) -> (TraceExport, mpsc::UnboundedReceiver<FetchRequest>) {
        let (requests, received) = mpsc::unbounded_channel();
        let secret = [("x-key".to_owned(), "canary".to_owned())];
        let attempts = AtomicU64::new(0);
        let export = TraceExport {
            fetch: Arc::new(Collector { statuses: statuses.to_vec(), requests, attempts }),
            endpoint: "http://collector.example/v1/traces".parse().expect("a URL"),
            encoding: TraceEncoding::Json,
            headers: TraceExport::headers(secret.to_vec()).expect("a header"),
            timeout: TraceExport::DEFAULT_TIMEOUT,
            resource: vec![("service.name".to_owned(), "test".to_owned())],
            sampler: Sampler::default(),
            batch_delay: Duration::ZERO,
        };
        (export, received)
    }

    fn span() -> Span {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa00b90277-01";
        let parent = TraceContext::parse(parent).expect("it is good");
        Span {
            context: parent,
            parent: Some(parent.span),
            name: "tools/call echo".to_owned(),
            kind: SpanKind::Client,
            start: UNIX_EPOCH + Duration::from_secs(1),
            duration: Duration::from_millis(2),
            attributes: vec![("mcp.method.name", "tools/call".to_owned())],
            error: Some("timeout".to_owned()),
        }
    }

    /// Exports one span; returns the number of requests and of dropped spans.
    async fn export_one(statuses: &[u16]) -> (usize, u64) {
        let (export, mut received) = export(statuses);
        let exporter = export.exporter().expect("an exporter");
        let (sender, spans) = mpsc::channel(QUEUE_CAPACITY);
        let dropped = Arc::new(AtomicU64::new(0));
        sender.try_send(Box::new(span())).expect("there is room");
        drop(sender);
        run(export, exporter, spans, dropped.clone()).await;
        let mut request_count = 0;
        while received.recv().await.is_some() {
            request_count += 1;
        }
        (request_count, dropped.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_retried_only_where_the_collector_may_accept_it_later() {
        assert_eq!(export_one(&[200]).await, (1, 0));
        assert_eq!(export_one(&[503, 429, 200]).await, (3, 0));
        assert_eq!(export_one(&[503, 502, 504, 200]).await, (3, 1));
        assert_eq!(export_one(&[400, 200]).await, (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_never_responds_delays_a_batch_by_the_timeout() {
        let started = Instant::now();
        assert_eq!(export_one(&[]).await, (1, 1));
        assert_eq!(started.elapsed(), TraceExport::DEFAULT_TIMEOUT);
    }

    #[tokio::test]
    async fn a_span_is_encoded_as_otlp_json() {
        let (export, mut received) = export(&[200]);
        let exporter = export.exporter().expect("an exporter");
        exporter.export(vec![to_span_data(span())]).await.expect("it is accepted");
        let request = received.recv().await.expect("a request");
        assert_eq!(request.headers["content-type"], "application/json");
        let sent: serde_json::Value = serde_json::from_slice(&request.body).expect("JSON");
        let scope = &sent["resourceSpans"][0]["scopeSpans"][0];
        assert_eq!(scope["scope"]["name"], "switchboard");
        let expected = serde_json::json!({
            "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa00b90277",
            "parentSpanId": "00f067aa00b90277", "name": "tools/call echo", "kind": 3, "flags": 0x101,
            "startTimeUnixNano": "1000000000", "endTimeUnixNano": "1002000000",
            "attributes": [
                {"key": "mcp.method.name", "value": {"stringValue": "tools/call"}},
                {"key": "error.type", "value": {"stringValue": "timeout"}},
            ],
            "status": {"code": 2, "message": ""},
        });
        for (name, value) in expected.as_object().expect("an object") {
            assert_eq!(&scope["spans"][0][name], value, "{name}");
        }
    }

    #[tokio::test]
    async fn a_request_has_only_the_configured_headers_and_prints_none_of_them() {
        let (export, mut received) = export(&[200]);
        let exporter = export.exporter().expect("an exporter");
        assert!(!format!("{export:?} {exporter:?}").contains("canary"));
        exporter.export(vec![to_span_data(span())]).await.expect("it is accepted");
        let request = received.recv().await.expect("a request");
        let names: Vec<&str> = request.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-key", "content-type"]);
        assert!(request.headers["x-key"].is_sensitive());
    }
}
