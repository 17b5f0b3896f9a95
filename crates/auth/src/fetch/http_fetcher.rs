//! Fetches over the network, with the proxies and certificates that connections to servers use.

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::BytesMut;
use http::{Method, StatusCode, header};
use reqwest::{Client, Response};
use switchboard_wire::http::client::HttpClient;
use tokio::time::timeout;
use url::Url;

use super::address::AllowedAddresses;
use super::resolver::{GuardedResolver, PrivateAddressError};
use super::{Fetch, FetchError, FetchFuture, FetchRequest, FetchResponse, MAX_RESPONSE_SIZE};

/// The timeout of a whole request.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many redirects within one origin are followed.
pub(super) const MAX_REDIRECTS: usize = 5;
/// The maximum length of an error text from the HTTP library.
const MAX_DETAIL_LENGTH: usize = 300;

/// Fetches over the network. Each class of allowed addresses has its own connection pool, so that a connection
/// to a configured URL is never reused for a URL that a server named. Behind a proxy the proxy resolves names
/// and decides what is reachable.
pub struct HttpFetcher {
    network: HttpClient,
    clients: [OnceLock<Client>; 4],
    timeout: Duration,
}

impl HttpFetcher {
    /// A fetcher with this HTTP client's settings.
    pub fn new(network: HttpClient) -> HttpFetcher {
        HttpFetcher { network, clients: Default::default(), timeout: DEFAULT_TIMEOUT }
    }

    /// Sets the timeout of a whole request.
    pub fn with_timeout(mut self, timeout: Duration) -> HttpFetcher {
        self.timeout = timeout;
        self
    }

    pub(super) fn client(&self, allowed: AllowedAddresses) -> Result<&Client, FetchError> {
        let slot = &self.clients[allowed as usize];
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let exempt_hosts = self.network.proxy_hosts().to_vec();
        let client = self.network.reqwest_client(|builder| match allowed {
            AllowedAddresses::Any => builder,
            AllowedAddresses::Public | AllowedAddresses::Private | AllowedAddresses::Loopback => {
                builder.dns_resolver(GuardedResolver { allowed, exempt_hosts })
            }
        });
        let client = client.map_err(|error| FetchError::Unreachable {
            origin: String::new(),
            detail: error.to_string(),
        })?;
        Ok(slot.get_or_init(|| client))
    }

    async fn send_following_redirects(
        &self,
        mut request: FetchRequest,
    ) -> Result<FetchResponse, FetchError> {
        let client = self.client(request.allowed)?;
        for _ in 0..=MAX_REDIRECTS {
            let origin = display_origin(&request.url);
            let sent = client.execute(to_reqwest(&request)).await;
            let response = sent.map_err(|error| fetch_error(&origin, error))?;
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED
            {
                return read_response(response, &origin).await;
            }
            request.url = redirect_target(&request, &response)?;
        }
        let origin = display_origin(&request.url);
        Err(FetchError::Redirected { to: origin.clone(), origin })
    }
}

impl Fetch for HttpFetcher {
    fn fetch<'a>(&'a self, request: FetchRequest) -> FetchFuture<'a> {
        Box::pin(async move {
            let origin = display_origin(&request.url);
            match timeout(self.timeout, self.send_following_redirects(request)).await {
                Ok(response) => response,
                Err(_) => Err(FetchError::TimedOut { origin }),
            }
        })
    }
}

/// The target of a redirect, if it is followed: only a `GET`, and only within its origin.
fn redirect_target(request: &FetchRequest, response: &Response) -> Result<Url, FetchError> {
    let origin = display_origin(&request.url);
    let Some(to) = redirect_location(&request.url, response) else {
        return Err(FetchError::Redirected { origin, to: "nowhere".to_owned() });
    };
    match request.method == Method::GET && to.origin() == request.url.origin() {
        true => Ok(to),
        false => Err(FetchError::Redirected { origin, to: display_origin(&to) }),
    }
}

/// The URL that a response redirects to.
pub(super) fn redirect_location(from: &Url, response: &Response) -> Option<Url> {
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    from.join(location).ok()
}

pub(super) fn to_reqwest(request: &FetchRequest) -> reqwest::Request {
    let mut prepared = reqwest::Request::new(request.method.clone(), request.url.clone());
    *prepared.headers_mut() = request.headers.clone();
    if !request.body.is_empty() {
        *prepared.body_mut() = Some(request.body.clone().into());
    }
    prepared
}

async fn read_response(mut response: Response, origin: &str) -> Result<FetchResponse, FetchError> {
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(|error| fetch_error(origin, error))? {
        if body.len() + piece.len() > MAX_RESPONSE_SIZE {
            return Err(FetchError::TooLarge { origin: origin.to_owned() });
        }
        body.extend_from_slice(&piece);
    }
    let status = response.status().as_u16();
    let headers = std::mem::take(response.headers_mut());
    Ok(FetchResponse { status, headers, body: body.freeze() })
}

pub(super) fn fetch_error(origin: &str, error: reqwest::Error) -> FetchError {
    let origin = origin.to_owned();
    let error = error.without_url();
    let causes =
        || std::iter::successors(Some(&error as &(dyn Error + 'static)), |&cause| cause.source());
    if causes().any(|cause| cause.is::<PrivateAddressError>()) {
        return FetchError::PrivateAddress { origin };
    }
    let detail = causes().last().map(ToString::to_string).unwrap_or_default();
    FetchError::Unreachable { origin, detail: detail.chars().take(MAX_DETAIL_LENGTH).collect() }
}

/// The origin of a URL, for error messages.
pub(super) fn display_origin(url: &Url) -> String {
    url.origin().ascii_serialization().chars().take(MAX_DETAIL_LENGTH).collect()
}
