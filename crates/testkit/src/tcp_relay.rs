//! A TCP relay between two programs that tests can cut: connections end, and new ones are accepted and closed, or nothing
//! passes at all until it is healed.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A relay. It ends with the process; its threads wait for their connections.
#[derive(Debug)]
pub struct TcpRelay {
    address: SocketAddr,
    state: Arc<(Mutex<RelayState>, Condvar)>,
}

/// What passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// All.
    Healed,
    /// Connections are closed, also new ones.
    Closed,
    /// Nothing, although connections stay open, as in a network that drops packets.
    Silent,
}

#[derive(Debug)]
struct RelayState {
    cut: Cut,
    connections: Vec<TcpStream>,
}

impl TcpRelay {
    /// A relay to an address, which may not be in use yet.
    pub fn start(target: SocketAddr) -> TcpRelay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = RelayState { cut: Cut::Healed, connections: Vec::new() };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let shared = state.clone();
        thread::spawn(move || {
            for accepted in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || relay(&accepted, target, &state));
            }
        });
        TcpRelay { address, state }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what passes.
    pub fn set(&self, cut: Cut) {
        let (state, changed) = &*self.state;
        let mut state = state.lock().expect("no holder of the lock panics");
        state.cut = cut;
        if cut == Cut::Closed {
            for connection in state.connections.drain(..) {
                let _closed_already = connection.shutdown(Shutdown::Both);
            }
        }
        changed.notify_all();
    }
}

fn relay(client: &TcpStream, target: SocketAddr, state: &Arc<(Mutex<RelayState>, Condvar)>) {
    wait_while_silent(state);
    let Ok(server) = TcpStream::connect(target) else { return };
    let Ok([to_server, from_client, to_client, from_server]) = clones(client, &server) else {
        return;
    };
    {
        let mut state = state.0.lock().expect("no holder of the lock panics");
        if state.cut == Cut::Closed {
            return;
        }
        let kept = [client.try_clone(), server.try_clone()];
        state.connections.extend(kept.into_iter().flatten());
    }
    let other = state.clone();
    let back = thread::spawn(move || copy(from_server, to_client, &other));
    copy(from_client, to_server, state);
    let _panicked = back.join();
}

fn clones(client: &TcpStream, server: &TcpStream) -> io::Result<[TcpStream; 4]> {
    Ok([server.try_clone()?, client.try_clone()?, client.try_clone()?, server.try_clone()?])
}

fn copy(mut from: TcpStream, mut to: TcpStream, state: &Arc<(Mutex<RelayState>, Condvar)>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        wait_while_silent(state);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _closed_already = to.shutdown(Shutdown::Write);
}

fn wait_while_silent(state: &Arc<(Mutex<RelayState>, Condvar)>) {
    let (state, changed) = &**state;
    let state = state.lock().expect("no holder of the lock panics");
    let _healed = changed.wait_while(state, |it| it.cut == Cut::Silent);
}
