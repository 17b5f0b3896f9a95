//! The shared host itself: listens on the socket, runs each program once, and ends when nothing uses it any more.
//! `registry` owns the programs, `program` runs one of them, `connection` serves one client.

mod connection;
mod program;
mod registry;

use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use switchboard_wire::process::WatchdogProgram;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use crate::protocol::Build;
use crate::socket::{BoundSocket, HostFolder, is_own_user};
use connection::ConnectionContext;
use registry::{Phase, Registry};

/// How many clients are served at once.
const MAX_CLIENTS: usize = 1024;
/// The capacity of the queue of the registry.
const EVENT_CAPACITY: usize = 256;
/// How long to wait before the next client is accepted after an error, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The options of a shared host.
pub struct HostOptions {
    /// The folder of the socket.
    pub folder: HostFolder,
    /// The lock of the folder, which this process holds.
    pub lock: OwnedFd,
    /// The build of this process.
    pub build: Build,
    /// The watchdog, which stops the programs when the host is killed.
    pub watchdog: Option<WatchdogProgram>,
    /// Returns a channel for the standard error output of a server.
    pub stderr_sink: StderrSink,
    /// How long the host stays without a program.
    pub linger: Duration,
}

/// Returns a channel for the standard error output of the server of this name.
pub type StderrSink = Arc<dyn Fn(&str) -> mpsc::Sender<Bytes> + Send + Sync>;

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostOptions").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Runs the host until it is stopped, or has nothing to do any more. Programs that still run are stopped.
pub async fn run(options: HostOptions, stop: impl Future<Output = ()>) -> io::Result<()> {
    let HostOptions { folder, lock, build, watchdog, stderr_sink, linger } = options;
    let socket = folder.bind()?;
    info!(build = %build, folder = %folder.path().display(), "shared host started");
    let (events, mut receiver) = mpsc::channel(EVENT_CAPACITY);
    let context = ConnectionContext { build, events };
    let (program_events, mut from_programs) = mpsc::channel(EVENT_CAPACITY);
    let mut registry = Registry::new(program_events, watchdog, stderr_sink);
    let mut connections = JoinSet::new();
    let mut listening = Some(socket);
    tokio::pin!(stop);
    loop {
        let unused_since = registry.unused_since();
        tokio::select! {
            stream = accept(listening.as_ref()), if connections.len() < MAX_CLIENTS => {
                connections.spawn(connection::serve(stream, context.clone()));
            }
            Some(event) = receiver.recv() => registry.on(event),
            Some(event) = from_programs.recv() => registry.on_program(event),
            Some(_) = connections.join_next() => {}
            () = &mut stop => break,
            () = wait_until(unused_since.map(|it| it + linger)) => {
                info!("no server is used any more");
                break;
            }
        }
        if registry.phase() == Phase::Retiring
            && let Some(socket) = listening.take()
        {
            info!("the socket is given up");
            socket.remove_name();
            // A newer host may take over.
            let _still_held = flock(&lock, FlockOperation::Unlock);
        }
        match registry.phase() {
            Phase::Serving => {}
            Phase::Retiring if !registry.is_empty() => {}
            Phase::Retiring | Phase::Stopping => break,
        }
    }
    if let Some(socket) = &listening {
        socket.remove_name();
    }
    drop(listening);
    registry.stop_all(&mut from_programs).await;
    connections.shutdown().await;
    info!("shared host ended");
    Ok(())
}

/// The next client that is a process of this user. Waits forever without a socket.
async fn accept(socket: Option<&BoundSocket>) -> UnixStream {
    let Some(socket) = socket else { return std::future::pending().await };
    loop {
        match socket.listener.accept().await {
            Ok((stream, _)) if is_own_user(&stream) => return stream,
            Ok(_) => warn!("a process of another user was refused"),
            Err(error) => {
                warn!(error = ?error.kind(), "a client could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Waits for a time; forever without one.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
