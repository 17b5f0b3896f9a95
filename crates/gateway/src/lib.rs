//! The front door for programs: serves the pool to clients that come over HTTP.
//!
//! Every request passes [`head_guard::HeadGuard`] before anybody looks at its path. Who it comes from is the affair of
//! `switchboard-auth`, which owns every token.

mod attendant;
mod consenting;
mod directory;
mod gateway;
mod guest;
pub mod head_guard;
mod hearing;
mod http_front;
mod list_pages;
mod meanwhile;
mod metering;
mod metrics_page;
mod parking;
mod process_facts;
mod relay;
mod search_tools;
mod span_export;
mod spans;
mod stdio_front;
mod task_ledger;
mod token_seal;
mod trace_context;
mod turn;
mod visiting;
mod waiting_room;

pub use directory::{ConnectionSharing, ExposeOptions, NameStyle, ToolExposure, parse_expose_rule};
pub use gateway::Gateway;
pub use http_front::{HttpOptions, MCP_PATH, MetricsAccess};
pub use span_export::TraceExport;
pub use spans::{ParentSampling, Sampler, Tracer};
pub use waiting_room::{ApprovalQueue, PendingApproval, PendingApprovals};
