//! Giving tokens back (RFC 7009), so that a login ends at the authorization server as well as here.

use thiserror::Error;

use crate::discovery::server_metadata::ServerError;
use crate::dpop::ProofKey;
use crate::fetch::{Fetch, FetchError, Request};
use crate::grant::Grant;
use crate::origin_guard::OriginGuard;
use crate::pkce::at_present;
use crate::refresh::Trust;
use crate::runner::now;
use crate::token_request::TokenRequest;
use crate::vault::Record;

/// Why tokens may still be good.
#[derive(Debug, Error)]
pub enum RevokeError {
    /// The authorization server takes none back.
    #[error("the authorization server takes no tokens back")]
    Unsupported,
    /// Its endpoint is not to be gone to.
    #[error("the authorization server is refused")]
    Server(#[source] ServerError),
    /// It could not be asked.
    #[error("the authorization server could not be asked")]
    Fetch(#[source] FetchError),
    /// It would not.
    #[error("the authorization server answered with HTTP {0}")]
    Refused(u16),
}

/// Gives a login's tokens back. The refresh token goes first: with it most servers end everything.
pub async fn revoke(record: &Record, fetch: &dyn Fetch, trust: &Trust) -> Result<(), RevokeError> {
    for request in requests(record, trust)? {
        let answer = fetch.fetch(request).await.map_err(RevokeError::Fetch)?;
        if !answer.is_success() {
            return Err(RevokeError::Refused(answer.status));
        }
    }
    Ok(())
}

fn requests(record: &Record, trust: &Trust) -> Result<Vec<Request>, RevokeError> {
    if record.metadata.revocation_endpoint.is_none() {
        return Err(RevokeError::Unsupported);
    }
    let guard = OriginGuard::new(&trust.server, &trust.typed).with_proxies(&trust.proxies);
    let endpoint = record.metadata.revocation_endpoint(&guard).map_err(RevokeError::Server)?;
    let refresh = record.held.refresh.clone().map(|token| (token, "refresh_token"));
    let tokens = refresh.into_iter().chain([(record.held.access.clone(), "access_token")]);
    let each = tokens.map(|(token, hint)| {
        let asked = TokenRequest {
            key: trust.key.clone(),
            proof: record.proof.as_ref().and_then(ProofKey::restore),
            ..TokenRequest::new(
                endpoint.clone(),
                Grant::Revocation { token, hint },
                record.client.clone(),
            )
        };
        at_present(now(), |moment| asked.request(moment))
    });
    Ok(each.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use url::Url;

    use super::*;
    use crate::vault::tests::record;

    fn trust() -> Trust {
        let server = Url::parse("https://mcp.example.com/").expect("a URL");
        Trust { server, typed: Vec::new(), proxies: Vec::new(), key: None }
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
        let said: Vec<_> = forms
            .map(|form| {
                assert!(
                    !form.contains_key("grant_type") && form["client_secret"] == "canary-secret"
                );
                format!("{} {}", form["token"], form["token_type_hint"])
            })
            .collect();
        assert_eq!(said, ["canary-refresh refresh_token", "canary-access access_token"]);
    }

    #[test]
    fn tokens_go_nowhere_where_there_is_no_place_for_them() {
        let mut record = record("https://mcp.example.com/", "https://as.example.com");
        assert!(matches!(requests(&record, &trust()), Err(RevokeError::Unsupported)));
        record.metadata.revocation_endpoint = Some("https://169.254.169.254/".to_owned());
        assert!(matches!(requests(&record, &trust()), Err(RevokeError::Server(_))));
    }
}
