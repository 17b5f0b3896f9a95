//! Which marketplaces an administrator allows: `strictKnownMarketplaces` and `blockedMarketplaces`.

use regex::Regex;
use serde_json::{Map, Value as Json};
use url::Url;

use super::source::MarketplaceSource;
use crate::source::Origin;

/// The lists of all managed settings.
#[derive(Debug, Clone, Default)]
pub struct MarketplacePolicy {
    /// Only these may be used, if there is a list; an empty one allows none.
    pub allowed: Option<(Vec<MarketplaceMatcher>, Origin)>,
    /// These may not.
    pub blocked: Vec<(MarketplaceMatcher, Origin)>,
}

/// One entry of a list.
#[derive(Debug, Clone)]
pub enum MarketplaceMatcher {
    /// A source whose members have exactly these values.
    Source(Map<String, Json>),
    /// The host of a repository or URL.
    Host(Regex),
    /// The path of a folder.
    Path(Regex),
    /// The entry is not valid and matches nothing.
    Invalid,
}

/// Why a marketplace may not be used.
#[derive(Debug, Clone)]
pub enum MarketplaceRefusal {
    /// This entry blocks it.
    Blocked(Origin),
    /// This list does not contain it.
    NotAllowed(Origin),
    /// It is not known where it comes from, so that this list cannot be applied.
    Unknown(Origin),
}

impl MarketplaceMatcher {
    /// Reads an entry.
    pub fn read(json: &Json) -> MarketplaceMatcher {
        let Some(members) = json.as_object() else { return MarketplaceMatcher::Invalid };
        let pattern = |key: &str| {
            let text = members.get(key).and_then(Json::as_str)?;
            Regex::new(text).ok()
        };
        let found = match members.get("source").and_then(Json::as_str) {
            Some("hostPattern") => pattern("hostPattern").map(MarketplaceMatcher::Host),
            Some("pathPattern") => pattern("pathPattern").map(MarketplaceMatcher::Path),
            Some("github" | "git" | "url" | "directory" | "file" | "npm") => {
                Some(MarketplaceMatcher::Source(members.clone()))
            }
            Some(_) | None => None,
        };
        found.unwrap_or(MarketplaceMatcher::Invalid)
    }

    fn matches(&self, source: &MarketplaceSource) -> bool {
        match self {
            MarketplaceMatcher::Source(wanted) => {
                let Json::Object(found) = source.to_json() else { return false };
                let place = place_of(wanted);
                if place.is_some() && place != place_of(&found) {
                    return false;
                }
                let is_of_place = |key: &str| matches!(key, "source" | "repo" | "url");
                let same = |key: &String, value: &Json| match (found.get(key), value) {
                    (Some(Json::String(a)), Json::String(b)) => normal(a) == normal(b),
                    (Some(a), b) => a == b,
                    (None, _) => false,
                };
                wanted
                    .iter()
                    .all(|(key, value)| (place.is_some() && is_of_place(key)) || same(key, value))
            }
            MarketplaceMatcher::Host(pattern) => {
                host_of(source).is_some_and(|host| pattern.is_match(&host))
            }
            MarketplaceMatcher::Path(pattern) => {
                source.directory().is_some_and(|path| pattern.is_match(&path.to_string_lossy()))
            }
            MarketplaceMatcher::Invalid => false,
        }
    }
}

/// Two spellings of one path, branch or commit.
fn normal(text: &str) -> String {
    let text = text.trim_end_matches('/');
    text.strip_suffix(".git").unwrap_or(text).to_ascii_lowercase()
}

/// A repository or a file, however it is written.
#[derive(Debug, PartialEq, Eq)]
struct SourcePlace {
    kind: PlaceKind,
    host: String,
    /// Only if it is not the one of the protocol.
    port: Option<u16>,
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceKind {
    Repository,
    File,
}

/// The place that the members of a source name. `None` for a folder, and for members without a place.
fn place_of(members: &Map<String, Json>) -> Option<SourcePlace> {
    let text = |key: &str| members.get(key).and_then(Json::as_str);
    match text("source")? {
        "github" => {
            let path = normal_path(text("repo")?);
            let kind = PlaceKind::Repository;
            Some(SourcePlace { kind, host: GITHUB.to_owned(), port: None, path })
        }
        "git" => place_at(text("url")?, PlaceKind::Repository),
        "url" => place_at(text("url")?, PlaceKind::File),
        _ => None,
    }
}

fn place_at(url: &str, kind: PlaceKind) -> Option<SourcePlace> {
    let Some((scheme, _)) = url.split_once("://") else {
        // `user@host:path`
        let (host, path) = url.split_once(':')?;
        let host = normal_host(host.rsplit('@').next()?);
        return Some(SourcePlace { kind, host, port: None, path: normal_path(path) });
    };
    let parsed = Url::parse(url).ok()?;
    let host = normal_host(parsed.host_str().unwrap_or_default());
    let is_usual = match scheme.to_ascii_lowercase().as_str() {
        "ssh" => parsed.port() == Some(22),
        _ => false,
    };
    // GitHub serves SSH there for networks that let only HTTPS through.
    let is_usual = is_usual || (host == GITHUB && parsed.port() == Some(443));
    let port = parsed.port().filter(|_| !is_usual);
    let mut path = normal_path(parsed.path());
    // A host may serve something else with these.
    for (mark, part) in [('?', parsed.query()), ('#', parsed.fragment())] {
        if let Some(part) = part {
            path.push(mark);
            path.push_str(part);
        }
    }
    Some(SourcePlace { kind, host, port, path })
}

const GITHUB: &str = "github.com";

fn normal_host(host: &str) -> String {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    match host.as_str() {
        "www.github.com" | "ssh.github.com" => GITHUB.to_owned(),
        _ => host,
    }
}

/// A path without what hosts ignore: percent signs, empty parts, the end `.git`, upper case.
fn normal_path(path: &str) -> String {
    let decoded = percent_decoded(path);
    let parts: Vec<&str> =
        decoded.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    normal(&parts.join("/"))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let byte = digits.filter(|_| *first == b'%').and_then(|it| u8::from_str_radix(it, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn host_of(source: &MarketplaceSource) -> Option<String> {
    let url = match source {
        MarketplaceSource::Directory(_) => return None,
        MarketplaceSource::Git(git) => git.origin.clone_url(),
        MarketplaceSource::Url(url) => url.clone(),
    };
    match url.split_once("://") {
        Some(_) => Some(normal_host(Url::parse(&url).ok()?.host_str()?)),
        None => {
            let (host, _) = url.split_once(':')?;
            Some(normal_host(host.rsplit('@').next()?))
        }
    }
}

impl MarketplacePolicy {
    /// Decides about a marketplace that is not known any more: with a list, it cannot be allowed.
    pub fn evaluate_unknown(&self) -> Result<(), MarketplaceRefusal> {
        let lists = self.allowed.iter().map(|(_, origin)| origin);
        let mut origins = lists.chain(self.blocked.iter().map(|(_, origin)| origin));
        match origins.next() {
            Some(origin) => Err(MarketplaceRefusal::Unknown(origin.clone())),
            None => Ok(()),
        }
    }

    /// Decides about a source.
    pub fn evaluate(&self, source: &MarketplaceSource) -> Result<(), MarketplaceRefusal> {
        if let Some((_, origin)) = self.blocked.iter().find(|(it, _)| it.matches(source)) {
            return Err(MarketplaceRefusal::Blocked(origin.clone()));
        }
        match &self.allowed {
            Some((list, origin)) if !list.iter().any(|it| it.matches(source)) => {
                Err(MarketplaceRefusal::NotAllowed(origin.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scope::Scope;
    use crate::source::Source;

    fn origin() -> Origin {
        Origin { source: Source::file(Scope::Enterprise, "m"), position: None }
    }

    #[track_caller]
    fn check(allowed: Option<Json>, blocked: Json, source: Json, expected: &str) {
        let matchers = |json: &Json| -> Vec<MarketplaceMatcher> {
            json.as_array().expect("a list").iter().map(MarketplaceMatcher::read).collect()
        };
        let policy = MarketplacePolicy {
            allowed: allowed.map(|it| (matchers(&it), origin())),
            blocked: matchers(&blocked).into_iter().map(|it| (it, origin())).collect(),
        };
        let source = MarketplaceSource::parse(&source).expect("a source");
        let found = match policy.evaluate(&source) {
            Ok(()) => "allowed",
            Err(MarketplaceRefusal::Blocked(_)) => "blocked",
            Err(MarketplaceRefusal::NotAllowed(_)) => "not allowed",
            Err(MarketplaceRefusal::Unknown(_)) => "unknown",
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_repository_is_blocked_however_it_is_written() {
        let blocked = json!([{"source": "github", "repo": "acme/tools"}]);
        for url in [
            "https://github.com/acme/tools",
            "https://github.com/acme/tools.git/",
            "https://GitHub.com/Acme//Tools.git",
            "https://github.com:443/acme/tools",
            "https://github.com./acme/tools",
            "https://www.github.com/acme/tools",
            "https://user:token@github.com/acme/tools",
            "https://github.com/%61cme/tools",
            "https://github.com/x/../acme/tools",
            "ssh://git@github.com/acme/tools.git",
            "ssh://git@github.com:22/acme/tools",
            "ssh://git@ssh.github.com:443/acme/tools",
            "git@github.com:acme/tools.git",
            "git@github.com:/acme/tools",
            "git@GITHUB.com:acme/tools",
        ] {
            let source = json!({"source": "git", "url": url});
            check(None, blocked.clone(), source.clone(), "blocked");
            // And the other way round.
            let repo = json!({"source": "github", "repo": "acme/tools", "ref": "x"});
            check(None, json!([source]), repo, "blocked");
        }
        let host = json!([{"source": "git", "url": "https://git.acme.example/team/x"}]);
        for url in [
            "ssh://ada@git.acme.example/team/x.git",
            "ada@GIT.acme.example:team/x",
            "https://ada@git.acme.example.:443/team/./x/",
        ] {
            check(None, host.clone(), json!({"source": "git", "url": url}), "blocked");
        }
        // Other places.
        for url in [
            "https://git.acme.example:8443/team/x",
            "https://git.acme.example/team/x?other",
            "https://git.acme.example/team/y",
            "https://github.com/team/x",
        ] {
            check(None, host.clone(), json!({"source": "git", "url": url}), "allowed");
        }
        let file = json!({"source": "url", "url": "https://git.acme.example/team/x"});
        check(None, host, file, "allowed");
    }

    #[test]
    fn a_block_always_wins_and_an_empty_list_allows_nothing() {
        let acme = json!({"source": "github", "repo": "acme/tools"});
        let other = json!({"source": "git", "url": "https://git.acme.example/x.git", "ref": "v1"});
        check(None, json!([]), acme.clone(), "allowed");
        check(Some(json!([])), json!([]), acme.clone(), "not allowed");
        check(
            Some(json!([{"source": "github", "repo": "Acme/Tools"}])),
            json!([]),
            acme.clone(),
            "allowed",
        );
        check(Some(json!([acme])), json!([acme]), acme.clone(), "blocked");
        check(
            Some(json!([{"source": "github", "repo": "acme/tools", "ref": "v1"}])),
            json!([]),
            acme,
            "not allowed",
        );
        check(
            Some(json!([{"source": "hostPattern", "hostPattern": "^git\\.acme\\.example$"}])),
            json!([]),
            other.clone(),
            "allowed",
        );
        check(
            Some(json!([{"source": "git", "url": "https://git.acme.example/x"}])),
            json!([]),
            other.clone(),
            "allowed",
        );
        check(
            Some(json!([1, {"source": "hostPattern", "hostPattern": "("}])),
            json!([]),
            other,
            "not allowed",
        );
        let folder = json!({"source": "directory", "path": "/srv/lab"});
        check(None, json!([{"source": "pathPattern", "pathPattern": "^/srv/"}]), folder, "blocked");
        let scp = json!({"source": "git", "url": "git@git.acme.example:o/r.git"});
        check(None, json!([{"source": "hostPattern", "hostPattern": "acme"}]), scp, "blocked");
    }
}
