//! A running conversation: the handle a UI holds, the events it receives and the agent loop between model and tools.
//! Talking to the model is left to `model`, calling a tool to the host.

pub(crate) mod agent_loop;
pub(crate) mod command;
pub mod event;
pub mod handle;
pub mod hooks;
pub mod offered_tools;
pub(crate) mod result_content;
pub mod setup;
pub mod structured_output;
