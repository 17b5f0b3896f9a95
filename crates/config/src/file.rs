//! Reads files that hold servers: `.mcp.json`, `managed-mcp.json`, plugin manifests, `--mcp-config`.
//! Settings files are read by `settings`, which uses this module for the servers in them.

mod bundle_entry;
mod bundle_expansion;
pub mod entry_decoder;
mod entry_permissions;
mod fields;
pub mod layer;
mod listed_rule;
pub(crate) mod permission_section;
pub mod plugin_servers;

pub use bundle_entry::{BundleEntry, OptionValues};
pub use layer::{FileShape, Layer, Naming, ServerDefinition};
pub(crate) use layer::{read_servers, read_top_level, report_unknown_keys};
