//! Which servers a gateway does not serve, and why: those that are not connected, and those that it was told are left out.

use std::sync::Arc;

use switchboard::Snapshot;
use switchboard::connection::Status;
use tokio::sync::watch;

/// The longest list of missing servers.
const MAX_LISTED: usize = 100;

/// A configured server that clients cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingServer {
    /// Its name.
    pub name: String,
    /// Why, without paths of the operator.
    pub reason: String,
}

/// The servers that are left out of the pool, as the program that runs the gateway has set them.
#[derive(Debug)]
pub(crate) struct LeftOutServers {
    publish: watch::Sender<Arc<[MissingServer]>>,
    current: watch::Receiver<Arc<[MissingServer]>>,
}

impl Default for LeftOutServers {
    fn default() -> LeftOutServers {
        let (publish, current) = watch::channel(Arc::from([]));
        LeftOutServers { publish, current }
    }
}

impl LeftOutServers {
    pub(crate) fn set(&self, servers: Vec<MissingServer>) {
        let _we_hold_a_receiver = self.publish.send(servers.into());
    }

    /// The servers of a snapshot that are not connected, and those that are left out.
    pub(crate) fn missing(&self, snapshot: &Snapshot) -> Vec<MissingServer> {
        let unconnected = snapshot.servers.values().filter_map(|view| {
            let reason = match &view.status {
                Status::Connected | Status::Disabled => return None,
                Status::Pending { cause: None, .. } => "it is being connected".to_owned(),
                Status::NeedsAuth(_) => format!("it needs a login: `swb login {}`", view.name),
                Status::Pending { cause: Some(cause), .. }
                | Status::Failed(cause)
                | Status::SessionRefused(cause) => cause.without_paths(),
            };
            Some(MissingServer { name: view.name.clone(), reason })
        });
        unconnected.chain(self.current.borrow().iter().cloned()).take(MAX_LISTED).collect()
    }
}
