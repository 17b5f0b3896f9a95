//! Getting MCP servers from where others publish them: marketplaces and plugins, `.mcpb` bundles, the public registry.
//!
//! Everything read here is untrusted: it is bounded in size, checked before it is kept, and never run. The only program
//! that runs is `git`, which fetches repositories. An interrupted
//! installation leaves the old state. What an installed server may do is decided by configuration, policy and
//! approval, as for any other server.

pub mod bundle;
pub mod download;
pub mod plugin;
pub mod registry;
mod replace;
