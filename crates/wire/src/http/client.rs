//! How servers at URLs are reached: proxies, certificates, redirects, and the two HTTP clients.
//! Whom to reach is a [`Target`]; what is said there is left to the transports.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use http::{Method, StatusCode, header};
use reqwest::{Client, ClientBuilder};
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

/// The way to servers at URLs. Clones share connections.
#[derive(Clone)]
pub struct HttpClient(Arc<Inner>);

struct Inner {
    general: Client,
    /// For what goes out plainly and on no detour.
    http1: Option<Http1Client>,
    /// For protocols that begin as HTTP/1.1; made when first needed, because it reads certificates anew.
    upgrading: OnceLock<Client>,
    settings: CheckedSettings,
    roots: TrustRoots,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("roots", &self.0.roots).finish_non_exhaustive()
    }
}

impl HttpClient {
    /// A network with these settings.
    pub fn new(settings: &HttpSettings) -> Result<HttpClient, HttpSetupError> {
        let checked = CheckedSettings::check(settings)?;
        // With certificates of its own to add, a client is made even where the system has none at all.
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
        let plain = (!has_http_proxy)
            .then(|| Http1Client::new(&settings.user_agent, settings.connect_timeout));
        Ok(HttpClient(Arc::new(Inner {
            general,
            http1: plain,
            upgrading: OnceLock::new(),
            settings: checked,
            roots,
        })))
    }

    /// A client of one's own with the same proxies, certificates and name, for what is no message to a server.
    /// It follows no redirect.
    pub fn reqwest_client(
        &self,
        adjust: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Client, HttpSetupError> {
        adjust(self.0.settings.builder(self.0.roots)).build().map_err(HttpSetupError::Client)
    }

    /// The hosts of the proxies.
    pub fn proxy_hosts(&self) -> &[String] {
        &self.0.settings.proxy_hosts
    }

    /// Whose certificate authorities are trusted.
    pub fn roots(&self) -> TrustRoots {
        self.0.roots
    }

    /// Makes a request, and makes it again where a redirect within the origin says so.
    pub(crate) async fn send(
        &self,
        request: &mut HttpRequest<'_>,
    ) -> Result<HttpResponse, TransportError> {
        send(&self.0.general, self.0.http1.as_ref(), request).await
    }

    /// The same over HTTP/1.1, for an answer that may become another protocol.
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
    plain: Option<&Http1Client>,
    request: &mut HttpRequest<'_>,
) -> Result<HttpResponse, TransportError> {
    let mut left = MAX_REDIRECTS;
    loop {
        let response: HttpResponse = match plain.filter(|_| is_plaintext(&request.url)) {
            Some(plain) => plain.send(request).await?.into(),
            None => client.execute(request.to_reqwest()).await.map_err(from_reqwest)?.into(),
        };
        if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            let detail = response.status().to_string();
            return Err(TransportError::Unreachable { reason: UnreachableReason::Proxy, detail });
        }
        match redirect_target(request, &response)? {
            Some(_) if left == 0 => return Err(status_error(response).await),
            Some(url) => request.url = Cow::Owned(url),
            None => return Ok(response),
        }
        left -= 1;
    }
}

/// Where to go instead, where the answer says so and we may. A question keeps its method and body on the way,
/// so a redirect that would lose them stays an answer.
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
