//! Scopes, cascade, expansion, policy, approvals and edits of MCP server configuration.
//!
//! Pure: nothing here reads a file, a clock or the environment. `switchboard` (the host) reads and
//! writes; this crate decides.
//!
//! ```
//! use switchboard_config::cascade::{Inputs, resolve};
//! use switchboard_config::layer::{Layer, Naming, Shape};
//! use switchboard_config::scope::Scope;
//! use switchboard_config::source::Source;
//!
//! let layer = |scope, path, command| {
//!     let text = format!(r#"{{"mcpServers": {{"files": {{"command": "{command}"}}}}}}"#);
//!     Layer::read(&Source::file(scope, path), &text, Naming::Plain, Shape::Wrapped)
//! };
//! let local = layer(Scope::Local, "local.json", "mine-here");
//! let user = layer(Scope::User, "settings.json", "mine");
//! let effective = resolve(Inputs { layers: vec![user, local], ..Inputs::default() });
//! let winner = effective.winner("files").expect("one of them wins");
//! assert_eq!((winner.scope(), winner.is_ready()), (Scope::Local, true));
//! assert_eq!(effective.servers.len(), 2, "the other is there too, with the reason why it lost");
//! ```

pub mod account;
pub mod approval;
pub mod cascade;
pub mod decode;
pub mod document;
pub mod edit;
pub mod entry;
pub mod hooks;
pub mod identity_provider;
pub mod import;
pub mod layer;
pub mod model_choice;
pub mod name;
pub mod permission;
pub mod policy;
pub mod principals;
pub mod problem;
pub mod scope;
pub mod secret;
mod section;
pub mod settings;
pub mod shown;
pub mod signature;
pub mod source;
mod splice;
pub mod template;
pub mod url_pattern;
