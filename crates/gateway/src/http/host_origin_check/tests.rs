//! Attacks on a listener on loopback and elsewhere, a row each, and chance.

use std::collections::HashSet;

use http::{HeaderValue, Method};
use proptest::prelude::*;

use super::*;

const LOOPBACK: &str = "127.0.0.1:8080";

fn checker(bound: &str, hosts: &[&str], origins: &[&str]) -> HostOriginCheck {
    let owned = |all: &[&str]| all.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    let bound = bound.parse().expect("an address");
    HostOriginCheck::new(bound, &owned(hosts), &owned(origins))
        .expect("what is allowed is well-formed")
}

/// A request with these headers, in their order.
fn request(version: Version, target: &str, headers: &[(&str, &[u8])]) -> Request<()> {
    let mut request = Request::builder().version(version).uri(target).method(Method::POST);
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value).expect("a value"));
    }
    request.body(()).expect("a request")
}

fn check(checker: &HostOriginCheck, headers: &[(&str, &str)]) -> Result<(), HostOriginErrorKind> {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let request = request(Version::HTTP_11, "/mcp", &headers);
    checker.check(&request).map_err(|refused| refused.kind)
}

#[test]
fn loopback_names_are_allowed_on_a_loopback_listener() {
    let checker = checker(LOOPBACK, &[], &[]);
    for host in [
        "localhost:8080",
        "LocalHost:8080",
        "127.0.0.1:8080",
        "[::1]:8080",
        "[0:0:0:0:0:0:0:1]:8080",
        "[0000::0001]:8080",
    ] {
        assert_eq!(check(&checker, &[("host", host)]), Ok(()), "{host}");
    }
}

#[test]
fn a_rebound_host_name_is_refused() {
    let checker = checker(LOOPBACK, &[], &[]);
    let not_allowed = HostOriginErrorKind::HostNotAllowed;
    let malformed = HostOriginErrorKind::MalformedHost;
    let rows = [
        // Other names, and names that look like ours.
        ("evil.example:8080", not_allowed),
        ("evil.example", not_allowed),
        ("localhost.evil.example:8080", not_allowed),
        ("127.0.0.1.evil.example:8080", not_allowed),
        ("127.0.0.1.nip.io:8080", not_allowed),
        ("127-0-0-1.evil.example:8080", not_allowed),
        ("evil-localhost:8080", not_allowed),
        ("localhost-:8080", not_allowed),
        ("xlocalhost:8080", not_allowed),
        ("www.localhost:8080", not_allowed),
        ("localhost.localdomain:8080", not_allowed),
        ("loca1host:8080", not_allowed), // misspelt on purpose
        ("ip6-localhost:8080", not_allowed),
        // The port is missing, wrong, or not a port.
        ("localhost", not_allowed),
        ("127.0.0.1", not_allowed),
        ("[::1]", not_allowed),
        ("localhost:80", not_allowed),
        ("localhost:8081", not_allowed),
        ("localhost:80800", malformed),
        ("localhost:", malformed),
        ("localhost:0", malformed),
        ("localhost:08080", malformed),
        ("localhost:+8080", malformed),
        ("localhost:8080 ", malformed),
        ("localhost:8080:8080", malformed),
        ("localhost:8080,evil.example", malformed),
        ("localhost:http", malformed),
        (":8080", malformed),
        ("", malformed),
        // A user, an escape, a path, a trailing dot.
        ("localhost@evil.example:8080", malformed),
        ("evil@localhost:8080", malformed),
        ("localhost:8080@evil.example", malformed),
        ("localhost:8080/evil", malformed),
        ("localhost:8080#evil.example", malformed),
        ("localhost:8080?evil.example", malformed),
        ("localhost\\evil.example:8080", malformed),
        ("%6cocalhost:8080", malformed),
        ("127.0.0.%31:8080", malformed),
        ("localhost%00.evil.example:8080", malformed),
        ("localhost.:8080", malformed),
        ("127.0.0.1.:8080", malformed),
        (".localhost:8080", malformed),
        ("localhost..:8080", malformed),
        ("http://localhost:8080", malformed),
        ("localhost\t:8080", malformed),
        ("locаlhost:8080", malformed),
        ("ⓛocalhost:8080", malformed),
        // Address forms that old parsers accept.
        ("2130706433:8080", malformed),
        ("0x7f000001:8080", malformed),
        ("0x7f.0.0.1:8080", malformed),
        ("0x7f.0.0.0x1:8080", malformed),
        ("017700000001:8080", malformed),
        ("0177.0.0.1:8080", malformed),
        ("127.0.0.01:8080", malformed),
        ("127.1:8080", malformed),
        ("127.0.1:8080", malformed),
        ("0:8080", malformed),
        ("127.0.0.256:8080", malformed),
        // Addresses that reach this machine but are not allowed.
        ("0.0.0.0:8080", not_allowed),
        ("127.0.0.2:8080", not_allowed),
        ("169.254.169.254:8080", not_allowed),
        ("192.168.0.1:8080", not_allowed),
        ("[::]:8080", not_allowed),
        ("[::ffff:127.0.0.1]:8080", not_allowed),
        ("[::ffff:7f00:1]:8080", not_allowed),
        ("[::127.0.0.1]:8080", not_allowed),
        ("[64:ff9b::7f00:1]:8080", not_allowed),
        ("[fe80::1]:8080", not_allowed),
        // Brackets without an IPv6 address.
        ("[::1%lo]:8080", malformed),
        ("[::1%25lo]:8080", malformed),
        ("[fe80::1%eth0]:8080", malformed),
        ("[::1:8080", malformed),
        ("::1:8080", malformed),
        ("[::1]8080", malformed),
        ("[::1].evil.example:8080", malformed),
        ("[127.0.0.1]:8080", malformed),
        ("[localhost]:8080", malformed),
        ("[v1.x]:8080", malformed),
        ("[]:8080", malformed),
        ("[[::1]]:8080", malformed),
    ];
    assert_eq!(rows.len(), rows.iter().map(|row| row.0).collect::<HashSet<_>>().len());
    for (host, reason) in rows {
        assert_eq!(check(&checker, &[("host", host)]), Err(reason), "{host:?}");
    }
    let long = format!("{}:8080", "a".repeat(64));
    assert_eq!(check(&checker, &[("host", &long)]), Err(malformed));
    let long = format!("{}b:8080", "a.".repeat(127));
    assert_eq!(check(&checker, &[("host", &long)]), Err(malformed));
}

/// A version, a target, headers, and the result.
type Row<'a> = (Version, &'a str, &'a [(&'a str, &'a [u8])], Result<(), HostOriginErrorKind>);

#[test]
fn a_request_has_exactly_one_host() {
    let checker = checker(LOOPBACK, &[], &[]);
    let ours: (&str, &[u8]) = ("host", b"localhost:8080");
    let theirs: (&str, &[u8]) = ("host", b"evil.example");
    let other: (&str, &[u8]) = ("x-forwarded-host", b"localhost:8080");
    let rows: &[Row<'_>] = &[
        (Version::HTTP_11, "/mcp", &[ours], Ok(())),
        (Version::HTTP_10, "/mcp", &[ours], Ok(())),
        (Version::HTTP_11, "/mcp", &[], Err(HostOriginErrorKind::MissingHost)),
        (Version::HTTP_10, "/mcp", &[], Err(HostOriginErrorKind::MissingHost)),
        (Version::HTTP_2, "/mcp", &[], Err(HostOriginErrorKind::MissingHost)),
        (Version::HTTP_11, "/mcp", &[ours, ours], Err(HostOriginErrorKind::MultipleHosts)),
        (Version::HTTP_11, "/mcp", &[ours, theirs], Err(HostOriginErrorKind::MultipleHosts)),
        (Version::HTTP_11, "/mcp", &[theirs, ours], Err(HostOriginErrorKind::MultipleHosts)),
        (Version::HTTP_11, "/mcp", &[theirs, other], Err(HostOriginErrorKind::HostNotAllowed)),
        (Version::HTTP_11, "/mcp", &[other], Err(HostOriginErrorKind::MissingHost)),
        (Version::HTTP_11, "http://localhost:8080/mcp", &[ours], Ok(())),
        (Version::HTTP_11, "http://localhost:8080/mcp", &[], Err(HostOriginErrorKind::MissingHost)),
        (
            Version::HTTP_11,
            "http://localhost:8080/mcp",
            &[theirs],
            Err(HostOriginErrorKind::HostNotAllowed),
        ),
        (
            Version::HTTP_11,
            "http://evil.example/mcp",
            &[ours],
            Err(HostOriginErrorKind::HostNotAllowed),
        ),
        (
            Version::HTTP_11,
            "http://localhost:8080@evil.example/",
            &[ours],
            Err(HostOriginErrorKind::MalformedHost),
        ),
        (
            Version::HTTP_11,
            "http://localhost/mcp",
            &[ours],
            Err(HostOriginErrorKind::HostNotAllowed),
        ),
        (
            Version::HTTP_11,
            "ftp://localhost:8080/mcp",
            &[ours],
            Err(HostOriginErrorKind::InvalidTarget),
        ),
        (Version::HTTP_11, "localhost:8080", &[ours], Err(HostOriginErrorKind::InvalidTarget)),
        (Version::HTTP_11, "evil.example:443", &[ours], Err(HostOriginErrorKind::InvalidTarget)),
        (Version::HTTP_11, "*", &[ours], Ok(())),
        (Version::HTTP_2, "http://localhost:8080/mcp", &[], Ok(())),
        (Version::HTTP_2, "http://localhost:8080/mcp", &[ours], Ok(())),
        (
            Version::HTTP_2,
            "http://localhost:8080/mcp",
            &[theirs],
            Err(HostOriginErrorKind::HostNotAllowed),
        ),
        (Version::HTTP_2, "http://evil.example/mcp", &[], Err(HostOriginErrorKind::HostNotAllowed)),
        (
            Version::HTTP_2,
            "http://evil.example/mcp",
            &[ours],
            Err(HostOriginErrorKind::HostNotAllowed),
        ),
        (
            Version::HTTP_11,
            "/mcp",
            &[("host", b"localhost\xff:8080")],
            Err(HostOriginErrorKind::MalformedHost),
        ),
    ];
    for (version, target, headers, expected) in rows {
        let request = request(*version, target, headers);
        let got = checker.check(&request).map_err(|refused| refused.kind);
        assert_eq!(got, *expected, "{version:?} {target} {headers:?}");
    }
}

#[test]
fn only_local_pages_are_allowed_by_default() {
    let checker = checker(LOOPBACK, &[], &[]);
    let origin = |origin| check(&checker, &[("host", "localhost:8080"), ("origin", origin)]);
    for good in [
        "http://localhost:8080",
        "http://localhost:6274",
        "http://localhost",
        "https://localhost:3000",
        "http://127.0.0.1:6274",
        "http://[::1]:6274",
    ] {
        assert_eq!(origin(good), Ok(()), "{good}");
    }
    assert_eq!(origin("null"), Err(HostOriginErrorKind::NullOrigin));
    assert_eq!(origin("NULL"), Err(HostOriginErrorKind::NullOrigin));
    for bad in [
        "",
        "http://evil.example",
        "http://evil.example:8080",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "http://localhost:8080@evil.example",
        "http://evil.example#http://localhost",
        "http://localhost/",
        "http://localhost:8080/mcp",
        "http://localhost:8080 http://evil.example",
        "http://localhost,http://evil.example",
        "http://localhost.",
        "http://0.0.0.0:8080",
        "http://127.0.0.2",
        "http://127.1",
        "http://2130706433",
        "http://[::ffff:127.0.0.1]",
        "http://[::]",
        "localhost:8080",
        "//localhost:8080",
        "file://",
        "file://localhost",
        "ftp://localhost",
        "chrome-extension://abcdefghijklmnop",
        "http://",
        "http:///localhost",
        "null null",
        "*",
    ] {
        assert_eq!(origin(bad), Err(HostOriginErrorKind::OriginNotAllowed), "{bad:?}");
    }
    let twice = [("host", "localhost:8080"), ("origin", "http://localhost"), ("origin", "null")];
    assert_eq!(check(&checker, &twice), Err(HostOriginErrorKind::MultipleOrigins));
}

#[test]
fn configured_hosts_and_origins_are_allowed_exactly() {
    let checker = checker(
        "0.0.0.0:8080",
        &["mcp.example.com", "other.example.com:8443", "10.0.0.5", "[fd00::5]:9000"],
        &["https://App.example.com", "http://app.example.com:3000/", "vscode-webview://Panel"],
    );
    for good in [
        "mcp.example.com",
        "MCP.Example.com",
        "mcp.example.com:443",
        "mcp.example.com:80",
        "mcp.example.com:8080",
        "other.example.com:8443",
        "10.0.0.5:8080",
        "10.0.0.5",
        "[fd00::5]:9000",
        "localhost:8080",
        "127.0.0.1:8080",
    ] {
        assert_eq!(check(&checker, &[("host", good)]), Ok(()), "{good}");
    }
    for bad in [
        "mcp.example.com:8443",
        "other.example.com",
        "other.example.com:8080",
        "x.mcp.example.com",
        "example.com",
        "0.0.0.0:8080",
        "[::]:8080",
        "10.0.0.6:8080",
        "[fd00::5]",
        "192.168.1.7:8080",
    ] {
        assert_eq!(
            check(&checker, &[("host", bad)]),
            Err(HostOriginErrorKind::HostNotAllowed),
            "{bad}"
        );
    }
    let origin = |origin| check(&checker, &[("host", "mcp.example.com"), ("origin", origin)]);
    for good in ["https://app.example.com", "http://app.example.com:3000", "vscode-webview://panel"]
    {
        assert_eq!(origin(good), Ok(()), "{good}");
    }
    // A listener that is not on loopback does not trust local pages.
    for bad in [
        "http://localhost:8080",
        "http://app.example.com",
        "https://app.example.com:3000",
        "https://mcp.example.com",
        "vscode-webview://other",
    ] {
        assert_eq!(origin(bad), Err(HostOriginErrorKind::OriginNotAllowed), "{bad}");
    }
}

#[test]
fn the_bound_address_is_allowed() {
    let lan = checker("192.168.1.7:80", &[], &[]);
    assert_eq!(check(&lan, &[("host", "192.168.1.7")]), Ok(()));
    assert_eq!(check(&lan, &[("host", "192.168.1.7:80")]), Ok(()));
    assert_eq!(check(&lan, &[("host", "localhost")]), Err(HostOriginErrorKind::HostNotAllowed));
    let other = checker("127.0.0.9:8080", &[], &[]);
    assert_eq!(check(&other, &[("host", "127.0.0.9:8080")]), Ok(()));
    let six = checker("[::1]:8080", &[], &[]);
    assert_eq!(check(&six, &[("host", "localhost:8080")]), Ok(()));
    let mapped = checker("[::ffff:127.0.0.1]:8080", &[], &[]);
    assert_eq!(check(&mapped, &[("host", "127.0.0.1:8080")]), Ok(()));
}

#[test]
fn wildcards_and_unspecified_addresses_cannot_be_allowed() {
    use AllowErrorKind::{InvalidHost, InvalidOrigin, UnspecifiedAddress, Wildcard};
    let new = |hosts: &[&str], origins: &[&str]| {
        let owned = |all: &[&str]| all.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let bound = LOOPBACK.parse().expect("an address");
        HostOriginCheck::new(bound, &owned(hosts), &owned(origins))
            .map(|_| ())
            .map_err(|it| it.kind)
    };
    for (host, kind) in [
        ("*", InvalidHost),
        ("*.example.com", InvalidHost),
        ("https://mcp.example.com", InvalidHost),
        ("mcp.example.com/", InvalidHost),
        ("mcp.example.com:", InvalidHost),
        ("", InvalidHost),
        ("0.0.0.0", UnspecifiedAddress),
        ("[::]:8080", UnspecifiedAddress),
    ] {
        assert_eq!(new(&[host], &[]), Err(kind), "{host:?}");
    }
    for (origin, kind) in [
        ("*", Wildcard),
        ("https://*.example.com", Wildcard),
        ("null", InvalidOrigin),
        ("app.example.com", InvalidOrigin),
        ("https://app.example.com/path", InvalidOrigin),
        ("https://user@app.example.com", InvalidOrigin),
        ("https://app.example.com?x", InvalidOrigin),
        ("https://app.example.com#x", InvalidOrigin),
        ("file:///", InvalidOrigin),
        ("data:text/html,x", InvalidOrigin),
    ] {
        assert_eq!(new(&[], &[origin]), Err(kind), "{origin:?}");
    }
}

#[test]
fn a_wrong_host_is_forbidden_and_a_malformed_one_is_a_bad_request() {
    let checker = checker(LOOPBACK, &[], &[]);
    let status = |headers: &[(&str, &[u8])]| {
        let request = request(Version::HTTP_11, "/mcp", headers);
        checker.check(&request).map_err(|refused| refused.status.as_u16())
    };
    assert_eq!(status(&[("host", b"evil.example")]), Err(403));
    assert_eq!(status(&[("host", b"localhost:8080"), ("origin", b"null")]), Err(403));
    assert_eq!(
        status(&[("host", b"localhost:8080"), ("origin", b"http://evil.example")]),
        Err(403)
    );
    assert_eq!(status(&[("host", b"a@b")]), Err(400));
    assert_eq!(status(&[]), Err(400));
}

#[test]
fn a_preflight_response_lists_the_allowed_headers() {
    let checker = checker(LOOPBACK, &[], &["https://app.example.com"]);
    let ask = |method: Method, headers: &[(&str, &[u8])]| {
        let mut request = request(Version::HTTP_11, "/mcp", headers);
        *request.method_mut() = method;
        checker.preflight(&request)
    };
    let host: (&str, &[u8]) = ("host", b"localhost:8080");
    let page: (&str, &[u8]) = ("origin", b"https://app.example.com");
    let wants: (&str, &[u8]) = ("access-control-request-method", b"POST");
    let more: (&str, &[u8]) =
        ("access-control-request-headers", b"mcp-param-region,x-evil, Mcp-Param-b;x,mcp-param-");
    let private: (&str, &[u8]) = ("access-control-request-private-network", b"true");
    let answer = ask(Method::OPTIONS, &[host, page, wants, more, private]).expect("an answer");
    assert_eq!(answer["access-control-allow-origin"], "https://app.example.com");
    assert_eq!(answer["vary"], "origin");
    assert_eq!(answer["access-control-allow-methods"], "GET, POST, DELETE");
    assert_eq!(answer["access-control-allow-private-network"], "true");
    assert!(!answer.contains_key("access-control-allow-credentials"));
    let sent = answer["access-control-allow-headers"].to_str().expect("a text");
    for name in [
        "content-type",
        "authorization",
        "mcp-protocol-version",
        "mcp-session-id",
        "mcp-method",
        "mcp-name",
        "last-event-id",
        "mcp-param-region",
    ] {
        assert!(sent.split(", ").any(|it| it == name), "{name} in {sent}");
    }
    assert!(!sent.contains("evil") && !sent.contains(';') && !sent.contains('*'), "{sent}");
    assert_eq!(ask(Method::GET, &[host, page, wants]), None);
    assert_eq!(ask(Method::OPTIONS, &[host, page]), None);
    assert_eq!(ask(Method::OPTIONS, &[host, wants]), None);
    assert_eq!(ask(Method::OPTIONS, &[host, ("origin", b"http://evil.example"), wants]), None);
    assert_eq!(ask(Method::OPTIONS, &[host, ("origin", b"null"), wants]), None);
}

#[test]
fn a_response_has_cors_headers_for_an_allowed_origin() {
    let checker = checker(LOOPBACK, &[], &[]);
    let shared = |origin: Option<&'static str>| {
        let mut asked = HeaderMap::new();
        asked.extend(origin.map(|it| (ORIGIN, HeaderValue::from_static(it))));
        let mut answer = HeaderMap::new();
        checker.add_cors_headers(&asked, &mut answer);
        answer
    };
    let answer = shared(Some("http://localhost:6274"));
    assert_eq!(answer["access-control-allow-origin"], "http://localhost:6274");
    let shown = answer["access-control-expose-headers"].to_str().expect("a text");
    assert!(shown.contains("mcp-session-id") && shown.contains("www-authenticate"), "{shown}");
    assert!(shared(None).is_empty() && shared(Some("null")).is_empty());
    assert!(shared(Some("http://evil.example")).is_empty());
}

/// Texts that are nearly valid, and arbitrary bytes.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "localhost",
        "LOCALHOST",
        "127.0.0.1",
        "[::1]",
        "::1",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "mcp.example.com",
        "evil.example",
        "0x7f",
        "127",
        ":8080",
        ":443",
        ":80",
        ":",
        ".",
        "@",
        "%",
        "%2e",
        "/",
        "#",
        "?",
        "\\",
        "[",
        "]",
        " ",
        "\t",
        "http://",
        "https://",
        "null",
        "1",
    ]);
    let mixed = prop::collection::vec(pieces, 0..6).prop_map(|all| all.concat().into_bytes());
    prop_oneof![3 => mixed, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_check_never_panics_and_allows_only_listed_hosts(host in hostile(), origin in hostile()) {
        let checker = checker(LOOPBACK, &["mcp.example.com"], &["https://app.example.com"]);
        let (Ok(host), Ok(origin)) = (HeaderValue::from_bytes(&host), HeaderValue::from_bytes(&origin))
        else { return Ok(()) };
        let mut request = Request::new(());
        request.headers_mut().insert(HOST, host.clone());
        let without = checker.check(&request);
        request.headers_mut().insert(ORIGIN, origin.clone());
        let with = checker.check(&request);
        let _answer = checker.preflight(&request);
        prop_assert!(with.is_err() || without.is_ok());
        // The URL parser of browsers must agree.
        let parsed = |text: String| Url::parse(&text).expect("what is let in is a URL to a browser");
        if without.is_ok() {
            let url = parsed(format!("http://{}/", host.to_str().expect("ASCII")));
            let is_this = ["localhost", "127.0.0.1", "[::1]"].contains(&url.host_str().expect("a host"))
                && url.port() == Some(8080);
            let is_other = url.host_str() == Some("mcp.example.com")
                && [None, Some(443), Some(8080)].contains(&url.port());
            prop_assert!(is_this || is_other, "{}", url);
            prop_assert!(url.username().is_empty() && url.path() == "/" && url.query().is_none());
        }
        if with.is_ok() {
            let url = parsed(origin.to_str().expect("ASCII").to_owned());
            let host = url.host_str().expect("a host");
            prop_assert!(["localhost", "127.0.0.1", "[::1]", "app.example.com"].contains(&host));
        }
    }
}
