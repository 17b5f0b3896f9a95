//! Requests to a public registry of servers, and the bundles that its servers name. What a server's description means is
//! left to `config::registry`.

pub mod api_url;
pub mod bundle;
pub mod client;
mod error;
mod listing;

pub use api_url::{RegistryUrl, RegistryUrlError};
pub use bundle::{BundleDownloadError, download_bundle};
pub use client::RegistryClient;
pub use error::{RegistryError, RegistryErrorKind};
pub use listing::{ListEnd, ServerList};
