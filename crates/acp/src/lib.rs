//! An agent for editors that speak the Agent Client Protocol: sessions are conversations of `switchboard-chat`, and
//! permission requests and elicitations are dialogs of the editor. The messages are the types of
//! `agent-client-protocol-schema`; framing and JSON-RPC are those of `wire`. No terminal, no environment: the program
//! opens hosts and transcripts through [`SessionSource`].

mod agent;
mod client;
mod commands;
mod content;
mod edit_hooks;
mod elicitor;
mod method;
mod modes;
mod permission_prompt;
mod replay;
mod server_entries;
mod session;
mod session_command;
mod session_source;
mod tool_view;
mod updates;

pub use agent::{AgentOptions, serve};
pub use session_source::{
    CloseSession, ListFuture, OpenFuture, OpenSession, OpenedSession, SessionError,
    SessionErrorKind, SessionSource, SessionStart, StoredSession,
};
