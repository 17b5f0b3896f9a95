//! Protected resource metadata (RFC 9728), parsed and matched against the server's URL.

use serde::Deserialize;
use thiserror::Error;
use url::Url;

use crate::challenge::DpopRequirement;
use crate::scopes::Scopes;
use crate::untrusted_text::sanitize_for_display;

/// The maximum number of authorization servers that are read.
const MAX_AUTHORIZATION_SERVERS: usize = 16;

/// The metadata of a server, verified to describe that server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceMetadata {
    /// The resource identifier, which token requests repeat (RFC 8707).
    pub resource: Option<String>,
    /// The issuers of its authorization servers, unchecked.
    pub authorization_servers: Vec<String>,
    /// The supported scopes.
    pub scopes_supported: Option<Scopes>,
    /// Whether tokens must be bound to a key.
    pub dpop: DpopRequirement,
}

/// Why protected resource metadata is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResourceMetadataError {
    /// The document is not protected resource metadata.
    #[error("it is not protected resource metadata")]
    Malformed,
    /// The document describes another server.
    #[error("it describes `{0}`")]
    Mismatch(String),
    /// The document comes from another origin and does not name its resource.
    #[error("it does not name its resource")]
    MissingResource,
}

#[derive(Deserialize)]
struct RawResourceMetadata {
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    dpop_bound_access_tokens_required: bool,
    #[serde(default)]
    dpop_signing_alg_values_supported: Vec<String>,
}

/// Parses metadata fetched from `from`, which must describe `server`.
pub fn parse_resource_metadata(
    body: &[u8],
    from: &Url,
    server: &Url,
) -> Result<ResourceMetadata, ResourceMetadataError> {
    let raw: RawResourceMetadata =
        serde_json::from_slice(body).map_err(|_| ResourceMetadataError::Malformed)?;
    match &raw.resource {
        Some(resource) if covers_server(resource, server) => {}
        Some(resource) => {
            return Err(ResourceMetadataError::Mismatch(sanitize_for_display(resource)));
        }
        None if from.origin() == server.origin() => {}
        None => return Err(ResourceMetadataError::MissingResource),
    }
    let is_known = raw.dpop_signing_alg_values_supported.iter().any(|it| it == "ES256");
    let mut authorization_servers = raw.authorization_servers;
    authorization_servers.truncate(MAX_AUTHORIZATION_SERVERS);
    Ok(ResourceMetadata {
        resource: raw.resource,
        authorization_servers,
        scopes_supported: raw.scopes_supported.map(Scopes::new).filter(|scopes| !scopes.is_empty()),
        dpop: match (raw.dpop_bound_access_tokens_required, is_known) {
            (true, _) => DpopRequirement::Required,
            (false, true) => DpopRequirement::Supported,
            (false, false) => DpopRequirement::Unspecified,
        },
    })
}

/// Whether a resource identifier is the server's URL or a prefix of it, within the same origin.
fn covers_server(resource: &str, server: &Url) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(resource: &str, server: &str) -> Result<(), ResourceMetadataError> {
        let body = serde_json::json!({ "resource": resource }).to_string();
        let server = Url::parse(server).expect("a URL");
        parse_resource_metadata(body.as_bytes(), &server, &server).map(|_| ())
    }

    #[test]
    fn metadata_must_describe_the_server_or_a_prefix_of_its_url() {
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
            let mismatch = ResourceMetadataError::Mismatch(resource.to_owned());
            assert_eq!(check(resource, server), Err(mismatch), "{resource} {server}");
        }
    }

    #[test]
    fn a_document_without_a_resource_is_accepted_only_from_the_server() {
        let [own, other] =
            ["https://a.b/p", "https://c.d/p"].map(|it| Url::parse(it).expect("a URL"));
        assert_eq!(parse_resource_metadata(b"{}", &own, &own).map(|it| it.resource), Ok(None));
        assert_eq!(
            parse_resource_metadata(b"{}", &other, &own),
            Err(ResourceMetadataError::MissingResource)
        );
        for body in [&b""[..], b"[]", b"<html>", b"{\"authorization_servers\":\"x\"}", b"\xff"] {
            assert_eq!(
                parse_resource_metadata(body, &own, &own),
                Err(ResourceMetadataError::Malformed)
            );
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
        let read =
            parse_resource_metadata(body.to_string().as_bytes(), &own, &own).expect("metadata");
        assert_eq!(read.authorization_servers.len(), MAX_AUTHORIZATION_SERVERS);
        assert_eq!(read.scopes_supported, Some(Scopes::parse("a b")));
        assert_eq!(read.dpop, DpopRequirement::Required);
    }
}
