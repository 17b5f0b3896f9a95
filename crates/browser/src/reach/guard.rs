//! The rules of one session: which URLs a model may open, and which hosts and addresses pages may reach.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;
use url::Url;

use crate::reach::address::{AddressClass, class_of, class_of_name};
use crate::reach::origin_pattern::OriginPattern;

/// How many refusals are remembered.
const MAX_REFUSALS: usize = 50;

/// The rules, as users write them.
#[derive(Debug, Clone, Default)]
pub struct ReachRules {
    /// The origins that may be opened without a question; empty for all public ones. Hosts of private networks and of this
    /// machine are reachable only if they are here.
    pub allowed: Vec<OriginPattern>,
    /// The hosts that are never reached.
    pub blocked: Vec<OriginPattern>,
}

/// Why something is not reached.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ReachError {
    #[error("`{0}` is not a URL; write it with its scheme, such as https://example.com/")]
    NotAUrl(String),
    #[error("only http and https pages can be opened, not `{0}:`")]
    Scheme(String),
    #[error("{host} is blocked by the user's settings")]
    Blocked { host: String },
    #[error("{host} is a metadata service, which is never reached")]
    Metadata { host: String },
    #[error(
        "{host}{via} is on {network}, and the user has not allowed it; the user can with `--browser-origins {pattern}`"
    )]
    Private { host: String, via: String, network: &'static str, pattern: String },
    #[error("{host} has no address that could be checked")]
    Unresolved { host: String },
    #[error("{origin} is outside the origins that the user allowed")]
    NotAllowed { origin: String },
}

/// The rules of one session, with what the user has allowed since.
#[derive(Debug)]
pub(crate) struct ReachGuard {
    rules: ReachRules,
    granted: Mutex<Vec<OriginPattern>>,
    refusals: Mutex<Vec<Refusal>>,
}

/// Something that was not reached.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) number: u64,
    pub(crate) host: String,
    pub(crate) reason: ReachError,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReachGuard {
    pub(crate) fn new(rules: ReachRules) -> ReachGuard {
        ReachGuard { rules, granted: Mutex::default(), refusals: Mutex::default() }
    }

    /// Parses a URL that a model wants to open. A text without a scheme counts as a host.
    pub(crate) fn parse_url(text: &str) -> Result<Url, ReachError> {
        let text = text.trim();
        let shown = || text.chars().take(200).collect::<String>();
        if text == "about:blank" {
            return Url::parse(text).map_err(|_| ReachError::NotAUrl(shown()));
        }
        let url = match Url::parse(text) {
            // `localhost:3000` parses as a scheme.
            Ok(url) if url.has_host() || !looks_like_host(text) => url,
            Ok(_) | Err(_) => {
                let scheme = if is_local(text) { "http" } else { "https" };
                Url::parse(&format!("{scheme}://{text}"))
                    .map_err(|_| ReachError::NotAUrl(shown()))?
            }
        };
        match url.scheme() {
            "http" | "https" if url.has_host() => Ok(url),
            scheme => Err(ReachError::Scheme(scheme.chars().take(40).collect())),
        }
    }

    /// Checks a URL before it is opened, without resolving its name.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), ReachError> {
        if url.as_str() == "about:blank" {
            return Ok(());
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(ReachError::Scheme(url.scheme().chars().take(40).collect()));
        };
        self.check_host(host, port)?;
        self.check_allowed(url)
    }

    /// Checks whether a document may come from an origin.
    pub(crate) fn check_allowed(&self, url: &Url) -> Result<(), ReachError> {
        let is_listed =
            |list: &[OriginPattern]| list.is_empty() || list.iter().any(|it| it.matches(url));
        let is_granted = || lock(&self.granted).iter().any(|it| it.matches(url));
        match is_listed(&self.rules.allowed) || is_granted() {
            true => Ok(()),
            false => Err(ReachError::NotAllowed { origin: url.origin().ascii_serialization() }),
        }
    }

    /// Whether documents of some public origins need a question.
    pub(crate) fn limits_documents(&self) -> bool {
        !self.rules.allowed.is_empty() && !self.rules.allowed.iter().any(OriginPattern::is_any)
    }

    /// Checks a host before its name is resolved.
    pub(crate) fn check_host(&self, host: &str, port: u16) -> Result<(), ReachError> {
        if self.rules.blocked.iter().any(|it| it.matches_host(host, port)) {
            return Err(ReachError::Blocked { host: host.to_owned() });
        }
        match class_of_name(host) {
            Some(class) => self.check_class((host, port), class, String::new()),
            None => Ok(()),
        }
    }

    /// Checks the address that a host's name resolved to.
    pub(crate) fn check_address(
        &self,
        host: &str,
        port: u16,
        address: IpAddr,
    ) -> Result<(), ReachError> {
        self.check_class((host, port), class_of(address), format!(" ({address})"))
    }

    fn check_class(
        &self,
        (host, port): (&str, u16),
        class: AddressClass,
        via: String,
    ) -> Result<(), ReachError> {
        let network = match class {
            AddressClass::Public => return Ok(()),
            AddressClass::Metadata => {
                return Err(ReachError::Metadata { host: format!("{host}{via}") });
            }
            AddressClass::Loopback => "this machine",
            AddressClass::Private => "a private network",
        };
        let names_it = |it: &OriginPattern| !it.is_any() && it.matches_host(host, port);
        if self.rules.allowed.iter().any(names_it) {
            return Ok(());
        }
        let via = if via.trim_matches([' ', '(', ')']) == host { String::new() } else { via };
        let pattern = format!("{host}:{port}");
        Err(ReachError::Private { host: host.to_owned(), via, network, pattern })
    }

    /// Allows an origin for the rest of the session.
    pub(crate) fn grant(&self, url: &Url) {
        if let Ok(pattern) = OriginPattern::parse(&url.origin().ascii_serialization()) {
            lock(&self.granted).push(pattern);
        }
    }

    /// Remembers that something was not reached.
    pub(crate) fn record(&self, host: &str, reason: ReachError) {
        let mut refusals = lock(&self.refusals);
        let number = refusals.last().map_or(1, |it| it.number + 1);
        if refusals.len() == MAX_REFUSALS {
            refusals.remove(0);
        }
        refusals.push(Refusal { number, host: host.to_owned(), reason });
    }

    /// The number of the newest refusal.
    pub(crate) fn newest_refusal(&self) -> u64 {
        lock(&self.refusals).last().map_or(0, |it| it.number)
    }

    /// Refusals after a number.
    pub(crate) fn refusals_since(&self, number: u64) -> Vec<Refusal> {
        lock(&self.refusals).iter().filter(|it| it.number > number).cloned().collect()
    }
}

/// Does a text without `//` begin with a host and a port?
fn looks_like_host(text: &str) -> bool {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    match text[..end].rsplit_once(':') {
        Some((_, port)) => !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit()),
        None => true,
    }
}

fn is_local(text: &str) -> bool {
    let end = text.find([':', '/', '?', '#']).unwrap_or(text.len());
    !matches!(class_of_name(&text[..end]), None | Some(AddressClass::Public))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(allowed: &[&str], blocked: &[&str]) -> ReachGuard {
        let parse = |list: &[&str]| {
            list.iter().map(|it| OriginPattern::parse(it).expect("a pattern")).collect()
        };
        ReachGuard::new(ReachRules { allowed: parse(allowed), blocked: parse(blocked) })
    }

    #[track_caller]
    fn check(guard: &ReachGuard, text: &str, expected: &str) {
        let found = ReachGuard::parse_url(text).and_then(|it| guard.check_url(&it));
        let found = found.map_or_else(|it| it.to_string(), |()| "ok".to_owned());
        assert!(found.contains(expected), "{text}: {found}");
    }

    #[test]
    fn without_rules_only_public_web_pages_can_be_opened() {
        let guard = guard(&[], &[]);
        check(&guard, "https://example.com/x", "ok");
        check(&guard, "example.com/x", "ok");
        check(&guard, "about:blank", "ok");
        check(&guard, "http://127.0.0.1:80/", "is on this machine");
        check(&guard, "localhost:3000", "--browser-origins localhost:3000");
        check(&guard, "http://192.168.0.1/", "a private network");
        check(&guard, "http://0x7f.1/", "is on this machine");
        check(&guard, "http://2130706433/", "is on this machine");
        check(&guard, "http://169.254.169.254/latest", "metadata service");
        for text in [
            "file:///etc/passwd",
            "chrome://settings",
            "data:text/html,x",
            "javascript:alert(1)",
            "view-source:https://a.b/",
            "about:srcdoc",
            "ftp://example.com/",
        ] {
            check(&guard, text, "only http and https");
        }
    }

    #[test]
    fn listed_local_hosts_are_reachable_and_other_origins_need_a_question() {
        let guard = guard(&["localhost:3000", "*.example.com"], &["ads.example.com"]);
        check(&guard, "localhost:3000/a", "ok");
        check(&guard, "localhost:3001/a", "is on this machine");
        check(&guard, "https://www.example.com/", "ok");
        check(&guard, "https://ads.example.com/", "blocked by the user's settings");
        check(&guard, "https://other.org/", "outside the origins");
        assert!(guard.limits_documents());
        guard.grant(&Url::parse("https://other.org/x").expect("a URL"));
        check(&guard, "https://other.org/", "ok");
    }

    #[test]
    fn a_star_allows_public_hosts_but_no_local_ones() {
        let guard = guard(&["*", "127.0.0.1:8080"], &[]);
        check(&guard, "https://other.org/", "ok");
        check(&guard, "http://127.0.0.1:8080/", "ok");
        check(&guard, "http://127.0.0.1:9/", "is on this machine");
        check(&guard, "http://169.254.169.254/", "metadata service");
        assert!(!guard.limits_documents());
    }

    #[test]
    fn a_public_name_that_resolves_to_a_private_address_is_refused() {
        let guard = guard(&[], &[]);
        let private = "10.1.2.3".parse().expect("an address");
        let refused = guard.check_address("rebind.example.com", 443, private);
        let text = refused.expect_err("it is private").to_string();
        assert!(
            text.starts_with("rebind.example.com (10.1.2.3) is on a private network"),
            "{text}"
        );
    }

    #[test]
    fn a_metadata_address_is_refused_even_if_it_is_listed() {
        let guard = guard(&["169.254.169.254"], &[]);
        check(&guard, "http://169.254.169.254/", "metadata service");
    }
}
