//! The MCP host as a library: reads configuration, keeps a connection to every server, and calls their tools with
//! permission.
//!
//! A first call needs a [`Host`], a server and a name:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use serde_json::json;
//! use switchboard::{Host, InProcessServer, Paths};
//! use switchboard_builtin::demo;
//!
//! let folder = tempfile::tempdir()?;
//! // A server in this program. `Stdio::new("npx").args(["-y", "…"])` starts one, `Http::new(url)` reaches one.
//! let server = demo::server(folder.path().join("notes.json"));
//! let server = InProcessServer::new(move |transport| server.clone().serve(transport));
//!
//! let host = Host::builder(Paths::in_dir(folder.path()))
//!     .server("notes", server)
//!     .trust("notes")
//!     .start()
//!     .await?;
//! let output = host.call("mcp__notes__add_note", json!({"text": "hello"})).await?;
//! assert!(!output.is_error);
//! host.shutdown().await;
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! Beside [`Host::call`], [`Host::get_prompt`], [`Host::read_resource`], [`Host::complete`] and the lists
//! ([`Host::tools`], [`Host::prompts`], [`Host::resources`]) return decoded results; [`Host::request`] sends any method
//! and returns the bytes. [`Host::tool_call`] sets a timeout and a receiver of progress. The library emits `tracing`
//! events, and the program chooses the subscriber.
//!
//! A program that reads configuration files uses [`sources::loader::load`], [`Host::start`] and [`Host::apply`], and
//! makes its own [`CallContext`] for [`Host::call_with`]. [`sources::atomic_file::change`] edits a configuration file.
//! The library reads no environment variables and knows no home folder: the caller passes [`Paths`] and [`HostEnv`].
//! The folder `examples` has whole programs.

pub mod audit;
mod builtin_tools;
mod call;
pub mod catalogue;
pub mod channel;
pub mod connection;
pub mod elicitation;
mod engine;
mod failure;
mod host;
pub mod ide;
pub mod login;
pub mod permission;
pub mod pool;
pub mod request;
mod resources;
pub mod sharing;
pub mod sources;
mod storage;
pub mod tool_result;

pub use builtin_tools::definitions as builtin_tool_definitions;
pub use call::context::CallContext;
pub use call::relay::RelayedCall;
pub use call::tool_call::{ToolCall, ToolCallError};
pub use connection::in_process::{EmbeddedServer, HostedServers, InProcessServer};
pub use connection::state::RetryPolicy;
pub use connection::status::{ServerView, Status};
pub use elicitation::elicitor::{
    ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor,
};
pub use engine::changes::Changes;
pub use engine::options::HostOptions;
pub use engine::snapshot::Snapshot;
pub use failure::{ConnectionFailure, Evidence, FailureClass, FailureKind, RefusedSession};
pub use host::{
    FileUpdate, Host, HostBuilder, Http, OAuth, ServerSource, Sse, StartError, Stdio,
    ToolCallBuilder, WebSocket, pool_from_catalogues,
};
pub use permission::prompt::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
pub use pool::Pool;
pub use pool::tool::Tool;
pub use request::error::RequestError;
pub use request::ide_call::IdeCallError;
pub use request::server_request::{RequestOptions, ServerRequest};
pub use request::typed::completion::{Complete, Completion};
pub use request::typed::prompt::{GetPrompt, PromptMessages};
pub use request::typed::resource::{ReadResource, ResourceContents};
pub use resources::skills::{SKILLS_EXTENSION, Skill, SkillError, SkillFile, SkillMismatch};
pub use resources::subscription::{ResourceEvent, SubscribeError, Subscription};
pub use sources::host_env::HostEnv;
pub use sources::paths::Paths;
pub use storage::stderr_log::{StderrLog, utc_timestamp};
pub use switchboard_auth as auth;
pub use switchboard_config as config;
pub use switchboard_wire as wire;
pub use tool_result::{ContentBlock, ToolOutput};
