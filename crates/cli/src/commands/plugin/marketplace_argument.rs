//! The marketplace that a user names: a folder, a repository, or a URL.

use std::path::PathBuf;

use switchboard::config::plugin::{
    GitOrigin, GitSource, MARKETPLACE_FILE, MarketplaceSource, SourceFault,
};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;

/// Reads what the user typed.
pub(super) fn parse(text: &str, invocation: &Invocation) -> Result<MarketplaceSource, Failure> {
    let refused = |fault: SourceFault| {
        Failure::new(Exit::Usage, &format!("`{text}` is not a marketplace"))
            .caused_by(fault)
            .hint("name a folder, owner/repository, the URL of a git repository, or of a marketplace.json")
    };
    let path = match text.strip_prefix("~/") {
        Some(inside) => invocation.env.home.join(inside),
        None => invocation.env.working_folder.join(text),
    };
    let is_path = text.starts_with(['.', '/', '~']) || path.exists();
    if is_path && !text.contains("://") {
        return directory(path, text);
    }
    let (place, reference) = split_reference(text);
    let git = |origin| {
        MarketplaceSource::Git(GitSource {
            origin,
            path: None,
            reference: reference.map(str::to_owned),
            sha: None,
        })
    };
    if place.starts_with("https://") || place.starts_with("http://") {
        let is_file = place.split(['?', '#']).next().is_some_and(|it| it.ends_with(".json"));
        if is_file {
            let json = serde_json::json!({"source": "url", "url": place});
            return MarketplaceSource::parse(&json).map_err(refused);
        }
    }
    let json = match place.contains("://") || place.contains(':') {
        true => git(GitOrigin::url(place).map_err(refused)?),
        false => git(GitOrigin::github(place).map_err(refused)?),
    };
    // The reference is checked where sources are read.
    MarketplaceSource::parse(&json.to_json()).map_err(refused)
}

/// `place#reference`, or `owner/repository@reference`.
fn split_reference(text: &str) -> (&str, Option<&str>) {
    if let Some((place, reference)) = text.split_once('#') {
        return (place, Some(reference));
    }
    match text.split_once('@') {
        Some((place, reference)) if !text.contains(':') => (place, Some(reference)),
        Some(_) | None => (text, None),
    }
}

/// A folder, or the file of a marketplace in it. A bare repository is fetched like any other one.
fn directory(path: PathBuf, typed: &str) -> Result<MarketplaceSource, Failure> {
    let missing = || {
        Failure::new(Exit::NotFound, &format!("there is no marketplace at `{typed}`"))
            .hint(&format!("a marketplace has the file {MARKETPLACE_FILE}"))
    };
    let real = path.canonicalize().map_err(|_| missing())?;
    let folder = match real.is_file() && real.ends_with(MARKETPLACE_FILE) {
        true => real.ancestors().nth(2).map(PathBuf::from).ok_or_else(missing)?,
        false => real,
    };
    if folder.join(MARKETPLACE_FILE).is_file() {
        return Ok(MarketplaceSource::Directory(folder));
    }
    if folder.join("HEAD").is_file() && folder.join("objects").is_dir() {
        let url = url::Url::from_file_path(&folder).map_err(|()| missing())?;
        let origin = GitOrigin::url(url.as_str()).map_err(|_| missing())?;
        let git = GitSource { origin, path: None, reference: None, sha: None };
        return Ok(MarketplaceSource::Git(git));
    }
    Err(missing())
}
