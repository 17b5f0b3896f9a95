//! Token revocation (RFC 7009), so that a logout also ends the login at the authorization server.

use thiserror::Error;
use tracing::{info, warn};

use crate::crypto::dpop::DpopKey;
use crate::discovery::auth_server_metadata::AuthServerMetadataError;
use crate::fetch::{Fetch, FetchError, FetchRequest};
use crate::time_and_random::unix_now;
use crate::time_and_random::with_system_random;
use crate::token::grant::Grant;
use crate::token::request::TokenRequest;
use crate::token_provider::trust_settings::TrustSettings;
use crate::token_store::LoginRecord;

/// Why tokens may still be valid.
#[derive(Debug, Error)]
pub enum RevokeError {
    /// The authorization server does not support revocation.
    #[error("the authorization server does not support token revocation")]
    Unsupported,
    /// The revocation endpoint is refused.
    #[error("the authorization server's endpoint is refused")]
    AuthServerMetadata(#[source] AuthServerMetadataError),
    /// The authorization server is unreachable.
    #[error("the authorization server could not be reached")]
    Fetch(#[source] FetchError),
    /// The authorization server refused.
    #[error("the authorization server answered with HTTP {0}")]
    Rejected(u16),
}

/// Revokes the tokens of a login. The refresh token comes first, because revoking it ends the whole login at
/// most servers.
pub async fn revoke(
    record: &LoginRecord,
    fetch: &dyn Fetch,
    trust: &TrustSettings,
) -> Result<(), RevokeError> {
    for request in requests(record, trust)? {
        let response = fetch.fetch(request).await.map_err(RevokeError::Fetch)?;
        if !response.is_success() {
            warn!(status = response.status, "token not revoked");
            return Err(RevokeError::Rejected(response.status));
        }
    }
    info!("tokens revoked");
    Ok(())
}

fn requests(record: &LoginRecord, trust: &TrustSettings) -> Result<Vec<FetchRequest>, RevokeError> {
    if record.metadata.revocation_endpoint.is_none() {
        return Err(RevokeError::Unsupported);
    }
    let endpoint = record
        .metadata
        .revocation_endpoint(&trust.origin_guard())
        .map_err(RevokeError::AuthServerMetadata)?;
    let refresh = record.tokens.refresh_token.clone().map(|token| (token, "refresh_token"));
    let tokens = refresh.into_iter().chain([(record.tokens.access_token.clone(), "access_token")]);
    let each = tokens.map(|(token, hint)| {
        let token_request = TokenRequest {
            signing_key: trust.signing_key.clone(),
            dpop_key: record.dpop_key.as_ref().and_then(DpopKey::from_stored),
            ..TokenRequest::new(
                endpoint.clone(),
                Grant::Revocation { token, hint },
                record.client.clone(),
            )
        };
        with_system_random(unix_now(), |inputs| token_request.to_fetch_request(inputs))
    });
    Ok(each.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use url::Url;

    use super::*;
    use crate::token_store::tests::record;

    fn trust() -> TrustSettings {
        let server = Url::parse("https://mcp.example.com/").expect("a URL");
        TrustSettings { server, trusted_urls: Vec::new(), proxies: Vec::new(), signing_key: None }
    }

    #[test]
    fn the_refresh_token_goes_back_before_the_other() {
        let mut record = record("https://mcp.example.com/", "https://as.example.com");
        record.metadata.revocation_endpoint = Some("https://as.example.com/revoke".to_owned());
        let requests = requests(&record, &trust()).expect("two");
        let forms = requests.iter().map(|request| {
            assert_eq!(request.url.as_str(), "https://as.example.com/revoke");
            url::form_urlencoded::parse(&request.body).into_owned().collect::<HashMap<_, _>>()
        });
        let sent: Vec<_> = forms
            .map(|form| {
                assert!(
                    !form.contains_key("grant_type") && form["client_secret"] == "canary-secret"
                );
                format!("{} {}", form["token"], form["token_type_hint"])
            })
            .collect();
        assert_eq!(sent, ["canary-refresh refresh_token", "canary-access access_token"]);
    }

    #[test]
    fn tokens_go_nowhere_where_there_is_no_place_for_them() {
        let mut record = record("https://mcp.example.com/", "https://as.example.com");
        assert!(matches!(requests(&record, &trust()), Err(RevokeError::Unsupported)));
        record.metadata.revocation_endpoint = Some("https://169.254.169.254/".to_owned());
        assert!(matches!(requests(&record, &trust()), Err(RevokeError::AuthServerMetadata(_))));
    }
}
