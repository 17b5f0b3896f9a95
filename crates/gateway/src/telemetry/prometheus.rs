//! The numbers as Prometheus reads them, in its own format or in OpenMetrics'. Labels are ours alone: names of servers
//! that are configured and words of this program, never what a client sent.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use http::HeaderMap;
use http::header::ACCEPT;
use switchboard::host::Snapshot;

use crate::gateway::Gateway;
use crate::relay;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::process::ProcessStats;

/// The words for the states of a server.
const SERVER_STATES: [&str; 5] = ["pending", "connected", "failed", "needs-auth", "disabled"];

/// How a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// What a reader wants.
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

impl Gateway {
    /// The page, now.
    pub(crate) fn metrics_page(&self, format: Format) -> String {
        let mut page = MetricsPage { text: String::with_capacity(8 * 1024), format };
        let relay = &self.relay;
        page.gauge("switchboard_build_info", "The version of this program.");
        page.sample("switchboard_build_info", &[("version", relay::VERSION)], 1.0);
        page.traffic(&relay.metrics);
        page.gauge("switchboard_parked_calls", "Calls that wait for their client's answers.");
        page.sample("switchboard_parked_calls", &[], self.suspended.count() as f64);
        page.calls(&relay.metrics);
        page.servers(&relay.host.snapshot());
        let dropped = relay.tracer.dropped();
        page.counter("switchboard_trace_spans_dropped", "Spans that could not be exported.");
        page.sample("switchboard_trace_spans_dropped_total", &[], dropped as f64);
        page.process(ProcessStats::current());
        page.into_text()
    }
}

struct MetricsPage {
    text: String,
    format: Format,
}

impl MetricsPage {
    fn traffic(&mut self, metrics: &Metrics) {
        let count = |it: &std::sync::atomic::AtomicU64| it.load(Ordering::Relaxed) as f64;
        self.gauge("switchboard_sessions", "Sessions of legacy clients that are open.");
        self.sample("switchboard_sessions", &[], count(&metrics.sessions));
        self.gauge("switchboard_connections", "HTTP connections that are open.");
        self.sample("switchboard_connections", &[], count(&metrics.connections));
        self.counter("switchboard_requests", "Requests of the protocol, by method.");
        for (method, number) in metrics.methods() {
            self.sample("switchboard_requests_total", &[("method", method)], number as f64);
        }
        self.counter("switchboard_http_responses", "HTTP responses, by class of status.");
        for (class, number) in metrics.responses() {
            self.sample("switchboard_http_responses_total", &[("status", class)], number as f64);
        }
        self.counter("switchboard_refused", "HTTP requests that were turned away, by reason.");
        for (reason, number) in metrics.refusals() {
            self.sample("switchboard_refused_total", &[("reason", reason)], number as f64);
        }
    }

    fn calls(&mut self, metrics: &Metrics) {
        let servers = metrics.servers();
        self.counter("switchboard_tool_calls", "Tool calls that are over, by how they ended.");
        for (server, server_metrics) in &servers {
            for (outcome, number) in server_metrics.outcomes() {
                let labels = [("server", server.as_str()), ("outcome", outcome)];
                self.sample("switchboard_tool_calls_total", &labels, number as f64);
            }
        }
        self.gauge("switchboard_tool_calls_in_flight", "Tool calls that are under way.");
        for (server, server_metrics) in &servers {
            let number = server_metrics.in_flight.load(Ordering::Relaxed) as f64;
            self.sample("switchboard_tool_calls_in_flight", &[("server", server)], number);
        }
        let name = "switchboard_tool_call_duration_seconds";
        self.family(name, "histogram", "How long tool calls took, with the wait for leave.");
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
            let is_up = view.status.id() == "connected";
            self.sample("switchboard_server_up", &[("server", server)], f64::from(is_up));
        }
        self.gauge("switchboard_server_state", "The state that a server's connection is in.");
        for (server, view) in &snapshot.servers {
            for state in SERVER_STATES {
                let is_current = f64::from(view.status.id() == state);
                let labels = [("server", server.as_str()), ("state", state)];
                self.sample("switchboard_server_state", &labels, is_current);
            }
        }
    }

    fn process(&mut self, process: ProcessStats) {
        if let Some(seconds) = process.cpu_seconds {
            self.counter("process_cpu_seconds", "Time that the processor worked for us.");
            self.sample("process_cpu_seconds_total", &[], seconds);
        }
        let gauges = [
            ("process_resident_memory_bytes", "Memory that is in use.", process.resident_bytes),
            ("process_virtual_memory_bytes", "Memory that is reserved.", process.virtual_bytes),
            ("process_open_fds", "Files and connections that are open.", process.open_files),
            ("process_threads", "Threads.", process.threads),
        ];
        for (name, about, value) in gauges {
            if let Some(value) = value {
                self.gauge(name, about);
                self.sample(name, &[], value as f64);
            }
        }
    }

    fn gauge(&mut self, name: &str, about: &str) {
        self.family(name, "gauge", about);
    }

    /// A counter by its name without `_total`, which belongs to the family in one of the formats only.
    fn counter(&mut self, name: &str, about: &str) {
        match self.format {
            Format::Prometheus => self.family(&format!("{name}_total"), "counter", about),
            Format::OpenMetrics => self.family(name, "counter", about),
        }
    }

    fn family(&mut self, name: &str, kind: &str, about: &str) {
        let _infallible = writeln!(self.text, "# HELP {name} {about}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            self.text.push(if place == 0 { '{' } else { ',' });
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

/// A label's value as both formats want it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_its_line() {
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
    fn the_format_is_the_readers_choice() {
        let wanted = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, http::HeaderValue::from_static(text));
            Format::from_accept(&headers)
        };
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
        assert_eq!(wanted(prometheus), Format::OpenMetrics);
        assert_eq!(wanted("text/plain, */*"), Format::Prometheus);
    }
}
