//! Checks the URLs that a server names before they are fetched or opened in a browser. The resolver checks
//! again which addresses a host name resolves to.

use thiserror::Error;
use url::{Origin, Url};

use super::address::{AddressClass, classify_host};

pub use super::address::AllowedAddresses;

/// The maximum length of a URL from a server.
const MAX_URL_LENGTH: usize = 4096;

/// Why a URL from a server is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UrlError {
    /// It is not a valid URL.
    #[error("it is not a well-formed URL")]
    Malformed,
    /// It is too long.
    #[error("it is longer than {MAX_URL_LENGTH} bytes")]
    TooLong,
    /// Its scheme is neither http nor https.
    #[error("it is neither http nor https")]
    Scheme,
    /// It is plain http to another machine.
    #[error("it is not encrypted: only https is accepted for another machine")]
    Unencrypted,
    /// It contains a user or a password.
    #[error("it contains a user name or a password")]
    Userinfo,
    /// It contains a fragment.
    #[error("it has a fragment")]
    Fragment,
    /// It points to an address that only a configured URL may reach.
    #[error("it points to a private address, which only a configured URL may do")]
    PrivateAddress,
}

/// A checked URL, and the addresses that requests to it may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedUrl {
    /// The URL.
    pub url: Url,
    /// The addresses that requests may reach.
    pub allowed: AllowedAddresses,
}

/// Decides which URLs from a server are accepted.
#[derive(Debug, Clone)]
pub struct OriginGuard {
    trusted_origins: Vec<Origin>,
    default_allowed: AllowedAddresses,
    proxies: Vec<String>,
}

impl OriginGuard {
    /// A guard that trusts the origins of the server and of the other URLs that the user configured. Where the
    /// server is on this machine or in a private network, the URLs that it names may be there too.
    pub fn new(server: &Url, typed: &[Url]) -> OriginGuard {
        let trusted_origins = std::iter::once(server).chain(typed).map(Url::origin).collect();
        let default_allowed = match classify_host(server) {
            Some(AddressClass::Loopback) => AllowedAddresses::Loopback,
            Some(AddressClass::Private) => AllowedAddresses::Private,
            Some(AddressClass::Public | AddressClass::Forbidden) | None => AllowedAddresses::Public,
        };
        OriginGuard { trusted_origins, default_allowed, proxies: Vec::new() }
    }

    /// Adds the host names of proxies. The resolver accepts any address for them, so no server may name one.
    pub fn with_proxies(mut self, proxies: &[String]) -> OriginGuard {
        self.proxies = proxies.to_vec();
        self
    }

    /// Checks a URL from a server.
    pub fn check(&self, text: &str) -> Result<CheckedUrl, UrlError> {
        if text.len() > MAX_URL_LENGTH {
            return Err(UrlError::TooLong);
        }
        // The URL parser silently drops some of these.
        let is_bad =
            |sign: char| sign.is_control() || sign.is_whitespace() || "\"<>\\^`{|}".contains(sign);
        if text.contains(is_bad) {
            return Err(UrlError::Malformed);
        }
        let url = Url::parse(text).map_err(|_| UrlError::Malformed)?;
        self.check_url(url)
    }

    /// Checks a parsed URL, such as a redirect target.
    pub fn check_url(&self, url: Url) -> Result<CheckedUrl, UrlError> {
        let is_encrypted = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(UrlError::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Userinfo);
        }
        if url.fragment().is_some() {
            return Err(UrlError::Fragment);
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(UrlError::Malformed);
        }
        if self.trusted_origins.contains(&url.origin()) {
            return Ok(CheckedUrl { url, allowed: AllowedAddresses::Any });
        }
        if url.host_str().is_some_and(|host| self.proxies.iter().any(|it| it == host)) {
            return Err(UrlError::PrivateAddress);
        }
        let class = classify_host(&url);
        if class.is_some_and(|class| !class.is_allowed_by(self.default_allowed)) {
            return Err(UrlError::PrivateAddress);
        }
        if !is_encrypted && class != Some(AddressClass::Loopback) {
            return Err(UrlError::Unencrypted);
        }
        Ok(CheckedUrl { url, allowed: self.default_allowed })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    fn check(server: &str, discovered: &str) -> Result<AllowedAddresses, UrlError> {
        OriginGuard::new(&url(server), &[]).check(discovered).map(|checked| checked.allowed)
    }

    #[test]
    fn only_plain_http_urls_are_accepted() {
        for (text, expected) in [
            ("https://as.example.com/authorize?a=b", Ok(AllowedAddresses::Public)),
            ("https://as.example.com/$(calc)", Ok(AllowedAddresses::Public)),
            ("http://as.example.com/authorize", Err(UrlError::Unencrypted)),
            ("javascript:alert(1)", Err(UrlError::Scheme)),
            ("file:///etc/passwd", Err(UrlError::Scheme)),
            ("data:text/html,x", Err(UrlError::Scheme)),
            ("ms-settings:x", Err(UrlError::Scheme)),
            ("ftp://as.example.com/", Err(UrlError::Scheme)),
            ("--flag", Err(UrlError::Malformed)),
            ("-https://a.b", Err(UrlError::Malformed)),
            ("$(calc)", Err(UrlError::Malformed)),
            ("`calc`", Err(UrlError::Malformed)),
            ("", Err(UrlError::Malformed)),
            ("//a.b/c", Err(UrlError::Malformed)),
            ("https://", Err(UrlError::Malformed)),
            ("https://a.b/\"&calc", Err(UrlError::Malformed)),
            ("https://a.b/\\x", Err(UrlError::Malformed)),
            ("https://a.b/a\nb", Err(UrlError::Malformed)),
            ("https://a.b/a\rb", Err(UrlError::Malformed)),
            ("https://a.b/a\tb", Err(UrlError::Malformed)),
            ("https://a.b/a\u{0}b", Err(UrlError::Malformed)),
            ("https://a.b/a\u{85}b", Err(UrlError::Malformed)),
            (" https://a.b/", Err(UrlError::Malformed)),
            ("java\nscript:alert(1)", Err(UrlError::Malformed)),
            ("https://me@a.b/", Err(UrlError::Userinfo)),
            ("https://:p@a.b/", Err(UrlError::Userinfo)),
            ("https://mcp.example.com@evil.example/", Err(UrlError::Userinfo)),
            ("https://a.b/#x", Err(UrlError::Fragment)),
        ] {
            assert_eq!(check("https://mcp.example.com/mcp", text), expected, "{text:?}");
        }
        let long = format!("https://a.b/{}", "x".repeat(MAX_URL_LENGTH));
        assert_eq!(check("https://mcp.example.com/", &long), Err(UrlError::TooLong));
    }

    #[test]
    fn a_public_server_cannot_name_private_addresses() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f.1",
            "017700000001",
            "0.0.0.0",
            "localhost",
            "localhost.",
            "LOCALHOST",
            "a.localhost",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.100.100.200",
            "169.254.169.254",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "[fc00::1]",
            "[ff02::1]",
            "[::ffff:a9fe:a9fe]",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.0.192",
            "intranet",
            "printer.local",
            "metadata.google.internal",
            "db.internal",
            "router.lan",
        ] {
            let discovered = format!("https://{host}/token");
            let checked = check("https://mcp.example.com/mcp", &discovered);
            assert_eq!(checked, Err(UrlError::PrivateAddress), "{host}");
        }
        for host in ["8.8.8.8", "172.32.0.1", "[2606:4700::1111]", "notlocalhost.com", "a.b"] {
            let discovered = format!("https://{host}/token");
            assert_eq!(
                check("https://mcp.example.com/", &discovered),
                Ok(AllowedAddresses::Public),
                "{host}"
            );
        }
    }

    #[test]
    fn a_private_server_may_name_private_addresses_but_not_cloud_metadata() {
        for (server, discovered, expected) in [
            ("http://localhost:1/mcp", "http://localhost:2/token", Ok(AllowedAddresses::Loopback)),
            ("http://127.0.0.1:1/mcp", "http://[::1]:2/token", Ok(AllowedAddresses::Loopback)),
            ("http://127.0.0.1:1/mcp", "https://10.0.0.1/token", Ok(AllowedAddresses::Loopback)),
            ("http://127.0.0.1:1/mcp", "http://10.0.0.1/token", Err(UrlError::Unencrypted)),
            ("http://127.0.0.1:1/mcp", "https://169.254.169.254/", Err(UrlError::PrivateAddress)),
            ("https://10.0.0.1/mcp", "https://10.0.0.2/token", Ok(AllowedAddresses::Private)),
            ("https://10.0.0.1/mcp", "https://127.0.0.1/token", Err(UrlError::PrivateAddress)),
            ("https://mcp.internal/mcp", "https://as.internal/", Ok(AllowedAddresses::Private)),
            ("http://10.0.0.1/mcp", "http://10.0.0.1/token", Ok(AllowedAddresses::Any)),
            ("http://10.0.0.1/mcp", "http://10.0.0.1:81/token", Err(UrlError::Unencrypted)),
        ] {
            assert_eq!(check(server, discovered), expected, "{server} {discovered}");
        }
    }

    #[test]
    fn configured_origins_may_be_anywhere() {
        let typed = [url("https://169.254.1.1:8443/x"), url("https://sso.corp.example/")];
        let guard = OriginGuard::new(&url("https://mcp.example.com/"), &typed);
        let allowed = |text: &str| guard.check(text).map(|checked| checked.allowed);
        assert_eq!(allowed("https://169.254.1.1:8443/token"), Ok(AllowedAddresses::Any));
        assert_eq!(allowed("https://sso.corp.example/token"), Ok(AllowedAddresses::Any));
        assert_eq!(allowed("https://169.254.1.1/token"), Err(UrlError::PrivateAddress));
    }

    #[test]
    fn no_server_may_name_our_proxy() {
        let guard = OriginGuard::new(&url("https://mcp.example.com/"), &[]);
        let guard = guard.with_proxies(&["proxy.example.com".to_owned()]);
        assert_eq!(guard.check("https://proxy.example.com/x"), Err(UrlError::PrivateAddress));
        assert!(guard.check("https://other.example.com/x").is_ok());
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic_or_passes_as_another_url(text in "(https?://)?[ -~\\n]{0,60}") {
            let guard = OriginGuard::new(&url("https://mcp.example.com/"), &[]);
            if let Ok(checked) = guard.check(&text) {
                prop_assert_eq!(checked.url.scheme(), "https");
                prop_assert!(!checked.url.as_str().contains(['\n', ' ', '"', '`']));
            }
        }
    }
}
