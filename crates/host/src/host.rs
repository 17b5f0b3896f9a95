//! [`Host`], the handle that every front end holds. Its methods are in the files of this folder, by topic; they delegate
//! to the rooms that do the work.

mod builder;
mod calls;
mod channels;
mod connectors;
mod ide;
mod logins;
mod pool;
mod requests;
mod resources;
mod server_source;
mod servers;
mod typed_requests;

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::builtin_tools;
use crate::call::context::CallContext;
use crate::call::services::CallServices;
use crate::connection::context::ConnectionContext;
use crate::engine::actor;
use crate::engine::handle::EngineHandle;
use crate::pool::updater;
use crate::pool::updater::{BuiltinTools, PoolReceiver};
use crate::request::send::RequestSender;
use crate::resources::cache;
use crate::resources::cache::ResourceReader;

use crate::engine::options::HostOptions;
use crate::engine::snapshot::Snapshot;
pub use builder::{HostBuilder, StartError};
pub use calls::ToolCallBuilder;
pub use ide::FileUpdate;
pub use pool::pool_from_catalogues;
pub use server_source::{Http, OAuth, ServerSource, Sse, Stdio, WebSocket};

/// The tools that do not come from servers.
fn built_in_tools() -> BuiltinTools {
    BuiltinTools {
        definitions: builtin_tools::definitions(),
        placeholder: builtin_tools::placeholder_item,
    }
}

/// A running host. Clones share it. Call [`Host::shutdown`] at the end: dropping the last clone kills the servers.
#[derive(Debug, Clone)]
pub struct Host {
    services: CallServices,
    pools: PoolReceiver,
    /// The context of [`Host::call`].
    default_context: Arc<OnceLock<CallContext>>,
}

impl Host {
    /// Starts a host without servers, inside a Tokio runtime. The task ends with the host.
    pub fn start(options: HostOptions) -> io::Result<(Host, JoinHandle<()>)> {
        let context = Arc::new(options.into_context()?);
        let (handle, engine) = actor::new(context.clone());
        let (pools, pool_updater) =
            updater::new(handle.watch(), context.retry_policy, built_in_tools());
        let (resource_cache, cache_task) = cache::new(handle.watch());
        let mut workers = JoinSet::new();
        workers.spawn(pool_updater);
        workers.spawn(cache_task);
        let task = engine.spawn(workers);
        let requests = RequestSender::new(handle, context);
        let services = CallServices::new(ResourceReader::new(requests, resource_cache));
        Ok((Host { services, pools, default_context: Arc::default() }, task))
    }

    /// The current snapshot of all servers.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.engine().snapshot()
    }

    /// The current and all later snapshots.
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.engine().watch()
    }

    /// Waits until no server is being connected and the pool contains their tools.
    pub async fn settled(&self) -> Arc<Snapshot> {
        let mut watch = self.watch();
        let snapshot = match watch.wait_for(|it| it.is_settled()).await {
            Ok(snapshot) => snapshot.clone(),
            // The engine has ended, so that nothing changes any more.
            Err(_) => self.snapshot(),
        };
        self.settled_pool().await;
        snapshot
    }

    /// Stops all servers in order, and closes the audit log of [`Host::call`]. Returns when their processes have ended
    /// and the records are written.
    pub async fn shutdown(&self) {
        self.engine().shutdown().await;
        if let Some(context) = self.default_context.get() {
            context.audit.close().await;
        }
    }

    fn engine(&self) -> &EngineHandle {
        self.services.engine()
    }

    fn context(&self) -> &Arc<ConnectionContext> {
        self.services.requests().context()
    }
}
