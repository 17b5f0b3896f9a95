//! Classes of network addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressClass {
    /// The public internet.
    Public,
    /// This machine.
    Loopback,
    /// A private or otherwise local network.
    Private,
    /// A service that gives credentials to virtual machines. Never reachable.
    Metadata,
}

/// Names of metadata services.
const METADATA_NAMES: [&str; 4] =
    ["metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"];

/// The class of a name that is known without resolving it.
pub(crate) fn class_of_name(host: &str) -> Option<AddressClass> {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if METADATA_NAMES.contains(&host.as_str()) {
        return Some(AddressClass::Metadata);
    }
    if host == "localhost" || host.ends_with(".localhost") {
        return Some(AddressClass::Loopback);
    }
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok()?;
    Some(class_of(address))
}

/// The class of an address. An IPv6 address that contains an IPv4 address has the class of that one.
pub(crate) fn class_of(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(it) => class_of_v4(it),
        IpAddr::V6(it) => match embedded_v4(it) {
            Some(it) => class_of_v4(it),
            None => class_of_v6(it),
        },
    }
}

fn class_of_v4(address: Ipv4Addr) -> AddressClass {
    let [a, b, c, d] = address.octets();
    match (a, b, c, d) {
        // The addresses of cloud providers' metadata services.
        (169, 254, 169, 254 | 253 | 123)
        | (169, 254, 170, 2 | 23)
        | (100, 100, 100, 200)
        | (192, 0, 0, 192)
        | (168, 63, 129, 16) => AddressClass::Metadata,
        (127 | 0, ..) => AddressClass::Loopback,
        (10, ..)
        | (172, 16..=31, ..)
        | (192, 168, ..)
        | (169, 254, ..)
        | (100, 64..=127, ..)
        | (192, 0, 0 | 2, _)
        | (198, 18 | 19, ..)
        | (198, 51, 100, _)
        | (203, 0, 113, _)
        | (224.., ..) => AddressClass::Private,
        _ => AddressClass::Public,
    }
}

fn class_of_v6(address: Ipv6Addr) -> AddressClass {
    let segments = address.segments();
    if segments == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
        || segments == [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
    {
        return AddressClass::Metadata;
    }
    if address.is_loopback() || address.is_unspecified() {
        return AddressClass::Loopback;
    }
    match segments[0] {
        0xfc00..=0xfdff | 0xfe80..=0xfeff | 0xff00..=0xffff => AddressClass::Private,
        0x2001 if segments[1] == 0x0db8 => AddressClass::Private,
        _ => AddressClass::Public,
    }
}

/// The IPv4 address in a mapped, compatible, NAT64, 6to4 or Teredo-less address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let it = address.segments();
    let last = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match it {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            Some(last(high, low))
        }
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(last(high, low)),
        [0x64, 0xff9b, .., high, low] => Some(last(high, low)),
        [0x2002, high, low, ..] => Some(last(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: AddressClass) {
        assert_eq!(class_of_name(text), Some(expected), "{text}");
    }

    #[test]
    fn metadata_addresses_are_known_in_every_notation() {
        for text in [
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "[fd00:ec2::254]",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "[2002:a9fe:a9fe::1]",
            "metadata.google.internal",
            "METADATA.google.internal.",
        ] {
            check(text, AddressClass::Metadata);
        }
    }

    #[test]
    fn addresses_of_this_machine_and_of_local_networks_are_not_public() {
        for text in [
            "localhost",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
        ] {
            check(text, AddressClass::Loopback);
        }
        for text in [
            "10.0.0.1",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "100.64.0.1",
            "[fe80::1]",
            "[fd12::1]",
            "255.255.255.255",
            "[ff02::1]",
        ] {
            check(text, AddressClass::Private);
        }
        for text in ["93.184.216.34", "172.32.0.1", "[2606:2800:220:1::1]"] {
            check(text, AddressClass::Public);
        }
        assert_eq!(class_of_name("example.com"), None);
    }
}
