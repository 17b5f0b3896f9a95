//! The front door for programs: serves the pool to clients that come over HTTP.
//!
//! Every request passes [`head_guard::HeadGuard`] before anybody looks at its path. Who it comes from is the affair of
//! `switchboard-auth`, which owns every token.

mod approval_queue;
pub mod downstream;
pub mod exposed;
mod gateway;
pub mod http;
pub mod multi_round_trip;
mod relay;
mod sealed_state;
mod stdio;
mod subscriptions;
mod task_owners;
pub mod telemetry;

pub use approval_queue::{ApprovalQueue, PendingApproval, PendingApprovals};
pub use exposed::catalogue::{
    ConnectionSharing, ExposeOptions, NameStyle, ToolExposure, parse_expose_rule,
};
pub use gateway::Gateway;
pub use http::server::{HttpOptions, MCP_PATH, MetricsAccess};
pub use telemetry::otlp::TraceExport;
pub use telemetry::spans::{ParentSampling, Sampler, Tracer};
