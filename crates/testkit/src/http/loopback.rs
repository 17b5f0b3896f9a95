//! Servers on loopback ports, all on one thread that ends when its handle is dropped.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::thread::JoinHandle;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// A bound port without a server.
#[derive(Debug)]
pub(crate) struct LoopbackListener {
    /// The origin, without a trailing slash.
    pub origin: String,
    listener: TcpListener,
}

impl LoopbackListener {
    /// Binds a free port.
    pub fn bind() -> io::Result<LoopbackListener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(LoopbackListener { origin: format!("http://{}", listener.local_addr()?), listener })
    }
}

/// The thread that runs the servers. Dropping it ends all of them and every connection to them.
#[derive(Debug)]
pub(crate) struct ServerThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Serves a router at each port.
    pub fn spawn(name: &str, servers: Vec<(LoopbackListener, Router)>) -> io::Result<ServerThread> {
        let (stop, stop_requested) = oneshot::channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime can be made");
            runtime.block_on(serve_all(servers, stop_requested));
        })?;
        Ok(ServerThread { stop: Some(stop), thread: Some(thread) })
    }
}

async fn serve_all(
    servers: Vec<(LoopbackListener, Router)>,
    stop_requested: oneshot::Receiver<()>,
) {
    let mut running = JoinSet::new();
    for (port, router) in servers {
        let listener = tokio::net::TcpListener::from_std(port.listener);
        // Small frames must not wait for each other.
        let listener = listener.expect("it does not block").tap_io(|stream| {
            let _only_slower = stream.set_nodelay(true);
        });
        running.spawn(async move { axum::serve(listener, router).await });
    }
    let _dropped = stop_requested.await;
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _has_ended = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
