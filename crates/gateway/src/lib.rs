//! Serves the servers of a host to MCP clients, over a transport (standard input and output) and over HTTP.
//!
//! Every HTTP request passes [`http::host_origin_check::HostOriginCheck`] before its path is read. Authentication and
//! tokens belong to `switchboard-auth`; connections, permissions and calls belong to `switchboard`.

mod approval_queue;
mod downstream;
mod exposed;
mod gateway;
pub mod http;
mod json;
mod method;
mod multi_round_trip;
mod relay;
mod sealed_state;
mod shared;
mod stdio;
mod subscriptions;
mod task_owners;
mod telemetry;

pub use approval_queue::{ApprovalQueue, PendingApproval, PendingApprovals};
pub use exposed::options::{ExposeOptions, NameStyle, ToolExposure, parse_expose_rule};
pub use exposed::sharing::ConnectionSharing;
pub use gateway::Gateway;
pub use http::options::{HttpOptions, MetricsAccess};
pub use http::server::MCP_PATH;
pub use telemetry::otlp::TraceExport;
pub use telemetry::spans::{ParentSampling, Sampler, Tracer};
