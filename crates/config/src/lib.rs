//! Scopes, cascade, expansion, policy, approvals and edits of MCP server configuration.
//!
//! Pure: nothing here reads a file, a clock or the environment. `switchboard` (the host) reads and
//! writes; this crate decides.

pub mod approval;
pub mod cascade;
pub mod decode;
pub mod document;
pub mod edit;
pub mod entry;
pub mod hooks;
pub mod import;
pub mod layer;
pub mod name;
pub mod permission;
pub mod policy;
pub mod problem;
pub mod scope;
pub mod secret;
pub mod settings;
pub mod shown;
pub mod signature;
pub mod source;
mod splice;
pub mod template;
pub mod url_pattern;
