//! Worker threads that serve connections. A connection stays on one thread: neither its requests, nor plain HTTP
//! requests to servers on its behalf, wake another thread.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

/// The interval of a timer that is always set. Setting a timer wakes the thread only if it is the next to expire, and the
/// timers of requests expire later than this one. Without it, each request would wake its own thread once more.
const TIMER_TICK: Duration = Duration::from_secs(5);

/// An accepted connection and its slot.
#[derive(Debug)]
struct AcceptedConnection {
    stream: std::net::TcpStream,
    slot: ConnectionSlot,
}

/// The slot of an open connection, counted in the load of its thread.
#[derive(Debug)]
struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
    open_connections: Arc<AtomicUsize>,
}

impl ConnectionSlot {
    fn new(permit: OwnedSemaphorePermit, load: &Arc<AtomicUsize>) -> ConnectionSlot {
        load.fetch_add(1, Ordering::Relaxed);
        ConnectionSlot { _permit: permit, open_connections: load.clone() }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.open_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The worker threads.
#[derive(Debug)]
pub(crate) struct Workers {
    workers: Vec<Worker>,
}

/// One worker thread.
#[derive(Debug)]
struct Worker {
    /// Unbounded, but each connection holds a permit of a semaphore.
    connections: mpsc::UnboundedSender<AcceptedConnection>,
    /// The number of connections of this thread.
    open_connections: Arc<AtomicUsize>,
    /// Completes when the thread has ended.
    finished: oneshot::Receiver<()>,
}

impl Workers {
    /// Starts threads that run `serve` for each connection. At shutdown, open connections have the time `drain` to end.
    pub(crate) fn start<ServeFuture>(
        threads: usize,
        drain: Duration,
        serve: impl Fn(TcpStream) -> ServeFuture + Clone + Send + 'static,
    ) -> io::Result<Workers>
    where
        ServeFuture: Future<Output = ()> + Send + 'static,
    {
        let mut workers = Vec::new();
        for number in 0..threads {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (connection_sender, incoming) = mpsc::unbounded_channel();
            let (finished_sender, finished) = oneshot::channel();
            let load = Arc::new(AtomicUsize::new(0));
            let serve = serve.clone();
            let thread_main = move || {
                run_worker(&runtime, incoming, drain, &serve);
                // Dropped before the signal, so that nothing of the thread is left after it.
                drop((runtime, serve));
                let _no_receiver = finished_sender.send(());
            };
            thread::Builder::new().name(format!("clients-{number}")).spawn(thread_main)?;
            workers.push(Worker {
                connections: connection_sender,
                open_connections: load,
                finished,
            });
        }
        Ok(Workers { workers })
    }

    /// Assigns a connection to the thread with the fewest.
    pub(crate) fn assign(&self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        let Ok(stream) = stream.into_std() else { return };
        // A closed channel means that the thread has panicked.
        let alive = self.workers.iter().filter(|it| !it.connections.is_closed());
        if let Some(worker) = alive.min_by_key(|it| it.open_connections.load(Ordering::Relaxed)) {
            let slot = ConnectionSlot::new(permit, &worker.open_connections);
            let _thread_panicked = worker.connections.send(AcceptedConnection { stream, slot });
        }
    }

    /// Stops accepting connections, and waits until the open ones have ended or the drain timeout is over.
    pub(crate) async fn shutdown(self) {
        let Workers { workers } = self;
        let (senders, all_finished): (Vec<_>, Vec<_>) =
            workers.into_iter().map(|it| (it.connections, it.finished)).unzip();
        drop(senders);
        for finished in all_finished {
            let _thread_panicked = finished.await;
        }
    }
}

fn run_worker<ServeFuture>(
    runtime: &Runtime,
    mut incoming: mpsc::UnboundedReceiver<AcceptedConnection>,
    drain: Duration,
    serve: impl Fn(TcpStream) -> ServeFuture,
) where
    ServeFuture: Future<Output = ()> + Send + 'static,
{
    runtime.block_on(async {
        let mut connections = JoinSet::new();
        let mut timer = interval(TIMER_TICK);
        loop {
            let accepted = tokio::select! {
                accepted = incoming.recv() => accepted,
                _ = timer.tick() => continue,
            };
            let Some(AcceptedConnection { stream, slot }) = accepted else { break };
            while connections.try_join_next().is_some() {}
            // Fails only if the runtime cannot register the socket; the connection is closed then.
            let Ok(stream) = TcpStream::from_std(stream) else { continue };
            let serving = serve(stream);
            connections.spawn(async move {
                serving.await;
                drop(slot);
            });
        }
        let drained = async { while connections.join_next().await.is_some() {} };
        let _some_are_slow = timeout(drain, drained).await;
        connections.shutdown().await;
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;

    use super::*;

    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    /// Both ends of a connection: the client's and the server's.
    async fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let address = listener.local_addr().expect("an address");
        let (client, served) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.expect("a connection"), served.expect("a connection").0)
    }

    async fn read_all(client: &mut TcpStream) -> String {
        let mut text = String::new();
        let read = timeout(TEST_TIMEOUT, client.read_to_string(&mut text)).await;
        read.expect("it is closed").expect("it is read");
        text
    }

    #[tokio::test]
    async fn connections_are_spread_over_all_threads_and_finish_at_shutdown() {
        let workers = Workers::start(3, TEST_TIMEOUT, |mut stream: TcpStream| async move {
            // Until the client sends a byte.
            let _byte = stream.read_u8().await;
            let name = thread::current().name().unwrap_or_default().to_owned();
            stream.write_all(name.as_bytes()).await.expect("the client reads");
        });
        let workers = workers.expect("threads");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let room = Arc::new(Semaphore::new(6));
        let mut clients = Vec::new();
        for _ in 0..6 {
            let (client, served) = pair(&listener).await;
            clients.push(client);
            workers.assign(served, room.clone().try_acquire_owned().expect("there is room"));
        }
        let ending = tokio::spawn(workers.shutdown());
        let mut threads = Vec::new();
        for client in &mut clients {
            client.write_u8(1).await.expect("the worker reads");
            threads.push(read_all(client).await);
        }
        timeout(TEST_TIMEOUT, ending).await.expect("all is done").expect("it ends");
        assert_eq!(threads.iter().collect::<BTreeSet<_>>().len(), 3, "{threads:?}");
        assert_eq!(room.available_permits(), 6, "no connection is left");
    }

    #[tokio::test]
    async fn a_thread_that_has_panicked_gets_no_connections() {
        let workers = Workers::start(2, TEST_TIMEOUT, |mut stream: TcpStream| {
            let name = thread::current().name().unwrap_or_default().to_owned();
            assert_ne!(name, "clients-0", "this thread panics");
            async move { stream.write_all(name.as_bytes()).await.expect("the client reads") }
        });
        let workers = workers.expect("threads");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let room = Arc::new(Semaphore::new(1));
        let mut received = Vec::new();
        for _ in 0..4 {
            let permit = room.clone().acquire_owned().await.expect("it is not closed");
            let (mut client, served) = pair(&listener).await;
            workers.assign(served, permit);
            received.push(read_all(&mut client).await);
            workers.workers[0].connections.closed().await;
        }
        assert_eq!(received, ["", "clients-1", "clients-1", "clients-1"]);
    }

    #[tokio::test]
    async fn connections_are_aborted_after_the_drain_timeout() {
        let workers = Workers::start(1, Duration::from_millis(20), |stream| async move {
            std::future::pending::<()>().await;
            drop(stream);
        });
        let workers = workers.expect("a thread");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let room = Arc::new(Semaphore::new(1));
        let (mut client, served) = pair(&listener).await;
        workers.assign(served, room.clone().try_acquire_owned().expect("there is room"));
        timeout(TEST_TIMEOUT, workers.shutdown()).await.expect("it ends after the drain timeout");
        assert_eq!(read_all(&mut client).await, "");
        assert_eq!(room.available_permits(), 1);
    }
}
