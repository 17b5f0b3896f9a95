//! Downloads a bundle that a registry names, and keeps it only if its SHA-256 is the published one.

use std::path::Path;

use switchboard_auth::fetch::origin_guard::{OriginGuard, UrlError};
use switchboard_auth::fetch::{DownloadError, HttpFetcher};
use switchboard_config::registry::BundleSource;
use thiserror::Error;

use crate::download::{DownloadedFile, download_file};

/// Why a bundle was not kept.
#[derive(Debug, Error)]
pub enum BundleDownloadError {
    /// The registry names a URL that is refused.
    #[error("its URL `{url}` is refused")]
    Url {
        /// The URL.
        url: String,
        /// Why.
        #[source]
        source: UrlError,
    },
    /// The download failed.
    #[error("it could not be downloaded")]
    Download(#[from] DownloadError),
    /// The file is another one.
    #[error("its SHA-256 is {found}, but the registry says {expected}")]
    Digest {
        /// The SHA-256 that the registry names.
        expected: String,
        /// The SHA-256 of the downloaded file.
        found: String,
    },
}

/// Downloads a bundle into a temporary file in `folder` and checks it. A file that is not the published one is deleted.
pub async fn download_bundle(
    fetcher: &HttpFetcher,
    guard: &OriginGuard,
    bundle: &BundleSource,
    folder: &Path,
) -> Result<DownloadedFile, BundleDownloadError> {
    let url = guard
        .check(&bundle.url)
        .map_err(|source| BundleDownloadError::Url { url: bundle.url.clone(), source })?;
    let file = download_file(fetcher, url, guard, folder).await?;
    match file.sha256 == bundle.sha256 {
        true => Ok(file),
        false => {
            Err(BundleDownloadError::Digest { expected: bundle.sha256.clone(), found: file.sha256 })
        }
    }
}
