//! The gateway as its clients see it: over links and over real sockets, before servers of both eras.

mod era_answers;
mod era_bridge;
mod era_changes;
mod gateway_bench;
mod hostile_clients;
mod isolation;
mod late_speech;
mod metrics_page;
mod raw_http;
mod resumed_streams;
mod tracing_export;
mod visitor;
mod watched_bench;
