//! TODO facade

pub mod change_notifier;
pub(crate) mod connection;
pub mod context;
pub(crate) mod dispatch;
pub mod elicitation;
pub mod handler_error;
pub mod prompt;
pub(crate) mod request_state;
pub mod resource;
pub mod server;
pub mod tool;
pub mod tool_output;
