//! Metadata discovery: where the documents of a server and of its authorization server are, and what they say.
//! Fetching them is left to `flow` and `resource_server`.

pub mod auth_server_metadata;
pub mod resource_metadata;
mod well_known;

pub use well_known::{auth_server_metadata_urls, legacy_issuer, resource_metadata_urls};
