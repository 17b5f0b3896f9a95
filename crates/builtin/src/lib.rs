//! MCP servers that run in the host's own process, and the kit for writing them.
//!
//! A [`kit::Server`] holds tools, resources and prompts, and serves any number of clients at once, each in its own
//! protocol era. Handlers are asynchronous; their [`kit::HandlerContext`] reports progress, asks the user and knows
//! when the call is cancelled. [`demo`] is a server to try things with; [`workspace`] works on files and runs commands.
//!
//! ```
//! use std::sync::Arc;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use switchboard_builtin::kit::{HandlerContext, Server, Tool, ToolOutput};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Sum { a: i64, b: i64 }
//!
//! let add = Tool::typed("add", "Adds two numbers.", async |_: HandlerContext, it: Sum| {
//!     Ok(ToolOutput::text((it.a + it.b).to_string()))
//! });
//! let server = Arc::new(Server::new("calculator", "1.0.0").tool(add.read_only()));
//! # let _ = server;
//! ```

pub mod demo;
pub mod kit;
#[cfg(unix)]
pub mod workspace;
