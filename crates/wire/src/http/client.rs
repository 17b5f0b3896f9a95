//! The HTTP client for servers at URLs: chooses the implementation, follows redirects within an origin.
//! The server is a [`Target`]; what is sent is left to the transports.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use http::{Method, StatusCode, header};
use reqwest::{Client, ClientBuilder};
use tracing::debug;
use url::Url;

use super::body::status_error;
use super::error::from_reqwest;
use super::http1::{Http1Client, is_plaintext};
use super::origin::{is_same_origin, origin};
use super::request::HttpRequest;
use super::response::HttpResponse;
use super::settings::CheckedSettings;
use crate::transport_error::{TransportError, UnreachableReason};

pub use super::authorize::{
    Authorize, HeadersFuture, OutboundRequest, ResponseHead, RetryDecision, RetryFuture,
};
pub use super::settings::{HttpSettings, HttpSetupError, ProxySettings, TrustRoots};
pub use super::target::Target;

/// How many redirects within one origin are followed.
const MAX_REDIRECTS: usize = 5;

/// An HTTP client. Clones share connections.
#[derive(Clone)]
pub struct HttpClient(Arc<Inner>);

struct Inner {
    general: Client,
    /// For plain HTTP without a proxy.
    http1: Option<Http1Client>,
    /// For upgrades, which need HTTP/1.1. Built at first use, because it loads certificates again.
    upgrading: OnceLock<Client>,
    settings: CheckedSettings,
    roots: TrustRoots,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("roots", &self.0.roots).finish_non_exhaustive()
    }
}

impl HttpClient {
    /// A client with these settings.
    pub fn new(settings: &HttpSettings) -> Result<HttpClient, HttpSetupError> {
        let checked = CheckedSettings::check(settings)?;
        // With extra certificates, the build succeeds even if the system has none at all.
        let has_system_roots =
            checked.extra.is_empty() || checked.without_extra().client(TrustRoots::System).is_ok();
        let built = match has_system_roots {
            true => checked.client(TrustRoots::System).map(|client| (client, TrustRoots::System)),
            false => {
                checked.client(TrustRoots::Bundled).map(|client| (client, TrustRoots::Bundled))
            }
        };
        let (general, roots) = match built {
            Ok(built) => built,
            Err(first) => match checked.client(TrustRoots::Bundled) {
                Ok(client) => (client, TrustRoots::Bundled),
                Err(_) => return Err(HttpSetupError::Client(first)),
            },
        };
        let has_http_proxy = [&settings.proxies.http, &settings.proxies.all]
            .into_iter()
            .any(|proxy| proxy.as_ref().is_some_and(|it| !it.is_empty()));
        let http1 = (!has_http_proxy)
            .then(|| Http1Client::new(&settings.user_agent, settings.connect_timeout));
        Ok(HttpClient(Arc::new(Inner {
            general,
            http1,
            upgrading: OnceLock::new(),
            settings: checked,
            roots,
        })))
    }

    /// A `reqwest` client with the same proxies, certificates and user agent, for requests that are not MCP
    /// messages. It follows no redirects.
    pub fn reqwest_client(
        &self,
        adjust: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Client, HttpSetupError> {
        adjust(self.0.settings.builder(self.0.roots)).build().map_err(HttpSetupError::Client)
    }

    /// The hosts of the configured proxies.
    pub fn proxy_hosts(&self) -> &[String] {
        &self.0.settings.proxy_hosts
    }

    /// Which certificate authorities are trusted.
    pub fn roots(&self) -> TrustRoots {
        self.0.roots
    }

    /// Sends a request, and follows redirects within the origin.
    pub(crate) async fn send(
        &self,
        request: &mut HttpRequest<'_>,
    ) -> Result<HttpResponse, TransportError> {
        send(&self.0.general, self.0.http1.as_ref(), request).await
    }

    /// Sends a request over HTTP/1.1, whose response may switch protocols.
    pub(crate) async fn send_upgrade(
        &self,
        request: &mut HttpRequest<'_>,
    ) -> Result<HttpResponse, TransportError> {
        let client = match self.0.upgrading.get() {
            Some(client) => client,
            None => {
                let made = self.0.settings.builder(self.0.roots).http1_only().build();
                let made = made.map_err(from_reqwest)?;
                self.0.upgrading.get_or_init(|| made)
            }
        };
        send(client, None, request).await
    }
}

async fn send(
    client: &Client,
    http1: Option<&Http1Client>,
    request: &mut HttpRequest<'_>,
) -> Result<HttpResponse, TransportError> {
    let mut left = MAX_REDIRECTS;
    loop {
        let response: HttpResponse = match http1.filter(|_| is_plaintext(&request.url)) {
            Some(http1) => http1.send(request).await?.into(),
            None => client.execute(request.to_reqwest()).await.map_err(from_reqwest)?.into(),
        };
        if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            let detail = response.status().to_string();
            return Err(TransportError::Unreachable { reason: UnreachableReason::Proxy, detail });
        }
        match redirect_target(request, &response)? {
            Some(_) if left == 0 => return Err(status_error(response).await),
            Some(url) => {
                debug!(status = response.status().as_u16(), "redirect followed");
                request.url = Cow::Owned(url);
            }
            None => return Ok(response),
        }
        left -= 1;
    }
}

/// The target of a redirect that may be followed. Method and body are kept, so a redirect that would change them is
/// returned as a response.
fn redirect_target(
    request: &HttpRequest<'_>,
    response: &HttpResponse,
) -> Result<Option<Url>, TransportError> {
    let keeps_method = match response.status() {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => {
            request.method == Method::GET
        }
        _ => return Ok(None),
    };
    let location = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
    let Some(to) = location.and_then(|to| request.url.join(to).ok()) else { return Ok(None) };
    if !is_same_origin(&to, &request.url) {
        return Err(TransportError::CrossOriginRedirect { to: origin(&to) });
    }
    Ok(keeps_method.then_some(to))
}
