//! One configured server: its name, its transport, its options, and what identifies it.
//! Reading entries from files is left to `file`, deciding which of them run to `merge`.

mod fingerprint;
pub mod name;
pub mod server;
pub mod sharing;
pub mod signature;
mod transport;

pub use fingerprint::{Fingerprint, sha256};
pub use name::{NameError, RESERVED, ReservedNames, ServerName};
pub use server::{
    CommonOptions, ProgramBinding, RawEntry, ServerEntry, ServerSpec, StartFolder, ToolFilter,
};
pub use signature::{Signature, all_proxied_urls, argv, proxied_url};
pub use transport::{
    IdeConfig, OAuthConfig, OAuthGrant, RemoteConfig, StdioConfig, TlsConfig, TransportConfig,
    TransportKind, is_client_metadata_url, is_https_url, is_valid_url,
};
