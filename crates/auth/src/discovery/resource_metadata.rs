//! What a server says about itself (RFC 9728), and whether it is about the server that we want.

use serde::Deserialize;
use thiserror::Error;
use url::Url;

use crate::challenge::Binding;
use crate::scopes::Scopes;

/// How many authorization servers are looked at.
const MOST_SERVERS: usize = 16;

/// A server's metadata, checked to be that of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceMetadata {
    /// The server's name for itself, which requests for tokens repeat (RFC 8707).
    pub resource: Option<String>,
    /// Who signs people in there. Not checked.
    pub authorization_servers: Vec<String>,
    /// The scopes there are.
    pub scopes: Option<Scopes>,
    /// Whether tokens are to be bound to a key.
    pub binding: Binding,
}

/// Why a server's metadata is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResourceError {
    /// It is no such document.
    #[error("it is not metadata of a protected resource")]
    Malformed,
    /// It is about another server.
    #[error("it is about `{0}`")]
    Mismatch(String),
    /// It came from elsewhere and does not say what it is about.
    #[error("it does not say which server it is about")]
    Nameless,
}

#[derive(Deserialize)]
struct Raw {
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    dpop_bound_access_tokens_required: bool,
    #[serde(default)]
    dpop_signing_alg_values_supported: Vec<String>,
}

/// Reads metadata that came from `from` and should be about `server`.
pub fn read(body: &[u8], from: &Url, server: &Url) -> Result<ResourceMetadata, ResourceError> {
    let raw: Raw = serde_json::from_slice(body).map_err(|_| ResourceError::Malformed)?;
    match &raw.resource {
        Some(resource) if is_about(resource, server) => {}
        Some(resource) => return Err(ResourceError::Mismatch(short(resource))),
        None if from.origin() == server.origin() => {}
        None => return Err(ResourceError::Nameless),
    }
    let is_known = raw.dpop_signing_alg_values_supported.iter().any(|it| it == "ES256");
    let mut authorization_servers = raw.authorization_servers;
    authorization_servers.truncate(MOST_SERVERS);
    Ok(ResourceMetadata {
        resource: raw.resource,
        authorization_servers,
        scopes: raw.scopes_supported.map(Scopes::of).filter(|scopes| !scopes.is_empty()),
        binding: match (raw.dpop_bound_access_tokens_required, is_known) {
            (true, _) => Binding::Demanded,
            (false, true) => Binding::Offered,
            (false, false) => Binding::Unmentioned,
        },
    })
}

/// Is it a name of the server, or of something that the server is a part of? Another origin never is.
fn is_about(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    if resource.origin() != server.origin() || resource.fragment().is_some() {
        return false;
    }
    let parts = |url: &Url| -> Vec<String> {
        url.path().split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let is_same_query = resource.query().is_none_or(|query| server.query() == Some(query));
    is_same_query && parts(server).starts_with(&parts(&resource))
}

/// What may be shown of a text from a server.
pub(crate) fn short(text: &str) -> String {
    const SHOWN: usize = 200;
    text.chars().filter(|sign| !sign.is_control()).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(resource: &str, server: &str) -> Result<(), ResourceError> {
        let body = serde_json::json!({ "resource": resource }).to_string();
        let server = Url::parse(server).expect("a URL");
        read(body.as_bytes(), &server, &server).map(|_| ())
    }

    #[test]
    fn metadata_must_be_about_the_server_or_what_it_is_part_of() {
        for (resource, server) in [
            ("https://a.b", "https://a.b/mcp"),
            ("https://a.b/", "https://a.b/mcp"),
            ("https://A.B:443/mcp", "https://a.b/mcp"),
            ("https://a.b/mcp/", "https://a.b/mcp"),
            ("https://a.b/x", "https://a.b/x/y"),
            ("https://a.b/mcp?k=v", "https://a.b/mcp?k=v"),
            ("https://a.b/mcp", "https://a.b/mcp?k=v"),
        ] {
            assert_eq!(check(resource, server), Ok(()), "{resource} {server}");
        }
        for (resource, server) in [
            ("https://evil.example/mcp", "https://a.b/mcp"),
            ("http://a.b/mcp", "https://a.b/mcp"),
            ("https://a.b:8443/mcp", "https://a.b/mcp"),
            ("https://a.b/mc", "https://a.b/mcp"),
            ("https://a.b/mcp/more", "https://a.b/mcp"),
            ("https://a.b/other", "https://a.b/mcp"),
            ("https://a.b/mcp?k=v", "https://a.b/mcp"),
            ("https://a.b/mcp#x", "https://a.b/mcp"),
            ("a.b/mcp", "https://a.b/mcp"),
            ("", "https://a.b/mcp"),
        ] {
            let mismatch = ResourceError::Mismatch(resource.to_owned());
            assert_eq!(check(resource, server), Err(mismatch), "{resource} {server}");
        }
    }

    #[test]
    fn a_document_without_a_name_is_taken_from_the_server_only() {
        let [own, other] =
            ["https://a.b/p", "https://c.d/p"].map(|it| Url::parse(it).expect("a URL"));
        assert_eq!(read(b"{}", &own, &own).map(|it| it.resource), Ok(None));
        assert_eq!(read(b"{}", &other, &own), Err(ResourceError::Nameless));
        for body in [&b""[..], b"[]", b"<html>", b"{\"authorization_servers\":\"x\"}", b"\xff"] {
            assert_eq!(read(body, &own, &own), Err(ResourceError::Malformed));
        }
    }

    #[test]
    fn servers_scopes_and_binding_are_read_within_bounds() {
        let own = Url::parse("https://a.b/").expect("a URL");
        let many: Vec<_> = (0..100).map(|it| format!("https://as{it}.example")).collect();
        let body = serde_json::json!({
            "authorization_servers": many,
            "scopes_supported": ["a", "b"],
            "dpop_bound_access_tokens_required": true,
        });
        let read = read(body.to_string().as_bytes(), &own, &own).expect("metadata");
        assert_eq!(read.authorization_servers.len(), MOST_SERVERS);
        assert_eq!(read.scopes, Some(Scopes::parse("a b")));
        assert_eq!(read.binding, Binding::Demanded);
    }
}
