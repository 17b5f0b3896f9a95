//! Serves the servers of a host to MCP clients, over a transport (standard input and output) and over HTTP.
//!
//! Every HTTP request passes [`http::host_origin_check::HostOriginCheck`] before its path is read. Authentication and
//! tokens belong to `switchboard-auth`; connections, permissions and calls belong to `switchboard`.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use std::future::pending;
//! use std::time::Duration;
//! use switchboard::{Host, Paths};
//! use switchboard_gateway::{ExposeOptions, Gateway};
//! use switchboard_wire::jsonrpc::message::Payload;
//! use switchboard_wire::peer::Peer;
//! use switchboard_wire::transport::in_memory;
//!
//! let folder = tempfile::tempdir()?;
//! let host = Host::builder(Paths::in_dir(folder.path())).start().await?;
//! let (gateway, task) = Gateway::open(&host, host.call_context()?, ExposeOptions::default());
//! gateway.wait_until_ready(Duration::from_secs(10)).await;
//!
//! // A client in this process; `serve_http` serves clients over HTTP.
//! let (client_end, gateway_end) = in_memory::pair();
//! let client = Peer::spawn(client_end);
//! let session = async {
//!     let params = Payload::from_json(r#"{"protocolVersion": "2025-06-18", "capabilities": {},
//!         "clientInfo": {"name": "example", "version": "1.0.0"}}"#.into());
//!     client.peer.call("initialize").params(params).await
//! };
//! let result = tokio::select! {
//!     result = session => result?,
//!     () = gateway.serve_transport(gateway_end, "local", pending()) => return Err("it ended".into()),
//! };
//! assert_eq!(result.decode::<serde_json::Value>()?["protocolVersion"], "2025-06-18");
//! host.shutdown().await;
//! drop((gateway, host));
//! task.await?;
//! # Ok(())
//! # })
//! # }
//! ```

mod approval_queue;
mod dashboard;
mod downstream;
mod exposed;
mod gateway;
pub mod http;
mod json;
mod method;
mod multi_round_trip;
mod principal_stats;
mod quotas;
mod readiness;
mod relay;
mod sealed_state;
mod shared;
mod stdio;
mod subscriptions;
mod task_owners;
mod telemetry;

pub use approval_queue::{ApprovalQueue, PendingApproval, PendingApprovals};
pub use dashboard::{
    ConfiguredServer, Dashboard, DashboardOperator, OperatorView, RuleLine, ServerSwitch,
    SharedHostView, SharedProgramView, SimulationInputs,
};
pub use exposed::options::{ExposeOptions, NameStyle, ToolExposure, parse_expose_rule};
pub use exposed::sharing::{ConnectionSharing, InteractiveSessions};
pub use gateway::Gateway;
pub use http::limits::{Limits, Quota};
pub use http::options::{
    HttpOptions, MCP_PATH, MetricsAccess, ReplicaListener, ServedRoutes, SessionPolicy,
    SocketSharing,
};
pub use http::shutdown::{DrainOptions, StopReason};
pub use http::tls::{ClientCertificates, TlsError, TlsErrorKind, TlsFiles, TlsReload, TlsServer};
pub use principal_stats::PrincipalUse;
pub use quotas::{
    LocalCounters, PrincipalQuota, QuotaCharge, QuotaCounters, QuotaExcess, QuotaFuture, QuotaKey,
    QuotaLimit, QuotaSlot, QuotaUse, QuotaUseFuture,
};
pub use readiness::MissingServer;
pub use shared::login_locks::LoginLocks;
pub use shared::memory::MemoryStore;
pub use shared::redis::RedisStore;
pub use shared::redis::target::{StoreTarget, StoreUrlError};
pub use shared::revocations::{RevokeError, RevokedSubject};
pub use shared::seal_keys::{SealKeyError, SealKeyFiles};
pub use shared::shared_state::{SessionsWhileAway, SharedState, StoreChoice};
pub use telemetry::audit_export::{
    AuditExporter, AuditTarget, LogExport, LogExportOptions, SyslogTarget, WebhookTarget,
};
pub use telemetry::otlp::{TraceEncoding, TraceExport, TraceExportError};
pub use telemetry::spans::{ParentSampling, Sampler, Tracer};
