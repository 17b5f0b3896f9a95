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
                let same = |key: &String, value: &Json| match (found.get(key), value) {
                    (Some(Json::String(a)), Json::String(b)) => normal(a) == normal(b),
                    (Some(a), b) => a == b,
                    (None, _) => false,
                };
                wanted.iter().all(|(key, value)| same(key, value))
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

/// Two spellings of one place.
fn normal(text: &str) -> String {
    let text = text.trim_end_matches('/');
    text.strip_suffix(".git").unwrap_or(text).to_ascii_lowercase()
}

fn host_of(source: &MarketplaceSource) -> Option<String> {
    let url = match source {
        MarketplaceSource::Directory(_) => return None,
        MarketplaceSource::Git(git) => git.origin.clone_url(),
        MarketplaceSource::Url(url) => url.clone(),
    };
    match url.split_once("://") {
        Some(_) => Some(Url::parse(&url).ok()?.host_str()?.to_ascii_lowercase()),
        None => {
            let (host, _) = url.split_once(':')?;
            Some(host.rsplit('@').next()?.to_ascii_lowercase())
        }
    }
}

impl MarketplacePolicy {
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
        };
        assert_eq!(found, expected);
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
