//! How servers at URLs are reached: proxies, certificates, redirects, and the two HTTP clients.
//! Whom to reach is a [`Target`]; what is said there is left to the transports.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use reqwest::{Certificate, Client, ClientBuilder, Identity, NoProxy, Proxy};
use thiserror::Error;
use url::Url;

use crate::http::http1::{Http1Client, is_plaintext};
use crate::transport_error::{TransportError, UnreachableReason};

pub(crate) use crate::http::authorize::Via;
pub use crate::http::authorize::{
    Authorize, HeadersFuture, OutboundRequest, ResponseHead, RetryDecision, RetryFuture,
};
pub(crate) use crate::http::body::{
    ContentKind, content_kind, drain, not_mcp_error, not_mcp_error_with_body, read_body,
    status_error, status_error_with_body,
};
pub(crate) use crate::http::error::from_reqwest;
pub(crate) use crate::http::response::HttpResponse;
pub use crate::http::target::Target;

/// How many redirects within one origin are followed.
const MAX_REDIRECTS: usize = 5;
/// How many connections a host may keep waiting for us. Without HTTP/2 each call under way has one.
pub(crate) const MAX_IDLE_PER_HOST: usize = 64;
/// How long a connection may wait for another use.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a connection that carries streams is asked whether it lives, and how long it may take to say so.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// What a [`Network`] is made from. Nothing is read from the environment here.
#[derive(Clone)]
pub struct HttpSettings {
    /// Who we say we are.
    pub user_agent: String,
    /// Which way out.
    pub proxies: ProxySettings,
    /// More certificate authorities to trust, as PEM; each may hold several.
    pub extra_ca: Vec<Vec<u8>>,
    /// A certificate of our own with its key, as PEM.
    pub identity: Option<Vec<u8>>,
    /// How long it may take to reach a host.
    pub connect_timeout: Duration,
}

/// Prints no key and no proxy's password.
impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("user_agent", &self.user_agent)
            .field("proxies", &self.proxies)
            .field("extra_ca", &self.extra_ca.len())
            .field("identity", &self.identity.is_some())
            .field("connect_timeout", &self.connect_timeout)
            .finish()
    }
}

/// Proxies by the scheme of the URL they are for. Each is a URL; the scheme of it may be left out.
#[derive(Clone, Default)]
pub struct ProxySettings {
    /// For `http`.
    pub http: Option<String>,
    /// For `https`.
    pub https: Option<String>,
    /// For what has none of its own.
    pub all: Option<String>,
    /// Hosts that are reached without any, as `NO_PROXY` lists them.
    pub no_proxy: Option<String>,
}

/// Prints which there are, not what they are: a proxy's URL may hold a password.
impl fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("http", &self.http.is_some())
            .field("https", &self.https.is_some())
            .field("all", &self.all.is_some())
            .field("no", &self.no_proxy)
            .finish()
    }
}

/// Why no network could be made from the settings.
#[derive(Debug, Error)]
pub enum HttpSetupError {
    /// A proxy cannot be used.
    #[error("the {scheme} proxy is no URL of a proxy")]
    Proxy {
        /// For which scheme it was meant.
        scheme: &'static str,
    },
    /// A certificate authority cannot be used.
    #[error("extra certificate file {} holds no certificates in PEM", .position + 1)]
    ExtraCa {
        /// Which one, from zero.
        position: usize,
    },
    /// Our own certificate cannot be used.
    #[error("the client certificate is no certificate and key in PEM")]
    Identity(#[source] reqwest::Error),
    /// The parts are good, but no client can be made from them.
    #[error("no HTTP client can be set up")]
    Client(#[source] reqwest::Error),
}

/// Whose word on certificate authorities is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustRoots {
    /// The system's.
    System,
    /// The system has none; the ones that come with us.
    Bundled,
}

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

/// The settings, checked.
#[derive(Clone)]
struct CheckedSettings {
    user_agent: String,
    proxies: Vec<Proxy>,
    proxy_hosts: Vec<String>,
    extra: Vec<Certificate>,
    identity: Option<Identity>,
    connect_timeout: Duration,
}

/// A request that can be made again when a redirect says so.
#[derive(Debug)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: Method,
    pub(crate) url: Cow<'a, Url>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
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

impl CheckedSettings {
    fn check(settings: &HttpSettings) -> Result<CheckedSettings, HttpSetupError> {
        let mut extra = Vec::new();
        for (position, pem) in settings.extra_ca.iter().enumerate() {
            match Certificate::from_pem_bundle(pem) {
                Ok(certificates) if !certificates.is_empty() => extra.extend(certificates),
                Ok(_) | Err(_) => return Err(HttpSetupError::ExtraCa { position }),
            }
        }
        let identity = settings.identity.as_deref().map(Identity::from_pem).transpose();
        Ok(CheckedSettings {
            user_agent: settings.user_agent.clone(),
            proxies: settings.proxies.to_reqwest()?,
            proxy_hosts: settings.proxies.hosts(),
            extra,
            identity: identity.map_err(HttpSetupError::Identity)?,
            connect_timeout: settings.connect_timeout,
        })
    }

    fn without_extra(&self) -> CheckedSettings {
        CheckedSettings { extra: Vec::new(), ..self.clone() }
    }

    fn client(&self, roots: TrustRoots) -> Result<Client, reqwest::Error> {
        self.builder(roots).build()
    }

    /// What a server's headers may take is bounded by the library: 100 of them and 400 KiB over HTTP/1.1,
    /// 16 KiB over HTTP/2.
    fn builder(&self, roots: TrustRoots) -> ClientBuilder {
        let mut builder = Client::builder()
            .user_agent(&self.user_agent)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            .connect_timeout(self.connect_timeout)
            .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .http2_keep_alive_timeout(KEEP_ALIVE_INTERVAL);
        for proxy in &self.proxies {
            builder = builder.proxy(proxy.clone());
        }
        if let Some(identity) = &self.identity {
            builder = builder.identity(identity.clone());
        }
        let extra = self.extra.iter().cloned();
        match roots {
            TrustRoots::System if self.extra.is_empty() => builder,
            TrustRoots::System => builder.tls_certs_merge(extra),
            TrustRoots::Bundled => {
                let bundled = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
                let bundled = bundled.filter_map(|der| Certificate::from_der(der).ok());
                builder.tls_certs_only(bundled.chain(extra))
            }
        }
    }
}

impl ProxySettings {
    /// The host of each, where it has one.
    fn hosts(&self) -> Vec<String> {
        let all = [&self.http, &self.https, &self.all].into_iter().flatten();
        let host = |text: &String| {
            let whole = match text.contains("://") {
                true => Url::parse(text),
                false => Url::parse(&format!("http://{text}")),
            };
            Some(whole.ok()?.host_str()?.to_owned())
        };
        all.filter_map(host).collect()
    }

    /// The library takes the first that fits, so the one for everything comes last.
    fn to_reqwest(&self) -> Result<Vec<Proxy>, HttpSetupError> {
        let no = self.no_proxy.as_deref().and_then(NoProxy::from_string);
        let mut proxies = Vec::new();
        let mut add = |scheme, url: &Option<String>, make: fn(&str) -> reqwest::Result<Proxy>| {
            // Environments often have an empty one, which means none.
            let Some(url) = url.as_deref().filter(|url| !url.is_empty()) else { return Ok(()) };
            // The library's error would print the URL, and the URL may hold a password.
            let proxy = make(url).map_err(|_| HttpSetupError::Proxy { scheme })?;
            proxies.push(proxy.no_proxy(no.clone()));
            Ok(())
        };
        add("http", &self.http, |url| Proxy::http(url))?;
        add("https", &self.https, |url| Proxy::https(url))?;
        add("all", &self.all, |url| Proxy::all(url))?;
        Ok(proxies)
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

/// Do two URLs have the scheme, the host and the port in common?
pub(crate) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// A URL's origin as text that can be shown. A host may be as long as its server likes.
pub(crate) fn origin(url: &Url) -> String {
    const MAX_SHOWN_ORIGIN: usize = 300;
    let origin = url.origin();
    match origin.is_tuple() {
        true => origin.ascii_serialization().chars().take(MAX_SHOWN_ORIGIN).collect(),
        false => format!("{}:", url.scheme()).chars().take(MAX_SHOWN_ORIGIN).collect(),
    }
}

impl HttpRequest<'_> {
    fn to_reqwest(&self) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method.clone(), Url::clone(&self.url));
        *request.headers_mut() = self.headers.clone();
        if !self.body.is_empty() {
            *request.body_mut() = Some(self.body.clone().into());
        }
        request
    }
}
