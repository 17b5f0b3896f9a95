//! Changes, told to every client that listens.

use tokio::sync::broadcast;

/// How many changes may wait for one client. Who falls further behind is told that anything may have changed.
const CHANNEL_CAPACITY: usize = 64;

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerChange {
    /// Which tools there are.
    ToolListChanged,
    /// Which resources there are.
    ResourceListChanged,
    /// One resource.
    ResourceUpdated {
        /// Its address.
        uri: String,
    },
}

/// Tells of changes. Clones tell the same listeners.
#[derive(Debug, Clone)]
pub struct ChangeNotifier(broadcast::Sender<ServerChange>);

impl Default for ChangeNotifier {
    fn default() -> ChangeNotifier {
        ChangeNotifier(broadcast::Sender::new(CHANNEL_CAPACITY))
    }
}

impl ChangeNotifier {
    /// Tells everybody who listens now.
    pub fn notify(&self, change: ServerChange) {
        let _nobody_listens = self.0.send(change);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ServerChange> {
        self.0.subscribe()
    }
}
