//! The gateway from the clients' side: over in-memory transports and real sockets, with servers of both eras.

mod change_notifications;
mod era_bridge;
mod gateway_fixture;
mod hostile_clients;
mod input_responses;
mod isolation;
mod late_messages;
mod metrics_endpoint;
mod otlp_export;
mod raw_http;
mod resumed_streams;
mod telemetry_fixture;
mod test_client;
