//! Settings of an HTTP client: proxies, certificates, timeouts. Checks them and configures `reqwest`.

use std::fmt;
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, Identity, NoProxy, Proxy};
use thiserror::Error;
use url::Url;

use super::http1::{IDLE_TIMEOUT, MAX_IDLE_PER_HOST};

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

/// The settings, checked.
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

    /// What a server's headers may take is bounded by the library: 100 of them and 400 KiB over HTTP/1.1,
    /// 16 KiB over HTTP/2.
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
