//! Classes of network addresses, and which of them a request may reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// The addresses that a request may reach. Each variant includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllowedAddresses {
    /// Public addresses.
    Public,
    /// Private networks as well.
    Private,
    /// This machine as well.
    Loopback,
    /// Any address: the user configured the URL.
    Any,
}

/// The class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressClass {
    Public,
    Private,
    Loopback,
    /// Addresses that never serve other hosts: cloud metadata services, multicast, unspecified.
    Forbidden,
}

impl AddressClass {
    pub(super) fn is_allowed_by(self, allowed: AllowedAddresses) -> bool {
        match self {
            AddressClass::Public => true,
            AddressClass::Private => allowed >= AllowedAddresses::Private,
            AddressClass::Loopback => allowed >= AllowedAddresses::Loopback,
            AddressClass::Forbidden => allowed == AllowedAddresses::Any,
        }
    }
}

/// The class of a URL's host. `None` for a host name that only DNS can classify.
pub(super) fn classify_host(url: &Url) -> Option<AddressClass> {
    match url.host()? {
        Host::Ipv4(address) => Some(classify_ipv4(address)),
        Host::Ipv6(address) => Some(classify_ipv6(address)),
        Host::Domain(name) => classify_name(name),
    }
}

fn classify_name(name: &str) -> Option<AddressClass> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let ends =
        |end: &str| name.strip_suffix(end).is_some_and(|it| it.is_empty() || it.ends_with('.'));
    if ends("localhost") {
        return Some(AddressClass::Loopback);
    }
    if name == "metadata.google.internal" {
        return Some(AddressClass::Forbidden);
    }
    let is_private =
        !name.contains('.') || ["local", "internal", "lan", "home.arpa"].into_iter().any(ends);
    is_private.then_some(AddressClass::Private)
}

fn classify_ipv4(address: Ipv4Addr) -> AddressClass {
    let [a, b, c, d] = address.octets();
    match (a, b, c, d) {
        (127, ..) => AddressClass::Loopback,
        (10, ..) | (172, 16..=31, ..) | (192, 168, ..) => AddressClass::Private,
        // The metadata service of Alibaba Cloud, inside the carrier-grade NAT range.
        (100, 100, 100, 200) => AddressClass::Forbidden,
        (100, 64..=127, ..) => AddressClass::Private,
        (0, ..) | (169, 254, ..) | (192, 0, 0, _) | (224.., ..) => AddressClass::Forbidden,
        (198, 18..=19, ..) => AddressClass::Private,
        _ => AddressClass::Public,
    }
}

fn classify_ipv6(address: Ipv6Addr) -> AddressClass {
    let segments = address.segments();
    if let Some(v4) = embedded_ipv4(address) {
        return classify_ipv4(v4);
    }
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        // The metadata service of AWS, inside the unique local range.
        [0xfd00, 0x0ec2, ..] => AddressClass::Forbidden,
        [0xfc00..=0xfdff, ..] => AddressClass::Private,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _ => AddressClass::Forbidden,
    }
}

/// The IPv4 address embedded in an IPv6 address: mapped, compatible, NAT64 or 6to4.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => from(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => from(high, low),
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => from(high, low),
        [0x2002, high, low, ..] => from(high, low),
        _ => None,
    }
}

/// Whether a request may connect to an address.
pub fn is_address_allowed(address: IpAddr, allowed: AllowedAddresses) -> bool {
    match address {
        IpAddr::V4(address) => classify_ipv4(address).is_allowed_by(allowed),
        IpAddr::V6(address) => classify_ipv6(address).is_allowed_by(allowed),
    }
}
