//! Inputs from outside the host: configuration files, the environment, secrets, commands and the network.
//! Everything here is given its paths and variables by the caller. What the servers do is left to `connection`.

pub mod atomic_file;
pub mod bundles;
pub mod child_env;
pub(crate) mod connector_cache;
pub(crate) mod desired_server;
pub(crate) mod host_env;
pub mod loader;
pub(crate) mod network;
pub(crate) mod paths;
pub mod plugins;
pub(crate) mod program_finder;
pub mod project_approvals;
pub mod secrets;
mod setting_sources;
pub(crate) mod shell_command;
pub mod text_file;
pub(crate) mod watcher;

pub use connector_cache::{
    AccountSummary, Connector, ConnectorList, ListFailure, ListFailureKind, OrganisationPolicy,
    ToolPolicy, cached_connectors,
};
pub use desired_server::{DesiredServer, desired_servers};
pub use host_env::HostEnv;
pub use network::{Certificates, load_certificates};
pub use paths::{PROJECT_FILE, Paths, project_root};
pub use program_finder::InstalledPrograms;
pub use watcher::ConfigWatcher;
