//! The check of a request's head before anybody looks at its path: was it us that it was sent to, and may the page that
//! sent it? A name that was bent to lead here (DNS rebinding) is not ours, whatever it leads to. Who the caller is, and
//! which methods and paths there are, is decided later and elsewhere. Pure, and allocates nothing for what is let in.

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

/// The ports that a browser does not write down.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// Lets requests in by their head.
#[derive(Debug, Clone)]
pub struct HostOriginCheck {
    port: u16,
    allowed_hosts: Vec<AllowedHost>,
    implicit_origins: ImplicitOrigins,
    /// Whole origins in lower case, as browsers write them.
    allowed_origins: Vec<String>,
}

/// A host that is us.
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

/// At which ports.
#[derive(Debug, Clone, Copy)]
enum AllowedPorts {
    /// This one.
    Exact(u16),
    /// The one that we listen on, and the usual ones: somebody passes requests on to us.
    ListenerOrDefault,
}

/// Which pages may come in that nobody named.
#[derive(Debug, Clone, Copy)]
enum ImplicitOrigins {
    None,
    /// Those that this machine serves, at any port.
    Localhost,
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{kind}")]
pub struct HostOriginError {
    /// What it is answered with.
    pub status: StatusCode,
    /// Why.
    pub kind: HostOriginErrorKind,
}

/// What is wrong with a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HostOriginErrorKind {
    /// It does not say whom it is for.
    #[error("the request has no Host header")]
    MissingHost,
    /// It says so twice.
    #[error("the request has several Host headers")]
    MultipleHosts,
    /// What it says is no host and port as everybody writes them.
    #[error("the Host header is malformed")]
    MalformedHost,
    /// It is for somebody else.
    #[error("the Host header names none of our names; allow one with --allow-host")]
    HostNotAllowed,
    /// Its target is that of a proxy.
    #[error("the request's target is not one that we serve")]
    InvalidTarget,
    /// It comes from several pages.
    #[error("the request has several Origin headers")]
    MultipleOrigins,
    /// It comes from a page that does not say whose it is.
    #[error("the request comes from a page without an origin")]
    NullOrigin,
    /// It comes from somebody else's page.
    #[error(
        "the request comes from a page that is not allowed; allow its origin with --allow-origin"
    )]
    OriginNotAllowed,
}

impl HostOriginErrorKind {
    /// The answer's status.
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

/// Why something cannot be allowed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` cannot be allowed")]
pub struct AllowError {
    /// What was written.
    pub text: String,
    /// Why.
    #[source]
    pub kind: AllowErrorKind,
}

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AllowErrorKind {
    /// It is no host.
    #[error("it is not a host name or address, alone or with `:port`")]
    InvalidHost,
    /// It is the address of nobody.
    #[error("nobody is at this address: name the one that clients use")]
    UnspecifiedAddress,
    /// It is no origin.
    #[error("it is not an origin such as `https://app.example.com`")]
    InvalidOrigin,
    /// It is everybody.
    #[error("that would let every page in; name the origins one by one")]
    Wildcard,
}

impl HostOriginCheck {
    /// A guard for a listener at this address. On loopback, this machine's names and pages are let in. `hosts` and
    /// `origins` come in besides.
    pub fn new(
        bound: SocketAddr,
        hosts: &[String],
        origins: &[String],
    ) -> Result<HostOriginCheck, AllowError> {
        let address = bound.ip().to_canonical();
        let ports = AllowedPorts::Exact(bound.port());
        let mut allowed = Vec::new();
        // Who listens everywhere listens on loopback, too. `0.0.0.0` itself is a name for nobody, and some browsers
        // take it for this machine.
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

    /// May this request come in? Looks at its target, its `Host` and its `Origin` only.
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
            // The targets of a tunnel, and those of other schemes.
            (Some(_) | None, Some(_) | None) => {
                return Err(HostOriginErrorKind::InvalidTarget.into());
            }
        }
        let mut hosts = request.headers().get_all(HOST).iter();
        match (hosts.next(), hosts.next()) {
            (Some(_), Some(_)) => Err(HostOriginErrorKind::MultipleHosts.into()),
            (Some(host), None) => self.check_host_value(host.as_bytes()),
            // From HTTP/2 on, the target says it.
            (None, _) if request.version() >= Version::HTTP_2 && target.authority().is_some() => {
                Ok(())
            }
            (None, _) => Err(HostOriginErrorKind::MissingHost.into()),
        }
    }

    /// Is it one of our names?
    fn check_host_value(&self, host: &[u8]) -> Result<(), HostOriginError> {
        let requested = HostPort::parse(host).ok_or(HostOriginErrorKind::MalformedHost)?;
        match self.allowed_hosts.iter().any(|it| it.matches(requested, self.port)) {
            true => Ok(()),
            false => Err(HostOriginErrorKind::HostNotAllowed.into()),
        }
    }

    /// May the page come in that asks? What is no page says nothing about it.
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

/// An origin as a browser writes it. Extensions and editors have schemes of their own.
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
