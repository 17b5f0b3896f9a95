//! Renders the metrics page, in Prometheus' text format or in OpenMetrics. Labels are names of configured servers and
//! words of this program, never text that a client sent.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::ACCEPT;
use switchboard::Snapshot;
use switchboard::audit::log::AuditStatus;
use switchboard::connection::Status;

use crate::telemetry::audit_export::ExportCounters;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::process::ProcessStats;

/// The state of a server's connection, as the `state` label has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerState {
    Pending,
    Connected,
    Failed,
    NeedsAuth,
    SessionRefused,
    Disabled,
}

impl ServerState {
    const ALL: [ServerState; 6] = [
        ServerState::Pending,
        ServerState::Connected,
        ServerState::Failed,
        ServerState::NeedsAuth,
        ServerState::SessionRefused,
        ServerState::Disabled,
    ];

    fn of(status: &Status) -> ServerState {
        match status {
            Status::Pending { .. } => ServerState::Pending,
            Status::Connected => ServerState::Connected,
            Status::Failed(_) => ServerState::Failed,
            Status::NeedsAuth(_) => ServerState::NeedsAuth,
            Status::SessionRefused(_) => ServerState::SessionRefused,
            Status::Disabled => ServerState::Disabled,
        }
    }

    fn label(self) -> &'static str {
        match self {
            ServerState::Pending => "pending",
            ServerState::Connected => "connected",
            ServerState::Failed => "failed",
            ServerState::NeedsAuth => "needs-auth",
            ServerState::SessionRefused => "session-refused",
            ServerState::Disabled => "disabled",
        }
    }
}

/// The text format of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// The format that the `Accept` header asks for.
    pub(crate) fn from_accept(headers: &HeaderMap) -> Format {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok());
        let is_open = accepted.flat_map(|it| it.split(',')).any(|it| {
            let kind = it.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/openmetrics-text")
        });
        if is_open { Format::OpenMetrics } else { Format::Prometheus }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The values that a page shows.
#[derive(Debug)]
pub(crate) struct Scrape<'a> {
    /// The version of the gateway.
    pub(crate) version: &'a str,
    pub(crate) metrics: &'a Metrics,
    pub(crate) snapshot: &'a Snapshot,
    /// Requests that wait for input from their client.
    pub(crate) suspended_requests: usize,
    /// Spans that could not be exported.
    pub(crate) dropped_spans: u64,
    /// The state of the audit log.
    pub(crate) audit: &'a AuditStatus,
    /// The replicas and their store; None if there is none.
    pub(crate) fleet: Option<FleetNumbers>,
    /// The targets that get copies of audit records.
    pub(crate) audit_exports: &'a [Arc<ExportCounters>],
    /// When the TLS certificate expires.
    pub(crate) certificate_expires: Option<SystemTime>,
}

/// What is known of the replicas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FleetNumbers {
    pub(crate) is_store_connected: bool,
    /// Replicas that are alive, this one included.
    pub(crate) replicas: usize,
}

/// Renders the page. Reads the numbers of this process from the system.
pub(crate) fn page(format: Format, scrape: &Scrape<'_>) -> String {
    let mut page = MetricsPage { text: String::with_capacity(8 * 1024), format };
    page.gauge("switchboard_build_info", "The version of this program.");
    page.sample("switchboard_build_info", &[("version", scrape.version)], 1.0);
    page.traffic(scrape.metrics);
    page.gauge("switchboard_parked_calls", "Calls that wait for input from their client.");
    page.sample("switchboard_parked_calls", &[], scrape.suspended_requests as f64);
    page.calls(scrape.metrics);
    page.servers(scrape.snapshot);
    page.counter("switchboard_trace_spans_dropped", "Spans that could not be exported.");
    page.sample("switchboard_trace_spans_dropped_total", &[], scrape.dropped_spans as f64);
    page.audit(scrape.audit);
    if let Some(fleet) = scrape.fleet {
        page.fleet(scrape.metrics, fleet);
    }
    page.audit_exports(scrape.audit_exports);
    if let Some(expires) = scrape.certificate_expires {
        let name = "switchboard_tls_certificate_expiry_timestamp_seconds";
        page.gauge(name, "When the TLS certificate expires.");
        let seconds = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        page.sample(name, &[], seconds as f64);
    }
    page.process(ProcessStats::current());
    page.into_text()
}

struct MetricsPage {
    text: String,
    format: Format,
}

impl MetricsPage {
    fn fleet(&mut self, metrics: &Metrics, fleet: FleetNumbers) {
        self.gauge("switchboard_store_connected", "Can the store of the replicas be reached?");
        let connected = f64::from(u8::from(fleet.is_store_connected));
        self.sample("switchboard_store_connected", &[], connected);
        self.gauge("switchboard_replicas", "Replicas that are alive.");
        self.sample("switchboard_replicas", &[], fleet.replicas as f64);
        let count = |it: &std::sync::atomic::AtomicU64| it.load(Ordering::Relaxed) as f64;
        self.counter("switchboard_forwarded", "Requests that were sent to another replica.");
        self.sample("switchboard_forwarded_total", &[], count(&metrics.forwarded_requests));
        self.counter("switchboard_sessions_taken_over", "Sessions of replicas that had gone.");
        self.sample(
            "switchboard_sessions_taken_over_total",
            &[],
            count(&metrics.sessions_taken_over),
        );
    }

    fn traffic(&mut self, metrics: &Metrics) {
        let count = |it: &std::sync::atomic::AtomicU64| it.load(Ordering::Relaxed) as f64;
        self.gauge("switchboard_sessions", "Open sessions of legacy clients.");
        self.sample("switchboard_sessions", &[], count(&metrics.sessions));
        self.gauge("switchboard_connections", "Open HTTP connections.");
        self.sample("switchboard_connections", &[], count(&metrics.connections));
        self.counter("switchboard_requests", "MCP requests, by method.");
        for (method, number) in metrics.methods() {
            self.sample("switchboard_requests_total", &[("method", method)], number as f64);
        }
        self.counter("switchboard_http_responses", "HTTP responses, by status class.");
        for (class, number) in metrics.responses() {
            self.sample("switchboard_http_responses_total", &[("status", class)], number as f64);
        }
        self.counter("switchboard_refused", "Refused HTTP requests, by reason.");
        for (reason, number) in metrics.refusals() {
            self.sample("switchboard_refused_total", &[("reason", reason)], number as f64);
        }
        self.counter("switchboard_limit_rejections", "Work refused or dropped, by limit.");
        for (limit, number) in metrics.limit_rejections() {
            self.sample("switchboard_limit_rejections_total", &[("limit", limit)], number as f64);
        }
    }

    fn calls(&mut self, metrics: &Metrics) {
        let servers = metrics.servers();
        self.counter("switchboard_tool_calls", "Finished tool calls, by outcome.");
        for (server, server_metrics) in &servers {
            for (outcome, number) in server_metrics.outcomes() {
                let labels = [("server", server.as_str()), ("outcome", outcome)];
                self.sample("switchboard_tool_calls_total", &labels, number as f64);
            }
        }
        self.gauge("switchboard_tool_calls_in_flight", "Tool calls in flight.");
        for (server, server_metrics) in &servers {
            let number = server_metrics.in_flight.load(Ordering::Relaxed) as f64;
            self.sample("switchboard_tool_calls_in_flight", &[("server", server)], number);
        }
        let name = "switchboard_tool_call_duration_seconds";
        self.family(
            name,
            "histogram",
            "Duration of tool calls, including the wait for permission.",
        );
        for (server, server_metrics) in &servers {
            let buckets = server_metrics.cumulative_buckets();
            for (bound, number) in &buckets {
                let labels = [("server", server.as_str()), ("le", bound)];
                self.sample(&format!("{name}_bucket"), &labels, *number as f64);
            }
            let count_total = buckets.last().map_or(0, |it| it.1);
            self.sample(
                &format!("{name}_sum"),
                &[("server", server)],
                server_metrics.total_seconds(),
            );
            self.sample(&format!("{name}_count"), &[("server", server)], count_total as f64);
        }
    }

    fn servers(&mut self, snapshot: &Snapshot) {
        self.gauge("switchboard_server_up", "Is the server connected?");
        for (server, view) in &snapshot.servers {
            let is_up = matches!(view.status, Status::Connected);
            self.sample("switchboard_server_up", &[("server", server)], f64::from(is_up));
        }
        self.gauge("switchboard_server_state", "The state of a server's connection.");
        for (server, view) in &snapshot.servers {
            let current = ServerState::of(&view.status);
            for state in ServerState::ALL {
                let labels = [("server", server.as_str()), ("state", state.label())];
                let value = f64::from(state == current);
                self.sample("switchboard_server_state", &labels, value);
            }
        }
    }

    fn audit(&mut self, status: &AuditStatus) {
        let is_writable = f64::from(status.failure.is_none());
        self.gauge("switchboard_audit_log_writable", "Could the last audit record be written?");
        self.sample("switchboard_audit_log_writable", &[], is_writable);
        self.counter("switchboard_audit_records_lost", "Calls that are not in the audit log.");
        self.sample("switchboard_audit_records_lost_total", &[], status.lost as f64);
    }

    fn audit_exports(&mut self, exports: &[Arc<ExportCounters>]) {
        if exports.is_empty() {
            return;
        }
        self.counter("switchboard_audit_exported", "Copies of audit records sent, by target.");
        for export in exports {
            let labels = [("target", export.target)];
            let delivered = export.delivered.load(Ordering::Relaxed);
            self.sample("switchboard_audit_exported_total", &labels, delivered as f64);
        }
        let about = "Copies of audit records that a target did not get.";
        self.counter("switchboard_audit_export_dropped", about);
        for export in exports {
            let labels = [("target", export.target)];
            let dropped = export.dropped();
            self.sample("switchboard_audit_export_dropped_total", &labels, dropped as f64);
        }
        self.gauge("switchboard_audit_export_failing", "Could the last copies not be sent?");
        for export in exports {
            let labels = [("target", export.target)];
            let is_failing = export.is_failing.load(Ordering::Relaxed);
            self.sample("switchboard_audit_export_failing", &labels, f64::from(is_failing));
        }
    }

    fn process(&mut self, process: ProcessStats) {
        if let Some(seconds) = process.cpu_seconds {
            self.counter("process_cpu_seconds", "CPU time, user and system.");
            self.sample("process_cpu_seconds_total", &[], seconds);
        }
        let gauges = [
            ("process_resident_memory_bytes", "Resident memory.", process.resident_bytes),
            ("process_virtual_memory_bytes", "Virtual memory.", process.virtual_bytes),
            ("process_open_fds", "Open file descriptors.", process.open_files),
            ("process_threads", "Threads.", process.threads),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                self.gauge(name, help);
                self.sample(name, &[], value as f64);
            }
        }
    }

    fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, "gauge", help);
    }

    /// Starts a counter. `name` lacks `_total`, which only Prometheus' format includes in the family's name.
    fn counter(&mut self, name: &str, help: &str) {
        match self.format {
            Format::Prometheus => self.family(&format!("{name}_total"), "counter", help),
            Format::OpenMetrics => self.family(name, "counter", help),
        }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _infallible = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _infallible = write!(self.text, "{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _infallible = writeln!(self.text, " {value}");
    }

    fn into_text(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// Escapes a label's value, as both formats require.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_value_cannot_end_its_line() {
        let mut page = MetricsPage { text: String::new(), format: Format::Prometheus };
        page.sample("a", &[("server", "x\"} 1\n\\evil"), ("b", "c")], 2.5);
        assert_eq!(page.text, "a{server=\"x\\\"} 1\\n\\\\evil\",b=\"c\"} 2.5\n");
    }

    #[test]
    fn a_counters_family_has_its_suffix_in_one_format_only() {
        let family_text = |format| {
            let mut page = MetricsPage { text: String::new(), format };
            page.counter("a", "A.");
            page.into_text()
        };
        assert_eq!(family_text(Format::Prometheus), "# HELP a_total A.\n# TYPE a_total counter\n");
        assert_eq!(family_text(Format::OpenMetrics), "# HELP a A.\n# TYPE a counter\n# EOF\n");
    }

    #[test]
    fn the_accept_header_chooses_the_format() {
        let format = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, http::HeaderValue::from_static(text));
            Format::from_accept(&headers)
        };
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
        assert_eq!(format(prometheus), Format::OpenMetrics);
        assert_eq!(format("text/plain, */*"), Format::Prometheus);
    }
}
