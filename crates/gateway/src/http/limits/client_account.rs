//! What a client's use is counted for: the account of its principal and, where clients authenticate, that of its remote
//! address.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::LimitExceeded;
use super::accounts::{Account, Reservation};

/// The number of bits of an IPv6 address that name the network of one customer.
const IPV6_NETWORK_BITS: u32 = 64;

/// The accounts of a client.
#[derive(Debug, Clone)]
pub(crate) struct ClientAccount {
    /// That of the principal, or of the address where clients do not authenticate.
    pub(crate) own: Arc<Account>,
    /// That of the address, where clients authenticate and are not on this machine.
    pub(crate) address: Option<Arc<Account>>,
}

/// Reservations in the accounts of a client. They end when they are dropped.
#[derive(Debug)]
pub(crate) struct ClientReservation {
    _own: Reservation,
    _address: Option<Reservation>,
}

impl ClientAccount {
    /// Reserves a session or a `subscriptions/listen` stream, and takes a token for its request.
    pub(crate) fn open_session(&self) -> Result<ClientReservation, LimitExceeded> {
        self.reserve(Account::open_session)
    }

    /// Reserves requests in flight, and takes a token for each.
    pub(crate) fn start_requests(&self, number: usize) -> Result<ClientReservation, LimitExceeded> {
        self.reserve(|account| account.start_requests(number))
    }

    fn reserve(
        &self,
        reserve: impl Fn(&Arc<Account>) -> Result<Reservation, LimitExceeded>,
    ) -> Result<ClientReservation, LimitExceeded> {
        let own = reserve(&self.own)?;
        let address = self.address.as_ref().map(reserve).transpose()?;
        Ok(ClientReservation { _own: own, _address: address })
    }
}

/// The address that a client's connections are counted for: an IPv6 network counts as one address, because one client can
/// use all of its addresses.
pub(crate) fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - IPV6_NETWORK_BITS);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::limits::accounts::Accounts;
    use crate::http::limits::{Limits, Quota};
    use crate::telemetry::limit_kind::LimitKind;

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let counted = |text: &str| counted_address(text.parse().expect("an address")).to_string();
        assert_eq!(counted("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(counted("2001:db8:1:3::1"), "2001:db8:1:3::");
        assert_eq!(counted("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(counted("192.0.2.7"), "192.0.2.7");
    }

    #[test]
    fn principals_of_one_address_together_leave_half_to_other_addresses() {
        let limits = Limits {
            sessions: Quota { per_principal: 3, total: 8 },
            requests_per_second: None,
            ..Limits::default()
        };
        let (principals, addresses) =
            (Accounts::new(limits.clone()), Accounts::of_addresses(&limits));
        let client = |principal: &str, address: &str| ClientAccount {
            own: principals.account(principal),
            address: Some(addresses.account(address)),
        };
        let mut held = Vec::new();
        for principal in ["a", "a", "b", "b"] {
            held.push(client(principal, "192.0.2.1").open_session().expect("room"));
        }
        let refused = client("c", "192.0.2.1").open_session().map(drop);
        assert_eq!(refused.map_err(|it| it.limit), Err(LimitKind::AddressSessions));
        held.push(client("c", "192.0.2.2").open_session().expect("room"));
        held.remove(0);
        assert!(client("c", "192.0.2.1").open_session().is_ok(), "it is free again");
    }
}
