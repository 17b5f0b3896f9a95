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
const UNSAID: [u16; 2] = [80, 443];

/// Lets requests in by their head.
#[derive(Debug, Clone)]
pub struct HeadGuard {
    port: u16,
    hosts: Vec<Allowed>,
    pages: Pages,
    /// Whole origins in lower case, as browsers write them.
    origins: Vec<String>,
}

/// A host that is us.
#[derive(Debug, Clone)]
struct Allowed {
    host: OwnHost,
    ports: Ports,
}

#[derive(Debug, Clone)]
enum OwnHost {
    Name(String),
    Address(IpAddr),
}

/// At which ports.
#[derive(Debug, Clone, Copy)]
enum Ports {
    /// This one.
    One(u16),
    /// The one that we listen on, and the usual ones: somebody passes requests on to us.
    Usual,
}

/// Which pages may come in that nobody named.
#[derive(Debug, Clone, Copy)]
enum Pages {
    None,
    /// Those that this machine serves, at any port.
    OfThisMachine,
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Refused {
    /// What it is answered with.
    pub status: StatusCode,
    /// Why.
    pub reason: Reason,
}

/// What is wrong with a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Reason {
    /// It does not say whom it is for.
    #[error("the request has no Host header")]
    NoHost,
    /// It says so twice.
    #[error("the request has several Host headers")]
    SeveralHosts,
    /// What it says is no host and port as everybody writes them.
    #[error("the Host header is malformed")]
    MalformedHost,
    /// It is for somebody else.
    #[error("the Host header names none of our names; allow one with --allow-host")]
    ForeignHost,
    /// Its target is that of a proxy.
    #[error("the request's target is not one that we serve")]
    BadTarget,
    /// It comes from several pages.
    #[error("the request has several Origin headers")]
    SeveralOrigins,
    /// It comes from a page that does not say whose it is.
    #[error("the request comes from a page without an origin")]
    NullOrigin,
    /// It comes from somebody else's page.
    #[error(
        "the request comes from a page that is not allowed; allow its origin with --allow-origin"
    )]
    ForeignOrigin,
}

impl Reason {
    /// The answer's status.
    fn status(self) -> StatusCode {
        match self {
            Reason::NoHost
            | Reason::SeveralHosts
            | Reason::MalformedHost
            | Reason::SeveralOrigins
            | Reason::BadTarget => StatusCode::BAD_REQUEST,
            Reason::ForeignHost | Reason::NullOrigin | Reason::ForeignOrigin => {
                StatusCode::FORBIDDEN
            }
        }
    }
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Refused {
        Refused { status: reason.status(), reason }
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
    NotHost,
    /// It is the address of nobody.
    #[error("nobody is at this address: name the one that clients use")]
    Nobody,
    /// It is no origin.
    #[error("it is not an origin such as `https://app.example.com`")]
    NotOrigin,
    /// It is everybody.
    #[error("that would let every page in; name the origins one by one")]
    Everybody,
}

impl HeadGuard {
    /// A guard for a listener at this address. On loopback, this machine's names and pages are let in. `hosts` and
    /// `origins` come in besides.
    pub fn new(
        bound: SocketAddr,
        hosts: &[String],
        origins: &[String],
    ) -> Result<HeadGuard, AllowError> {
        let address = bound.ip().to_canonical();
        let ports = Ports::One(bound.port());
        let mut allowed = Vec::new();
        // Who listens everywhere listens on loopback, too. `0.0.0.0` itself is a name for nobody, and some browsers
        // take it for this machine.
        if address.is_loopback() || address.is_unspecified() {
            let this = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
            let addresses = this.map(|it| Allowed { host: OwnHost::Address(it), ports });
            allowed.push(Allowed { host: OwnHost::Name("localhost".to_owned()), ports });
            allowed.extend(addresses);
        }
        if !address.is_unspecified() {
            allowed.push(Allowed { host: OwnHost::Address(address), ports });
        }
        for text in hosts {
            allowed.push(Allowed::parse(text)?);
        }
        let pages = match address.is_loopback() {
            true => Pages::OfThisMachine,
            false => Pages::None,
        };
        let origins = origins.iter().map(|text| origin(text)).collect::<Result<_, _>>()?;
        Ok(HeadGuard { port: bound.port(), hosts: allowed, pages, origins })
    }

    /// May this request come in? Looks at its target, its `Host` and its `Origin` only.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), Refused> {
        self.check_host(request)?;
        self.check_origin(request.headers())
    }

    fn check_host<B>(&self, request: &Request<B>) -> Result<(), Refused> {
        let target = request.uri();
        match (target.scheme_str(), target.authority()) {
            (None, None) => {}
            (Some("http" | "https"), Some(authority)) => {
                self.admit(authority.as_str().as_bytes())?
            }
            // The targets of a tunnel, and those of other schemes.
            (Some(_) | None, Some(_) | None) => return Err(Reason::BadTarget.into()),
        }
        let mut hosts = request.headers().get_all(HOST).iter();
        match (hosts.next(), hosts.next()) {
            (Some(_), Some(_)) => Err(Reason::SeveralHosts.into()),
            (Some(host), None) => self.admit(host.as_bytes()),
            // From HTTP/2 on, the target says it.
            (None, _) if request.version() >= Version::HTTP_2 && target.authority().is_some() => {
                Ok(())
            }
            (None, _) => Err(Reason::NoHost.into()),
        }
    }

    /// Is it one of our names?
    fn admit(&self, host: &[u8]) -> Result<(), Refused> {
        let asked = HostPort::parse(host).ok_or(Reason::MalformedHost)?;
        match self.hosts.iter().any(|it| it.is(asked, self.port)) {
            true => Ok(()),
            false => Err(Reason::ForeignHost.into()),
        }
    }

    /// May the page come in that asks? What is no page says nothing about it.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(()) };
        if origins.next().is_some() {
            return Err(Reason::SeveralOrigins.into());
        }
        let origin = origin.as_bytes();
        if origin.eq_ignore_ascii_case(b"null") {
            return Err(Reason::NullOrigin.into());
        }
        let is_named = self.origins.iter().any(|it| origin.eq_ignore_ascii_case(it.as_bytes()));
        match is_named || self.pages.have(origin) {
            true => Ok(()),
            false => Err(Reason::ForeignOrigin.into()),
        }
    }
}

impl Allowed {
    fn parse(text: &str) -> Result<Allowed, AllowError> {
        let refuse = |kind| AllowError { text: text.to_owned(), kind };
        let read =
            HostPort::parse(text.as_bytes()).ok_or_else(|| refuse(AllowErrorKind::NotHost))?;
        let host = match read.host {
            Host::Address(address) if address.is_unspecified() => {
                return Err(refuse(AllowErrorKind::Nobody));
            }
            Host::Address(address) => OwnHost::Address(address),
            Host::Name(name) => OwnHost::Name(name.to_owned()),
        };
        Ok(Allowed { host, ports: read.port.map_or(Ports::Usual, Ports::One) })
    }

    fn is(&self, asked: HostPort<'_>, own: u16) -> bool {
        let host = match &self.host {
            OwnHost::Name(name) => Host::Name(name),
            OwnHost::Address(address) => Host::Address(*address),
        };
        let is_port = match (self.ports, asked.port) {
            (Ports::One(port), Some(asked)) => port == asked,
            (Ports::One(port), None) => UNSAID.contains(&port),
            (Ports::Usual, Some(asked)) => asked == own || UNSAID.contains(&asked),
            (Ports::Usual, None) => true,
        };
        is_port && host == asked.host
    }
}

impl Pages {
    fn have(self, origin: &[u8]) -> bool {
        let host = match self {
            Pages::None => None,
            Pages::OfThisMachine => {
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
fn origin(text: &str) -> Result<String, AllowError> {
    let refuse = |kind| AllowError { text: text.to_owned(), kind };
    if text.contains('*') {
        return Err(refuse(AllowErrorKind::Everybody));
    }
    let not_origin = || refuse(AllowErrorKind::NotOrigin);
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
