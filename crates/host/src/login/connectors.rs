//! Fetches the list of connectors from the API of the connector account, and asks whether the account accepts its session.
//! Every response is untrusted: bounded in pages, items and bytes. The file that keeps the list is left to `sources`.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, header};
use serde_json::Value as Json;
use switchboard_auth::fetch::origin_guard::{AllowedAddresses, CheckedUrl};
use switchboard_auth::fetch::{Fetch, FetchError, FetchRequest, FetchResponse};
use switchboard_wire::http::client::{OutboundRequest, ResponseHead, RetryDecision};
use thiserror::Error;
use tokio::time::timeout;
use url::Url;

use crate::failure::error_chain;
use crate::login::connector_account::{AccountToken, NO_ACCOUNT, SessionState, TOKEN_REFUSED};
use crate::login::context::LoginContext;
use crate::login::server_login::ServerLoginError;
use crate::sources::connector_cache::{
    ApiConnector, ListFailureKind, MAX_CONNECTORS, unix_now, usable_connectors,
};

use crate::sources::connector_cache::ConnectorList;

/// The timeout of the whole list.
pub(crate) const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the account may take to say whether it accepts its session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// How many connectors are requested at once.
const PAGE_SIZE: &str = "1000";
/// Services that version this API by a header need it; the others ignore it.
const VERSION_HEADER: (&str, &str) = ("anthropic-beta", "mcp-servers-2025-12-04");
const MAX_PAGES: usize = 50;
const MAX_CURSOR_BYTES: usize = 1024;
/// How many items are looked at, usable or not.
const MAX_ITEMS: usize = 5_000;
/// How often one page is requested: once more with a newer token.
const MAX_ATTEMPTS: usize = 2;

/// Why there is no list of connectors.
#[derive(Debug, Error)]
pub enum ConnectorsError {
    /// There is no account.
    #[error("{NO_ACCOUNT}")]
    NoAccount,
    /// The token store or the network cannot be used.
    #[error("the token of your connector account cannot be used")]
    Token(#[source] Arc<ServerLoginError>),
    /// The token that the settings name cannot be read, or the login cannot be refreshed now.
    #[error("the token of your connector account cannot be used: {0}")]
    TokenUnavailable(String),
    /// No user is signed in to the account.
    #[error("you are not signed in to your connector account")]
    NotSignedIn,
    /// The account rejects the token.
    #[error("{TOKEN_REFUSED}")]
    TokenRefused,
    /// The request failed.
    #[error("your connector account could not be reached")]
    Fetch(#[source] FetchError),
    /// The timeout elapsed.
    #[error("your connector account did not list its connectors within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The response is not a list of connectors.
    #[error("your connector account answered with HTTP {0} and no list of connectors")]
    InvalidResponse(u16),
}

impl ConnectorsError {
    /// The kind of failure that is kept; `None` without an account.
    pub(crate) fn kind(&self) -> Option<ListFailureKind> {
        match self {
            ConnectorsError::NoAccount => None,
            ConnectorsError::NotSignedIn => Some(ListFailureKind::NotSignedIn),
            ConnectorsError::TokenRefused => Some(ListFailureKind::SessionRefused),
            ConnectorsError::Token(_)
            | ConnectorsError::TokenUnavailable(_)
            | ConnectorsError::Fetch(_)
            | ConnectorsError::Timeout(_)
            | ConnectorsError::InvalidResponse(_) => Some(ListFailureKind::Unavailable),
        }
    }
}

/// A page of the list: its items, and the parameter that requests the next page.
struct ListPage {
    items: Vec<Json>,
    next: Option<(&'static str, String)>,
}

impl ListPage {
    /// Reads a page under any of the names that are known for its members; `None` if it is not one.
    fn read(body: &[u8]) -> Option<ListPage> {
        let Json::Object(mut page) = serde_json::from_slice(body).ok()? else { return None };
        let items = ["data", "connectors", "mcp_servers"].iter().find_map(|it| page.remove(*it))?;
        let Json::Array(items) = items else { return None };
        let is_last = page.get("has_more").and_then(Json::as_bool) == Some(false);
        let cursor = |member: &str| {
            let text = page.get(member)?.as_str()?;
            (!text.is_empty() && text.len() <= MAX_CURSOR_BYTES).then(|| text.to_owned())
        };
        let names = [("next_page", "page"), ("next_cursor", "cursor"), ("nextCursor", "cursor")];
        let mut cursors = names.iter().filter_map(|(member, name)| Some((*name, cursor(member)?)));
        let next = cursors.next().filter(|_| !is_last);
        Some(ListPage { items, next })
    }
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
    let (mut listed, mut skipped, mut seen) = (Vec::new(), 0, 0);
    let mut next: Option<(&str, String)> = None;
    for _ in 0..MAX_PAGES {
        let mut url = list_url(token.url());
        if let Some((name, cursor)) = &next {
            url.query_pairs_mut().append_pair(name, cursor);
        }
        let response = fetch_page(token, url, &*services.fetch).await?;
        let page = ListPage::read(&response.body)
            .filter(|_| response.is_success())
            .ok_or(ConnectorsError::InvalidResponse(response.status))?;
        seen += page.items.len();
        for item in &page.items {
            match ApiConnector::read(item).filter(|_| listed.len() < MAX_CONNECTORS) {
                Some(it) => listed.push(it),
                None => skipped += 1,
            }
        }
        let is_repeated = page.next.is_some() && page.next == next;
        next = page.next.filter(|_| !is_repeated);
        if next.is_none() || listed.len() >= MAX_CONNECTORS || seen >= MAX_ITEMS {
            break;
        }
    }
    let (connectors, unusable) = usable_connectors(listed.into_iter(), token.sites());
    let skipped = skipped + unusable;
    Ok(ConnectorList { connectors, skipped, listed_at: unix_now(), stale_reason: None })
}

/// Whether the account accepts its session, according to its API.
pub(crate) async fn session_state(context: &LoginContext, token: &AccountToken) -> SessionState {
    let refused = |why: String| SessionState::Refused(ListFailureKind::SessionRefused, why);
    let ask = async {
        let Ok(services) = context.services().await else {
            return refused(TOKEN_REFUSED.to_owned());
        };
        let asked = fetch_page(token, list_url(token.url()), &*services.fetch);
        match timeout(SESSION_TIMEOUT, asked).await {
            Ok(Ok(response)) if response.is_success() => SessionState::Accepted,
            Ok(Err(error @ ConnectorsError::TokenUnavailable(_))) if token.login().is_some() => {
                SessionState::NotRefreshed(error.to_string())
            }
            Ok(Err(error @ ConnectorsError::NotSignedIn)) => {
                SessionState::Refused(ListFailureKind::NotSignedIn, error.to_string())
            }
            Ok(Err(
                error @ (ConnectorsError::TokenRefused | ConnectorsError::TokenUnavailable(_)),
            )) => refused(error.to_string()),
            // The proxy refuses the token, and no service confirms that it is good.
            Ok(Ok(_)) | Err(_) => refused(TOKEN_REFUSED.to_owned()),
            Ok(Err(error)) => refused(format!("{TOKEN_REFUSED} ({})", error_chain(&error))),
        }
    };
    token.session_state(ask).await
}

/// The URL of the list with the size of a page.
fn list_url(api: &Url) -> Url {
    let mut url = api.clone();
    if !url.query_pairs().any(|(name, _)| name == "limit") {
        url.query_pairs_mut().append_pair("limit", PAGE_SIZE);
    }
    url
}

/// Requests one page, once more where the authorizer has a newer token.
async fn fetch_page(
    token: &AccountToken,
    url: Url,
    fetch: &dyn Fetch,
) -> Result<FetchResponse, ConnectorsError> {
    let authorizer = token.authorize_api();
    let mut has_token = false;
    for _ in 0..MAX_ATTEMPTS {
        let headers = authorizer.headers(OutboundRequest { method: &Method::GET, url: &url }).await;
        // The user typed the URL into the settings, so every address is allowed.
        let mut request =
            FetchRequest::get(CheckedUrl { url: url.clone(), allowed: AllowedAddresses::Any });
        let authorization = headers.get(header::AUTHORIZATION).cloned();
        has_token = authorization.is_some();
        request.headers.extend(headers);
        let (name, version) = VERSION_HEADER;
        request.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(version));
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
    if let Some(error) = token.last_error() {
        return Err(ConnectorsError::TokenUnavailable(error));
    }
    let is_stored = match token.login() {
        Some(login) => has_token || login.stored_record().await.is_some(),
        None => true,
    };
    Err(match is_stored {
        true => ConnectorsError::TokenRefused,
        false => ConnectorsError::NotSignedIn,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_page_is_added_where_the_url_names_none() {
        let check = |url: &str, expected: &str| {
            assert_eq!(list_url(&Url::parse(url).expect("a URL")).as_str(), expected);
        };
        check("https://a.example/list", "https://a.example/list?limit=1000");
        check("https://a.example/list?limit=5&x=y", "https://a.example/list?limit=5&x=y");
    }

    #[test]
    fn a_page_is_read_leniently_and_its_cursor_is_bounded() {
        let check = |body: &str| {
            let page = ListPage::read(body.as_bytes())?;
            Some((page.items.len(), page.next.map(|(name, cursor)| format!("{name}={cursor}"))))
        };
        let next = |text: &str| Some(text.to_owned());
        assert_eq!(
            check(r#"{"data": [1, {}], "has_more": true, "next_page": "p2"}"#),
            Some((2, next("page=p2")))
        );
        assert_eq!(check(r#"{"data": [], "has_more": false, "next_page": "p2"}"#), Some((0, None)));
        assert_eq!(check(r#"{"connectors": [], "nextCursor": "c"}"#), Some((0, next("cursor=c"))));
        assert_eq!(check(r#"{"data": [], "has_more": true}"#), Some((0, None)));
        assert_eq!(check(r#"{"data": [], "next_page": 7}"#), Some((0, None)));
        let long =
            format!(r#"{{"data": [], "next_page": "{}"}}"#, "x".repeat(MAX_CURSOR_BYTES + 1));
        assert_eq!(check(&long), Some((0, None)));
        for body in ["[]", "{}", r#"{"data": {}}"#, "nonsense", "", r#"{"data": "x"}"#] {
            assert_eq!(check(body), None, "{body}");
        }
    }
}
