//! Servers in this process, which an embedding program registers under a name for definitions of type `sdk`.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use switchboard_wire::connect::{Address, ServeFuture};
use switchboard_wire::transport::in_memory::InMemoryTransport;

/// A server in this process. Each connection runs its own session, which ends with the connection.
#[derive(Clone)]
pub struct InProcessServer(Arc<dyn Fn(InMemoryTransport) -> ServeFuture + Send + Sync>);

impl fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcessServer")
    }
}

impl InProcessServer {
    /// A server that serves a transport until the transport ends. The host runs the future. When it closes the
    /// connection, it waits for the future to end, and drops it after a timeout.
    pub fn new<S, F>(serve: S) -> InProcessServer
    where
        S: Fn(InMemoryTransport) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        InProcessServer(Arc::new(move |transport| Box::pin(serve(transport))))
    }

    pub(crate) fn address(&self) -> Address {
        Address::InProcess(self.0.clone())
    }
}
