//! Which addresses a server may send us to. Every URL that was discovered passes here before it is fetched or
//! opened, and what its name resolves to passes again when it is connected to.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;
use url::{Host, Origin, Url};

/// The longest URL that is taken from a server.
const LONGEST: usize = 4096;

/// How far a request may go. Each reaches what those before it do, and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Addresses of the public network.
    Public,
    /// Those of private networks, too.
    Private,
    /// This machine, too.
    Local,
    /// Wherever it leads: a person typed it.
    Anywhere,
}

/// Why a URL is not taken from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unsafe {
    /// It is none, or not written as one.
    #[error("it is not a well-formed URL")]
    Malformed,
    /// It is longer than any good one.
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    /// It is of another kind.
    #[error("it is neither http nor https")]
    Scheme,
    /// It is not encrypted and leads further than this machine.
    #[error("it is not encrypted: only https is taken for another machine")]
    Unencrypted,
    /// It holds a user or a password.
    #[error("it names a user")]
    User,
    /// It holds a fragment.
    #[error("it has a fragment")]
    Fragment,
    /// It leads where only a person may send us.
    #[error("it leads to a private address, and nobody but the server named it")]
    Address,
}

/// A URL that was looked at, and how far requests to it may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The URL.
    pub url: Url,
    /// How far.
    pub reach: Reach,
}

/// Decides what of a server's word is taken.
#[derive(Debug, Clone)]
pub struct OriginGuard {
    typed: Vec<Origin>,
    around: Reach,
    proxies: Vec<String>,
}

impl OriginGuard {
    /// A guard that trusts the origins a person typed. The first of them is the server: where that is on this
    /// machine or in a private network, so may be what it names.
    pub fn new(server: &Url, typed: &[Url]) -> OriginGuard {
        let typed = std::iter::once(server).chain(typed).map(Url::origin).collect();
        let around = match class_of(server) {
            Some(Class::Loopback) => Reach::Local,
            Some(Class::Private) => Reach::Private,
            Some(Class::Public | Class::Forbidden) | None => Reach::Public,
        };
        OriginGuard { typed, around, proxies: Vec::new() }
    }

    /// The same, which also knows the names of proxies: those resolve to whatever they like, because they are
    /// connected to, and so no server may name one.
    pub fn with_proxies(mut self, proxies: &[String]) -> OriginGuard {
        self.proxies = proxies.to_vec();
        self
    }

    /// Looks at a URL from a server.
    pub fn check(&self, text: &str) -> Result<Checked, Unsafe> {
        if text.len() > LONGEST {
            return Err(Unsafe::TooLong);
        }
        // The parser would drop some of these without a word.
        let is_bad =
            |sign: char| sign.is_control() || sign.is_whitespace() || "\"<>\\^`{|}".contains(sign);
        if text.contains(is_bad) {
            return Err(Unsafe::Malformed);
        }
        let url = Url::parse(text).map_err(|_| Unsafe::Malformed)?;
        self.check_url(url)
    }

    /// Looks at a URL that was parsed already, such as a redirect's.
    pub fn check_url(&self, url: Url) -> Result<Checked, Unsafe> {
        let is_encrypted = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(Unsafe::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Unsafe::User);
        }
        if url.fragment().is_some() {
            return Err(Unsafe::Fragment);
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(Unsafe::Malformed);
        }
        if self.typed.contains(&url.origin()) {
            return Ok(Checked { url, reach: Reach::Anywhere });
        }
        if url.host_str().is_some_and(|host| self.proxies.iter().any(|it| it == host)) {
            return Err(Unsafe::Address);
        }
        let class = class_of(&url);
        if class.is_some_and(|class| !class.is_within(self.around)) {
            return Err(Unsafe::Address);
        }
        if !is_encrypted && class != Some(Class::Loopback) {
            return Err(Unsafe::Unencrypted);
        }
        Ok(Checked { url, reach: self.around })
    }
}

/// What kind of address it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Public,
    Private,
    Loopback,
    /// Where nothing that answers to strangers should be: metadata of clouds, multicast, nowhere.
    Forbidden,
}

impl Class {
    fn is_within(self, reach: Reach) -> bool {
        match self {
            Class::Public => true,
            Class::Private => reach >= Reach::Private,
            Class::Loopback => reach >= Reach::Local,
            Class::Forbidden => reach == Reach::Anywhere,
        }
    }
}

/// What a URL's host says about itself. A name may say nothing: then its addresses will.
fn class_of(url: &Url) -> Option<Class> {
    match url.host()? {
        Host::Ipv4(address) => Some(class_of_v4(address)),
        Host::Ipv6(address) => Some(class_of_v6(address)),
        Host::Domain(name) => class_of_name(name),
    }
}

fn class_of_name(name: &str) -> Option<Class> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let ends =
        |end: &str| name.strip_suffix(end).is_some_and(|it| it.is_empty() || it.ends_with('.'));
    if ends("localhost") {
        return Some(Class::Loopback);
    }
    if name == "metadata.google.internal" {
        return Some(Class::Forbidden);
    }
    let is_private =
        !name.contains('.') || ["local", "internal", "lan", "home.arpa"].into_iter().any(ends);
    is_private.then_some(Class::Private)
}

fn class_of_v4(address: Ipv4Addr) -> Class {
    let [a, b, c, d] = address.octets();
    match (a, b, c, d) {
        (127, ..) => Class::Loopback,
        (10, ..) | (172, 16..=31, ..) | (192, 168, ..) => Class::Private,
        // Where one provider keeps its machines' credentials, inside of what carriers use among themselves.
        (100, 100, 100, 200) => Class::Forbidden,
        (100, 64..=127, ..) => Class::Private,
        (0, ..) | (169, 254, ..) | (192, 0, 0, _) | (224.., ..) => Class::Forbidden,
        (198, 18..=19, ..) => Class::Private,
        _ => Class::Public,
    }
}

fn class_of_v6(address: Ipv6Addr) -> Class {
    let segments = address.segments();
    if let Some(v4) = v4_inside(address) {
        return class_of_v4(v4);
    }
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        // Another provider's, inside of what is private.
        [0xfd00, 0x0ec2, ..] => Class::Forbidden,
        [0xfc00..=0xfdff, ..] => Class::Private,
        [0x2000..=0x3fff, ..] => Class::Public,
        _ => Class::Forbidden,
    }
}

/// An address of the old kind that travels inside of a new one: mapped, compatible, NAT64, 6to4.
fn v4_inside(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => from(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => from(high, low),
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => from(high, low),
        [0x2002, high, low, ..] => from(high, low),
        _ => None,
    }
}

/// May an address be connected to?
pub fn is_reachable(address: IpAddr, reach: Reach) -> bool {
    match address {
        IpAddr::V4(address) => class_of_v4(address).is_within(reach),
        IpAddr::V6(address) => class_of_v6(address).is_within(reach),
    }
}

/// A name led where it may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the name leads to a private address, and nobody but the server named it")]
pub struct LedAstray;

/// Resolves names and leaves out every address that is out of reach. What it gives is what is connected to,
/// so nobody can answer differently the second time.
#[derive(Debug, Clone)]
pub(crate) struct GuardedResolver {
    pub(crate) reach: Reach,
    /// Proxies are ours to choose, wherever they are.
    pub(crate) exempt: Vec<String>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = match self.exempt.iter().any(|it| it == name.as_str()) {
            true => Reach::Anywhere,
            false => self.reach,
        };
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            within(found, reach).map(|addresses| Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

fn within(
    found: impl Iterator<Item = SocketAddr>,
    reach: Reach,
) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
    let (good, bad): (Vec<_>, Vec<_>) = found.partition(|it| is_reachable(it.ip(), reach));
    match (good.is_empty(), bad.is_empty()) {
        (true, false) => Err(LedAstray.into()),
        (true, true) | (false, _) => Ok(good),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    fn check(server: &str, discovered: &str) -> Result<Reach, Unsafe> {
        OriginGuard::new(&url(server), &[]).check(discovered).map(|checked| checked.reach)
    }

    #[test]
    fn nothing_but_a_plain_url_of_the_web_is_taken() {
        for (text, expected) in [
            ("https://as.example.com/authorize?a=b", Ok(Reach::Public)),
            ("https://as.example.com/$(calc)", Ok(Reach::Public)),
            ("http://as.example.com/authorize", Err(Unsafe::Unencrypted)),
            ("javascript:alert(1)", Err(Unsafe::Scheme)),
            ("file:///etc/passwd", Err(Unsafe::Scheme)),
            ("data:text/html,x", Err(Unsafe::Scheme)),
            ("ms-settings:x", Err(Unsafe::Scheme)),
            ("ftp://as.example.com/", Err(Unsafe::Scheme)),
            ("--flag", Err(Unsafe::Malformed)),
            ("-https://a.b", Err(Unsafe::Malformed)),
            ("$(calc)", Err(Unsafe::Malformed)),
            ("`calc`", Err(Unsafe::Malformed)),
            ("", Err(Unsafe::Malformed)),
            ("//a.b/c", Err(Unsafe::Malformed)),
            ("https://", Err(Unsafe::Malformed)),
            ("https://a.b/\"&calc", Err(Unsafe::Malformed)),
            ("https://a.b/\\x", Err(Unsafe::Malformed)),
            ("https://a.b/a\nb", Err(Unsafe::Malformed)),
            ("https://a.b/a\rb", Err(Unsafe::Malformed)),
            ("https://a.b/a\tb", Err(Unsafe::Malformed)),
            ("https://a.b/a\u{0}b", Err(Unsafe::Malformed)),
            ("https://a.b/a\u{85}b", Err(Unsafe::Malformed)),
            (" https://a.b/", Err(Unsafe::Malformed)),
            ("java\nscript:alert(1)", Err(Unsafe::Malformed)),
            ("https://me@a.b/", Err(Unsafe::User)),
            ("https://:p@a.b/", Err(Unsafe::User)),
            ("https://mcp.example.com@evil.example/", Err(Unsafe::User)),
            ("https://a.b/#x", Err(Unsafe::Fragment)),
        ] {
            assert_eq!(check("https://mcp.example.com/mcp", text), expected, "{text:?}");
        }
        let long = format!("https://a.b/{}", "x".repeat(LONGEST));
        assert_eq!(check("https://mcp.example.com/", &long), Err(Unsafe::TooLong));
    }

    #[test]
    fn a_public_server_cannot_send_us_inside() {
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
            assert_eq!(checked, Err(Unsafe::Address), "{host}");
        }
        for host in ["8.8.8.8", "172.32.0.1", "[2606:4700::1111]", "notlocalhost.com", "a.b"] {
            let discovered = format!("https://{host}/token");
            assert_eq!(check("https://mcp.example.com/", &discovered), Ok(Reach::Public), "{host}");
        }
    }

    #[test]
    fn a_server_inside_may_name_its_neighbours_and_nobody_names_metadata() {
        for (server, discovered, expected) in [
            ("http://localhost:1/mcp", "http://localhost:2/token", Ok(Reach::Local)),
            ("http://127.0.0.1:1/mcp", "http://[::1]:2/token", Ok(Reach::Local)),
            ("http://127.0.0.1:1/mcp", "https://10.0.0.1/token", Ok(Reach::Local)),
            ("http://127.0.0.1:1/mcp", "http://10.0.0.1/token", Err(Unsafe::Unencrypted)),
            ("http://127.0.0.1:1/mcp", "https://169.254.169.254/", Err(Unsafe::Address)),
            ("https://10.0.0.1/mcp", "https://10.0.0.2/token", Ok(Reach::Private)),
            ("https://10.0.0.1/mcp", "https://127.0.0.1/token", Err(Unsafe::Address)),
            ("https://mcp.internal/mcp", "https://as.internal/", Ok(Reach::Private)),
            ("http://10.0.0.1/mcp", "http://10.0.0.1/token", Ok(Reach::Anywhere)),
            ("http://10.0.0.1/mcp", "http://10.0.0.1:81/token", Err(Unsafe::Unencrypted)),
        ] {
            assert_eq!(check(server, discovered), expected, "{server} {discovered}");
        }
    }

    #[test]
    fn what_a_person_typed_may_be_anywhere() {
        let typed = [url("https://169.254.1.1:8443/x"), url("https://sso.corp.example/")];
        let guard = OriginGuard::new(&url("https://mcp.example.com/"), &typed);
        let reach = |text: &str| guard.check(text).map(|checked| checked.reach);
        assert_eq!(reach("https://169.254.1.1:8443/token"), Ok(Reach::Anywhere));
        assert_eq!(reach("https://sso.corp.example/token"), Ok(Reach::Anywhere));
        assert_eq!(reach("https://169.254.1.1/token"), Err(Unsafe::Address));
    }

    #[test]
    fn no_server_names_our_proxy() {
        let guard = OriginGuard::new(&url("https://mcp.example.com/"), &[]);
        let guard = guard.with_proxies(&["proxy.example.com".to_owned()]);
        assert_eq!(guard.check("https://proxy.example.com/x"), Err(Unsafe::Address));
        assert!(guard.check("https://other.example.com/x").is_ok());
    }

    #[test]
    fn a_name_gives_only_addresses_within_reach() {
        let found = |texts: &[&str], reach| {
            let texts: Vec<SocketAddr> = texts.iter().map(|it| it.parse().expect("one")).collect();
            within(texts.into_iter(), reach).map(|good| good.len()).map_err(|_| ())
        };
        assert_eq!(found(&["1.1.1.1:0", "127.0.0.1:0"], Reach::Public), Ok(1));
        assert_eq!(found(&["127.0.0.1:0", "[::1]:0"], Reach::Public), Err(()));
        assert_eq!(found(&["169.254.169.254:0"], Reach::Local), Err(()));
        assert_eq!(found(&["169.254.169.254:0"], Reach::Anywhere), Ok(1));
        assert_eq!(found(&["10.0.0.1:0"], Reach::Private), Ok(1));
        assert_eq!(found(&[], Reach::Public), Ok(0));
    }

    #[tokio::test]
    async fn the_resolver_refuses_a_name_of_this_machine() {
        use std::str::FromStr;
        let name = || Name::from_str("localhost").expect("a name");
        let resolver = GuardedResolver { reach: Reach::Public, exempt: Vec::new() };
        let Err(error) = resolver.resolve(name()).await else { panic!("it is refused") };
        assert!(error.is::<LedAstray>(), "{error}");
        let resolver = GuardedResolver { reach: Reach::Local, exempt: Vec::new() };
        assert!(resolver.resolve(name()).await.is_ok());
        let exempt = vec!["localhost".to_owned()];
        let resolver = GuardedResolver { reach: Reach::Public, exempt };
        assert!(resolver.resolve(name()).await.is_ok());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_stumble_or_passes_as_something_else(text in "(https?://)?[ -~\\n]{0,60}") {
            let guard = OriginGuard::new(&url("https://mcp.example.com/"), &[]);
            if let Ok(checked) = guard.check(&text) {
                prop_assert_eq!(checked.url.scheme(), "https");
                prop_assert!(!checked.url.as_str().contains(['\n', ' ', '"', '`']));
            }
        }
    }
}
