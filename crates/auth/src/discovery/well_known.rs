//! The well-known URLs of a server's and an authorization server's metadata, in the order in which the
//! specifications look for them. `resource_metadata` and `auth_server_metadata` check the documents.

use url::Url;

const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";
const OAUTH_AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID_CONFIGURATION: &str = "/.well-known/openid-configuration";

/// The candidate URLs of a server's metadata (RFC 9728, section 3.1). The caller tries the URL of the challenge
/// first.
pub fn resource_metadata_urls(server: &Url) -> Vec<Url> {
    let mut candidates = Vec::new();
    if has_path(server) {
        let mut url = with_path(server, &format!("{PROTECTED_RESOURCE}{}", trimmed_path(server)));
        url.set_query(server.query());
        candidates.push(url);
    }
    candidates.push(with_path(server, PROTECTED_RESOURCE));
    candidates
}

/// The candidate URLs of authorization server metadata: RFC 8414 before OpenID Connect. For an issuer with a
/// path, the well-known part is inserted before the path first, then appended.
pub fn auth_server_metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = trimmed_path(issuer);
    match has_path(issuer) {
        true => vec![
            with_path(issuer, &format!("{OAUTH_AUTHORIZATION_SERVER}{path}")),
            with_path(issuer, &format!("{OPENID_CONFIGURATION}{path}")),
            with_path(issuer, &format!("{path}{OPENID_CONFIGURATION}")),
        ],
        false => vec![
            with_path(issuer, OAUTH_AUTHORIZATION_SERVER),
            with_path(issuer, OPENID_CONFIGURATION),
        ],
    }
}

/// The issuer of a server without metadata, as protocol version 2025-03-26 defines it.
pub fn legacy_issuer(server: &Url) -> Url {
    with_path(server, "/")
}

fn has_path(url: &Url) -> bool {
    !trimmed_path(url).is_empty()
}

/// The path without a trailing slash.
fn trimmed_path(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

/// A URL in the same origin with another path.
fn with_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    let _has_none = url.set_username("").and_then(|()| url.set_password(None));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    fn texts(urls: Vec<Url>) -> Vec<String> {
        urls.iter().map(|url| url.as_str().replace("https://a.b", "")).collect()
    }

    #[test]
    fn a_servers_metadata_is_looked_for_with_its_path_and_then_at_the_root() {
        for (server, expected) in [
            ("https://a.b", &["/.well-known/oauth-protected-resource"][..]),
            ("https://a.b/", &["/.well-known/oauth-protected-resource"]),
            (
                "https://a.b/x/mcp/?k=v#f",
                &[
                    "/.well-known/oauth-protected-resource/x/mcp?k=v",
                    "/.well-known/oauth-protected-resource",
                ],
            ),
            ("https://me:p@a.b/", &["/.well-known/oauth-protected-resource"]),
        ] {
            assert_eq!(texts(resource_metadata_urls(&url(server))), expected, "{server}");
        }
    }

    #[test]
    fn an_issuers_metadata_is_looked_for_in_the_order_of_the_specifications() {
        for (issuer, expected) in [
            (
                "https://a.b",
                &["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"][..],
            ),
            (
                "https://a.b/tenant/1/",
                &[
                    "/.well-known/oauth-authorization-server/tenant/1",
                    "/.well-known/openid-configuration/tenant/1",
                    "/tenant/1/.well-known/openid-configuration",
                ],
            ),
        ] {
            assert_eq!(texts(auth_server_metadata_urls(&url(issuer))), expected, "{issuer}");
        }
        assert_eq!(legacy_issuer(&url("https://a.b/mcp?x=y")).as_str(), "https://a.b/");
    }
}
