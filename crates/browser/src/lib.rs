//! The browser server: Chromium over its debugging protocol, as an MCP server that runs inside the process. Each client has
//! its own cookies and pages; what pages may reach is limited by rules.
//!
//! [`serve`] serves one client. The browser is started when a client first needs it, and shared by the clients of a
//! [`BrowserSettings`]. The embedding program decides where files may be read and written, and asks the user for permission.

mod actions;
mod browser;
mod cdp;
mod error;
mod guide_prompt;
pub mod health;
mod page;
mod reach;
mod server;
mod session;
mod settings;
mod shown_text;
mod tools;

pub use browser::program::Window;
pub use reach::guard::ReachRules;
pub use reach::origin_pattern::{OriginPattern, OriginPatternError};
pub use reach::proxy::upstream::UpstreamProxy;
pub use server::serve;
pub use settings::{ALIASES, BrowserSettings, BrowserSource, NAME, ScriptUse, TOOLS, UNQUESTIONED};
