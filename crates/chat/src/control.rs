//! The control protocol of agent SDKs: a program runs a conversation over standard input and output, one JSON object per
//! line. It decides about calls, hooks into them, hosts servers of its own, and changes the session while it runs.
//!
//! [`peer`] owns the lines and the requests in both directions, [`session`] the conversation. No module here knows a
//! terminal, the environment or a configuration file: what needs them is a [`backend::SessionBackend`].

pub mod backend;
pub(crate) mod callbacks;
mod change_order;
pub(crate) mod cut_input;
pub mod elicitor;
pub(crate) mod frame_limit;
pub(crate) mod frames;
pub(crate) mod hook_output;
pub(crate) mod hook_table;
pub mod ids;
pub mod incoming;
pub mod peer;
pub mod permission_prompt;
pub mod permission_update;
pub(crate) mod requests;
pub mod sdk_servers;
pub mod session;
mod session_channels;
mod session_command;
pub mod state;
pub mod subtypes;
pub(crate) mod turn_frames;
