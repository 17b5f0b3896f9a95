//! The kit for servers: tools, resources and prompts with asynchronous handlers, and the connection to each client.
//! JSON-RPC, the protocol eras and the transports are `switchboard_wire`'s.

pub mod change_notifier;
mod connection;
pub mod context;
mod dispatch;
pub mod elicitation;
pub mod handler_error;
mod input_schema;
pub mod prompt;
mod request_state;
pub mod resource;
pub mod server;
pub mod tool;
pub mod tool_output;

pub use context::HandlerContext;
pub use handler_error::HandlerError;
pub use server::Server;
pub use switchboard_wire::protocol::log_level::LogLevel;
pub use tool::Tool;
pub use tool_output::ToolOutput;
