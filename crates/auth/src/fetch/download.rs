//! Downloads a file of bounded size, in pieces. What the bytes are, and where they are stored, is the caller's.

use std::io;
use std::time::Duration;

use http::StatusCode;
use reqwest::Response;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use super::http_fetcher::{
    MAX_REDIRECTS, display_origin, fetch_error, redirect_location, to_reqwest,
};
use super::origin_guard::{CheckedUrl, OriginGuard, UrlError};
use super::{FetchError, FetchRequest, HttpFetcher};

/// The bounds of a download.
#[derive(Debug, Clone, Copy)]
pub struct DownloadLimits {
    /// The maximum size in bytes, after decompression by the HTTP library.
    pub size: u64,
    /// The timeout of the whole download.
    pub timeout: Duration,
}

/// Why a download failed.
#[derive(Debug, Error)]
pub enum DownloadError {
    /// The request failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The response is not the file.
    #[error("`{origin}` responded with HTTP status {status}")]
    Status {
        /// The origin of the last request.
        origin: String,
        /// The status.
        status: u16,
    },
    /// The file is larger than allowed.
    #[error("the file of `{origin}` is larger than {limit} bytes")]
    TooLarge {
        /// The origin of the last request.
        origin: String,
        /// The maximum size.
        limit: u64,
    },
    /// The server redirects to a URL that is refused.
    #[error("`{origin}` redirects to a URL that is refused")]
    Redirect {
        /// The origin of the request.
        origin: String,
        /// Why the URL is refused.
        #[source]
        source: UrlError,
    },
    /// The caller could not store a piece.
    #[error("the downloaded file could not be written")]
    Write(#[source] io::Error),
}

impl HttpFetcher {
    /// Downloads the body of a successful response and passes it to `write` piece by piece. Unlike a fetch, a
    /// download follows redirects to other origins, because file hosts redirect to storage services: without the
    /// request's headers, and only to URLs that `guard` accepts. Returns the URL of the last request.
    pub async fn download(
        &self,
        request: FetchRequest,
        guard: &OriginGuard,
        limits: DownloadLimits,
        write: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<CheckedUrl, DownloadError> {
        let deadline = Instant::now() + limits.timeout;
        let origin = display_origin(&request.url);
        let download = async {
            let (mut response, last) = self.open_download(request, guard).await?;
            let origin = display_origin(&last.url);
            if !response.status().is_success() {
                let status = response.status().as_u16();
                return Err(DownloadError::Status { origin, status });
            }
            let mut size = 0u64;
            while let Some(piece) = response.chunk().await.map_err(|it| fetch_error(&origin, it))? {
                size = size.saturating_add(piece.len() as u64);
                if size > limits.size {
                    return Err(DownloadError::TooLarge { origin, limit: limits.size });
                }
                write(&piece).map_err(DownloadError::Write)?;
            }
            Ok(last)
        };
        match timeout_at(deadline, download).await {
            Ok(result) => result,
            Err(_) => Err(FetchError::TimedOut { origin }.into()),
        }
    }

    async fn open_download(
        &self,
        mut request: FetchRequest,
        guard: &OriginGuard,
    ) -> Result<(Response, CheckedUrl), DownloadError> {
        for _ in 0..=MAX_REDIRECTS {
            let origin = display_origin(&request.url);
            let sent = self.client(request.allowed)?.execute(to_reqwest(&request)).await;
            let response = sent.map_err(|error| fetch_error(&origin, error))?;
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED
            {
                let last = CheckedUrl { url: request.url, allowed: request.allowed };
                return Ok((response, last));
            }
            let Some(to) = redirect_location(&request.url, &response) else {
                return Err(FetchError::Redirected { origin, to: "nowhere".to_owned() }.into());
            };
            let is_same_origin = to.origin() == request.url.origin();
            let to =
                guard.check_url(to).map_err(|source| DownloadError::Redirect { origin, source })?;
            if !is_same_origin {
                request.headers.clear();
            }
            (request.url, request.allowed) = (to.url, to.allowed);
        }
        let origin = display_origin(&request.url);
        Err(FetchError::Redirected { to: origin.clone(), origin }.into())
    }
}
