//! The servers that a configuration wants to run.

use switchboard_config::entry::server::{Fingerprint, ServerSpec};
use switchboard_config::merge::EffectiveConfig;
use switchboard_config::plugin::PluginId;
use switchboard_config::scope::Scope;

/// A server that the host connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredServer {
    /// The command to run or the URL to connect to.
    pub spec: ServerSpec,
    /// The scope of its definition.
    pub scope: Scope,
    /// The hash of its definition.
    pub fingerprint: Fingerprint,
    /// The plugin that it comes from, if it comes from one.
    pub plugin: Option<PluginId>,
}

impl DesiredServer {
    /// The server's name.
    pub fn name(&self) -> &str {
        self.spec.name.as_str()
    }
}

/// The servers of a configuration that may start.
pub fn desired_servers(effective: &EffectiveConfig) -> Vec<DesiredServer> {
    let ready = effective.servers.iter().filter(|server| server.is_ready());
    ready
        .filter_map(|server| {
            Some(DesiredServer {
                spec: server.spec.clone()?,
                scope: server.scope(),
                fingerprint: server.fingerprint.clone()?,
                plugin: server.plugin.clone(),
            })
        })
        .collect()
}
