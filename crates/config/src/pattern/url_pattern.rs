//! Matches URLs against patterns, component by component: a `*` never extends from one component into the next,
//! so a host in a path is never taken for the host of the URL.

use std::fmt;

use url::Url;

pub use super::MatchMode;
use super::glob::Glob;
use super::percent::percent_decode;

/// A pattern such as `https://*.example.com/mcp/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlPattern {
    raw: String,
    scheme: String,
    host: String,
    port: Option<String>,
    path: Option<String>,
    query: Option<String>,
}

impl UrlPattern {
    /// Parses a pattern; `None` if it has no scheme or no host, or names a user.
    pub fn parse(text: &str) -> Option<UrlPattern> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let rest = rest.split('#').next().unwrap_or("");
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        if scheme.is_empty() || authority.is_empty() || authority.contains('@') {
            return None;
        }
        let (host, port) = split_port(authority);
        let has_dot_segment = path.split('/').any(|segment| segment == "." || segment == "..");
        if has_dot_segment || !port.is_none_or(is_port) {
            return None;
        }
        Some(UrlPattern {
            raw: text.to_owned(),
            scheme: scheme.to_ascii_lowercase(),
            host: canonical_host(host),
            port: port.map(|port| port.trim_start_matches('0').to_owned()),
            path: (!path.is_empty()).then(|| path.to_owned()),
            query,
        })
    }

    /// Does the pattern match the URL?
    pub fn matches(&self, url: &Url, match_mode: MatchMode) -> bool {
        self.origin_matches(url, match_mode) && self.path_and_query_match(url, match_mode)
    }

    /// Do scheme, host and port match? For URLs whose path contains a secret.
    pub fn origin_matches(&self, url: &Url, match_mode: MatchMode) -> bool {
        let Some(host) = url.host_str() else { return false };
        self.scheme_matches(url.scheme(), match_mode)
            && matches_wildcard(&self.host, &canonical_host(host))
            && self.port_matches(url, match_mode)
    }

    /// One host answers on HTTP and on WebSocket, with and without TLS: what denies one of them denies all.
    fn scheme_matches(&self, scheme: &str, match_mode: MatchMode) -> bool {
        const WEB_SCHEMES: [&str; 4] = ["http", "https", "ws", "wss"];
        let is_web = |scheme: &str| WEB_SCHEMES.contains(&scheme);
        let is_kin = match_mode == MatchMode::Broad
            && is_web(scheme)
            && WEB_SCHEMES.iter().any(|it| matches_wildcard(&self.scheme, it));
        is_kin || matches_wildcard(&self.scheme, scheme)
    }

    fn port_matches(&self, url: &Url, match_mode: MatchMode) -> bool {
        match (&self.port, match_mode) {
            (Some(port), MatchMode::Broad)
                if self.is_default_port(port) && url.port().is_none() =>
            {
                true
            }
            (Some(port), _) => url
                .port_or_known_default()
                .is_some_and(|actual| matches_wildcard(port, &actual.to_string())),
            (None, MatchMode::Strict) => url.port().is_none(),
            (None, MatchMode::Broad) => true,
        }
    }

    /// Is it the default port of the pattern's scheme? A denial of it also covers the default ports of the other
    /// schemes.
    fn is_default_port(&self, port: &str) -> bool {
        matches!((self.scheme.as_str(), port), ("http" | "ws", "80") | ("https" | "wss", "443"))
    }

    fn path_and_query_match(&self, url: &Url, match_mode: MatchMode) -> bool {
        let path_matches = match (&self.path, match_mode) {
            (None, MatchMode::Broad) => true,
            (None, MatchMode::Strict) => url.path() == "/",
            (Some(pattern), MatchMode::Strict) => {
                let lower = url.path().to_ascii_lowercase();
                let has_escaped_separator =
                    ["%2f", "%5c", "%25", ".."].iter().any(|escape| lower.contains(escape));
                !has_escaped_separator
                    && matches_wildcard(&decode_path(pattern), &decode_path(url.path()))
            }
            (Some(pattern), MatchMode::Broad) => {
                let (pattern, path) = (normalize_path(pattern), normalize_path(url.path()));
                matches_wildcard(&pattern, &path)
                    || matches_wildcard(pattern.trim_end_matches('/'), path.trim_end_matches('/'))
            }
        };
        let ends_with_wildcard = self.path.as_ref().is_some_and(|path| path.ends_with('*'));
        let query_matches = match (&self.query, url.query()) {
            (Some(pattern), query) => matches_wildcard(pattern, query.unwrap_or("")),
            (None, None) => true,
            (None, Some(_)) => match_mode == MatchMode::Broad || ends_with_wildcard,
        };
        path_matches && query_matches
    }
}

fn is_port(text: &str) -> bool {
    let is_number = text.parse::<u16>().is_ok_and(|port| port > 0);
    is_number
        || (text.contains('*') && text.bytes().all(|byte| byte == b'*' || byte.is_ascii_digit()))
}

impl fmt::Display for UrlPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// Normalizes a host: lower case, ASCII, full IP addresses, no trailing dots.
fn canonical_host(host: &str) -> String {
    let lower = host.to_lowercase();
    let lower = lower.trim_end_matches('.');
    if lower.contains('*') {
        let label =
            |label: &str| if label.is_ascii() { label.to_owned() } else { ascii_host(label) };
        return lower.split('.').map(label).collect::<Vec<_>>().join(".");
    }
    ascii_host(lower)
}

fn ascii_host(host: &str) -> String {
    let Ok(url) = Url::parse(&format!("http://{host}/")) else { return host.to_owned() };
    match url.host() {
        // An IPv4 address mapped into IPv6 is the same machine.
        Some(url::Host::Ipv6(address)) => match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => format!("[{address}]"),
        },
        Some(url::Host::Ipv4(address)) => address.to_string(),
        Some(url::Host::Domain(domain)) => domain.to_owned(),
        None => host.to_owned(),
    }
}

fn decode_path(path: &str) -> String {
    String::from_utf8_lossy(&percent_decode(path)).into_owned()
}

/// Normalizes a path as the most lenient server might: escapes decoded, backslashes as slashes, no double
/// slashes.
fn normalize_path(path: &str) -> String {
    let mut flat = String::with_capacity(path.len());
    for c in decode_path(&decode_path(path)).chars() {
        let c = if c == '\\' { '/' } else { c };
        if c != '/' || !flat.ends_with('/') {
            flat.push(c);
        }
    }
    flat
}

fn matches_wildcard(pattern: &str, text: &str) -> bool {
    Glob::parse(pattern).matches(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, url: &str, strict: bool, broad: bool) {
        let pattern = UrlPattern::parse(pattern).expect("it is a pattern");
        let url = Url::parse(url).expect("it is a URL");
        let found =
            (pattern.matches(&url, MatchMode::Strict), pattern.matches(&url, MatchMode::Broad));
        assert_eq!(found, (strict, broad));
    }

    #[test]
    fn components_are_matched_one_by_one() {
        check("https://h.example/*", "https://h.example/mcp", true, true);
        check("https://*.example/*", "https://a.b.example/mcp", true, true);
        check("https://*.example/*", "https://evil.net/.example/", false, false);
        check("http://127.0.0.1:9/*", "http://evil.com/http://127.0.0.1:9/mcp", false, false);
        check("https://good.example/*", "https://good.example@evil.com/", false, false);
        check("https://good.example/*", "https://evil.com/?x=https://good.example/", false, false);
        check("https://good.example/*", "https://evil.com#https://good.example/", false, false);
        check("https://good.example*/*", "https://good.example.evil.com/", true, true);
        check("*://*/mcp", "https://any.example/mcp", true, true);
        check("*://*/mcp", "https://any.example/mcp/x", false, false);
    }

    #[test]
    fn hosts_ignore_case_and_paths_do_not() {
        check("https://H.Example/mcp", "https://h.EXAMPLE/mcp", true, true);
        check("https://h.example/mcp", "https://h.example/MCP", false, false);
        check("https://bücher.example/", "https://xn--bcher-kva.example/", true, true);
    }

    #[test]
    fn dot_segments_cannot_leave_an_allowed_folder() {
        check("https://h.example/api/*", "https://h.example/api/../admin", false, false);
        check("https://h.example/api/*", "https://h.example/api/%2e%2e/admin", false, false);
    }

    #[test]
    fn an_omitted_component_allows_only_the_default_and_denies_everything() {
        check("https://h.example/mcp", "https://h.example:8443/mcp", false, true);
        check("https://h.example/mcp", "https://h.example:443/mcp", true, true);
        check("https://h.example:*/mcp", "https://h.example:8443/mcp", true, true);
        check("https://h.example/mcp", "https://h.example/mcp?x=1", false, true);
        check("https://h.example/mcp?*", "https://h.example/mcp?x=1", true, true);
        check("https://h.example/*", "https://h.example/mcp?x=1", true, true);
        check("https://h.example/mcp", "https://h.example/mcp/", false, true);
        check("https://h.example", "https://h.example/", true, true);
    }

    #[test]
    fn one_host_in_many_spellings_is_one_host() {
        check("https://evil.example/*", "https://evil.example./mcp", true, true);
        check("https://*.evil.example/*", "https://a.evil.example./mcp", true, true);
        check("http://127.1/*", "http://127.0.0.1/mcp", true, true);
        check("http://[0:0:0:0:0:0:0:1]/*", "http://[::1]/mcp", true, true);
        check(" https://evil.example/* ", "https://evil.example/mcp", true, true);
        check("https://*.bücher.example/*", "https://a.bücher.example/", true, true);
        check("http://127.0.0.1:*/*", "http://[::ffff:127.0.0.1]:80/x", true, true);
        check("https://h.example:0443/*", "https://h.example/x", true, true);
    }

    #[test]
    fn a_denied_host_is_denied_on_every_web_scheme() {
        for url in ["http://evil.example/", "ws://evil.example/x", "wss://evil.example./x"] {
            check("https://evil.example/*", url, false, true);
            check("https://evil.example:443/*", url, false, true);
        }
        check("ws://evil.example/*", "https://evil.example../mcp", false, true);
        check("http*://evil.example/*", "wss://evil.example/mcp", false, true);
        check("https://evil.example:8443/*", "https://evil.example/", false, false);
        check("ftp://evil.example/*", "https://evil.example/", false, false);
    }

    #[test]
    fn escapes_in_a_path_hide_nothing() {
        check("https://h.example/mcp", "https://h.example/%6dcp", true, true);
        check("https://h.example/é x/*", "https://h.example/%C3%A9%20x/y", true, true);
        check("https://h.example/a/b", "https://h.example/a%2Fb", false, true);
        check("https://h.example/mcp/*", "https://h.example/%6dcp/%ff", true, true);
        check("https://h.example/@evil/*", "https://h.example/%40evil/mcp", true, true);
        check("https://h.example/{t}/*", "https://h.example/{t}/mcp", true, true);
        check("https://h.example/mcp", "https://h.example//mcp", false, true);
        check("https://h.example/api/*", "https://h.example/api/..%2fadmin", false, true);
        check("https://h.example/api/*", "https://h.example/api/..%5cadmin", false, true);
        check("https://h.example/api/*", "https://h.example/api/%252e%252e/admin", false, true);
    }

    #[test]
    fn a_pattern_without_a_path_denies_every_path_and_allows_the_root() {
        check("https://h.example", "https://h.example/mcp", false, true);
        check("https://h.example*", "https://h.example/mcp", false, true);
        check("https://h.example/", "https://h.example/mcp", false, false);
    }

    #[test]
    fn addresses_in_brackets_are_hosts() {
        check("http://[::1]:8080/*", "http://[::1]:8080/mcp", true, true);
        check("http://[::1]/*", "http://[::1]/mcp", true, true);
    }

    #[test]
    fn a_pattern_needs_a_scheme_and_a_host() {
        for text in [
            "*127.0.0.1:9/mcp",
            "h.example/mcp",
            "https:///x",
            "://h/",
            "https://u@h/",
            "https://h:/x",
            "https://h:x/",
            "https://h/a/../b",
        ] {
            assert_eq!(UrlPattern::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_without_wildcards_matches_only_itself(a in "[a-z/?\\[{.]{0,12}", b in "[a-z/?\\[{.]{0,12}") {
            prop_assert_eq!(matches_wildcard(&a, &b), a == b);
        }

        #[test]
        fn wildcards_inserted_into_a_text_match_it(parts in prop::collection::vec("[a-c]{0,3}", 1..5)) {
            prop_assert!(matches_wildcard(&parts.join("*"), &parts.join("bb")));
        }

        #[test]
        fn a_wildcard_agrees_with_a_plain_search(pattern in "[ab*]{0,6}", text in "[ab]{0,8}") {
            prop_assert_eq!(matches_wildcard(&pattern, &text), naive_wildcard(pattern.as_bytes(), text.as_bytes()));
        }
    }

    /// Matches by trying every possibility.
    fn naive_wildcard(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|skip| naive_wildcard(rest, &text[skip..])),
            Some((byte, rest)) => text
                .split_first()
                .is_some_and(|(first, more)| first == byte && naive_wildcard(rest, more)),
        }
    }
}
