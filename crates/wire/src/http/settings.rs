//! Settings of an HTTP client: proxies, certificates, timeouts. Checks them and configures `reqwest`.

use std::fmt;
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, Identity, NoProxy, Proxy};
use thiserror::Error;
use url::Url;

use super::http1::{IDLE_TIMEOUT, MAX_IDLE_PER_HOST};

/// The interval of HTTP/2 pings on open connections, and the time limit for their acknowledgement.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Settings of an [`HttpClient`](super::HttpClient). The environment is not read here.
#[derive(Clone)]
pub struct HttpSettings {
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The proxies.
    pub proxies: ProxySettings,
    /// Additional certificate authorities in PEM; each entry may contain several.
    pub extra_ca: Vec<Vec<u8>>,
    /// The client certificate with its key, in PEM.
    pub identity: Option<Vec<u8>>,
    /// The time limit for connecting to a host.
    pub connect_timeout: Duration,
}

/// Omits keys and proxy passwords.
impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSettings")
            .field("user_agent", &self.user_agent)
            .field("proxies", &self.proxies)
            .field("extra_ca", &self.extra_ca.len())
            .field("identity", &self.identity.is_some())
            .field("connect_timeout", &self.connect_timeout)
            .finish()
    }
}

/// Proxies by the scheme of the request URL. Each is a URL; its own scheme may be omitted.
#[derive(Clone, Default)]
pub struct ProxySettings {
    /// For `http`.
    pub http: Option<String>,
    /// For `https`.
    pub https: Option<String>,
    /// For requests without a proxy for their scheme.
    pub all: Option<String>,
    /// Hosts that are reached without a proxy, in the syntax of `NO_PROXY`.
    pub no_proxy: Option<String>,
}

/// Prints which proxies are set, but not their URLs, which may contain passwords.
impl fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxySettings")
            .field("http", &self.http.is_some())
            .field("https", &self.https.is_some())
            .field("all", &self.all.is_some())
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

/// Why no client can be built from the settings.
#[derive(Debug, Error)]
pub enum HttpSetupError {
    /// The URL of a proxy is invalid.
    #[error("the {scheme} proxy is not a valid proxy URL")]
    Proxy {
        /// The scheme that the proxy is for.
        scheme: &'static str,
    },
    /// A certificate file is invalid.
    #[error("extra certificate file {} contains no PEM certificates", .position + 1)]
    ExtraCa {
        /// The index of the file.
        position: usize,
    },
    /// The client certificate is invalid.
    #[error("the client certificate is not a PEM certificate with its key")]
    Identity(#[source] reqwest::Error),
    /// The settings are valid, but the client cannot be built.
    #[error("the HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
}

/// The source of the trusted certificate authorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustRoots {
    /// The system.
    System,
    /// The bundled set, because the system has none.
    Bundled,
}

/// Validated settings.
#[derive(Clone)]
pub(super) struct CheckedSettings {
    user_agent: String,
    proxies: Vec<Proxy>,
    pub(super) proxy_hosts: Vec<String>,
    pub(super) extra: Vec<Certificate>,
    identity: Option<Identity>,
    connect_timeout: Duration,
}

impl CheckedSettings {
    pub(super) fn check(settings: &HttpSettings) -> Result<CheckedSettings, HttpSetupError> {
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

    pub(super) fn without_extra(&self) -> CheckedSettings {
        CheckedSettings { extra: Vec::new(), ..self.clone() }
    }

    pub(super) fn client(&self, roots: TrustRoots) -> Result<Client, reqwest::Error> {
        self.builder(roots).build()
    }

    /// The library limits response headers: 100 headers and 400 KiB over HTTP/1.1, 16 KiB over HTTP/2.
    pub(super) fn builder(&self, roots: TrustRoots) -> ClientBuilder {
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
    /// The host of each proxy.
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

    /// The library uses the first proxy that matches, so the general one comes last.
    fn to_reqwest(&self) -> Result<Vec<Proxy>, HttpSetupError> {
        let no_proxy = self.no_proxy.as_deref().and_then(NoProxy::from_string);
        let mut proxies = Vec::new();
        let mut add = |scheme, url: &Option<String>, make: fn(&str) -> reqwest::Result<Proxy>| {
            // Environments often set an empty value, which means none.
            let Some(url) = url.as_deref().filter(|url| !url.is_empty()) else { return Ok(()) };
            // The library's error contains the URL, which may contain a password.
            let proxy = make(url).map_err(|_| HttpSetupError::Proxy { scheme })?;
            proxies.push(proxy.no_proxy(no_proxy.clone()));
            Ok(())
        };
        add("http", &self.http, |url| Proxy::http(url))?;
        add("https", &self.https, |url| Proxy::https(url))?;
        add("all", &self.all, |url| Proxy::all(url))?;
        Ok(proxies)
    }
}
