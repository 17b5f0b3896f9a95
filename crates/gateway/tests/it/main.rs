//! A gateway with real clients and real servers.

mod metrics_page;
mod tracing_export;
mod watched_bench;
