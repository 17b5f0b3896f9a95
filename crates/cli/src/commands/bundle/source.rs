//! The bundle that a user names: a file or a URL. Also opens the store of installed bundles.

use std::io;
use std::path::{Path, PathBuf};

use switchboard::auth::fetch::HttpFetcher;
use switchboard::auth::fetch::origin_guard::{OriginGuard, UrlError};
use switchboard::config::bundle::BundleHash;
use switchboard::config::display::{masked_url, printable};
use switchboard_packages::bundle::{BundleError, BundleStore, SignatureTrust};
use switchboard_packages::download::{DownloadedFile, download_file};
use url::{Host, Url};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::runtime::interrupts::tokio_runtime;
use crate::runtime::network;

/// A bundle's file on this machine.
pub(crate) struct BundleFile {
    /// Its path.
    pub(crate) path: PathBuf,
    /// The URL that it was downloaded from, or its path; for users.
    pub(crate) shown: String,
    /// Deletes a downloaded file when it is no longer needed.
    _download: Option<DownloadedFile>,
}

impl BundleFile {
    /// A file that was downloaded from a URL that a registry names.
    pub(crate) fn downloaded(download: DownloadedFile) -> BundleFile {
        let shown = printable(&masked_url(download.url.as_str()));
        BundleFile { path: download.file.path().to_owned(), shown, _download: Some(download) }
    }
}

/// Does the text name a bundle, by the end of its path?
pub(crate) fn names_bundle(text: &str) -> bool {
    let path = match text.split_once("://") {
        Some(_) => text.split(['?', '#']).next().unwrap_or(text),
        None => text,
    };
    let lower = path.to_ascii_lowercase();
    lower.ends_with(".mcpb") || lower.ends_with(".dxt")
}

/// Finds the bundle, and downloads it from a URL.
pub(crate) fn open(source: &str, invocation: &Invocation) -> Result<BundleFile, Failure> {
    if !source.contains("://") {
        let path = match source.strip_prefix("~/") {
            Some(inside) => invocation.env.home.join(inside),
            None => invocation.env.working_folder.join(source),
        };
        let shown = invocation.display_path(&path);
        return Ok(BundleFile { path, shown, _download: None });
    }
    let shown = printable(&masked_url(source));
    let refused = |error: &dyn std::error::Error| {
        Failure::new(Exit::Usage, &format!("{shown} cannot be downloaded: {error}"))
    };
    let url = Url::parse(source).map_err(|error| refused(&error))?;
    if url.scheme() == "http" && !is_this_machine(&url) {
        return Err(refused(&UrlError::Unencrypted));
    }
    let guard = OriginGuard::new(&url, &[]);
    let checked = guard.check_url(url).map_err(|error| refused(&error))?;
    let fetcher = HttpFetcher::new(network::outbound_network(invocation)?);
    let folder = std::env::temp_dir();
    let downloaded = tokio_runtime()?
        .block_on(download_file(&fetcher, checked, &guard, &folder))
        .map_err(|error| {
        Failure::new(Exit::Connection, &format!("{shown} could not be downloaded")).caused_by(error)
    })?;
    let path = downloaded.file.path().to_owned();
    Ok(BundleFile { path, shown, _download: Some(downloaded) })
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// The installed bundles. Signatures are compared with the authorities of browsers and those of a PEM file.
pub(crate) fn store(invocation: &Invocation, ca: Option<&Path>) -> Result<BundleStore, Failure> {
    let mut trust = SignatureTrust::public();
    if let Some(file) = ca {
        let path = invocation.env.working_folder.join(file);
        let shown = invocation.display_path(&path);
        let pem = std::fs::read(&path).map_err(|error| {
            Failure::new(Exit::Usage, &format!("{shown} cannot be read")).caused_by(error)
        })?;
        if trust.add_pem(&pem).is_none_or(|count| count == 0) {
            return Err(Failure::new(Exit::Usage, &format!("{shown} has no certificate in PEM")));
        }
    }
    Ok(BundleStore::new(&invocation.env.paths.bundles(), trust))
}

/// Fails if the file is not the one that the user expects.
pub(crate) fn expect_hash(hash: &BundleHash, expected: Option<&str>) -> Result<(), Failure> {
    let Some(text) = expected else { return Ok(()) };
    let Some(wanted) = BundleHash::parse(text) else {
        return Err(Failure::new(Exit::Usage, "--sha256 needs 64 hexadecimal digits"));
    };
    match wanted == *hash {
        true => Ok(()),
        false => Err(Failure::new(Exit::Conflict, "the bundle is not the expected file")
            .detail(format!("  expected: {wanted}\n  found:    {hash}\n"))),
    }
}

/// Why a bundle cannot be used.
pub(crate) fn failure(error: BundleError) -> Failure {
    let (exit, hint) = match &error {
        BundleError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            (Exit::NotFound, None)
        }
        BundleError::Read { .. } | BundleError::Write { .. } => (Exit::Failure, None),
        BundleError::BrokenSignature { .. } => {
            (Exit::Configuration, Some("get the bundle again from its author"))
        }
        BundleError::TooLarge { .. }
        | BundleError::Archive { .. }
        | BundleError::Manifest { .. } => (Exit::Configuration, None),
        BundleError::NotInstalled { .. } => (Exit::NotFound, Some("swb bundle list")),
    };
    let failure = Failure::new(exit, "the bundle cannot be used").caused_by(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
