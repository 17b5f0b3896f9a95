//! Metrics, traces and copies of audit records: counters and the page that Prometheus reads, spans and their export to a collector.
//! Knows no request types of the gateway; callers pass plain attributes.

pub(crate) mod audit_export;
pub(crate) mod limit_kind;
pub(crate) mod metrics;
pub(crate) mod otlp;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod spans;
pub(crate) mod trace_context;
