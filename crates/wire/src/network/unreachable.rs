//! What the HTTP library says went wrong, in our own kinds.

use std::error::Error;
use std::io;

use crate::fault::{Fault, Unreachable};

/// How much of a library's words is kept.
const DETAIL: usize = 300;

/// What was under way when it went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreached {
    /// A name was looked up.
    Naming,
    /// A connection was made.
    Connecting,
    /// Something was asked over it.
    Talking,
}

/// The fault behind an error of a request that got no answer.
pub(crate) fn fault(error: reqwest::Error) -> Fault {
    let is_https = error.url().is_some_and(|url| url.scheme() == "https");
    let error = error.without_url();
    let causes: Vec<_> = causes(error.source()).collect();
    let detail = match causes.last() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    };
    let why = if causes.iter().any(|cause| is_of_proxy(*cause)) {
        Unreachable::Proxy
    } else if error.is_dns() {
        Unreachable::Name
    } else if error.is_timeout() {
        Unreachable::Timeout
    } else {
        cause_of(&causes, is_https && error.is_connect())
    };
    unreached(why, &detail)
}

/// The same without the library's client in between.
pub(crate) fn fault_of(error: &(dyn Error + 'static), when: Unreached) -> Fault {
    let causes: Vec<_> = causes(Some(error)).collect();
    let detail = causes.last().map(|cause| cause.to_string()).unwrap_or_default();
    let why = match when {
        Unreached::Naming => Unreachable::Name,
        Unreached::Connecting | Unreached::Talking => cause_of(&causes, false),
    };
    unreached(why, &detail)
}

fn unreached(why: Unreachable, detail: &str) -> Fault {
    Fault::Unreachable { why, detail: detail.chars().take(DETAIL).collect() }
}

fn cause_of(causes: &[&(dyn Error + 'static)], is_handshake: bool) -> Unreachable {
    let mut kinds =
        causes.iter().rev().filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
    match kinds.next() {
        Some(kind) => why(kind, is_handshake),
        None if causes.last().is_some_and(|cause| is_hang_up(*cause)) => Unreachable::Reset,
        None => Unreachable::Other,
    }
}

fn why(kind: io::ErrorKind, is_handshake: bool) -> Unreachable {
    use io::ErrorKind as Kind;
    const BROKEN: [io::ErrorKind; 5] = [
        Kind::ConnectionReset,
        Kind::ConnectionAborted,
        Kind::BrokenPipe,
        Kind::NotConnected,
        Kind::UnexpectedEof,
    ];
    if kind == Kind::ConnectionRefused {
        Unreachable::Refused
    } else if kind == Kind::TimedOut {
        Unreachable::Timeout
    } else if kind == Kind::InvalidData || is_handshake && kind == Kind::UnexpectedEof {
        // What the TLS library refuses, and what it hears from the other side's.
        Unreachable::Tls
    } else if BROKEN.contains(&kind) {
        Unreachable::Reset
    } else {
        Unreachable::Other
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
fn is_of_proxy(cause: &(dyn Error + 'static)) -> bool {
    let words = cause.to_string();
    words.starts_with("tunnel error") || words == "error connecting to socks proxy"
}

/// Likewise: the error is of a library that we have only through another.
fn is_hang_up(cause: &(dyn Error + 'static)) -> bool {
    /// While it answered, and before it was asked.
    const WORDS: [&str; 2] = ["connection closed before message completed", "connection closed"];
    WORDS.contains(&cause.to_string().as_str())
}
