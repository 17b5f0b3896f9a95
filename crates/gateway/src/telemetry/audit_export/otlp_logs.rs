//! Sends audit records to a collector as OpenTelemetry logs, in protobuf or JSON over HTTP. The fields of a record are
//! attributes, and its line is the body. `opentelemetry-otlp` encodes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{
    LogExporter as OtlpExporter, Protocol, RetryPolicy, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{LogBatch, LogExporter, SdkLogRecord, SdkLogger, SdkLoggerProvider};
use switchboard::audit::log::{CallOutcome, FedRecord};
use switchboard_auth::fetch::Fetch;
use url::Url;

use super::{Delivery, DeliveryError, DeliveryFuture};
use crate::telemetry::otlp::{CollectorClient, TraceEncoding, TraceExportError};

/// The name of the event.
const EVENT_NAME: &str = "mcp.tool_call";

/// Where and how to export records.
pub struct LogExport {
    exporter: OtlpExporter,
    /// The status of the collector's last response.
    last_status: Arc<AtomicU16>,
}

/// The options of a [`LogExport`].
pub struct LogExportOptions {
    /// Sends the HTTP requests.
    pub fetch: Arc<dyn Fetch>,
    /// The collector's URL.
    pub endpoint: Url,
    /// The encoding.
    pub encoding: TraceEncoding,
    /// Headers for the collector. May hold secrets.
    pub headers: HeaderMap,
    /// How long the collector may take for one batch.
    pub timeout: Duration,
    /// The attributes of this program, by OpenTelemetry's names.
    pub resource: Vec<(String, String)>,
}

impl fmt::Debug for LogExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogExport")
    }
}

impl fmt::Debug for LogExportOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogExportOptions")
            .field("endpoint", &self.endpoint.host_str())
            .finish_non_exhaustive()
    }
}

impl LogExport {
    /// An exporter.
    pub fn new(options: LogExportOptions) -> Result<LogExport, TraceExportError> {
        let protocol = match options.encoding {
            TraceEncoding::Protobuf => Protocol::HttpBinary,
            TraceEncoding::Json => Protocol::HttpJson,
        };
        let last_status = Arc::new(AtomicU16::new(0));
        let client = CollectorClient {
            fetch: options.fetch,
            endpoint: options.endpoint.clone(),
            headers: options.headers,
            last_status: last_status.clone(),
        };
        let mut exporter = OtlpExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(options.endpoint.as_str())
            .with_protocol(protocol)
            .with_timeout(options.timeout)
            // `audit_export` sends a batch again.
            .with_retry_policy(RetryPolicy::recommended().with_max_retries(0))
            .build()
            .map_err(TraceExportError::from)?;
        let attributes =
            options.resource.into_iter().map(|(name, value)| KeyValue::new(name, value));
        exporter.set_resource(&Resource::builder_empty().with_attributes(attributes).build());
        Ok(LogExport { exporter, last_status })
    }

    pub(super) fn delivery(self) -> OtlpDelivery {
        // Only makes records: nothing is emitted through it.
        let logger = SdkLoggerProvider::builder().build().logger("switchboard");
        let scope = InstrumentationScope::builder("switchboard")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        OtlpDelivery { export: self, logger, scope }
    }
}

/// An exporter, and what makes records for it.
pub(super) struct OtlpDelivery {
    export: LogExport,
    logger: SdkLogger,
    scope: InstrumentationScope,
}

impl OtlpDelivery {
    fn log_record(&self, fed: &FedRecord) -> SdkLogRecord {
        let record = &fed.record;
        let mut log = self.logger.create_log_record();
        log.set_event_name(EVENT_NAME);
        let time = parse_utc(&record.time).unwrap_or_else(SystemTime::now);
        log.set_timestamp(time);
        log.set_observed_timestamp(SystemTime::now());
        let (severity, text) = match record.outcome.as_str() {
            it if it == CallOutcome::Denied.id() || it == CallOutcome::Cancelled.id() => {
                (Severity::Info2, "INFO2")
            }
            it if it == CallOutcome::Failed.id() || it == CallOutcome::Timeout.id() => {
                (Severity::Warn, "WARN")
            }
            _ => (Severity::Info, "INFO"),
        };
        log.set_severity_number(severity);
        log.set_severity_text(text);
        log.set_body(AnyValue::from(fed.line.clone()));
        let attributes = [
            ("enduser.id", &record.caller),
            ("mcp.server.name", &record.server),
            ("mcp.tool.name", &record.tool),
            ("switchboard.decision", &record.decision),
            ("switchboard.decision.reason", &record.because),
            ("switchboard.outcome", &record.outcome),
            ("switchboard.arguments.digest", &record.arguments),
            ("mcp.session.id", &record.origin.session),
            ("jsonrpc.request.id", &record.origin.request),
        ];
        for (name, value) in attributes {
            if !value.is_empty() {
                log.add_attribute(name, AnyValue::from(value.clone()));
            }
        }
        let duration = i64::try_from(record.duration_ms).unwrap_or(i64::MAX);
        log.add_attribute("switchboard.duration_ms", AnyValue::Int(duration));
        if let Ok(trace) = TraceId::from_hex(&record.origin.trace) {
            log.set_trace_context(trace, SpanId::INVALID, None);
        }
        log
    }

    async fn send(&self, batch: &[Arc<FedRecord>]) -> Result<(), DeliveryError> {
        let records: Vec<SdkLogRecord> = batch.iter().map(|it| self.log_record(it)).collect();
        let pairs: Vec<_> = records.iter().map(|it| (it, &self.scope)).collect();
        self.export.last_status.store(0, Ordering::Relaxed);
        if self.export.exporter.export(LogBatch::new(&pairs)).await.is_ok() {
            return Ok(());
        }
        match self.export.last_status.load(Ordering::Relaxed) {
            0 => Err(DeliveryError::later("it does not respond")),
            status @ (401 | 403 | 408 | 429 | 500..=599) => {
                Err(DeliveryError::later(format!("it responds with status {status}")))
            }
            status => {
                Err(DeliveryError::Never { reason: format!("it responds with status {status}") })
            }
        }
    }
}

impl Delivery for OtlpDelivery {
    fn deliver<'a>(&'a mut self, batch: &'a [Arc<FedRecord>]) -> DeliveryFuture<'a> {
        Box::pin(self.send(batch))
    }
}

/// Parses the time of a record, `2026-01-02T03:04:05Z`.
fn parse_utc(text: &str) -> Option<SystemTime> {
    let part = |start: usize, end: usize| text.get(start..end)?.parse::<u64>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    if text.len() != 20 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1970 {
        return None;
    }
    // Counts from March, so that the leap day is the last one of a year (Howard Hinnant's algorithm).
    let (shifted_year, shifted_month) = match month > 2 {
        true => (year, month - 3),
        false => (year - 1, month + 9),
    };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let leap_days = shifted_year / 4 - shifted_year / 100 + shifted_year / 400;
    let days = (shifted_year * 365 + leap_days + day_of_year).checked_sub(719_468)?;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use switchboard::audit::log::{AuditLog, AuditRecord};
    use switchboard::utc_timestamp;
    use switchboard_auth::fetch::{FetchFuture, FetchRequest, FetchResponse};
    use tokio::sync::mpsc;

    use super::*;

    /// A collector that responds with one status, and keeps the requests.
    struct Collector {
        status: u16,
        requests: mpsc::UnboundedSender<FetchRequest>, // as many as a test makes
    }

    impl Fetch for Collector {
        fn fetch<'a>(&'a self, request: FetchRequest) -> FetchFuture<'a> {
            let _test_over = self.requests.send(request);
            let status = self.status;
            Box::pin(async move {
                Ok(FetchResponse { status, headers: HeaderMap::new(), body: Bytes::new() })
            })
        }
    }

    async fn export(
        status: u16,
        encoding: TraceEncoding,
    ) -> (Result<(), DeliveryError>, FetchRequest) {
        let folder = tempfile::tempdir().expect("a temp folder");
        let audit = AuditLog::open(&folder.path().join("audit.jsonl")).expect("a log");
        let mut feed = audit.feed(10).await;
        let mut record = AuditRecord::begin("ada", "t");
        record.time = "2026-01-02T03:04:05Z".to_owned();
        record.tool = "echo".to_owned();
        record.outcome = "failed".to_owned();
        record.origin.trace = "4bf92f3577b34da6a3ce929d0e0e4736".to_owned();
        audit.record(record);
        audit.flush().await;
        let batch: Vec<_> = std::iter::from_fn(|| feed.try_next()).collect();
        let (requests, mut received) = mpsc::unbounded_channel();
        let options = LogExportOptions {
            fetch: Arc::new(Collector { status, requests }),
            endpoint: "http://collector.example/v1/logs".parse().expect("a URL"),
            encoding,
            headers: HeaderMap::new(),
            timeout: Duration::from_secs(5),
            resource: vec![("service.name".to_owned(), "test".to_owned())],
        };
        let mut delivery = LogExport::new(options).expect("an exporter").delivery();
        let result = delivery.deliver(&batch).await;
        (result, received.try_recv().expect("a request"))
    }

    #[tokio::test]
    async fn a_record_is_a_log_with_its_fields_as_attributes() {
        let (result, request) = export(200, TraceEncoding::Json).await;
        result.expect("it is accepted");
        let sent: serde_json::Value = serde_json::from_slice(&request.body).expect("JSON");
        let log = &sent["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert_eq!(log["severityText"], "WARN", "{sent}");
        assert_eq!(log["eventName"], EVENT_NAME);
        assert_eq!(log["timeUnixNano"], "1767323045000000000");
        assert_eq!(log["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        let attribute = |name: &str| {
            let all = log["attributes"].as_array().expect("attributes");
            let found = all.iter().find(|it| it["key"] == name).expect("it is there");
            found["value"].clone()
        };
        assert_eq!(attribute("enduser.id")["stringValue"], "ada");
        assert_eq!(attribute("mcp.tool.name")["stringValue"], "echo");
        let body = log["body"]["stringValue"].as_str().expect("a text");
        assert_eq!(serde_json::from_str::<AuditRecord>(body).expect("a record").caller, "ada");
    }

    #[tokio::test]
    async fn both_encodings_are_sent_and_the_status_decides_what_is_sent_again() {
        let (result, request) = export(200, TraceEncoding::Protobuf).await;
        result.expect("it is accepted");
        assert_eq!(request.headers["content-type"], "application/x-protobuf");
        let text = String::from_utf8_lossy(&request.body).into_owned();
        assert!(text.contains("enduser.id") && text.contains("service.name"));
        let (result, _) = export(503, TraceEncoding::Protobuf).await;
        assert!(matches!(result, Err(DeliveryError::Later { .. })), "{result:?}");
        let (result, _) = export(400, TraceEncoding::Json).await;
        assert!(matches!(result, Err(DeliveryError::Never { .. })), "{result:?}");
    }

    #[test]
    fn the_time_of_a_record_is_read_back() {
        for seconds in [0, 951_782_400, 1_709_164_799, 1_767_323_045, 4_102_444_799] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(parse_utc(&utc_timestamp(time)), Some(time), "{seconds}");
        }
        for bad in ["", "2026-13-01T00:00:00Z", "2026-01-02 03:04:05.123Z", "1969-01-01T00:00:00Z"]
        {
            assert_eq!(parse_utc(bad), None, "{bad}");
        }
    }
}
