//! Hands the listening sockets of a gateway over to another process of the same user, so that the other process accepts
//! connections before this one stops. A socket travels beside the response (`SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde_json::{Value as Json, json};
use switchboard::sharing::share::socket::SocketAddress;
use tokio::io::Interest;
use tokio::net::{TcpListener, UnixStream as Stream};
use tokio::sync::Notify;

use super::{TIMEOUT, request_all, request_one};

/// The response that has the socket beside it.
const SOCKET_FOLLOWS: &[u8] = b"{\"socket\":true}\n";

/// The sockets that this process can hand over. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct HandoverSlot {
    offer: Arc<Mutex<Option<Offer>>>,
    /// Notified when another process has taken over.
    stop: Arc<Notify>,
}

/// A socket and its address.
#[derive(Debug, Clone)]
struct OfferedSocket {
    address: SocketAddr,
    socket: Arc<OwnedFd>,
}

/// The sockets that a process offers.
#[derive(Debug, Clone)]
pub struct Offer {
    clients: OfferedSocket,
    /// Where other replicas send requests.
    replicas: Option<OfferedSocket>,
}

/// Which socket of a process is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketRole {
    /// Where clients connect.
    Clients,
    /// Where other replicas connect.
    Replicas,
}

impl SocketRole {
    /// The member of a description that has the address.
    fn member(self) -> &'static str {
        match self {
            SocketRole::Clients => "address",
            SocketRole::Replicas => "replicaAddress",
        }
    }

    /// The request for the socket.
    fn request(self) -> &'static str {
        match self {
            SocketRole::Clients => "take",
            SocketRole::Replicas => "takeReplicas",
        }
    }
}

/// Whether a process stops after its socket was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    /// It finishes its requests and ends.
    Stopping,
    /// It does not respond.
    Unreachable,
}

impl HandoverSlot {
    /// An offer of the socket for clients, and of the one for other replicas if there is one. `None` if the system
    /// refuses: the sockets cannot be handed over then, and everything else works.
    pub fn prepare(clients: &TcpListener, replicas: Option<&TcpListener>) -> Option<Offer> {
        let duplicate = |listener: &TcpListener| {
            let socket = Arc::new(fcntl_dupfd_cloexec(listener, 0).ok()?);
            Some(OfferedSocket { address: listener.local_addr().ok()?, socket })
        };
        Some(Offer { clients: duplicate(clients)?, replicas: replicas.and_then(duplicate) })
    }

    /// Offers sockets to other processes.
    pub fn offer(&self, offer: Option<Offer>) {
        self.set(offer);
    }

    /// Waits until another process has taken over.
    pub async fn handed_over(&self) {
        self.stop.notified().await;
    }

    /// Withdraws the offer. Without it, the socket would stay open while requests finish, and connections would wait in
    /// vain.
    pub fn withdraw(&self) {
        self.set(None);
    }

    fn set(&self, offer: Option<Offer>) {
        *self.offer.lock().unwrap_or_else(PoisonError::into_inner) = offer;
    }

    fn get(&self) -> Option<Offer> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Responds to a request. `None` if the response was sent with the socket.
    pub(super) async fn respond(&self, action: &str, stream: &Stream) -> io::Result<Option<Json>> {
        let Some(Offer { clients, replicas }) = self.get() else { return Ok(Some(json!({}))) };
        let taken = [SocketRole::Clients, SocketRole::Replicas];
        match taken.into_iter().find(|it| it.request() == action) {
            Some(SocketRole::Clients) => return send_socket(stream, &clients).await.map(|()| None),
            Some(SocketRole::Replicas) => {
                return match replicas {
                    Some(replicas) => send_socket(stream, &replicas).await.map(|()| None),
                    None => Ok(Some(json!({}))),
                };
            }
            None => {}
        }
        match action {
            "describe" => {
                let mut offered =
                    json!({SocketRole::Clients.member(): clients.address.to_string()});
                if let Some(replicas) = replicas {
                    offered[SocketRole::Replicas.member()] = replicas.address.to_string().into();
                }
                Ok(Some(offered))
            }
            "stop" => {
                self.stop.notify_one();
                Ok(Some(json!({"stopping": true})))
            }
            _ => Ok(Some(json!({"error": "unknown request"}))),
        }
    }
}

/// Takes the socket at an address over from a running process; `None` if no process of this user offers it. The process
/// goes on accepting connections until [`stop`].
pub fn take(
    folder: &Path,
    role: SocketRole,
    address: SocketAddr,
) -> io::Result<Option<(u32, StdListener)>> {
    let own = std::process::id();
    let offers = request_all(folder, &json!({"handover": "describe"}))?;
    let is_offered = address.to_string();
    let found = offers
        .into_iter()
        .filter(|it| it.process != own)
        .find(|it| it.body[role.member()].as_str() == Some(&is_offered));
    let Some(offer) = found else { return Ok(None) };
    let short = SocketAddress::of(folder)?;
    let mut stream = UnixStream::connect(short.path(&format!("{}.sock", offer.process)))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("{}\n", json!({"handover": role.request()})).as_bytes())?;
    let listener = StdListener::from(receive_socket(&stream)?);
    // The process is of this user, but may have been replaced since it described its offer.
    match listener.local_addr()? == address {
        true => Ok(Some((offer.process, listener))),
        false => Err(io::Error::other("the process handed over another socket")),
    }
}

/// Tells a process that its socket was taken over.
pub fn stop(folder: &Path, process: u32) -> io::Result<StopOutcome> {
    let response = request_one(folder, process, &json!({"handover": "stop"}))?;
    match response.is_some_and(|it| it["stopping"] == true) {
        true => Ok(StopOutcome::Stopping),
        false => Ok(StopOutcome::Unreachable),
    }
}

async fn send_socket(stream: &Stream, offered: &OfferedSocket) -> io::Result<()> {
    let send = || Ok(send_with(stream, SOCKET_FOLLOWS, &offered.socket)?);
    stream.async_io(Interest::WRITABLE, send).await.map(drop)
}

fn send_with(stream: impl AsFd, bytes: &[u8], socket: &OwnedFd) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket.as_fd()];
    // There is room for one.
    let _has_room = ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
    sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)
}

fn receive_socket(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; SOCKET_FOLLOWS.len()];
    let mut slices = [IoSliceMut::new(&mut bytes)];
    recvmsg(stream, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let socket = ancillary.drain().find_map(|message| {
        let RecvAncillaryMessage::ScmRights(mut sockets) = message else { return None };
        sockets.next()
    });
    socket.ok_or_else(|| io::Error::other("the process does not hand its socket over"))
}
