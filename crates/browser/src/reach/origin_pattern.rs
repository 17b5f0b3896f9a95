//! Patterns of origins, as users write them: `example.com`, `*.example.com`, `localhost:3000`, `https://example.com`, `*`.

use std::fmt;

use thiserror::Error;
use url::{Host, Url};

/// A pattern of origins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginPattern {
    scheme: Option<String>,
    host: HostPattern,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    /// Every public host.
    Any,
    /// The hosts below a domain.
    Below(String),
    Exactly(String),
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{text}` is not an origin; write a host such as `example.com`, `*.example.com`, `localhost:3000` or \
     `https://example.com`, or `*` for every public host"
)]
pub struct OriginPatternError {
    text: String,
}

impl OriginPattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<OriginPattern, OriginPatternError> {
        let fail = || OriginPatternError { text: text.chars().take(100).collect() };
        let trimmed = text.trim().trim_end_matches('/');
        if trimmed == "*" {
            return Ok(OriginPattern { scheme: None, host: HostPattern::Any, port: None });
        }
        let (scheme, rest) = match trimmed.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (Some(scheme.to_owned()), rest),
            Some(_) => return Err(fail()),
            None => (None, trimmed),
        };
        let (below, rest) = match rest.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        // The parser of URLs also normalizes names and addresses.
        let url = Url::parse(&format!("ws://{rest}")).map_err(|_| fail())?;
        let is_plain = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && !rest.contains(['*', '/', '?', '#', '@', '\\'])
            && !rest.contains(char::is_whitespace);
        let host = url.host_str().filter(|_| is_plain).ok_or_else(fail)?;
        let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let port = has_port.then(|| url.port_or_known_default()).flatten();
        let host = match (below, url.host()) {
            (true, Some(Host::Domain(domain))) => HostPattern::Below(domain.to_owned()),
            (true, _) => return Err(fail()),
            (false, _) => HostPattern::Exactly(host.to_owned()),
        };
        Ok(OriginPattern { scheme, host, port })
    }

    /// Does it match every public host?
    pub(crate) fn is_any(&self) -> bool {
        self.host == HostPattern::Any
    }

    /// Does it name this host and port? A name matches only itself, never what it resolves to.
    pub(crate) fn matches_host(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_host = match &self.host {
            HostPattern::Any => true,
            HostPattern::Exactly(it) => *it == host,
            HostPattern::Below(domain) => {
                host.strip_suffix(domain.as_str()).is_some_and(|it| it.ends_with('.'))
            }
        };
        let expected = self.port.or(match self.scheme.as_deref() {
            Some("http") => Some(80),
            Some("https") => Some(443),
            Some(_) | None => None,
        });
        is_host && expected.is_none_or(|it| it == port)
    }

    /// Does it match the origin of a URL?
    pub(crate) fn matches(&self, url: &Url) -> bool {
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return false;
        };
        self.scheme.as_deref().is_none_or(|it| it == url.scheme()) && self.matches_host(host, port)
    }
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(f, "{scheme}://")?;
        }
        match &self.host {
            HostPattern::Any => f.write_str("*")?,
            HostPattern::Below(domain) => write!(f, "*.{domain}")?,
            HostPattern::Exactly(host) => f.write_str(host)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, url: &str, expected: bool) {
        let parsed = OriginPattern::parse(pattern).expect("a pattern");
        assert_eq!(parsed.matches(&Url::parse(url).expect("a URL")), expected, "{pattern} {url}");
    }

    #[test]
    fn a_pattern_matches_its_host_and_no_other() {
        check("example.com", "https://example.com/a", true);
        check("example.com", "http://example.com:8080/", true);
        check("example.com", "https://www.example.com/", false);
        check("example.com", "https://example.com.evil.org/", false);
        check("*.example.com", "https://www.example.com/", true);
        check("*.example.com", "https://example.com/", false);
        check("*.example.com", "https://evilexample.com/", false);
        check("https://example.com", "http://example.com/", false);
        check("localhost:3000", "http://localhost:3000/", true);
        check("localhost:3000", "http://localhost:3001/", false);
        check("[::1]:80", "http://[::1]/", true);
        check("EXAMPLE.com/", "https://example.com/", true);
        check("*", "https://anything.org/", true);
    }

    #[test]
    fn a_port_that_is_the_default_of_a_scheme_counts() {
        check("example.com:80", "http://example.com/", true);
        check("example.com:80", "https://example.com/", false);
        check("example.com:443", "https://example.com/", true);
    }

    #[test]
    fn texts_that_are_no_origin_are_refused() {
        for text in [
            "",
            "file:///etc",
            "a b",
            "example.com/path",
            "*.*.com",
            "*.1.2.3.4",
            "user@host",
            "a*b.com",
        ] {
            assert!(OriginPattern::parse(text).is_err(), "{text}");
        }
    }
}
