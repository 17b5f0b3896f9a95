//! Checks the `Host` and `Origin` headers of a request before its path is read: protects against DNS rebinding and
//! against pages of other origins. Authentication and routing come later. Pure; allocates nothing for allowed requests.

mod cors;
mod host_port;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Request, StatusCode, Version};
use thiserror::Error;
use url::Url;

use host_port::{Host, HostPort};

/// The ports that browsers leave out of a URL.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// Checks the `Host` and `Origin` headers of requests.
#[derive(Debug, Clone)]
pub struct HostOriginCheck {
    port: u16,
    allowed_hosts: Vec<AllowedHost>,
    implicit_origins: ImplicitOrigins,
    /// Complete origins in lower case, as browsers send them.
    allowed_origins: Vec<String>,
}

/// A host name or address of the gateway.
#[derive(Debug, Clone)]
struct AllowedHost {
    host: OwnedHost,
    ports: AllowedPorts,
}

#[derive(Debug, Clone)]
enum OwnedHost {
    Name(String),
    Address(IpAddr),
}

/// The ports that are allowed with a host.
#[derive(Debug, Clone, Copy)]
enum AllowedPorts {
    /// Exactly this port.
    Exact(u16),
    /// The listener's port and the default ports, because a reverse proxy may forward requests.
    ListenerOrDefault,
}

/// The origins that are allowed without configuration.
#[derive(Debug, Clone, Copy)]
enum ImplicitOrigins {
    None,
    /// Pages served by this machine, at any port.
    Localhost,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{kind}")]
pub struct HostOriginError {
    /// The status of the response.
    pub status: StatusCode,
    /// The reason.
    pub kind: HostOriginErrorKind,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HostOriginErrorKind {
    /// There is no `Host` header.
    #[error("the request has no Host header")]
    MissingHost,
    /// There are several `Host` headers.
    #[error("the request has several Host headers")]
    MultipleHosts,
    /// The `Host` header is not a host and port in canonical form.
    #[error("the Host header is malformed")]
    MalformedHost,
    /// The host is not allowed.
    #[error("the Host header is not allowed; allow it with --allow-host")]
    HostNotAllowed,
    /// The target has the form for a proxy, or another scheme.
    #[error("the request target is not valid here")]
    InvalidTarget,
    /// There are several `Origin` headers.
    #[error("the request has several Origin headers")]
    MultipleOrigins,
    /// The origin is `null`.
    #[error("the request has the origin `null`")]
    NullOrigin,
    /// The origin is not allowed.
    #[error("the Origin header is not allowed; allow it with --allow-origin")]
    OriginNotAllowed,
}

impl HostOriginErrorKind {
    /// The status of the response.
    fn status(self) -> StatusCode {
        match self {
            HostOriginErrorKind::MissingHost
            | HostOriginErrorKind::MultipleHosts
            | HostOriginErrorKind::MalformedHost
            | HostOriginErrorKind::MultipleOrigins
            | HostOriginErrorKind::InvalidTarget => StatusCode::BAD_REQUEST,
            HostOriginErrorKind::HostNotAllowed
            | HostOriginErrorKind::NullOrigin
            | HostOriginErrorKind::OriginNotAllowed => StatusCode::FORBIDDEN,
        }
    }
}

impl From<HostOriginErrorKind> for HostOriginError {
    fn from(reason: HostOriginErrorKind) -> HostOriginError {
        HostOriginError { status: reason.status(), kind: reason }
    }
}

/// A host or origin that cannot be allowed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` cannot be allowed")]
pub struct AllowError {
    /// The text in the configuration.
    pub text: String,
    /// The reason.
    #[source]
    pub kind: AllowErrorKind,
}

/// The reason why a host or origin cannot be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AllowErrorKind {
    /// It is not a host.
    #[error("it is not a host name or address, alone or with `:port`")]
    InvalidHost,
    /// It is the unspecified address.
    #[error("it is the unspecified address: use the address that clients use")]
    UnspecifiedAddress,
    /// It is not an origin.
    #[error("it is not an origin such as `https://app.example.com`")]
    InvalidOrigin,
    /// It is a wildcard.
    #[error("wildcards would allow every page; list the origins one by one")]
    Wildcard,
}

impl HostOriginCheck {
    /// The check for a listener at this address, with further `hosts` and `origins`. A listener on loopback also allows
    /// this machine's names and pages.
    pub fn new(
        bound: SocketAddr,
        hosts: &[String],
        origins: &[String],
    ) -> Result<HostOriginCheck, AllowError> {
        let address = bound.ip().to_canonical();
        let ports = AllowedPorts::Exact(bound.port());
        let mut allowed = Vec::new();
        // A listener on the unspecified address listens on loopback, too. The `Host` `0.0.0.0` is not allowed: some
        // browsers connect to this machine for it.
        if address.is_loopback() || address.is_unspecified() {
            let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
            let addresses = loopback.map(|it| AllowedHost { host: OwnedHost::Address(it), ports });
            allowed.push(AllowedHost { host: OwnedHost::Name("localhost".to_owned()), ports });
            allowed.extend(addresses);
        }
        if !address.is_unspecified() {
            allowed.push(AllowedHost { host: OwnedHost::Address(address), ports });
        }
        for text in hosts {
            allowed.push(AllowedHost::parse(text)?);
        }
        let implicit_origins = match address.is_loopback() {
            true => ImplicitOrigins::Localhost,
            false => ImplicitOrigins::None,
        };
        let origins = origins.iter().map(|text| parse_origin(text)).collect::<Result<_, _>>()?;
        Ok(HostOriginCheck {
            port: bound.port(),
            allowed_hosts: allowed,
            implicit_origins,
            allowed_origins: origins,
        })
    }

    /// Checks a request's target, `Host` and `Origin`.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), HostOriginError> {
        self.check_host(request)?;
        self.check_origin(request.headers())
    }

    fn check_host<B>(&self, request: &Request<B>) -> Result<(), HostOriginError> {
        let target = request.uri();
        match (target.scheme_str(), target.authority()) {
            (None, None) => {}
            (Some("http" | "https"), Some(authority)) => {
                self.check_host_value(authority.as_str().as_bytes())?
            }
            // Targets of `CONNECT`, and of other schemes.
            (Some(_) | None, Some(_) | None) => {
                return Err(HostOriginErrorKind::InvalidTarget.into());
            }
        }
        let mut hosts = request.headers().get_all(HOST).iter();
        match (hosts.next(), hosts.next()) {
            (Some(_), Some(_)) => Err(HostOriginErrorKind::MultipleHosts.into()),
            (Some(host), None) => self.check_host_value(host.as_bytes()),
            // From HTTP/2 on, the target has the host.
            (None, _) if request.version() >= Version::HTTP_2 && target.authority().is_some() => {
                Ok(())
            }
            (None, _) => Err(HostOriginErrorKind::MissingHost.into()),
        }
    }

    /// Checks a host against the allowed ones.
    fn check_host_value(&self, host: &[u8]) -> Result<(), HostOriginError> {
        let requested = HostPort::parse(host).ok_or(HostOriginErrorKind::MalformedHost)?;
        match self.allowed_hosts.iter().any(|it| it.matches(requested, self.port)) {
            true => Ok(()),
            false => Err(HostOriginErrorKind::HostNotAllowed.into()),
        }
    }

    /// Checks the origin. Requests that no page sent have none.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), HostOriginError> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(()) };
        if origins.next().is_some() {
            return Err(HostOriginErrorKind::MultipleOrigins.into());
        }
        let origin = origin.as_bytes();
        if origin.eq_ignore_ascii_case(b"null") {
            return Err(HostOriginErrorKind::NullOrigin.into());
        }
        let is_named =
            self.allowed_origins.iter().any(|it| origin.eq_ignore_ascii_case(it.as_bytes()));
        match is_named || self.implicit_origins.allow(origin) {
            true => Ok(()),
            false => Err(HostOriginErrorKind::OriginNotAllowed.into()),
        }
    }
}

impl AllowedHost {
    fn parse(text: &str) -> Result<AllowedHost, AllowError> {
        let refuse = |kind| AllowError { text: text.to_owned(), kind };
        let parsed =
            HostPort::parse(text.as_bytes()).ok_or_else(|| refuse(AllowErrorKind::InvalidHost))?;
        let host = match parsed.host {
            Host::Address(address) if address.is_unspecified() => {
                return Err(refuse(AllowErrorKind::UnspecifiedAddress));
            }
            Host::Address(address) => OwnedHost::Address(address),
            Host::Name(name) => OwnedHost::Name(name.to_owned()),
        };
        Ok(AllowedHost {
            host,
            ports: parsed.port.map_or(AllowedPorts::ListenerOrDefault, AllowedPorts::Exact),
        })
    }

    fn matches(&self, requested: HostPort<'_>, listener_port: u16) -> bool {
        let host = match &self.host {
            OwnedHost::Name(name) => Host::Name(name),
            OwnedHost::Address(address) => Host::Address(*address),
        };
        let is_port = match (self.ports, requested.port) {
            (AllowedPorts::Exact(port), Some(requested)) => port == requested,
            (AllowedPorts::Exact(port), None) => DEFAULT_PORTS.contains(&port),
            (AllowedPorts::ListenerOrDefault, Some(requested)) => {
                requested == listener_port || DEFAULT_PORTS.contains(&requested)
            }
            (AllowedPorts::ListenerOrDefault, None) => true,
        };
        is_port && host == requested.host
    }
}

impl ImplicitOrigins {
    fn allow(self, origin: &[u8]) -> bool {
        let host = match self {
            ImplicitOrigins::None => None,
            ImplicitOrigins::Localhost => {
                origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"))
            }
        };
        match host.and_then(HostPort::parse).map(|it| it.host) {
            Some(Host::Name(name)) => name.eq_ignore_ascii_case("localhost"),
            Some(Host::Address(IpAddr::V4(address))) => address == Ipv4Addr::LOCALHOST,
            Some(Host::Address(IpAddr::V6(address))) => address == Ipv6Addr::LOCALHOST,
            None => false,
        }
    }
}

/// Parses an origin as browsers send it. Extensions and editors have schemes of their own.
fn parse_origin(text: &str) -> Result<String, AllowError> {
    let refuse = |kind| AllowError { text: text.to_owned(), kind };
    if text.contains('*') {
        return Err(refuse(AllowErrorKind::Wildcard));
    }
    let not_origin = || refuse(AllowErrorKind::InvalidOrigin);
    let url = Url::parse(text).map_err(|_| not_origin())?;
    let is_bare = url.username().is_empty()
        && url.password().is_none()
        && matches!(url.path(), "" | "/")
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_bare || url.host_str().is_none_or(str::is_empty) || !text.is_ascii() {
        return Err(not_origin());
    }
    match url.origin().is_tuple() {
        true => Ok(url.origin().ascii_serialization()),
        false => Ok(text.trim_end_matches('/').to_ascii_lowercase()),
    }
}
