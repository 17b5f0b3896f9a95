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
        self.servers.values().all(|view| view.status.is_settled())
    }
}
