//! The MCP host as a library: finds, reads, judges and changes configuration, and keeps a connection to every server.
//!
//! [`load::load`] answers what is configured and what may run; [`store::change`] edits a file safely;
//! [`engine::Host`] runs what may run. The library reads no environment and knows no home folder: the caller says
//! where things are.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use switchboard::address::Around;
//! use switchboard::connection::Status;
//! use switchboard::engine::{Host, Options};
//! use switchboard::in_process::InProcess;
//! use switchboard::load;
//! use switchboard::places::Places;
//! use switchboard_builtin::demo;
//!
//! let folder = tempfile::tempdir()?;
//! let around = Around { working_folder: folder.path().to_owned(), ..Around::default() };
//! let mut options = Options::new(Places::below(folder.path()), around);
//! // A server in this program; one that is a command or a URL needs no more than its entry.
//! let server = demonstration::server(folder.path().join("notes.json"));
//! let server = InProcess::new(move |link| server.clone().serve(link));
//! options.in_process.insert("demo".to_owned(), server);
//! let (host, task) = Host::start(options)?;
//! let servers = r#"{"mcpServers": {"notes": {"type": "sdk", "name": "demo"}}}"#;
//! host.apply(&load::of_program("my-program", servers)).await;
//!
//! let mut watch = host.watch();
//! let snapshot = watch.wait_for(|it| it.is_settled()).await?.clone();
//! assert_eq!(snapshot.servers["notes"].status, Status::Connected);
//! host.stop().await;
//! task.await?;
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! The folder `examples` has whole programs.

pub mod audit;
pub mod builtin_tools;
pub mod call;
pub mod catalogue;
pub mod connection;
pub mod elicitation;
pub mod engine;
pub mod failure;
pub mod host;
pub mod login;
pub mod permission;
pub mod pool;
pub mod request;
pub mod resources;
pub mod sources;
pub mod storage;
pub mod tool_result;

pub use switchboard_auth as auth;
pub use switchboard_config as config;
pub use switchboard_wire as wire;
