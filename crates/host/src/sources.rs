//! What comes from outside the host: configuration files, the environment, secrets, commands and the network.
//! Everything here is given its paths and variables by the caller. What the servers do is left to `connection`.

pub mod atomic_file;
pub mod child_env;
pub mod connector_cache;
pub mod desired_server;
pub mod host_env;
pub mod loader;
pub mod network;
pub mod paths;
pub mod project_approvals;
pub mod secrets;
pub(crate) mod shell_command;
pub mod text_file;
pub mod watcher;
