//! The socket of the HTTP server: passed by the service manager (`LISTEN_FDS`), handed over by a running gateway, or
//! opened.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};

use listenfd::ListenFd;
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::net::{TcpListener, lookup_host};
use tokio::task::spawn_blocking;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::report;
use crate::runtime::control::handover;
use crate::runtime::control::handover::SocketRole;
use crate::runtime::gateway::ListenMode;

/// A listening socket.
#[derive(Debug)]
pub struct OpenListener {
    /// The socket.
    pub listener: TcpListener,
    /// Its address.
    pub bound: SocketAddr,
    /// The process that serves it until it is told to stop.
    pub predecessor: Option<u32>,
}

/// Finds or opens the socket for an address.
pub async fn open(
    invocation: &Invocation,
    address: SocketAddr,
    mode: ListenMode,
) -> Result<OpenListener, Failure> {
    let failure = |error: io::Error| {
        let message = format!("--http: cannot listen at {address}");
        let failure = Failure::new(Exit::Failure, &message);
        match (error.kind(), mode) {
            (io::ErrorKind::AddrInUse, ListenMode::Open) => failure
                .caused_by(error)
                .hint("`--takeover` takes the address over from a running gateway"),
            (io::ErrorKind::AddrInUse, ListenMode::Takeover) => failure.caused_by(error).hint(
                "the program that serves the address is no gateway of this user and home folder",
            ),
            (_, _) => failure.caused_by(error),
        }
    };
    let passed = passed_listeners().map_err(failure)?;
    if !passed.is_empty() {
        let addresses: Vec<String> = passed.iter().map(|it| it.1.to_string()).collect();
        let found = passed.into_iter().find(|it| is_for(it.1, address));
        let Some((listener, bound)) = found else {
            let message = format!("--http: the service manager passes no socket for {address}");
            let hint = format!("it passes: {}", addresses.join(", "));
            return Err(Failure::new(Exit::Usage, &message).hint(&hint));
        };
        let listener = to_tokio(listener).map_err(failure)?;
        return Ok(OpenListener { listener, bound, predecessor: None });
    }
    if mode == ListenMode::Takeover {
        if address.port() == 0 {
            let message = "--takeover needs an address with a port";
            return Err(Failure::new(Exit::Usage, message));
        }
        let folder = invocation.env.paths.control_sockets();
        let taken =
            spawn_blocking(move || handover::take(&folder, SocketRole::Clients, address)).await;
        let taken = taken.map_err(io::Error::other).and_then(|it| it).map_err(failure)?;
        if let Some((process, listener)) = taken {
            report::print_stderr(&format!("note: takes {address} over from process {process}\n"));
            let bound = listener.local_addr().map_err(failure)?;
            let listener = to_tokio(listener).map_err(failure)?;
            return Ok(OpenListener { listener, bound, predecessor: Some(process) });
        }
    }
    let listener = TcpListener::bind(address).await.map_err(failure)?;
    let bound = listener.local_addr().map_err(failure)?;
    Ok(OpenListener { listener, bound, predecessor: None })
}

/// Takes the socket for other replicas over from a running gateway, if there is one at one of the addresses of `wanted`.
pub async fn take_replica_listener(
    invocation: &Invocation,
    wanted: &str,
) -> io::Result<Option<TcpListener>> {
    let addresses: Vec<SocketAddr> = lookup_host(wanted).await?.collect();
    let folder = invocation.env.paths.control_sockets();
    let taken = spawn_blocking(move || -> io::Result<Option<StdListener>> {
        let fixed = addresses.into_iter().filter(|it| it.port() != 0);
        for address in fixed {
            if let Some((_, listener)) = handover::take(&folder, SocketRole::Replicas, address)? {
                return Ok(Some(listener));
            }
        }
        Ok(None)
    });
    taken.await.map_err(io::Error::other)??.map(to_tokio).transpose()
}

/// Tells the process whose socket was taken over to finish its requests and to end.
pub async fn stop_predecessor(invocation: &Invocation, process: u32) {
    let folder = invocation.env.paths.control_sockets();
    let stopped = spawn_blocking(move || handover::stop(&folder, process)).await;
    if !matches!(stopped, Ok(Ok(handover::StopOutcome::Stopping))) {
        report::print_stderr(&format!(
            "warning: process {process} still serves the address, too, and could not be told to stop\n"
        ));
    }
}

/// The TCP sockets that the service manager has passed to this process, with their addresses.
fn passed_listeners() -> io::Result<Vec<(StdListener, SocketAddr)>> {
    let mut passed = ListenFd::from_env();
    let mut listeners = Vec::new();
    for index in 0..passed.len() {
        // Sockets of other kinds are not for us.
        if let Ok(Some(listener)) = passed.take_tcp_listener(index) {
            // Servers that the gateway starts must not hold the socket.
            fcntl_setfd(&listener, FdFlags::CLOEXEC)?;
            let address = listener.local_addr()?;
            listeners.push((listener, address));
        }
    }
    Ok(listeners)
}

/// Is a socket at one address what another address asks for? `ListenStream=PORT` of systemd is the unspecified address
/// of IPv6, which accepts IPv4 as well.
fn is_for(bound: SocketAddr, wanted: SocketAddr) -> bool {
    bound == wanted
        || (bound.port() == wanted.port()
            && bound.ip().is_unspecified()
            && wanted.ip().is_unspecified())
}

fn to_tokio(listener: StdListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unspecified_address_of_ipv6_is_that_of_ipv4_as_well() {
        let check = |bound: &str, wanted: &str| {
            is_for(bound.parse().expect("an address"), wanted.parse().expect("an address"))
        };
        assert!(check("127.0.0.1:1", "127.0.0.1:1") && check("[::]:1", "0.0.0.0:1"));
        assert!(!check("[::]:1", "127.0.0.1:1") && !check("[::]:1", "[::]:2"));
    }
}
