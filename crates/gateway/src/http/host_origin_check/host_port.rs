//! A strict parser of `host:port`, as in a `Host` header or an origin. Rejects texts that browsers convert to an address
//! (`0x7f.1`, `127.1`, `2130706433`), texts that other parsers would shorten (`user@`, `%31`, a zone, a trailing dot), and
//! all other unusual forms. Never allocates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest host name, and its longest label.
const MAX_NAME_LEN: usize = 253;
const MAX_LABEL_LEN: usize = 63;

/// A host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Host<'a> {
    /// A name. Compared without regard to case.
    Name(&'a str),
    /// An address.
    Address(IpAddr),
}

impl PartialEq for Host<'_> {
    fn eq(&self, other: &Host<'_>) -> bool {
        match (self, other) {
            (Host::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
            (Host::Address(one), Host::Address(other)) => one == other,
            (Host::Name(_), Host::Address(_)) | (Host::Address(_), Host::Name(_)) => false,
        }
    }
}

/// A host, and a port if there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HostPort<'a> {
    pub host: Host<'a>,
    pub port: Option<u16>,
}

impl<'a> HostPort<'a> {
    /// Parses the whole text.
    pub fn parse(bytes: &'a [u8]) -> Option<HostPort<'a>> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (host, rest) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let (address, rest) = bracketed.split_once(']')?;
                (Host::Address(address.parse::<Ipv6Addr>().ok()?.into()), rest)
            }
            None => {
                let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
                (name_or_v4(host)?, rest)
            }
        };
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(parse_port(port)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(HostPort { host, port })
    }
}

fn name_or_v4(text: &str) -> Option<Host<'_>> {
    // The standard library accepts four decimal numbers without leading zeros only.
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(Host::Address(address.into()));
    }
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label =
        |label: &str| (1..=MAX_LABEL_LEN).contains(&label.len()) && label.bytes().all(is_name_byte);
    let is_name = text.len() <= MAX_NAME_LEN && text.split('.').all(is_label);
    // Browsers parse a name whose last label is a number as an address.
    let ends_in_number = text.rsplit('.').next().is_some_and(is_number);
    (is_name && !ends_in_number).then_some(Host::Name(text))
}

fn is_number(label: &str) -> bool {
    let bytes = label.as_bytes();
    match bytes {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        _ => bytes.iter().all(u8::is_ascii_digit),
    }
}

/// Parses a port without a sign or a leading zero, and not zero.
fn parse_port(text: &str) -> Option<u16> {
    let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_canonical)
}
