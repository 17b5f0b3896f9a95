//! Packages of an npm registry: which version, and its file. Scripts of packages never run, and dependencies are not
//! installed.

use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use semver::{Version, VersionReq};
use serde_json::Value as Json;
use sha2::{Digest, Sha512};
use switchboard_auth::fetch::origin_guard::{OriginGuard, UrlError};
use switchboard_auth::fetch::{DownloadError, HttpFetcher};
use switchboard_config::plugin::NpmSource;
use thiserror::Error;
use url::Url;

use crate::download::{DownloadedFile, download_file};

/// The maximum size of the description of a package.
const MAX_DESCRIPTION: u64 = 64 * 1024 * 1024;
const SHA512: &str = "sha512-";

/// A registry.
#[derive(Debug, Clone)]
pub struct NpmRegistry {
    /// Its base URL.
    pub url: Url,
}

/// Why a package cannot be used. Texts of the registry are untrusted.
#[derive(Debug, Error)]
pub enum NpmError {
    /// No registry is configured.
    #[error("no npm registry is configured")]
    NoRegistry,
    /// A URL is refused.
    #[error("the registry names a URL that is refused")]
    Url(#[source] UrlError),
    /// A download failed.
    #[error("the registry could not be read")]
    Download(#[source] DownloadError),
    /// The description is not valid.
    #[error("the description of the package is not valid")]
    Description,
    /// No version fits.
    #[error("the package has no version `{0}`")]
    NoVersion(String),
    /// The range is not valid.
    #[error("`{0}` is not a version, a tag or a range")]
    Range(String),
    /// The registry does not say what the file must be.
    #[error("the registry announces no SHA-512 of the package, so its file cannot be checked")]
    NoIntegrity,
    /// The file is not the announced one.
    #[error("the file of the package is not the one that the registry announced")]
    Integrity,
    /// The file could not be read.
    #[error("the file of the package could not be read")]
    Read(#[source] std::io::Error),
}

/// The file of a package.
pub(super) struct NpmFile {
    pub(super) file: DownloadedFile,
    pub(super) version: String,
}

impl NpmRegistry {
    /// Downloads the file of a package, and checks that it is the announced one.
    pub(super) async fn fetch(
        &self,
        source: &NpmSource,
        fetcher: &HttpFetcher,
        guard: &OriginGuard,
        folder: &Path,
    ) -> Result<NpmFile, NpmError> {
        let description = self.description(source, fetcher, guard, folder).await?;
        let version = choose_version(&description, source.version.as_deref())?;
        let dist = &description["versions"][&version]["dist"];
        let tarball = dist["tarball"].as_str().ok_or(NpmError::Description)?;
        let integrity = dist["integrity"].as_str().unwrap_or_default();
        let expected: Vec<&str> =
            integrity.split_whitespace().filter_map(|it| it.strip_prefix(SHA512)).collect();
        if expected.is_empty() {
            return Err(NpmError::NoIntegrity);
        }
        let url = guard.check(tarball).map_err(NpmError::Url)?;
        let file = download_file(fetcher, url, guard, folder).await.map_err(NpmError::Download)?;
        let found = sha512(file.file.path()).map_err(NpmError::Read)?;
        match expected.iter().any(|it| it.trim_end_matches('=') == found.trim_end_matches('=')) {
            true => Ok(NpmFile { file, version }),
            false => Err(NpmError::Integrity),
        }
    }

    async fn description(
        &self,
        source: &NpmSource,
        fetcher: &HttpFetcher,
        guard: &OriginGuard,
        folder: &Path,
    ) -> Result<Json, NpmError> {
        let mut url = self.url.clone();
        match url.path_segments_mut() {
            // The slash of a scope is escaped.
            Ok(mut segments) => segments.pop_if_empty().push(&source.package),
            Err(()) => return Err(NpmError::NoRegistry),
        };
        let url = guard.check_url(url).map_err(NpmError::Url)?;
        let file = download_file(fetcher, url, guard, folder).await.map_err(NpmError::Download)?;
        if file.size > MAX_DESCRIPTION {
            return Err(NpmError::Description);
        }
        let text = std::fs::read(file.file.path()).map_err(NpmError::Read)?;
        serde_json::from_slice(&text).map_err(|_| NpmError::Description)
    }
}

/// The version that a version, a tag or a range means; the tag `latest` if nothing is said.
fn choose_version(description: &Json, wanted: Option<&str>) -> Result<String, NpmError> {
    let wanted = wanted.map_or("latest", str::trim);
    let versions = description["versions"].as_object().ok_or(NpmError::Description)?;
    if versions.contains_key(wanted) {
        return Ok(wanted.to_owned());
    }
    let none = || NpmError::NoVersion(wanted.to_owned());
    if let Some(tagged) = description["dist-tags"][wanted].as_str() {
        return versions.contains_key(tagged).then(|| tagged.to_owned()).ok_or_else(none);
    }
    let ranges = parse_ranges(wanted)?;
    let fitting = versions.keys().filter_map(|text| {
        let version = Version::parse(text).ok()?;
        ranges.iter().any(|range| range.matches(&version)).then_some((version, text))
    });
    fitting.max().map(|(_, text)| text.clone()).ok_or_else(none)
}

/// Reads a range as npm writes it: alternatives with `||`, conditions separated by spaces.
fn parse_ranges(text: &str) -> Result<Vec<VersionReq>, NpmError> {
    let bad = || NpmError::Range(text.to_owned());
    let one = |part: &str| {
        let part = part.trim();
        // `1.2.3` alone is exact there.
        let is_plain = part.starts_with(|c: char| c.is_ascii_digit());
        if part.is_empty() {
            return VersionReq::parse("*").ok();
        }
        if is_plain && part.split('.').count() == 3 && !part.contains(['x', 'X', '*', ' ']) {
            return VersionReq::parse(&format!("={part}")).ok();
        }
        if is_plain && !part.contains(' ') {
            let wild = part.replace(['x', 'X'], "*");
            let wild = if wild.contains('*') { wild } else { format!("{wild}.*") };
            return VersionReq::parse(&wild).ok();
        }
        VersionReq::parse(&part.split_whitespace().collect::<Vec<_>>().join(", ")).ok()
    };
    text.split("||").map(|part| one(part).ok_or_else(bad)).collect()
}

/// The SHA-512 of a file in base64.
fn sha512(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut hasher = Sha512::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(STANDARD.encode(hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(wanted: Option<&str>, expected: &str) {
        let description = json!({
            "dist-tags": {"latest": "1.4.0", "next": "2.0.0-rc.1", "gone": "9.9.9"},
            "versions": {"1.2.0": {}, "1.3.5": {}, "1.4.0": {}, "2.0.0-rc.1": {}, "0.9.0": {}},
        });
        let found = match choose_version(&description, wanted) {
            Ok(version) => version,
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{wanted:?}");
    }

    #[test]
    fn a_version_a_tag_or_a_range_chooses_one_version() {
        check(None, "1.4.0");
        check(Some("next"), "2.0.0-rc.1");
        check(Some("1.2.0"), "1.2.0");
        check(Some("^1.2.0"), "1.4.0");
        check(Some("~1.3"), "1.3.5");
        check(Some("1.x"), "1.4.0");
        check(Some("1.3"), "1.3.5");
        check(Some(">=1.2.0 <1.4.0"), "1.3.5");
        check(Some("^0.9.0 || ^7.0.0"), "0.9.0");
        check(Some("3.0.0"), "the package has no version `3.0.0`");
        check(Some("gone"), "the package has no version `gone`");
        check(Some("^3"), "the package has no version `^3`");
        check(Some("nonsense"), "`nonsense` is not a version, a tag or a range");
    }
}
