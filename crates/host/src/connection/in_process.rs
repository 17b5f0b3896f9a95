//! Servers in this process: what an embedding program registers under a name, for definitions of type `sdk`.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use switchboard_wire::connect::{Address, ServeFuture};
use switchboard_wire::transport::in_memory::InMemoryTransport;

/// A server in this process. Every connection is a conversation of its own, and ends with it.
#[derive(Clone)]
pub struct InProcessServer(Arc<dyn Fn(InMemoryTransport) -> ServeFuture + Send + Sync>);

impl fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl InProcessServer {
    /// A server that talks over the link it is given until that ends. The host runs the future and waits for its
    /// end when it hangs up; one that goes on after that is dropped.
    pub fn new<S, F>(serve: S) -> InProcessServer
    where
        S: Fn(InMemoryTransport) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        InProcessServer(Arc::new(move |link| Box::pin(serve(link))))
    }

    pub(crate) fn address(&self) -> Address {
        Address::InProcess(self.0.clone())
    }
}
