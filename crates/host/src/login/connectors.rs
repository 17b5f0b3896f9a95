//! Fetches the list of connectors from the API of the connector account.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, header};
use serde::Deserialize;
use serde_json::Value as Json;
use switchboard_auth::fetch::origin_guard::{AllowedAddresses, CheckedUrl};
use switchboard_auth::fetch::{Fetch, FetchError, FetchRequest, FetchResponse};
use switchboard_wire::http::client::{OutboundRequest, ResponseHead, RetryDecision};
use thiserror::Error;
use url::Url;

use crate::login::connector_account::{AccountToken, NO_ACCOUNT, TOKEN_REFUSED};
use crate::login::context::LoginContext;
use crate::login::server_login::ServerLoginError;
use crate::sources::connector_cache::{ApiConnector, MAX_CONNECTORS, unix_now, usable_connectors};

use crate::sources::connector_cache::ConnectorList;

/// The timeout of the whole list.
pub(crate) const LIST_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_PAGES: usize = 50;
const MAX_CURSOR_BYTES: usize = 1024;
/// How often one page is requested, where a newer token may help.
const MAX_ATTEMPTS: usize = 3;

/// Why there is no list of connectors.
#[derive(Debug, Error)]
pub enum ConnectorsError {
    /// There is no account.
    #[error("{NO_ACCOUNT}")]
    NoAccount,
    /// The account's token cannot be read.
    #[error("the token of your connector account cannot be used")]
    Token(#[source] Arc<ServerLoginError>),
    /// The account rejects the token.
    #[error("{TOKEN_REFUSED}")]
    TokenRefused,
    /// The request failed.
    #[error("your connector account could not be reached")]
    Fetch(#[source] FetchError),
    /// The timeout elapsed.
    #[error("your connector account did not list its connectors within {} s", LIST_TIMEOUT.as_secs())]
    Timeout,
    /// The response is not a list of connectors.
    #[error("your connector account answered with HTTP {0} and no list of connectors")]
    InvalidResponse(u16),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConnectorPage {
    connectors: Vec<Json>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// Fetches all pages of the list. The caller sets the timeout.
pub(crate) async fn fetch_list(
    context: &LoginContext,
    token: &AccountToken,
) -> Result<ConnectorList, ConnectorsError> {
    let services = context
        .services()
        .await
        .map_err(|cause| ConnectorsError::Token(Arc::new(ServerLoginError::unavailable(cause))))?;
    let (mut listed, mut skipped) = (Vec::new(), 0);
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let mut url = token.url().clone();
        if let Some(cursor) = &cursor {
            url.query_pairs_mut().append_pair("cursor", cursor);
        }
        let response = fetch_page(token, url, &*services.fetch).await?;
        let page: ConnectorPage = serde_json::from_slice(&response.body)
            .ok()
            .filter(|_| response.is_success())
            .ok_or(ConnectorsError::InvalidResponse(response.status))?;
        for item in page.connectors {
            match serde_json::from_value::<ApiConnector>(item) {
                Ok(it) => listed.push(it),
                Err(_) => skipped += 1,
            }
        }
        cursor = page.next_cursor.filter(|it| it.len() <= MAX_CURSOR_BYTES && !it.is_empty());
        if cursor.is_none() || listed.len() >= MAX_CONNECTORS {
            break;
        }
    }
    let (connectors, unusable) = usable_connectors(listed.into_iter(), &token.url().origin());
    let skipped = skipped + unusable;
    Ok(ConnectorList { connectors, skipped, listed_at: unix_now(), stale_reason: None })
}

/// Requests one page, again where the authorizer has a newer token.
async fn fetch_page(
    token: &AccountToken,
    url: Url,
    fetch: &dyn Fetch,
) -> Result<FetchResponse, ConnectorsError> {
    let authorizer = token.authorize();
    for _ in 0..MAX_ATTEMPTS {
        let headers = authorizer.headers(OutboundRequest { method: &Method::GET, url: &url }).await;
        // The user typed the URL into the settings, so every address is allowed.
        let mut request =
            FetchRequest::get(CheckedUrl { url: url.clone(), allowed: AllowedAddresses::Any });
        let authorization = headers.get(header::AUTHORIZATION).cloned();
        request.headers.extend(headers);
        let response = fetch.fetch(request).await.map_err(ConnectorsError::Fetch)?;
        let head = ResponseHead {
            status: response.status,
            headers: &response.headers,
            authorization: authorization.as_ref(),
        };
        if response.status != 401 && response.status != 403 {
            authorizer.on_response(head);
            return Ok(response);
        }
        if authorizer.on_unauthorized(head).await == RetryDecision::GiveUp {
            break;
        }
    }
    Err(ConnectorsError::TokenRefused)
}
