//! A SOCKS5 proxy for the browser context of one session. Everything that a page loads goes through it, redirects, WebSockets
//! and workers too, and it resolves names itself: what it checks is the address that it then connects to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::reach::address::{AddressClass, class_of, class_of_name};
use crate::reach::guard::{ReachError, ReachGuard};
use crate::reach::proxy::upstream::UpstreamProxy;

pub(crate) mod upstream;

/// How many connections one session may have.
const MAX_CONNECTIONS: usize = 512;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Answers of the protocol (RFC 1928, section 6).
const SUCCEEDED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const CONNECTION_REFUSED: u8 = 5;

/// A running proxy. Dropping it ends every connection through it.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Starts a proxy on a free port of this machine.
    pub(crate) async fn start(
        guard: Arc<ReachGuard>,
        upstream: Option<UpstreamProxy>,
    ) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(serve(listener, guard, upstream.map(Arc::new)));
        Ok(Proxy { port, task })
    }

    /// The address, as the browser wants it.
    pub(crate) fn url(&self) -> String {
        format!("socks5://127.0.0.1:{}", self.port)
    }
}

async fn serve(
    listener: TcpListener,
    guard: Arc<ReachGuard>,
    upstream: Option<Arc<UpstreamProxy>>,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, address)) = accepted else { continue };
                let (guard, upstream) = (guard.clone(), upstream.clone());
                connections.spawn(async move {
                    if is_own(address).await {
                        let _client_left = relay(client, &guard, upstream.as_deref()).await;
                    }
                    drop(slot);
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Whether the process at the other end runs under this account: the port is open to every user of the machine.
async fn is_own(peer: SocketAddr) -> bool {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (Ok(table), Ok(own)) = (
            tokio::fs::read_to_string("/proc/self/net/tcp").await,
            tokio::fs::metadata("/proc/self").await,
        ) else {
            return true;
        };
        owner_of(&table, peer).is_none_or(|owner| owner == own.uid())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = peer;
        true
    }
}

/// The user of the socket with this local address, from the system's table.
#[cfg(target_os = "linux")]
fn owner_of(table: &str, socket: SocketAddr) -> Option<u32> {
    let IpAddr::V4(address) = socket.ip() else { return None };
    let number = u32::from_ne_bytes(address.octets());
    let local = format!("{number:08X}:{:04X}", socket.port());
    let mut rows = table.lines().skip(1).map(|it| it.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|it| it.get(1) == Some(&local.as_str()))?;
    row.get(7)?.parse().ok()
}

/// A host as the browser names it.
enum Target {
    Name(String),
    Address(IpAddr),
}

impl Target {
    /// The host as it is in a URL.
    fn host(&self) -> String {
        match self {
            Target::Name(name) => name.clone(),
            Target::Address(IpAddr::V6(it)) => format!("[{it}]"),
            Target::Address(IpAddr::V4(it)) => it.to_string(),
        }
    }
}

async fn relay(
    mut client: TcpStream,
    guard: &ReachGuard,
    upstream: Option<&UpstreamProxy>,
) -> io::Result<()> {
    let _delays_only = client.set_nodelay(true);
    let request = timeout(HANDSHAKE_TIMEOUT, read_request(&mut client)).await;
    let (target, port) = request.map_err(|_| io::ErrorKind::TimedOut)??;
    let host = target.host();
    let connected = match guard.check_host(&host, port) {
        Ok(()) => timeout(CONNECT_TIMEOUT, connect(target, port, guard, upstream))
            .await
            .unwrap_or(Err(ConnectFailure::Io(io::ErrorKind::TimedOut.into()))),
        Err(refused) => Err(ConnectFailure::Refused(refused)),
    };
    match connected {
        Ok(mut server) => {
            answer(&mut client, SUCCEEDED).await?;
            tokio::io::copy_bidirectional(&mut client, &mut server).await?;
            Ok(())
        }
        Err(ConnectFailure::Refused(reason)) => {
            guard.record(&host, reason);
            answer(&mut client, NOT_ALLOWED).await
        }
        Err(ConnectFailure::Io(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            answer(&mut client, CONNECTION_REFUSED).await
        }
        Err(ConnectFailure::Io(_)) => answer(&mut client, HOST_UNREACHABLE).await,
    }
}

enum ConnectFailure {
    Refused(ReachError),
    Io(io::Error),
}

/// Connects to the first address that answers, or not at all if one of the addresses may not be reached.
async fn connect(
    target: Target,
    port: u16,
    guard: &ReachGuard,
    upstream: Option<&UpstreamProxy>,
) -> Result<TcpStream, ConnectFailure> {
    let addresses: Vec<SocketAddr> = match &target {
        Target::Address(address) => vec![SocketAddr::new(*address, port)],
        // The names of this machine are not looked up anywhere else (RFC 6761, section 6.3).
        Target::Name(name) if class_of_name(name) == Some(AddressClass::Loopback) => {
            let own: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            own.map(|it| SocketAddr::new(it, port)).to_vec()
        }
        Target::Name(name) => match (lookup_host((name.as_str(), port)).await, upstream) {
            (Ok(found), _) => found.collect(),
            // Behind a proxy names often resolve only there.
            (Err(_), Some(_)) => Vec::new(),
            (Err(error), None) => return Err(ConnectFailure::Io(error)),
        },
    };
    let host = target.host();
    let mut is_local = false;
    for address in &addresses {
        guard.check_address(&host, port, address.ip()).map_err(ConnectFailure::Refused)?;
        is_local |= class_of(address.ip()) != AddressClass::Public;
    }
    let upstream = upstream.filter(|it| !is_local && it.applies_to(&host, port));
    if let Some(upstream) = upstream {
        return upstream.connect(&host, port).await.map_err(ConnectFailure::Io);
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _delays_only = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(ConnectFailure::Io(last))
}

/// Reads the greeting and the request (RFC 1928, sections 3 and 4).
async fn read_request(client: &mut TcpStream) -> io::Result<(Target, u16)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let [version, methods] = read_bytes::<2>(client).await?;
    if version != 5 {
        return Err(invalid());
    }
    let mut offered = vec![0; usize::from(methods)];
    client.read_exact(&mut offered).await?;
    client.write_all(&[5, 0]).await?;
    let [_, command, _, kind] = read_bytes::<4>(client).await?;
    if command != 1 {
        return Err(invalid());
    }
    let target = match kind {
        1 => Target::Address(Ipv4Addr::from(read_bytes::<4>(client).await?).into()),
        4 => Target::Address(Ipv6Addr::from(read_bytes::<16>(client).await?).into()),
        3 => {
            let [length] = read_bytes::<1>(client).await?;
            let mut name = vec![0; usize::from(length)];
            client.read_exact(&mut name).await?;
            let name = String::from_utf8(name).map_err(|_| invalid())?;
            match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
                Ok(address) => Target::Address(address),
                Err(_) => Target::Name(name),
            }
        }
        _ => return Err(invalid()),
    };
    let port = u16::from_be_bytes(read_bytes::<2>(client).await?);
    Ok((target, port))
}

async fn read_bytes<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn answer(client: &mut TcpStream, code: u8) -> io::Result<()> {
    client.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::reach::guard::ReachRules;
    use crate::reach::origin_pattern::OriginPattern;

    /// The proxy's answer to a request for an IPv6 address.
    async fn request_address(allowed: &str, (address, port): (Ipv6Addr, u16)) -> u8 {
        let allowed = vec![OriginPattern::parse(allowed).expect("a pattern")];
        let rules = ReachRules { allowed, blocked: Vec::new() };
        let proxy = Proxy::start(Arc::new(ReachGuard::new(rules)), None).await.expect("a proxy");
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).await.expect("it listens");
        client.write_all(&[5, 1, 0]).await.expect("it reads");
        assert_eq!(read_bytes::<2>(&mut client).await.expect("an answer"), [5, 0]);
        let mut request = vec![5, 1, 0, 4];
        request.extend(address.octets());
        request.extend(port.to_be_bytes());
        client.write_all(&request).await.expect("it reads");
        let [version, code] = read_bytes::<2>(&mut client).await.expect("an answer");
        assert_eq!(version, 5);
        code
    }

    #[tokio::test]
    async fn an_ipv6_address_is_reached_if_it_is_listed() {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let place = (Ipv6Addr::LOCALHOST, port);
        assert_eq!(request_address(&format!("[::1]:{port}"), place).await, SUCCEEDED);
        assert_eq!(request_address(&format!("127.0.0.1:{port}"), place).await, NOT_ALLOWED);
    }

    #[test]
    fn the_owner_of_a_socket_is_found_in_the_systems_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n\
             1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 2 1\n";
        let socket = SocketAddr::from(([127, 0, 0, 1], 50000));
        assert_eq!(owner_of(table, socket), Some(1000));
        assert_eq!(owner_of(table, SocketAddr::from(([127, 0, 0, 1], 50001))), None);
    }
}
