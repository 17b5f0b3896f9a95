//! DNS resolution that drops every address a request may not reach.

use std::error::Error;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;

use super::address::{AllowedAddresses, is_address_allowed};

/// A host name resolves only to addresses that the request may not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the host resolves to a private address, which only a configured URL may do")]
pub struct PrivateAddressError;

/// Resolves names and drops every address that the request may not reach. The connection uses the returned
/// addresses, so a second DNS answer cannot differ (DNS rebinding).
#[derive(Debug, Clone)]
pub(crate) struct GuardedResolver {
    pub(crate) allowed: AllowedAddresses,
    /// Proxy hosts: the user chose them, so any address is allowed.
    pub(crate) exempt_hosts: Vec<String>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = match self.exempt_hosts.iter().any(|it| it == name.as_str()) {
            true => AllowedAddresses::Any,
            false => self.allowed,
        };
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            filter_allowed(found, allowed).map(|addresses| Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

fn filter_allowed(
    found: impl Iterator<Item = SocketAddr>,
    allowed: AllowedAddresses,
) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
    let (good, bad): (Vec<_>, Vec<_>) = found.partition(|it| is_address_allowed(it.ip(), allowed));
    match (good.is_empty(), bad.is_empty()) {
        (true, false) => Err(PrivateAddressError.into()),
        (true, true) | (false, _) => Ok(good),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_resolves_only_to_allowed_addresses() {
        let found = |texts: &[&str], allowed| {
            let texts: Vec<SocketAddr> = texts.iter().map(|it| it.parse().expect("one")).collect();
            filter_allowed(texts.into_iter(), allowed).map(|good| good.len()).map_err(|_| ())
        };
        assert_eq!(found(&["1.1.1.1:0", "127.0.0.1:0"], AllowedAddresses::Public), Ok(1));
        assert_eq!(found(&["127.0.0.1:0", "[::1]:0"], AllowedAddresses::Public), Err(()));
        assert_eq!(found(&["169.254.169.254:0"], AllowedAddresses::Loopback), Err(()));
        assert_eq!(found(&["169.254.169.254:0"], AllowedAddresses::Any), Ok(1));
        assert_eq!(found(&["10.0.0.1:0"], AllowedAddresses::Private), Ok(1));
        assert_eq!(found(&[], AllowedAddresses::Public), Ok(0));
    }

    #[tokio::test]
    async fn the_resolver_refuses_loopback() {
        use std::str::FromStr;
        let name = || Name::from_str("localhost").expect("a name");
        let resolver =
            GuardedResolver { allowed: AllowedAddresses::Public, exempt_hosts: Vec::new() };
        let Err(error) = resolver.resolve(name()).await else { panic!("it is refused") };
        assert!(error.is::<PrivateAddressError>(), "{error}");
        let resolver =
            GuardedResolver { allowed: AllowedAddresses::Loopback, exempt_hosts: Vec::new() };
        assert!(resolver.resolve(name()).await.is_ok());
        let exempt_hosts = vec!["localhost".to_owned()];
        let resolver = GuardedResolver { allowed: AllowedAddresses::Public, exempt_hosts };
        assert!(resolver.resolve(name()).await.is_ok());
    }
}
