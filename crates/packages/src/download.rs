//! Downloads a file of bounded size into a folder and computes its SHA-256. What the file contains is checked by its
//! reader.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use http::header::{ACCEPT, HeaderValue};
use sha2::{Digest, Sha256};
use switchboard_auth::fetch::origin_guard::{CheckedUrl, OriginGuard};
use switchboard_auth::fetch::{DownloadError, DownloadLimits, FetchRequest, HttpFetcher};
use tempfile::NamedTempFile;
use url::Url;

/// The maximum size of a download.
pub const MAX_DOWNLOAD_SIZE: u64 = 512 * 1024 * 1024;
/// The timeout of a whole download.
pub const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The beginning of the names of files that are not complete.
pub(crate) const DOWNLOAD_PREFIX: &str = ".download-";

/// A downloaded file. Dropping it deletes the file.
#[derive(Debug)]
pub struct DownloadedFile {
    /// The file.
    pub file: NamedTempFile,
    /// Its SHA-256, in lower-case hexadecimal digits.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
    /// Where it came from, after redirects.
    pub url: Url,
}

/// Downloads `from` into a temporary file in `folder`. `guard` decides which redirects are followed.
pub async fn download_file(
    fetcher: &HttpFetcher,
    from: CheckedUrl,
    guard: &OriginGuard,
    folder: &Path,
) -> Result<DownloadedFile, DownloadError> {
    let mut file = tempfile::Builder::new()
        .prefix(DOWNLOAD_PREFIX)
        .tempfile_in(folder)
        .map_err(DownloadError::Write)?;
    let mut hasher = Sha256::new();
    let mut size = 0u64;
    let limits = DownloadLimits { size: MAX_DOWNLOAD_SIZE, timeout: DOWNLOAD_TIMEOUT };
    let mut request = FetchRequest::get(from);
    request.headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    let last = fetcher
        .download(request, guard, limits, &mut |piece| {
            hasher.update(piece);
            size += piece.len() as u64;
            file.write_all(piece)
        })
        .await?;
    flush(&mut file).map_err(DownloadError::Write)?;
    Ok(DownloadedFile { file, sha256: hex(&hasher.finalize()), size, url: last.url })
}

fn flush(file: &mut NamedTempFile) -> io::Result<()> {
    file.flush()?;
    file.as_file().sync_all()
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
