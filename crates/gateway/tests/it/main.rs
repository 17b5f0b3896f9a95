//! The gateway from the clients' side: over in-memory transports and real sockets, with servers of both eras.

mod cached_resources;
mod change_notifications;
mod client_permissions;
mod data_flow;
mod elicitation_hooks;
mod era_bridge;
mod gateway_fixture;
mod hostile_clients;
mod input_responses;
mod isolation;
mod late_messages;
mod leased_connections;
mod limits;
mod metrics_endpoint;
mod otlp_export;
mod quotas;
mod raw_http;
mod replicas;
mod resumed_streams;
mod revoked_tokens;
mod servers_per_client;
mod telemetry_fixture;
mod test_client;
mod tls;
