//! All servers at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_config::entry::server::ToolFilter;
use switchboard_config::permission::PermissionRules;

use crate::connection::dedicated::DedicatedHandles;
use crate::connection::handle::ConnectionHandle;
use crate::connection::status::ServerView;

/// All servers at one moment. A snapshot never changes.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Incremented with every change.
    pub revision: u64,
    /// All servers, by name.
    pub servers: BTreeMap<String, Arc<ServerView>>,
    /// The servers of the embedding program, by name. No list shows them.
    pub(crate) embedded: BTreeMap<String, Arc<ServerView>>,
    pub(crate) connections: Arc<BTreeMap<String, ConnectionHandle>>,
    pub(crate) dedicated: Arc<DedicatedHandles>,
    /// The tool filter of each server.
    pub(crate) tool_filters: Arc<BTreeMap<String, ToolFilter>>,
    /// The rules that hide tools.
    pub(crate) rules: Arc<PermissionRules>,
}

impl Snapshot {
    /// Whether no server is being connected.
    pub fn is_settled(&self) -> bool {
        let mut all = self.servers.values().chain(self.embedded_servers());
        all.all(|view| view.status.is_settled())
    }

    /// The servers of the embedding program, whose tools have plain names.
    pub fn embedded_servers(&self) -> impl Iterator<Item = &Arc<ServerView>> {
        self.embedded.values()
    }
}
