//! Opens TCP connections to a host: name resolution, and several addresses in parallel (RFC 8305).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use url::{Host, Url};

use crate::http::error::FailurePhase;

/// How long to wait for one address before the next is tried in parallel (RFC 8305, section 8).
const HAPPY_EYEBALLS_DELAY: Duration = Duration::from_millis(250);

/// Connects to the host of a URL.
pub(super) async fn resolve_and_connect(url: &Url) -> Result<TcpStream, (io::Error, FailurePhase)> {
    const PORT: u16 = 80;
    let port = url.port().unwrap_or(PORT);
    let addresses: Vec<SocketAddr> = match url.host() {
        Some(Host::Ipv4(address)) => vec![(address, port).into()],
        Some(Host::Ipv6(address)) => vec![(address, port).into()],
        Some(Host::Domain(name)) => {
            let found = lookup_host((name, port)).await;
            found.map_err(|error| (error, FailurePhase::Resolve))?.collect()
        }
        None => Vec::new(),
    };
    connect_first(addresses).await
}

/// Connects to the first address that accepts.
async fn connect_first(addresses: Vec<SocketAddr>) -> Result<TcpStream, (io::Error, FailurePhase)> {
    let mut attempts = FuturesUnordered::new();
    let mut left = addresses.into_iter();
    let no_address = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut last = (no_address, FailurePhase::Resolve);
    loop {
        match left.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let wait = if left.len() == 0 { Duration::MAX } else { HAPPY_EYEBALLS_DELAY };
        match timeout(wait, attempts.next()).await {
            Ok(Some(Ok(stream))) => return Ok(stream),
            Ok(Some(Err(error))) => last = (error, FailurePhase::Connect),
            Ok(None) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// An address that refuses connections.
    async fn refusing_address() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("an address")
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_skipped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let good = listener.local_addr().expect("an address");
        let (one, other) = (refusing_address().await, refusing_address().await);
        for addresses in [vec![one, good], vec![one, other, good], vec![good, one]] {
            let reached = connect_first(addresses).await.expect("one accepts");
            assert_eq!(reached.peer_addr().expect("it is connected"), good);
        }
    }

    #[tokio::test]
    async fn the_error_is_that_of_the_last_address() {
        let (one, other) = (refusing_address().await, refusing_address().await);
        let (error, phase) = connect_first(vec![one, other]).await.expect_err("both refuse");
        assert_eq!(
            (error.kind(), phase),
            (io::ErrorKind::ConnectionRefused, FailurePhase::Connect)
        );
        let (_, phase) = connect_first(Vec::new()).await.expect_err("there is no address");
        assert_eq!(phase, FailurePhase::Resolve);
    }
}
