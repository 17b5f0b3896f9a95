//! Where plugins and marketplaces come from: folders, git repositories, archives and npm packages. Texts that reach
//! another program are checked here, so that none of them can be taken for an option.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use thiserror::Error;
use url::Url;

use super::fields::Members;
use super::relative_path::{PathFault, RelativePath};

/// The maximum length of a URL, a reference and a package name.
const MAX_TEXT: usize = 2048;

/// Where a plugin comes from, as its entry in a marketplace says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginSource {
    /// A folder of the marketplace.
    Relative(RelativePath),
    /// A folder of a git repository.
    Git(GitSource),
    /// An npm package.
    Npm(NpmSource),
    /// An archive.
    Archive(ArchiveSource),
    /// A command that would have to run to get it. Never run.
    Command,
}

/// A folder of a git repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSource {
    /// The repository.
    pub origin: GitOrigin,
    /// The folder in it; the root if absent.
    pub path: Option<RelativePath>,
    /// The branch or tag; the repository's default if absent.
    pub reference: Option<String>,
    /// The commit that it must be.
    pub sha: Option<String>,
}

/// A git repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitOrigin {
    /// `owner/repository` on GitHub.
    Github(String),
    /// A URL, or `user@host:path`.
    Url(String),
}

/// An npm package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpmSource {
    /// Its name.
    pub package: String,
    /// Its version, a tag, or a range of versions.
    pub version: Option<String>,
    /// The registry, if not the one that npm is configured for.
    pub registry: Option<String>,
}

/// An archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveSource {
    /// Its URL.
    pub url: String,
    /// Its SHA-256 in lower-case hexadecimal digits.
    pub sha256: Option<String>,
}

/// Where a marketplace comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarketplaceSource {
    /// A folder of this machine, read in place.
    Directory(PathBuf),
    /// A git repository.
    Git(GitSource),
    /// The URL of a `marketplace.json`.
    Url(String),
}

/// Why a source cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceFault {
    /// It is neither a text nor an object.
    #[error("`source` is neither a path nor an object")]
    Shape,
    /// Its kind is unknown.
    #[error("the kind of source is unknown")]
    UnknownKind,
    /// A member is missing or has another type.
    #[error("`{0}` is missing or is not text")]
    Member(&'static str),
    /// A path leads out.
    #[error("its path cannot be used: {0}")]
    Path(#[source] PathFault),
    /// The name of a repository.
    #[error("`repo` is not `owner/repository`")]
    Repository,
    /// The URL of a repository.
    #[error("`url` is not the https or ssh URL of a git repository")]
    GitUrl,
    /// The name of a branch or a tag.
    #[error("`ref` is not the name of a branch or a tag")]
    Reference,
    /// A commit.
    #[error("`sha` is not the hash of a commit")]
    Commit,
    /// A hash of a file.
    #[error("`sha256` is not 64 hexadecimal digits")]
    Hash,
    /// The URL of an archive or of a marketplace.
    #[error("`url` is not an https URL")]
    Url,
    /// The name of a package.
    #[error("`package` is not the name of an npm package")]
    Package,
    /// The version of a package.
    #[error("`version` is not a version, a tag or a range")]
    Version,
    /// The path of a marketplace.
    #[error("`path` is not an absolute path")]
    Directory,
}

impl PluginSource {
    /// Reads `source` of an entry. `plugin_root` is the folder in which paths without `./` are.
    pub fn parse(json: &Json, plugin_root: &RelativePath) -> Result<PluginSource, SourceFault> {
        let members = match json {
            Json::String(path) => {
                let path = match path.starts_with("./") || path == "." || path.starts_with('/') {
                    true => RelativePath::parse(path).map_err(SourceFault::Path)?,
                    false if plugin_root.is_root() => {
                        RelativePath::parse(path).map_err(SourceFault::Path)?
                    }
                    false => plugin_root
                        .join(&RelativePath::parse_lenient(path).map_err(SourceFault::Path)?),
                };
                return Ok(PluginSource::Relative(path));
            }
            Json::Object(members) => Members(members),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => {
                return Err(SourceFault::Shape);
            }
        };
        match required(members, "source")?.as_str() {
            "github" | "url" | "git" | "git-subdir" => {
                GitSource::read(members).map(PluginSource::Git)
            }
            "npm" => NpmSource::read(members).map(PluginSource::Npm),
            "archive" => ArchiveSource::read(members).map(PluginSource::Archive),
            "command" => Ok(PluginSource::Command),
            _ => Err(SourceFault::UnknownKind),
        }
    }

    /// The kind, for users.
    pub fn kind(&self) -> &'static str {
        match self {
            PluginSource::Relative(_) => "folder",
            PluginSource::Git(_) => "git",
            PluginSource::Npm(_) => "npm",
            PluginSource::Archive(_) => "archive",
            PluginSource::Command => "command",
        }
    }

    /// The source in one line. Untrusted text.
    pub fn describe(&self) -> String {
        match self {
            PluginSource::Relative(path) => path.to_string(),
            PluginSource::Git(git) => git.describe(),
            PluginSource::Npm(npm) => match &npm.version {
                Some(version) => format!("npm package {}@{version}", npm.package),
                None => format!("npm package {}", npm.package),
            },
            PluginSource::Archive(archive) => archive.url.clone(),
            PluginSource::Command => "a command".to_owned(),
        }
    }
}

impl GitSource {
    fn read(members: Members<'_>) -> Result<GitSource, SourceFault> {
        let text = |key: &'static str| members.string(key).map_err(|_| SourceFault::Member(key));
        let origin = match text("repo")? {
            Some(repo) => GitOrigin::github(&repo)?,
            None => GitOrigin::url(&required(members, "url")?)?,
        };
        let path = text("path")?.map(|it| RelativePath::parse_lenient(&it)).transpose();
        let path = path.map_err(SourceFault::Path)?.filter(|it| !it.is_root());
        let reference = text("ref")?;
        if reference.as_deref().is_some_and(|it| !is_git_reference(it)) {
            return Err(SourceFault::Reference);
        }
        let sha = text("sha")?.map(|it| it.to_ascii_lowercase());
        if sha.as_deref().is_some_and(|it| !is_commit(it)) {
            return Err(SourceFault::Commit);
        }
        Ok(GitSource { origin, path, reference, sha })
    }

    /// The source in one line. Untrusted text.
    pub fn describe(&self) -> String {
        let mut text = match &self.origin {
            GitOrigin::Github(repo) => format!("github {repo}"),
            GitOrigin::Url(url) => format!("git {}", without_password(url)),
        };
        if let Some(path) = &self.path {
            text.push_str(&format!(" {path}"));
        }
        if let Some(reference) = &self.reference {
            text.push_str(&format!(" at {reference}"));
        }
        if let Some(sha) = &self.sha {
            text.push_str(&format!(" ({})", &sha[..sha.len().min(12)]));
        }
        text
    }

    fn to_json(&self) -> Map<String, Json> {
        let mut json = Map::new();
        match &self.origin {
            GitOrigin::Github(repo) => {
                json.insert("source".to_owned(), "github".into());
                json.insert("repo".to_owned(), repo.as_str().into());
            }
            GitOrigin::Url(url) => {
                json.insert("source".to_owned(), "git".into());
                json.insert("url".to_owned(), url.as_str().into());
            }
        }
        let path = self.path.as_ref().map(ToString::to_string);
        for (key, value) in [("path", &path), ("ref", &self.reference), ("sha", &self.sha)] {
            if let Some(value) = value {
                json.insert(key.to_owned(), value.as_str().into());
            }
        }
        json
    }
}

impl GitOrigin {
    /// A repository on GitHub.
    pub fn github(repo: &str) -> Result<GitOrigin, SourceFault> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = |part: &str| {
            !part.is_empty()
                && part.len() <= 100
                && part.chars().all(is_plain)
                && !part.starts_with(['-', '.'])
        };
        match repo.split_once('/') {
            Some((owner, name)) if is_name(owner) && is_name(name) => {
                Ok(GitOrigin::Github(repo.to_owned()))
            }
            Some(_) | None => Err(SourceFault::Repository),
        }
    }

    /// A repository at a URL: https, ssh, `user@host:path`, http on this machine, or `file`, which only a user may name.
    pub fn url(text: &str) -> Result<GitOrigin, SourceFault> {
        let is_bad = |c: char| c.is_control() || c.is_whitespace() || "\"'<>\\^`{|}$;&".contains(c);
        if text.len() > MAX_TEXT || text.starts_with('-') || text.contains(is_bad) {
            return Err(SourceFault::GitUrl);
        }
        if !text.contains("://") {
            return match is_scp_like(text) {
                true => Ok(GitOrigin::Url(text.to_owned())),
                false => Err(SourceFault::GitUrl),
            };
        }
        // The parser would take the first part of the path for the host.
        if text.contains(":///") && !text.starts_with("file:///") {
            return Err(SourceFault::GitUrl);
        }
        let url = Url::parse(text).map_err(|_| SourceFault::GitUrl)?;
        let host_is_option = url.host_str().is_some_and(|host| host.starts_with('-'));
        let user_is_option = url.username().starts_with('-');
        let fits = match url.scheme() {
            "https" | "ssh" => url.host_str().is_some_and(|host| !host.is_empty()),
            "http" => is_this_machine(&url),
            "file" => url.host_str().is_none(),
            _ => false,
        };
        match fits && !host_is_option && !user_is_option {
            true => Ok(GitOrigin::Url(text.to_owned())),
            false => Err(SourceFault::GitUrl),
        }
    }

    /// The URL that git gets.
    pub fn clone_url(&self) -> String {
        match self {
            GitOrigin::Github(repo) => format!("https://github.com/{repo}.git"),
            GitOrigin::Url(url) => url.clone(),
        }
    }

    /// Is the repository on this machine?
    pub fn is_local(&self) -> bool {
        match self {
            GitOrigin::Github(_) => false,
            GitOrigin::Url(url) => {
                Url::parse(url).is_ok_and(|url| url.scheme() == "file" || is_this_machine(&url))
            }
        }
    }
}

impl NpmSource {
    fn read(members: Members<'_>) -> Result<NpmSource, SourceFault> {
        let text = |key: &'static str| members.string(key).map_err(|_| SourceFault::Member(key));
        let package = required(members, "package")?;
        if !is_package_name(&package) {
            return Err(SourceFault::Package);
        }
        let version = text("version")?;
        let is_plain = |c: char| {
            c.is_ascii_alphanumeric()
                || matches!(c, '.' | '-' | '+' | '^' | '~' | '<' | '>' | '=' | ' ' | '*' | '|')
        };
        let is_version = |it: &str| !it.is_empty() && it.len() <= 256 && it.chars().all(is_plain);
        if version.as_deref().is_some_and(|it| !is_version(it)) {
            return Err(SourceFault::Version);
        }
        let registry = text("registry")?;
        if registry.as_deref().is_some_and(|it| !is_download_url(it)) {
            return Err(SourceFault::Url);
        }
        Ok(NpmSource { package, version, registry })
    }
}

impl ArchiveSource {
    fn read(members: Members<'_>) -> Result<ArchiveSource, SourceFault> {
        let url = required(members, "url")?;
        if !is_download_url(&url) {
            return Err(SourceFault::Url);
        }
        let sha256 = members.string("sha256").map_err(|_| SourceFault::Hash)?;
        let sha256 = sha256.map(|it| it.trim_start_matches("sha256:").to_ascii_lowercase());
        let is_hash = |it: &str| it.len() == 64 && it.bytes().all(|byte| byte.is_ascii_hexdigit());
        match sha256.as_deref().is_none_or(is_hash) {
            true => Ok(ArchiveSource { url, sha256 }),
            false => Err(SourceFault::Hash),
        }
    }
}

impl MarketplaceSource {
    /// Reads a source as settings and our own files have it.
    pub fn parse(json: &Json) -> Result<MarketplaceSource, SourceFault> {
        let members = Members(json.as_object().ok_or(SourceFault::Shape)?);
        match required(members, "source")?.as_str() {
            "directory" => {
                let path = PathBuf::from(required(members, "path")?);
                match path.is_absolute() {
                    true => Ok(MarketplaceSource::Directory(path)),
                    false => Err(SourceFault::Directory),
                }
            }
            "github" | "git" => GitSource::read(members).map(MarketplaceSource::Git),
            "url" => {
                let url = required(members, "url")?;
                match is_download_url(&url) {
                    true => Ok(MarketplaceSource::Url(url)),
                    false => Err(SourceFault::Url),
                }
            }
            _ => Err(SourceFault::UnknownKind),
        }
    }

    /// The source as settings and our own files have it.
    pub fn to_json(&self) -> Json {
        match self {
            MarketplaceSource::Directory(path) => {
                json!({"source": "directory", "path": path.to_string_lossy()})
            }
            MarketplaceSource::Git(git) => Json::Object(git.to_json()),
            MarketplaceSource::Url(url) => json!({"source": "url", "url": url}),
        }
    }

    /// The same for users and programs: without a password.
    pub fn to_shown_json(&self) -> Json {
        let mut json = self.to_json();
        if let Some(url) = json.get_mut("url") {
            *url = without_password(url.as_str().unwrap_or_default()).into();
        }
        json
    }

    /// Does its URL contain a password?
    pub fn has_password(&self) -> bool {
        let json = self.to_json();
        json["url"].as_str().is_some_and(|url| without_password(url) != url)
    }

    /// The source in one line. Untrusted text.
    pub fn describe(&self) -> String {
        match self {
            MarketplaceSource::Directory(path) => path.to_string_lossy().into_owned(),
            MarketplaceSource::Git(git) => git.describe(),
            MarketplaceSource::Url(url) => without_password(url),
        }
    }

    /// The folder that is read in place.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            MarketplaceSource::Directory(path) => Some(path),
            MarketplaceSource::Git(_) | MarketplaceSource::Url(_) => None,
        }
    }
}

fn required(members: Members<'_>, key: &'static str) -> Result<String, SourceFault> {
    match members.string(key) {
        Ok(Some(text)) if !text.is_empty() => Ok(text),
        Ok(_) | Err(_) => Err(SourceFault::Member(key)),
    }
}

/// Is the text the name of a branch or tag that git takes for nothing else?
pub(super) fn is_git_reference(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./+@#=,%".contains(c);
    !text.is_empty()
        && text.len() <= 256
        && text.chars().all(is_plain)
        && !text.starts_with(['-', '/', '.'])
        && !text.ends_with(['/', '.'])
        && !["..", "//", "/.", "@{"].iter().any(|bad| text.contains(bad))
        && !text.ends_with(".lock")
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `user@host:path`, or `host:path`, where neither could be an option of ssh.
fn is_scp_like(text: &str) -> bool {
    let Some((host, path)) = text.split_once(':') else { return false };
    let (user, host) = host.split_once('@').unwrap_or(("git", host));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_word = |it: &str| !it.is_empty() && !it.starts_with('-') && it.chars().all(is_plain);
    // Another colon would be `ext::…`, which runs a command.
    is_word(user)
        && is_word(host)
        && !path.is_empty()
        && !path.starts_with([':', '-'])
        && text.contains('@')
}

/// An npm package name, with or without a scope.
fn is_package_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_word =
        |it: &str| !it.is_empty() && !it.starts_with(['.', '-']) && it.chars().all(is_plain);
    text.len() <= 214
        && match text.strip_prefix('@') {
            Some(scoped) => {
                scoped.split_once('/').is_some_and(|(scope, name)| is_word(scope) && is_word(name))
            }
            None => is_word(text),
        }
}

/// An https URL, or an http URL of this machine, which only a user may name.
fn is_download_url(text: &str) -> bool {
    let is_bad = |c: char| c.is_control() || c.is_whitespace() || "\"<>\\^`{|}".contains(c);
    text.len() <= MAX_TEXT
        && !text.contains(is_bad)
        && Url::parse(text).is_ok_and(|url| {
            url.host_str().is_some_and(|host| !host.is_empty())
                && url.username().is_empty()
                && url.password().is_none()
                && (url.scheme() == "https" || (url.scheme() == "http" && is_this_machine(&url)))
        })
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// A URL without the password in it.
fn without_password(text: &str) -> String {
    match Url::parse(text) {
        Ok(mut url) if url.password().is_some() => {
            let _cannot_be_set = url.set_password(None);
            url.to_string()
        }
        Ok(_) | Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: Json) -> Result<PluginSource, SourceFault> {
        PluginSource::parse(&json, &RelativePath::parse("./").expect("a path"))
    }

    #[track_caller]
    fn check(json: Json, expected: &str) {
        let found = match parse(json.clone()) {
            Ok(source) => source.describe(),
            Err(fault) => format!("error: {fault}"),
        };
        assert_eq!(found, expected, "{json}");
    }

    #[test]
    fn every_kind_of_source_is_read() {
        check(json!("./plugins/x"), "./plugins/x");
        check(json!({"source": "github", "repo": "a/b", "ref": "v1"}), "github a/b at v1");
        check(
            json!({"source": "url", "url": "https://h/r.git", "sha": "A".repeat(40)}),
            "git https://h/r.git (aaaaaaaaaaaa)",
        );
        check(
            json!({"source": "git-subdir", "url": "git@h:o/r.git", "path": "p/x"}),
            "git git@h:o/r.git ./p/x",
        );
        check(
            json!({"source": "npm", "package": "@a/b", "version": "^1.2"}),
            "npm package @a/b@^1.2",
        );
        check(json!({"source": "archive", "url": "https://h/x.zip"}), "https://h/x.zip");
        check(json!({"source": "command", "command": "x"}), "a command");
        let root = RelativePath::parse("./plugins").expect("a path");
        let found = PluginSource::parse(&json!("x"), &root).expect("it is in the root");
        assert_eq!(found.describe(), "./plugins/x");
    }

    #[test]
    fn texts_that_git_or_a_shell_could_take_for_something_else_are_refused() {
        for reference in [
            "--upload-pack=x",
            "-b",
            "a..b",
            "a b",
            "a\nb",
            "x^{}",
            "@{u}",
            "a:b",
            "a~1",
            "",
            "x.lock",
            "/a",
        ] {
            check(
                json!({"source": "github", "repo": "a/b", "ref": reference}),
                "error: `ref` is not the name of a branch or a tag",
            );
        }
        for url in [
            "--upload-pack=x",
            "-oProxyCommand=x",
            "ext::sh -c x",
            "ext::x",
            "git://h/r",
            "http://h/r",
            "ftp://h/r",
            "ssh://-oProxyCommand=x/r",
            "ssh://-oProxyCommand=x@h/r",
            "-a@h:r",
            "git@-oProxyCommand=x:r",
            "git@h:-x",
            "git@h::x",
            "https://h/$(x)",
            "https://h/a b",
            "https:///r",
            "/srv/r",
            "file://h/r",
            "",
        ] {
            let found = parse(json!({"source": "url", "url": url}));
            assert!(
                matches!(found, Err(SourceFault::GitUrl | SourceFault::Member("url"))),
                "{url}: {found:?}"
            );
        }
        for repo in ["a", "a/b/c", "-a/b", "../b", "a/..", "a/b c", "a/-b"] {
            check(
                json!({"source": "github", "repo": repo}),
                "error: `repo` is not `owner/repository`",
            );
        }
        for package in ["", "-x", "../x", "@a", "@a/../b", "a b", "a/b", ".x"] {
            assert!(parse(json!({"source": "npm", "package": package})).is_err(), "{package}");
        }
        check(
            json!({"source": "npm", "package": "a", "version": "$(x)"}),
            "error: `version` is not a version, a tag or a range",
        );
        for url in ["http://h/x.zip", "file:///x", "https://u:p@h/x.zip", "https://h/a b", "x"] {
            check(json!({"source": "archive", "url": url}), "error: `url` is not an https URL");
        }
        check(
            json!({"source": "archive", "url": "https://h/x", "sha256": "12"}),
            "error: `sha256` is not 64 hexadecimal digits",
        );
        check(
            json!({"source": "github", "repo": "a/b", "sha": "abc"}),
            "error: `sha` is not the hash of a commit",
        );
    }

    #[test]
    fn paths_stay_in_the_marketplace() {
        for path in ["../x", "./a/../../x", "/etc", "x", "~/x", "..", "./\u{1b}"] {
            let found = parse(json!(path));
            assert!(matches!(found, Err(SourceFault::Path(_))), "{path}: {found:?}");
        }
        check(
            json!({"source": "git-subdir", "url": "https://h/r", "path": "../x"}),
            "error: its path cannot be used: it contains `..`",
        );
        check(json!(1), "error: `source` is neither a path nor an object");
        check(json!({"source": "gopher"}), "error: the kind of source is unknown");
        check(json!({}), "error: `source` is missing or is not text");
    }

    #[test]
    fn a_marketplace_source_is_read_as_it_is_written() {
        for json in [
            json!({"source": "directory", "path": "/m"}),
            json!({"source": "github", "repo": "a/b", "ref": "main"}),
            json!({"source": "git", "url": "https://h/r.git"}),
            json!({"source": "url", "url": "https://h/marketplace.json"}),
        ] {
            let source = MarketplaceSource::parse(&json).expect("a source");
            assert_eq!(source.to_json(), json);
        }
        assert_eq!(
            MarketplaceSource::parse(&json!({"source": "directory", "path": "m"})),
            Err(SourceFault::Directory)
        );
    }
}
