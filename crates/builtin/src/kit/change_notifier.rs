//! Broadcasts changes of a server to all connected clients.

use tokio::sync::broadcast;

/// How many changes may be queued for one client. A client that falls further behind is told that everything
/// may have changed.
const CHANNEL_CAPACITY: usize = 64;

/// A change of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerChange {
    /// The list of tools.
    ToolListChanged,
    /// The list of resources.
    ResourceListChanged,
    /// The content of one resource.
    ResourceUpdated {
        /// The URI of the resource.
        uri: String,
    },
}

/// Sends changes. Clones share the receivers.
#[derive(Debug, Clone)]
pub struct ChangeNotifier(broadcast::Sender<ServerChange>);

impl Default for ChangeNotifier {
    fn default() -> ChangeNotifier {
        ChangeNotifier(broadcast::Sender::new(CHANNEL_CAPACITY))
    }
}

impl ChangeNotifier {
    /// Sends a change to all current receivers.
    pub fn notify(&self, change: ServerChange) {
        let _no_receiver = self.0.send(change);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ServerChange> {
        self.0.subscribe()
    }
}
