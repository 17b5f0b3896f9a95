//! MCP servers that run in the host's own process, and the kit that they are made with.
//!
//! A [`server::Server`] holds tools, resources and prompts, and serves any number of links at once, each client in
//! its own era of the protocol. Handlers are asynchronous; their [`context::Context`] tells of progress, asks the
//! person and knows when nobody waits any more. [`demonstration`] is a server to try things with; [`workspace`] works
//! on files and runs commands.
//!
//! ```
//! use std::sync::Arc;
//! use serde::Deserialize;
//! use serde_json::json;
//! use switchboard_builtin::content::Output;
//! use switchboard_builtin::context::Context;
//! use switchboard_builtin::server::Server;
//! use switchboard_builtin::tooling::Tool;
//!
//! #[derive(Deserialize)]
//! struct Sum { a: i64, b: i64 }
//!
//! let add = Tool::new("add", "Adds two numbers.", async |_: Context, it: Sum| {
//!     Ok(Output::text((it.a + it.b).to_string()))
//! });
//! let number = json!({"type": "integer"});
//! let add = add.takes(json!({"a": number, "b": number}), &["a", "b"]).reads();
//! let server = Arc::new(Server::new("calculator", "1.0.0").tool(add));
//! # let _ = server;
//! ```

pub mod demo;
pub mod kit;
#[cfg(unix)]
pub mod workspace;
