//! The differences between two configurations.

use switchboard_config::problem::Problem;

/// The effect of [`Host::apply`](crate::Host::apply), by server name.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Changes {
    /// Servers that were added.
    pub started: Vec<String>,
    /// Servers whose definition changed; they are stopped and started again.
    pub restarted: Vec<String>,
    /// Servers that were removed.
    pub stopped: Vec<String>,
    /// Servers that run on unchanged.
    pub kept: Vec<String>,
    /// The problems of the configuration and of its servers. A server with an error does not run.
    pub problems: Vec<Problem>,
}

impl Changes {
    /// The changes of the other servers.
    pub(crate) fn without(mut self, is_left_out: impl Fn(&str) -> bool) -> Changes {
        let Changes { started, restarted, stopped, kept, problems: _ } = &mut self;
        for names in [started, restarted, stopped, kept] {
            names.retain(|name| !is_left_out(name));
        }
        self
    }

    /// Whether no server was started, restarted or stopped.
    pub fn is_empty(&self) -> bool {
        self.started.is_empty() && self.restarted.is_empty() && self.stopped.is_empty()
    }
}
