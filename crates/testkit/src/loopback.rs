//! Servers on loopback ports, all on one thread that ends when its handle is dropped.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::thread::JoinHandle;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// A port that nobody answers at yet.
#[derive(Debug)]
pub(crate) struct Port {
    /// The origin, without a slash at its end.
    pub origin: String,
    listener: TcpListener,
}

impl Port {
    /// A free one.
    pub fn open() -> io::Result<Port> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Port { origin: format!("http://{}", listener.local_addr()?), listener })
    }
}

/// The thread that they run on. Dropping it ends all of them and every connection to them.
#[derive(Debug)]
pub(crate) struct Keeper {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Has somebody answer at each port.
    pub fn serve(name: &str, servers: Vec<(Port, Router)>) -> io::Result<Keeper> {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime can be made");
            runtime.block_on(run(servers, stopped));
        })?;
        Ok(Keeper { stop: Some(stop), thread: Some(thread) })
    }
}

async fn run(servers: Vec<(Port, Router)>, stopped: oneshot::Receiver<()>) {
    let mut running = JoinSet::new();
    for (port, router) in servers {
        let listener = tokio::net::TcpListener::from_std(port.listener);
        // Small frames are not to wait for each other.
        let listener = listener.expect("it does not block").tap_io(|stream| {
            let _only_slower = stream.set_nodelay(true);
        });
        running.spawn(async move { axum::serve(listener, router).await });
    }
    let _dropped = stopped.await;
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _has_ended = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
