//! Fetches the files of marketplaces and plugins into drafts.

use std::fs;
use std::path::{Path, PathBuf};

use switchboard_auth::fetch::HttpFetcher;
use switchboard_auth::fetch::origin_guard::{OriginGuard, UrlError};
use switchboard_config::plugin::{
    ArchiveSource, GitOrigin, GitSource, MANIFEST_FILE, MANIFEST_FOLDER, MARKETPLACE_FILE,
    MarketplaceSource, NpmSource, PluginSource, RelativePath,
};
use tempfile::TempDir;
use url::Url;

use super::archive::{self, FirstFolder};
use super::error::PluginFetchError;
use super::git::{GitProgram, GitReach};
use super::npm::{NpmError, NpmRegistry};
use super::store::PluginStore;
use super::tree::{TreeLimits, copy_tree};
use crate::bundle::UnpackLimits;
use crate::download::{DownloadedFile, download_file};

/// A URL that stands for every public place.
const PUBLIC: &str = "https://marketplace.invalid/";

/// Fetches marketplaces and plugins.
pub struct PluginFetcher {
    /// Requests over HTTP.
    pub http: HttpFetcher,
    /// The program for repositories.
    pub git: GitProgram,
    /// The registry that npm is configured for.
    pub npm: Option<NpmRegistry>,
    /// Where drafts are.
    pub store: PluginStore,
}

/// Files in a draft. Dropping them deletes what was not published.
#[derive(Debug)]
pub struct FetchedFiles {
    /// The folder with the files.
    pub root: PathBuf,
    /// What the source says about the version: a commit, or the version of a package.
    pub version: Option<String>,
    _draft: TempDir,
}

/// Where the marketplace that names a source comes from, which decides how far the source may lead.
#[derive(Debug, Clone, Copy)]
pub struct SourceTrust<'a> {
    /// The source of the marketplace.
    pub marketplace: &'a MarketplaceSource,
    /// The folder with its files.
    pub location: &'a Path,
}

impl SourceTrust<'_> {
    /// Decides which URLs the marketplace may name: those of public places, and those of its own origin.
    fn guard(&self) -> OriginGuard {
        let url = match self.marketplace {
            MarketplaceSource::Url(url) => Url::parse(url).ok(),
            MarketplaceSource::Git(git) => {
                Url::parse(&git.origin.clone_url()).ok().filter(|url| url.host_str().is_some())
            }
            MarketplaceSource::Directory(_) => None,
        };
        match url.or_else(|| Url::parse(PUBLIC).ok()) {
            Some(url) => OriginGuard::new(&url, &[]),
            None => unreachable!("the URL is a constant"),
        }
    }

    /// Is the marketplace on this machine?
    fn is_local(&self) -> bool {
        match self.marketplace {
            MarketplaceSource::Directory(_) => true,
            MarketplaceSource::Git(git) => git.origin.is_local(),
            MarketplaceSource::Url(_) => false,
        }
    }
}

impl PluginFetcher {
    /// Fetches a marketplace that the user named. A folder is read in place, and not fetched.
    pub async fn marketplace(
        &self,
        source: &MarketplaceSource,
    ) -> Result<Option<FetchedFiles>, PluginFetchError> {
        match source {
            MarketplaceSource::Directory(_) => Ok(None),
            MarketplaceSource::Git(git) => self.repository(git, GitReach::Typed).await.map(Some),
            MarketplaceSource::Url(url) => {
                let url =
                    Url::parse(url).map_err(|_| PluginFetchError::Url(UrlError::Malformed))?;
                let guard = OriginGuard::new(&url, &[]);
                let draft = self.store.draft()?;
                let file = self.download(url, &guard, draft.path()).await?;
                let root = draft.path().join("files");
                let target = root.join(MARKETPLACE_FILE);
                let write = |source| PluginFetchError::Write { folder: root.clone(), source };
                if let Some(parent) = target.parent() {
                    fs::create_dir_all(parent).map_err(write)?;
                }
                fs::copy(file.file.path(), &target).map_err(write)?;
                Ok(Some(FetchedFiles { root, version: None, _draft: draft }))
            }
        }
    }

    /// Fetches a plugin that a marketplace names.
    pub async fn plugin(
        &self,
        source: &PluginSource,
        trust: SourceTrust<'_>,
    ) -> Result<FetchedFiles, PluginFetchError> {
        match source {
            PluginSource::Relative(path) => match trust.marketplace {
                MarketplaceSource::Directory(_) | MarketplaceSource::Git(_) => {
                    self.copy(path, trust.location)
                }
                MarketplaceSource::Url(_) => Err(PluginFetchError::NoFolder),
            },
            PluginSource::Git(git) => self.repository(git, git_reach(git, trust)?).await,
            PluginSource::Archive(archive) => self.archive(archive, trust).await,
            PluginSource::Npm(npm) => self.npm(npm, trust).await,
            PluginSource::Command => Err(PluginFetchError::Command),
        }
    }

    /// Downloads a file that a plugin of a marketplace names, such as a bundle.
    pub async fn file(
        &self,
        url: &str,
        trust: SourceTrust<'_>,
    ) -> Result<DownloadedFile, PluginFetchError> {
        let guard = trust.guard();
        let checked = guard.check(url).map_err(PluginFetchError::Url)?;
        let folder = self.store.folder()?;
        download_file(&self.http, checked, &guard, folder).await.map_err(PluginFetchError::Download)
    }

    fn copy(&self, path: &RelativePath, location: &Path) -> Result<FetchedFiles, PluginFetchError> {
        let draft = self.store.draft()?;
        let root = draft.path().join("files");
        copy_inside(&path.below(location), location, &root)?;
        Ok(FetchedFiles { root, version: None, _draft: draft })
    }

    async fn repository(
        &self,
        git: &GitSource,
        reach: GitReach,
    ) -> Result<FetchedFiles, PluginFetchError> {
        let draft = self.store.draft()?;
        let checkout = draft.path().join("repository");
        fs::create_dir(&checkout).map_err(|source| PluginFetchError::Write {
            folder: draft.path().to_owned(),
            source,
        })?;
        let commit = self.git.fetch(git, reach, &checkout).await.map_err(PluginFetchError::Git)?;
        let from = match &git.path {
            Some(path) => path.below(&checkout),
            None => checkout.clone(),
        };
        let root = draft.path().join("files");
        copy_inside(&from, &checkout, &root)?;
        let _left_for_the_draft = fs::remove_dir_all(&checkout);
        let version = commit.get(..12).map(str::to_owned);
        Ok(FetchedFiles { root, version, _draft: draft })
    }

    async fn archive(
        &self,
        source: &ArchiveSource,
        trust: SourceTrust<'_>,
    ) -> Result<FetchedFiles, PluginFetchError> {
        let guard = trust.guard();
        let url = guard.check(&source.url).map_err(PluginFetchError::Url)?;
        let draft = self.store.draft()?;
        let file = self.download(url.url, &guard, draft.path()).await?;
        if let Some(expected) = &source.sha256
            && *expected != file.sha256
        {
            return Err(PluginFetchError::Digest {
                expected: expected.clone(),
                found: file.sha256.clone(),
            });
        }
        let root = unpack_in(&draft, file.file.path(), FirstFolder::Stays)?;
        let version = file.sha256.get(..12).map(str::to_owned);
        Ok(FetchedFiles { root, version, _draft: draft })
    }

    async fn npm(
        &self,
        source: &NpmSource,
        trust: SourceTrust<'_>,
    ) -> Result<FetchedFiles, PluginFetchError> {
        let (registry, guard) = match (&source.registry, &self.npm) {
            (Some(url), _) => {
                let guard = trust.guard();
                let url = guard.check(url).map_err(PluginFetchError::Url)?;
                (NpmRegistry { url: url.url }, guard)
            }
            (None, Some(registry)) => (registry.clone(), OriginGuard::new(&registry.url, &[])),
            (None, None) => return Err(PluginFetchError::Npm(NpmError::NoRegistry)),
        };
        let draft = self.store.draft()?;
        let fetched = registry.fetch(source, &self.http, &guard, draft.path());
        let package = fetched.await.map_err(PluginFetchError::Npm)?;
        let root = unpack_in(&draft, package.file.file.path(), FirstFolder::LeftOut)?;
        Ok(FetchedFiles { root, version: Some(package.version), _draft: draft })
    }

    async fn download(
        &self,
        url: Url,
        guard: &OriginGuard,
        folder: &Path,
    ) -> Result<DownloadedFile, PluginFetchError> {
        let checked = guard.check_url(url).map_err(PluginFetchError::Url)?;
        download_file(&self.http, checked, guard, folder).await.map_err(PluginFetchError::Download)
    }
}

/// Unpacks the archive of a plugin that the user chose.
pub fn unpack_plugin(store: &PluginStore, file: &Path) -> Result<FetchedFiles, PluginFetchError> {
    let draft = store.draft()?;
    let root = unpack_in(&draft, file, FirstFolder::Stays)?;
    Ok(FetchedFiles { root, version: None, _draft: draft })
}

/// Copies a folder that must be in another one, also after its links are followed.
fn copy_inside(from: &Path, outer: &Path, to: &Path) -> Result<(), PluginFetchError> {
    let name = from.strip_prefix(outer).unwrap_or(from).to_string_lossy().into_owned();
    let is_inside = match (from.canonicalize(), outer.canonicalize()) {
        (Ok(from), Ok(outer)) => from.starts_with(outer),
        (Err(_), _) | (_, Err(_)) => {
            return Err(PluginFetchError::Tree(super::TreeError::NoFolder { name }));
        }
    };
    match is_inside {
        true => copy_tree(from, to, TreeLimits::default()).map_err(PluginFetchError::Tree),
        false => Err(PluginFetchError::Tree(super::TreeError::Link { name })),
    }
}

fn unpack_in(
    draft: &TempDir,
    file: &Path,
    first: FirstFolder,
) -> Result<PathBuf, PluginFetchError> {
    let root = draft.path().join("files");
    fs::create_dir(&root)
        .map_err(|source| PluginFetchError::Write { folder: draft.path().to_owned(), source })?;
    archive::unpack(file, &root, first, UnpackLimits::default())
        .map_err(PluginFetchError::Archive)?;
    Ok(plugin_root(root))
}

/// Archives often have one folder around everything.
fn plugin_root(root: PathBuf) -> PathBuf {
    let is_plugin = |folder: &Path| {
        folder.join(MANIFEST_FOLDER).is_dir()
            || folder.join(MANIFEST_FILE).is_file()
            || folder.join(".mcp.json").is_file()
    };
    if is_plugin(&root) {
        return root;
    }
    let entries: Vec<PathBuf> =
        root.read_dir().into_iter().flatten().flatten().map(|it| it.path()).collect();
    match &entries[..] {
        [only] if only.is_dir() => only.clone(),
        [] | [_, ..] => root,
    }
}

/// How far a repository that a marketplace names may lead.
fn git_reach(git: &GitSource, trust: SourceTrust<'_>) -> Result<GitReach, PluginFetchError> {
    if git.origin.is_local() {
        return match trust.is_local() {
            true => Ok(GitReach::LocalMarketplace),
            false => Err(PluginFetchError::LocalRepository),
        };
    }
    let text = match &git.origin {
        GitOrigin::Github(_) => return Ok(GitReach::Named),
        GitOrigin::Url(url) => url,
    };
    // Only the host counts, whatever the protocol.
    let host = match text.split_once("://") {
        Some((_, rest)) => rest.split(['/', '?', '#']).next().unwrap_or_default(),
        None => text.split(':').next().unwrap_or_default(),
    };
    let host = host.rsplit('@').next().unwrap_or_default();
    trust.guard().check(&format!("https://{host}/")).map_err(PluginFetchError::Url)?;
    Ok(GitReach::Named)
}
