//! Scopes, merging, expansion, policy, permissions, approvals and edits of MCP server configuration.
//!
//! Pure: nothing here reads a file, a clock or the environment. `switchboard` (the host) reads and
//! writes files; this crate decides.
//!
//! ```
//! use switchboard_config::merge::{MergeInputs, resolve};
//! use switchboard_config::file::{FileShape, Layer, Naming};
//! use switchboard_config::scope::Scope;
//! use switchboard_config::source::Source;
//!
//! let layer = |scope, path, command| {
//!     let text = format!(r#"{{"mcpServers": {{"files": {{"command": "{command}"}}}}}}"#);
//!     Layer::read(&Source::file(scope, path), &text, Naming::Plain, FileShape::Wrapped)
//! };
//! let local = layer(Scope::Local, "local.json", "mine-here");
//! let user = layer(Scope::User, "settings.json", "mine");
//! let effective = resolve(MergeInputs { layers: vec![user, local], ..MergeInputs::default() });
//! let winner = effective.winner("files").expect("one of them wins");
//! assert_eq!((winner.scope(), winner.is_ready()), (Scope::Local, true));
//! assert_eq!(effective.servers.len(), 2, "the other one stays visible, with the reason why it lost");
//! ```

pub mod adopt;
pub mod approvals;
pub mod bundle;
pub mod channel;
pub mod display;
pub mod document;
pub mod edit;
pub mod entry;
pub mod file;
pub mod import;
pub mod merge;
pub mod pattern;
pub mod permission;
pub mod plugin;
pub mod policy;
pub mod problem;
pub mod program;
pub mod registry;
pub mod runtime_programs;
pub mod schema;
pub mod scope;
pub mod secret;
pub mod settings;
pub mod source;
pub mod template;
pub mod user_config;
