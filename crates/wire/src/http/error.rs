//! What the HTTP library says went wrong, in our own kinds.

use std::error::Error;
use std::io;

use crate::transport_error::{TransportError, UnreachableReason};

/// How much of a library's words is kept.
const MAX_DETAIL: usize = 300;

/// What was under way when it went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailurePhase {
    /// A name was looked up.
    Resolve,
    /// A connection was made.
    Connect,
    /// Something was asked over it.
    Exchange,
}

/// The fault behind an error of a request that got no answer.
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

/// The same without the library's client in between.
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
        // What the TLS library refuses, and what it hears from the other side's.
        UnreachableReason::Tls
    } else if RESET_KINDS.contains(&kind) {
        UnreachableReason::Reset
    } else {
        UnreachableReason::Other
    }
}

/// The causes of an error, outermost first. An `io::Error` hides what it wraps from `source`.
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

/// The libraries keep the types of their proxy errors to themselves, so their words must do.
fn is_proxy_error(cause: &(dyn Error + 'static)) -> bool {
    let text = cause.to_string();
    text.starts_with("tunnel error") || text == "error connecting to socks proxy"
}

/// Likewise: the error is of a library that we have only through another.
fn is_connection_closed(cause: &(dyn Error + 'static)) -> bool {
    /// While it answered, and before it was asked.
    const TEXTS: [&str; 2] = ["connection closed before message completed", "connection closed"];
    TEXTS.contains(&cause.to_string().as_str())
}
