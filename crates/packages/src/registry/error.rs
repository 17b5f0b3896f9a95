//! Why a request to a registry failed.

use std::time::Duration;

use switchboard_auth::fetch::FetchError;
use switchboard_auth::fetch::origin_guard::UrlError;
use switchboard_config::registry::ListingError;
use thiserror::Error;

/// The timeout of all pages of a list.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(60);
/// A request to a registry failed.
#[derive(Debug, Error)]
#[error("the registry at `{origin}` could not be used")]
pub struct RegistryError {
    /// The origin of the registry.
    pub origin: String,
    /// The reason.
    #[source]
    pub kind: RegistryErrorKind,
}

/// Why a request to a registry failed.
#[derive(Debug, Error)]
pub enum RegistryErrorKind {
    /// There is no usable response.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The URL is refused.
    #[error("its URL is refused")]
    Url(#[source] UrlError),
    /// There is no such server or version.
    #[error("it has no such server or version")]
    NotFound,
    /// Neither version of the API is there.
    #[error("it has neither `/v0.1/servers` nor `/v0/servers`")]
    NoApi,
    /// The response has an error status.
    #[error("it responded with HTTP status {status}{detail}")]
    Status {
        /// The status.
        status: u16,
        /// What it says about it, with a separator before it; may be empty.
        detail: String,
    },
    /// The response is not JSON.
    #[error("its response is not JSON")]
    NotJson,
    /// The response is JSON of another shape.
    #[error("its response has no list `servers`")]
    Shape,
    /// The server is described in a way that cannot be read.
    #[error("its description of the server cannot be read")]
    Listing(#[source] ListingError),
    /// The pages took too long.
    #[error("its list took longer than {} seconds", LIST_TIMEOUT.as_secs())]
    TimedOut,
}
