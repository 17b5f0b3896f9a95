//! Tells the service manager (systemd, `Type=notify`) when the program is ready and when it stops. Does nothing without
//! one.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use switchboard_gateway::Gateway;

use crate::invocation::Invocation;

/// The variable that names the socket of the service manager.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Reports that the gateway is ready, after its servers have connected or `max_wait` has passed.
pub async fn notify_ready(invocation: &Invocation, gateway: &Gateway, max_wait: Duration) {
    if let Some(socket) = socket(invocation) {
        gateway.wait_until_ready(max_wait).await;
        let _manager_gone = send(socket, "READY=1\n");
    }
}

/// Reports that the program stops.
pub fn notify_stopping(invocation: &Invocation) {
    if let Some(socket) = socket(invocation) {
        let _manager_gone = send(socket, "STOPPING=1\n");
    }
}

fn socket(invocation: &Invocation) -> Option<&str> {
    invocation.env.variables.get(VARIABLE).map(String::as_str).filter(|it| !it.is_empty())
}

fn send(socket: &str, state: &str) -> io::Result<()> {
    let datagram = UnixDatagram::unbound()?;
    datagram.set_nonblocking(true)?;
    let address = address(socket)?;
    datagram.send_to_addr(state.as_bytes(), &address).map(drop)
}

/// The address of a socket; a name in the abstract namespace begins with `@`.
fn address(socket: &str) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.strip_prefix('@') {
        use std::os::linux::net::SocketAddrExt;
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_arrives_at_a_socket_with_a_path_or_an_abstract_name() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("notify");
        let path = path.to_str().expect("UTF-8").to_owned();
        let mut names = vec![path.clone()];
        if cfg!(target_os = "linux") {
            names.push(format!("@{}", path.replace('/', "-")));
        }
        for name in names {
            let manager = UnixDatagram::bind_addr(&address(&name).expect("a name")).expect("free");
            send(&name, "READY=1\n").expect("it is read");
            let mut received = [0; 64];
            let count = manager.recv(&mut received).expect("it was sent");
            assert_eq!(&received[..count], b"READY=1\n");
        }
    }
}
