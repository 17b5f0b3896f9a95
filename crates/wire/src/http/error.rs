//! Turns errors of the HTTP library and of sockets into [`TransportError`].

use std::error::Error;
use std::io;

use tokio_rustls::rustls;
use tokio_rustls::rustls::{CertificateError, InvalidMessage};

use crate::transport_error::{TlsProblem, TransportError, UnreachableReason};

/// How many characters of a library's error text are kept.
const MAX_DETAIL: usize = 300;

/// The phase in which a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailurePhase {
    /// Resolving the host name.
    Resolve,
    /// Connecting.
    Connect,
    /// Sending the request or waiting for the response.
    Exchange,
}

/// Classifies an error of a request without a response.
pub(crate) fn from_reqwest(error: reqwest::Error) -> TransportError {
    let is_https = error.url().is_some_and(|url| url.scheme() == "https");
    let error = error.without_url();
    let causes: Vec<_> = causes(error.source()).collect();
    let detail = match causes.last() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    };
    let reason = if causes.iter().any(|cause| is_proxy_error(*cause)) {
        UnreachableReason::Proxy
    } else if error.is_dns() {
        UnreachableReason::NameResolution
    } else if error.is_timeout() {
        UnreachableReason::Timeout
    } else {
        classify(&causes, is_https && error.is_connect())
    };
    unreachable(reason, &detail)
}

/// Classifies an error of the HTTP/1.1 client.
pub(crate) fn from_error(error: &(dyn Error + 'static), phase: FailurePhase) -> TransportError {
    let causes: Vec<_> = causes(Some(error)).collect();
    let detail = causes.last().map(|cause| cause.to_string()).unwrap_or_default();
    let reason = match phase {
        FailurePhase::Resolve => UnreachableReason::NameResolution,
        FailurePhase::Connect | FailurePhase::Exchange => classify(&causes, false),
    };
    unreachable(reason, &detail)
}

fn unreachable(reason: UnreachableReason, detail: &str) -> TransportError {
    TransportError::Unreachable { reason, detail: detail.chars().take(MAX_DETAIL).collect() }
}

fn classify(causes: &[&(dyn Error + 'static)], is_tls_handshake: bool) -> UnreachableReason {
    if let Some(error) = causes.iter().find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        return UnreachableReason::Tls(classify_tls(error));
    }
    let mut kinds =
        causes.iter().rev().filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
    match kinds.next() {
        Some(kind) => classify_io(kind, is_tls_handshake),
        None if causes.last().is_some_and(|cause| is_connection_closed(*cause)) => {
            UnreachableReason::Reset
        }
        None => UnreachableReason::Other,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "enums of the library, to which it may add; all other variants are one kind here"
)]
fn classify_tls(error: &rustls::Error) -> TlsProblem {
    match error {
        rustls::Error::InvalidCertificate(problem) => match problem {
            // `BadSignature`: signed by another key than that of the trusted issuer of this name. `Other`: among others
            // a self-signed certificate that may issue others.
            CertificateError::UnknownIssuer
            | CertificateError::BadSignature
            | CertificateError::Other(_) => TlsProblem::UntrustedCertificate,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                TlsProblem::ExpiredCertificate
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsProblem::CertificateNotYetValid
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsProblem::WrongHost
            }
            _ => TlsProblem::Other,
        },
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsProblem::NotTls,
        _ => TlsProblem::Other,
    }
}

fn classify_io(kind: io::ErrorKind, is_tls_handshake: bool) -> UnreachableReason {
    use io::ErrorKind as Kind;
    const RESET_KINDS: [io::ErrorKind; 5] = [
        Kind::ConnectionReset,
        Kind::ConnectionAborted,
        Kind::BrokenPipe,
        Kind::NotConnected,
        Kind::UnexpectedEof,
    ];
    if kind == Kind::ConnectionRefused {
        UnreachableReason::Refused
    } else if kind == Kind::TimedOut {
        UnreachableReason::Timeout
    } else if kind == Kind::InvalidData || is_tls_handshake && kind == Kind::UnexpectedEof {
        // Rejected by our TLS library, or closed by the server during the handshake.
        UnreachableReason::Tls(TlsProblem::Other)
    } else if RESET_KINDS.contains(&kind) {
        UnreachableReason::Reset
    } else {
        UnreachableReason::Other
    }
}

/// The chain of causes, outermost first. `io::Error` does not return its inner error as `source`.
fn causes<'a>(
    first: Option<&'a (dyn Error + 'static)>,
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(first, |&cause| {
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => cause.source(),
        }
    })
}

/// The libraries do not export the types of their proxy errors, so the texts are compared.
fn is_proxy_error(cause: &(dyn Error + 'static)) -> bool {
    let text = cause.to_string();
    text.starts_with("tunnel error") || text == "error connecting to socks proxy"
}

/// The error type is of an indirect dependency, so the texts are compared.
fn is_connection_closed(cause: &(dyn Error + 'static)) -> bool {
    /// Closed during a response, and before the request.
    const TEXTS: [&str; 2] = ["connection closed before message completed", "connection closed"];
    TEXTS.contains(&cause.to_string().as_str())
}
